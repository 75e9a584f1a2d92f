#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files that ARCHITECTURE.md, CONTRIBUTING.md, SECURITY.md and comments name are there; and
no two .c files of src/ have one name, unless they are the same thing for two drivers."""
import fnmatch
import os
import re
import sys

import source

PAGES = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"]
FOLDERS = ["src", "include", "tests", "tools", "runtimes", "seccomp", "presets", "examples",
           "contrib", "images", "web", "docs"]
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
# A name, perhaps with folders or as a pattern. Nothing is taken of `cmd_<name>.c`, of the
# system's <sys/mount.h>, and of `main.py`, which a program may be called.
NAME = re.compile(r"(?<![\w./*<>-])(?!(?:linux|sys)/)"
                  r"(?:[\w*][\w./*-]*\.(?:c|h|def)|[\w*][\w.*-]*/[\w./*-]+\.(?:py|mjs))"
                  r"(?![\w/*>-])")


def known(root):
    """Every file's path, from each of its folders on: `src/base/x.c`, `base/x.c`, `x.c`."""
    found = set()
    for path in source.files(root, FOLDERS, (".c", ".h", ".def", ".py", ".mjs")):
        parts = path.split("/")
        found |= {"/".join(parts[at:]) for at in range(len(parts))}
    return found


def named(root):
    """(where, what it says) for each text in which files are named."""
    for page in PAGES:
        if os.path.exists(os.path.join(root, page)):
            yield page, source.read(root, page)
    for path in source.files(root, ["src", "include", "tests", "tools"], (".c", ".h", ".def")):
        yield path, "\n".join(COMMENT.findall(source.read(root, path)))


def twins(root):
    """(name, its paths) of files that have their name in common, and are not all drivers'."""
    paths = {}
    for path in source.files(root, ["src"], (".c",)):
        paths.setdefault(os.path.basename(path), []).append(path)
    return sorted((name, both) for name, both in paths.items()
                  if len(both) > 1 and not all(p.startswith("src/driver/") for p in both))


def check(root, _build=None):
    files = known(root)
    found = ["'%s' is the name of %s" % (name, " and ".join(both)) for name, both in twins(root)]
    for where, text in named(root):
        for name in sorted(set(NAME.findall(text)) - files):
            if "*" not in name or not fnmatch.filter(files, name):
                found.append("%s names '%s', and there is no such file" % (where, name))
    return found


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
