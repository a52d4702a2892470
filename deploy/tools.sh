#!/bin/sh
# Lets real tools fail in real containers, and checks what Muster says of every end: code, phrase, who is charged for
# a retry, and the job's page. Prints a line for each case, and at the end one JSON line. Exits with 1 if one is wrong.
#
# Usage: sh deploy/tools.sh [--case NAME]...     (default: all of deploy/tools/cases)
#        sh deploy/tools.sh --list                the cases
#        sh deploy/tools.sh --keep ...            leaves the agent running; --down stops it
#
# MUSTER_PROGRAM      the muster to try, with muster-init beside it; default: a build of deploy/build.sh
# MUSTER_HOME         everything that the agent keeps, with the imported images; default: target/tools/home
# MUSTER_HTTP         where it listens; default: 127.0.0.1:17751
# MUSTER_TOOLS_CACHE  the layers of the images, for the next run; default: target/tools/cache
# MUSTER_TOOLS_JOBS   jobs that run at a time; default: one for each CPU, four at most
#
# Needs root, and the registries of Debian and PyPI for the first run. Not part of CI: on two busy cores that run took
# twenty minutes, of which the cases took two and a half, and left 8.4 GB. A later run takes those two and a half.
set -eu
cd "$(dirname "$0")/.."
own_root_script=deploy/tools.sh
. deploy/own-root.sh
MUSTER_HOME=${MUSTER_HOME:-$PWD/target/tools/home}
MUSTER_HTTP=${MUSTER_HTTP:-127.0.0.1:17751}
profile=trial
. deploy/quickstart-lib.sh
. deploy/debian-packages.sh
. deploy/tools/images.sh

names=
keep=
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,18s/^# \{0,1\}//p' "$0"; exit 0 ;;
        --list) sed -n 's/^- name: //p' deploy/tools/cases/*.yaml; exit 0 ;;
        --case) names="$names --case ${2:?--case needs a name}"; shift ;;
        --keep) keep=yes ;;
        --down) down; exit 0 ;;
        *) echo "tools.sh: unknown option $1; see --help" >&2; exit 2 ;;
    esac
    shift
done

# A task that fills its disk is one of the cases.
limit_disks() {
    "$muster" policy show | sed 's/^\( *disk_mb: \).*/\11024/' >"$MUSTER_HOME/policy.yaml"
    "$muster" policy apply "$MUSTER_HOME/policy.yaml" >/dev/null
}

need_root
sh deploy/install.sh containerd:containerd runc:runc crun:crun tar:tar debootstrap:debootstrap \
    /usr/lib/python3/dist-packages/yaml/__init__.py:python3-yaml
if [ -n "${MUSTER_PROGRAM:-}" ]; then
    muster=$(realpath "$MUSTER_PROGRAM")
else
    sh deploy/install.sh protoc:protobuf-compiler /usr/include/seccomp.h:libseccomp-dev cc:build-essential
    say "building (a first build takes some minutes)"
    sh deploy/build.sh "$profile"
fi
mirror=$(debian_mirror)
mirror=${mirror:-http://deb.debian.org/debian}
cache=${MUSTER_TOOLS_CACHE:-$PWD/target/tools/cache}
root=$cache/root
mkdir -p "$cache" "$MUSTER_HOME"

# shellcheck disable=SC2154 # it is set in the trap
[ -n "$keep" ] || trap 'status=$?; trap - EXIT; down; exit $status' EXIT INT TERM
make_layers
start_containerd
start_agent
import_images
limit_disks
jobs=$(nproc)
[ "$jobs" -le 4 ] || jobs=4
# shellcheck disable=SC2086 # two words per case
/usr/bin/python3 deploy/tools/run.py --muster "$muster" --home "$MUSTER_HOME" --jobs "${MUSTER_TOOLS_JOBS:-$jobs}" \
    --containerd "$(containerd_socket)" --namespace "$namespace" $names
