#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md is what tools/gen-errors makes of src/base/codes.def, and every code
that the source names is in that table. covers: NFR-020-44"""
import os
import re
import subprocess
import sys

import source

LITERAL = re.compile(r'"(VIAL-[A-Z][A-Z-]*[A-Z])"')


def check(root, _build=None):
    found = []
    wanted = subprocess.run([os.path.join(root, "tools/gen-errors"), "-"], text=True,
                            capture_output=True, check=True).stdout
    path = os.path.join(root, "docs/errors.md")
    if not os.path.exists(path) or source.read(root, "docs/errors.md") != wanted:
        found.append("docs/errors.md is not up to date: run tools/gen-errors")
    table = set(LITERAL.findall(source.read(root, "src/base/codes.def")))
    for name in source.files(root, ["src"], (".c", ".h")):
        found += ["%s names %s, which codes.def does not" % (name, code)
                  for code in sorted(set(LITERAL.findall(source.read(root, name))) - table)]
    return found


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
