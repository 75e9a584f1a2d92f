# SPDX-License-Identifier: Apache-2.0
"""Vessels whose root is an image of this host's store, as root and as an ordinary user."""
import json
import os
import subprocess

import pytest
from worlds import UID, VIAL, World

@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """The world of a user, by number: made once."""
    top = tmp_path_factory.mktemp("images")
    for directory in [top, *list(top.parents)[:2]]:
        os.chmod(directory, os.stat(directory).st_mode | 0o055)
    made = {}

    def of(uid):
        if uid not in made:
            made[uid] = World(top / str(uid), uid)
            made[uid].digest = made[uid].debian()
        return made[uid]
    yield of
    for world in made.values():
        world.remove()


@pytest.fixture(params=[0, UID], ids=["root", "user"])
def world(request, worlds):
    return worlds(request.param)


@pytest.fixture
def root_world(worlds):
    return worlds(0)


@pytest.fixture
def user_world(worlds):
    return worlds(UID)


def small(world, name, files):
    """A directory with these files; None is a whiteout, True an opaque directory."""
    top = world.home / name
    script = [f"mkdir {top}"]
    for path, content in files.items():
        at = top / path
        script.append(f"mkdir -p {at.parent}")
        if content is None:
            script.append(f"mknod {at} c 0 0")
        elif content is True:
            script.append(f"mkdir {at}")
        else:
            script.append(f"printf %s '{content}' > {at}")
    made = world.do("sh", "-ec", "\n".join(script))
    assert made.returncode == 0, made.stderr
    for path, content in files.items():
        if content is True:
            os.setxattr(top / path, "user.overlay.opaque", b"y")
    return top


def test_python_of_the_image_runs_and_the_result_names_its_digest(world):
    r = world.run("--image", "debian", "python",
                  "import sys; print(sys.executable, open('/etc/marked').read())")
    assert r["verdict"] == "ok", r
    assert r["stdout"] == "/usr/bin/python3 here\n\n"
    assert r["image"] == "debian" and r["image_digest"] == world.digest
    assert r["driver"] == "native"
    assert r["image_owners"] == ("one" if world.uid else "image")


def test_what_a_list_shows_of_an_image_is_a_name_that_runs(world):
    shown = world.vial("image", "list").stdout.splitlines()
    digest = next(line.split()[1] for line in shown if line.startswith("debian:latest "))
    assert digest == world.digest
    told = json.loads(world.vial("image", "inspect", digest).stdout)
    assert told["tags"] == ["debian:latest"]
    assert world.sh("cat /etc/marked", image=digest)["stdout"] == "here\n"


def test_a_program_that_only_the_host_has_is_not_found_in_an_image(world):
    r = world.run("--image", "debian", "javascript", "1")
    assert r["error"]["message"] == "start 'node'", r["error"]
    assert "image 'debian' has no 'node' along its PATH" in r["error"]["remedy"]


def test_an_image_that_is_nowhere_is_refused_by_its_name(world):
    r = world.run("--image", "nosuch", "--pull", "never", "--driver", "native", "sh", "id")
    assert r["verdict"] == "denied"
    assert r["error"]["message"] == "there is no image 'nosuch' here"


def test_env_of_the_image_holds_but_for_what_the_vessel_is(world):
    world.put("spoken", [small(world, "spoken", {"usr/share/x": "y"})],
              env=["PATH=/opt/bin:/usr/bin", "SPOKEN=yes", "HOME=/evil"])
    world.stand_on_debian("spoken")
    r = world.run("--image", "spoken", "sh", "env")
    assert "SPOKEN=yes" in r["stdout"] and "PATH=/opt/bin:/usr/bin" in r["stdout"], r
    assert "/evil" not in r["stdout"]


def test_whiteouts_and_opaque_directories_hide_what_lies_below(world):
    low = small(world, "low", {"a/gone": "1", "a/kept": "2", "b/old": "3"})
    high = small(world, "high", {"a/gone": None, "b": True, "b/new": "4"})
    world.put("twice", [low, high])
    world.stand_on_debian("twice")
    r = world.sh("cd /; find a b -type f", image="twice")
    assert sorted(r["stdout"].split()) == ["a/kept", "b/new"], r


def test_the_root_is_read_only_unless_asked_and_the_result_says_so(world):
    r = world.sh("touch /usr/x; touch /etc/x; touch /x; touch /work/x && echo own")
    assert r["stderr"].count("Read-only file system") == 3 and r["stdout"] == "own\n", r
    assert "ro_root" in r["isolation"]["layers"]


