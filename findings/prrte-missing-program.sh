#!/bin/sh
# Open MPI 5.0.7's mpirun ends with 183 where the program that it is to start does not exist, and says that it "lacked
# permissions to execute" it. For a name without a slash it ends with 66, and says that it did not find the file. A file
# that is there and may not be executed gives the same 183 and the same words as one that does not exist.
#
# 183 is above 128, and no signal was involved. Open MPI 4 ended with 132 and 134. The program that reports is called prterun in all messages, never mpirun, and the line on a rank that a
# signal ended is broken in two before the word "signal": a rule for Open MPI 4's line does not find it.
#
# Needs root, debootstrap, and a mirror of Debian 13. Fails if the behaviour is not there any more.
set -eu
cd "$(dirname "$0")/.."
. deploy/debian-packages.sh
version=5.0.7-1
mirror=$(debian_mirror)
work=$(mktemp -d)
root=$work/root
trap 'rm -rf --one-file-system "$work"' EXIT
unshare --mount --propagation private debootstrap --variant=minbase --include=openmpi-bin trixie "$root" "$mirror" \
    >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; exit 1; }
echo "openmpi-bin $(chroot "$root" dpkg-query -W -f '${Version}' openmpi-bin)"
[ "$(chroot "$root" dpkg-query -W -f '${Version}' openmpi-bin)" = "$version" ]
echo 'echo solved' >"$root/tmp/plain"

# ends_with EXPECTED WORDS ARGUMENTS: mpirun with these arguments, in a network of its own with a loopback.
ends_with() {
    code=0
    unshare --mount --net --propagation private sh -c '
        mount -t proc proc "$0/proc"
        ip link set lo up
        exec chroot "$0" timeout 120 sh -c "cd /tmp; mpirun --allow-run-as-root --oversubscribe $1"' \
        "$root" "$3" >"$work/output" 2>&1 || code=$?
    echo "exit $code: mpirun $3"
    sed 's/^/    /' "$work/output"
    [ "$code" -eq "$1" ]
    tr '\n' ' ' <"$work/output" | grep -q "$2"
}

ends_with 183 'prterun was unable to launch the specified application as it lacked permissions' '-n 1 ./missing'
ends_with 183 'prterun was unable to launch the specified application as it lacked permissions' '-n 1 ./plain'
ends_with 66 'prterun was unable to find the specified executable file' '-n 1 missing'
ends_with 137 'exited on signal 9 (Killed)' "-n 2 sh -c '[ \$OMPI_COMM_WORLD_RANK = 0 ] || kill -9 \$\$; sleep 9'"
grep -q 'exited on$' "$work/output"
