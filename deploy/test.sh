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
    protoc:protobuf-compiler /usr/include/seccomp.h:libseccomp-dev cc:build-essential tar:tar \
    docker-registry:docker-registry ip:iproute2 nft:nftables curl:curl \
    faketime:faketime bash:bash python3:python3
if ! command -v cargo-nextest >/dev/null 2>&1; then
    echo "installing cargo-nextest (once)"
    cargo install --locked cargo-nextest
fi

step() { printf '\n==> %s\n' "$*"; }

step "shell scripts"
for script in deploy/*.sh deploy/examples/*/*.sh .ci/run; do sh -n "$script"; done
step "seeded bugs have their places"
python3 tests/mutants/run.py . --check
step "format"
cargo fmt --all --check
step "lints"
cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
step "build"
sh deploy/build.sh dev
step "tests"
cargo nextest run --locked --workspace --all-features
step "documentation"
RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --quiet
