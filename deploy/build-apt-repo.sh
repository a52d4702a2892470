#!/bin/sh
# Makes a signed flat repository of packages for apt, or adds packages to one.
#
# Usage: sh deploy/build-apt-repo.sh DIR [DEB...]
#   DIR is what a web server hands out, or a folder that machines reach. It gets the packages, their index, and
#   muster.sources: that one goes to /etc/apt/sources.list.d of each machine, and has the public key in it.
#
# MUSTER_REPO_URL       where machines find DIR (default: file:DIR)
# MUSTER_REPO_GNUPGHOME a GnuPG folder with the key to sign with (default: ~/.local/share/muster/archive-key,
#                       where an Ed25519 key without a passphrase is made at first use). Keep a copy of it.
# MUSTER_REPO_KEY       which key of that folder, where there are several
set -eu
umask 022
fail() { echo "build-apt-repo.sh: $*" >&2; exit 2; }
case ${1:-} in
    '' | -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) fail "unknown option $1; see --help" ;;
esac
directory=$1
shift
mkdir -p "$directory"
for deb in "$@"; do
    dpkg-deb --info "$deb" >/dev/null || fail "$deb is not a package"
    [ "$deb" -ef "$directory/${deb##*/}" ] || install -m 644 "$deb" "$directory/${deb##*/}"
done
cd "$directory"
directory=$(pwd)
url=${MUSTER_REPO_URL:-file:$directory}

GNUPGHOME=${MUSTER_REPO_GNUPGHOME:-${XDG_DATA_HOME:-$HOME/.local/share}/muster/archive-key}
export GNUPGHOME
case $GNUPGHOME/ in "$directory"/*) fail "$GNUPGHOME would be published with $directory" ;; esac
[ -d "$GNUPGHOME" ] || (umask 077 && mkdir -p "$GNUPGHOME")
trap 'gpgconf --kill all >/dev/null 2>&1 || true' EXIT
gnupg() { gpg --batch --no-tty --quiet "$@"; }
keys() { gnupg --list-secret-keys --with-colons 2>/dev/null | awk -F: '$1 == "sec" {want = 1} $1 == "fpr" && want {print $10; want = 0}'; }
if [ -z "$(keys)" ]; then
    gnupg --passphrase '' --quick-generate-key 'Muster package archive' ed25519 sign never
    echo "made a key to sign with in $GNUPGHOME"
fi
key=${MUSTER_REPO_KEY:-$(keys)}
case $key in *[!0-9A-Fa-f]*) fail "there are several keys in $GNUPGHOME; name one as MUSTER_REPO_KEY" ;; esac
sign() { gnupg --yes --local-user "$key" --digest-algo SHA512 --armor "$@"; }

# New files beside the old ones first: a machine that fetches meanwhile finds either all or none of them.
dpkg-scanpackages --multiversion . 2>/dev/null >Packages.new
xz -9 --keep --force Packages.new
mv Packages.new Packages
mv Packages.new.xz Packages.xz
{
    cat <<END
Origin: Muster
Label: Muster
Suite: stable
Architectures: amd64
Description: Muster's packages
Date: $(date -u -R)
SHA256:
END
    for file in Packages Packages.xz; do
        echo " $(sha256sum "$file" | cut -d' ' -f1) $(wc -c <"$file") $file"
    done
} >Release.new
rm -f InRelease.new Release.gpg.new
sign --output InRelease.new --clearsign Release.new
sign --output Release.gpg.new --detach-sign Release.new
for file in Release Release.gpg InRelease; do mv "$file.new" "$file"; done

{
    cat <<END
# Muster's packages. Put this file into /etc/apt/sources.list.d, then: apt update && apt install muster
Types: deb
URIs: $url
Suites: ./
Architectures: amd64
Signed-By:
END
    gnupg --armor --export-options export-minimal --export "$key" | sed 's/^$/./; s/^/ /'
} >muster.sources
echo "$directory holds $(grep -c '^Package: ' Packages) package(s), signed with $key"
