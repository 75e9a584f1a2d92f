#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The library exports what the public headers declare, no more and no less, and each
declaration says what it does."""
import os
import re
import subprocess
import sys

import source

DECLARED = re.compile(r"^VIAL_API\b[^;]*?\b(vial_\w+)\s*\(", re.M)


def exports(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True,
                         text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


def declared(root):
    return {name for path in source.files(root, ["include"], (".h",))
            for name in DECLARED.findall(source.read(root, path))}


def undescribed(root):
    """A comment stands above the declaration, or above its group of lines."""
    for path in source.files(root, ["include"], (".h",)):
        text = source.read(root, path)
        for match in DECLARED.finditer(text):
            paragraph = text[:match.start()].split("\n\n")[-1]
            if not re.search(r"\*/", paragraph):
                yield "%s: %s has no comment" % (path, match.group(1))


def check(root, build):
    found = list(undescribed(root))
    library = os.path.join(build, "libvial.so")
    if not os.path.exists(library):
        return found + ["%s does not exist" % library]
    there, wanted = exports(library), declared(root)
    found += ["libvial.so exports %s" % n for n in sorted(there) if not n.startswith("vial_")]
    found += ["libvial.so exports %s, which no header declares" % n
              for n in sorted(there - wanted) if n.startswith("vial_")]
    found += ["%s is declared but not exported" % n for n in sorted(wanted - there)]
    return found


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")),
                       sys.argv[1])
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
