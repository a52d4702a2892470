#!/bin/sh
# Makes the Debian package: muster_VERSION_amd64.deb.
#
# Usage: sh deploy/build-deb.sh [--version V] [--out DIR] [--binaries DIR]
#   --version V      the package's version (default: that of the workspace)
#   --out DIR        where to put it (default: target/deb)
#   --binaries DIR   take muster, muster-documentation, muster-init and muster-sshd from there, for a trial that needs
#                    no small programs; the static ones of deploy/build.sh are found beside a build's folder
# DEBFULLNAME and DEBEMAIL name the maintainer; SOURCE_DATE_EPOCH is the time of all files.
set -eu
umask 022
cd "$(dirname "$0")/.."
fail() { echo "build-deb.sh: $*" >&2; exit 2; }

version=
out=target/deb
binaries=
while [ $# -gt 0 ]; do
    case $1 in
        --version | --out | --binaries)
            [ $# -ge 2 ] || fail "$1 needs a value"
            case $1 in --version) version=$2 ;; --out) out=$2 ;; --binaries) binaries=$2 ;; esac
            shift 2
            ;;
        -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) fail "unknown option $1; see --help" ;;
    esac
done
: "${version:=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)}"
case $version in
    [0-9]*) ;;
    *) fail "a version starts with a digit, and $version does not" ;;
esac
[ "$(dpkg --print-architecture)" = amd64 ] || fail "packages are made on amd64 alone"
maintainer="${DEBFULLNAME:-Muster authors} <${DEBEMAIL:-muster@example.org}>"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}"
export SOURCE_DATE_EPOCH

triple=$(rustc -vV | sed -n 's/^host: //p')
if [ -z "$binaries" ]; then
    level=9
    # One call, so that what both programs share is compiled once. The linker, which comes with Rust, keeps one of
    # functions that are the same.
    RUSTFLAGS='-C link-arg=-Wl,--icf=all' cargo build --locked --profile deb -p muster-agent -p muster-cli \
        --features muster-cli/documentation --bin muster --bin muster-documentation
    sh deploy/build.sh release init
    target=${CARGO_TARGET_DIR:-target}
    muster=$target/deb/muster
    documentation=$target/deb/muster-documentation
    init=$target/$triple/release/muster-init
    sshd=$target/$triple/release/muster-sshd
else
    # Packed fast instead of small.
    level=0
    binaries=$(cd "$binaries" && pwd)
    muster=$binaries/muster
    documentation=$binaries/muster-documentation
    init=${binaries%/*}/$triple/${binaries##*/}/muster-init
    [ -x "$init" ] || init=$binaries/muster-init
    sshd=${init%/*}/muster-sshd
fi
for program in "$muster" "$documentation" "$init" "$sshd"; do
    [ -x "$program" ] || fail "$program is missing"
done
for program in "$init" "$sshd"; do
    if ldd "$program" >/dev/null 2>&1 && ! ldd "$program" 2>&1 | grep -q 'statically linked'; then
        fail "$program is not linked statically, so no container could start it; see deploy/build.sh"
    fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
package=deploy/package

# put MODE SOURCE TARGET
put() { install -D -m "$1" "$2" "$root/$3"; }
# squeeze TARGET: standard input, compressed the same way every time.
squeeze() { mkdir -p "$root/$(dirname "$1")" && gzip -9n >"$root/$1"; }

put 755 "$muster" usr/bin/muster
put 755 "$init" usr/lib/muster/muster-init
put 755 "$sshd" usr/lib/muster/muster-sshd
strip --strip-unneeded --remove-section=.comment --remove-section=.note \
    "$root/usr/bin/muster" "$root/usr/lib/muster/muster-init" "$root/usr/lib/muster/muster-sshd"
put 644 deploy/config.example.toml etc/muster/agent.toml
put 644 $package/muster.service usr/lib/systemd/system/muster.service
put 644 $package/musteragent.slice usr/lib/systemd/system/musteragent.slice
put 644 $package/tmpfiles.conf usr/lib/tmpfiles.d/muster.conf

"$documentation" "$work/documentation"
for page in "$work"/documentation/man1/*; do squeeze "usr/share/man/man1/${page##*/}.gz" <"$page"; done
put 644 "$work/documentation/bash/muster.bash" usr/share/bash-completion/completions/muster
put 644 "$work/documentation/zsh/_muster" usr/share/zsh/vendor-completions/_muster
put 644 "$work/documentation/fish/muster.fish" usr/share/fish/vendor_completions.d/muster.fish

put 644 $package/lintian-overrides usr/share/lintian/overrides/muster
doc=usr/share/doc/muster
for file in docs/*.md; do put 644 "$file" "$doc/${file##*/}"; done
for file in deploy/examples/*.yaml deploy/examples/*/*; do
    put 644 "$file" "$doc/examples/${file#deploy/examples/}"
done
python3 $package/copyright.py . >"$work/copyright"
put 644 "$work/copyright" "$doc/copyright"
# Debian names the changelog of a package without a revision of its own differently.
case $version in *-*) changelog=changelog.Debian.gz ;; *) changelog=changelog.gz ;; esac
squeeze "$doc/$changelog" <<END
muster ($version) unstable; urgency=medium

  * What changed is in /$doc/NEWS.gz.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
squeeze "$doc/NEWS.gz" <CHANGELOG.md

mkdir "$work/debian" "$root/DEBIAN"
cat >"$work/debian/control" <<END
Source: muster

Package: muster
Architecture: amd64
END
libraries=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/muster | sed -n 's/^shlibs:Depends=//p')
sed -e "s/@version@/$version/" -e "s/@maintainer@/$maintainer/" -e "s/@libraries@/$libraries/" \
    -e "s/@size@/$(du -k -s --apparent-size "$root" | cut -f1)/" $package/control >"$root/DEBIAN/control"
echo /etc/muster/agent.toml >"$root/DEBIAN/conffiles"
install -m 644 $package/triggers "$root/DEBIAN/triggers"
for script in postinst prerm postrm; do install -m 755 $package/$script "$root/DEBIAN/$script"; done
(cd "$root" && find usr -type f | LC_ALL=C sort | xargs md5sum) >"$root/DEBIAN/md5sums"
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$out"
deb=$out/muster_${version}_amd64.deb
dpkg-deb --root-owner-group -Zxz "-z$level" --build "$root" "$deb" >/dev/null
echo "$deb ($(du -k "$deb" | cut -f1) KiB; muster $(du -k "$root/usr/bin/muster" | cut -f1) KiB)"
