#!/bin/sh
# TensorBoard 2.20.0: with --path_prefix, the option for a proxy that serves it below a path, the page asks for its fonts
# at /font-roboto/ of the root all the same. They are served below the prefix alone: the same file is 404 at the root and
# 200 below it. All else on the page, data, scripts and icons, is relative and works below any path, with the option or
# without it. The page goes on with other fonts and each view leaves some 404s in the proxy's log and in the browser's
# console, so "no request of the page fails" cannot be asked of a proxy in front of it.
# Seen: "the page names: /font-roboto/...woff2", "at the root: 404", "below the prefix: 200".
#
# Needs Python 3.11 or newer with venv and a package index, and curl. Installs nothing outside a temporary folder, and
# listens on a free port of 127.0.0.1. Fails if the behaviour is not there any more.
set -eu
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check tensorboard==2.20.0 'setuptools<81'
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir "$work/logs"
"$work/venv/bin/tensorboard" --host 127.0.0.1 --port "$port" --path_prefix /board --logdir "$work/logs" \
    >"$work/said" 2>&1 </dev/null &
server=$!
url=http://127.0.0.1:$port
tries=0
until curl -fs --max-time 10 -o "$work/page" "$url/board/"; do
    tries=$((tries + 1))
    [ "$tries" -lt 60 ] || { cat "$work/said"; exit 1; }
    sleep 1
done
# The fonts' styles are part of the page.
font=$(tr -s ' \n' '\n\n' <"$work/page" | sed -n 's/.*url(\([^)]*font-roboto[^)]*\)).*/\1/p' | head -n 1)
status() { curl -s --max-time 10 -o "$work/font" -w '%{http_code}' "$1"; }
echo "TensorBoard 2.20.0 with --path_prefix /board"
echo "the page names:   $font"
root=$(status "$url/font-roboto/${font##*/}")
below=$(status "$url/board/font-roboto/${font##*/}")
echo "at the root:      $root"
echo "below the prefix: $below"
case $font in /font-roboto/*) ;; *) exit 1 ;; esac
[ "$root" = 404 ] && [ "$below" = 200 ]
