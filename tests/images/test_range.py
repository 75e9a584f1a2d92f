# SPDX-License-Identifier: Apache-2.0
"""An ordinary user who has a range of ids in /etc/subuid: his images keep whose the files are, and
his vessels have users, root among them. And what becomes of that where the range is not there."""
import json
import os
import re
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest
import worlds
from registries import entry, folder, link, tar

FIRST = int(worlds.FIRST)
CAPABILITY = "SCHILY.xattr.security.capability"
CAN_BIND = b"\x01\0\0\x02\0\x04" + bytes(14)
RW = ("--root-mode", "rw")
ROOT = (*RW, "--user", "root")


def put_small(world, name="small"):
    """A root of busybox, with a file that is another's than root's and his alone."""
    with open("/bin/busybox", "rb") as file:
        shell = file.read()
    made = world.home / "small.tar"
    made.write_bytes(tar(
        folder("bin"), folder("etc"), folder("tmp"), entry("bin/busybox", shell, mode=0o755),
        *[link("bin/" + n, "busybox") for n in ("sh", "cat", "id", "stat")],
        entry("etc/passwd", b"root:x:0:0::/:/bin/sh\n"),
        entry("bin/able", b"x", mode=0o755, pax={CAPABILITY: CAN_BIND.decode()}),
        entry("etc/his", b"secret", mode=0o600, uid=33, gid=34)))
    return world.vial("image", "import", name, "--from", str(made))


def layers(world, name):
    """Where their files are, topmost first."""
    done = world.vial("image", "inspect", name)
    assert done.returncode == 0, done.stderr
    digest = json.loads(done.stdout)["digest"]
    record = (world.store / "images" / digest[7:] / "record").read_text()
    return [world.store / "layers" / line[6:] / "fs" for line in record.splitlines()[::-1]
            if line.startswith("layer ")]


@pytest.fixture
def fresh():
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as made:
        os.chmod(made, 0o755)
        yield worlds.World(Path(made) / "home", worlds.UID, worlds.FIRST)


@pytest.fixture(name="world")
def world_with_debian(ranged):
    return ranged


def image_users(world):
    done = world.vial("doctor", "--json")
    native = next(d for d in json.loads(done.stdout)["drivers"] if d["name"] == "native")
    return next(layer for layer in native["layers"] if layer["name"] == "image_users")


def exported(file):
    """All that an image's layers have, by name."""
    seen = {}
    with tarfile.open(file) as archive:
        for member in archive:
            if member.name.startswith("blobs/"):
                try:
                    with tarfile.open(fileobj=archive.extractfile(member)) as layer:
                        seen.update((m.name.lstrip("./"), m) for m in layer)
                except tarfile.ReadError:  # a manifest
                    pass
    return seen


def test_files_are_the_images_own_users_inside_and_the_ranges_on_the_host(world):
    r = world.sh("id -u; stat -c %u:%g /etc/shadow /home /var/mail; cat /proc/self/uid_map; "
                 "cat /etc/shadow; echo x > /etc/x")
    who, shadow, home, mail, *maps = r["stdout"].split("\n")
    assert (who, shadow, home, mail) == ("1000", "0:42", "0:0", "0:8"), r
    assert [line.split() for line in maps if line] == [["0", "1000", "1"], ["1", str(FIRST), "65535"]]
    assert "shadow: Permission denied" in r["stderr"] and "/etc/x" in r["stderr"], r
    assert r["image_owners"] == "image", r
    there = os.stat(layers(world, "debian")[0] / "etc/shadow")
    assert (there.st_uid, there.st_gid) == (worlds.UID, FIRST + 41)


def test_root_inside_makes_users_and_installs_packages(world):
    r = world.sh("""
useradd -m ann && su ann -c 'id -un; touch ~/x' && stat -c %U /home/ann/x; chown 33:33 /srv
stat -c %u:%g /srv; id -u
mkdir -p p/DEBIAN p/usr/bin
printf 'Package: hullo\\nVersion: 1\\nArchitecture: all\\nMaintainer: me <me@x>\\n' > p/DEBIAN/control
printf 'Description: says it\\n' >> p/DEBIAN/control
printf '#!/bin/sh\\necho hullo\\n' > p/usr/bin/hullo; chmod 755 p/usr/bin/hullo
dpkg-deb -b p h.deb > /dev/null && dpkg -i h.deb > /dev/null && hullo""", *ROOT)
    assert r["stdout"] == "ann\nann\n33:33\n0\nhullo\n", r
    assert "no_new_privs" in r["isolation"]["layers"] and "caps" not in r["isolation"]["layers"]


