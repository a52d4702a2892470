#!/bin/sh
# Builds muster and muster-init. muster-init is mapped into every container, so it is linked
# statically; that needs an explicit target, which is why it is a build of its own.
#
# trial is what deploy/quickstart.sh builds: sooner done, and needs more memory and time when it runs.
#
# Usage: sh deploy/build.sh [dev|release|trial] [all|init]     (default: release, all)
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
