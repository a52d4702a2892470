#!/bin/sh
# openapi-python-client 0.29.1 leaves out what it has no parser for, and ends with status 0:
# - an operation whose body is YAML has no function at all in the client that is made;
# - an operation whose 200 answer is a stream of JSON lines has a function that knows the 404 answer alone: it gives None
#   for a success, as for an answer that is not described;
# - the warning about it names an object in memory in place of the status.
# The document is valid OpenAPI 3.1. A client of Muster that is made so cannot submit a job.
#
# Needs python3 with venv, and PyPI. Fails if the behaviour is not there any more.
set -eu
version=0.29.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet "openapi-python-client==$version"
venv/bin/pip list 2>/dev/null | grep '^openapi-python-client '

cat >api.json <<'JSON'
{
  "openapi": "3.1.0",
  "info": {"title": "trial", "version": "1"},
  "paths": {
    "/jobs": {"post": {
      "operationId": "submit",
      "requestBody": {"required": true, "content": {"text/yaml": {"schema": {"type": "string"}}}},
      "responses": {"202": {"description": "taken"}}
    }},
    "/pull": {"post": {
      "operationId": "pull",
      "responses": {
        "200": {"description": "progress", "content": {"application/x-ndjson": {"schema": {"type": "string"}}}},
        "404": {"description": "none", "content": {"application/json": {"schema": {"type": "object"}}}}
      }
    }}
  }
}
JSON

status=0
venv/bin/openapi-python-client generate --path api.json --output-path client >told 2>&1 || status=$?
echo "exit status $status, and of what it tells:"
grep -A2 'WARNING' told
[ "$status" -eq 0 ] || { echo "it ends with $status now" >&2; exit 1; }
if find client -name 'submit*.py' | grep -q .; then
    echo "the operation with a body of YAML has a function now" >&2
    exit 1
fi
echo "there is no function for POST /jobs"
pull=$(find client -name pull.py)
grep -n 'status_code ==' "$pull"
if grep -q 'status_code == 200' "$pull"; then
    echo "the answer 200 of POST /pull is known now" >&2
    exit 1
fi
echo "the function for POST /pull knows no answer 200"
grep -q 'status code <.* object at ' told || { echo "the warning names the status now" >&2; exit 1; }