def test_what_is_written_to_a_writable_root_stays_in_that_vessel(world):
    where = "/home/user" if not world.uid else "/usr/share"
    before = world.do("sh", "-c", f"cd {world.store} && find . -printf '%p %s %T@\\n' | sort")
    r = world.sh(f"echo mine > {where}/x && cat {where}/x; echo $HOME; id -un",
                 "--root-mode", "rw")
    assert r["stdout"] == "mine\n/home/user\nuser\n", r
    assert "ro_root" not in r["isolation"]["layers"]
    assert {"no_new_privs", "caps", "landlock", "seccomp"} <= set(r["isolation"]["layers"])
    again = world.sh(f"cat {where}/x", "--root-mode", "rw")
    assert "No such file" in again["stderr"], again
    after = world.do("sh", "-c", f"cd {world.store} && find . -printf '%p %s %T@\\n' | sort")
    changed = set(before.stdout.split("\n")) ^ set(after.stdout.split("\n"))
    # Being found is a use, which the image's own directory has as its time.
    assert all(line.startswith("./images/") or not line for line in changed), changed


@pytest.mark.parametrize("mode", ["ro", "rw"])
@pytest.mark.parametrize("where", ["/work", "/workspace", "/home/user"])
def test_a_working_directory_can_be_written_to_wherever_it_lies(world, where, mode):
    r = world.sh("pwd; echo mine > x && cat x", "--root-mode", mode, "--workdir", where)
    assert r["stdout"] == where + "\nmine\n", r


@pytest.mark.parametrize("where", ["/workspace", "/home/user"])
def test_root_inside_has_its_working_directory_wherever_it_lies(root_world, where):
    r = root_world.sh("pwd; echo mine > x && cat x", "--root-mode", "rw", "--user", "root",
                      "--workdir", where)
    assert r["stdout"] == where + "\nmine\n", r


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_a_link_of_the_image_does_not_lead_its_working_directory_elsewhere(world, mode):
    name = "linked-" + mode
    top = small(world, name, {"srv/kept": "yes"})
    (top / "home").symlink_to("srv")
    world.put(name, [top])
    world.stand_on_debian(name)
    r = world.sh("pwd -P; echo mine > x && cat x; ls /srv", "--root-mode", mode, "--workdir",
                 "/home/user", image=name)
    assert r["stdout"] == "/home/user\nmine\nkept\n", r


def test_a_writable_root_holds_no_more_than_disk(world):
    r = world.sh("cd /home/user; head -c 40m /dev/zero > big; stat -c %s big",
                 "--root-mode", "rw", "--disk", "16m")
    assert "No space left on device" in r["stderr"], r
    assert int(r["stdout"]) <= 16 << 20


def test_a_writable_root_without_an_image_is_refused(world):
    r = world.run("--root-mode", "rw", "--driver", "native", "sh", "id")
    assert r["error"]["message"] == ("driver 'native' cannot give the program a writable root "
                                     "without an image"), r["error"]


def test_root_without_a_writable_root_is_refused(world):
    r = world.sh("id", "--user", "root")
    assert r["error"]["message"] == "user 'root' is given, but the root is read-only"
    r = world.sh("id", "--sudo", "nopasswd")
    assert r["error"]["message"] == "sudo is given, but the root is read-only"


@pytest.mark.parametrize("what, layer", [
    (["--root-mode", "rw"], "ro_root"),
    (["--root-mode", "rw", "--user", "root"], "caps"),
    (["--root-mode", "rw", "--sudo", "nopasswd"], "no_new_privs")])
def test_who_requires_a_layer_gets_no_vessel_without_it(root_world, what, layer):
    r = root_world.sh("id", *what, "--require", layer)
    assert r["verdict"] == "denied"
    assert r["error"]["message"] == f"require '{layer}': the vessel would lack this layer"


@pytest.mark.parametrize("what, name", [
    (["--root-mode", "rw"], "rw"),
    (["--root-mode", "rw", "--user", "root"], "root"),
    (["--root-mode", "rw", "--sudo", "nopasswd"], "sudo")])
def test_the_policy_refuses_each_wall_that_would_be_given_up(root_world, what, name):
    allowed = {"rw": "none", "root": "rw, sudo", "sudo": "rw, root"}[name]
    config = root_world.home / "policy.yaml"
    config.write_text(f"policy:\n  privileges: [{allowed}]\n")
    done = root_world.vial("--config", str(config), "run", "--image", "debian", *what, "sh", "id")
    assert f"privilege '{name}' is not allowed by the policy" in done.stderr, done.stderr


