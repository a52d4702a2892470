"""Puts each of the bugs in, builds the simulator and lets it find something wrong.

    python3 tests/mutants/run.py DIRECTORY [NAME...]
    python3 tests/mutants/run.py DIRECTORY --check

DIRECTORY is a copy of the project that this may change. Prints one JSON line; exit code 1 if a bug was not
caught, 2 if one could not be put in. --check changes nothing and only looks whether each could be put in."""

import json
import subprocess
import sys
import time
from pathlib import Path

from mutants import MUTANTS, SHOWN_BY

SIM = ["suite", "--of", "cluster", "--seeds", "0..12", "--loss", "1", "--jobs", "2", "--until-failure"]
# Scenarios and machines.
USUALLY = ("any,S", 5)
LIMIT_S = 900


class Unclear(Exception):
    """Nobody can say whether a bug was caught."""


def batched(texts, size):
    return (texts[at:at + size] for at in range(0, len(texts), size))


def build(root):
    command = ["cargo", "build", "--quiet", "--locked", "-p", "muster-tests", "--bin", "sim"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def look(root, scenarios, nodes):
    """What the simulation of so many machines finds first, or None."""
    command = [root / "target/debug/sim", *SIM, "--scenarios", scenarios, "--nodes", str(nodes)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Unclear(f"it came to no end within {LIMIT_S} s") from None
    if done.returncode == 0:
        return None
    if done.returncode != 1:
        raise Unclear(f"it ended with {done.returncode}: {done.stderr[-300:]}")
    first = json.loads(done.stdout)["failures"][0]
    return f"{first['scenario']} {first['seed']}: {first['violations'][0]}"


def fits(root, name):
    """Whether each of the bug's places is there, once."""
    for path, text, _ in batched(MUTANTS[name], 3):
        count = (root / path).read_text().count(text)
        if count != 1:
            print(f"{name}: {path} has its text {count} times", file=sys.stderr)
            return False
    return True


def attempt(root, name):
    """Whether the bug was caught, and how; None if it could not be put in."""
    if not fits(root, name):
        return None
    edits = list(batched(MUTANTS[name], 3))
    before = {path: (root / path).read_text() for path, _, _ in edits}
    try:
        for path, text, bug in edits:
            (root / path).write_text((root / path).read_text().replace(text, bug))
        built = build(root)
        if built.returncode != 0:
            print(f"{name}: it does not build\n{built.stderr}", file=sys.stderr)
            return None
        return look(root, *SHOWN_BY.get(name, USUALLY)) or ""
    except Unclear as why:
        print(f"{name}: {why}", file=sys.stderr)
        return None
    finally:
        for path, whole in before.items():
            (root / path).write_text(whole)


def main():
    root = Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["--check"]:
        # All of them, not only the first that is out of place.
        sys.exit(0 if all([fits(root, name) for name in MUTANTS]) else 2)
    names = sys.argv[2:] or list(MUTANTS)
    if strangers := [name for name in names if name not in MUTANTS]:
        sys.exit(f"mutants.py has no {strangers[0]!r}; its names are the keys of MUTANTS there")
    started = time.monotonic()
    if build(root).returncode != 0:
        sys.exit("the project without bugs does not build")
    try:
        found = [look(root, *place) for place in {SHOWN_BY.get(name, USUALLY) for name in names}]
    except Unclear as why:
        sys.exit(f"the project without bugs: {why}")
    if any(found):
        sys.exit(f"the project without bugs: {next(filter(None, found))}")
    caught, survived, broken = {}, [], []
    for number, name in enumerate(names, 1):
        how = attempt(root, name)
        told = "NOT TRIED" if how is None else how or "SURVIVES"
        print(f"{number}/{len(names)} {name}: {told[:160]}", file=sys.stderr)
        if how is None:
            broken.append(name)
        elif how:
            caught[name] = how[:200]
        else:
            survived.append(name)
    print(json.dumps({"mutants": len(names), "caught": len(caught), "survived": survived,
                      "broken": broken, "wall_s": round(time.monotonic() - started)}))
    sys.exit(2 if broken else 1 if survived else 0)


main()
