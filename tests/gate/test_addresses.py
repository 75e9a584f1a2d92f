# SPDX-License-Identifier: Apache-2.0
"""Ranges of addresses in allow and deny: for programs that ask for no name. In networks of their own,
where addresses that are public elsewhere answer."""

import os
import subprocess
import sys

import pytest

from conftest import ROOT, VIAL, told
from roads import OWN, PORT, opened
from test_names import fetch

sys.path.insert(0, str(ROOT / "tests" / "serve"))

from daemon import Daemon  # noqa: E402

NAMES = {"one.test": ["1.1.1.1"], "both.test": ["1.1.1.1", "1.1.1.2"],
         "six.test/6": ["2606:4700:4700::1111"]}
PRIVATE = ["10.77.0.0/16", "fd77::/64"]
CODE = """
import socket
for where in %r:
    try:
        with socket.create_connection((where, %d), timeout=60) as s:
            print(s.recv(100).decode())
    except OSError as e:
        print(type(e).__name__ if isinstance(e, ConnectionError) else e.strerror)
"""


@pytest.fixture(scope="module")
def roads():
    """What starts a command there, and the name server's address."""
    if os.geteuid():
        pytest.skip("only root can make networks")
    with opened(NAMES) as them:
        yield them


@pytest.fixture
def reach(world, roads):
    def reach(allow, *where, private=(), deny=(), more=()):
        args = [word for entry in allow for word in ("--allow", entry)]
        args += [word for entry in deny for word in ("--deny", entry)]
        return world.python(CODE % (where, PORT), *args, *more, prefix=roads[0],
                            policy={"gate_resolvers": [roads[1]], "allow_private": list(private)})
    return reach


def test_an_allowed_range_is_reached_and_no_address_beside_it(reach):
    r = reach([f"1.1.1.0/31:{PORT}"], "1.1.1.1", "1.1.1.2", "10.77.0.1")
    assert r.stdout.splitlines() == ["1.1.1.1", "Network is unreachable", "Network is unreachable"]
    assert told(r) == [("1.1.1.1", PORT, "ok")]


def test_a_range_of_ipv6_is_reached(reach):
    r = reach([f"[2606:4700:4700::/48]:{PORT}"], "2606:4700:4700::1111", "1.1.1.1")
    assert r.stdout.splitlines() == ["2606:4700:4700::1111", "Network is unreachable"]
    assert told(r) == [("2606:4700:4700::1111", PORT, "ok")]


def test_a_port_that_no_range_has_is_refused_at_once(reach):
    r = reach(["1.1.1.0/24:443"], "1.1.1.1")
    assert r.stdout == "ConnectionRefusedError\n"


def test_all_addresses_are_never_the_private_ones(reach):
    """What one asks for by 0.0.0.0/0 and ::/0 is the internet, not the host's own network."""
    r = reach([f"0.0.0.0/0:{PORT}", f"[::/0]:{PORT}"], "1.1.1.1", "2606:4700:4700::1111",
              "10.77.0.1", "169.254.169.254", "fd77::1", "198.18.0.1", "127.0.0.1", "127.64.0.9")
    assert r.stdout.splitlines() == ["1.1.1.1", "2606:4700:4700::1111"] + ["ConnectionResetError"] * 6
    assert {(name, verdict) for name, _, verdict in told(r)} == {
        ("1.1.1.1", "ok"), ("2606:4700:4700::1111", "ok"), ("10.77.0.1", "private_address"),
        ("169.254.169.254", "private_address"), ("fd77::1", "private_address"),
        ("198.18.0.1", "private_address")}


def test_the_hosts_own_public_addresses_are_not_reached(reach):
    r = reach([f"9.9.9.0/24:{PORT}", f"[2620:fe::/64]:{PORT}"], *OWN)
    assert r.stdout.splitlines() == ["ConnectionResetError"] * 4
    assert [verdict for _, _, verdict in told(r)] == ["private_address"] * 4


def test_a_private_range_is_let_in_by_the_operator_alone(reach):
    for entry in [f"10.77.0.0/24:{PORT}", f"10.0.0.0/8:{PORT}", f"169.254.169.254:{PORT}",
                  f"[fd77::/64]:{PORT}", f"[fe80::/10]:{PORT}"]:
        r = reach([entry], "10.77.0.1")
        assert (r.verdict, r.error.code) == ("denied", "VIAL-POLICY"), entry
        assert r.error.message == f"allow '{entry}' has no address that is public"
    r = reach([f"10.0.0.0/8:{PORT}"], "10.77.0.1", private=PRIVATE)  # wider than the operator's
    assert r.error.message == f"allow '10.0.0.0/8:{PORT}' has no address that is public"
    r = reach([f"10.77.0.0/24:{PORT}", f"[fd77::/96]:{PORT}"], "10.77.0.1", "10.77.1.1", "fd77::1",
              private=PRIVATE)
    assert r.stdout.splitlines() == ["10.77.0.1", "Network is unreachable", "fd77::1"]


def test_a_denied_range_holds_for_names_that_lead_there(reach):
    allow = [f"*:{PORT}", f"1.1.1.0/24:{PORT}"]
    where = ["one.test", "both.test", "six.test", "1.1.1.1", "1.1.1.2"]
    r = reach(allow, *where)
    assert r.stdout.splitlines() == ["1.1.1.1", "1.1.1.1", "2606:4700:4700::1111", "1.1.1.1", "1.1.1.2"], (told(r), r.stdout)
    r = reach(allow, *where, deny=["1.1.1.1", f"[2606::/16]:{PORT}"])
    assert r.stdout.splitlines() == ["ConnectionResetError", "1.1.1.2", "ConnectionResetError",
                                     "ConnectionResetError", "1.1.1.2"]
    assert [verdict for name, _, verdict in told(r) if name in ("one.test", "six.test", "1.1.1.1")] \
        == ["denied"] * 3