def test_sudo_works_where_it_was_asked_for(world):
    r = world.sh("id -un; sudo id -un; sudo useradd -m ann; sudo -u ann id -un", *RW, "--sudo",
                 "nopasswd")
    assert r["stdout"] == "user\nroot\nann\n", r


def test_root_inside_is_nobody_to_the_rest_of_the_host(world):
    """He is the user himself, who owns his store, and has no path to it."""
    r = world.sh(f"ls {world.store} {world.home} 2>&1; mount -t tmpfs x /mnt 2>&1; mknod /n c 1 3 2>&1;"
                 "cat /proc/self/mountinfo | grep -c /images; setpriv --dump | grep -i '^no_new'", *ROOT)
    assert r["stdout"].count("No such file") == 2, r
    assert r["stdout"].lower().count("not permitted") + r["stdout"].count("denied") == 2, r


def test_a_template_has_root_and_its_image_the_owners(world):
    (world.home / "work/Dockerfile").write_text(
        "FROM debian\nRUN useradd -m app && chmod 4755 /usr/bin/id\nUSER app\n"
        "RUN id -un > /home/app/who\n")
    done = world.vial("template", "build", "-t", "app", "--memory", "1g", ".")
    assert done.returncode == 0, done.stderr
    r = world.sh("stat -c %U /home/app/who /usr/bin/id; cat /home/app/who; stat -c %a /usr/bin/id",
                 image="app")
    assert r["stdout"] == "app\nroot\napp\n4755\n", r
    assert world.vial("image", "verify", "app").returncode == 0
    file = world.home / "work/app.tar"
    assert world.vial("image", "export", "app", "--to", str(file)).returncode == 0
    seen = exported(file)
    assert seen["home/app/who"].uid == int(re.search(
        r"^app:x:(\d+)", world.sh("cat /etc/passwd", image="app")["stdout"], re.M)[1])
    assert seen["etc/shadow"].gid == 42


def test_what_is_shown_of_the_host_makes_him_alone_again(world):
    shown = world.home / "work/shown"
    shown.mkdir()
    os.chown(shown, worlds.UID, worlds.UID)
    mount = ("--mount", f"{shown}:/shown:rw")
    r = world.sh("touch /shown/x; stat -c %u /shown/x; cat /proc/self/uid_map", *mount)
    assert r["stdout"].split() == ["1000", "1000", "1000", "1"], r
    assert r["image_owners"] == "one"
    assert os.stat(shown / "x").st_uid == worlds.UID
    r = world.sh("id", *mount, *ROOT)
    assert r["error"]["code"] == "VIAL-UNSUPPORTED" and "all mounts" in r["error"]["remedy"], r


def test_what_is_removed_is_gone_from_the_disk(fresh):
    assert put_small(fresh).returncode == 0
    there = os.stat(layers(fresh, "small")[0] / "etc/his")
    assert (there.st_uid, there.st_gid) == (FIRST + 32, FIRST + 33)
    assert fresh.vial("image", "remove", "small").returncode == 0
    assert os.listdir(fresh.store / "layers") == os.listdir(fresh.store / "tmp") == []


def test_what_one_that_was_killed_left_is_swept_by_the_next(fresh):
    assert put_small(fresh).returncode == 0
    left = fresh.store / "tmp/w-left"
    (left / "layer-0/fs/var").mkdir(parents=True)
    (left / "layer-0/fs/var/his").write_text("x")
    for path, owner in ((left, worlds.UID), (left / "layer-0", worlds.UID),
                        (left / "layer-0/fs", worlds.UID), (left / "layer-0/fs/var", FIRST + 32),
                        (left / "layer-0/fs/var/his", FIRST + 32)):
        os.chown(path, owner, owner)
        path.chmod(0o700)
    assert put_small(fresh, "again").returncode == 0
    assert os.listdir(fresh.store / "tmp") == []


