#!/bin/sh
# Asks an agent what schemathesis, of PyPI, makes up from its /openapi.json: no answer may be a failure of the server
# (5xx), and each has to be described, with its type of content and its fields. The document itself is held against the
# published schema of OpenAPI 3.1. It is no part of deploy/test.sh, for it needs pip and the network; the tests there
# hold the answers of all their requests against the document.
#
# Usage: sh tests/openapi/try.sh /PATH/TO/muster [EXAMPLES of each operation; 30 unless told]
set -eu
muster=$1
examples=${2:-30}
work=$(mktemp -d)
agent_pid=
finish() {
    status=$?
    [ -z "$agent_pid" ] || kill "$agent_pid" 2>/dev/null || true
    wait 2>/dev/null || true
    [ $status -eq 0 ] || tail -n 30 "$work/agent.log" >&2
    rm -rf "$work"
    exit $status
}
trap finish EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet 'schemathesis>=4.32,<5' openapi-spec-validator

http=$((20000 + $$ % 10000))
mesh=$((http + 1))
url=http://127.0.0.1:$http
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
TOML
MUSTER_HOME=$work "$muster" agent >"$work/agent.log" 2>&1 &
agent_pid=$!

tries=0
until curl -fsS "$url/openapi.json" -o "$work/openapi.json" 2>/dev/null && [ -s "$work/state/admin-password" ]; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || { echo "the agent does not answer" >&2; exit 1; }
    sleep 1
done
"$work/venv/bin/openapi-spec-validator" "$work/openapi.json"

password=$(cat "$work/state/admin-password")
token=$(curl -fsS "$url/api/v2/tokens" -H 'content-type: application/json' \
    -d "{\"username\": \"admin\", \"password\": \"$password\"}" | sed 's/.*"token":"\([^"]*\)".*/\1/')

# Not asked: what ends the agent's membership or this token, what waits for a minute, and what asks a registry or the
# container engine, which this agent has none of.
"$work/venv/bin/schemathesis" run "$work/openapi.json" --url "$url" --header "Authorization: Bearer $token" \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --phases examples,coverage,fuzzing --max-examples "$examples" --request-timeout 70 --continue-on-failure \
    --warnings off --generation-database none \
    --exclude-operation-id membershipLeave --exclude-operation-id membershipJoin \
    --exclude-operation-id membershipExpel --exclude-operation-id membershipInit \
    --exclude-operation-id membershipRecover --exclude-operation-id membershipRecoverOfVc \
    --exclude-operation-id sessionLogout --exclude-operation-id sessionRevokeAll \
    --exclude-operation-id tokensRevokeAll --exclude-operation-id usersSetPassword \
    --exclude-operation-id imagesList --exclude-operation-id imagesRemove --exclude-operation-id imagesImport \
    --exclude-operation-id ownWait --exclude-operation-id nodesDoctor --exclude-operation-id imagesPull