def test_a_name_covers_no_address_and_a_range_no_name(reach):
    r = reach([f"*:{PORT}"], "1.1.1.1")
    assert r.stdout == "Network is unreachable\n"
    r = reach([f"0.0.0.0/0:{PORT}"], "one.test")
    assert r.stdout == "Name or service not known\n"


@pytest.mark.parametrize("entry, why", [
    ("10.0.0.1/8:80", "its address has bits beyond those that it names"),
    ("127.0.0.0/8:80", "it is the program's own machine"),
    ("127.0.0.1", "it is the program's own machine"),
    ("[::1]:80", "it is the program's own machine"),
    ("10.0.0.0/33", "it is not ADDRESS/BITS, nor [ADDRESS/BITS]:PORTS"),
    ("fd77::/64:80", "it is not ADDRESS/BITS, nor [ADDRESS/BITS]:PORTS"),
    ("[10.0.0.0/8]:80", "it is not ADDRESS/BITS, nor [ADDRESS/BITS]:PORTS"),
    ("1.1.1.0/24:1-100", "it has more than 16 ports"),
    ("1.1.1", "it is not a host's name"),
])
def test_a_range_that_means_nothing_is_refused(world, entry, why):
    r = fetch(world, [entry])
    assert (r.verdict, r.error.code) == ("denied", "VIAL-VALUE")
    assert r.error.message == f"'{entry}' is not an entry of allow or deny: {why}"


def test_a_vessel_has_a_bounded_number_of_ranges(world):
    r = fetch(world, ["1.1.%d.0/24:%d" % (i, i + 100) for i in range(65)])
    assert r.error.message == "allow has more than 64 ranges of addresses, or 128 ports of them"


def ask(daemon, allow, *where):
    return daemon.ask("POST", "/v1/run", {"language": "python", "code": CODE % (where, PORT),
                                          "network": "gate", "allow": allow}).json


def test_the_keeper_lets_out_what_the_policy_covers(roads):
    d = Daemon(policy={"allow": [f"1.1.1.0/24:{PORT}", f"10.0.0.0/8:{PORT}", "*"],
                       "allow_private": ["10.77.0.0/16"], "gate_resolvers": [roads[1]]})
    d.command = [*roads[0], d.command[0]]
    with d:
        r = ask(d, [f"1.1.1.1:{PORT}", f"10.77.0.0/24:{PORT}"], "1.1.1.1", "10.77.0.1", "10.77.1.1")
        assert r["stdout"].splitlines() == ["1.1.1.1", "10.77.0.1", "Network is unreachable"], r
        for entry, why in [(f"1.1.0.0/16:{PORT}", "is not allowed by the policy"),
                           ("8.8.8.8:443", "is not allowed by the policy"),
                           (f"10.78.0.0/16:{PORT}", "has no address that is public")]:
            assert ask(d, [entry])["error"]["message"] == f"allow '{entry}' {why}"


def test_a_policy_that_denies_names_gives_no_addresses(roads):
    def answer(denied):
        d = Daemon(policy={"networks": ["gate"], "deny": [denied], "gate_resolvers": [roads[1]]})
        d.command = [*roads[0], d.command[0]]
        with d:
            return ask(d, [f"1.1.1.0/24:{PORT}"], "1.1.1.1")

    r = answer("intern.example.com")
    assert (r["verdict"], r["error"]["code"]) == ("denied", "VIAL-POLICY")
    assert r["error"]["message"] == (
        f"allow '1.1.1.0/24:{PORT}' could lead to what the policy denies by name")
    assert answer("1.1.2.0/24")["stdout"] == "1.1.1.1\n"


@pytest.mark.parametrize("entry", ["1.1.1.1:53", "[2620:fe::/48]:50-60"])
def test_port_53_of_addresses_is_refused(reach, entry):
    r = reach([entry], "1.1.1.1")
    assert (r.verdict, r.error.code) == ("denied", "VIAL-UNSUPPORTED")
    assert r.error.message == f"allow '{entry}' has port 53 of addresses"


def test_a_sessions_addresses_are_narrowed(roads):
    d = Daemon(policy={"allow": [f"1.1.1.0/24:{PORT}"], "gate_resolvers": [roads[1]]})
    d.command = [*roads[0], d.command[0]]
    with d:
        session = d.ask("POST", "/v1/sessions", {"network": "gate",
                                                 "allow": [f"1.1.1.0/24:{PORT}"]}).json
        path = "/v1/sessions/" + session["id"]

        def reached():
            argv = ["python3", "-c", CODE % (["1.1.1.1", "1.1.1.2"], PORT)]
            return d.ask("POST", path + "/exec?wait=true", {"argv": argv}).json["stdout"].splitlines()

        assert reached() == ["1.1.1.1", "1.1.1.2"]
        assert d.ask("PUT", path + "/allow", {"allow": [f"1.1.1.2:{PORT}"]}).status == 200
        assert reached() == ["ConnectionResetError", "1.1.1.2"]
        wider = d.ask("PUT", path + "/allow", {"allow": [f"1.1.0.0/16:{PORT}"]})
        assert wider.code == "VIAL-POLICY"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_reaches_addresses(world, roads):
    as_user = [*roads[0], "setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--"]
    if subprocess.run([*as_user, "test", "-x", VIAL], check=False).returncode:
        pytest.skip("an ordinary user cannot reach this build")
    r = world.python(CODE % (["1.1.1.1"], PORT), "--allow", f"1.1.1.1:{PORT}", prefix=as_user)
    assert r.stdout == "1.1.1.1\n", (r.stderr, r.error)
