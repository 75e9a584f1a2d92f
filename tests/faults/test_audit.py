# SPDX-License-Identifier: Apache-2.0
"""A writer killed at any point leaves a log that is whole, or is mended by the next."""

import json
import os
import shutil
import subprocess

import pytest

VIAL = os.path.abspath(os.environ.get("VIAL", "build/vial"))
ENV = {k: v for k, v in os.environ.items() if not k.startswith("VIAL_")}


def call(*args):
    return subprocess.run([VIAL, *args], env=ENV, capture_output=True, check=False)


def verified(log):
    done = call("audit", "verify", "--json", str(log))
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def configured(where, rotate="64k"):
    config = where / "vial.yaml"
    config.write_text("audit: {path: %s, rotate: %s}\n" % (where / "log", rotate))
    return str(config), where / "log"


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A log whose next record begins another file."""
    where = tmp_path_factory.mktemp("full")
    config, log = configured(where, "1m")
    while not log.exists() or log.stat().st_size < 65536:
        assert call("--config", config, "run", "bash", "true").returncode == 0
    return where


def copied(full, where):
    where.mkdir()
    for name in ("log", "log.head"):
        shutil.copy2(full / name, where / name)
    return configured(where)


@pytest.mark.parametrize("what", ["signal=KILL", "error=ENOSPC"])
@pytest.mark.parametrize("name", ["pwrite64", "fdatasync", "rename", "flock",
                                  "fallocate"])
def test_a_failing_step_never_breaks_the_chain(full, tmp_path, name, what):
    for when in range(1, 9):
        config, log = copied(full, tmp_path / str(when))
        trace = tmp_path / "trace"
        subprocess.run(
            ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=" + name, "-e",
             "inject=%s:%s:when=%d" % (name, what, when),
             VIAL, "--config", config, "run", "bash", "echo ran"],
            env=ENV, capture_output=True, check=False)
        if "INJECTED" not in trace.read_text() and "SIGKILL" not in trace.read_text():
            assert when > 1
            break
        again = call("--config", config, "run", "bash", "echo again")
        assert again.stdout == b"again\n", (when, again.stderr)
        report = verified(log)
        assert report["whole"] and report["files"] == 2, (when, report)
