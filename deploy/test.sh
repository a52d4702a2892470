#!/bin/sh
# Passes every check of the project: format, lints, tests against a real containerd, docs.
# Never changes the tree; deploy/fix.sh does.
#
# Usage: sh deploy/test.sh
set -eu
cd "$(dirname "$0")/.."
own_root_script=deploy/test.sh
. deploy/own-root.sh

sh deploy/install.sh containerd:containerd runc:runc crun:crun busybox:busybox-static \
    protoc:protobuf-compiler /usr/include/seccomp.h:libseccomp-dev cc:build-essential tar:tar xz:xz-utils bzip2:bzip2 \
    docker-registry:docker-registry ip:iproute2 nft:nftables curl:curl openssl:openssl \
    ssh:openssh-client faketime:faketime bash:bash python3:python3 promtool:prometheus \
    dpkg-shlibdeps:dpkg-dev lintian:lintian gpg:gnupg
sh deploy/browser.sh
if ! command -v cargo-nextest >/dev/null 2>&1; then
    echo "installing cargo-nextest (once)"
    cargo install --locked cargo-nextest
fi

started=$(date +%s)
step() { printf '\n==> %s (after %s s)\n' "$*" $(($(date +%s) - started)); }

step "shell scripts"
for script in deploy/*.sh deploy/vm/*.sh deploy/examples/*/*.sh findings/*.sh .ci/run; do sh -n "$script"; done
# They run on machines of others, where sh may be any POSIX shell.
for script in deploy/package/postinst deploy/package/prerm deploy/package/postrm; do dash -n "$script"; done
step "seeded bugs have their places"
python3 tests/mutants/run.py . --check
step "format"
cargo fmt --all --check
step "lints"
cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
step "lints of what is installed, which has fewer features"
cargo clippy --locked --bin muster -- -D warnings
step "build"
# With the features that the tests need, so that nothing is built twice.
cargo build --locked --workspace --all-features --bins --tests
sh deploy/build.sh dev init
step "package"
target=${CARGO_TARGET_DIR:-target}
sh deploy/build-deb.sh --binaries "$target/debug" --version 0~test --out "$target/deb"
lintian --fail-on error "$target/deb/muster_0~test_amd64.deb"
rm "$target/deb/muster_0~test_amd64.deb"
step "tests"
cargo nextest run --locked --workspace --all-features
step "container engines of other releases"
# This machine's own one has just been tried.
others=$(printf '%s\n' bookworm trixie sid | grep -vx "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")")
# shellcheck disable=SC2086 # one word per suite
sh deploy/engines.sh $others
step "documentation"
RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --quiet
