# SPDX-License-Identifier: Apache-2.0
"""VIAL names the command, VIAL_BUILD the directory below which the engine lives."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import engine as engine_module  # noqa: E402

ROOT = HERE.parents[1]
VIAL = os.path.abspath(os.environ.get("VIAL", ROOT / "build" / "vial"))
BUILD = os.environ.get("VIAL_BUILD", str(ROOT / "build"))
PATIENCE = 90


@pytest.fixture(scope="session")
def engine():
    reason = engine_module.missing()
    if reason:
        pytest.skip(reason)
    e = engine_module.Engine(os.path.join(BUILD, "docker"))
    e.start()
    yield e
    e.stop()


@pytest.fixture
def api(engine):
    return engine.api


@pytest.fixture
def env(engine):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("VIAL_")}
    return {**kept, "HOME": "/nonexistent", "DOCKER_HOST": engine.address}


@pytest.fixture
def vial(env):
    def call(*args, **more):
        return subprocess.run([VIAL, *args], capture_output=True, text=True, cwd="/",
                              env={**env, **more}, timeout=PATIENCE, check=False)
    return call


@pytest.fixture
def run(vial):
    """The result of a run with the docker driver."""
    def run_(*args, **more):
        done = vial("run", "--json", "--driver", "docker", *args, **more)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)
    return run_


@pytest.fixture
def start(env):
    """A run that goes on: its first line has been read."""
    running = []

    def start_(*args):
        p = subprocess.Popen([VIAL, "run", "--driver", "docker", *args], cwd="/", env=env,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        running.append(p)
        assert p.stdout.readline() == b"up\n", p.stderr.read()
        return p

    yield start_
    for p in running:
        if p.poll() is None:
            p.kill()
        p.communicate()
