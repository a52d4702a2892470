# What the trial of deploy/vm.sh does in the virtual machine, a function for each step. A step fails where a
# command of it fails. Sourced by trial.sh.
# shellcheck shell=sh

# job NAME GPUS INSTANCES COMMAND [MEMORY_MB [MORE]]: submits a job of the small image; MORE is more of its document.
job() {
    cat >"marks/$1.yaml" <<YAML
protocolVersion: 2
name: $1
type: job
prerequisites: [{type: dockerimage, name: busybox, uri: muster/busybox}]
taskRoles:
  worker:
    instances: $3
    completion: {minFailedInstances: 1, minSucceededInstances: $3}
    dockerImage: busybox
    resourcePerInstance: {cpu: 1, memoryMB: ${5:-64}, gpu: $2}
    commands:
    - |
$(echo "$4" | sed 's/^/      /')
${6:-}
YAML
    muster job submit "marks/$1.yaml"
}

state() { muster job show "$1" -o json | sed -n 's/^ *"state": "\([A-Z]*\)".*/\1/p' | head -n 1; }
is() { [ "$(state "$1")" = "$2" ]; }
detail() { echo "detail: $*"; }
logged() { muster job logs "$1" | grep -q "$2"; }

# A task that counts, so that a gap or a second start shows.
counting='i=0; while true; do i=$((i + 1)); echo "tick $i"; sleep 1; done'
# goes_on JOB: whether it ticks on from where it was, started once.
goes_on() {
    before=$(muster job logs "$1" | grep -c tick)
    wait_for "the next tick of $1" 30 more_ticks "$1" "$before"
    [ "$(muster job logs "$1" | grep -cx 'tick 1')" = 1 ]
}
more_ticks() { [ "$(muster job logs "$1" | grep -c tick)" -gt "$2" ]; }

installed_version() { dpkg-query -W -f '${Version}' "$1"; }
versions() { apt-cache madison "$1" | awk '{print $3}' | sort -uV; }
agent_pid() { systemctl show -p MainPID --value muster; }

# own_archives: the machine's packages come from the folders that vm.sh brought.
own_archives() {
    cp repo/muster.sources /etc/apt/sources.list.d/
    for archive in engine slurm; do
        [ -e "$archive/Packages" ] || continue
        printf 'Types: deb\nURIs: file:/opt/trial/%s\nSuites: ./\nTrusted: yes\n' "$archive" \
            >"/etc/apt/sources.list.d/$archive.sources"
    done
    # What the machine is to be upgraded to comes later.
    printf 'Package: muster containerd\nPin: version *+trial1\nPin-Priority: -1\n' >/etc/apt/preferences.d/trial
    # Emulated disks are slow, and nobody cuts the power while dpkg is at work.
    echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/trial
    apt-get update
}

step_install() {
    own_archives
    before=$(now)
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends muster crun >marks/apt 2>&1 ||
        { cat marks/apt; return 1; }
    detail "apt $((($(now) - before) / 100)) s"
    cat marks/apt
    tail -n 1 marks/apt | grep -q muster
    [ "$(installed_version muster)" = "$(versions muster | head -n 1)" ]
    systemctl is-active muster containerd
    before=$(now)
    wait_for "the agent" 20 muster node show
    detail "the agent answers $((($(now) - before) / 100)) s later"
    detail "last line: $(tail -n 1 marks/apt)"
    # A trial machine has no GPUs: two are made up, and tasks share its cores.
    sed -i 's/^# simulate = .*/simulate = "2xV100"/; s/^# cpu_overcommit = .*/cpu_overcommit = 8.0/
        s/^# memory_overcommit = .*/memory_overcommit = 4.0/' /etc/muster/agent.toml
    systemctl restart muster
    muster image import busybox.tar
    muster node show
}

step_hello() {
    muster job submit --wait hello.yaml
    muster job logs hello | grep -q 'their sum is 63'
    detail "$(muster node show | grep -io 'containerd.*' | head -n 1)"
}

