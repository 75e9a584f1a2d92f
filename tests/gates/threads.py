#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Threads are started in one way (base/thread.h), so that none of ours takes a caller's
signals or has a stack of nobody knows what size."""
import os
import re
import sys

import source

ALLOWED = {
    "src/base/thread.c": "the one way",
    "src/cli/verb_exec.c": "reads a terminal, whose signals must stop it",
    "src/bench/race.c": "stands for a caller's own threads",
}


def check(root, _build=None):
    found = {path for path in source.files(root, ["src"], (".c", ".h"))
             if re.search(r"\bpthread_create\(", source.read(root, path))}
    return (["%s starts a thread by itself, not by base/thread.h" % path
             for path in sorted(found - set(ALLOWED))] +
            ["%s starts none any more: take it off the list" % path
             for path in sorted(set(ALLOWED) - found)])


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
