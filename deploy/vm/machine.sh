# The machine of deploy/vm.sh: its root file system, disk and boots. Sourced, never run.
# shellcheck shell=sh

accel=${MUSTER_VM_ACCEL:-tcg}
if [ -z "${MUSTER_VM_ACCEL:-}" ] && [ -w /dev/kvm ] && grep -Eqw 'vmx|svm' /proc/cpuinfo; then accel=kvm; fi

# What a machine has before Muster comes. containerd is not there: the package brings it. The kernel for clouds starts
# faster; the other one has the drivers of RDMA.
kernel=linux-image-cloud-amd64
base() { echo "systemd,systemd-sysv,$kernel,dbus,udev,kmod,procps,iproute2,ca-certificates,curl,gpgv$more"; }
# More packages of the root file system, each with a comma before it: to install them here is faster than in there.
more=
# Options of the emulator for the devices of a step; its monitor is a fifo then.
devices=
# Options for its network: none. The simplest processor is the one that is emulated fastest.
network='-nic none'
# Those of a second machine, where a step has one.
peer_network=
emulated_cpu=qemu64

# make_root SUITE: a fresh Debian, made once, in $root.
make_root() {
    root=$cache/$1-$(base | tr -d '\n' | sha256sum | cut -c1-8)
    [ ! -e "$root/.made" ] || return 0
    rm -rf "$root"
    debootstrap --variant=minbase --include="$(base)" "$1" "$root" "$mirror" >"$cache/$1.log" 2>&1 || {
        tail -n 5 "$cache/$1.log" >&2
        return 1
    }
    rm -f "$root"/var/cache/apt/archives/*.deb "$root"/etc/apt/sources.list
    echo trial >"$root/etc/hostname"
    # As Debian's installer leaves it.
    printf '127.0.0.1\tlocalhost\n127.0.1.1\ttrial\n' >"$root/etc/hosts"
    # The trial has the serial line for itself.
    ln -sf /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
    cat >"$root/etc/systemd/system/trial.service" <<'UNIT'
[Unit]
After=multi-user.target

[Service]
Type=oneshot
Environment=LC_ALL=C.UTF-8 TERM=dumb
StandardInput=null
StandardOutput=file:/dev/ttyS0
StandardError=file:/dev/ttyS0
WorkingDirectory=/opt/trial
ExecStart=/bin/sh /opt/trial/trial.sh
UNIT
    mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
    ln -sf ../trial.service "$root/etc/systemd/system/multi-user.target.wants/trial.service"
    touch "$root/.made"
}

# bring_packages SUITE NAME PACKAGE...: the suite's packages and what they depend on, kept in the cache below
# NAME, as a repository in a folder; containerd once more with a higher version, to upgrade to.
bring_packages() {
    suite_of=$1
    folder=$cache/$1-$2
    shift 2
    if [ "$(cat "$folder/wanted" 2>/dev/null)" != "$*" ]; then
        rm -rf "$folder"
        mkdir -p "$folder"
        suite_apt "$cache/apt" "$suite_of" apt-get update >"$cache/$suite_of.log" 2>&1
        suite_apt "$cache/apt" "$suite_of" apt-get -o "Dir::State::status=$root/var/lib/dpkg/status" \
            -o "Dir::Cache::archives=$folder" install -y --no-install-recommends --download-only "$@" \
            >>"$cache/$suite_of.log" 2>&1 || { tail -n 5 "$cache/$suite_of.log" >&2; return 1; }
        rm -rf "$folder/partial" "$folder/lock"
        for deb in "$folder"/containerd_*.deb; do [ ! -e "$deb" ] || raise_version "$deb" "$folder"; done
        (cd "$folder" && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)
        echo "$*" >"$folder/wanted"
    fi
    mkdir -p "$work/trial"
    cp -r "$folder" "$work/trial/${folder##*-}"
}

# raise_version DEB DIR: the same package with a higher version.
raise_version() {
    dpkg-deb -R "$1" "$work/raised"
    sed -i 's/^Version: .*/&+trial1/' "$work/raised/DEBIAN/control"
    dpkg-deb -Zgzip -z1 -b "$work/raised" "$2" >/dev/null
    rm -rf "$work/raised"
}

