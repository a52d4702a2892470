#!/bin/sh
# Debian 13 builds PyTorch 2.6.0 without libuv, and PyTorch asks for libuv unless it is told otherwise.
# torch.distributed.init_process_group therefore fails until USE_LIBUV=0 is set. torchrun fails with USE_LIBUV=0 too:
# its rendezvous backends make their stores without a look at that variable, so torchrun cannot start anything there.
#
# The error that torchrun ends with depends on the rendezvous. With c10d its last line is "RendezvousConnectionError:
# The connection to the C10d store has failed", which reads as a fault of the network or of another task. The cause
# stands in the traceback above: "use_libuv was requested but PyTorch was build without libuv support".
#
# Needs root, debootstrap, and a mirror of Debian 13. Takes some minutes and 1.2 GB in the temporary folder. Fails if
# the behaviour is not there any more.
set -eu
cd "$(dirname "$0")/.."
. deploy/debian-packages.sh
version=2.6.0+dfsg-7
mirror=$(debian_mirror)
work=$(mktemp -d)
root=$work/root
trap 'rm -rf --one-file-system "$work"' EXIT
unshare --mount --propagation private debootstrap --variant=minbase --include=python3-torch trixie "$root" "$mirror" \
    >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; exit 1; }
echo "python3-torch $(chroot "$root" dpkg-query -W -f '${Version}' python3-torch)"
[ "$(chroot "$root" dpkg-query -W -f '${Version}' python3-torch)" = "$version" ]
echo 'print("worker")' >"$root/tmp/worker.py"

# ends_with EXPECTED LAST COMMAND: the command's exit status, and the start of the last line that it prints. It has a
# network of its own, with a loopback.
ends_with() {
    code=0
    unshare --mount --net --propagation private sh -c '
        mount -t proc proc "$0/proc"
        ip link set lo up
        exec chroot "$0" timeout 120 sh -c "$1"' "$root" "$3" >"$work/output" 2>&1 || code=$?
    echo "exit $code: $3"
    echo "    $(tail -n 1 "$work/output")"
    [ "$code" -eq "$1" ]
    tail -n 1 "$work/output" | grep -q "^$2"
}

cause='RuntimeError: use_libuv was requested but PyTorch was build without libuv support'
alone="python3 -c 'import torch.distributed as dist
dist.init_process_group(\"gloo\", \"tcp://127.0.0.1:29500\", rank=0, world_size=1)
print(\"joined\")'"
ends_with 1 "$cause" "$alone"
ends_with 0 joined "export USE_LIBUV=0; $alone"
ends_with 1 "$cause" 'torchrun --nproc-per-node 1 /tmp/worker.py'
ends_with 1 "$cause" 'USE_LIBUV=0 torchrun --nproc-per-node 1 /tmp/worker.py'
ends_with 1 'torch.*RendezvousConnectionError: The connection to the C10d store has failed' \
    'USE_LIBUV=0 torchrun --standalone --nproc-per-node 1 /tmp/worker.py'
grep -q "^$cause" "$work/output"
