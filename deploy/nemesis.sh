#!/bin/sh
# Attacks a cluster of real agents on this machine while it is used, and prints one JSON line: exit
# code 1 if the cluster broke its word. Agents are killed, stopped, cut off, filled up and misled
# about the time; nothing outside of their own network, disks and clocks is touched.
#
# Usage: sh deploy/nemesis.sh [--minutes 10] [--seed S] [--faults kill,pause,...] [--history FILE]
#        sh deploy/nemesis.sh --help
set -eu
cd "$(dirname "$0")/.."
own_root_script=deploy/nemesis.sh
. deploy/own-root.sh

if [ "$(id -u)" -ne 0 ]; then
    echo "nemesis.sh: containers need root; run it as: sudo sh deploy/nemesis.sh" >&2
    exit 1
fi
sh deploy/install.sh containerd:containerd runc:runc crun:crun busybox:busybox-static tar:tar \
    protoc:protobuf-compiler /usr/include/seccomp.h:libseccomp-dev cc:build-essential \
    ip:iproute2 nft:nftables faketime:faketime >&2
# With the assertions that a release leaves out.
{
    sh deploy/build.sh dev
    cargo build --locked -p muster-tests --bin muster-nemesis
} >&2
exec "${CARGO_TARGET_DIR:-target}/debug/muster-nemesis" "$@"
