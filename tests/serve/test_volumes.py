# SPDX-License-Identifier: Apache-2.0
"""Volumes of a daemon's callers: the operator makes them, and says who may have which."""
import hashlib
import http.client
import json
import os
import subprocess
import tempfile

import pytest

from daemon import VIAL, Answer, Daemon, clean_env, wait_until

POLICY = {"volumes": ["{caller}/*", "shared:ro", "log"]}


def secret(name):
    return "secret-token-of-%s-0123456789" % name


class World:
    """A daemon whose callers are ann and bob, and its store of volumes."""

    def __init__(self, place, **more):
        self.store = place + "/volumes"
        tokens = place + "/tokens"
        with open(tokens, "w", encoding="utf-8") as file:
            json.dump([{"name": name, "scopes": ["run", "session", "read"],
                        "sha256": hashlib.sha256(secret(name).encode()).hexdigest()}
                       for name in ("ann", "bob")], file)
        os.chmod(tokens, 0o600)
        self.env = {"VIAL_VOLUME_STORE": self.store}
        for name in ("ann/data", "bob/data", "shared", "log", "other"):
            assert self.volume("create", name).returncode == 0
        self.daemon = Daemon(serve={"tokens": tokens}, tcp=True, env=self.env, **more)

    def volume(self, *args):
        return subprocess.run([VIAL, "volume", *args], capture_output=True, text=True,
                              env=clean_env(HOME="/nonexistent", **self.env), check=False)

    def state(self, name):
        return json.loads(self.volume("inspect", name).stdout)["state"]

    def ask(self, name, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=60)
        c.request(method, path, body=json.dumps(body) if body is not None else None,
                  headers={"Authorization": "Bearer " + secret(name)})
        r = c.getresponse()
        answer = Answer(r.status, r.headers, r.read())
        c.close()
        return answer

    def sh(self, name, script, *volumes):
        return self.ask(name, "POST", "/v1/run", {"language": "sh", "code": script,
                                                  "driver": "native", "volumes": volumes}).json


@pytest.fixture(scope="module")
def world():
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        made = World(place, policy=POLICY)
        with made.daemon:
            yield made


def test_a_caller_has_what_is_under_its_own_name(world):
    assert world.sh("ann", "echo hers > /d/x", "ann/data:/d:rw")["verdict"] == "ok"
    assert world.sh("ann", "cat /d/x", "ann/data:/d")["stdout"] == "hers\n"


@pytest.mark.parametrize("wish, what", [
    ("ann/data:/d", "volume 'ann/data' is not allowed by the policy"),
    ("other:/d", "volume 'other' is not allowed by the policy"),
    ("shared:/d:rw", "volume 'shared' is not allowed by the policy for writing"),
    ("bob/../ann:/d", "volumes"),
])
def test_what_is_not_a_callers_is_refused(world, wish, what):
    refused = world.sh("bob", "echo in", wish)
    assert what in refused["error"]["message"], refused
    assert refused["error"]["code"] in ("VIAL-POLICY", "VIAL-VALUE")


def test_what_all_may_read_all_read(world):
    for name in ("ann", "bob"):
        assert world.sh(name, "ls -d /d", "shared:/d")["stdout"] == "/d\n"


def test_a_session_keeps_other_writers_away_until_it_ends(world):
    session = world.ask("ann", "POST", "/v1/sessions", {"driver": "native",
                                                        "volumes": ["log:/log:rw"]})
    assert session.status == 201, session.body
    assert world.state("log") == "written"
    refused = world.sh("bob", "echo", "log:/log:rw")["error"]
    assert refused["code"] == "VIAL-BUSY", refused
    assert world.sh("bob", "echo reads", "log:/log")["stdout"] == "reads\n"
    world.ask("ann", "DELETE", "/v1/sessions/" + session.json["id"])
    assert wait_until(lambda: world.state("log") == "free")
    assert world.sh("bob", "echo writes", "log:/log:rw")["stdout"] == "writes\n"


def test_a_warden_that_is_killed_leaves_the_volume_to_the_next(world):
    session = world.ask("bob", "POST", "/v1/sessions", {"driver": "native",
                                                        "volumes": ["bob/data:/d:rw"]})
    assert session.status == 201, session.body
    for pid in world.daemon.vessels():
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            warden = int(file.read().rsplit(")", 1)[1].split()[1])
        os.kill(warden, 9)
    assert wait_until(lambda: world.state("bob/data") == "free")
    assert world.sh("bob", "echo again", "bob/data:/d:rw")["stdout"] == "again\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_without_a_word_of_the_policy_callers_have_none():
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        made = World(place)
        with made.daemon:
            refused = made.sh("ann", "echo", "ann/data:/d")["error"]
            assert "have volumes only if the policy says so" in refused["message"]
            mine = made.daemon.run("echo", volumes=["log:/d"], driver="native").json["error"]
            assert mine["code"] == "VIAL-POLICY", mine
            assert "set policy key 'volumes'" in mine["remedy"]


def test_a_keeper_takes_volumes_from_its_operators_store_alone(world):
    """The front's own environment is no word to it: it has none."""
    seen = world.sh("ann", "cat /proc/self/mountinfo", "shared:/d")["stdout"]
    line = next(text for text in seen.splitlines() if text.split()[4] == "/d")
    assert line.split()[3].endswith("/volumes/shared/data"), line
    assert {"ro", "nosuid", "nodev"} <= set(line.split()[5].split(","))
