#!/bin/sh
# Runs Muster's main job on this machine: builds it, starts one agent, submits
# deploy/examples/hello.yaml and follows it to SUCCEEDED.
#
# Usage: sh deploy/quickstart.sh            run the job, then stop what was started
#        sh deploy/quickstart.sh --keep     run the job and leave the agent running
#        sh deploy/quickstart.sh --down     stop everything that --keep left
#
# MUSTER_HOME (default ./target/quickstart) holds everything it makes.
# MUSTER_HTTP (default 127.0.0.1:7741) is where the agent listens.
set -eu
cd "$(dirname "$0")/.."
own_root_script=deploy/quickstart.sh
. deploy/own-root.sh
profile=trial
. deploy/quickstart-lib.sh

case ${1:-} in
    --down) down; exit 0 ;;
    --keep | '') ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "quickstart: unknown option $1; see --help" >&2; exit 2 ;;
esac

need_root
sh deploy/install.sh containerd:containerd runc:runc crun:crun busybox:busybox-static \
    protoc:protobuf-compiler /usr/include/seccomp.h:libseccomp-dev cc:build-essential tar:tar \
    ip:iproute2
say "building (a first build takes some minutes)"
sh deploy/build.sh $profile
[ "${1:-}" = --keep ] || trap 'status=$?; trap - EXIT; down; exit $status' EXIT INT TERM
start_containerd
start_agent
import_busybox
run_hello
say "REST API  $url"
say "login     admin / $(cat "$MUSTER_HOME/state/admin-password")"
say "also in   $MUSTER_HOME/credentials.json"
if [ "${1:-}" = --keep ]; then
    say "still running; try:  MUSTER_HOME=$MUSTER_HOME $muster job list"
    say "stop it with:        sh deploy/quickstart.sh --down"
fi
