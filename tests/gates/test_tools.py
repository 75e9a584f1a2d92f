# SPDX-License-Identifier: Apache-2.0
"""The tools of the tree, when they are only asked what they are; and the order of what
the guide tells."""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["build", "coverage", "deps", "fuzz", "gen-errors", "install", "lint", "requirements",
         "rooms", "soak", "test", "trace"]


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


def test_the_guide_tells_of_the_commands_in_the_order_of_the_help():
    commands = re.findall(r"^COMMAND\((\w+)\)", (ROOT / "src/cli/commands.def").read_text(), re.M)
    told = [word for row in re.findall(r"^\| \[.*\| (.*) \|$", (ROOT / "docs/README.md").read_text(),
                                       re.M)
            for word in re.findall(r"`(\w+)`", row) if word in commands]
    assert told == [name for name in commands if name in told]
    assert set(commands) - set(told) == {"completion", "help", "version"}
