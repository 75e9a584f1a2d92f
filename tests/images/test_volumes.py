# SPDX-License-Identifier: Apache-2.0
"""Volumes in vessels whose root is an image: of root, with all its users, and of an ordinary
user."""
import itertools
import os

import pytest
import worlds

MACHINE = ["--root-mode", "rw", "--user", "root"]
names = (f"v{i}" for i in itertools.count())


@pytest.fixture(scope="module", params=[0, worlds.UID], ids=["root", "user"])
def any_world(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("volumes")
    for path in (place, *list(place.parents)[:2]):
        os.chmod(path, os.stat(path).st_mode | 0o055)
    made = worlds.World(place / "home", request.param)
    made.debian()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = worlds.World(tmp_path_factory.mktemp("volumes") / "home", 0)
    made.debian()
    yield made
    made.remove()


def new(world):
    name = next(names)
    made = world.vial("volume", "create", name)
    assert made.returncode == 0, made.stderr
    return name


def ok(result):
    assert result["verdict"] == "ok", result
    return result["stdout"]


def test_a_volume_is_shown_beside_an_image_and_without_one(any_world):
    v = new(any_world)
    ok(any_world.sh("echo left > /data/x", "--volume", f"{v}:/data:rw"))
    assert ok(any_world.sh("cat /etc/marked /data/x", "--volume", f"{v}:/data")) == "here\nleft\n"
    assert ok(any_world.run("--volume", f"{v}:/d", "sh", "stat -c %u /d/x; cat /d/x")) == (
        "1000\nleft\n")


def test_a_volume_lies_over_a_directory_of_the_image(any_world):
    v = new(any_world)
    assert ok(any_world.sh("ls -A /var/cache", "--volume", f"{v}:/var/cache")) == ""


def test_owners_and_modes_are_those_of_the_machine_that_made_them(world):
    v = new(world)
    ok(world.sh("useradd -u 4711 joe && install -d -o joe -g 33 -m 2750 /v/d && "
                "su joe -s /bin/sh -c 'echo his > /v/d/x'", *MACHINE, "--volume", f"{v}:/v:rw"))
    assert ok(world.sh("stat -c '%u:%g %a' /v/d; stat -c %u /v/d/x", *MACHINE, "--volume",
                       f"{v}:/v")) == "4711:33 2750\n4711\n"
    assert "Permission denied" in world.sh("cat /v/d/x", "--volume", f"{v}:/v")["stderr"]


def test_a_set_uid_file_of_a_volume_makes_nobody_root(world):
    v = new(world)
    ok(world.sh("cp /usr/bin/id /v/id && chmod 4755 /v/id", *MACHINE, "--volume", f"{v}:/v:rw"))
    for how in ([], ["--root-mode", "rw", "--sudo", "nopasswd"]):
        said = ok(world.sh("stat -c %a /v/id; /v/id -u", *how, "--volume", f"{v}:/v"))
        assert said == "4755\n1000\n"


def test_a_machine_is_made_anew_around_what_its_volume_keeps(world):
    """A service's data outlive the vessel that it ran in."""
    v = new(world)
    script = ("id keeper 2>/dev/null || useradd -r -u 500 -d /srv/data keeper; "
              "chown keeper /srv/data; su keeper -s /bin/sh -c "
              "'echo $(($(cat n 2>/dev/null || echo 0) + 1)) > n; cat n'")
    for time in (1, 2, 3):
        assert ok(world.sh("cd /srv/data; " + script, *MACHINE, "--volume",
                           f"{v}:/srv/data:rw")) == f"{time}\n"
