#!/usr/bin/env python3
"""Replays 81 requests whose answers a genuine OpenPAI v1.8 server gave, and compares.

Usage: tests/rest/replay.py URL IMAGE < admin-password

The agent at URL must be fresh, of a node that is called n1, with two devices at least and IMAGE on it, an image
with a shell. pairs.json holds each request, and of the recorded answer the status, the content type, the code, and
the shape: names of fields with the types of their values. known.json names the pairs that may differ, with the reason. Prints one line for
each pair that differs; exits with 1 if one does that is not known.
"""
import http.client
import json
import sys
import time
import urllib.parse
from pathlib import Path

HERE = Path(__file__).parent
JOB = f"replay{int(time.time())}"
LIMIT_S = 60
STORAGES = "storages: [{name: data, volumeName: data-pv, type: nfs, data: {server: 127.0.0.1, path: /data}}]"


class Server:
    """An agent, and the login at it."""

    def __init__(self, url, password):
        self.address = urllib.parse.urlsplit(url).netloc
        self.password = password
        self.token = None

    def ask(self, method, path, body=None, kind=None, token=None):
        """The status, the content type and the body, parsed if it is JSON."""
        connection = http.client.HTTPConnection(self.address, timeout=30)
        headers = {}
        if kind:
            headers["Content-Type"] = kind
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, urllib.parse.quote(path, safe="/?&=~%"), body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        return answer.status, answer.headers.get("Content-Type", ""), value

    def login(self):
        form = urllib.parse.urlencode({"username": "admin", "password": self.password})
        kind = "application/x-www-form-urlencoded"
        status, _, value = self.ask("POST", "/api/v2/authn/basic/login", form, kind)
        if status != 200:
            sys.exit(f"login: {status} {value}")
        self.token = value["token"]

    def prepare(self):
        """What the recorded cluster had: a storage, which everybody may use."""
        acls = {"virtualClusters": ["default"], "storageConfigs": ["data"]}
        extension = json.dumps({"extension": {"acls": acls}})
        kind = "application/json"
        for method, path, body in [
            ("PUT", "/api/muster/v1/documents/storages?base=0", STORAGES),
            ("PUT", "/api/v2/groups/default/extension", extension),
        ]:
            status, _, value = self.ask(method, path, body, kind, self.token)
            if status not in (200, 201):
                sys.exit(f"{path}: {status} {value}")


def shape(value):
    """Names and types."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    for kind, word in [(bool, "boolean"), ((int, float), "number"), (str, "string")]:
        if isinstance(value, kind):
            return word
    return "null"


def differences(ours, theirs, path=""):
    """What one has and the other lacks, or has with another type."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for name in {**theirs, **ours}:
            if name not in theirs:
                found.append(f"+{path}.{name}")
            elif name not in ours:
                found.append(f"-{path}.{name}")
            else:
                found += differences(ours[name], theirs[name], f"{path}.{name}")
        return found
    if isinstance(ours, list) and isinstance(theirs, list):
        if ours and theirs:
            return differences(ours[0], theirs[0], f"{path}[]")
        return [] if ours == theirs else [f"{path}: {len(ours)} items, not {len(theirs)}"]
    return [] if ours == theirs else [f"{path}: {ours}, not {theirs}"]


def filled(text, server, image):
    for name, value in [("{job}", JOB), ("{image}", image), ("{password}", server.password)]:
        text = text.replace(name, value)
    return text


def replay(pair, server, image):
    """The answer to a request; of a job, once it is where the recorded one was."""
    body = pair.get("body")
    if pair["name"] == "110 kB body":
        body = "#" * 110_000
    body = body and filled(body, server, image)
    token = {"no authorization": None, "bad token": "no-token"}.get(pair["name"], server.token)
    path = filled(pair["path"], server, image)
    end = time.time() + LIMIT_S
    while True:
        answer = server.ask(pair["method"], path, body, pair.get("type"), token)
        until = pair.get("until")
        job = answer[2].get("jobStatus", {}) if isinstance(answer[2], dict) else {}
        state = job.get("subState")
        if not until or state in (until["subState"], "Completed") or time.time() > end:
            return answer
        time.sleep(0.005)


def compare(pair, answer):
    status, content, value = answer
    found = []
    if status != pair["status"]:
        found.append(f"status {status}, not {pair['status']}")
    if content.lower() != pair["content"].lower():
        found.append(f"{content}, not {pair['content']}")
    code = value.get("code") if isinstance(value, dict) else None
    if code != pair.get("code"):
        found.append(f"code {code}, not {pair.get('code')}")
    return found + differences(shape(value), pair["shape"])


def main():
    url, image = sys.argv[1:]
    server = Server(url, sys.stdin.readline().strip())
    server.login()
    server.prepare()
    known = json.loads((HERE / "known.json").read_text())
    pairs = json.loads((HERE / "pairs.json").read_text())
    counts = {"same": 0, "known": 0, "wrong": 0}
    for number, pair in enumerate(pairs):
        found = compare(pair, replay(pair, server, image))
        reason = known.get(str(number))
        if not found:
            counts["same"] += 1
        elif reason:
            counts["known"] += 1
            print(f"{number:2} {pair['name']}: {'; '.join(found)}\n   known: {reason}")
        else:
            counts["wrong"] += 1
            print(f"{number:2} {pair['name']}: {'; '.join(found)}\n   NOT KNOWN")
        if pair["path"] == "/api/v2/users/me":
            # A new password ends the logins.
            server.login()
    print(json.dumps(counts))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
