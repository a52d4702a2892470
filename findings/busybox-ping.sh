#!/bin/sh
# Debian's busybox 1.35: its ping opens a raw socket and nothing else. Without CAP_NET_RAW it fails even where the
# kernel lets the user's group send echo requests over datagram sockets (net.ipv4.ping_group_range), which is how
# ping of iputils works without any capability.
#
# Images made of busybox or Alpine have no ping in a container without CAP_NET_RAW, then, whatever an admin sets.
#
# Needs root (for a network namespace of its own) and apt with a mirror of Debian 12. Installs nothing. Fails if the
# behaviour is not there any more.
set -eu
cd "$(dirname "$0")/.."
. deploy/debian-packages.sh
busybox=1:1.35.0-4+deb12u1+b1
iputils=3:20221126-1+deb12u1
mirror=$(debian_mirror)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unpack_packages "$work" bookworm "busybox-static=$busybox" "iputils-ping=$iputils"
root=$work/bookworm/root
echo "busybox-static $busybox, iputils-ping $iputils"

# try PROGRAM...: pings loopback once as root without CAP_NET_RAW, where group 0 may send echo requests.
try() {
    unshare --net sh -c '
        ip link set lo up
        echo "0 100" >/proc/sys/net/ipv4/ping_group_range
        exec setpriv --bounding-set -net_raw --inh-caps -net_raw "$@"' sh "$@" -c 1 127.0.0.1 2>&1
}

code=0
seen=$(try "$root/bin/ping") || code=$?
echo "iputils: exit $code: $(echo "$seen" | tail -n 2 | head -n 1)"
[ "$code" -eq 0 ]
code=0
seen=$(try "$root/bin/busybox" ping) || code=$?
echo "busybox: exit $code: $(echo "$seen" | tail -n 1)"
[ "$code" -ne 0 ]
echo "$seen" | grep -q 'permission denied'
