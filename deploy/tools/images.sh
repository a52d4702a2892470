# The images of deploy/tools.sh, made from package registries alone: Debian's packages, and PyPI's on top of them.
# Every layer is made once, and kept in $cache. Sourced by tools.sh, which sets $cache, $root, $mirror and $muster.
# shellcheck shell=sh

suite=trixie
# python3-torch of Debian is built for CPUs. The wheel on PyPI brings gigabytes of CUDA libraries.
debian_packages='ca-certificates curl wget git make gcc g++ procps python3 python3-pip python3-venv python3-setuptools
    python3-wheel python3-torch python3-numpy python3-mpi4py openmpi-bin libopenmpi-dev mpich openjdk-21-jre-headless
    r-base-core'
# One virtual environment, which is one layer and one image, for each file of pins.
environments='torch jax tensorflow data'
pins=deploy/tools/pins
# What a command in a root needs to reach this machine's network.
network='/etc/resolv.conf /etc/hosts'

# layer_key LAYER: changes with all that the layer is made from.
layer_key() {
    {
        # shellcheck disable=SC2086 # spaces and line breaks do not matter
        echo "$suite" $debian_packages
        case $1 in
            debian) sed -n '/^make_debian()/,/^}/p' deploy/tools/images.sh ;;
            *) cat "$pins/$1.txt" ;;
        esac
    } | sha256sum | cut -c1-12
}

layer_file() { echo "$cache/$1-$(layer_key "$1").tar.gz"; }

# in_root ROOT PATHS COMMAND...: runs a command in a root file system that sees these paths of this machine, and can
# change none of them: packages set up what they find. The mounts vanish with the mount namespace.
in_root() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation private sh -ec '
        root=$1 paths=$2
        shift 2
        mount -t proc proc "$root/proc"
        mount -t tmpfs tmpfs "$root/dev"
        for node in null zero full random urandom; do
            : >"$root/dev/$node"
            mount --bind "/dev/$node" "$root/dev/$node"
        done
        for path in $paths; do
            [ -e "$path" ] || continue
            if [ -d "$path" ]; then mkdir -p "$root$path"; else : >>"$root$path"; fi
            mount --bind "$path" "$root$path"
            mount -o remount,bind,ro "$root$path"
        done
        exec chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
    ' in_root "$@"
}

# logged COMMAND...: keeps quiet unless the command fails.
logged() {
    "$@" >"$cache/log" 2>&1 || {
        tail -n 20 "$cache/log" >&2
        return 1
    }
}

