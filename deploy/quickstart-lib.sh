# The steps of quickstart.sh. Sourced, never run.
# shellcheck shell=sh

MUSTER_HOME=${MUSTER_HOME:-$PWD/target/quickstart}
case $MUSTER_HOME in /*) ;; *) MUSTER_HOME=$PWD/$MUSTER_HOME ;; esac
export MUSTER_HOME
listen=${MUSTER_HTTP:-127.0.0.1:7741}
url=http://$listen
# The profile of Cargo that the programs are built with; deploy/build.sh says which there are.
profile=${profile:-release}
muster=$PWD/${CARGO_TARGET_DIR:-target}/$profile/muster
case ${CARGO_TARGET_DIR:-} in /*) muster=$CARGO_TARGET_DIR/$profile/muster ;; esac
# A name of its own, so that another agent on the same containerd is left alone.
namespace=muster_$(printf %s "$MUSTER_HOME" | sha256sum | cut -c1-8)
private=$MUSTER_HOME/containerd

say() { printf '==> %s\n' "$*"; }

need_root() {
    [ "$(id -u)" -eq 0 ] && return
    echo "quickstart: containers need root; run it as: sudo sh deploy/quickstart.sh" >&2
    exit 1
}

# alive PIDFILE: whether the process that wrote it still runs. A pid alone may have been given
# to another process since, so its start time is compared too.
alive() {
    [ -f "$1" ] || return 1
    read -r pid started <"$1" || return 1
    [ "$(start_time "$pid")" = "$started" ]
}

start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# spawn PIDFILE LOG COMMAND...: starts a process that outlives this script.
spawn() {
    pidfile=$1
    log=$2
    shift 2
    setsid "$@" >>"$log" 2>&1 </dev/null &
    echo "$! $(start_time $!)" >"$pidfile"
}

# wait_for WHAT SECONDS COMMAND...: until the command succeeds.
wait_for() {
    what=$1
    tries=$(($2 * 10))
    shift 2
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        if [ "$tries" -le 0 ]; then
            echo "quickstart: $what did not come up; see the logs in $MUSTER_HOME" >&2
            return 1
        fi
        sleep 0.1
    done
}

containerd_socket() {
    if [ -S "$private/containerd.sock" ]; then
        echo "$private/containerd.sock"
    else
        echo /run/containerd/containerd.sock
    fi
}

engine() { timeout 10 ctr -a "$(containerd_socket)" -n "$namespace" "$@"; }

start_containerd() {
    mkdir -p "$MUSTER_HOME"
    alive "$private/pid" && return
    if timeout 5 ctr -a /run/containerd/containerd.sock version >/dev/null 2>&1; then
        say "using the machine's containerd"
        rm -f "$private/containerd.sock"
        return
    fi
    say "starting a private containerd"
    mkdir -p "$private"
    rm -f "$private/containerd.sock"
    cat >"$private/config.toml" <<EOF
version = 2
root = "$private/root"
state = "$private/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$private/containerd.sock"
EOF
    if needs_own_mounts; then
        spawn "$private/pid" "$private/log" unshare --mount --propagation private sh -c \
            'umount /sys/fs/cgroup/unified && exec "$@"' sh \
            containerd --config "$private/config.toml"
    else
        spawn "$private/pid" "$private/log" containerd --config "$private/config.toml"
    fi
    wait_for containerd 30 ctr -a "$private/containerd.sock" version
}

# crun, which starts containers faster, gives up on a machine whose cgroup controllers are partly
# in the tree of version 2. A containerd that does not see that tree can use it all the same.
needs_own_mounts() {
    grep -qs . /sys/fs/cgroup/unified/cgroup.controllers &&
        crun --version 2>/dev/null | grep -Eq '^crun version (1\.([89]|[1-9][0-9])|[2-9])'
}

start_agent() {
    if alive "$MUSTER_HOME/agent.pid"; then
        say "the agent runs already"
        return
    fi
    if [ ! -f "$MUSTER_HOME/agent.toml" ]; then
        simulate=
        runtime=
        if [ -S "$private/containerd.sock" ] && needs_own_mounts; then runtime='runtime = "crun"'; fi
        [ -e /dev/nvidia0 ] || simulate='simulate = "8xV100"'
        cat >"$MUSTER_HOME/agent.toml" <<EOF
# Written by quickstart.sh; deploy/config.example.toml explains every field.
[node]
advertise = "127.0.0.1"
[http]
listen = "$listen"
[containerd]
socket = "$(containerd_socket)"
namespace = "$namespace"
cgroup_parent = "$namespace"
$runtime
[hardware]
# A trial machine: lets small tasks share its cores, and makes up GPUs where it has none.
cpu_overcommit = 32.0
memory_overcommit = 8.0
$simulate
EOF
    fi
    say "starting the agent"
    spawn "$MUSTER_HOME/agent.pid" "$MUSTER_HOME/agent.log" "$muster" agent
    if ! wait_for "the agent" 30 "$muster" node show; then
        tail -n 20 "$MUSTER_HOME/agent.log" >&2
        exit 1
    fi
    umask_before=$(umask)
    umask 077
    printf '{"url":"%s","user":"admin","password":"%s"}\n' "$url" \
        "$(cat "$MUSTER_HOME/state/admin-password")" >"$MUSTER_HOME/credentials.json"
    umask "$umask_before"
}

import_busybox() {
    "$muster" image list -o json | grep -q 'muster/busybox' && return
    say "making a small image"
    sh deploy/busybox-image.sh muster/busybox "$MUSTER_HOME/busybox.tar"
    "$muster" image import "$MUSTER_HOME/busybox.tar"
    rm -f "$MUSTER_HOME/busybox.tar"
}

run_hello() {
    job=hello-$(date +%Y%m%d-%H%M%S)
    say "submitting deploy/examples/hello.yaml as $job"
    sed "s/^name: hello\$/name: $job/" deploy/examples/hello.yaml | "$muster" job submit -
    "$muster" job logs -f "$job"
    "$muster" job wait "$job"
    "$muster" job show "$job"
}

stop_pid() {
    alive "$1" || { rm -f "$1"; return 0; }
    read -r pid started <"$1"
    kill "$pid" 2>/dev/null || true
    tries=0
    while [ "$(start_time "$pid")" = "$started" ]; do
        tries=$((tries + 1))
        [ "$tries" -eq 150 ] && kill -9 "$pid" 2>/dev/null
        sleep 0.1
    done
    rm -f "$1"
}

# The processes of this home: shims name its namespace, loggers its task directories.
leftovers() {
    for process in /proc/[0-9]*; do
        tr '\0' ' ' 2>/dev/null <"$process/cmdline" |
            grep -q -e "-namespace $namespace " -e "log-dir $MUSTER_HOME/" && echo "${process#/proc/}"
    done
    true
}

down() {
    [ -d "$MUSTER_HOME" ] || return 0
    say "stopping"
    stop_pid "$MUSTER_HOME/agent.pid"
    if engine version >/dev/null 2>&1; then
        for id in $(engine tasks list -q); do
            engine tasks kill -a -s SIGKILL "$id" >/dev/null 2>&1 || true
            engine tasks delete -f "$id" >/dev/null 2>&1 || true
        done
        for id in $(engine containers list -q); do
            engine containers delete "$id" >/dev/null 2>&1 || true
        done
    fi
    stop_pid "$private/pid"
    tries=0
    while [ -n "$(leftovers)" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || kill -9 $(leftovers) 2>/dev/null || true
        sleep 0.1
    done
    # Deepest first, or an outer mount is busy.
    awk -v home="$MUSTER_HOME/" 'index($2, home) == 1 {print $2}' /proc/self/mounts |
        sort -r | while read -r mount; do umount "$mount" || umount -l "$mount"; done
    find /sys/fs/cgroup -depth -type d -path "*/$namespace*" -exec rmdir {} + 2>/dev/null || true
}
