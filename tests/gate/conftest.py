# SPDX-License-Identifier: Apache-2.0
"""Drives the real command, with servers on loopback behind its gate. VIAL names it,
VIAL_DRIVER the driver."""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import servers  # noqa: E402
from clients import chat_server, go_program, http2_server, ssh_server  # noqa: E402, F401

ROOT = Path(__file__).resolve().parents[2]
VIAL = os.path.abspath(os.environ.get("VIAL", ROOT / "build" / "vial"))
PATIENCE = 300
DRIVER = os.environ.get("VIAL_DRIVER", "native")
NAMES = ["web.test", "other.test", "a.wild.test", "deep.er.wild.test", "wild.test",
         "pages.test", "raw.test", "twice.test"]


class World:
    """A name server, HTTP on 80 and 8080, HTTPS on 443, and settings that lead there."""

    def __init__(self, where):
        self.where = where
        self.files = where / "files"
        self.files.mkdir()
        self.names = servers.Names({name: [servers.HOST] for name in NAMES})
        context = servers.authority(where, *NAMES)
        self.ca = (where / "ca.pem").read_text()
        for port, how in [(80, None), (8080, None), (443, context)]:
            servers.serve(port, str(self.files), how)

    def settings(self, **policy):
        policy = {"gate_resolvers": [self.names.address], "allow_private": ["127.77.0.0/16"],
                  **policy}
        path = self.where / ("settings-%d.yaml" % len(list(self.where.iterdir())))
        path.write_text(json.dumps({"policy": policy}))
        path.chmod(0o644)
        return str(path)

    def environment(self, **policy):
        env = {k: v for k, v in os.environ.items() if not k.startswith("VIAL_")}
        return {**env, "HOME": "/nonexistent", "VIAL_CONFIG": self.settings(**policy)}

    def start(self, *args, policy=None, **more):
        return subprocess.Popen([VIAL, *args], env=self.environment(**(policy or {})), **more)

    def run(self, *args, policy=None, prefix=(), program=VIAL):
        """The result of `vial run --network gate ARGS`."""
        done = subprocess.run([*prefix, program, "run", "--driver", DRIVER, "--network", "gate",
                               "--json", *args],
                              env=self.environment(**(policy or {})), capture_output=True,
                              timeout=PATIENCE, check=False)
        assert done.stdout, done.stderr
        return json.loads(done.stdout, object_hook=lambda d: SimpleNamespace(**d))

    def python(self, code, *args, **more):
        return self.run(*args, "python", code, **more)


@pytest.fixture(scope="session")
def world():
    """In a directory of its own: pytest's is closed to other users whenever another lane begins."""
    with tempfile.TemporaryDirectory(prefix="gate-") as where:
        os.chmod(where, 0o755)
        yield World(Path(where))


@pytest.fixture(scope="session")
def index(world):
    """A package index for pip, and a repository for git, as plain files over HTTPS."""
    package = world.where / "greeting-1.0"
    package.mkdir()
    (package / "greeting.py").write_text("def hello(): return 'from a package'\n")
    (package / "setup.py").write_text("from setuptools import setup\n"
                                      "setup(name='greeting', version='1.0', py_modules=['greeting'])\n")
    simple = world.files / "simple" / "greeting"
    simple.mkdir(parents=True)
    subprocess.run(["/usr/bin/python3", "-m", "pip", "wheel", "-q", "--no-deps",
                    "--no-build-isolation", "-w", str(simple), str(package)], check=True,
                   env={**os.environ, "HOME": str(world.where), "PIP_NO_INDEX": "1"},
                   capture_output=True)
    wheel = next(simple.glob("*.whl")).name
    (simple / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
    work = world.where / "work"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@test", "-C", str(work)]
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / "README").write_text("cloned\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(world.files / "r.git")], check=True)
    subprocess.run(["git", "-C", str(world.files / "r.git"), "update-server-info"], check=True)
    return "https://pages.test"


@pytest.fixture(scope="session")
def registry(world):
    """One package for npm, as plain files over HTTPS."""
    pack = world.files / "hi"
    pack.mkdir()
    (world.where / "package").mkdir()
    (world.where / "package" / "package.json").write_text('{"name": "hi", "version": "1.0.0"}')
    (world.where / "package" / "index.js").write_text("module.exports = 'from npm'\n")
    with tarfile.open(pack / "hi-1.0.0.tgz", "w:gz") as tar:
        tar.add(world.where / "package", "package")
    (pack / "index.html").write_text(
        '{"name": "hi", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "hi", '
        '"version": "1.0.0", "dist": {"tarball": "https://pages.test/hi/hi-1.0.0.tgz"}}}}')


def told(result):
    """What the result says of each connection."""
    return [(c.name, c.port, c.verdict) for c in result.network.connections]
