# SPDX-License-Identifier: Apache-2.0
"""Volumes as E2B's clients have them: the operator's policy says which, and how many."""
import json
import os
import subprocess

import pytest

from conftest import VIAL, E2b, clean_env, wait_until
from test_wire import control, create, run, send

POLICY = {"networks": ["none", "gate"], "volumes": ["{caller}/*", "corpus:ro", "log"]}


class World:
    def __init__(self, place, **more):
        self.env = {"VIAL_VOLUME_STORE": os.path.join(place, "volumes")}
        for name in ("corpus", "log", "hidden", "other/own"):
            self.volume("create", name)
        self.daemon = E2b(env=self.env, policy=POLICY, **more)
        self.daemon.settings["volumes"] = {"caller": 4}

    def volume(self, *args):
        return subprocess.run([VIAL, "volume", *args], capture_output=True, text=True, check=True,
                              env=clean_env(HOME="/nonexistent", **self.env)).stdout

    def make(self, name, key=None):
        made = control(self.daemon, "POST", "/volumes", {"name": name}, key)
        assert made.status == 201, made.body
        return made.json

    def remove(self, volume, key=None):
        return control(self.daemon, "DELETE", "/volumes/" + volume["volumeID"], key=key).status

    def names(self, key=None):
        return [v["name"] for v in control(self.daemon, "GET", "/volumes", key=key).json]

    def ask(self, volume, method, what, path, body=None, more="", token=None):
        return send(self.daemon, method, "/volumecontent/%s/%s?path=%s%s" % (
            volume["volumeID"], what, path, more), body,
            Authorization="Bearer " + (token or volume["token"]))

    def open(self, *mounts):
        return create(self.daemon, volumeMounts=[{"name": n, "path": p} for n, p in mounts])


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(str(tmp_path_factory.mktemp("volumes")))
    with made.daemon:
        yield made


@pytest.fixture
def volume(world):
    made = world.make("mine")
    yield made
    world.remove(made)


def test_e2b_s_own_package_keeps_files_in_volumes(node, tmp_path):
    with World(str(tmp_path)).daemon as daemon:
        told, = node.run("volumes.mjs", daemon, env={"E2B_VOLUME_API_URL": daemon.url})
    assert told == {
        "made": ["data", "me~data"], "again": "VolumeError", "info": "data",
        "listed": [["corpus", "corpus"], ["log", "log"], ["data", "me~data"]],
        "none": "VolumeNotFoundError", "noneToDestroy": False,
        "dir": ["in", "directory", "/in", "750", True],
        "twice": "409: path '/in' already exists", "forced": "directory",
        "below": "VolumePathNotFoundError", "parents": "/a/b/c",
        "file": ["f", "file", "/in/f", 8, "600", 1000],
        "kept": "409: path '/in/f' already exists", "streamed": 11,
        "homeless": "VolumePathNotFoundError", "text": "second text", "bytes": "second text",
        "blob": "second text", "stream": "second text", "empty": "",
        "missing": "VolumePathNotFoundError", "exists": [True, False],
        "list": ["/a", "/empty", "/in"], "deep": ["/a", "/a/b", "/empty", "/in", "/in/f"],
        "top": "directory", "changed": "644",
        "owner": "400: another owner ('uid', 'gid') is not supported by this server: files of these "
                 "calls are those of 1000:1000; change it by a command of a sandbox that has the volume",
        "shown": "second text1000", "shared": "of a sandbox",
        "both": "of a sandbox\nof another\n", "mounts": [{"name": "data", "path": "/mnt/data"}],
        "inUse": told["inUse"], "stays": "of a sandbox\nof another\n", "removed": False,
        "destroyed": True, "left": [{"volumeId": "corpus", "name": "corpus"},
                                    {"volumeId": "log", "name": "log"}],
        "token": "AuthenticationError", "gone": "404: volume 'data' not found"}
    assert told["inUse"] in ("VolumeError", "ServiceBusyError")


