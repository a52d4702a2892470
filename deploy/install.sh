#!/bin/sh
# Installs the Debian packages that building, running and testing need, where they are missing.
#
# Usage: sh deploy/install.sh COMMAND:PACKAGE ... /PATH/TO/FILE:PACKAGE ...
set -eu
missing=
for pair in "$@"; do
    [ -f "${pair%%:*}" ] || command -v "${pair%%:*}" >/dev/null 2>&1 ||
        missing="$missing ${pair#*:}"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "install.sh: please install$missing, then run this again" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "install.sh: installing$missing needs root; run this with sudo" >&2
    exit 1
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086 # one word per package
if ! { apt-get update -q && apt-get install -q -y --no-install-recommends $missing; } >"$log" 2>&1
then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "install.sh: apt-get could not install$missing; see above" >&2
    exit 1
fi
rm -f "$log"
