# SPDX-License-Identifier: Apache-2.0
"""Ports of this host that lead to a program's, through its gate."""

import json
import socket
import subprocess
import sys

import pytest

from conftest import DRIVER, ROOT
from servers import HOST, wait_until

sys.path.insert(0, str(ROOT / "tests" / "serve"))

from daemon import Daemon  # noqa: E402

SERVE = """
import socket, sys
server = socket.create_server(("127.0.0.1", 8080))
print("listens", flush=True)
for _ in range(%d):
    peer, _ = server.accept()
    word = peer.recv(100)
    peer.sendall(word.upper())
    peer.close()
"""


def free_port():
    with socket.create_server((HOST, 0)) as s:
        return s.getsockname()[1]


def ask(port, word=b"word", host=HOST):
    with socket.create_connection((host, port), timeout=60) as s:
        s.sendall(word)
        return s.recv(100)


def start(world, code, *args):
    p = world.start("run", "--driver", DRIVER, "--json", "--network", "gate", "--timeout", "60s", *args,
                    "python", code, stdout=subprocess.PIPE, text=True)
    return p


def result(p):
    return json.loads(p.communicate(timeout=120)[0])


def reached(port, host=HOST):
    """What the program says, once it listens; before, the gate ends the connection."""
    said = []

    def answers():
        try:
            said[:] = [ask(port, host=host)]
        except ConnectionError:
            return False
        return bool(said[0])

    wait_until(answers)
    return said[0]


def test_a_published_port_leads_to_the_program(world):
    port = free_port()
    p = start(world, SERVE % 2, "--publish", f"{HOST}:{port}:8080")
    assert reached(port) == b"WORD"
    assert ask(port, b"again") == b"AGAIN"
    r = result(p)
    assert r["verdict"] == "ok", r
    incoming = [(c["bytes_in"], c["bytes_out"]) for c in r["network"]["connections"] if c["incoming"]]
    assert incoming[-2:] == [(4, 4), (5, 5)], r["network"]


def test_the_port_is_free_again_when_the_program_has_ended(world):
    port = free_port()
    for _ in range(2):
        p = start(world, SERVE % 1, "--publish", f"{HOST}:{port}:8080")
        assert reached(port) == b"WORD"
        assert result(p)["verdict"] == "ok"
        with pytest.raises(ConnectionRefusedError):
            ask(port)


def test_nothing_else_of_the_vessel_is_reached(world):
    port, other = free_port(), free_port()
    code = SERVE.replace('print(', f'also = socket.create_server(("127.0.0.1", {other})); print(') % 1
    p = start(world, code, "--publish", f"{HOST}:{port}:8080")
    assert reached(port) == b"WORD"
    with pytest.raises(ConnectionRefusedError):
        ask(other)
    result(p)


def test_a_port_that_is_in_use_is_told(world):
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        r = result(start(world, "print(1)", "--publish", f"{HOST}:{port}:8080"))
    assert (r["verdict"], r["error"]["code"]) == ("denied", "VIAL-ENGINE-PORT"), r
    assert r["error"]["message"] == f"publish port {HOST}:{port}"


@pytest.mark.parametrize("text, code, message", [
    ("0:8080", "VIAL-UNSUPPORTED", "a gate publishes no port that is any"),
    ("5353:53/udp", "VIAL-UNSUPPORTED", "a gate publishes no port of UDP: 53/udp"),
    ("0.0.0.0:8080:8080", "VIAL-POLICY", "port '0.0.0.0:8080' is not on a loopback address"),
    ("192.0.2.1:8080:8080", "VIAL-POLICY", "port '192.0.2.1:8080' is not on a loopback address"),
])
def test_what_a_gate_does_not_publish_is_refused(world, text, code, message):
    r = world.python("print(1)", "--publish", text)
    assert (r.verdict, r.error.code, r.error.message) == ("denied", code, message)


def test_without_a_gate_nothing_is_published(world):
    r = world.python("print(1)", "--network", "none", "--publish", f"{HOST}:{free_port()}:8080")
    assert r.error.message == ("driver 'native' cannot give the program published ports without a gate"
                               if DRIVER == "native" else
                               "ports is given, but the program has no network")


def test_many_connections_are_bounded_and_hold_up_nobody(world):
    port = free_port()
    p = start(world, SERVE % 401, "--publish", f"{HOST}:{port}:8080")
    assert reached(port) == b"WORD"
    held = [socket.create_connection((HOST, port), timeout=60) for _ in range(400)]
    for s in held:
        s.close()
    assert reached(port) == b"WORD"
    p.terminate()
    p.communicate()


@pytest.mark.skipif(DRIVER != "native", reason="a daemon's vessels are native ones here")
def test_a_daemons_callers_publish_what_the_policy_says(world):
    port = free_port()
    policy = {"networks": ["none", "gate"], "gate_resolvers": [world.names.address]}
    body = {"network": "gate", "ports": [f"{HOST}:{port}:8080"]}
    with Daemon(policy=policy) as d:
        refused = d.ask("POST", "/v1/sessions", body)
        assert refused.json["error"]["message"] == \
            "a daemon's callers publish ports only if the policy says so"
    with Daemon(policy={**policy, "publish": [f"{HOST}:{port}"]}) as d:
        session = d.ask("POST", "/v1/sessions", body).json
        assert "id" in session, session
        path = "/v1/sessions/" + session["id"]
        d.ask("POST", path + "/exec", {"argv": ["python3", "-c", SERVE % 1]})
        assert reached(port) == b"WORD"
        other = d.ask("POST", "/v1/sessions", {**body, "ports": [f"{HOST}:{port + 1}:8080"]})
        assert other.code == "VIAL-POLICY"
        d.ask("DELETE", path)
        wait_until(lambda: not is_open(port))


def is_open(port):
    with socket.socket() as s:
        return s.connect_ex((HOST, port)) == 0
