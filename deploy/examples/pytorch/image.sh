#!/bin/sh
# Makes the image muster/pytorch: Debian with PyTorch for CPUs, and train.py beside it. Nothing
# but Debian's archive is needed; the image is written as `docker save` would.
#
# Usage: sh deploy/examples/pytorch/image.sh             make it, unless it is there and current
#        sh deploy/examples/pytorch/image.sh --rebuild   make it anew
#
# MUSTER_HOME (default ./target/quickstart) holds it, as pytorch.tar; making it takes 3 GB there.
# DEBIAN_MIRROR is where the packages come from (default: this machine's own mirror).
set -eu
cd "$(dirname "$0")/../../.."
name=muster/pytorch
suite=bookworm
example=deploy/examples/pytorch
home=${MUSTER_HOME:-target/quickstart}
archive=$home/pytorch.tar

say() { printf '==> %s\n' "$*"; }

case ${1:-} in
    --rebuild) rm -f "$archive" ;;
    '') ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$example/image.sh"; exit 0 ;;
    *) echo "image.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
newer=$(find "$example/image.sh" "$example/train.py" -newer "$archive" 2>/dev/null || true)
if [ -f "$archive" ] && [ -z "$newer" ]; then
    say "$archive is there and current"
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "image.sh: debootstrap needs root; run it as: sudo sh $example/image.sh" >&2
    exit 1
fi
sh deploy/install.sh debootstrap:debootstrap tar:tar

# The first mirror of Debian among apt's sources, in either of their two formats.
configured_mirror() {
    sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb .*\(https\{0,1\}:[^ ]*\).*/\1/p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        grep '/debian/\{0,1\}$' | head -n 1
}
mirror=${DEBIAN_MIRROR:-$(configured_mirror)}
mirror=${mirror:-http://deb.debian.org/debian}

mkdir -p "$home"
# Not in /tmp, which may be small, or be mounted so that no program or device works in it.
work=$(mktemp -d "$(cd "$home" && pwd)/pytorch.XXXXXX")
discard() {
    # An interrupted debootstrap leaves these mounted.
    umount "$work/root/proc" "$work/root/sys" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap 'status=$?; trap - EXIT; discard; exit $status' EXIT
trap 'exit 130' INT TERM

say "installing Debian $suite with python3-torch from $mirror (some minutes)"
if ! debootstrap --variant=minbase --include=python3-torch \
    "$suite" "$work/root" "$mirror" >"$work/log" 2>&1; then
    tail -n 20 "$work/log" >&2
    echo "image.sh: debootstrap failed; see above" >&2
    exit 1
fi
(
    cd "$work/root"
    rm -rf var/cache/apt/* var/lib/apt/lists/* usr/share/doc/* usr/share/man/* usr/share/locale/*
    rm -f etc/hostname etc/resolv.conf var/log/*.log
)
install -D -m 644 "$example/train.py" "$work/root/opt/example/train.py"

say "packing the image"
architecture=$(chroot "$work/root" dpkg --print-architecture)
mkdir "$work/image"
# Times are kept: python takes its compiled modules for stale when their sources' times change.
tar -C "$work/root" --sort=name --numeric-owner --exclude='./dev/*' -cf "$work/image/layer.tar" .
rm -rf --one-file-system "$work/root"
layer=$(sha256sum "$work/image/layer.tar" | cut -d' ' -f1)
cat >"$work/image/config.json" <<END
{"architecture":"$architecture","os":"linux","config":{"Env":["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"],"Cmd":["python3"],"WorkingDir":"/"},"rootfs":{"type":"layers","diff_ids":["sha256:$layer"]}}
END
cat >"$work/image/manifest.json" <<END
[{"Config":"config.json","RepoTags":["$name"],"Layers":["layer.tar"]}]
END
tar -C "$work/image" -cf "$work/pytorch.tar" manifest.json config.json layer.tar
mv "$work/pytorch.tar" "$archive"
say "$archive holds $name ($(du -h "$archive" | cut -f1))"
