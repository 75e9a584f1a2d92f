#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every public function says what it does: a comment stands before it, or before the
group of functions that it belongs to. covers: NFR-020-42"""
import os
import re
import sys

import source


def bare(text):
    """Names of functions that have no comment."""
    for block in re.split(r"\n\s*\n", text):
        names = re.findall(r"^VIAL_API[^;(]*?(\w+)\s*\(", block, re.M | re.S)
        if names and "/*" not in block.split("VIAL_API")[0] and block.count("/*") < len(names):
            yield from names


def check(root, _build=None):
    found = []
    for path in source.files(root, ["include"], (".h",)):
        text = source.read(root, path)
        found += ["%s: %s has no comment" % (path, name) for name in bare(text)]
    return found


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
