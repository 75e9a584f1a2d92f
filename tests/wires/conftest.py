# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from wire import Wired  # noqa: E402


@pytest.fixture(scope="session")
def daemon():
    with Wired() as d:
        yield d


@pytest.fixture(scope="session")
def strict():
    """Small limits, and all of them end a program."""
    with Wired(defaults={"end_on": ["pids", "disk"], "pids": 24, "disk": "4m"},
               policy={"max_output_limit": "64k", "max_timeout": "30s"}) as d:
        yield d


@pytest.fixture(scope="session")
def node():
    """Runs a script of this folder beside the clients, which are installed once; gives
    what it printed."""
    where = os.path.join(os.environ["VIAL_BUILD"], "wires-node")
    wanted = open(os.path.join(HERE, "package.json")).read()
    mark = os.path.join(where, "installed.json")
    if not os.path.exists(mark) or open(mark).read() != wanted:
        shutil.rmtree(where, ignore_errors=True)
        os.makedirs(where)
        shutil.copy(os.path.join(HERE, "package.json"), where)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock",
                        "--loglevel=error"], cwd=where, check=True, timeout=600)
        with open(mark, "w") as file:
            file.write(wanted)

    def run(script, *args):
        shutil.copy(os.path.join(HERE, script), where)
        out = subprocess.run(["node", script, *args], cwd=where, text=True, timeout=120,
                             capture_output=True, stdin=subprocess.DEVNULL)
        assert out.returncode == 0, out.stderr
        return out.stdout
    return run
