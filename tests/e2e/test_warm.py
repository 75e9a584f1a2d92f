# SPDX-License-Identifier: Apache-2.0
"""Vessels that wait, by the command, and the measuring of them."""

import json
import os
import shutil
import subprocess

import pytest
from conftest import VIAL, call, start, why_absent

WARM = ("run", "--warm", "--json", "--driver", "native")


@pytest.fixture(autouse=True)
def native():
    reason = why_absent("native")
    if reason:
        pytest.skip(f"driver native: {reason}")


@pytest.mark.parametrize("language, code", [("python", "print(6*7)"), ("bash", "echo 42")])
def test_a_waiting_vessel_gives_the_same_answer_and_says_warm(language, code):
    done = call(*WARM, language, code)
    assert (done.status, done.json["stdout"], done.json["start"]) == (0, "42\n", "warm")
    cold = call("run", "--json", "--driver", "native", language, code)
    assert (cold.json["start"], cold.json["isolation"]) == ("cold", done.json["isolation"])


def test_a_mount_cannot_wait_and_the_run_is_cold(tmp_path):
    (tmp_path / "x").write_text("y")
    tmp_path.chmod(0o755)  # older kernels cannot map owners here
    done = call(*WARM, "--mount", f"{tmp_path}:/mnt:ro", "python", "print(open('/mnt/x').read())")
    assert (done.json["verdict"], done.json["start"]) in (("ok", "cold"), ("denied", None))


def test_limits_of_a_waiting_vessel_are_the_requests():
    done = call(*WARM, "--timeout", "1", "python", "while True: pass")
    assert (done.status, done.json["verdict"]) == (124, "timeout")
    done = call(*WARM, "--memory", "64m", "python", "x = b'x' * (1 << 30)")
    assert done.json["verdict"] in ("oom", "nonzero")


def test_an_interpreter_that_waits_is_killed_with_its_vessel():
    done = call(*WARM, "--timeout", "2", "python",
                "import os\nprint(os.getpid(), os.getppid(), flush=True)\n"
                "os.fork()\nwhile True: pass")
    assert (done.json["stdout"], done.json["verdict"]) == ("2 1\n", "timeout")
    assert done.json["start"] == "warm"


def test_bench_measures_and_writes_what_it_measured(tmp_path):
    if not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("there is no python3")
    bench = start("bench", "--rounds", "2", "--seconds", "0", "--output", str(tmp_path / "b.json"),
                  "--plot", str(tmp_path / "b.svg"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE, text=True)
    text, errors = bench.communicate(timeout=300)
    assert bench.returncode == 0, errors
    result = json.loads((tmp_path / "b.json").read_text())
    rows = {(r["group"], r["name"]): r for r in result["results"]}
    assert rows["python", "vial warm"]["runs"] == 2
    assert rows["python", "bare"]["ratio"] == 1
    assert "<svg" in (tmp_path / "b.svg").read_text()
    assert "vial warm" in text and VIAL
    if shutil.which("bwrap") and os.geteuid() == 0 and os.path.isdir("/sys/fs/cgroup/memory"):
        assert rows["python", "bwrap same"]["runs"] == 2
    assert not [name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names
                if "-bench-" in name and "-%d-" % bench.pid in name]


def test_bench_refuses_nonsense():
    done = call("bench", "--rounds", "0")
    assert done.status == 125 and "rounds" in done.errors
