#!/bin/sh
# Measures the product on this machine and prints one flat JSON line.
#
# Usage: sh deploy/bench.sh launch|commands|idle|devices|burst|mesh|failover|gang|queue|silence|rest|people|logins|pages|followers|classify|rules|sessions
#
# MUSTER_PROGRAM: the muster to measure, as target/deb/muster, which is in the package (default: a release build).
# MUSTER_BESIDE, for launch, commands, idle and devices: the muster of another build, measured in the same run.
set -eu
cd "$(dirname "$0")/.."
own_root_script=deploy/bench.sh
. deploy/own-root.sh
MUSTER_HOME=${MUSTER_HOME:-$PWD/target/bench}
MUSTER_HTTP=${MUSTER_HTTP:-127.0.0.1:17741}
. deploy/quickstart-lib.sh

name=${1:-}
case $name in
    launch | commands | idle | devices | burst | mesh | failover | gang | queue | silence | rest | people | logins | pages | followers | classify | rules | sessions) ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
case $name in
    launch | commands | idle | devices) ;;
    *)
        if [ -n "${MUSTER_BESIDE:-}" ]; then
            echo "bench.sh: $name does not measure a second build; unset MUSTER_BESIDE" >&2
            exit 2
        fi
        ;;
esac
sh deploy/install.sh protoc:protobuf-compiler /usr/include/seccomp.h:libseccomp-dev \
    cc:build-essential >&2
if [ "$name" = classify ]; then
    cargo run --locked --release --quiet -p muster-failure-rules --example classify_bench
    exit
fi
need_root
case $name in mesh | failover | gang | queue | silence | rest | people | logins | pages | rules | sessions) lan=yes ;; *) lan= ;; esac
# Those whose agents run no containers.
case $name in mesh | queue | rest | people | logins | pages | rules) engine= ;; *) engine=yes ;; esac
{
    if [ -n "$lan" ]; then sh deploy/install.sh ip:iproute2 nft:nftables; fi
    if [ -n "$engine" ]; then
        sh deploy/install.sh containerd:containerd runc:runc crun:crun busybox:busybox-static tar:tar
    fi
    if [ "$name" = devices ]; then sh deploy/install.sh prometheus-node-exporter:prometheus-node-exporter; fi
    if [ "$name" = failover ]; then sh deploy/install.sh etcd:etcd-server; fi
    if [ "$name" = sessions ]; then sh deploy/install.sh ssh:openssh-client /usr/sbin/sshd:openssh-server; fi
    if [ -n "${MUSTER_PROGRAM:-}" ]; then sh deploy/build.sh release init; else sh deploy/build.sh release; fi
    cargo build --locked --release -p muster-tests --features bench --bin muster-bench
} >&2
bench=${muster%/*}/muster-bench
if [ -n "${MUSTER_PROGRAM:-}" ]; then
    # muster looks for muster-init beside itself.
    mkdir -p "$MUSTER_HOME/bin"
    cp "$MUSTER_PROGRAM" "$MUSTER_HOME/bin/muster"
    cp "${muster%/*/*}/$(rustc -vV | sed -n 's/^host: //p')/release/muster-init" "$MUSTER_HOME/bin/"
    muster=$MUSTER_HOME/bin/muster
fi
if [ -n "$lan" ]; then exec "$bench" "$@" --muster "$muster"; fi
# prepare: a home with its engine, image and settings, and what muster-bench has to know of it.
prepare() {
    start_containerd
    start_agent
    import_busybox
    stop_pid "$MUSTER_HOME/agent.pid"
    # 100 tasks of a core each have to fit on a small machine.
    sed -i 's/^cpu_overcommit = .*/cpu_overcommit = 128.0/' "$MUSTER_HOME/agent.toml"
    # All followers come from this machine, which counts as one address.
    if [ "$name" = followers ] && ! grep -q '^connections' "$MUSTER_HOME/agent.toml"; then
        sed -i 's/^listen = .*/&\nconnections = 4096\nconnections_per_address = 4096/' "$MUSTER_HOME/agent.toml"
    fi
    printf '{"muster":"%s","url":"%s","containerd":"%s","namespace":"%s"}\n' \
        "$muster" "$url" "$(containerd_socket)" "$namespace" >"$MUSTER_HOME/bench.json"
}
# of_beside COMMAND: the same for the other build, whose home lies beside ours.
of_beside() (
    MUSTER_HOME=$MUSTER_HOME-beside
    MUSTER_HTTP=127.0.0.1:17745
    . deploy/quickstart-lib.sh
    muster=$MUSTER_BESIDE
    "$1"
)
ours=$MUSTER_HOME
beside=
finish() {
    status=$?
    trap - EXIT
    down >&2
    if [ -n "$beside" ]; then of_beside down >&2; fi
    exit "$status"
}
trap finish EXIT INT TERM
{
    prepare
    if [ -n "${MUSTER_BESIDE:-}" ]; then
        beside=yes
        of_beside prepare
    fi
} >&2
"$bench" "$@" --home "$ours" ${beside:+--beside "$ours-beside"}
