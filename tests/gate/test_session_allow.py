# SPDX-License-Identifier: Apache-2.0
"""What a session's gate lets out can be narrowed while it is open, and never widened beyond what it
was opened with."""

import contextlib
import subprocess
import sys

import pytest

from conftest import ROOT, VIAL
from servers import Raw, wait_until

sys.path.insert(0, str(ROOT / "tests" / "serve"))

from daemon import Daemon, clean_env  # noqa: E402

FETCH = """
import urllib.request
for name in ("web", "other"):
    try:
        print(urllib.request.urlopen("http://%s.test/hello" % name, timeout=60).read().decode().strip())
    except OSError as e:
        print("refused")
"""
BOTH = ["hello from web.test", "hello from other.test"]


@pytest.fixture(scope="module")
def daemon(world):
    with Daemon(policy={"gate_resolvers": [world.names.address], "allow_private": ["127.77.0.0/16"],
                        "allow": ["*.test", "*.test:7300"]}) as d:
        yield d


@pytest.fixture
def path(daemon):
    session = daemon.ask("POST", "/v1/sessions", {"network": "gate", "allow": [
        "web.test", "other.test", "raw.test:7300"]}).json
    yield "/v1/sessions/" + session["id"]
    daemon.ask("DELETE", "/v1/sessions/" + session["id"])


def fetch(daemon, path):
    done = daemon.ask("POST", path + "/exec?wait=true", {"argv": ["python3", "-c", FETCH]}).json
    return done["stdout"].splitlines(), done["network"]["connections"]


def allow(daemon, path, *entries):
    return daemon.ask("PUT", path + "/allow", {"allow": list(entries)})


def test_a_narrowed_list_holds_at_once_and_can_be_widened_to_what_it_was(daemon, path):
    assert fetch(daemon, path)[0] == BOTH
    assert allow(daemon, path, "web.test:80").status == 200
    said, connections = fetch(daemon, path)
    assert said == [BOTH[0], "refused"]
    assert ("other.test", "denied") in [(c["name"], c["verdict"]) for c in connections]
    assert allow(daemon, path).status == 200
    assert fetch(daemon, path)[0] == ["refused"] * 2
    assert allow(daemon, path, "web.test", "other.test").status == 200
    assert fetch(daemon, path)[0] == BOTH


@pytest.mark.parametrize("wide", ["pages.test", "*.test", "web.test:8080", "*"])
def test_no_list_goes_beyond_what_the_session_was_opened_with(daemon, path, wide):
    answer = allow(daemon, path, "web.test", wide)
    assert answer.status == 403
    assert answer.json["error"]["message"] == \
        f"allow '{wide}' is more than the session was opened with"
    assert fetch(daemon, path)[0] == BOTH  # nothing has changed


def test_connections_that_are_not_allowed_any_more_end(daemon, path):
    def answer_once(peer):
        with contextlib.suppress(ConnectionResetError):
            peer.sendall(peer.recv(1))
            peer.recv(1)

    Raw(7300, answer_once)
    code = ("import socket\ns = socket.create_connection(('raw.test', 7300)); s.sendall(b'x'); s.recv(1)\n"
            "print('open', flush=True)\ntry:\n    print(s.recv(1))\nexcept OSError as e:\n    print('cut off')\n")
    started = daemon.ask("POST", path + "/exec", {"argv": ["python3", "-c", code]}).json
    at = "%s/exec/%s" % (path, started["exec"])
    wait_until(lambda: b"open" in daemon.ask("GET", at + "/output?of=stdout").body)
    assert allow(daemon, path, "web.test").status == 200
    done = daemon.ask("GET", at + "?wait=true").json
    assert done["stdout"] == "open\ncut off\n"


def test_a_session_without_a_gate_has_nothing_to_narrow(daemon):
    session = daemon.ask("POST", "/v1/sessions", {}).json
    answer = allow(daemon, "/v1/sessions/" + session["id"])
    assert answer.json["error"]["message"] == "this vessel has no gate"
    daemon.ask("DELETE", "/v1/sessions/" + session["id"])


def test_the_command_narrows(daemon, path):
    done = subprocess.run([VIAL, "session", "allow", "--socket", daemon.socket, path.split("/")[-1],
                           "web.test"], capture_output=True, text=True, timeout=60, check=False,
                          env=clean_env(HOME=daemon.dir))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert fetch(daemon, path)[0] == [BOTH[0], "refused"]
