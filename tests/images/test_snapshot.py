# SPDX-License-Identifier: Apache-2.0
"""A session's files are saved as an image, and others are opened of it, in a daemon whose front
cannot enter the store."""
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import worlds

os.environ.setdefault("VIAL_BUILD", os.path.dirname(worlds.VIAL))
sys.path.insert(0, str(worlds.ROOT / "tests" / "serve"))
from daemon import Daemon  # noqa: E402

RW = {"image": "debian", "root_mode": "rw", "user": "root"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with worlds.imported(tmp_path_factory.mktemp("snapshot") / "home") as made:
        yield made


@pytest.fixture(scope="module")
def daemon(world):
    with Daemon(env={"VIAL_IMAGES": str(world.store)}) as d:
        yield d


class Session:
    def __init__(self, daemon, answer):
        assert answer.status == 201, answer.body
        self.daemon = daemon
        self.at = "/v1/sessions/" + answer.json["id"]

    def sh(self, line):
        r = self.daemon.ask("POST", self.at + "/exec?wait=1", {"shell": line}).json
        assert r["verdict"] == "ok", r
        return r["stdout"]

    def save(self, name="mine"):
        answer = self.daemon.ask("POST", self.at + "/snapshot", {"name": name})
        assert answer.status == 201, answer.body
        return answer.json

    def stop(self):
        self.daemon.ask("DELETE", self.at)


def start(daemon, **more):
    return Session(daemon, daemon.ask("POST", "/v1/sessions", {**RW, **more}))


CHANGES = """
echo new > /etc/new; rm /etc/issue; rm -r /usr/share/doc; mkdir /usr/share/doc
echo only > /usr/share/doc/only; useradd -m joe; chown joe /etc/new; chmod 750 /etc/new
ln -s /etc/new /link; ln /etc/new /etc/twin; mkfifo /pipe; echo work > /work/mine
echo lost > /tmp/lost; mkdir -m 1777 /sticky
"""

SEEN = """
cat /etc/new; ls -A /usr/share/doc; test ! -e /etc/issue && echo gone
stat -c '%U %a %h' /etc/new; readlink /link; test -p /pipe && echo pipe; cat /work/mine
stat -c %a /sticky; ls -A /tmp; id -un joe
"""

EXPECTED = "new\nonly\ngone\njoe 750 2\n/etc/new\npipe\nwork\n1777\njoe\n"


def test_sessions_opened_of_a_snapshot_have_its_files(daemon, world):
    first = start(daemon)
    first.sh(CHANGES)
    saved = first.save()
    assert saved["frozen"] is True and saved["digest"].startswith("sha256:")
    assert saved["image"].startswith("snapshot/") and "/mine:" in saved["image"]
    first.sh("echo later > /etc/later")
    for _ in range(2):
        other = start(daemon, image=saved["image"])
        assert other.sh(SEEN) == EXPECTED
        assert other.sh("ls /etc/later 2>&1 || true") != "/etc/later\n"
        other.stop()
    assert first.sh("cat /etc/later") == "later\n"
    first.stop()
    world.check_whole()


def test_a_program_goes_on_after_a_snapshot(daemon):
    s = start(daemon)
    s.sh("(while :; do echo x >> /run/beat; sleep 0.05; done) >/dev/null 2>&1 &")
    before = int(s.sh("until [ -s /run/beat ]; do sleep 0.05; done; wc -l < /run/beat"))
    s.save()
    saved = int(s.sh("wc -l < /run/beat"))
    assert saved >= before
    s.sh("until [ $(wc -l < /run/beat) -gt %d ]; do sleep 0.05; done" % saved)
    s.stop()


def test_a_fork_has_the_files_and_its_image_goes_with_it(daemon, world):
    s = start(daemon)
    s.sh("echo shared > /etc/shared")
    copy = Session(daemon, daemon.ask("POST", s.at + "/fork", {"user": "root"}))
    assert [n for n in world.names() if n.startswith("fork/")]
    assert copy.sh("cat /etc/shared") == "shared\n"
    copy.sh("echo changed > /etc/shared")
    assert s.sh("cat /etc/shared") == "shared\n"
    copy.stop()
    assert not [n for n in world.names() if n.startswith("fork/")]
    s.stop()
    world.check_whole()


def test_a_snapshot_of_a_snapshot_is_one_layer_more(daemon, world):
    s = start(daemon)
    s.sh("echo 1 > /etc/one")
    one = s.save("one")["image"]
    s.stop()
    s = start(daemon, image=one)
    s.sh("echo 2 > /etc/two; rm /etc/one")
    two = s.save("two")["image"]
    s.stop()
    s = start(daemon, image=two)
    assert s.sh("cat /etc/two; ls /etc/one 2>/dev/null || echo no") == "2\nno\n"
    s.stop()


@pytest.mark.parametrize("asked, why", [
    ({"root_mode": "ro", "user": None}, "only what is written to the root of an image can be saved"),
    ({"image": None, "root_mode": None, "user": None},
     "only what is written to the root of an image can be saved")])
def test_a_session_that_cannot_be_saved_says_so(daemon, asked, why):
    body = {k: v for k, v in {**RW, **asked}.items() if v}
    s = Session(daemon, daemon.ask("POST", "/v1/sessions", body))
    answer = daemon.ask("POST", s.at + "/snapshot", {"name": "no"})
    assert (answer.status, answer.json["error"]["message"]) == (422, why), answer.body
    s.stop()


@pytest.mark.parametrize("name", ["../x", "a b", "A", "x" * 129, "a:b", ""])
def test_a_name_that_is_none_is_refused(daemon, name):
    s = start(daemon)
    answer = daemon.ask("POST", s.at + "/snapshot", {"name": name})
    assert answer.status in (400, 422), answer.body
    s.stop()


def test_sparse_files_larger_than_the_disk_are_refused_and_nothing_is_left(daemon, world):
    s = start(daemon, disk="32m")
    before = world.names()
    s.sh("for i in 1 2 3 4 5; do truncate -s 30M /huge$i; done")
    answer = daemon.ask("POST", s.at + "/snapshot", {"name": "huge"})
    assert answer.json["error"]["message"].endswith("'huge4' is more than there is room for"), \
        answer.body
    assert world.names() == before
    assert s.sh("rm /huge*; echo alive") == "alive\n"
    s.stop()
    world.check_whole()


def test_the_policy_says_whether_files_may_be_saved(world):
    with Daemon(env={"VIAL_IMAGES": str(world.store)}, policy={"snapshots": ["fork"]}) as d:
        s = start(d)
        answer = d.ask("POST", s.at + "/snapshot", {"name": "no"})
        assert answer.json["error"]["message"] == "snapshot 'save' is not allowed by the policy"
        Session(d, d.ask("POST", s.at + "/fork", {})).stop()
        s.stop()


def test_only_who_made_a_snapshot_removes_it(daemon, world):
    s = start(daemon)
    image = s.save("going")["image"]
    s.stop()
    other = image.replace("snapshot/" + image.split("/")[1], "snapshot/00000000")
    assert daemon.ask("DELETE", "/v1/snapshots/" + other).status == 404
    assert daemon.ask("DELETE", "/v1/snapshots/debian").status == 404
    assert image in world.names()
    assert daemon.ask("DELETE", "/v1/snapshots/" + image).status == 204
    assert image not in world.names() and "debian:latest" in world.names()


def test_a_session_stopped_in_the_middle_leaves_a_whole_store(daemon, world):
    before = world.names()
    s = start(daemon, disk="512m", memory="1g")
    s.sh("head -c 200M /dev/urandom > /blob")
    told = []
    saver = threading.Thread(target=lambda: told.append(
        daemon.ask("POST", s.at + "/snapshot", {"name": "cut"})))
    saver.start()
    s.stop()
    saver.join()
    assert told[0].status in (201, 404, 409, 410, 422), told[0].body
    if told[0].status != 201:
        assert world.names() == before
    world.check_whole()


def kill_while(saver, world, pause):
    """Kills who saves, some time after it was seen; how many."""
    killed = 0
    worlds.wait_for(lambda: world.at_work() or not saver.is_alive())
    saver.join(pause)
    for pid in world.at_work():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def test_snapshots_killed_at_any_point_leave_a_whole_store(daemon, world):
    s = start(daemon)
    s.sh("cp -a /usr/bin /usr/bin2; rm -r /usr/share/doc")
    killed = 0
    for turn in range(int(os.environ.get("IMAGES_KILLS", "6"))):
        told = []
        saver = threading.Thread(target=lambda t=told: t.append(
            daemon.ask("POST", s.at + "/snapshot", {"name": "killed"})))
        saver.start()
        killed += kill_while(saver, world, turn % 9 * 0.03)  # the first at once
        saver.join()
        if told[0].status == 201:
            daemon.ask("DELETE", "/v1/snapshots/" + told[0].json["image"])
        assert s.sh("echo alive") == "alive\n"
    assert killed > 0
    good = s.save("good")["image"]
    s.stop()
    world.check_whole()
    s = start(daemon, image=good)
    assert s.sh("ls /usr/bin2 | head -1; ls -d /usr/share/doc 2>/dev/null || echo no") != ""
    s.stop()


def test_the_command_saves_forks_and_forgets(world):
    with Daemon(env={"VIAL_IMAGES": str(world.store)}) as d:
        def vial(*args):
            done = subprocess.run([worlds.VIAL, "session", args[0], "--socket", d.socket, *args[1:]],
                                  capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()
        first = vial("start", "--image", "debian", "--root-mode", "rw", "--user", "root")
        vial("exec", first, "--", "sh", "-c", "echo yes > /etc/said")
        image = vial("snapshot", first, "said")
        second = vial("start", "--image", image, "--root-mode", "rw")
        assert vial("exec", second, "--", "cat", "/etc/said") == "yes"
        third = vial("fork", first, "--user", "root")
        assert vial("exec", third, "--", "cat", "/etc/said") == "yes"
        for one in (first, second, third):
            vial("stop", one)
        vial("forget", image)
        assert image not in world.names()


def test_a_snapshot_leaves_as_an_archive_that_comes_back(daemon, world):
    s = start(daemon)
    s.sh("useradd joe; echo x > /etc/new; chown joe /etc/new; rm /etc/issue")
    image = s.save("out")["image"]
    s.stop()
    made = world.home / "out.tar"
    for args in (("export", image, "--to", str(made)), ("import", "back", "--from", str(made))):
        done = world.vial("image", *args)
        assert done.returncode == 0, done.stderr
    r = world.sh("stat -c '%U' /etc/new; ls /etc/issue 2>/dev/null || echo gone; stat -c %a /tmp",
                 "--root-mode", "rw", image="back")
    assert r["stdout"] == "joe\ngone\n1777\n", r
    assert world.vial("image", "remove", "back").returncode == 0


@pytest.fixture
def open_dir():
    """Not below pytest's own, which each run of it closes to others anew."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as made:
        os.chmod(made, 0o755)
        yield Path(made)


def test_an_ordinary_user_saves_and_opens_again(open_dir):
    mine = worlds.World(open_dir / "home", worlds.UID)
    mine.bring("debian", worlds.debian())
    asked = {"image": "debian", "root_mode": "rw"}
    with Daemon(env={"VIAL_IMAGES": str(mine.store)}, uid=worlds.UID) as d:
        s = Session(d, d.ask("POST", "/v1/sessions", asked))
        s.sh("echo new > /etc/new; rm /etc/issue; echo work > /work/mine")
        saved = s.save()
        s.stop()
        for _ in range(2):
            s = Session(d, d.ask("POST", "/v1/sessions", {**asked, "image": saved["image"]}))
            assert s.sh("cat /etc/new /work/mine; ls /etc/issue 2>/dev/null || echo gone") == \
                "new\nwork\ngone\n"
            copy = Session(d, d.ask("POST", s.at + "/fork", {}))
            assert copy.sh("cat /etc/new") == "new\n"
            copy.stop()
            s.stop()
        assert not [n for n in mine.names() if n.startswith("fork/")]
        mine.check_whole()
    mine.remove()
