# SPDX-License-Identifier: Apache-2.0
"""kill -9, at points that nobody chose, of all that writes to the store of images: imports, builds
of templates, snapshots by the command, and a daemon's front and keeper while they save. Afterwards
the store is whole, and nobody is left at work. IMAGES_KILLS: how often each (make soak: hundreds);
what it came to is printed."""
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import worlds
from registries import entry, folder, tar
from worlds import alive, family, wait_for

os.environ.setdefault("VIAL_BUILD", os.path.dirname(worlds.VIAL))
sys.path.insert(0, str(worlds.ROOT / "tests" / "serve"))
from daemon import Daemon  # noqa: E402

KILLS = int(os.environ.get("IMAGES_KILLS", "2"))
PATIENCE = 120
RW = {"image": "busy", "root_mode": "rw", "user": "root", "driver": "native"}
WRITES = "head -c 12M /dev/urandom > /blob; mkdir /many; for i in $(seq 300); do echo $i > /many/$i; done"


@pytest.fixture
def world(tmp_path):
    """A store with a small image, which is quickly verified."""
    assert shutil.disk_usage(tmp_path).free > 1 << 30, "a full disk would be told as a broken store"
    made = worlds.World(tmp_path / "home", 0)
    tree = tmp_path / "busy"
    for part in ("bin", "etc", "tmp", "usr/bin"):
        (tree / part).mkdir(parents=True)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (tree / "etc/group").write_text("root:x:0:\n")
    (tree / "bin/busybox").write_bytes(Path("/bin/busybox").read_bytes())
    (tree / "bin/busybox").chmod(0o755)
    for name in ("sh", "head", "mkdir", "seq", "rm", "cat", "ls", "sleep", "cp"):
        (tree / "bin" / name).symlink_to("busybox")
    file = tmp_path / "busy.tar"
    subprocess.run(["tar", "-C", tree, "-cf", file, "."], check=True)
    made.bring("busy", file)
    yield made
    made.remove()


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def is_whole(world):
    world.check_whole()
    for layer in (world.store / "layers").iterdir():
        assert (layer / "fs").is_dir() and (layer / "sums").exists(), layer
    return True


class Tally:
    """How many were killed, and how many of those had done their work before."""

    def __init__(self, what, capsys):
        self.what, self.capsys = what, capsys
        self.killed = self.done = 0

    def add(self, killed, done):
        self.killed += killed
        self.done += done

    def say(self):
        with self.capsys.disabled():
            print("\n%s: %d turns, %d killed, %d had ended well, store whole each time"
                  % (self.what, KILLS, self.killed, self.done))


