# SPDX-License-Identifier: Apache-2.0
"""How much a program may reach through its gate: connections, and bytes both ways."""

import sys

from conftest import ROOT, told

sys.path.insert(0, str(ROOT / "tests" / "serve"))

from daemon import Daemon  # noqa: E402

FETCH = """
import sys, urllib.request
for n in range(%d):
    try:
        body = urllib.request.urlopen("http://web.test/size/%d", timeout=60).read()
        print(len(body))
    except Exception as e:
        print("refused")
"""
SEND = """
import socket
s = socket.create_connection(("web.test", 80))
try:
    s.sendall(b"POST /up HTTP/1.1\\r\\nHost: web.test\\r\\nContent-Length: 99999999\\r\\n\\r\\n")
    for _ in range(1000):
        s.sendall(b"x" * 65536)
    print("sent")
except OSError:
    print("refused")
"""
MANY = ("--allow", "web.test")


def test_connections_beyond_the_limit_are_refused(world):
    r = world.python(FETCH % (5, 10), "--network-connections", "3", *MANY)
    assert r.stdout.split() == ["10"] * 3 + ["refused"] * 2
    assert sorted((c.verdict, getattr(c, "times", 1)) for c in r.network.connections) == \
        [("limit", 2)] + [("ok", 1)] * 3
    assert r.limits_hit == ["network"] and r.verdict == "ok"


def test_connections_beyond_the_rate_are_refused(world):
    """A minute may pass on a slow machine, but not one for each."""
    r = world.python(FETCH % (5, 10), "--network-rate", "1", *MANY)
    assert r.stdout.startswith("10\n") and "refused" in r.stdout
    assert r.limits_hit == ["network"]


def test_within_the_limits_nothing_is_told(world):
    r = world.python(FETCH % (3, 1000), "--network-connections", "3", "--network-in", "1m",
                     "--network-out", "1m", *MANY)
    assert r.stdout.split() == ["1000"] * 3
    assert r.limits_hit == [] and {v for _, _, v in told(r)} == {"ok"}


def test_more_bytes_in_end_all_connections(world):
    r = world.python(FETCH % (3, 50 << 20), "--network-in", "1m", *MANY)
    assert r.stdout.split() == ["refused"] * 3
    assert {v for _, _, v in told(r)} == {"limit"}
    assert r.limits_hit == ["network"]
    assert 1 << 20 < r.network.bytes_in < 8 << 20  # what is under way, at most


def test_more_bytes_out_end_all_connections(world):
    r = world.python(SEND, "--network-out", "1m", *MANY)
    assert r.stdout.split() == ["refused"]
    assert r.limits_hit == ["network"] and r.network.bytes_out < 8 << 20


def test_a_cap_holds_for_those_who_name_no_limit_and_refuses_more(world):
    policy = {"max_network_connections": 2}
    r = world.python(FETCH % (4, 10), *MANY, policy=policy)
    assert r.stdout.split() == ["10"] * 2 + ["refused"] * 2
    r = world.python("print(1)", "--network-connections", "3", *MANY, policy=policy)
    assert (r.verdict, r.error.code) == ("denied", "VIAL-CAP")


def caller(world, **serve):
    return Daemon(serve=serve, policy={"gate_resolvers": [world.names.address],
                                       "allow_private": ["127.77.0.0/16"], "allow": ["web.test"],
                                       "max_network_connections": 4})


def test_the_keeper_holds_the_operators_cap_and_a_session_has_one_for_all_its_programs(world):
    with caller(world) as d:
        body = {"language": "python", "code": FETCH % (6, 10), "network": "gate", "allow": ["web.test"]}
        r = d.ask("POST", "/v1/run", body).json
        assert r["stdout"].split() == ["10"] * 4 + ["refused"] * 2, r
        assert r["limits_hit"] == ["network"]
        path = "/v1/sessions/" + d.ask("POST", "/v1/sessions", {"network": "gate",
                                                              "allow": ["web.test"]}).json["id"]
        for expected in (["10"] * 3, ["10"] + ["refused"] * 2):
            done = d.ask("POST", path + "/exec?wait=true",
                         {"argv": ["python3", "-c", FETCH % (3, 10)]}).json
            assert done["stdout"].split() == expected
