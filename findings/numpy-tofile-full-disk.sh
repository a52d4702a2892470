#!/bin/sh
# numpy 2.4.6: ndarray.tofile on a full disk raises an OSError without an error number. errno is None, and the message is
# "N requested and M written", where N and M count items: neither ENOSPC nor "No space left on device" is anywhere in
# the traceback. ndarray.tobytes with file.write on the same disk raises errno 28. So what looks for a full disk by its
# number or by its words, a handler in the program or a rule on its log, misses the way in which arrays are written.
# Seen with a tmpfs of 64 KiB: "tofile: None / 100000 requested and 8192 written".
#
# Needs Python 3.11 or newer with venv and a package index, and root for the tmpfs, which lies in a mount namespace of its
# own. Installs nothing outside a temporary folder. Fails if the behaviour is not there any more.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check numpy==2.4.6
mkdir "$work/disk"
cat >"$work/try.py" <<'PY'
import sys
import numpy

disk = sys.argv[1]
array = numpy.zeros(100_000)
try:
    array.tofile(f"{disk}/a")
except OSError as error:
    print("tofile:", error.errno, "/", error)
try:
    with open(f"{disk}/b", "wb", buffering=0) as file:
        while True:
            file.write(array.tobytes())
except OSError as error:
    print("write:", error.errno, "/", error)
PY
# shellcheck disable=SC2016 # expanded by the inner shell
unshare --mount sh -c 'mount -t tmpfs -o size=64k none "$1/disk" && "$1/venv/bin/python3" "$1/try.py" "$1/disk"' \
    own "$work" | tee "$work/seen"
grep -q '^tofile: None / 100000 requested and [0-9]* written$' "$work/seen"
grep -q '^write: 28 / ' "$work/seen"