def test_an_ordinary_users_vessel_has_no_root(user_world):
    r = user_world.sh("id", "--root-mode", "rw", "--user", "root")
    assert r["error"]["message"] == "an ordinary user's vessel has one user, who is not root"


def test_root_inside_makes_users_and_owns_files(root_world):
    r = root_world.sh("useradd -m joe && su joe -c 'id -un; touch ~/x' && ls -l /home/joe/x |"
                      " cut -d' ' -f3; chown 33:33 /srv && stat -c %u:%g /srv; id -u",
                      "--root-mode", "rw", "--user", "root")
    assert r["stdout"] == "joe\njoe\n33:33\n0\n", r
    assert "caps" not in r["isolation"]["layers"]
    assert "no_new_privs" in r["isolation"]["layers"]


def test_sudo_needs_no_password_where_it_was_asked_for(root_world):
    r = root_world.sh("id -un; sudo id -un; sudo useradd -m joe; sudo -u joe id -un",
                      "--root-mode", "rw", "--sudo", "nopasswd")
    assert r["stdout"] == "user\nroot\njoe\n", r
    assert not {"caps", "no_new_privs", "ro_root"} & set(r["isolation"]["layers"])
    r = root_world.sh("sudo -n id", "--root-mode", "rw")
    assert r["exit_code"] == 1 and "no new privileges" in r["stderr"], r


def test_files_of_an_image_belong_to_its_own_users_and_on_the_host_to_nobody(root_world):
    r = root_world.sh("stat -c %u /etc/shadow /var/mail /home/user; stat -c %g /etc/shadow;"
                      "cat /proc/self/uid_map", "--root-mode", "rw", "--user", "root")
    *owners, group, mapped = r["stdout"].strip().split("\n")
    assert owners == ["0", "0", "1000"] and group == "42"
    inside, first, count = map(int, mapped.split())
    assert inside == 0 and count == 65536 and 0x71000000 <= first < 0x80000000


def test_two_vessels_at_once_share_no_user(root_world):
    script = "cat /proc/self/uid_map; read x"
    pair = [subprocess.Popen([VIAL, "run", "--image", "debian",
                              "sh", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env=root_world.env(), text=True) for _ in range(2)]
    first = [int(p.stdout.readline().split()[1]) for p in pair]
    for p in pair:
        p.communicate("\n")
    assert first[0] != first[1]


def test_packages_install_from_a_local_repository(root_world):
    repo = root_world.home / "work" / "repo"
    repo.mkdir()
    made = root_world.run("--image", "debian", "--root-mode", "rw", "--user", "root",
                          "--mount", f"{repo}:/repo:rw", "--memory", "1g", "sh", """
set -e
mkdir -p p/DEBIAN p/usr/bin
printf 'Package: hullo\\nVersion: 1\\nArchitecture: all\\nMaintainer: me <me@x>\\n' > p/DEBIAN/control
printf 'Description: says it\\n' >> p/DEBIAN/control
printf '#!/bin/sh\\nuseradd --system hulloer\\n' > p/DEBIAN/postinst
chmod 755 p/DEBIAN/postinst
printf '#!/bin/sh\\necho hullo\\n' > p/usr/bin/hullo; chmod 755 p/usr/bin/hullo
dpkg-deb -b p /repo/hullo_1_all.deb >/dev/null
cd /repo
{ dpkg-deb -f hullo_1_all.deb; echo Filename: ./hullo_1_all.deb;
  echo Size: $(stat -c %s hullo_1_all.deb);
  echo SHA256: $(sha256sum hullo_1_all.deb | cut -d' ' -f1); } > Packages
""")
    assert made["exit_code"] == 0, made
    r = root_world.run("--image", "debian", "--root-mode", "rw", "--sudo", "nopasswd",
                       "--memory", "1g", "--disk", "512m", "--timeout", "2m",
                       "--mount", f"{repo}:/repo", "sh", """
set -e
echo 'deb [trusted=yes] file:/repo ./' | sudo tee /etc/apt/sources.list > /dev/null
sudo apt-get update > /tmp/log 2>&1 || { cat /tmp/log; exit 1; }
sudo apt-get install -y hullo > /tmp/log 2>&1 || { cat /tmp/log; exit 1; }
hullo; id -un hulloer
""")
    assert r["stdout"] == "hullo\nhulloer\n", r


