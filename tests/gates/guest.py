#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The guest runs in any root: static, without an interpreter, and small."""
import os
import subprocess
import sys

LARGEST = 200 * 1000


def readelf(option, path):
    return subprocess.run(["readelf", option, path], capture_output=True, text=True,
                          check=True).stdout


def check(_root, build):
    path = os.path.join(build, "vial-init")
    if not os.path.exists(path):
        return ["%s does not exist" % path]
    found = []
    if os.path.getsize(path) >= LARGEST:
        found.append("vial-init has %d bytes" % os.path.getsize(path))
    if "INTERP" in readelf("-lW", path):
        found.append("vial-init asks for an interpreter")
    if "NEEDED" in readelf("-dW", path):
        found.append("vial-init needs a shared library")
    if "RWE" in readelf("-lW", path):
        found.append("vial-init has memory that is writable and executable")
    return found


if __name__ == "__main__":
    complaints = check(None, sys.argv[1])
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
