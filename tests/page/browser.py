# SPDX-License-Identifier: Apache-2.0
"""The system's Chromium, driven from Node: what npm brings for that."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../serve"))

from daemon import clean_env  # noqa: E402


def install(where, script):
    """The browser's driver in WHERE, once, at the version that package.json names, and SCRIPT
    beside it."""
    wanted = open(os.path.join(HERE, "package.json"), encoding="utf-8").read()
    mark = os.path.join(where, "installed.json")
    if not os.path.exists(mark) or open(mark, encoding="utf-8").read() != wanted:
        shutil.rmtree(where, ignore_errors=True)
        os.makedirs(where)
        shutil.copy(os.path.join(HERE, "package.json"), where)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock",
                        "--ignore-scripts", "--loglevel=error"], cwd=where, check=True,
                       timeout=300, env=clean_env())
        with open(mark, "w", encoding="utf-8") as file:
            file.write(wanted)
    for name in (os.path.join(HERE, "chromium.mjs"), script):
        shutil.copy(name, where)