step_devices() {
    job gang 1 2 'echo "on $NVIDIA_VISIBLE_DEVICES $PAI_TASK_INDEX"'
    muster job wait gang
    [ "$(muster job logs gang | sed -n 's/.*on \([^ ]*\) .*/\1/p' | sort -u | wc -l)" = 2 ]
}

step_memory() {
    job memory 0 1 'exec tail -c 200m /dev/zero' 32
    ! muster job wait memory
    is memory FAILED
    muster job show memory | grep -i memory
    muster job show memory -o json | grep -q UserContainerDockerOOMKilled
}

step_stop() {
    # The program that saves is not the shell that started it.
    job saves 0 1 'cat >save.sh <<"X"
trap "echo saving; sleep 3; echo saved; exit 0" TERM
echo ready
while true; do sleep 0.1; done
X
sh save.sh
echo after'
    wait_for "the program" 30 logged saves ready
    before=$(now)
    muster job stop saves --wait
    detail "$((($(now) - before) / 100)) s"
    logged saves '^saved'
}

# upgrade_to VERSION: by apt; tasks go on, and the agent is another process.
upgrade_to() {
    pid=$(agent_pid)
    DEBIAN_FRONTEND=noninteractive apt-get install -y --allow-downgrades -o Dpkg::Options::=--force-confold "muster=$1"
    wait_for "the agent" 20 muster node show
    [ "$(installed_version muster)" = "$1" ]
    [ "$(agent_pid)" != "$pid" ]
}

step_upgrade() {
    rm -f /etc/apt/preferences.d/trial
    job counts 0 1 "$counting"
    wait_for "the first tick" 30 logged counts 'tick 2'
    # A gang that waits for devices goes on waiting.
    job holds 2 1 'sleep 1000'
    job waits 2 1 'echo here'
    wait_for "the devices" 30 is holds RUNNING
    old=$(versions muster | head -n 1)
    new=$(versions muster | tail -n 1)
    upgrade_to "$new"
    goes_on counts
    is holds RUNNING
    is waits WAITING
    upgrade_to "$old"
    goes_on counts
    muster job stop holds --wait
    muster job wait waits --timeout 60s
    muster job stop counts --wait
    detail "$old to $new and back"
}

# All limits of memory below the tasks' slice. crun 1.8 sets them on a group within the scope, and later ones on
# both.
memory_limits() { find /sys/fs/cgroup/muster.slice -name memory.max -exec cat {} + | sort -n | uniq -c; }

step_reload() {
    job reloads 1 1 "$counting"
    job hungry 0 1 'echo ready; sleep 30; exec tail -c 200m /dev/zero'
    wait_for "the first tick" 30 logged reloads 'tick 2'
    wait_for "the other task" 30 logged hungry ready
    limits=$(memory_limits)
    systemctl daemon-reload
    goes_on reloads
    # The limit is still in force, and said to be.
    detail "limits of memory before $(echo "$limits" | tr -s " \n" " "), after $(memory_limits | tr -s " \n" " ")"
    echo "$limits" | grep -w $((64 << 20))
    [ "$(memory_limits)" = "$limits" ]
    ! muster job wait hungry
    muster job show hungry -o json | grep -q UserContainerDockerOOMKilled
    muster job stop reloads --wait
}

step_engine() {
    job stays 1 1 "$counting"
    wait_for "the first tick" 30 logged stays 'tick 2'
    systemctl restart containerd
    goes_on stays
    old=$(installed_version containerd)
    DEBIAN_FRONTEND=noninteractive apt-get install -y containerd
    [ "$(installed_version containerd)" != "$old" ]
    systemctl is-active containerd muster
    goes_on stays
    muster run --image muster/busybox -- echo hello
    muster job stop stays --wait
    detail "$old to $(installed_version containerd)"
}

