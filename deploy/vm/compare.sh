# The step `compare` of deploy/vm.sh: from `apt install` to the end of the first job, with Muster and with
# Slurm, both from packages on the machine's own disk. Prints one JSON line. Sourced by trial.sh.
# shellcheck shell=sh

# packages_now FILE: the installed packages with their sizes in KiB.
packages_now() { dpkg-query -W -f '${Package} ${Version} ${Installed-Size}\n' | LC_ALL=C sort >"$1"; }

# per NUMBER UNIT: how many units, with one digit after the point.
per() { awk -v number="$1" -v unit="$2" 'BEGIN {printf "%.1f", number / unit}'; }
# sum: of the numbers on standard input.
sum() { awk '{sum += $1} END {print sum + 0}'; }

# packed_sizes: of the packages on standard input, in bytes, as the archives that they came from say.
packed_sizes() {
    while read -r package version _; do
        apt-cache show "$package=$version" | sed -n 's/^Size: //p' | head -n 1
    done
}

# timed_install NAME COMMANDS FILES FUNCTION: runs FUNCTION, which installs and ends with the first job's end,
# and writes what it took as JSON members to marks/NAME.
timed_install() {
    packages_now marks/before
    began=$(now)
    "$4"
    took=$(($(now) - began))
    packages_now marks/after
    LC_ALL=C comm -13 marks/before marks/after >marks/new
    {
        printf '"%s_commands": %s, "%s_files_edited": %s, ' "$1" "$2" "$1" "$3"
        printf '"%s_s": %s, "%s_packages": %s, ' "$1" "$(per "$took" 100)" "$1" "$(wc -l <marks/new)"
        printf '"%s_download_mb": %s, ' "$1" "$(per "$(packed_sizes <marks/new | sum)" 1000000)"
        printf '"%s_installed_mb": %s' "$1" "$(per "$(cut -d' ' -f3 marks/new | sum)" 976.5625)"
    } >"marks/$1"
}

apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }

# Three commands, no file: install, import an image (where there is no registry), run.
first_with_muster() {
    apt_install muster crun
    muster image import busybox.tar
    muster run --image muster/busybox -- echo 'first with muster'
}

# As the Quick Start Administrator Guide of Slurm says, for one machine: munge with the key that Debian's package
# makes, slurm.conf by hand, the directories that it names, the daemons, `srun`. Five commands, one file.
first_with_slurm() {
    apt_install slurm-wlm
    cat >/etc/slurm/slurm.conf <<'CONF'
ClusterName=trial
SlurmctldHost=trial
AuthType=auth/munge
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=1
NodeName=trial CPUs=2 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
    install -d -o slurm -g slurm /var/spool/slurmctld
    systemctl enable --now munge
    systemctl restart slurmctld slurmd || { journalctl -b -u slurmctld -u slurmd -n 25 --no-pager -o cat; return 1; }
    srun sh -c 'echo first with slurm'
}

step_compare() {
    # Both are on the disk, and the lists are read: what is timed starts at `apt install`.
    own_archives
    # Slurm's daemons do not listen on a machine that has loopback alone.
    ip link add dummy0 type dummy
    ip address add 192.0.2.1/24 dev dummy0
    ip link set dummy0 up
    timed_install muster 3 0 first_with_muster
    timed_install slurm 5 1 first_with_slurm
    detail "{\"bench\": \"first-job\", $(cat marks/muster), $(cat marks/slurm)}"
}
