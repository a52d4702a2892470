# The steps `hardware` of deploy/vm.sh: a machine of four NUMA nodes with PCIe switches and ten devices on a real
# kernel, soft-RoCE, and faults while tasks run. The devices are emulated NVMe controllers: a rule file says that they
# compute. Sourced by vm.sh, which makes the machine, and by trial.sh.
# shellcheck shell=sh

# hardware_devices: the emulator's options. NUMA node 0 has two switches, the others one each; a switch has two
# devices, acc0 to acc9.
hardware_devices() {
    printf -- '-machine q35 '
    slot=0
    for node in 0 1 2 3; do
        printf -- '-object memory-backend-ram,id=mem%d,size=%dM ' "$node" $((${MUSTER_VM_MB:-3072} / 4))
        printf -- '-numa node,nodeid=%d,memdev=mem%d,cpus=%d-%d ' "$node" "$node" $((node * 2)) $((node * 2 + 1))
        printf -- '-device pxb-pcie,id=pxb%d,bus=pcie.0,bus_nr=%d,numa_node=%d ' "$node" $((32 * (node + 1))) "$node"
        switches=1
        [ "$node" -gt 0 ] || switches=2
        while [ "$switches" -gt 0 ]; do
            switches=$((switches - 1))
            hardware_switch
        done
    done
}

# hardware_switch: one switch below the root of $node, with the next two devices.
hardware_switch() {
    printf -- '-device pcie-root-port,id=root%d,bus=pxb%d,chassis=%d,slot=0 ' "$slot" "$node" $((100 + slot))
    printf -- '-device x3130-upstream,id=up%d,bus=root%d ' "$slot" "$slot"
    for down in "$slot" $((slot + 1)); do
        printf -- '-device xio3130-downstream,id=down%d,bus=up%d,chassis=%d,slot=0 ' "$down" "$slot" $((200 + down))
        printf -- '-device nvme,id=acc%d,serial=acc%d,bus=down%d ' "$down" "$down" "$down"
    done
    slot=$((slot + 2))
}

inventory() { muster node inventory -o json | jq -r "$1"; }

step_hardware_install() {
    own_archives
    apt-get install -y --no-install-recommends muster jq busybox
    mkdir -p /etc/muster/devices.d
    cat >/etc/muster/devices.d/trial.toml <<'RULE'
[[rule]]
vendor = "qemu"
kind = "gpu"
pci = ["1b36"]
classes = ["0108"]
driver = "nvme"
driver_entries = ["sys/class/nvme/nvme*"]
files = ["/dev/nvme{n}"]

[rule.models]
0010 = "Trial"
RULE
    sed -i 's/^# cpu_overcommit = .*/cpu_overcommit = 8.0/; s/^# memory_overcommit = .*/memory_overcommit = 4.0/' \
        /etc/muster/agent.toml
    systemctl restart muster
    wait_for "the agent" 60 muster node show
    muster image import busybox.tar
}

# What the kernel's files say, line by line beside what the inventory says.
step_hardware_inventory() {
    for device in /sys/class/nvme/nvme*; do
        echo "$(basename "$(readlink -f "$device/device")") $(cat "$device/device/numa_node")"
    done | sort >marks/kernel
    inventory '.devices[] | "\(.pci) \(.numa)"' | sort >marks/inventory
    diff marks/kernel marks/inventory
    for node in 0 1 2 3; do
        echo "$node $(ls -d /sys/devices/system/node/node"$node"/cpu[0-9]* | wc -l)"
    done >marks/kernel
    inventory '.numa[] | "\(.id) \(.cpus)"' >marks/inventory
    diff marks/kernel marks/inventory
    detail "$(inventory '"\(.devices | length) devices, \(.numa | length) NUMA nodes, \(.cpus) CPUs"')"
    [ "$(inventory '"\(.devices | length) \(.numa | length) \(.cpus)"')" = '10 4 8' ]
}

# The devices of a switch are a group of two, those of a NUMA node one of four or two.
step_hardware_levels() {
    muster node topology
    muster node topology -o yaml >marks/cells
    grep 'cellType:' marks/cells | sort | uniq -c
    detail "$(inventory '[.levels[] | "\(.level) of \(.groups | map(length) | sort | map(tostring) | join(" "))"] | join(", ")')"
    [ "$(inventory '[.levels[] | .groups | map(length) | sort | map(tostring) | join(" ")] | join(", ")')" = \
        '2 2 2 4, 2 2 2 2 2' ]
    for number in $(inventory '.levels[1].groups[] | map(tostring) | join(",")'); do
        switches=$(for device in $(echo "$number" | tr , ' '); do
            # Above the device its port of the switch, and above that the switch.
            pci=$(inventory ".devices[$device].pci")
            readlink -f "/sys/bus/pci/devices/$pci/../.."
        done | sort -u | wc -l)
        [ "$switches" = 1 ]
    done
    [ "$(grep -c 'cellType: Trial-PCIE-2$' marks/cells)" = 5 ]
}

