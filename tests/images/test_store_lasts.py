# SPDX-License-Identifier: Apache-2.0
"""The store under concurrent pulls, kill -9 and use. IMAGES_KILLS: how often it is killed."""
import contextlib
import fcntl
import json
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import worlds
from conftest import PATIENCE, VIAL
from registries import Handmade, Image, entry, folder, tar
from worlds import wait_for

KILLS = int(os.environ.get("IMAGES_KILLS", "10"))


def layered(number, files=40):
    layers = []
    for i in range(3):
        layers.append(tar(folder("d%d" % i), *[
            entry("d%d/%d" % (i, j), b"%d %d %d" % (number, i, j) * 500) for j in range(files)]))
    return Image(tar(entry("base", b"same" * 1000)), *layers)


@pytest.fixture
def registry():
    r = Handmade(layered(1))
    yield r
    r.stop()


def is_whole(image, vial, store):
    """Every image that is told of is whole, to the last byte; and every layer."""
    for one in image("list"):
        done = vial("image", "verify", one["digest"])
        assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    for layer in (store / "layers").iterdir():
        assert (layer / "fs").is_dir() and (layer / "sums").exists() and (layer / "owners").exists()
    return True


def test_killed_at_any_point_the_store_stays_whole(registry, env, image, vial, store):
    dice = random.Random(KILLS)
    name = registry.host + "/killed:1"
    began = time.monotonic()
    image("pull", name)
    usual = time.monotonic() - began
    for turn in range(KILLS):
        registry.image = layered(turn)
        pull = subprocess.Popen([VIAL, "image", "pull", name], env=env, cwd="/",
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(dice.uniform(0, usual * 1.2))
        everybody = worlds.family(pull.pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(everybody), signal.SIGKILL)
        pull.wait(PATIENCE)
        wait_for(lambda e=everybody: not worlds.alive(e[1:]))
        assert is_whole(image, vial, store)
        if turn % 4 == 3:
            image("prune")  # the name is the latest's
    registry.image = layered(0)
    assert image("pull", name)["digest"] == registry.image.digest
    image("prune")
    assert [i["tags"] for i in image("list")] == [[name]] and is_whole(image, vial, store)
    assert len(list((store / "layers").iterdir())) == 4
    assert not list((store / "tmp").iterdir())


def test_many_pulls_at_once_bring_one_copy(registry, env, image, vial, store):
    second = Handmade(layered(2))
    names = [registry.host + "/a:1", registry.host + "/b:1", second.host + "/a:1"] * 3
    pulls = [subprocess.Popen([VIAL, "image", "pull", name], env=env, cwd="/",
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for name in names]
    for pull in pulls:
        _, told = pull.communicate(timeout=PATIENCE)
        assert pull.returncode == 0, told
    second.stop()
    assert len(image("list")) == 2 and len(list((store / "layers").iterdir())) == 7
    assert not list((store / "tmp").iterdir()) and is_whole(image, vial, store)


def test_an_image_in_use_is_neither_removed_nor_pruned(registry, image, vial, store):
    got = image("pull", registry.host + "/used:1")
    place = os.open(store / "images" / got["digest"][7:], os.O_RDONLY)
    fcntl.flock(place, fcntl.LOCK_SH)
    done = vial("image", "remove", registry.host + "/used:1")
    assert done.returncode == 125
    assert "image '%s/used:1' is in use [VIAL-BUSY]" % registry.host in done.stderr
    assert image("prune", "--all")["removed"] == 0
    assert [i["tags"] for i in image("list")] == [[registry.host + "/used:1"]]
    os.close(place)
    assert image("prune", "--all")["removed"] == 1 and not list((store / "layers").iterdir())


def status_of(pid):
    lines = Path("/proc/%d/status" % pid).read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def test_who_speaks_with_a_registry_has_no_capability_and_a_filter(env, tmp_path):
    go = threading.Event()

    def bend(handler, path):
        if "/blobs/" in path:
            go.wait(PATIENCE)
        return False
    registry = Handmade(layered(1), bend)
    pull = subprocess.Popen([VIAL, "image", "pull", registry.host + "/x:1"], env=env, cwd="/",
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_for(lambda: any("/blobs/" in path for path, _ in registry.seen))
    _, _, stage = worlds.family(pull.pid)  # it, a helper, and the helper's
    seen = status_of(stage)
    go.set()
    assert pull.wait(PATIENCE) == 0
    registry.stop()
    assert int(seen["CapEff"], 16) == 0 and int(seen["CapPrm"], 16) == 0
    assert seen["NoNewPrivs"] == "1" and seen["Seccomp"] == "2"


def test_who_is_told_to_stop_leaves_nothing(env, store):
    go = threading.Event()

    def bend(handler, path):
        if "/blobs/" in path:
            go.wait(PATIENCE)
        return False
    registry = Handmade(layered(1), bend)
    pull = subprocess.Popen([VIAL, "image", "pull", registry.host + "/x:1"], env=env, cwd="/",
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: any("/blobs/" in path for path, _ in registry.seen))
    pull.send_signal(signal.SIGTERM)
    assert pull.wait(PATIENCE) == 128 + signal.SIGTERM
    go.set()
    registry.stop()
    assert not list((store / "tmp").iterdir()) and not list((store / "images").iterdir())


def test_the_audit_log_has_the_digest_that_was_pulled(registry, image, tmp_path):
    file = tmp_path / "vial.yaml"
    log = tmp_path / "log" / "audit.jsonl"
    log.parent.mkdir()
    file.write_text("audit: {path: %s}\n" % log)
    got = image("pull", registry.host + "/audited:1", VIAL_CONFIG=str(file))
    events = [json.loads(line) for line in log.read_text().splitlines()]
    [pulled] = [e for e in events if "image.pull" in json.dumps(e)]
    assert got["digest"] in json.dumps(pulled)
