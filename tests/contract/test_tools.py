# SPDX-License-Identifier: Apache-2.0
"""The tools of the tree, when they are only asked what they are."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["build", "coverage", "deps", "fuzz", "gen-errors", "install", "lint", "requirements",
         "soak", "test"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_is_asked_for_help_does_nothing_else(tool, tmp_path):
    """Each would otherwise build, install or test for minutes."""
    before = {p.name for p in ROOT.iterdir()}
    done = subprocess.run([ROOT / "tools" / tool, "--help"], capture_output=True, text=True,
                          cwd=tmp_path, env={"PATH": os.environ["PATH"]}, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout and len(done.stdout) < 1000
    assert {p.name for p in ROOT.iterdir()} == before and not list(tmp_path.iterdir())


@pytest.mark.parametrize("args,said", [(["lint", "src"], "'src' is no C source"),
                                       (["test", "build", "e3e"], "there is no lane 'e3e'")])
def test_a_tool_that_is_called_wrongly_says_so_before_it_works(args, said):
    done = subprocess.run([ROOT / "tools" / args[0], *args[1:]], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode and said in done.stderr
