#!/bin/sh
# Puts bugs into a copy of the project, one after the other, and sees whether the simulation of whole
# clusters catches each. Takes about a minute for each, and some more before the first; prints one JSON line.
#
# Usage: sh deploy/mutants.sh [NAME...]
#   sh deploy/mutants.sh                                     all of tests/mutants/mutants.py
#   sh deploy/mutants.sh "fences are not compared"           one of them
# Exit code 1 if a bug was not caught, 2 if one could not be put in.
set -eu
cd "$(dirname "$0")/.."
sh deploy/install.sh python3:python3 cc:build-essential git:git
copy=target/mutants
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf - | tar -C "$copy" -xmf -
exec python3 tests/mutants/run.py "$copy" "$@"