# health_of PART: the state of a part's check, as the agent tells it.
health_of() { muster node health --all | grep -w "$1" || true; }

# A port of RDMA on a network card that goes down and comes up again.
step_hardware_fabric() {
    # The usual four minutes are for switches that start again, and ten pass until a port is trusted again.
    printf '[limits]\nport_drop_s = 5\n\n[rule.port-down]\nsticky_s = 5\n' >/etc/muster/health.toml
    modprobe rdma_rxe
    ip link add d0 type dummy
    ip link set d0 up
    rdma link add rxe0 type rxe netdev d0
    ls /sys/class/infiniband/rxe0 /sys/class/infiniband/rxe0/ports/1
    port() { inventory '.fabric[] | select(.device == "rxe0") | "\(.link_layer) \(.state)"'; }
    port
    [ "$(port)" = "Ethernet ACTIVE" ]
    wait_for "the agent to have seen the port" 60 eval 'health_of rxe0/1 | grep -i good'
    ip link set d0 down
    [ "$(port)" = "Ethernet DOWN" ]
    wait_for "the fault of the port" 60 eval 'health_of rxe0/1 | grep -i bad'
    detail "$(health_of rxe0/1 | grep -i bad | tr -s ' ')"
    ip link set d0 up
    wait_for "the port to be well" 90 eval '! health_of rxe0/1 | grep -i bad'
    rdma link delete rxe0
    wait_for "the port to be missed" 90 eval 'muster node show | grep "rxe0.*muster node accept"'
    detail "$(muster node show | grep 'rxe0.*muster node accept' | tr -s ' ')"
    muster node accept
    wait_for "nothing to be missed" 60 eval '! muster node show | grep -i rxe0'
}

# held NAME: the emulator's names of the devices of a job's task.
held() {
    for number in $(muster job logs "$1" | sed -n 's/^on: //p' | tail -n 1); do
        sed 's/ *$//' "/sys/class/nvme/nvme$number/serial"
    done
}

# field JOB ATTEMPT FILTER: of the job's detail.
field() { muster job show "$1" ${2:+--attempt "$2"} -o json | jq -r "$3"; }

# A device is pulled out under a task. The task ends and runs elsewhere without charge; its neighbour goes on.
step_hardware_unplug() {
    command='echo "on: $(ls /dev | sed -n "s/^nvme//p" | tr "\n" " ")"; '$counting
    job beside 2 1 "$command"
    job pulled 2 1 "$command"
    wait_for "the first job" 90 logged beside 'tick 2'
    wait_for "the second job" 90 logged pulled 'tick 2'
    gone=$(held pulled | head -n 1)
    detail "pulled has $(held pulled | tr '\n' ' ')beside has $(held beside | tr '\n' ' ')"
    [ -n "$gone" ]
    began=$(now)
    echo "TRIAL UNPLUG $gone" >/dev/ttyS0
    wait_for "the kernel to let go of the device" 60 eval "! cat /sys/class/nvme/nvme*/serial | grep -qw $gone"
    detail "the kernel let go of $gone after $((($(now) - began) / 100)) s"
    wait_for "the second attempt" 90 eval '[ "$(field pulled "" .attempt.id)" = 1 ]'
    wait_for "its task" 90 logged pulled 'tick 2'
    wait_for "its devices" 30 eval '[ -n "$(held pulled)" ]'
    detail "it runs again after $((($(now) - began) / 100)) s on $(held pulled | tr '\n' ' ')"
    ! held pulled | grep -w "$gone"
    field pulled 0 .attempt.verdict
    detail "verdict $(field pulled 0 '.attempt.verdict.spec | "\(.code) \(.phrase)"'), retries $(field pulled "" \
        '.summary.retries | "\(.total), charged \(.accountable)"')"
    [ "$(field pulled 0 .attempt.verdict.spec.code)" = 211 ]
    [ "$(field pulled "" '.summary.retries | "\(.total) \(.accountable)"')" = '1 0' ]
    goes_on beside
    [ "$(inventory '.devices | length')" = 9 ]
    muster node show
    muster job stop beside --wait
    muster job stop pulled --wait
}

# A CPU goes offline: it is missed until the machine is accepted without it.
step_hardware_cpus() {
    echo 0 >/sys/devices/system/cpu/cpu7/online
    [ "$(inventory .cpus)" = 7 ]
    wait_for "the agent to miss the CPU" 90 eval 'muster node show | grep "8 CPUs, of which 7"'
    detail "$(muster node show | grep 'of which 7' | tr -s ' ')"
    muster node accept
    wait_for "nothing to be missed" 60 eval '! muster node show | grep "of which 7"'
    echo 1 >/sys/devices/system/cpu/cpu7/online
    [ "$(inventory .cpus)" = 8 ]
}
