# SPDX-License-Identifier: Apache-2.0
"""Volumes of a daemon's callers: the operator says who may have which, and how many they make."""
import fcntl
import hashlib
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import threading

import pytest

from daemon import CONTRACT, VIAL, Answer, Daemon, clean_env, wait_until

POLICY = {"volumes": ["{caller}/*", "shared:ro", "log", "set-*"]}
SCOPES = {"ann": ["run", "session", "read"], "bob": ["run", "session", "read"], "ops": ["all"],
          "eve": ["run", "read"]}


def secret(name):
    return "secret-token-of-%s-0123456789" % name


class World:
    """A daemon whose callers are ann and bob, and its store of volumes. Ops is its administrator,
    and eve may only run code."""

    def __init__(self, place, volumes=None, **more):
        self.store = place + "/volumes"
        tokens = place + "/tokens"
        with open(tokens, "w", encoding="utf-8") as file:
            json.dump([{"name": name, "scopes": scopes,
                        "sha256": hashlib.sha256(secret(name).encode()).hexdigest()}
                       for name, scopes in SCOPES.items()], file)
        os.chmod(tokens, 0o600)
        self.env = {"VIAL_VOLUME_STORE": self.store}
        for name in ("ann/data", "bob/data", "shared", "log", "other"):
            assert self.volume("create", name).returncode == 0
        self.daemon = Daemon(serve={"tokens": tokens}, tcp=True, env=self.env, **more)
        self.daemon.settings["volumes"] = volumes or {}

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
        CONTRACT.check(method, path, answer)
        return answer

    def make(self, caller, name, **more):
        return self.ask(caller, "POST", "/v1/volumes", dict(more, name=name))

    def remove(self, caller, name):
        return self.ask(caller, "DELETE", "/v1/volumes/" + name)

    def names(self, caller):
        return [row["name"] for row in self.ask(caller, "GET", "/v1/volumes").json]

    def sh(self, name, script, *volumes):
        return self.ask(name, "POST", "/v1/run", {"language": "sh", "code": script,
                                                  "driver": "native", "volumes": volumes}).json


@pytest.fixture(scope="module")
def world():
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        made = World(place, volumes={"caller": 3}, policy=POLICY)
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


def test_a_caller_makes_a_volume_of_its_own_uses_and_removes_it(world):
    made = world.make("ann", "ann/mine")
    assert made.status == 201, made.body
    assert (made.json["name"], made.json["writers"], made.json["state"]) == ("ann/mine", "one", "free")
    assert world.make("ann", "ann/mine").code == "VIAL-NAME-TAKEN"
    assert world.sh("ann", "echo mine > /d/x", "ann/mine:/d:rw")["verdict"] == "ok"
    assert world.sh("ann", "cat /d/x", "ann/mine:/d")["stdout"] == "mine\n"
    assert world.ask("ann", "GET", "/v1/volumes/ann/mine").json["created"] == made.json["created"]
    assert world.remove("ann", "ann/mine").status == 204
    assert world.remove("ann", "ann/mine").code == "VIAL-VOLUME"
    assert world.ask("ann", "GET", "/v1/volumes/ann/mine").code == "VIAL-VOLUME"


def test_a_volume_for_many_writers_is_made_by_request(world):
    assert world.make("ann", "ann/many", writers="many").json["writers"] == "many"
    assert world.make("ann", "ann/few", writers="few").code == "VIAL-VALUE"
    assert world.remove("ann", "ann/many").status == 204


@pytest.mark.parametrize("name", ["ann/x", "x", "log", "set-1", "annx", "ann", "an/x", "bobby/x"])
def test_what_is_not_its_own_a_caller_neither_makes_nor_removes(world, name):
    for tried in (world.make("bob", name), world.remove("bob", name)):
        assert (tried.status, tried.code) == (403, "VIAL-POLICY"), tried.body
        assert "is not its caller's own" in tried.json["error"]["message"]
    assert world.state("log") == "free"


@pytest.mark.parametrize("name", ["", "bob/", "bob/../ann", "bob/a/b", "bob/.new-x", "bob/a%2Fb",
                                  "bob/" + "x" * 65])
