# SPDX-License-Identifier: Apache-2.0
"""Which names a vessel with a gate can reach, and what becomes of all else."""

import subprocess

import pytest

from conftest import DRIVER, told
from servers import HOST, Handler

FETCH = """
import urllib.request
for url in %r:
    try:
        print(urllib.request.urlopen(url, timeout=30).read().decode().strip())
    except Exception as e:
        print(type(getattr(e, "reason", e)).__name__, getattr(e, "reason", e))
"""


def fetch(world, allow, *urls, policy=None, more=()):
    args = [word for name in allow for word in ("--allow", name)]
    return world.python(FETCH % (urls,), *args, *more, policy=policy)


def test_an_allowed_name_is_reached_and_any_other_does_not_exist(world):
    r = fetch(world, ["web.test"], "http://web.test/hello", "http://other.test/hello")
    assert r.stdout.splitlines() == ["hello from web.test",
                                     "gaierror [Errno -2] Name or service not known"]
    assert sorted(told(r)) == [("other.test", 0, "denied"), ("web.test", 80, "ok")]
    assert r.network.bytes_in > 100 < r.network.bytes_out
    assert (r.network.left_out, r.network.whole) == (0, True)
    assert ("other.test", 1) not in world.names.asked


def test_a_gate_without_an_allow_list_lets_nothing_out(world):
    r = fetch(world, [], "http://web.test/hello")
    assert r.stdout == "gaierror [Errno -2] Name or service not known\n"
    assert told(r) == [("web.test", 0, "denied")]


def test_a_star_has_the_names_below_it_and_not_the_name_itself(world):
    r = fetch(world, ["*.wild.test"], "http://a.wild.test/hello",
              "http://deep.er.wild.test/hello", "http://wild.test/hello")
    assert r.stdout.splitlines() == ["hello from a.wild.test", "hello from deep.er.wild.test",
                                     "gaierror [Errno -2] Name or service not known"]


def test_a_port_that_is_not_allowed_is_refused_at_once(world):
    r = fetch(world, ["web.test:8080"], "http://web.test/hello", "http://web.test:8080/hello")
    assert r.stdout.splitlines() == ["ConnectionRefusedError [Errno 111] Connection refused",
                                     "hello from web.test:8080"]


def test_deny_takes_away_from_allow(world):
    r = fetch(world, ["*.test"], "http://web.test/hello", "http://other.test/hello",
              more=("--deny", "other.test:80"))
    assert r.stdout.splitlines() == ["hello from web.test",
                                     "ConnectionRefusedError [Errno 111] Connection refused"]


LITERAL = """
import socket
for kind, address in [(socket.SOCK_STREAM, "192.0.2.1"), (socket.SOCK_DGRAM, "192.0.2.1"),
                      (socket.SOCK_STREAM, "127.77.0.1"), (socket.SOCK_DGRAM, "127.64.0.2")]:
    s = socket.socket(socket.AF_INET, kind)
    try:
        s.connect((address, 80))
        s.send(b"x"); s.send(b"x")
        print("reached")
    except OSError as e:
        print(e.strerror)
"""


def test_addresses_and_datagrams_are_refused_at_once_and_counted(world):
    r = world.python(LITERAL, "--allow", "web.test")
    assert r.stdout.splitlines() == ["Network is unreachable", "Network is unreachable",
                                     "Connection refused", "Connection refused"]
    assert r.network_refused == 3
    assert r.network.connections == []


def test_a_request_can_only_narrow_what_the_operator_allows(world):
    policy = {"allow": ["web.test", "*.wild.test:8080"], "deny": ["b.wild.test"]}
    for wide in ["other.test", "web.test:8080", "*.web.test", "*", "*.wild.test",
                 "python-packages"]:
        r = fetch(world, [wide], policy=policy)
        first = "pypi.org:443" if wide == "python-packages" else wide
        assert (r.verdict, r.error.code) == ("denied", "VIAL-POLICY"), wide
        assert r.error.message == f"allow '{first}' is not allowed by the policy"
    r = fetch(world, ["web.test:80", "a.wild.test:8080", "b.wild.test:8080"],
              "http://web.test/hello", "http://a.wild.test:8080/hello",
              "http://b.wild.test:8080/hello", policy=policy)
    assert r.stdout.splitlines() == ["hello from web.test", "hello from a.wild.test:8080",
                                     "gaierror [Errno -2] Name or service not known"]


@pytest.mark.parametrize("entry, why", [
    ("web.test:*", "its ports are all: name those that are needed"),
    ("web.test:1-100", "it has more than 16 ports"),
    ("web.test:0", "its port is not a number from 1 to 65535"),
    ("a b.test", "it is not a host's name"),
    ("no-such-list", "there is no list of that name"),
])
def test_an_entry_that_means_nothing_is_refused(world, entry, why):
    r = fetch(world, [entry])
    assert (r.verdict, r.error.code) == ("denied", "VIAL-VALUE")
    assert r.error.message == f"'{entry}' is not an entry of allow or deny: {why}"


