# SPDX-License-Identifier: Apache-2.0
"""C source as the gates see it: without comments, strings and directives."""
import os
import re

NOISE = re.compile(r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' """,
                   re.S | re.X)


def files(root, folders, endings):
    for folder in folders:
        for where, dirs, names in os.walk(os.path.join(root, folder)):
            dirs.sort()
            for name in sorted(names):
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(where, name), root)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def blank(match):
    text = match.group(0)
    if text[0] in "\"'":
        return text[0] * 2
    return "\n" * text.count("\n") or " "


def stripped(text):
    """Keeps line numbers: directives and comments leave their line ends behind."""
    text = NOISE.sub(blank, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M)
