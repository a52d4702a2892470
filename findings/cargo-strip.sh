#!/bin/sh
# Cargo 1.65 with rustc 1.63 of Debian 12 (Cargo 1.95 does the same): a profile says strip = "symbols". As soon as
# the profile has any setting of its own for the package of the program, an opt-level say, the program keeps its
# symbols: merging the package's settings puts `strip` back to its default. Cargo warns of nothing. The package's
# settings have to repeat it.
#
# A release build of Muster was 16 MB larger than its profile said, for that reason.
#
# Needs apt with a mirror of Debian 12, cc and readelf. Installs nothing. Fails if the behaviour is not there any more.
set -eu
cd "$(dirname "$0")/.."
. deploy/debian-packages.sh
mirror=$(debian_mirror)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rust=1.63.0+dfsg1-2
unpack_packages "$work" bookworm cargo=0.66.0+ds1-1 "rustc=$rust" "libstd-rust-1.63=$rust" "libstd-rust-dev=$rust" \
    libllvm14 libgit2-1.5 libssh2-1 libhttp-parser2.9 libmbedcrypto7 libmbedtls14 libmbedx509-1 libcurl3-gnutls
root=$work/bookworm/root/usr
export LD_LIBRARY_PATH="$root/lib/x86_64-linux-gnu" RUSTC="$root/bin/rustc" CARGO_HOME="$work/home"
"$root/bin/cargo" --version
mkdir -p "$work/program/src"
echo 'fn main() {}' >"$work/program/src/main.rs"
manifest='[package]
name = "program"
version = "0.1.0"
[profile.release]
strip = "symbols"'

# symbols MANIFEST: whether a release build of it has a table of symbols.
symbols() {
    echo "$1" >"$work/program/Cargo.toml"
    (cd "$work/program" && "$root/bin/cargo" build --offline --release --quiet)
    if readelf -SW "$work/program/target/release/program" | grep -q '\.symtab'; then echo kept; else echo stripped; fi
}

plain=$(symbols "$manifest")
echo "strip = \"symbols\": $plain"
own=$(symbols "$manifest
[profile.release.package.program]
opt-level = 2")
echo "and an opt-level for the package: $own"
again=$(symbols "$manifest
[profile.release.package.program]
opt-level = 2
strip = \"symbols\"")
echo "and strip said again there: $again"
[ "$plain $own $again" = 'stripped kept stripped' ]
