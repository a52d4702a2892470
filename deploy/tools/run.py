"""Runs the cases of cases/*.yaml as jobs, and compares what Muster says of each end with what the case expects.

Called by deploy/tools.sh, which makes the images and starts the agent.
"""

import argparse
import html
import http.client
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import yaml

# Seconds between two looks at a job.
LOOK_S = 0.5
# Seconds that a case may take, its image's first start and a busy machine included.
CASE_S = 300
# What a case says of itself. Anything else is a misspelling.
FIELDS = {
    "name", "tool", "why", "image", "tasks", "memoryMB", "shmMB", "files", "run", "then", "exits", "code", "phrase",
    "retry", "page",
}  # fmt: skip
# Whether the platform tries again by itself, and whether that counts against jobRetryCount.
RETRIES = {
    "never": "not retried, although the job allows it",
    "user": "retried, and charged to the job",
    "free": "retried without charge",
}


@dataclass
class Seen:
    """What Muster says of a job's first attempt."""

    code: int | None
    phrase: str
    exits: int | None
    retry: str
    faults: list = field(default_factory=list)


class Agent:
    """The agent, as a user meets it: the command line, REST, and pages."""

    def __init__(self, options):
        self.options = options
        login = json.loads(Path(options.home, "credentials.json").read_text())
        self.address = urlsplit(login["url"])
        form = {"username": login["user"], "password": login["password"]}
        answer = self.ask("POST", "/rest-server/api/v1/authn/basic/login", {}, json.dumps(form))
        self.token = json.loads(answer)["token"]

    def ask(self, method, path, headers, body=None):
        connection = http.client.HTTPConnection(self.address.netloc, timeout=60)
        headers = {"Content-Type": "application/json", **headers}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]}")
        return text

    def rest(self, path):
        return json.loads(self.ask("GET", f"/rest-server/api/v2{path}", {"Authorization": f"Bearer {self.token}"}))

    def page(self, path):
        """The text of a page, as a browser shows it."""
        text = self.ask("GET", path, {"Cookie": f"muster_session={self.token}"})
        return html.unescape(re.sub(r"<[^>]+>", "", text))

    def cli(self, *words, stdin=None):
        home = {"MUSTER_HOME": self.options.home, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        command = [self.options.muster, *words]
        done = subprocess.run(command, env=home, input=stdin, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"muster {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def job(self, name, attempt=None):
        which = [] if attempt is None else ["--attempt", str(attempt)]
        return json.loads(self.cli("job", "show", name, *which, "-o", "json"))

    def log(self, name):
        """What a job has written; nothing while it has not begun."""
        try:
            return self.cli("job", "logs", name)
        except RuntimeError:
            return ""

    def kill_container(self, name):
        """Kills a job's first task from outside, as an administrator would."""
        engine = ["ctr", "-a", self.options.containerd, "-n", self.options.namespace]
        container = self.job(name)["roles"][0]["tasks"][0]["attempts"][-1]["uid"]
        subprocess.run([*engine, "tasks", "kill", "-s", "SIGKILL", container], check=True)


def job_of(case, name):
    """The job that lets a case happen. One retry shows whether it is charged."""
    files = [f"cat > {path} <<'END-OF-FILE'\n{text}END-OF-FILE" for path, text in case.get("files", {}).items()]
    script = "\n".join(["mkdir -p /tmp/case", "cd /tmp/case", *files, case["run"]])
    role = {
        "instances": case.get("tasks", 1),
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 1, "memoryMB": case.get("memoryMB", 2048), "gpu": 0, "ports": {"meeting": 1}},
        "commands": [script],
    }
    if "shmMB" in case:
        role["extraContainerOptions"] = {"shmMB": case["shmMB"]}
    image = {"type": "dockerimage", "name": "image", "uri": f"muster-tools/{case['image']}:1"}
    return {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "jobRetryCount": 1,
        "prerequisites": [image],
        "taskRoles": {"worker": role},
    }


def act(agent, case, name):
    """Does from outside what the case asks for, once the job's log has the line that it waits for."""
    then = case["then"]
    until = time.monotonic() + CASE_S
    while then["after"] not in agent.log(name):
        if time.monotonic() > until:
            raise RuntimeError(f"the log never said {then['after']!r}")
        time.sleep(LOOK_S)
    if then["do"] == "stop":
        agent.cli("job", "stop", name)
    else:
        agent.kill_container(name)


def wait(agent, name):
    """Waits until a job's first attempt has ended and what follows is decided. Returns who pays for that."""
    until = time.monotonic() + CASE_S
    while time.monotonic() < until:
        job = agent.job(name)
        retries = job["summary"]["retries"]
        if retries["total"]:
            return "user" if retries["accountable"] else "free"
        if job["summary"]["completed"]:
            return "never"
        time.sleep(LOOK_S)
    raise RuntimeError(f"the first attempt has not ended after {CASE_S} s")


def look(agent, case, name, retry):
    """What the command line, REST and the page say, and where they disagree."""
    attempt = agent.job(name, attempt=0)["attempt"]
    verdict = attempt["verdict"]
    spec = verdict["spec"]
    seen = Seen(spec["code"], spec["phrase"], verdict.get("origin_exit_code"), retry)
    status = agent.rest(f"/jobs/admin~{name}/attempts/0")["jobStatus"]
    told = (status["appExitCode"], status["appExitSpec"]["phrase"])
    if told != (seen.code, seen.phrase):
        seen.faults.append(f"REST says {told}")
    charged = agent.rest(f"/jobs/admin~{name}")["jobStatus"]["retryDetails"]["user"] > 0
    if charged != (retry == "user"):
        seen.faults.append(f"REST says that a retry was {'' if charged else 'not '}charged")
    page = agent.page(f"/jobs/admin~{name}?attempt=0")
    words = [case.get("page")] if case["code"] in (0, -210) else [str(seen.code), seen.phrase, case.get("page")]
    seen.faults += [f"the page lacks {word!r}" for word in words if word and word not in page]
    return seen


def compare(case, seen):
    """What is wrong, in words; empty if all is right."""
    pairs = [(name, case[name], getattr(seen, name)) for name in ("code", "phrase", "retry")]
    if "exits" in case:
        pairs.append(("exits", case["exits"], seen.exits))
    wrong = [f"{name} expected {expected}, seen {value}" for name, expected, value in pairs if expected != value]
    return wrong + seen.faults


def run(agent, case):
    """Lets one case happen. Returns whether all was right."""
    name = f"{case['name']}-{time.strftime('%H%M%S')}"
    began = time.monotonic()
    try:
        agent.cli("job", "submit", "-", stdin=json.dumps(job_of(case, name)))
        if "then" in case:
            act(agent, case, name)
        retry = wait(agent, name)
        seen = look(agent, case, name, retry)
        wrong = compare(case, seen)
        text = f"{seen.code} {seen.phrase}, {RETRIES[seen.retry]}" if seen.code else "0, it succeeded"
        if not agent.job(name)["summary"]["completed"]:
            agent.cli("job", "stop", name)
    except (RuntimeError, LookupError, TypeError, subprocess.SubprocessError, OSError) as error:
        wrong, text = [f"{type(error).__name__}: {error}"], "nothing"
    took = time.monotonic() - began
    word = "wrong" if wrong else "ok"
    print(f"{word:5} {case['name']:32} {took:5.1f} s  {text}", flush=True)
    for line in wrong:
        print(f"      {line} (job {name})", flush=True)
    return not wrong


def read(folder):
    """All cases, in the order of their files' names."""
    files = sorted(folder.glob("*.yaml"))
    return [case for file in files for case in yaml.safe_load(file.read_text())]


def checked(cases):
    """The cases, or the end of this program if one does not say what it must."""
    for case in cases:
        for wrong in case.keys() - FIELDS:
            sys.exit(f"{case.get('name')}: no case has {wrong!r}")
        for missing in {"name", "tool", "image", "run", "code", "phrase", "retry"} - case.keys():
            sys.exit(f"{case.get('name')}: {missing!r} is missing")
        if case["retry"] not in RETRIES:
            sys.exit(f"{case['name']}: retry is one of {', '.join(RETRIES)}")
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("muster", "home", "containerd", "namespace"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--case", action="append", default=[])
    options = parser.parse_args()
    cases = checked(read(Path(__file__).with_name("cases")))
    unknown = set(options.case) - {case["name"] for case in cases}
    if unknown:
        sys.exit(f"there is no case {', '.join(sorted(unknown))}; see --list")
    wanted = [case for case in cases if not options.case or case["name"] in options.case]
    agent = Agent(options)
    began = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        right = list(pool.map(lambda case: run(agent, case), wanted))
    counts = {"bench": "tools", "cases": len(right), "right": sum(right), "wrong": len(right) - sum(right)}
    print(json.dumps({**counts, "seconds": round(time.monotonic() - began, 1)}))
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