make_debian() {
    # In a mount namespace of its own, or an interrupted one leaves /proc mounted there.
    logged unshare --mount --propagation private debootstrap --variant=minbase "$suite" "$1" "$mirror"
    # No package may start a server in the root.
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
    chmod +x "$1/usr/sbin/policy-rc.d"
    # shellcheck disable=SC2086 # one word per package
    logged in_root "$1" "$network" apt-get install -y --no-install-recommends $debian_packages
    # Debian builds torch without libuv, and torchrun asks for libuv whatever USE_LIBUV says.
    sed -i 's/^\( *\)multi_tenant=True,$/&\n\1use_libuv=False,/' \
        "$1"/usr/lib/python3/dist-packages/torch/distributed/elastic/rendezvous/*.py
    rm -rf "$1"/var/cache/apt/*.bin "$1"/var/cache/apt/archives/*.deb "$1"/var/lib/apt/lists/* "$1"/usr/share/doc/* \
        "$1"/usr/share/man/* "$1"/usr/share/locale/* "$1"/var/log/*.log "$1/usr/lib/libtorch-test"
    rm -f "$1/usr/sbin/policy-rc.d" "$1/etc/hostname" "$1/etc/resolv.conf"
}

# make_environment ROOT NAME: a virtual environment in /opt/NAME that sees Debian's packages of Python.
make_environment() {
    cp "$pins/$2.txt" "$1/tmp/pins.txt"
    logged in_root "$1" '' python3 -m venv --system-site-packages "/opt/$2"
    # Debian's torch is one of the packages that a source package must see while it is built.
    logged in_root "$1" "$network /etc/ssl/certs /etc/pip.conf" "/opt/$2/bin/pip" install --no-input --no-cache-dir --no-build-isolation -r /tmp/pins.txt
}

# root_of_debian: the root file system of the layer `debian`, in $root.
root_of_debian() {
    [ ! -e "$root/.made" ] || return 0
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    if [ -e "$(layer_file debian)" ]; then
        tar -C "$root" --numeric-owner -xzf "$(layer_file debian)"
    else
        make_debian "$root"
    fi
    touch "$root/.made"
}

# pack LAYER ROOT PATH: keeps a path of the root as a layer, beside it the digest that its image names it by.
pack() {
    file=$(layer_file "$1")
    # Times are kept: python takes its compiled modules for stale when their sources' times change.
    tar -C "$2" --sort=name --numeric-owner --exclude='./dev/*' --exclude='./proc/*' --exclude=./.made \
        -cf "$cache/layer.tar" "$3"
    sha256sum "$cache/layer.tar" | cut -d' ' -f1 >"$file.digest"
    gzip -1 <"$cache/layer.tar" >"$file.part"
    mv "$file.part" "$file"
    rm -f "$cache/layer.tar"
}

# make_layers: those that are not in $cache.
make_layers() {
    for layer in debian $environments; do
        [ ! -e "$(layer_file "$layer")" ] || continue
        say "making the layer $layer"
        began=$(date +%s)
        rm -f "$cache/$layer"-*.tar.gz*
        root_of_debian
        if [ "$layer" = debian ]; then
            pack debian "$root" .
        else
            make_environment "$root" "$layer"
            pack "$layer" "$root" "./opt/$layer"
            rm -rf "${root:?}/opt/$layer"
        fi
        say "the layer $layer took $(($(date +%s) - began)) s, and has $(du -h "$(layer_file "$layer")" | cut -f1)"
    done
    rm -rf --one-file-system "$root"
}

# write_config IMAGE LAYER...: the configuration of an image, as `docker save` writes it.
write_config() {
    image=$1
    shift
    digests=
    paths=
    for layer in "$@"; do
        digests="$digests${digests:+,}\"sha256:$(cat "$(layer_file "$layer").digest")\""
        [ "$layer" = debian ] || paths="/opt/$layer/bin:"
    done
    cat >"$archive/$image.config" <<END
{"architecture":"$(dpkg --print-architecture)","os":"linux","config":{"Env":["PATH=$paths/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],"Cmd":["bash"],"WorkingDir":"/root"},"rootfs":{"type":"layers","diff_ids":[$digests]}}
END
}

# import_images: one archive with all images, which share the layer of Debian.
import_images() {
    keys=$(for layer in debian $environments; do layer_key "$layer"; done)
    [ "$(cat "$MUSTER_HOME/imported" 2>/dev/null)" != "$keys" ] || return 0
    say "importing the images"
    archive=$cache/archive
    rm -rf "$archive"
    mkdir "$archive"
    manifest=
    for image in debian $environments; do
        layers=debian
        [ "$image" = debian ] || layers="debian $image"
        # shellcheck disable=SC2086 # one word per layer
        write_config "$image" $layers
        files=
        for layer in $layers; do
            ln -f "$(layer_file "$layer")" "$archive/$layer.tar.gz"
            files="$files${files:+,}\"$layer.tar.gz\""
        done
        manifest="$manifest${manifest:+,}
{\"Config\":\"$image.config\",\"RepoTags\":[\"muster-tools/$image:1\"],\"Layers\":[$files]}"
    done
    echo "[$manifest]" >"$archive/manifest.json"
    # What a reader needs before the layers comes first.
    (cd "$archive" && tar -cf - manifest.json ./*.config ./*.tar.gz) | "$muster" image import -
    rm -rf "$archive"
    echo "$keys" >"$MUSTER_HOME/imported"
}