def start(world, *args):
    return subprocess.Popen([worlds.VIAL, *args], env=world.env(), cwd="/", stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_in(world, dice, most, *args):
    """Runs vial, and kills it or one of those that it started, within MOST seconds. Whether
    somebody was killed, and whether it went well all the same."""
    work = start(world, *args)
    with contextlib.suppress(subprocess.TimeoutExpired):
        work.wait(dice.uniform(0, most))
    everybody = family(work.pid) if work.poll() is None else []
    killed = bool(everybody) and kill(dice.choice(everybody))
    done = work.wait(PATIENCE) == 0
    wait_for(lambda: not alive(set(everybody) - {work.pid}))
    return killed, done


def timed(world, *args):
    began = time.monotonic()
    done = world.vial(*args)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began


def test_imports_killed_at_any_point_leave_a_whole_store(world, tmp_path, capsys):
    dice, tally = random.Random(1), Tally("import", capsys)
    file = tmp_path / "many.tar"
    file.write_bytes(tar(folder("d"), *[entry("d/%d" % i, b"%d" % i * 3000) for i in range(600)]))
    usual = timed(world, "image", "import", "many", "--from", str(file))
    for turn in range(KILLS):
        assert world.vial("image", "remove", "many").returncode == 0
        tally.add(*kill_in(world, dice, usual * 1.1, "image", "import", "many", "--from", str(file)))
        assert is_whole(world)
        timed(world, "image", "import", "many", "--from", str(file))
        assert world.names() == {"busy:latest", "many:latest"}, turn
    tally.say()


def test_builds_killed_at_any_point_leave_a_whole_store(world, tmp_path, capsys):
    dice, tally = random.Random(2), Tally("template build", capsys)
    app = tmp_path / "app"
    app.mkdir()
    args = ("template", "build", "-t", "app", "--memory", "512m", "--disk", "128m", str(app))

    def write(turn):
        (app / "file").write_text("of turn %d\n" % turn)
        (app / "Dockerfile").write_text("FROM busy\nRUN %s\nCOPY file /file\nRUN rm /many/1; echo %d "
                                        "> /turn\n" % (WRITES, turn))
    write(-1)
    usual = timed(world, *args)
    for turn in range(KILLS):
        write(turn)
        cached = () if turn % 2 else ("--no-cache",)
        tally.add(*kill_in(world, dice, usual * 1.1, *args[:2], *cached, *args[2:]))
        assert is_whole(world)
        timed(world, *args)
        ran = world.sh("cat /turn /file", "--memory", "512m", image="app")
        assert ran["stdout"] == "%d\nof turn %d\n" % (turn, turn), ran
        assert world.vial("template", "prune").returncode == 0
    tally.say()


class Session:
    def __init__(self, daemon, image="busy"):
        answer = daemon.ask("POST", "/v1/sessions", {**RW, "image": image})
        assert answer.status == 201, answer.body
        self.daemon, self.id = daemon, answer.json["id"]
        self.at = "/v1/sessions/" + self.id

    def sh(self, line):
        r = self.daemon.ask("POST", self.at + "/exec?wait=1", {"shell": line}).json
        assert r["verdict"] == "ok", r
        return r["stdout"]

    def snapshot(self):
        return self.daemon.ask("POST", self.at + "/snapshot", {"name": "mine"})


def test_commands_killed_while_they_save_leave_a_whole_store(world, capsys):
    """The caller goes; the session stays, and can be saved again."""
    dice, tally = random.Random(3), Tally("session snapshot", capsys)
    with Daemon(env={"VIAL_IMAGES": str(world.store)}) as daemon:
        s = Session(daemon)
        s.sh(WRITES)
        args = ("session", "snapshot", "--socket", daemon.socket, s.id, "mine")
        usual = timed(world, *args)
        for turn in range(KILLS):
            tally.add(*kill_in(world, dice, usual * 1.1, *args))
            for name in world.names() - {"busy:latest"}:
                daemon.ask("DELETE", "/v1/snapshots/" + name)
            assert s.sh("cat /many/300") == "300\n", turn
        # What the last one began may go on without it, and one at a time is saved.
        wait_for(lambda: s.snapshot().status == 201)
    assert is_whole(world)
    tally.say()


def keepers(pids):
    """Who opens vessels, and who watches each."""
    found = []
    for pid in sorted(pids):
        with contextlib.suppress(OSError):
            if Path("/proc/%d/comm" % pid).read_text().startswith("vial-keeper"):
                found.append(pid)
    return found


def saved_again(world):
    """Another daemon finds a store that it can use: a session of what is saved has all files."""
    with Daemon(env={"VIAL_IMAGES": str(world.store)}) as daemon:
        s = Session(daemon)
        s.sh("echo again > /again")
        made = s.snapshot()
        assert made.status == 201, made.body
        copy = Session(daemon, made.json["image"])
        assert copy.sh("cat /again") == "again\n"
        assert daemon.ask("DELETE", copy.at).status == 204
        assert daemon.ask("DELETE", "/v1/snapshots/" + made.json["image"]).status == 204


@pytest.mark.parametrize("victim", ["front", "keeper", "anybody"])
def test_a_daemon_killed_while_it_saves_leaves_a_whole_store(world, victim, capsys):
    dice, tally = random.Random(victim), Tally("daemon, its " + victim, capsys)
    usual = None
    for turn in range(KILLS):
        with Daemon(env={"VIAL_IMAGES": str(world.store)}) as daemon:
            s = Session(daemon)
            s.sh(WRITES)
            if usual is None:
                began = time.monotonic()
                assert s.snapshot().status == 201
                usual = time.monotonic() - began
            everybody, told = family(daemon.process.pid), []

            def save(told=told, s=s):
                with contextlib.suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
                    told.append(s.snapshot().status)
            saver = threading.Thread(target=save)
            saver.start()
            if turn % 4:  # mostly while the files are read and stored
                wait_for(lambda one=saver: world.at_work() or not one.is_alive())
            saver.join(dice.uniform(0, usual * 0.7))
            pending = saver.is_alive()
            everybody = set(everybody) | set(family(daemon.process.pid))
            kill(daemon.process.pid if victim == "front" else
                 dice.choice(keepers(everybody) if victim == "keeper" else sorted(everybody)))
            saver.join(PATIENCE)
            assert not saver.is_alive(), turn
            tally.add(1, not pending or told == [201])
        wait_for(lambda e=everybody: not alive(e))
        assert is_whole(world)
        for name in world.names() - {"busy:latest"}:  # one caller may have so many
            assert world.vial("image", "remove", name).returncode == 0
    saved_again(world)
    tally.say()
