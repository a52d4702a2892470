# The step `hardware` of deploy/vm.sh: a machine of four NUMA nodes with PCIe switches and ten devices on a real
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

step_hardware() {
    for part in install inventory levels fabric unplug cpus; do run_step "hardware_$part"; done
    [ ! -e marks/failed ]
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
    [ "$(wc -l <marks/inventory)" = 10 ]
    [ "$(inventory .cpus)" = 8 ]
    [ "$(inventory '.numa | length')" = 4 ]
    for node in 0 1 2 3; do
        [ "$(inventory ".numa[$node].cpus | tostring")" = "[$((node * 2)),$((node * 2 + 1))]" ] ||
            [ "$(inventory ".numa[$node].cpus")" = "$((node * 2))-$((node * 2 + 1))" ]
    done
    detail "$(inventory '"\(.devices | length) devices, \(.numa | length) NUMA nodes"')"
}

step_hardware_levels() {
    inventory '.levels'
    muster node topology
    muster node topology -o yaml
    muster node show
    muster node show | grep 'Trial-NODE-10-NUMA-4+2x3-PCIE-2'
}

# A port of RDMA on a network card that goes down and comes up again.
step_hardware_fabric() {
    modprobe rdma_rxe
    ip link add d0 type dummy
    ip link set d0 up
    rdma link add rxe0 type rxe netdev d0
    port() { inventory ".fabric[] | select(.device == \"rxe0\") | \"\(.link_layer) \(.state)\""; }
    port
    [ "$(port)" = "Ethernet ACTIVE" ]
    wait_for "the agent to have seen the port" 60 eval 'muster node health | grep -i rxe0'
    ip link set d0 down
    port
    [ "$(port)" = "Ethernet DOWN" ]
    wait_for "the fault of the port" 60 eval 'muster node health | grep -i "rxe0.*bad"'
    muster node health | grep rxe0
    ip link set d0 up
    wait_for "the port to be well" 90 eval '! muster node health | grep -i "rxe0.*bad"'
    muster node health | grep -i rxe0 || true
    rdma link delete rxe0
    wait_for "the port to be missed" 60 eval 'muster node show | grep -i rxe0'
    muster node show | grep -i rxe0
    muster node accept
    ! muster node show | grep -i rxe0
}

# held NAME: the emulator's names of the devices of a job's task.
held() {
    for number in $(muster job logs "$1" | sed -n 's/^on: //p' | tail -n 1); do
        sed 's/ *$//' "/sys/class/nvme/nvme$number/serial"
    done
}

# A device is pulled out under a task. The task ends and runs elsewhere; its neighbour goes on.
step_hardware_unplug() {
    command='echo "on: $(ls /dev | sed -n "s/^nvme//p" | tr "\n" " ")"; '$counting
    job beside 2 1 "$command"
    job pulled 2 1 "$command"
    wait_for "the first job" 90 logged beside 'tick 2'
    wait_for "the second job" 90 logged pulled 'tick 2'
    gone=$(held pulled | head -n 1)
    detail "pulled has $(held pulled | tr '\n' ' '), beside has $(held beside | tr '\n' ' ')"
    [ -n "$gone" ]
    began=$(now)
    echo "TRIAL UNPLUG $gone" >/dev/ttyS0
    wait_for "the kernel to let go of the device" 60 eval "! cat /sys/class/nvme/nvme*/serial | grep -qw $gone"
    detail "the kernel let go of it after $((($(now) - began) / 100)) s"
    wait_for "the second attempt" 90 eval '[ "$(muster job logs pulled | grep -c "^on:")" -ge 1 ] && muster job show pulled -o json | grep -q "\"attempts\|retr"'
    muster job show pulled
    muster job show pulled -o json
    muster node show
    goes_on beside
    [ "$(inventory '.devices | length')" = 9 ]
    muster job stop beside --wait
    muster job stop pulled --wait
}

step_hardware_cpus() {
    echo 0 >/sys/devices/system/cpu/cpu7/online
    [ "$(inventory .cpus)" = 7 ]
    wait_for "the agent to miss the CPU" 60 eval 'muster node show | grep -i "cpu"'
    muster node show
    muster node accept
    muster node show
    echo 1 >/sys/devices/system/cpu/cpu7/online
    [ "$(inventory .cpus)" = 8 ]
}
