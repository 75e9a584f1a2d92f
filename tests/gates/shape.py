#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""No function over 70 lines, no goto, no state that a function does not get passed."""
import os
import re
import sys

import source

LONGEST = 70
STATE_ALLOWED = ("src/cli/main.c", "src/zygote/shim.c")


def functions(lines):
    """(name, first line, length); a function's braces stand alone at column 0."""
    start = None
    for number, line in enumerate(lines):
        if line.rstrip() == "{":
            start = number
            while start > 0 and lines[start - 1].strip() and lines[start - 1][0] not in "}#":
                start -= 1
        elif line.startswith("}") and start is not None:
            head = "\n".join(lines[start:number]).split("\n{")[0]
            name = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)", "", head))
            yield name.group(1) if name else "?", start + 1, number - start + 1
            start = None


def declarations(text):
    """What stands at the top of a file, each with its line; braces emptied."""
    depth, line, current, begun = 0, 1, "", 1
    for char in text:
        line += char == "\n"
        if char == "{":
            depth += 1
            current += "{" if depth == 1 else ""
        elif char == "}":
            depth -= 1
            current += "}" if depth == 0 else ""
            if depth == 0 and re.search(r"\)\s*\{\}$", current):
                current = ""
        elif depth == 0 and char == ";":
            yield begun, " ".join(current.split())
            current = ""
        elif depth == 0:
            if not current.strip():
                current, begun = "", line
            current += char


def is_state(declaration):
    """True for a variable whose own value can change."""
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)|\b__extension__\b", "", declaration)
    text = text.split("=")[0].strip()
    if not text or text.startswith(("typedef", "_Static_assert", "static_assert", "extern")):
        return False
    if re.fullmatch(r"(struct|enum|union)( \w+)?( \{\})?", text):
        return False
    if "(" in text and "(*" not in text:
        return False
    after_star = re.split(r"\*", text)[-1] if "*" in text else text
    return "const" not in after_star.split()


def check(root, _build=None):
    found = []
    for path in source.files(root, ["src"], (".c", ".h")):
        text = source.stripped(source.read(root, path))
        lines = text.split("\n")
        found += ["%s:%d: %s has %d lines" % (path, first, name, length)
                  for name, first, length in functions(lines) if length > LONGEST]
        found += ["%s:%d: goto" % (path, number + 1)
                  for number, line in enumerate(lines) if re.search(r"\bgoto\b", line)]
        if path.replace(os.sep, "/") in STATE_ALLOWED:
            continue
        found += ["%s:%d: mutable: %s" % (path, line, what)
                  for line, what in declarations(text) if is_state(what)]
        found += ["%s:%d: mutable: %s" % (path, number + 1, line.strip())
                  for number, line in enumerate(lines)
                  if re.match(r"\s+static\s", line) and is_state(line.strip(" ;"))]
    return found


if __name__ == "__main__":
    complaints = check(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))
