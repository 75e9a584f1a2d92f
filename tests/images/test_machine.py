# SPDX-License-Identifier: Apache-2.0
"""A session that is a whole machine: packages from a mirror through its gate, services, users, as
people do it by sudo, in a daemon."""
import os
import subprocess
import sys

import pytest
import worlds

os.environ.setdefault("VIAL_BUILD", os.path.dirname(worlds.VIAL))
sys.path[1:1] = [str(worlds.ROOT / "tests" / "serve"), str(worlds.ROOT / "tests" / "gate")]
import servers  # noqa: E402
from daemon import Daemon  # noqa: E402

MIRROR = "mirror.test"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = worlds.World(tmp_path_factory.mktemp("machine") / "home", 0)
    made.debian()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def daemon(world):
    mirror = worlds.mirror("postgresql", "git", "python3-pip", "python3-setuptools")
    names = servers.Names({MIRROR: [servers.HOST]})
    server = servers.serve(80, str(mirror))
    policy = {"gate_resolvers": [names.address], "allow_private": ["127.77.0.0/16"],
              "allow": [MIRROR]}
    with Daemon(env={"VIAL_IMAGES": str(world.store)}, policy=policy) as d:
        yield d
    server.shutdown()


class Machine:
    """`vial session …` against the daemon."""

    def __init__(self, daemon):
        self.socket = daemon.socket
        self.id = self.vial("start", "--image", "debian", "--root-mode", "rw", "--sudo", "nopasswd",
                            "--memory", "2g", "--disk", "1g", "--inodes", "100000", "--pids", "256",
                            "--timeout", "5m", "--network", "gate", "--allow", MIRROR)

    def vial(self, verb, *args):
        done = subprocess.run([worlds.VIAL, "session", verb, "--socket", self.socket, *args],
                              capture_output=True, text=True, check=False, cwd="/",
                              stdin=subprocess.DEVNULL, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def sh(self, line):
        return self.vial("exec", self.id, "--", "sh", "-c", line)


@pytest.fixture(scope="module")
def machine(daemon):
    made = Machine(daemon)
    made.sh(f"""
echo 'deb [trusted=yes] http://{MIRROR} ./' | sudo tee /etc/apt/sources.list
sudo apt-get update
sudo DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    postgresql git python3-pip python3-setuptools""")
    yield made
    made.vial("stop", made.id)


def test_postgresql_is_installed_and_answers(machine):
    machine.sh("sudo service postgresql start")
    said = machine.sh("sudo -u postgres pg_isready -q -t 60; sudo -u postgres psql -Atc 'select 1'")
    assert said == "1"
    assert machine.sh("stat -c '%U:%G %a' /var/run/postgresql") == "postgres:postgres 2775"


def test_users_are_made_and_become_each_other(machine):
    assert machine.sh("sudo useradd -m joe; sudo su - joe -c 'pwd; id -un'") == "/home/joe\njoe"


def test_git_commits(machine):
    said = machine.sh("cd /tmp && git init -q r && cd r && git -c user.name=a -c user.email=a@b "
                      "commit -q --allow-empty -m first && git log --format=%s")
    assert said == "first"


def test_pip_installs_from_a_local_source(machine):
    said = machine.sh("""
mkdir -p /tmp/py/greeting && cd /tmp/py
echo 'def hello(): return "from pip"' > greeting/__init__.py
printf '[project]\\nname="greeting"\\nversion="1"\\n[build-system]\\nrequires=["setuptools"]\\n' \
    > pyproject.toml
echo 'build-backend="setuptools.build_meta"' >> pyproject.toml
sudo pip install -q --no-build-isolation --break-system-packages --no-deps . 2>/dev/null
cd / && python3 -c 'import greeting; print(greeting.hello())'""")
    assert said == "from pip"


def test_a_set_uid_program_of_roots_works_inside(machine):
    said = machine.sh("sudo cp /usr/bin/id /opt/id && sudo chmod 4755 /opt/id && /opt/id -u")
    assert said == "0"


def test_no_set_uid_file_gets_to_a_directory_of_the_hosts(world, tmp_path):
    there = world.home / "work" / "shown"
    there.mkdir()
    r = world.sh("cp /usr/bin/id /shown/who; chmod 4755 /shown/who; chmod 4755 /work; mkdir -m 2775 d",
                 "--root-mode", "rw", "--user", "root", "--mount", f"{there}:/shown:rw")
    assert r["stderr"].count("Operation not permitted") == 3, r
    assert (there / "who").stat().st_mode & 0o6000 == 0


def test_nobody_asks_for_the_profile_of_machines_by_name(world):
    r = world.sh("id", "--seccomp", "machine")
    assert r["error"]["message"] == "seccomp 'machine' is not a profile's name", r["error"]


def test_a_policy_without_sudo_leaves_the_keeper_no_new_privileges(world):
    for allowed, expected in ((["rw", "root"], {"1"}), (["rw", "sudo"], {"0"})):
        with Daemon(env={"VIAL_IMAGES": str(world.store)}, policy={"privileges": allowed}) as d:
            found = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(d.process.pid)],
                                   capture_output=True, text=True, check=True).stdout.split("\n")
            [keeper] = [line.split()[0] for line in found if line.endswith("vial-keeper")]
            with open(f"/proc/{keeper}/status", encoding="ascii") as file:
                assert {line.split()[1] for line in file if line.startswith("NoNewPrivs")} == expected
