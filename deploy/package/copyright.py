#!/usr/bin/env python3
"""Writes the package's copyright file, in Debian's machine-readable form.

Usage: copyright.py PROJECT >copyright

The programs are linked statically with all crates that they use, and with the C sources that some of these
bring along. `cargo tree` says which they are; holders and texts are taken from the crates' own files.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

TARGET = "x86_64-unknown-linux-gnu"
PROGRAMS = ["muster-agent", "muster-init", "muster-sshd"]
FILES = re.compile(r"^(licen[cs]e|copying|unlicense|notice|copyright)", re.I)
HOLDER = re.compile(r"^(?:[Cc]opyright|COPYRIGHT):?\s*(?:\([Cc]\)|©|&copy;|\d{4}|[A-Z])|^(?:\([Cc]\)|©)\s*\d{4}")
# Lines of the licences themselves that look like one.
NO_HOLDER = re.compile(
    r"\[(yyyy|year)\]|\{yyyy\}|<year>|copyright (notice|owner|holder|license|law|statement|and|or|interest|in)\b"
    r"|copyright \(c\) <", re.I)
# Licences that Debian has a copy of on every machine.
COMMON = {"Apache-2.0", "CC0-1.0", "MPL-2.0"}
LONG = re.compile("TERMS AND CONDITIONS FOR USE, REPRODUCTION|Mozilla Public License Version", re.I)
# What tells a licence's text, after white space is made single blanks.
MARKS = {
    "MIT": "Permission is hereby granted, free of charge, to any person obtaining",
    "BSD-2-Clause": "Redistributions in binary form must reproduce",
    "BSD-3-Clause": "nor the names of",
    "ISC": "Permission to use, copy, modify, and",
    "Zlib": "In no event will the authors be held liable",
    "Unicode-3.0": "UNICODE LICENSE V3",
    "0BSD": "Permission to use, copy, modify, and/or distribute this software for any purpose",
    "MIT-0": "Permission is hereby granted, free of charge, to any person obtaining",
    "Unlicense": "This is free and unencumbered software released into the public domain",
    "BSL-1.0": "Boost Software License - Version 1.0",
    "CDLA-Permissive-2.0": "Community Data License Agreement",
    "NCSA": "University of Illinois",
}


def shipped(project):
    """Names and versions of all that is linked into the programs."""
    found = set()
    for program in PROGRAMS:
        command = ["cargo", "tree", "--locked", "--offline", "-p", program, "--edges", "normal",
                   "--target", TARGET, "--prefix", "none", "--format", "{p}"]
        lines = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True).stdout
        for line in lines.splitlines():
            name, version = line.split()[:2]
            found.add((name, version.lstrip("v")))
    return found


def packages(project):
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1",
               f"--filter-platform={TARGET}"]
    output = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True).stdout
    wanted = shipped(project)
    for package in json.loads(output)["packages"]:
        if (package["name"], package["version"]) in wanted and package["source"]:
            yield package


def licence_texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    for path in sorted(folder.rglob("*")):
        depth = len(path.relative_to(folder).parts)
        if depth <= 6 and path.is_file() and FILES.match(path.name) and path.suffix not in {".rs", ".html", ".py"}:
            yield path.relative_to(folder), path.read_text(errors="replace")


def holders(texts, package):
    found = []
    for _, text in texts:
        for line in text.splitlines():
            line = line.strip(" \t/*#-")
            if HOLDER.match(line) and not NO_HOLDER.search(line) and len(line) < 160:
                line = re.sub(r"^(copyright:?)?\s*(\(c\)|©|&copy;)?[\s:,]*", "", line, flags=re.I)
                line = line.removesuffix("All rights reserved.").rstrip(" .,")
                if line and line not in found:
                    found.append(line)
    return found or package["authors"] or [f"the developers of {package['name']}"]


def expression(package):
    """As the crate says, in Debian's words."""
    said = re.sub(r"\s*/\s*", " OR ", package["license"] or "see-the-crate")
    said = said.replace("(", "").replace(")", "") if " AND " not in said else said
    said = said.replace("LLVM-exception", "LLVM exception")
    return re.sub(r"\b(OR|AND|WITH)\b", lambda word: word[0].lower(), said)


def identifiers(package):
    said = (package["license"] or "").replace("/", " ").replace("(", " ").replace(")", " ")
    return [word for word in said.split() if word not in {"OR", "AND", "WITH", "LLVM-exception"}]


def block(text):
    """As the lines that follow a field."""
    return "\n".join(" " + (line.rstrip() or ".") for line in text.strip("\n").splitlines())


def body(text):
    """Without holders and layout, to find texts that are the same."""
    lines = [line for line in text.splitlines() if not HOLDER.match(line.strip(" \t/*#-"))]
    return re.sub(r"\W+", " ", " ".join(lines)).strip().lower()


def main(project):
    project = pathlib.Path(project).resolve()
    print("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
          "Upstream-Name: muster\n"
          "Comment: The programs are linked with the crates named below, which come from https://crates.io.\n"
          "\nFiles: *\nCopyright: 2026 the Muster authors\nLicense: MIT")
    texts = collections.defaultdict(dict)
    for package in sorted(packages(project), key=lambda one: (one["name"], one["version"])):
        own = list(licence_texts(package))
        label = f"{package['name']}-{package['version']}"
        people = "\n           ".join(dict.fromkeys(holders(own, package)))
        print(f"\nFiles: crates/{label}/*\nCopyright: {people}\nLicense: {expression(package)}")
        for identifier in identifiers(package):
            texts[identifier].setdefault("", ("", []))
            for path, text in own:
                mark = MARKS.get(identifier)
                plain = re.sub(r"\s+", " ", text)
                # Files with all licences of a crate in one are as good as those with one, but for the long ones.
                if mark and mark in plain and not LONG.search(plain) and len(text) < 16_000:
                    texts[identifier].setdefault(body(text), (text, []))[1].append(f"{label}/{path}")
    texts["MIT"].setdefault("own", ((project / "LICENSE").read_text(), ["muster"]))
    for identifier, found in sorted(texts.items()):
        print(f"\nLicense: {identifier}")
        if identifier in COMMON:
            print(f" The text is in /usr/share/common-licenses/{identifier} on Debian systems.")
        elif len(found) == 1:
            sys.exit(f"copyright.py: no text of {identifier} in any crate; add it to MARKS")
        else:
            del found[""]
            parts = []
            for text, places in found.values():
                parts.append(f" As in {', '.join(places[:4])}{' and others' if len(places) > 4 else ''}:\n .\n{block(text)}")
            print("\n .\n".join(parts))


main(sys.argv[1])
