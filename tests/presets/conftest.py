# SPDX-License-Identifier: Apache-2.0
"""Each file walks one of the five documents from top to bottom, through the command and
through the MCP server, as its users would. Run twice: without a container engine, where
presets fall back to the native driver, and (VIAL_E2E_DRIVERS=docker) with a real one,
whose address is in DOCKER_HOST."""
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "docker"))
import engine as engine_module  # noqa: E402
import proxy as proxy_module  # noqa: E402

VIAL = os.path.abspath(os.environ.get("VIAL", ROOT / "build" / "vial"))
DOCKER = "docker" in os.environ.get("VIAL_E2E_DRIVERS", "")
PATIENCE = 90
STATE = tempfile.mkdtemp(prefix="vial-state-")  # what runs leave, of all tests
atexit.register(shutil.rmtree, STATE, ignore_errors=True)
BASE = "debian:12-slim"  # what all images of the test engine are made of
IMAGES = ["klaw-sandbox:latest", "mine:1", "oven/bun:latest", "antigravity-sandbox:latest",
          "node:20-alpine", "mcr.microsoft.com/dotnet/sdk:8.0",
          "codomyrmex/sandbox-bash:5.1-alpine"]
PYTHON = "codomyrmex/sandbox-python:3.10.12-slim-bullseye"


def environment(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("VIAL_", "SANDBOX_", "DOCKER_", "KLAW_"))}
    env["HOME"] = "/nonexistent"
    env["VIAL_STATE"] = STATE
    env["DOCKER_HOST"] = os.environ["DOCKER_HOST"] if DOCKER else "unix:///nonexistent/sock"
    env.update(more)
    return env


# Programs of the names that the languages of codomyrmex have. Its node is a shell: what
# matters is the container around it.
RUNTIMES = """cd /usr/bin && ln -sf python3 python3.10 && ln -sf python3 python3.9 &&
printf '#!/bin/sh\n[ "$1" != --version ] || exec echo v18.17.1\nexec sh "$@"\n' > node &&
chmod 755 node"""


def make_runtimes(api):
    """The images of codomyrmex's document."""
    made = api.call("POST", "/containers/create", {"Image": BASE,
                                                   "Cmd": ["sh", "-c", RUNTIMES]})
    try:
        api.call("POST", "/containers/%s/start" % made["Id"])
        api.call("POST", "/containers/%s/wait" % made["Id"])
        for name in [PYTHON, "codomyrmex/sandbox-python:3.9.17-slim-bullseye",
                     "codomyrmex/sandbox-node:18.17.1-alpine"]:
            repo, _, tag = name.rpartition(":")
            api.call("POST", "/commit?repo=%s&tag=%s&container=%s" % (repo, tag, made["Id"]), {})
    finally:
        api.call("DELETE", "/containers/" + made["Id"])


@pytest.fixture(scope="session", autouse=True)
def built():
    if not os.access(VIAL, os.X_OK):
        pytest.exit(f"{VIAL} does not exist; run 'make build'", 2)


@pytest.fixture(scope="session")
def api():
    """The engine behind vial's back, with the documents' images; None without one."""
    if not DOCKER:
        return None
    api = engine_module.Api(os.environ["DOCKER_HOST"].replace("unix://", ""))
    for name in IMAGES:
        api.tag(BASE, name)
    make_runtimes(api)
    return api


@pytest.fixture
def containers(api):
    """Those of a prefix, inspected; an empty list without an engine."""
    def find(prefix):
        if not api:
            return []
        found = []
        for c in api.ours():
            if not c["Names"][0].startswith("/" + prefix):
                continue
            try:
                found.append(api.inspect(c))
            except RuntimeError:
                pass  # it went meanwhile
        return found
    return find


@pytest.fixture
def needs_engine(api):
    if not api:
        pytest.skip("needs a container engine")
    return api


@pytest.fixture
def line(needs_engine, tmp_path_factory):
    """A way to the engine that can be cut and mended: what a client sees of an engine
    that stops and starts."""
    way = proxy_module.Proxy(needs_engine.path, str(tmp_path_factory.mktemp("line") / "sock"))
    yield way
    way.cut()


class Done:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def vial(api):
    def call(*args, cwd="/", stdin="", **env):
        return Done(subprocess.run([VIAL, *args], capture_output=True, text=True, cwd=cwd,
                                   input=stdin, env=environment(**env), timeout=PATIENCE,
                                   check=False))
    return call


class Mcp:
    """A client of `vial mcp`, over its stdin and stdout."""

    def __init__(self, preset, *args, cwd="/", **env):
        named = ["--preset", preset] if preset else []
        self.process = subprocess.Popen([VIAL, "mcp", *named, *args], cwd=cwd,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env=environment(**env))
        self.number = 0
        self.unasked = []
        self.early = {}
        answer = self.ask("initialize", {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"}})
        assert "result" in answer, answer["error"]  # it cannot start
        self.begun = answer["result"]
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        try:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has refused to start, which receive shows

    def receive(self, number):
        while True:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            answer = json.loads(line)
            if answer.get("id") == number:
                return answer
            self.unasked.append(answer)

    def ask(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        return self.receive(self.number)

    def begin(self, name, **arguments):
        """A call whose answer is for `receive`, by the number that this gives."""
        self.number += 1
        self.send({"id": self.number, "method": "tools/call",
                   "params": {"name": name, "arguments": arguments}})
        return self.number

    def any(self):
        """The next answer, whichever it is for."""
        while True:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            message = json.loads(line)
            if "id" in message:
                return message

    def answer(self, number):
        """Of a call that was begun; answers come in any order."""
        while number not in self.early:
            message = self.any()
            self.early[message["id"]] = message
        return Answer(self.early.pop(number))

    def tools(self):
        return {t["name"]: t for t in self.ask("tools/list", {})["result"]["tools"]}

    def __call__(self, name, **arguments):
        return Answer(self.ask("tools/call", {"name": name, "arguments": arguments}))

    def close(self):
        if self.process.stdin.closed:
            return
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(PATIENCE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
        self.process.stdout.close()
        self.process.stderr.close()


class Answer:
    def __init__(self, message):
        assert "result" in message, message
        result = message["result"]
        self.whole = self.text = result["content"][0]["text"]
        self.error = result.get("isError", False)
        self.json = result.get("structuredContent",
                               result.get("_meta", {}).get("vial/result"))
        # Without an engine every call says so (test_stand_in.py); what else it says is
        # told apart from that.
        self.warning = self.json.pop("warning", None) if self.json else None
        if self.warning and self.whole.startswith("[warning: %s]" % self.warning):
            self.text = self.whole.partition("\n")[2]


@pytest.fixture
def mcp(api):
    clients = []

    def start(preset, *args, **more):
        clients.append(Mcp(preset, *args, **more))
        return clients[-1]
    yield start
    for client in clients:
        client.close()


def wait_for(what, seconds=90):
    """Waits until WHAT() is true; there is nothing to wait on from outside."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def place(tmp_path):
    """A directory that an ordinary user may enter."""
    for parent in [tmp_path, *list(tmp_path.parents)[:2]]:
        os.chmod(parent, os.stat(parent).st_mode | 0o055)
    return tmp_path


@pytest.fixture
def own_output():
    """The directory that klaw's tool writes to, gone afterwards if it was not there."""
    path = Path("/tmp/klaw-sandbox")
    there = path.exists()
    yield path
    if not there:
        shutil.rmtree(path, ignore_errors=True)
