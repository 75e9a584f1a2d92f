# SPDX-License-Identifier: Apache-2.0
"""A real daemon with a token, and a way to it that breaks."""
import asyncio
import hashlib
import json
import os
import socket
import subprocess
import sys
import tarfile
import threading

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "../serve"))
sys.path.insert(0, os.path.join(ROOT, "clients/python"))

import vial  # noqa: E402
from daemon import Daemon, clean_env  # noqa: E402

TOKEN = "vial_" + "7" * 40
BUILD = os.path.abspath(os.environ.get("VIAL_BUILD", "build"))


@pytest.fixture(scope="session")
def tokens(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "tokens.yaml"
    path.write_text(json.dumps([
        {"name": "client", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(),
         "scopes": ["read", "run", "session", "admin", "image"]}]))
    for place in (path, *path.parents):
        if str(place).startswith("/tmp/"):
            os.chmod(place, 0o755)
    return str(path)


@pytest.fixture(scope="session")
def daemon(tokens):
    """One for all tests: they look at what they did alone."""
    with Daemon(serve={"tokens": tokens, "history": 2000}, policy={"volumes": ["by-*"]}, tcp=True,
                env={"VIAL_VOLUME_STORE": os.path.join(os.path.dirname(tokens), "volumes")}) as d:
        d.url, d.token = "http://127.0.0.1:%d" % d.port, TOKEN
        yield d


class Weak:
    """A way to a daemon's socket or port on which connections break: `cuts` says of each new one
    after how many bytes of its answer (None: it does not)."""

    def __init__(self, path, cuts):
        self.path, self.cuts, self.count = path, list(cuts), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            cut = self.cuts.pop(0) if self.cuts else None
            is_tcp = isinstance(self.path, int)
            there = socket.socket(socket.AF_INET if is_tcp else socket.AF_UNIX)
            there.connect(("127.0.0.1", self.path) if is_tcp else self.path)
            threading.Thread(target=self.pump, args=(client, there, None), daemon=True).start()
            threading.Thread(target=self.pump, args=(there, client, cut), daemon=True).start()

    @staticmethod
    def pump(source, target, most):
        """MOST 0: nothing is passed on, and the connection breaks with the first byte."""
        try:
            while True:
                some = source.recv(65536)
                if most is not None:
                    some = some[:most]
                    most -= len(some)
                if some:
                    target.sendall(some)
                if not some or most == 0:
                    break
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


@pytest.fixture
def weak(daemon):
    made = []

    def make(*cuts, to=None):
        made.append(Weak(to or daemon.socket, cuts))
        return made[-1]
    yield make
    for one in made:
        one.close()


class Driven:
    """An object of the async client, used as one of the blocking client."""

    def __init__(self, loop, inner):
        self.loop, self.inner = loop, inner

    def give(self, value):
        if asyncio.iscoroutine(value):
            value = asyncio.run_coroutine_threadsafe(value, self.loop).result(120)
        return Driven(self.loop, value) if type(value).__name__.startswith("Async") else value

    def __getattr__(self, name):
        value = getattr(self.inner, {"close": "aclose"}.get(name, name) if hasattr(
            self.inner, "aclose") else name)
        if not callable(value) or isinstance(value, vial.Record):
            return value
        return lambda *args, **kwargs: self.give(value(*args, **kwargs))

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self.give(self.inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.give(self.inner.__aexit__(None, None, None))


@pytest.fixture(params=["blocking", "async"])
def connect(request):
    """Makes clients of either kind, which are used alike."""
    loop, made = None, []
    if request.param == "async":
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

    def make(*args, **kwargs):
        if not loop:
            made.append(vial.Client(*args, **kwargs))
        else:
            async def construct():
                return vial.AsyncClient(*args, **kwargs)
            made.append(Driven(loop, asyncio.run_coroutine_threadsafe(construct(), loop).result(60)))
        return made[-1]
    yield make
    for client in made:
        client.close()
    if loop:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def client(connect, daemon):
    return connect("unix:" + daemon.socket)


def tsc(*args, cwd):
    """The compiler that tools/dist-clients has brought."""
    return subprocess.run([os.path.join(BUILD, "clients/node_modules/.bin/tsc"), *args], cwd=cwd,
                          capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The packages, as they are published."""
    where = tmp_path_factory.mktemp("dist")
    out = subprocess.run([os.path.join(ROOT, "tools/dist-clients"), "--tree", BUILD, str(where)],
                         capture_output=True, text=True, timeout=600, env=clean_env())
    assert out.returncode == 0, out.stderr
    return where


@pytest.fixture(scope="session")
def project(made):
    """A project that has the TypeScript package and nothing else."""
    where = made / "project"
    package = where / "node_modules" / "vial-client"
    package.mkdir(parents=True)
    with tarfile.open(next(made.glob("vial-client-*.tgz"))) as archive:
        for member in archive.getmembers():
            member.name = member.name.partition("/")[2]
            archive.extract(member, package)
    (where / "package.json").write_text('{"type": "module"}')
    return where
