#!/bin/sh
# Measures the product on this machine and prints one flat JSON line.
#
# Usage: sh deploy/bench.sh launch|idle|burst|mesh|failover|gang|queue|silence|classify
set -eu
cd "$(dirname "$0")/.."
own_root_script=deploy/bench.sh
. deploy/own-root.sh
MUSTER_HOME=${MUSTER_HOME:-$PWD/target/bench}
MUSTER_HTTP=${MUSTER_HTTP:-127.0.0.1:17741}
. deploy/quickstart-lib.sh

name=${1:-}
case $name in
    launch | idle | burst | mesh | failover | gang | queue | silence | classify) ;;
    *) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
sh deploy/install.sh protoc:protobuf-compiler /usr/include/seccomp.h:libseccomp-dev \
    cc:build-essential >&2
if [ "$name" = classify ]; then
    cargo run --locked --release --quiet -p muster-failure-rules --example classify_bench
    exit
fi
need_root
case $name in mesh | failover | gang | queue | silence) lan=yes ;; *) lan= ;; esac
{
    if [ -n "$lan" ]; then sh deploy/install.sh ip:iproute2 nft:nftables; fi
    if [ "$name" != mesh ] && [ "$name" != queue ]; then
        sh deploy/install.sh containerd:containerd runc:runc crun:crun busybox:busybox-static tar:tar
    fi
    if [ "$name" = failover ]; then sh deploy/install.sh etcd:etcd-server; fi
    sh deploy/build.sh release
    cargo build --locked --release -p muster-tests --features bench --bin muster-bench
} >&2
if [ -n "$lan" ]; then exec "${muster%/*}/muster-bench" "$@" --muster "$muster"; fi
{
    trap 'status=$?; trap - EXIT; down >&2; exit $status' EXIT INT TERM
    start_containerd
    start_agent
    import_busybox
    stop_pid "$MUSTER_HOME/agent.pid"
    # 100 tasks of a core each have to fit on a small machine.
    sed -i 's/^cpu_overcommit = .*/cpu_overcommit = 128.0/' "$MUSTER_HOME/agent.toml"
} >&2
"${muster%/*}/muster-bench" "$@" --muster "$muster" --home "$MUSTER_HOME" --url "$url" \
    --containerd "$(containerd_socket)" --namespace "$namespace"
