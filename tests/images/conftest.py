# SPDX-License-Identifier: Apache-2.0
"""VIAL names the command. Each test has a store of its own."""
import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
import worlds

ROOT = Path(__file__).resolve().parents[2]
VIAL = os.path.abspath(os.environ.get("VIAL", ROOT / "build" / "vial"))
PATIENCE = 120


@pytest.fixture(scope="session")
def ranged():
    """Of user 1000, who has a range of ids, with a Debian. Not below pytest's own directory, which
    each run of it closes to others anew."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as made:
        os.chmod(made, 0o755)
        world = worlds.World(Path(made) / "home", worlds.UID, worlds.FIRST)
        world.bring("debian", worlds.debian())
        yield world


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def env(store, tmp_path):
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith("VIAL_") and "proxy" not in k.lower()}
    return {**kept, "HOME": str(tmp_path / "home"), "VIAL_IMAGES": str(store)}


@pytest.fixture
def vial(env):
    def call(*args, **more):
        stdin = more.pop("stdin", subprocess.DEVNULL)
        cwd = more.pop("cwd", "/")
        return subprocess.run([VIAL, *args], capture_output=True, text=True, cwd=cwd,
                              stdin=stdin, env={**env, **more}, timeout=PATIENCE, check=False)
    return call


@pytest.fixture
def image(vial):
    """vial image …, which must go well, and what it says as JSON."""
    def call(*args, **more):
        done = vial("image", *args, "--json", **more)
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)
    return call
