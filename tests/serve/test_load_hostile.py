# SPDX-License-Identifier: Apache-2.0
"""The short form of load.py: it says what it does. No time is judged here."""
import os
import subprocess

import pytest

import load


@pytest.mark.skipif(os.geteuid() != 0, reason="load.py is root's")
def test_one_hostile_caller_takes_no_answer_from_the_others():
    done = subprocess.run(["/usr/bin/python3", load.__file__, "--seconds", "5", "--calm", "1",
                           "--rest", "1", "--connections", "60", "--sessions", "6", "--rate", "10",
                           "--callers", "3"], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
