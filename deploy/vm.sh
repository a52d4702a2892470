#!/bin/sh
# Tries the package in a virtual machine with a fresh Debian: installed by apt from a repository of our own,
# used, upgraded, rebooted, cut from power, removed and purged. Prints a line with its time for every step.
#
# Usage: sh deploy/vm.sh [--steps LIST] [bookworm|trixie|sid]      (default: trixie, all steps)
#        sh deploy/vm.sh --list                                     the steps
#        sh deploy/vm.sh --steps compare                            instead: until the first job has run, beside Slurm
#        sh deploy/vm.sh --steps docs                               instead: docs/install.md, word for word
#        sh deploy/vm.sh --steps hardware                           instead: NUMA, PCIe switches, RDMA, faults of them
#        sh deploy/vm.sh --steps storages                           instead: NFS and Samba, used by tasks, and away
#        sh deploy/vm.sh --steps training                           instead: two machines, a training job that moves
#
# MUSTER_VM_DEBS   a folder with two packages of different versions; default: made by deploy/build-deb.sh
# MUSTER_VM_CACHE  where the root of each release is kept; default: target/vm
# MUSTER_VM_ACCEL  kvm, or tcg for software emulation; default: kvm where the processor has it
#
# Needs root. The virtual machine has no network: all packages are brought along.
set -eu
cd "$(dirname "$0")/.."
. deploy/debian-packages.sh
. deploy/vm/machine.sh
. deploy/vm/hardware.sh

steps='install hello devices memory stop upgrade reload engine reboot power remove purge'
suite=trixie
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,18s/^# \{0,1\}//p' "$0"; exit 0 ;;
        --list) echo "$steps" | tr ' ' '\n'; exit 0 ;;
        --steps) steps=$(echo "${2:?--steps needs a list}" | tr ',' ' '); shift ;;
        bookworm | trixie | sid) suite=$1 ;;
        *) echo "vm.sh: $1 is neither an option nor bookworm, trixie or sid; see --help" >&2; exit 2 ;;
    esac
    shift
done
[ "$(id -u)" -eq 0 ] || { echo "vm.sh: making a root file system needs root" >&2; exit 1; }
sh deploy/install.sh debootstrap:debootstrap qemu-system-x86_64:qemu-system-x86 mke2fs:e2fsprogs \
    dpkg-scanpackages:dpkg-dev gpg:gnupg busybox:busybox-static
mirror=$(debian_mirror)
[ -n "$mirror" ] || { echo "vm.sh: no Debian mirror is known here; set MUSTER_DEBIAN_MIRROR" >&2; exit 1; }
cache=${MUSTER_VM_CACHE:-$PWD/target/vm}
mkdir -p "$cache"
work=$(mktemp -d "$cache/run.XXXXXX")
vm=
peer=
# shellcheck disable=SC2086 # one word per process
trap 'status=$?; trap - EXIT; [ -z "$vm$peer" ] || kill -9 $vm $peer 2>/dev/null; rm -rf "$work"; exit $status' \
    EXIT INT TERM

case " $steps " in *' hardware '*)
    kernel=linux-image-amd64 devices=$(hardware_devices)
    MUSTER_VM_CPUS=8
    steps='hardware_install hardware_inventory hardware_levels hardware_fabric hardware_unplug hardware_cpus'
    ;;
esac
# The kernel for clouds has no NFS server.
case " $steps " in *' storages'*) kernel=linux-image-amd64 more=,nfs-kernel-server,nfs-common,samba,cifs-utils ;; esac
case " $steps " in *' storages '*)
    steps='storages_install storages_nfs storages_squash storages_samba storages_files storages_refused storages_full'
    steps="$steps storages_away storages_restarted storages_idle"
    ;;
esac
case " $steps " in *' training '*)
    # What Muster and the steps need is there already: how it is installed is tried elsewhere.
    kernel=linux-image-amd64 more=,nfs-kernel-server,nfs-common,containerd,runc,adduser,nftables,jq,busybox
    # numpy needs more of a processor.
    emulated_cpu=Nehalem-v1
    steps='training_install training_runs training_board training_preempted training_continues training_ends'
    # Two emulated machines on a small one take their time.
    : "${MUSTER_VM_SECONDS:=5400}"
    two_machines
    sh deploy/browser.sh
    sh deploy/examples/checkpoint/image.sh "$cache/checkpoint.tar"
    ;;
esac
echo "==> $suite: the root file system"
make_root "$suite"
bring_packages "$suite" engine containerd runc crun adduser wget busybox nftables jq
case " $steps " in *' compare '*) bring_packages "$suite" slurm slurm-wlm ;; esac
echo "==> the packages"
bring_muster
sh deploy/busybox-image.sh muster/busybox "$work/trial/busybox.tar"
cp deploy/examples/hello.yaml docs/install.md README.md "$work/trial/"
for script in trial steps compare docs hardware storages training; do cp "deploy/vm/$script.sh" "$work/trial/"; done
echo "$steps" >"$work/trial/steps"
if [ -n "$peer_network" ]; then
    cp "$cache/checkpoint.tar" "$work/trial/"
    cp deploy/examples/checkpoint/job.yaml "$work/trial/training.yaml"
    echo peer_joins >"$work/trial/steps-peer"
fi
make_disk
echo "==> starting the virtual machine ($accel)"
run_machine