def test_a_caller_has_his_own_and_the_operators_by_its_word_alone(world, volume):
    other = world.daemon.other_key
    assert world.names() == ["corpus", "log", "mine"]
    assert world.names(other) == ["corpus", "log", "own"]
    mine = "/volumes/" + volume["volumeID"]
    for method in ("GET", "DELETE"):
        assert control(world.daemon, method, mine, key=other).status == 404
        assert control(world.daemon, method, "/volumes/hidden").status == 404
        assert control(world.daemon, method, "/volumes/other~own").status == 404
    assert control(world.daemon, "DELETE", "/volumes/log").status == 403
    for name in ("mine", "me/mine", "hidden"):
        refused = control(world.daemon, "POST", "/v2/sandboxes", {
            "templateID": "base", "volumeMounts": [{"name": name, "path": "/d"}]}, other)
        assert (refused.status, refused.json["message"]) == (404, "volume '%s' not found" % name)


def test_what_the_policy_lets_be_read_is_read_only(world):
    box = world.open(("corpus", "/c"), ("log", "/l"))
    assert run(world.daemon, box, "touch /c/x 2>&1 | grep -o Read-only; touch /l/x && echo ok") == (
        "Read-only\nok\n")
    control(world.daemon, "DELETE", "/sandboxes/" + box["sandboxID"])
    corpus = control(world.daemon, "GET", "/volumes/corpus").json
    assert world.ask(corpus, "GET", "dir", "/").json == []
    refused = world.ask(corpus, "PUT", "file", "/x", b"x")
    assert (refused.status, refused.json["message"]) == (
        403, "volume 'corpus' is there to be read alone")


def test_a_caller_makes_as_many_as_the_settings_say(world):
    made = [world.make("n%d" % i) for i in range(4)]
    refused = control(world.daemon, "POST", "/volumes", {"name": "more"})
    assert refused.status == 400, refused.body
    assert {world.remove(v) for v in made} == {204}
    assert {world.remove(v) for v in made} == {404}


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".a", "a~b", "x" * 65, None, 1])
def test_a_name_that_is_none_is_refused(world, name):
    answer = control(world.daemon, "POST", "/volumes", {"name": name})
    assert (answer.status, answer.json["code"]) == (400, 400)
    assert "'name' is not the name of a volume" in answer.json["message"]
    assert world.names() == ["corpus", "log"]


@pytest.mark.parametrize("mounts, status, words", [
    ("mine", 400, "'volumeMounts' is not a list"),
    (["mine"], 400, "'volumeMounts' is not a list of"),
    ([{"name": "mine"}], 400, "'volumeMounts' is not a list of"),
    ([{"name": "mine", "path": "/d", "more": 1}], 400, "'volumeMounts' is not a list of"),
    ([{"name": "mine", "path": "/d:rw"}], 400, "':' in it"),
    ([{"name": "mine", "path": "d"}], 400, "d:rw"),
    ([{"name": "mine", "path": "/etc"}], 400, "'/etc' is taken by the vessel itself"),
    ([{"name": "mine", "path": "/d"}, {"name": "mine", "path": "/e"}], 400, "asked for twice"),
    ([{"name": "mine", "path": "/d"}, {"name": "log", "path": "/d/e"}], 400, "overlap"),
    ([{"name": "none", "path": "/d"}], 404, "volume 'none' not found"),
    ([{"name": "n", "path": "/d"}] * 17, 400, "'volumeMounts' has more than 16"),
])
def test_a_mount_that_cannot_be_is_refused(world, volume, mounts, status, words):
    answer = control(world.daemon, "POST", "/v2/sandboxes", {"templateID": "base",
                                                             "volumeMounts": mounts})
    assert answer.status == status and words in answer.json["message"], answer.body


