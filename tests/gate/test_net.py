# SPDX-License-Identifier: Apache-2.0
"""`vial net test`: what a program tries to reach, and the smallest list that lets it."""

import json
import subprocess

import pytest

from conftest import DRIVER, PATIENCE, VIAL

FETCH = """
import sys, urllib.request
print("the program's own words")
for url in sys.argv[1:]:
    try:
        urllib.request.urlopen(url, timeout=30).read()
    except OSError as e:
        print(e)
"""


@pytest.fixture
def net(world, tmp_path):
    (tmp_path / "fetch.py").write_text(FETCH)
    tmp_path.chmod(0o755)

    def call(*args, policy=None):
        return subprocess.run([VIAL, "net", "test", "--driver", DRIVER, *args],
                              env=world.environment(**(policy or {})), capture_output=True,
                              text=True, timeout=PATIENCE, check=False, cwd=tmp_path,
                              stdin=subprocess.DEVNULL)

    return call


def fetch(*urls):
    return ["--workspace", ".", "--", "python3", "fetch.py", *urls]


def rows(done):
    return [line.split()[:4] for line in done.stdout.splitlines()]


def test_what_is_allowed_and_what_is_not_are_both_shown(net):
    done = net("--allow", "web.test", *fetch("http://web.test/hello", "http://other.test/hello"))
    assert done.returncode == 0, done.stderr
    assert sorted(rows(done)) == [["NAME", "PORT", "VERDICT", "TIMES"],
                                  ["other.test", "-", "denied", "1"], ["web.test", "80", "ok", "1"]]
    assert "the program's own words" in done.stderr


def test_a_recorded_list_is_the_smallest_with_which_the_program_works(net, world):
    urls = ["http://web.test/hello", "http://web.test:8080/hello", "http://a.wild.test/hello",
            "http://gone.test/", "http://web.test/hello"]
    done = net("--record", *fetch(*urls))
    entries = done.stdout.splitlines()
    assert sorted(entries) == ["a.wild.test:80", "web.test:80", "web.test:8080"], done.stderr
    assert "note: 'gone.test' port 80 was not reached: unresolved" in done.stderr
    done = net(*[w for e in entries for w in ("--allow", e)], *fetch(*urls[:3]))
    assert {row[2] for row in rows(done)[1:]} == {"ok"}
    for left_out in entries:
        some = [w for e in entries if e != left_out for w in ("--allow", e)]
        made = [row for row in rows(net(*some, *fetch(*urls[:3]))) if row[2] == "ok"]
        assert len(made) == 2, left_out


def test_a_name_on_both_usual_ports_is_one_entry(net):
    code = ("import socket\n"
            "for port in (80, 443):\n"
            "    s = socket.create_connection(('web.test', port))\n"
            "    s.sendall(b'GET /hello HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n'); s.recv(1)\n")
    done = net("--record", "--workspace", ".", "--", "python3", "-c", code,
               policy={"gate_unchecked": ["web.test"]})
    assert done.stdout == "web.test\n", done.stderr


def test_json_has_the_account_the_list_and_how_the_program_ended(net):
    done = net("--json", "--allow", "web.test", "--workspace", ".", "--", "sh", "-c",
               "curl -s http://web.test/hello; curl -s http://192.0.2.1/; exit 3")
    told = json.loads(done.stdout)
    assert done.returncode == 3
    assert (told["program"], told["exit_code"], told["allow"]) == ("nonzero", 3, ["web.test:80"])
    assert told["connections"][0]["name"] == "web.test"
    assert told["addresses_refused"] == 1


def test_the_policy_binds_what_is_recorded(net):
    done = net("--record", *fetch("http://web.test/hello"), policy={"allow": ["web.test"]})
    assert done.returncode == 125
    assert "allow '*' is not allowed by the policy [VIAL-POLICY]" in done.stderr


@pytest.mark.parametrize("args, why", [
    (["nets"], "unknown word 'nets'"), ([], "unknown word ''"),
])
def test_a_word_that_is_not_there_is_refused(world, args, why):
    done = subprocess.run([VIAL, "net", *args], capture_output=True, text=True, check=False,
                          timeout=PATIENCE, env=world.environment())
    assert done.returncode == 125 and why in done.stderr
    assert "usage: vial net test" in done.stderr