# bring_muster: our own packages in our own signed repository.
bring_muster() {
    debs=${MUSTER_VM_DEBS:-}
    if [ -z "$debs" ]; then
        debs=$work/debs
        sh deploy/build-deb.sh --out "$debs"
        raise_version "$debs"/muster_*.deb "$debs"
    fi
    MUSTER_REPO_URL=file:/opt/trial/repo MUSTER_REPO_GNUPGHOME=$work/key \
        sh deploy/build-apt-repo.sh "$work/trial/repo" "$debs"/*.deb
}

make_disk() {
    disk=$work/disk
    mkdir "$work/root"
    cp -a "$root/." "$work/root/"
    mkdir -p "$work/root/opt"
    mv "$work/trial" "$work/root/opt/trial"
    mke2fs -q -F -t ext4 -d "$work/root" "$disk" "${MUSTER_VM_DISK:-4G}"
    rm -rf "$work/root"
}

# start_machine: boots the disk as it is; what the guest says is in $work/boot. A power cut is the end of the
# emulator: what the guest had not written to its disk is lost then, whether or not the host has it on its own.
start_machine() {
    # The monitor reads what is written to this fifo. It is open for both, so that no end of it waits.
    [ -p "$work/monitor" ] || mkfifo "$work/monitor"
    exec 8<>"$work/monitor"
    emulate "$disk" "$work/boot" main $network <&8 >"$work/monitor.said" &
    vm=$!
}

# emulate DISK CONSOLE ROLE [OPTION...]: becomes the emulator.
emulate() {
    emulated_disk=$1
    console=$2
    role=$3
    shift 3
    cpu=host
    case $accel in tcg*) accel=tcg,thread=multi cpu=$emulated_cpu ;; esac
    # shellcheck disable=SC2086 # one word per option
    exec qemu-system-x86_64 -accel "$accel" -cpu "$cpu" -smp "${MUSTER_VM_CPUS:-2}" -m "${MUSTER_VM_MB:-3072}" \
        -display none -monitor stdio "$@" -no-reboot -serial "file:$console" $devices \
        -kernel "$(ls "$root"/boot/vmlinuz-* | tail -n 1)" -initrd "$(ls "$root"/boot/initrd.img-* | tail -n 1)" \
        -append "console=ttyS0 root=/dev/vda rw quiet loglevel=3 systemd.show_status=false trial=$role" \
        -drive "file=$emulated_disk,format=raw,if=none,id=root,cache=unsafe" \
        -device "virtio-blk-pci,drive=root${devices:+,bus=pcie.0}"
}

# run_machine: boots the machine again and again until the trial has ended. The guest says on its console
# what is to happen: END with an exit code, or POWER to be killed at once.
run_machine() {
    deadline=$(($(date +%s) + ${MUSTER_VM_SECONDS:-1500}))
    shown=0
    unplugged=0
    browsed=0
    while :; do
        : >"$work/boot"
        start_machine
        [ -z "$peer_network" ] || start_peer
        while kill -0 "$vm" 2>/dev/null; do
            show_new
            if grep -q '^TRIAL POWER' "$work/said"; then
                kill -9 "$vm"
                break
            fi
            unplug_new
            browse_new
            if [ "$(date +%s)" -gt "$deadline" ]; then
                kill -9 "$vm"
                echo "vm.sh: the trial did not end in time" >&2
                return 1
            fi
            sleep 0.5
        done
        wait "$vm" 2>/dev/null || true
        vm=
        show_new
        code=$(sed -n 's/^TRIAL END \([0-9]*\).*/\1/p' "$work/said")
        [ -z "$code" ] || return "$code"
        grep -q '^TRIAL \(POWER\|REBOOT\)' "$work/said" || {
            echo "vm.sh: the machine stopped before the trial ended; the end of its console:" >&2
            tail -n 20 "$work/boot" >&2
            return 1
        }
        shown=0
    done
}

# show_new: prints the lines of this boot that have not been printed yet.
show_new() {
    tr -d '\r' <"$work/boot" | sed -n 's/.*TRIAL: //p; /^TRIAL /p' >"$work/said"
    lines=$(wc -l <"$work/said")
    [ "$lines" -le "$shown" ] || sed -n "$((shown + 1)),${lines}p" "$work/said"
    shown=$lines
}

# unplug_new: takes the devices out that the guest has asked for since, as a hand at the machine would.
unplug_new() {
    for device in $(sed -n 's/^TRIAL UNPLUG //p' "$work/said" | tail -n +$((unplugged + 1))); do
        echo "device_del $device" >&8
        unplugged=$((unplugged + 1))
    done
}

# two_machines: a second machine with the same disk, on a network with the first; the host reaches the pages of both, and
# tells the first one what its browser has seen.
two_machines() {
    # No other trial of this machine has them.
    first_port=$((20000 + $$ % 10000 * 3))
    lan="id=lan,localaddr=127.0.0.1,mcast=230.7.7.1:$first_port"
    host="id=host,restrict=on,hostfwd=tcp:127.0.0.1"
    network="-netdev socket,$lan -device virtio-net-pci,netdev=lan,mac=52:54:00:00:07:01"
    network="$network -netdev user,$host:$first_port-:7741,hostfwd=tcp:127.0.0.1:$((first_port + 2))-:9000"
    network="$network -device virtio-net-pci,netdev=host,mac=52:54:00:00:08:01"
    peer_network="-netdev socket,$lan -device virtio-net-pci,netdev=lan,mac=52:54:00:00:07:02"
    peer_network="$peer_network -netdev user,$host:$((first_port + 1))-:7741"
    peer_network="$peer_network -device virtio-net-pci,netdev=host,mac=52:54:00:00:08:02"
}

# start_peer: the second machine, beside the first; what it says is in $work/peer-boot.
start_peer() {
    cp --sparse=always "$disk" "$work/peer-disk"
    # shellcheck disable=SC2086 # one word per option
    emulate "$work/peer-disk" "$work/peer-boot" peer $peer_network </dev/null >/dev/null 2>&1 &
    peer=$!
}

# browse_new: looks at what the guest wants to be looked at, with a browser of the host, and tells the guest.
browse_new() {
    line=$(sed -n 's/^TRIAL BROWSE //p' "$work/said" | tail -n +$((browsed + 1)) | head -n 1)
    [ -n "$line" ] || return 0
    browsed=$((browsed + 1))
    # shellcheck disable=SC2086 # node, place, steps, password
    set -- $line
    verdict=$(NODE_PATH=target/browser/node_modules node tests/browser/board.cjs \
        "https://127.0.0.1:$((first_port + $1 - 1))" "$2" "$3" "$4" "${MUSTER_SCREENSHOTS:-}" 2>&1 | tail -n 1)
    echo "$verdict" | busybox nc 127.0.0.1 $((first_port + 2))
}
