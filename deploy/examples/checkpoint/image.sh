#!/bin/sh
# Makes the image muster/checkpoint: Debian with Python, numpy, TensorBoard and train.py. The packages come from Debian's
# archive and from PyPI; the image is written as `docker save` would.
#
# Usage: sh deploy/examples/checkpoint/image.sh ARCHIVE       makes it, unless it is there and current
#
# DEBIAN_MIRROR is where Debian's packages come from (default: this machine's own mirror).
set -eu
example=deploy/examples/checkpoint
case ${1:-} in
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    '' | -*) echo "image.sh: name the archive to write; see --help" >&2; exit 2 ;;
    /*) archive=$1 ;;
    *) archive=$PWD/$1 ;;
esac
cd "$(dirname "$0")/../../.."
name=muster/checkpoint
suite=trixie
python=3.13
# numpy 2.3 is the last that runs on every x86-64.
wheels='tensorboard==2.20.0 numpy==2.3.5 setuptools==80.9.0 protobuf==6.33.2 grpcio==1.76.0 pillow==12.0.0
    werkzeug==3.1.4 markdown==3.10 absl-py==2.3.1 packaging==25.0'

newer=$(find "$example/image.sh" "$example/train.py" -newer "$archive" 2>/dev/null || true)
if [ -f "$archive" ] && [ -z "$newer" ]; then
    echo "$archive is there and current"
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "image.sh: debootstrap needs root; run it as: sudo sh $example/image.sh" >&2
    exit 1
fi
sh deploy/install.sh debootstrap:debootstrap tar:tar pip:python3-pip
. deploy/debian-packages.sh
mirror=${DEBIAN_MIRROR:-$(debian_mirror)}

work=$(mktemp -d "$(dirname "$archive")/checkpoint.XXXXXX")
discard() {
    # An interrupted debootstrap leaves these mounted.
    umount "$work/root/proc" "$work/root/sys" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap 'status=$?; trap - EXIT; discard; exit $status' EXIT
trap 'exit 130' INT TERM

echo "==> Debian $suite with Python $python (some minutes)"
if ! debootstrap --variant=minbase --include=python3-minimal,libpython3-stdlib \
    "$suite" "$work/root" "${mirror:-http://deb.debian.org/debian}" >"$work/log" 2>&1; then
    tail -n 20 "$work/log" >&2
    exit 1
fi
echo "==> TensorBoard"
# shellcheck disable=SC2086 # one word per package
pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile \
    --target "$work/root/opt/packages" --only-binary=:all: --python-version "$python" --implementation cp \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 $wheels
(
    cd "$work/root"
    rm -rf var/cache/* var/lib/apt/lists/* usr/share/doc/* usr/share/man/* usr/share/locale/* usr/share/i18n/*
    find opt/packages -name tests -type d -prune -exec rm -rf {} +
    rm -f etc/hostname etc/resolv.conf var/log/*.log
)
install -D -m 644 "$example/train.py" "$work/root/opt/example/train.py"
printf '#!/bin/sh\nexec python3 -m tensorboard.main "$@"\n' >"$work/root/usr/local/bin/tensorboard"
chmod 755 "$work/root/usr/local/bin/tensorboard"
# Compiled once, here: tasks would do it in each attempt.
chroot "$work/root" env PYTHONPATH=/opt/packages python3 -m compileall -q /opt/packages /opt/example || true

echo "==> packing the image"
architecture=$(chroot "$work/root" dpkg --print-architecture)
mkdir "$work/image"
# Times are kept: Python takes its compiled modules for stale when their sources' times change.
tar -C "$work/root" --sort=name --numeric-owner --exclude='./dev/*' -cf "$work/image/layer.tar" .
layer=$(sha256sum "$work/image/layer.tar" | cut -d' ' -f1)
cat >"$work/image/config.json" <<END
{"architecture":"$architecture","os":"linux","config":{"Env":["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin","PYTHONPATH=/opt/packages"],"Cmd":["python3"],"WorkingDir":"/"},"rootfs":{"type":"layers","diff_ids":["sha256:$layer"]}}
END
cat >"$work/image/manifest.json" <<END
[{"Config":"config.json","RepoTags":["$name"],"Layers":["layer.tar"]}]
END
tar -C "$work/image" -cf "$work/image.tar" manifest.json config.json layer.tar
mv "$work/image.tar" "$archive"
echo "==> $archive holds $name ($(du -h "$archive" | cut -f1))"
