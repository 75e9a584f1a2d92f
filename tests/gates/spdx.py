#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file begins with its licence."""
import os
import sys

import source

LINE = "SPDX-License-Identifier: Apache-2.0"


def sources(root):
    yield from source.files(root, ["include", "src", "tests"], (".c", ".h", ".def", ".py"))
    for path in source.files(root, ["tools"], ("",)):
        if "python" in source.read(root, path).split("\n")[0]:
            yield path


def check(root, _build=None):
    found = []
    for path in sources(root):
        head = source.read(root, path).split("\n")[:2]
        if not head[0].startswith("#!"):
            head = head[:1]
        if not any(LINE in line for line in head):
            found.append("%s has no SPDX line at its top" % path)
    return found


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
