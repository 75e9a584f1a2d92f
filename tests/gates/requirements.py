#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""No row of the seed documents loses its proof: each is named by a test, is measured, or
has a reason."""
import importlib.machinery
import importlib.util
import os
import sys


def load(root, path):
    """A program of ours, as a module."""
    name = path.replace("/", "_")
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(root, path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def tool(root):
    return load(root, "tools/requirements")


def check(root, _build=None):
    matrix = tool(root)
    known = matrix.rows(os.path.join(root, "tests/requirements.txt"))
    found = matrix.covered(root)
    measured = matrix.promised(root)
    bad = ["%s has neither a test, nor a measurement, nor a reason" % i for i in known
           if i not in found and i not in measured and not known[i]]
    bad += ["%s does not exist" % i for i in found if i not in known]
    return bad


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
