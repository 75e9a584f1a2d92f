# SPDX-License-Identifier: Apache-2.0
"""What one caller of the daemon may reach through the gates of all its runs and sessions."""

import hashlib
import http.client
import json
import os
import signal
import sys

import pytest

from conftest import ROOT
from servers import Raw, wait_until
from test_daemon import gates, is_below

sys.path.insert(0, str(ROOT / "tests" / "serve"))

from daemon import Daemon  # noqa: E402

PORT = 7400
HOLD = """
import signal, socket
held = [socket.create_connection(("raw.test", %d)) for _ in range(3)]
for s in held:
    s.sendall(b"x"); s.recv(1)
print("held", flush=True)
signal.pause()
""" % PORT
ONE = """
import socket
s = socket.create_connection(("raw.test", %d))
try:
    s.sendall(b"x")
    print("reached" if s.recv(1) else "refused")
except OSError:
    print("refused")
""" % PORT
FETCH = """
import urllib.request
try:
    print(len(urllib.request.urlopen("http://web.test/size/%d", timeout=60).read()))
except OSError as e:
    print("refused")
except Exception as e:
    print("cut off")
"""


def echo(peer):
    try:
        peer.sendall(peer.recv(1))
        peer.recv(1)
    except OSError:
        pass


@pytest.fixture(scope="module", autouse=True)
def server():
    Raw(PORT, echo)


@pytest.fixture
def serve(world, tmp_path):
    """A daemon with these quotas, and callers 'ann' and 'bob' who have tokens."""
    def make(bob=None, **quotas):
        tokens = tmp_path / "tokens.yaml"
        tokens.write_text(json.dumps([
            {"name": name, "sha256": hashlib.sha256(key(name).encode()).hexdigest(),
             "scopes": ["run", "session"], **(more or {})} for name, more in (("ann", None), ("bob", bob))]))
        for path in [tokens, tmp_path, tmp_path.parent, tmp_path.parent.parent]:
            os.chmod(path, os.stat(path).st_mode | 0o055)
        tokens.chmod(0o644)
        return Daemon(serve={"tokens": str(tokens), **quotas}, tcp=True,
                      policy={"gate_resolvers": [world.names.address],
                              "allow_private": ["127.77.0.0/16"], "networks": ["none", "gate"]})
    return make


def key(name):
    return name * 10


def ask(d, who, method, path, body=None):
    return d.ask(method, path, body, {"Authorization": "Bearer " + key(who)},
                 http.client.HTTPConnection("127.0.0.1", d.port, timeout=60))


def run(d, code, who="ann"):
    return ask(d, who, "POST", "/v1/run", {"language": "python", "code": code, "network": "gate",
                                           "allow": ["web.test", f"raw.test:{PORT}"]}).json


def verdicts(result):
    return [c["verdict"] for c in result["network"]["connections"]]


class Holder:
    """A session of ann's, a program of which has three connections open."""

    def __init__(self, d):
        self.d = d
        self.path = "/v1/sessions/" + ask(d, "ann", "POST", "/v1/sessions", {
            "network": "gate", "allow": [f"raw.test:{PORT}"]}).json["id"]
        at = ask(d, "ann", "POST", self.path + "/exec", {"argv": ["python3", "-c", HOLD]})
        self.exec = "%s/exec/%s" % (self.path, at.json["exec"])
        wait_until(lambda: b"held" in ask(d, "ann", "GET", self.exec + "/output?of=stdout").body)

    def end(self):
        ask(self.d, "ann", "DELETE", self.path)


def test_connections_of_a_session_and_of_runs_count_together(serve):
    with serve(caller_network_open=3) as d:
        holder = Holder(d)
        r = run(d, ONE)
        assert (r["stdout"], verdicts(r), r["limits_hit"]) == ("refused\n", ["quota"], ["network"]), r
        assert r["network"]["over_quota"] == 1
        assert run(d, ONE, "bob")["stdout"] == "reached\n"  # another caller has another quota
        assert "\nvial_gate_over_quota_total 1\n" in d.ask("GET", "/metrics").body.decode()
        holder.end()
        wait_until(lambda: run(d, ONE)["stdout"] == "reached\n")


def test_what_a_killed_gate_had_is_given_back(serve):
    with serve(caller_network_open=3) as d:
        holder = Holder(d)
        mine = [pid for pid in gates() if is_below(pid, d.process.pid)]
        assert run(d, ONE)["stdout"] == "refused\n"
        os.kill(mine[0], signal.SIGKILL)
        holder.end()
        wait_until(lambda: run(d, ONE)["stdout"] == "reached\n")


def test_bytes_of_one_run_are_missing_in_the_next(serve):
    size = 600_000
    with serve(caller_network_in_per_hour="1m") as d:
        first, second, third = [run(d, FETCH % size) for _ in range(3)]
        assert (first["stdout"], first["limits_hit"]) == (f"{size}\n", [])
        assert second["stdout"] != f"{size}\n" or third["stdout"] == "refused\n"
        assert (third["stdout"], verdicts(third)) == ("refused\n", ["quota"])
        assert run(d, FETCH % size, "bob")["stdout"] == f"{size}\n"


def test_a_rate_is_the_callers_and_a_tokens_own_goes_before(serve):
    with serve(caller_network_rate=2, bob={"network_rate": 0, "network_out_per_hour": "1k"}) as d:
        assert [run(d, ONE)["stdout"] for _ in range(2)] == ["reached\n"] * 2
        assert run(d, ONE)["stdout"] == "refused\n"
        assert {run(d, ONE, "bob")["stdout"] for _ in range(4)} == {"reached\n"}
        big = FETCH.replace("%d\"", "5\", data=b'x' * 9999")
        said = [run(d, big, "bob") for _ in range(2)][1]
        assert verdicts(said) == ["quota"]


def test_a_quota_of_bytes_that_is_none_is_refused(serve):
    with pytest.raises(RuntimeError, match="network_in_per_hour"):
        with serve(bob={"network_in_per_hour": "many"}):
            pass
