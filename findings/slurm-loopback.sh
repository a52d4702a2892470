#!/bin/sh
# Slurm 22.05.8 of Debian 12 (24.11.5 of Debian 13 does the same): slurmctld and slurmd listen on "any address", and
# ask the resolver for it with the flag that leaves out families of which the machine has no address but
# loopback. On a machine with loopback alone, as a laptop without network or a namespace, they end at their start:
# "Unable to resolve (null)", although the host's own name in slurm.conf resolves to 127.0.0.1. One address on
# any interface, reachable or not, lets them run.
#
# Scripts that try Slurm in a virtual machine or a namespace without network have to add an address.
#
# Needs root (for network namespaces of its own) and apt with a mirror of Debian 12. Installs nothing. Fails if the
# behaviour is not there any more.
set -eu
cd "$(dirname "$0")/.."
. deploy/debian-packages.sh
slurm=22.05.8-4+deb12u3
mirror=$(debian_mirror)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unpack_packages "$work" bookworm "slurmctld=$slurm" "slurm-wlm-basic-plugins=$slurm" libmunge2 libjwt0 libjansson4 \
    libhwloc15 libpmix2
library=$work/bookworm/root/usr/lib/x86_64-linux-gnu
echo "slurmctld $slurm"
name=$(hostname)
getent hosts "$name" >/dev/null || { echo "$name does not resolve here; put it into /etc/hosts" >&2; exit 1; }
mkdir "$work/state"
cat >"$work/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$name(127.0.0.1)
AuthType=auth/munge
SlurmUser=root
StateSaveLocation=$work/state
SlurmctldPidFile=$work/pid
PluginDir=$library/slurm-wlm
NodeName=$name CPUs=1
PartitionName=all Nodes=ALL Default=YES
CONF

# try COMMANDS: starts slurmctld in a network of its own, prepared by these commands, for up to 20 seconds.
try() {
    LD_LIBRARY_PATH=$library:$library/slurm-wlm timeout 20 unshare --net sh -ec "
        ip link set lo up
        $1
        exec '$work/bookworm/root/usr/sbin/slurmctld-wlm' -D -f '$work/slurm.conf'" 2>&1 || true
}

seen=$(try :)
echo "loopback alone: $(echo "$seen" | grep -o 'fatal: .*')"
echo "$seen" | grep -q 'Unable to resolve "(null)"'
seen=$(try 'ip link add name v0 type veth peer name v1; ip address add 192.0.2.1/24 dev v0
    ip link set v0 up; ip link set v1 up')
echo "and 192.0.2.1 on a link to nobody: $(echo "$seen" | grep -o 'Running as primary controller')"
