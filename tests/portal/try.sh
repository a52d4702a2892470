#!/bin/sh
# Opens the pages of OpenPAI's web portal of release 1.8 in a browser, against a cluster: builds the portal from its
# own sources, serves it by its own server, and does on each page what people do there. It is no part of
# deploy/test.sh, for it needs npm, the network, a quarter of an hour and a Chromium.
#
# Usage: sh tests/portal/try.sh http://NODE:7741 PASSWORD-FILE
#
# PASSWORD-FILE holds the password of the user admin. The script leaves jobs and a user behind.
#
# IMAGE     an image that the cluster has, with a shell in it (default: muster/busybox)
# CHROMIUM  the browser (default: chromium-headless-shell, chromium or google-chrome)
# PAI       where to get the sources: a git repository (default: that of OpenPAI), or a folder with src/webportal
# BUILT     a folder to keep the built portal in, so that the next run starts at once (default: none)
# SHOTS     a folder for screenshots (default: none)
set -eu
node_url=$1
password_file=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
pai=${PAI:-https://github.com/microsoft/pai}
commit=a95d9420e
work=$(mktemp -d)
portal=${BUILT:-$work/portal}
portal_pid=
proxy_pid=
finish() {
    status=$?
    for pid in $portal_pid $proxy_pid; do kill "$pid" 2>/dev/null || true; done
    [ $status -eq 0 ] || tail -n 20 "$work"/*.log >&2
    rm -rf "$work"
    exit $status
}
trap finish EXIT

chromium=${CHROMIUM:-$(command -v chromium-headless-shell || command -v chromium || command -v google-chrome)}
port=$((20000 + $$ % 10000))

# sass stands in for node-sass, which no Node.js of today builds, and one worker minifies instead of one for each core.
build_portal() {
    if [ -d "$pai/src/webportal" ]; then
        cp -r "$pai/src/webportal/." "$portal"
    else
        git clone --quiet --filter=blob:none --no-checkout "$pai" "$work/pai"
        git -C "$work/pai" archive "$commit" src/webportal | tar -x -C "$portal" --strip-components=2
    fi
    sed -i 's/"node-sass": "[^"]*"/"node-sass": "npm:sass@1.32.13"/' "$portal/package.json"
    sed -i 's/parallel: true/parallel: false/' "$portal/config/webpack.common.js"
    cd "$portal"
    npx --yes yarn@1.22.22 install --production=false --ignore-scripts --ignore-engines >"$work/yarn.log" 2>&1
    NODE_ENV=production NODE_OPTIONS='--openssl-legacy-provider --max-old-space-size=4000' \
        node_modules/.bin/webpack --mode production >"$work/webpack.log" 2>&1
    touch "$portal/built"
}

mkdir -p "$portal"
[ -f "$portal/built" ] || build_portal
cd "$portal"
touch .env
REST_SERVER_URI=/rest-server PROMETHEUS_URI='' GRAFANA_URI=/grafana K8S_DASHBOARD_URI=/kubernetes-dashboard \
    MARKETPLACE_API_URI=/marketplace/api LAUNCHER_TYPE=k8s LAUNCHER_SCHEDULER=defaultscheduler AUTHN_METHOD=basic \
    EXPORTER_PORT=9100 PROM_SCRAPE_TIME=300s ENABLE_JOB_TRANSFER=true SAVE_TEMPLATE=false YARN_WEB_PORTAL_URI='' \
    PYLON_ADDRESS='' WEBHDFS_URI='' WEBPORTAL_PLUGINS='' \
    node_modules/.bin/envsub --env-file .env --system src/app/env.js.template dist/env.js >"$work/env.log" 2>&1
SERVER_PORT=$port NODE_ENV=production LOG_LEVEL=warn node server >"$work/server.log" 2>&1 &
portal_pid=$!
node "$here/proxy.mjs" $((port + 1)) "http://127.0.0.1:$port" "$node_url" >"$work/proxy.log" 2>&1 &
proxy_pid=$!

cp "$here"/*.mjs "$work"
cd "$work"
npm install --silent --no-audit --no-fund playwright-core@1.49.1 >"$work/npm.log" 2>&1
tries=0
until curl -fsS -o /dev/null "http://127.0.0.1:$((port + 1))/index.html" 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || { echo "the portal's server does not answer" >&2; exit 1; }
    sleep 1
done
[ -z "${SHOTS:-}" ] || mkdir -p "$SHOTS"
node pages.mjs "http://127.0.0.1:$((port + 1))" "$password_file" "$chromium" "${SHOTS:-}"
