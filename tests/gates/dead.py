#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""No function lives for its tests alone: what a header of src/ declares is used there
or by a tool of the build, besides where it is declared and defined."""
import collections
import os
import re
import sys

import source

DECLARED = re.compile(r"^(?!static|typedef|#|/| |\})[\w][\w \*]*?[ \*](\w+)\([^;{]*\)[^;{]*;", re.M)
WORD = re.compile(r"\w+")
# What tools may ask of the MCP core: the conformance suite's tools ask for more than ours.
OPEN = ["src/mcp/tool.h"]


def bare(text):
    """Without comments."""
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def check(root, _build=None):
    used, declared = collections.Counter(), {}
    for path in source.files(root, ["src", "tools"], (".c", ".h", ".def")):
        text = bare(source.read(root, path))
        used.update(WORD.findall(text))
        if path.endswith(".h") and path not in OPEN:
            declared.update((name, path) for name in DECLARED.findall(text))
    return ["%s declares '%s', which only tests use" % (path, name)
            for name, path in sorted(declared.items()) if used[name] < 3]


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