def test_what_is_no_name_makes_nothing(world, name):
    before = sorted(os.listdir(world.store))
    tried = world.make("bob", name)
    assert tried.code in ("VIAL-VALUE", "VIAL-POLICY"), tried.body
    assert sorted(os.listdir(world.store)) == before


def test_who_may_only_run_code_makes_no_volume(world):
    for tried in (world.make("eve", "eve/x"), world.remove("eve", "eve/x")):
        assert (tried.status, tried.code) == (403, "VIAL-SCOPE"), tried.body


def test_a_caller_has_as_many_volumes_as_the_settings_say(world):
    made = [world.make("bob", "bob/%d" % i) for i in range(4)]
    assert [m.status for m in made] == [201, 201, 403, 403]  # bob/data is there already
    assert made[2].code == "VIAL-CAP"
    assert "'bob' has 3 volumes, and may not have more" in made[2].json["error"]["message"]
    assert "volumes.caller" in made[2].json["error"]["remedy"]
    assert world.make("ann", "ann/other").status == 201  # what bob has is bob's
    assert world.remove("bob", "bob/0").status == 204
    assert world.make("bob", "bob/again").status == 201
    for caller, name in (("bob", "bob/1"), ("bob", "bob/again"), ("ann", "ann/other")):
        assert world.remove(caller, name).status == 204


def test_an_administrator_makes_what_others_may_write_to(world):
    assert world.make("ops", "set-1").status == 201
    assert world.sh("ann", "echo in > /d/x; cat /d/x", "set-1:/d:rw")["stdout"] == "in\n"
    assert world.make("ops", "ann/from-ops").status == 201
    for name in ("shared", "elsewhere"):  # nobody could ever write to these
        assert world.make("ops", name).code == "VIAL-POLICY"
        assert world.remove("ops", name).code == "VIAL-POLICY"
    for name in ("set-1", "ann/from-ops"):
        assert world.remove("ops", name).status == 204


def test_each_sees_the_volumes_that_it_may_have(world):
    assert world.names("ann") == ["ann/data", "log", "shared"]
    assert world.names("bob") == ["bob/data", "log", "shared"]
    assert world.names("ops") == ["ann/data", "bob/data", "log", "shared"]
    refused = world.ask("bob", "GET", "/v1/volumes/ann/data")
    assert refused.code == "VIAL-POLICY"
    assert refused.json["error"]["message"] == world.ask(
        "bob", "GET", "/v1/volumes/ann/nothing").json["error"]["message"].replace("nothing", "data")


def test_no_volume_goes_while_a_session_has_it(world):
    session = world.ask("ann", "POST", "/v1/sessions", {"driver": "native",
                                                        "volumes": ["ann/data:/d"]})
    assert session.status == 201, session.body
    assert world.ask("ann", "GET", "/v1/volumes/ann/data").json["state"] == "read"
    assert world.remove("ann", "ann/data").code == "VIAL-BUSY"
    world.ask("ann", "DELETE", "/v1/sessions/" + session.json["id"])
    assert wait_until(lambda: world.state("ann/data") == "free")


def test_a_long_list_is_told_whole(world):
    """The keeper tells so many in a message."""
    names = ["set-%03d" % i for i in range(600)]
    for name in names:
        shutil.copytree(world.store + "/log", os.path.join(world.store, name))
    try:
        assert world.names("ann") == ["ann/data", "log", *names, "shared"]
    finally:
        for name in names:
            shutil.rmtree(os.path.join(world.store, name))


def test_a_volume_that_lost_a_part_is_told_as_that_and_can_be_removed(world):
    assert world.make("ops", "set-lost").status == 201
    os.unlink(world.store + "/set-lost/record")
    assert world.ask("ann", "GET", "/v1/volumes/set-lost").json["state"] == "broken"
    refused = world.sh("ann", "echo", "set-lost:/d")["error"]
    assert refused["message"] == "the volume 'set-lost' is not whole"
    assert "vial volume remove set-lost" in refused["remedy"]
    assert world.remove("ops", "set-lost").status == 204


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_a_store_that_cannot_be_read_is_no_empty_one(world):
    os.chmod(world.store, 0o755)
    try:
        refused = world.ask("ann", "GET", "/v1/volumes")
        assert "others can enter the store of volumes" in refused.json["error"]["message"]
        assert world.make("ann", "ann/x").code == "VIAL-FILE"
    finally:
        os.chmod(world.store, 0o700)


