#!/bin/sh
# Makes a small image from the machine's own static busybox, as `docker save` would write it.
#
# Usage: sh deploy/busybox-image.sh NAME ARCHIVE
set -eu
name=$1
archive=$2
busybox=$(command -v busybox)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/root/bin" "$work/root/tmp" "$work/root/etc" "$work/image"
chmod 1777 "$work/root/tmp"
cp "$busybox" "$work/root/bin/busybox"
for applet in $("$busybox" --list); do
    [ "$applet" = busybox ] || ln -s busybox "$work/root/bin/$applet"
done
echo 'root:x:0:0:root:/:/bin/sh' >"$work/root/etc/passwd"
echo 'root:x:0:' >"$work/root/etc/group"
# The same bytes on every run, so that the image keeps its digest.
tar -C "$work/root" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 \
    -cf "$work/image/layer.tar" .
layer=$(sha256sum "$work/image/layer.tar" | cut -d' ' -f1)
case $(uname -m) in
    x86_64) architecture=amd64 ;;
    aarch64) architecture=arm64 ;;
    *) architecture=$(uname -m) ;;
esac
cat >"$work/image/config.json" <<EOF
{"architecture":"$architecture","os":"linux","config":{"Env":["PATH=/bin"],"Cmd":["sh"],"WorkingDir":"/"},"rootfs":{"type":"layers","diff_ids":["sha256:$layer"]}}
EOF
cat >"$work/image/manifest.json" <<EOF
[{"Config":"config.json","RepoTags":["$name"],"Layers":["layer.tar"]}]
EOF
tar -C "$work/image" -cf "$archive" manifest.json config.json layer.tar
