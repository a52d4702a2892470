#!/bin/sh
# Runs the tests of the container engine and of images, and the example job, on the containerd of each
# Debian release, with the low-level runtimes of that release that run on this machine.
#
# Usage: sh deploy/engines.sh [SUITE ...]     (default: bookworm trixie sid)
#
# The packages are taken with apt and unpacked in target/engines; nothing is installed. A runtime that needs
# the libraries of its own release is named, and the machine's own one is used: deploy/vm.sh tries it on that
# release itself. The programs of the tests are those of the last cargo build.
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
own_root_script=deploy/engines.sh
. deploy/own-root.sh
. deploy/debian-packages.sh
sh deploy/install.sh apt-get:apt dpkg-deb:dpkg runc:runc crun:crun busybox:busybox-static \
    docker-registry:docker-registry ip:iproute2 \
    /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring
mirror=$(debian_mirror)
if [ -z "$mirror" ]; then
    echo "engines.sh: SKIPPED: apt has no mirror of Debian here; set MUSTER_DEBIAN_MIRROR to the address of one" >&2
    # In CI nothing is skipped.
    [ -z "${CI:-}" ]
    exit
fi
dir=$PWD/target/engines
mkdir -p "$dir"
table=$dir/table
: >"$table"

# The tests whose containers are made by the engine under test.
engine_tests='(package(muster-exec) & (test(/containerd/) | test(/image::tests/))) |
    (package(muster-tests) & test(/one_node::containerd/))'

# runs PROGRAM: whether this machine has the libraries that it needs.
runs() { [ -x "$1" ] && "$1" --version >/dev/null 2>&1; }

# engine_path SUITE: a folder with the suite's programs that run here, to be put first in PATH.
engine_path() {
    bin=$dir/$1/bin
    rm -rf "$bin"
    mkdir -p "$bin"
    for program in containerd ctr containerd-shim-runc-v2 runc crun; do
        found=$(find "$dir/$1/root/usr/bin" "$dir/$1/root/usr/sbin" -name "$program" 2>/dev/null | head -n 1)
        if [ -n "$found" ] && { runs "$found" || [ "$program" = containerd-shim-runc-v2 ]; }; then
            ln -s "$found" "$bin/$program"
        fi
    done
    echo "$bin"
}

# version PROGRAM: its version number, and "of this machine" where the suite's own one does not run here.
version() {
    number=$("$1" --version | sed -n '1s/.* v\{0,1\}\([0-9][0-9.]*\).*/\1/p')
    case $(command -v "$1") in "$dir"/*) echo "$number" ;; *) echo "$number (of this machine)" ;; esac
}

for suite in ${*:-bookworm trixie sid}; do
    echo "==> $suite: taking containerd, runc and crun"
    unpack_packages "$dir" "$suite" containerd runc crun
    (
        PATH=$(engine_path "$suite"):$PATH
        export PATH
        line="$suite: containerd $(version containerd), runc $(version runc), crun $(version crun)"
        echo "==> $line"
        result=passed
        cargo nextest run --locked --workspace --all-features -E "$engine_tests" || result=FAILED
        echo "$line: $result" >>"$table"
    )
done
echo
cat "$table"
! grep -q FAILED "$table"