def test_an_export_has_what_came_owners_and_capabilities(fresh):
    assert put_small(fresh).returncode == 0
    assert fresh.vial("image", "verify", "small").returncode == 0
    file = fresh.home / "work/out.tar"
    done = fresh.vial("image", "export", "small", "--to", str(file))
    assert done.returncode == 0, done.stderr
    seen = exported(file)
    assert (seen["etc/his"].uid, seen["etc/his"].gid, seen["etc/his"].mode) == (33, 34, 0o600)
    assert seen["bin/able"].pax_headers[CAPABILITY] == CAN_BIND.decode()


def test_doctor_says_which_there_is(fresh):
    said = image_users(fresh)
    assert said["available"] and f"users from {FIRST}" in said["reason"], said
    fresh.ids = "none"
    said = image_users(fresh)
    assert not said["available"] and "subuid has no range" in said["reason"], said
    assert "uidmap" in said["fix"]


def test_without_a_range_there_is_one_id(fresh):
    fresh.ids = "none"
    assert put_small(fresh).returncode == 0
    r = fresh.sh("stat -c %u /etc/his; cat /etc/his", image="small")
    assert r["stdout"] == "1000\nsecret" and r["image_owners"] == "one", r
    fresh.ids = str(FIRST)  # files that have one owner stay so, until the store is empty
    r = fresh.sh("id", *ROOT, image="small")
    assert "one user" in r["error"]["message"] and "subuid" in r["error"]["remedy"], r
    assert fresh.vial("image", "verify", "small").returncode == 0
    assert fresh.vial("image", "prune", "--all").returncode == 0
    assert put_small(fresh).returncode == 0
    assert fresh.sh("id -u; stat -c %u:%g /etc/his", *ROOT, image="small")["stdout"] == "0\n33:34\n"


@pytest.mark.parametrize("now", ["none", "300000"])
def test_a_range_that_is_his_no_more_is_not_used(fresh, now):
    assert put_small(fresh).returncode == 0
    fresh.ids = now
    r = fresh.sh("cat /proc/self/uid_map; cat /etc/his", image="small")
    assert r["stdout"].split() == ["1000", "1000", "1"] and "denied" in r["stderr"], r
    assert r["image_owners"] == "one"
    done = put_small(fresh, "again")
    assert done.returncode != 0 and "of a range of ids that cannot be mapped" in done.stderr, done.stderr
    assert os.listdir(fresh.store / "tmp") == []


def test_a_helper_that_maps_nothing_opens_nothing(world):
    """It says that all went well; the kernel's own word counts."""
    world.newuidmap = "/var/tmp/newuidmap-%d" % os.getpid()
    shutil.copy("/bin/true", world.newuidmap)
    os.chmod(world.newuidmap, 0o4755)
    try:
        r = world.sh("id")
        done = world.vial("image", "verify", "debian")
    finally:
        os.unlink(world.newuidmap)
        world.newuidmap = ""
    assert r["verdict"] == "failed" and r["error"]["code"] == "VIAL-OPEN", r
    assert "did not map" in r["error"]["message"]
    assert done.returncode != 0 and "did not map" in done.stderr, done.stderr


SESSIONS = """
vial() { verb=$1; shift; "$VIAL" session $verb --socket $PWD/s.sock "$@"; }
"$VIAL" serve --listen unix:$PWD/s.sock > serve.log 2>&1 &
trap 'kill $!; wait $!' EXIT
while [ ! -S s.sock ] && kill -0 $!; do sleep 0.1; done
id=$(vial start --image debian --root-mode rw --sudo nopasswd)
vial exec $id -- sh -c 'sudo useradd -m ann; sudo -u ann touch /home/ann/his; sudo chmod 4755 /usr/bin/id'
image=$(vial snapshot $id saved)
copy=$(vial fork $id)
vial exec $copy -- stat -c '%U %a' /home/ann/his /usr/bin/id
"$VIAL" run --image $image sh 'stat -c "%U %a" /home/ann/his /usr/bin/id'
vial stop $copy
vial stop $id
"$VIAL" image verify $image && echo verified
vial forget $image
"""


def test_sessions_of_his_daemon_are_saved_with_the_owners(world):
    done = world.do("env", f"VIAL={worlds.VIAL}", "sh", "-ec", SESSIONS)
    assert done.returncode == 0, done.stdout + done.stderr
    his = "ann 644\nroot 4755\n"
    assert done.stdout.endswith(his + his + "verified\n"), done.stdout + done.stderr
    assert not [n for n in world.names() if n.startswith(("snapshot/", "fork/"))]
