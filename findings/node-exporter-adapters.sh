#!/bin/sh
# Prometheus' node exporter 1.9.0 of Debian 13: the collector "infiniband" tells nothing of any adapter as soon as the
# machine has one without the directory ports/N/counters. The kernel makes that directory only for drivers that answer
# management datagrams: EFA, soft-RoCE (rxe) and soft-iWARP (siw) have none. 1.5.0 of Debian 12 wants the file board_id
# of each adapter as well. The exporter's log says "collector returned no data", at the level debug alone;
# node_scrape_collector_success is 0. So an alert on node_infiniband_state_id of a good mlx5 adapter falls silent when
# soft-RoCE is added to the machine, and never fires on one with adapters of mlx5 and EFA.
#
# Files are those that drivers/infiniband/core/sysfs.c of Linux 6.12 makes.
#
# Needs apt with a mirror of Debian, and curl. Installs nothing. Fails if the behaviour is not there any more.
set -eu
cd "$(dirname "$0")/.."
. deploy/debian-packages.sh
mirror=$(debian_mirror)
work=$(mktemp -d)
exporter=
trap '[ -z "$exporter" ] || kill "$exporter"; rm -rf "$work"' EXIT
sys=$work/sys

# port DIR RATE LAYER: the files that every port has.
port() {
    mkdir -p "$1"
    echo "4: ACTIVE" >"$1/state"
    echo "5: LinkUp" >"$1/phys_state"
    echo "$2" >"$1/rate"
    echo "$3" >"$1/link_layer"
}

# adapter NAME: one with all that is asked for, as mlx5 makes it.
adapter() {
    dir=$sys/class/infiniband/$1
    port "$dir/ports/1" "400 Gb/sec (4X NDR)" InfiniBand
    mkdir "$dir/ports/1/counters" "$dir/ports/1/hw_counters"
    echo 7 >"$dir/ports/1/hw_counters/out_of_sequence"
    for counter in port_rcv_data port_xmit_data link_downed; do echo 7 >"$dir/ports/1/counters/$counter"; done
    echo MT_0000000838 >"$dir/board_id"
    echo 28.39.1002 >"$dir/fw_ver"
    echo MT4129 >"$dir/hca_type"
}

# told: how many series of InfiniBand the exporter tells, and whether its collector is content.
told() {
    "$program" --path.sysfs="$sys" --web.listen-address=127.0.0.1:19177 --collector.disable-defaults \
        --collector.infiniband >"$work/log" 2>&1 &
    exporter=$!
    tries=50
    until curl -fsS http://127.0.0.1:19177/metrics >"$work/figures" 2>/dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { cat "$work/log" >&2; exit 1; }
        sleep 0.1
    done
    kill "$exporter"
    wait "$exporter" 2>/dev/null || true
    exporter=
    echo "$(grep -c '^node_infiniband_' "$work/figures" || true) series," \
        "$(grep '^node_scrape_collector_success' "$work/figures")"
}

# try SUITE VERSION FILE...: without which files of one adapter nothing is told of both.
try() {
    unpack_packages "$work" "$1" "prometheus-node-exporter=$2" >/dev/null
    program=$work/$1/root/usr/bin/prometheus-node-exporter
    "$program" --version 2>&1 | head -n 1
    shift 2
    for lacks in "$@"; do
        rm -rf "$sys"
        adapter mlx5_0
        adapter other0
        both=$(told)
        rm -r "$sys/class/infiniband/other0/$lacks"
        one=$(told)
        echo "  all files: $both; other0 without $lacks: $one"
        case $both in 0*) exit 1 ;; esac
        case $one in '0 series,'*' 0') ;; *) exit 1 ;; esac
    done
}

try bookworm 1.5.0-1+b6 board_id ports/1/counters
try trixie 1.9.0-1+b4 ports/1/counters
