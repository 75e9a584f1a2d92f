#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Arrows point down only: every include in src/ obeys src/LAYERS. covers: NFR-020-39"""
import os
import re
import sys

import source

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+/[^"]+)"', re.M)
FLAT = re.compile(r'^\s*#\s*include\s+"([^"/]+)"', re.M)


def law(root):
    allowed = {}
    for line in source.read(root, "src/LAYERS").splitlines():
        line = line.split("#")[0].strip()
        if line:
            room, _, below = line.partition(":")
            allowed[room.strip()] = set(below.split())
    return allowed


def room_of(allowed, path):
    """The innermost folder of PATH that the law names, or its first one."""
    parts = path.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in allowed:
            return "/".join(parts[:length])
    return parts[0]


def check(root, _build=None):
    allowed = law(root)
    found = ["src/LAYERS: '%s' may use '%s', which it does not describe" % (room, name)
             for room in allowed for name in sorted(allowed[room] - set(allowed))]
    for path in source.files(root, ["src"], (".c", ".h", ".def")):
        room = room_of(allowed, path[len("src/"):])
        if room not in allowed:
            found.append("src/LAYERS does not name the room of %s" % path)
        text = source.read(root, path)
        found += ["%s includes \"%s\"" % (path, used) for used in INCLUDE.findall(text)
                  if room_of(allowed, used) not in allowed.get(room, set()) | {room, "vial"}]
        found += ["%s includes \"%s\" without its room" % (path, name)
                  for name in FLAT.findall(text)]
    for path in source.files(root, ["include"], (".h",)):
        found += ["%s includes \"%s\"" % (path, used)
                  for used in INCLUDE.findall(source.read(root, path))
                  if not used.startswith("vial/")]
    return found


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
