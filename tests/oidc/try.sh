#!/bin/sh
# Logs in to an agent by a real identity provider: `oidc-provider` of npm, which this script starts. It is no part of
# deploy/test.sh, for it needs npm and the network; the tests there have a provider of their own, which signs with
# real keys.
#
# Usage: sh tests/oidc/try.sh /PATH/TO/muster
set -eu
muster=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
agent_pid=
provider_pid=
finish() {
    status=$?
    for pid in $agent_pid $provider_pid; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    [ $status -eq 0 ] || tail -n 30 "$work"/*.log >&2
    rm -rf "$work"
    exit $status
}
trap finish EXIT

http=$((20000 + $$ % 10000))
mesh=$((http + 1))
provider=$((http + 2))
secret=a-secret-with-signs:%/+
url=http://127.0.0.1:$http
portal=http://portal.example/done

cp "$here/provider.mjs" "$work"
(cd "$work" && npm install --silent --no-audit --no-fund oidc-provider@8 >npm.log 2>&1)
node "$work/provider.mjs" "$provider" "$url/api/v1/authn/oidc/return" "$secret" >"$work/provider.log" 2>&1 &
provider_pid=$!

printf %s "$secret" >"$work/secret"
chmod 600 "$work/secret"
cat >"$work/agent.toml" <<TOML
[http]
listen = "127.0.0.1:$http"
[mesh]
listen = "127.0.0.1:$mesh"
[node]
name = "n1"
advertise = "127.0.0.1"
# No task is run here.
[tasks]
init = "/bin/true"
[hardware]
simulate = "2xV100"
[oidc]
issuer = "http://127.0.0.1:$provider"
client_secret_file = "$work/secret"
portals = ["http://portal.example"]
[oidc.groups]
"/lab/vision" = ["vision"]
"/lab/speech" = ["speech"]
TOML
MUSTER_HOME=$work "$muster" agent >"$work/agent.log" 2>&1 &
agent_pid=$!
export MUSTER_HOME="$work"

tries=0
until curl -fsS "http://127.0.0.1:$provider/.well-known/openid-configuration" >/dev/null 2>&1 &&
    "$muster" user show admin >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || { echo "agent or provider does not answer" >&2; exit 1; }
    sleep 1
done
"$muster" group add vision >/dev/null
"$muster" group add speech >/dev/null

# What the browser of a user is sent to in the end.
log_in() {
    user=$1
    jar=$work/cookies.$user
    rm -f "$jar"
    browser() { curl -sS -b "$jar" -c "$jar" "$@"; }
    place=$(browser -o /dev/null -w '%{redirect_url}' "$url/api/v1/authn/oidc/login?redirect_uri=$portal&from=/jobs")
    while :; do
        case $place in
            "$portal"*) echo "$place"; return ;;
            */interaction/*)
                page=$(browser "$place")
                prompt=$(printf %s "$page" | sed -n 's/.*name="prompt" value="\([a-z]*\)".*/\1/p' | head -n 1)
                next=$(browser -o /dev/null -w '%{redirect_url}' -d "prompt=$prompt&login=$user&password=x" "$place") ;;
            */oidc/return*)
                next=$(browser -o "$work/answer" -w '%{redirect_url}' "$place")
                [ -n "$next" ] || { cat "$work/answer"; return; } ;;
            *) next=$(browser -o /dev/null -w '%{redirect_url}' "$place") ;;
        esac
        [ -n "$next" ] || { echo "stuck at $place" >&2; return 1; }
        place=$next
    done
}

check() {
    case $2 in
        *"$3"*) echo "ok: $1" ;;
        *) echo "FAILED: $1: $3 is not in $2" >&2; exit 1 ;;
    esac
}

place=$(log_in ada)
check "ada comes back" "$place" "$portal?user=ada&token="
check "she is no admin" "$place" "admin=false"
check "what was passed on" "$place" "from=%2Fjobs"
token=$(printf %s "$place" | sed 's/.*token=\([^&]*\).*/\1/')
answer=$(curl -sS -H "authorization: Bearer $token" "$url/api/v2/users/ada")
check "her groups" "$answer" '"vision"'
check "her address" "$answer" 'ada@example.org'
check "whom she is there" "$answer" '"subject":"subject-of-ada"'
case $answer in *'"speech"'*) echo "FAILED: she is in speech" >&2; exit 1 ;; esac
check "a second login" "$(log_in ada)" "$portal?user=ada&token="
check "a person without groups" "$(log_in bob)" "$portal?user=bob&token="
check "the local admin is nobody else's" "$(log_in admin)" IdentityProviderError
check "the audit log" "$("$muster" audit --subject ada)" user.add
echo "all is well"