@pytest.mark.parametrize("key, entry, what", [
    ("allow_private", "10.0.0.0/33", "is not ADDRESS/BITS"),
    ("allow_private", "web.test", "is not ADDRESS/BITS"),
    ("gate_unchecked", "a b", "is not a rule"),
])
def test_a_policy_that_no_gate_would_understand_is_refused(world, key, entry, what):
    r = fetch(world, ["web.test"], policy={key: [entry]})
    assert (r.verdict, r.error.code) == ("denied", "VIAL-VALUE")
    assert r.error.message.startswith(f"policy key '{key}' in ")
    assert r.error.message.endswith(f"'{entry}' {what}")


def test_lists_have_a_name(world):
    r = world.run("--allow", "python-packages", "python", "print(open('/etc/resolv.conf').read())")
    assert r.stdout.startswith("nameserver 127.64.0.1\n")


def test_the_command_says_what_would_let_a_name_out(world):
    code = "import urllib.request; urllib.request.urlopen('http://other.test/')"
    p = world.start("run", "--driver", DRIVER, "--network", "gate", "--allow", "web.test", "python",
                    code, stderr=subprocess.PIPE, text=True)
    assert ("vial: note: the program asked for 'other.test', which is not allowed; '--allow "
            "other.test' lets it out where the policy allows\n") in p.communicate()[1]


def test_allow_without_a_gate_is_refused(world):
    r = world.run("--network", "none", "--allow", "web.test", "python", "print(1)")
    assert r.error.message == "allow is given, but the program has no gate"


def test_a_driver_without_a_network_namespace_refuses_a_gate(world):
    r = world.run("--driver", "process", "--allow", "web.test", "python", "print(1)")
    assert (r.verdict, r.error.code) == ("denied", "VIAL-UNSUPPORTED")
    assert r.error.message == "driver 'process' cannot give the program a gate"


@pytest.mark.parametrize("name, addresses", [
    ("loop.test", ["127.0.0.1"]), ("ten.test", ["10.0.0.1"]), ("meta.test", ["169.254.169.254"]),
    ("cgnat.test", ["100.64.0.1"]), ("multi.test", ["224.0.0.1"]), ("zero.test", ["0.0.0.0"]),
    ("mapped.test/6", ["::ffff:127.0.0.1"]), ("nat64.test/6", ["64:ff9b::7f00:1"]),
    ("sixto4.test/6", ["2002:7f00:1::1"]), ("one.test/6", ["::1"]), ("ula.test/6", ["fd00::1"]),
    ("local.test/6", ["fe80::1"]), ("teredo.test/6", ["2001:0:7f00:1::1"]),
])
def test_a_name_that_leads_to_an_address_that_is_not_public_is_refused(world, name, addresses):
    world.names.names[name] = addresses
    host = name.split("/")[0]
    r = fetch(world, [host], f"http://{host}/hello")
    assert "ConnectionResetError" in r.stdout
    assert told(r) == [(host, 80, "private_address")]


def test_the_address_that_was_judged_is_the_one_that_is_reached(world):
    """A name that changes its answer between two questions gains nothing: what is connected
    to is what was judged, and each connection is judged."""
    def addresses():
        # By what was fetched, not by the number of questions: on a busy machine the gate asks again.
        if "other.test" in Handler.seen[before:]:
            return [HOST, "127.0.0.1"]
        return ["127.0.0.1"] if "turn.test" in Handler.seen[before:] else [HOST]

    before = len(Handler.seen)
    world.names.names["turn.test"] = addresses
    url = "http://turn.test/hello"
    r = fetch(world, ["turn.test", "other.test"], url, url, "http://other.test/hello", url)
    assert r.stdout.splitlines() == ["hello from turn.test",
                                     "ConnectionResetError [Errno 104] Connection reset by peer",
                                     "hello from other.test", "hello from turn.test"]
    assert sorted((name, verdict) for name, _, verdict in told(r)) == [  # as they ended
        ("other.test", "ok"), ("turn.test", "ok"), ("turn.test", "ok"),
        ("turn.test", "private_address")]


def test_a_name_without_an_address_and_a_server_that_is_not_there_are_told_apart(world):
    world.names.names["closed.test"] = [HOST]
    r = fetch(world, ["gone.test", "closed.test:8443", "closed.test:1"], "http://gone.test/",
              "http://closed.test:1/")
    assert told(r) == [("gone.test", 80, "unresolved"), ("closed.test", 1, "unreachable")]
