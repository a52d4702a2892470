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
login_pid=
finish() {
    status=$?
    for pid in $login_pid $agent_pid $provider_pid; do kill "$pid" 2>/dev/null || true; done
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
oidc=$url/api/v1/authn/oidc
node "$work/provider.mjs" "$provider" "$oidc/return" "$oidc/backchannel-logout" "$secret" >"$work/provider.log" 2>&1 &
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

browser() { curl -sS -b "$jar" -c "$jar" "$@"; }

# What the browser of a user is sent to in the end.
log_in() {
    user=$1
    jar=$work/cookies.$user
    rm -f "$jar"
    follow "$(browser -o /dev/null -w '%{redirect_url}' "$oidc/login?redirect_uri=$portal&from=/jobs")"
}

# The browser of $user goes on from here, and answers what the provider asks.
follow() {
    place=$1
    while :; do
        case $place in
            "$portal"*) echo "$place"; return ;;
            */interaction/*)
                page=$(browser "$place")
                prompt=$(printf %s "$page" | sed -n 's/.*name="prompt" value="\([a-z]*\)".*/\1/p' | head -n 1)
                next=$(browser -o /dev/null -w '%{redirect_url}' -d "prompt=$prompt&login=s-$user&password=x" "$place") ;;
            */oidc/return*)
                next=$(browser -o "$work/answer" -w '%{redirect_url}' "$place")
                [ -n "$next" ] || { cat "$work/answer"; return; } ;;
            *)
                next=$(browser -o "$work/answer" -w '%{redirect_url}' "$place")
                [ -n "$next" ] || { cat "$work/answer"; return; } ;;
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
check "whom she is there" "$answer" '"subject":"s-ada"'
case $answer in *'"speech"'*) echo "FAILED: she is in speech" >&2; exit 1 ;; esac
check "a second login" "$(log_in ada)" "$portal?user=ada&token="
check "a person without groups" "$(log_in bob)" "$portal?user=bob&token="
check "the local admin is nobody else's" "$(log_in admin)" IdentityProviderError
check "the audit log" "$("$muster" audit --subject ada)" user.add

# The page of a form that the provider shows has what proves that the form is its own.
proof() { sed -n 's/.*name="xsrf" value="\([^"]*\)".*/\1/p' | head -n 1; }

# A user enters a code at the provider in a browser that knows nothing of them yet, and says yes or no.
enter_code() {
    user=$1
    code=$2
    jar=$work/cookies.device.$user
    rm -f "$jar"
    device=http://127.0.0.1:$provider/device
    form="xsrf=$(browser "$device" | proof)&user_code=$code"
    browser -o /dev/null -d "$form" "$device"
    follow "$(browser -o "$work/answer" -w '%{redirect_url}' -d "$form&$3=yes" "$device")"
}

# `muster login`, beside this script; what it says is in $work/login.
begin_login() {
    : >"$work/login"
    "$muster" login "$url" --context "$1" >"$work/login" 2>&1 &
    login_pid=$!
    tries=0
    until grep -q "Waiting until" "$work/login"; do
        tries=$((tries + 1))
        [ $tries -lt 30 ] || { cat "$work/login" >&2; exit 1; }
        sleep 1
    done
    code=$(grep -E '^ +[A-Z]{4}-[A-Z]{4}$' "$work/login" | tr -d ' ')
}

export XDG_CONFIG_HOME="$work/config"
begin_login device
sleep 6
check "it waits" "$(cat "$work/login")" "Ctrl-C ends it"
check "the page says so" "$(enter_code ada "$code" confirm)" "successful"
wait "$login_pid" || { cat "$work/login" >&2; exit 1; }
check "ada is logged in on a machine without a browser" "$(cat "$work/login")" "logged in as ada"
check "who she is there" "$("$muster" --context device whoami)" vision
check "her token has a name" "$("$muster" --context device token list)" "muster login"

begin_login denied
enter_code bob "$code" abort >/dev/null 2>&1 || true
status=0
wait "$login_pid" || status=$?
check "a login that is refused" "$status $(cat "$work/login")" "4 "
check "what is said then" "$(cat "$work/login")" "refused at the identity provider"

begin_login interrupted
kill -INT "$login_pid"
status=0
wait "$login_pid" || status=$?
check "a login that is interrupted" "$status $(cat "$work/login")" "130 "
check "what is said then" "$(cat "$work/login")" "begins again"
login_pid=

# Ada logs out at the provider, in the browser in which she entered the code.
jar=$work/cookies.device.ada
end=http://127.0.0.1:$provider/session/end
form="xsrf=$(browser "$end" | proof)&logout=yes"
browser -o /dev/null -L -d "$form" "$end/confirm"
tries=0
while "$muster" --context device whoami >"$work/who" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 10 ] || { echo "FAILED: ada is still logged in" >&2; exit 1; }
    sleep 1
done
check "ada is logged out here too" "$(cat "$work/who")" "token is invalid"
echo "all is well"