def test_who_asks_for_volumes_without_an_end_leaves_others_their_turn(world):
    """Makers wait for the store, which is held here, until they give up: their places are not those
    of runs, and one caller has no more than a share of them."""
    store, over = os.open(world.store, os.O_RDONLY), threading.Event()
    fcntl.flock(store, fcntl.LOCK_EX)

    def make():
        while not over.is_set():
            world.make("ann", "ann/data")
    threads = [threading.Thread(target=make) for _ in range(12)]
    for thread in threads:
        thread.start()
    try:
        assert wait_until(lambda: world.ask("ann", "GET", "/v1/volumes").status == 429)
        assert world.names("bob") == ["bob/data", "log", "shared"]
        assert world.sh("ann", "echo runs")["stdout"] == "runs\n"
    finally:
        over.set()
        os.close(store)
        for thread in threads:
            thread.join()
    assert world.names("ann") == ["ann/data", "log", "shared"]


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_unless_the_settings_say_how_many_callers_make_none():
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        made = World(place, policy=POLICY)
        with made.daemon:
            refused = made.make("ann", "ann/x")
            assert (refused.status, refused.code) == (403, "VIAL-CAP")
            assert "volumes.caller" in refused.json["error"]["remedy"]
            assert made.make("ops", "set-1").status == 201  # of nobody's, and the operator's
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        made = World(place, volumes={"caller": 9, "most": 6}, policy=POLICY)
        with made.daemon:
            assert made.make("ann", "ann/sixth").status == 201
            for tried in (made.make("bob", "bob/x"), made.make("ops", "set-1")):
                assert tried.json["error"]["message"] == "there are 6 volumes, and may not be more"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_an_ordinary_users_daemon_makes_volumes_of_his(tmp_path_factory):
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chown(place, 1000, 1000)
        daemon = Daemon(uid=1000, env={"VIAL_VOLUME_STORE": place + "/volumes"})
        with daemon:
            assert daemon.ask("POST", "/v1/volumes", {"name": "mine"}).status == 201
            assert [row["name"] for row in daemon.ask("GET", "/v1/volumes").json] == ["mine"]
            assert os.stat(place + "/volumes/mine").st_uid == 1000
            assert daemon.ask("DELETE", "/v1/volumes/mine").status == 204
            assert daemon.ask("GET", "/v1/volumes").json == []


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/loop-control") or
                    not os.path.exists("/sbin/mkfs.ext4"),
                    reason="volumes with a size need root and loop devices")
def test_the_sizes_of_a_callers_volumes_are_bounded_together():
    bounds = {"caller": 5, "size": "16m", "caller_size": "48m"}
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        made = World(place, volumes=bounds, policy=POLICY)
        made.volume("remove", "ann/data")
        made.volume("remove", "bob/data")
        with made.daemon:
            usual = made.make("ann", "ann/usual")
            assert usual.status == 201 and usual.json["size"] == 16 << 20, usual.body
            assert made.make("ann", "ann/large", size="32m").json["size"] == 32 << 20
            refused = made.make("ann", "ann/more")
            assert (refused.status, refused.code) == (403, "VIAL-CAP")
            assert "the volumes of 'ann' would have" in refused.json["error"]["message"]
            assert made.make("bob", "bob/his").status == 201
            assert made.make("bob", "bob/tiny", size="1m").code == "VIAL-VALUE"
            full = made.sh("ann", "head -c 64m /dev/zero > /d/x; stat -c %s /d/x", "ann/usual:/d:rw")
            assert "No space left" in full["stderr"] and int(full["stdout"]) < 16 << 20, full
            assert made.remove("ann", "ann/large").status == 204
            assert made.make("ann", "ann/more").status == 201
            for name in ("ann/usual", "ann/more", "bob/his"):
                assert made.remove(name.split("/")[0], name).status == 204