step_reboot() {
    job done 0 1 'echo before the reboot'
    muster job wait done
    job over 1 1 'echo "start of $(cat /proc/sys/kernel/random/boot_id)"; [ -e /x ] || sleep 1000'
    wait_for "the task" 30 logged over 'start of'
    cat /proc/sys/kernel/random/boot_id >marks/boot
    echo after_reboot >marks/next
    echo REBOOT >marks/down
}

step_after_reboot() {
    wait_for "the agent" 60 muster node show
    muster job logs done | grep -q 'before the reboot'
    is done SUCCEEDED
    # The attempt of before has ended for the machine's reason, and the job runs once more.
    wait_for "the new attempt" 60 logged over "start of $(cat /proc/sys/kernel/random/boot_id)"
    muster job show over
    muster job show over --attempt 0
    detail "$(muster job show over --attempt 0 | grep -i -m 1 'reboot\|restart\|lost' || true)"
    muster job logs over --attempt 0 | grep "start of $(cat marks/boot)"
    muster job stop over --wait
}

step_power() {
    : >marks/accepted
    cat >marks/submit.sh <<'X'
. ./steps.sh
n=0
while [ "$n" -lt 20 ]; do
    n=$((n + 1))
    job "power-$n" 1 1 'echo "from $(date +%s)"; sleep 2; echo "to $(date +%s)"' &&
        echo "power-$n" >>marks/accepted && sync marks/accepted
    [ "$n" != 12 ] || echo "TRIAL POWER" >/dev/ttyS0
done
X
    echo after_power >marks/next
    sync
    setsid sh marks/submit.sh >/dev/null 2>&1 &
    echo WAIT >marks/down
    sleep 0.1
}

step_after_power() {
    wait_for "the agent" 60 muster node show
    accepted=$(wc -l <marks/accepted)
    [ "$accepted" -ge 11 ]
    detail "$accepted jobs were accepted before the cut"
    for name in $(cat marks/accepted); do
        muster job show "$name" >/dev/null || { echo "$name was accepted and is lost"; return 1; }
    done
    for name in $(cat marks/accepted); do muster job wait "$name" --timeout 300s; done
    device_held_once
}

# Each run of a job tells from when to when it had its device: at no time more than two may run, and no device
# may be had twice. The last attempt of each job is looked at; those of before ended with the power.
device_held_once() {
    for name in $(cat marks/accepted); do
        muster job logs "$name" | sed -n 's/^from \([0-9]*\)$/\1 1/p; s/^to \([0-9]*\)$/\1 -1/p'
    done | sort -n -k1,1 -k2,2 | awk '{held += $2; if (held > most) most = held} END {print "detail: at most " most " of 2 devices in use"; exit most > 2}'
}

# The first process of the one task that runs. crun puts it one level below the scope.
task_process() { find /sys/fs/cgroup/muster.slice -name cgroup.procs -exec cat {} + | sort -n | head -n 1; }

step_remove() {
    job left 1 1 "$counting"
    wait_for "the first tick" 30 logged left 'tick 2'
    task=$(task_process)
    apt-get remove -y muster >marks/apt 2>&1 || { cat marks/apt; return 1; }
    cat marks/apt
    ! systemctl is-active muster
    kill -0 "$task"
    grep 'of job admin~left' marks/apt
    # It comes back, and finds what it left.
    DEBIAN_FRONTEND=noninteractive apt-get install -y muster
    wait_for "the agent" 20 muster node show
    goes_on left
    detail "the task ran on, and was taken over again"
}

step_purge() {
    is left RUNNING
    task=$(task_process)
    DEBIAN_FRONTEND=noninteractive apt-get purge -y muster >marks/apt 2>&1 || { cat marks/apt; return 1; }
    cat marks/apt
    wait_for "the task's end" 30 eval "! kill -0 $task"
    left=$(ls -d /etc/muster /var/lib/muster /run/muster /usr/lib/muster /var/log/muster 2>/dev/null; find /sys/fs/cgroup -name '*muster*' -maxdepth 2; pgrep -fl muster-init; ctr -n muster containers list -q) || true
    echo "left: $left"
    [ -z "$left" ]
}
