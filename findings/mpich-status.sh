#!/bin/sh
# MPICH 4.0.2's mpiexec (Hydra) joins the exit statuses of all ranks with a bitwise OR: ranks that exit with 1 and 2
# end it with 3, and 5 and 10 end it with 15. No rank exited with either. A rank that SIGKILL ends, as the kernel
# does when memory runs out, ends it with 9, the bare number of the signal, where a shell and Open MPI's mpirun say
# 137 (128 + 9).
#
# The exit status of a container whose command is mpiexec is therefore no rank's exit status, and a rule for 137 does
# not see a rank that was killed. A rule needs the text in the log: "BAD TERMINATION OF ONE OF YOUR APPLICATION
# PROCESSES".
#
# Needs apt with a mirror of Debian 12. Installs nothing. Fails if the behaviour is not there any more.
set -eu
cd "$(dirname "$0")/.."
. deploy/debian-packages.sh
mpich=4.0.2-3+b1
mirror=$(debian_mirror)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unpack_packages "$work" bookworm "mpich=$mpich" "libmpich12=$mpich" libslurm38 libmunge2 libhwloc15
root=$work/bookworm/root
echo "mpich $mpich"

# ends_with EXPECTED COMMAND: two ranks run the shell command, in which $PMI_RANK is 0 or 1.
ends_with() {
    code=0
    PATH=$root/usr/bin:$PATH \
        LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu/slurm-wlm \
        timeout 60 mpiexec.hydra -n 2 sh -c "$2" >"$work/output" 2>&1 || code=$?
    echo "exit $code: $2"
    [ "$code" -eq "$1" ]
}

ends_with 3 'exit $((PMI_RANK + 1))'
ends_with 15 'exit $((PMI_RANK * 5 + 5))'
ends_with 7 '[ "$PMI_RANK" = 0 ] || exit 7'
ends_with 9 '[ "$PMI_RANK" = 0 ] || kill -9 $$; sleep 5'
grep -E 'BAD TERMINATION|EXIT CODE' "$work/output"
