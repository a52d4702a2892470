#!/bin/sh
# Builds muster, muster-init and muster-sshd. The last two are mapped into containers, so they are linked
# statically; that needs an explicit target, which is why they are builds of their own.
#
# trial is what deploy/quickstart.sh builds: sooner done, and needs more memory and time when it runs.
#
# Usage: sh deploy/build.sh [dev|release|trial] [all|init]     (default: release, all; init: what runs in containers)
set -eu
cd "$(dirname "$0")/.."
profile=${1:-release}
triple=$(rustc -vV | sed -n 's/^host: //p')

case ${2:-all} in
    all)
        case $profile in trial) features=--no-default-features ;; *) features= ;; esac
        cargo build --locked --profile "$profile" $features --bin muster
        ;;
    init) ;;
    *) echo "build.sh: $2 is neither all nor init" >&2; exit 2 ;;
esac
# Every task starts it twice, so its size is part of every launch. These settings cannot stand in
# the manifest: Cargo takes them for a whole build only.
export CARGO_PROFILE_RELEASE_LTO=true CARGO_PROFILE_RELEASE_PANIC=abort \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 CARGO_PROFILE_TRIAL_LTO=true CARGO_PROFILE_TRIAL_CODEGEN_UNITS=1
RUSTFLAGS='-C target-feature=+crt-static -C strip=symbols' \
    cargo build --locked --profile "$profile" --target "$triple" -p muster-init
# By itself: in one build, muster-init would get the features of what this one needs. It unwinds, so that one
# connection that fails does not end the others.
unset CARGO_PROFILE_RELEASE_PANIC
RUSTFLAGS='-C target-feature=+crt-static -C strip=symbols' \
    cargo build --locked --profile "$profile" --target "$triple" -p muster-sshd