def test_nothing_is_reached_but_what_lies_in_the_volume(world, volume):
    box = world.open(("mine", "/d"))
    run(world.daemon, box, "cd /d; ln -s /etc/shadow s; ln -s / up; ln -s nowhere n; mkfifo p; echo in > f")
    control(world.daemon, "DELETE", "/sandboxes/" + box["sandboxID"])
    for path in ("../etc/hostname", "/../../etc/hostname", "..%2F..%2Fetc/hostname"):
        assert world.ask(volume, "GET", "file", path).status == 404
        assert world.ask(volume, "DELETE", "path", path).status == 404
    assert world.ask(volume, "GET", "file", "s").status in (403, 404)  # nor by programs
    assert world.ask(volume, "GET", "file", "n").status == 404
    assert world.ask(volume, "GET", "file", "p").status in (400, 500)
    assert world.ask(volume, "GET", "path", "s").json["target"] == "/etc/shadow"
    assert world.ask(volume, "GET", "path", "s").json["type"] == "symlink"
    for path in ("up/etc/x", "up/usr/x"):
        assert world.ask(volume, "PUT", "file", path, b"x").status in (403, 404, 500)
    for path in ("/", ".", "in/..", "//"):
        refused = world.ask(volume, "DELETE", "path", path)
        assert (refused.status, refused.json["message"]) == (
            400, "a volume's top cannot be removed; destroy the volume")
    assert world.ask(volume, "GET", "file", "./f").body == b"in\n"
    assert world.ask(volume, "GET", "dir", "f").status == 400


@pytest.mark.parametrize("more", ["&mode=8x", "&mode=4096", "&uid=-1", "&uid=0", "&gid=5"])
def test_what_is_asked_for_wrongly_leaves_nothing(world, volume, more):
    assert world.ask(volume, "PUT", "file", "f", b"x", more).status == 400
    assert world.ask(volume, "POST", "dir", "d", None, more).status == 400
    assert world.ask(volume, "GET", "dir", "/").json == []
    assert world.ask(volume, "PUT", "file", "").status == 400
    assert world.ask(volume, "PATCH", "path", "/", json.dumps({"mtime": 1})).json["message"] == (
        "'mtime' is not supported by this server")


def test_a_token_is_one_volume_s_and_ends_with_it(world, volume):
    log = control(world.daemon, "GET", "/volumes/log").json
    assert world.ask(log, "GET", "dir", "/").status == 200
    for token in (volume["token"], "0" * 40, world.daemon.key, ""):
        assert world.ask(log, "GET", "dir", "/", token=token or "x").status == 401
    assert send(world.daemon, "GET", "/volumecontent/log/dir?path=/").status == 401
    again = control(world.daemon, "GET", "/volumes/" + volume["volumeID"]).json
    assert again == volume
    assert world.remove(volume) == 204
    assert world.ask(volume, "GET", "dir", "/").status == 401
    anew = world.make("mine")
    assert anew["token"] != volume["token"] and anew["volumeID"] == volume["volumeID"]
    assert world.ask(anew, "GET", "dir", "/").json == []


def test_calls_leave_no_vessel_and_no_sandbox_behind(world, volume):
    assert world.ask(volume, "PUT", "file", "f", b"x").status == 201
    assert world.ask(volume, "GET", "file", "none").status == 404
    assert control(world.daemon, "GET", "/v2/sandboxes").json == []
    assert wait_until(lambda: json.loads(world.volume("inspect", "me/mine"))["state"] == "free")


def test_who_has_read_a_file_can_destroy_its_volume_at_once(world):
    for _ in range(3):
        made = world.make("brief")
        assert world.ask(made, "PUT", "file", "f", b"x" * (3 << 20)).status == 201
        assert len(world.ask(made, "GET", "file", "f").body) == 3 << 20
        assert world.remove(made) == 204


def test_a_call_that_there_is_not_says_so(world, volume):
    for method, what in (("POST", "file"), ("GET", "more"), ("DELETE", "dir")):
        answer = world.ask(volume, method, what, "/")
        assert (answer.status, answer.json["code"]) == (501, 501)


def test_without_the_operator_s_word_there_are_none():
    with E2b() as daemon:
        for method, path, body in (("POST", "/volumes", {"name": "a"}), ("GET", "/volumes", None),
                                   ("GET", "/volumes/a", None)):
            answer = control(daemon, method, path, body)
            assert answer.status == 403, answer.body
            assert "only if the policy says so" in answer.json["message"]
