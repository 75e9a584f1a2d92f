# SPDX-License-Identifier: Apache-2.0
"""What of the host a mount can show, and where files that come back can go."""

import os
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import VIAL, environment, why_absent

pytestmark = pytest.mark.skipif(why_absent("native") is not None,
                                reason="mounts need driver native")


def in_own_mounts(script, **env):
    """Runs SCRIPT where it may mount; the host does not see what it mounts."""
    own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if subprocess.run([*own, "mount", "-t", "tmpfs", "none", "/mnt"],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip("this host allows no mounts in a namespace of one's own")
    return subprocess.run([*own, "sh", "-ec", script], capture_output=True, text=True,
                          env=environment(VIAL=VIAL, **env), timeout=60, check=False)


@pytest.mark.parametrize("how, what", [
    ("--bind /etc", "mount source '/etc' belongs to the host"),
    ("--bind /etc/ssl", "mount source '/etc/ssl' belongs to the host"),
    ("--rbind /proc", "is an interface of the kernel"),
    ("--rbind /dev", "mounted below"),
])
def test_what_is_mounted_below_a_source_is_judged_as_a_source(tmp_path, how, what):
    point = tmp_path / "a b"
    point.mkdir()
    done = in_own_mounts(f'mount {how} "$D/a b"\n'
                         '"$VIAL" run --driver native --mount "$D:/data" sh "ls /data/*"',
                         D=str(tmp_path))
    assert done.stdout == ""
    assert what in done.stderr
    assert "[VIAL-MOUNT]" in done.stderr
    assert f"unmount '{point}" in done.stderr


def test_a_bind_mount_of_a_system_path_is_refused_as_that_path(tmp_path):
    done = in_own_mounts('mount --bind /etc "$D"\n'
                         '"$VIAL" run --driver native --mount "$D:/data" sh "ls /data"',
                         D=str(tmp_path))
    assert done.stdout == ""
    assert "mount source '/etc' belongs to the host [VIAL-MOUNT]" in done.stderr


def test_no_mount_of_a_vessel_allows_more_than_its_purpose_needs():
    done = subprocess.run([VIAL, "run", "--driver", "native", "sh",
                           "cat /proc/self/mountinfo"], capture_output=True, text=True,
                          env=environment(), timeout=60, check=True)
    mounts = [(line.split()[4], set(line.split()[5].split(",")))
              for line in done.stdout.splitlines()]
    assert {"/", "/usr", "/proc", "/proc/sys", "/dev/null"} <= {at for at, _ in mounts}
    for at, flags in mounts:
        wanted = {"nosuid"}
        if at not in ("/proc", "/dev/pts", "/dev/shm", "/tmp", "/work"):
            wanted.add("ro")
        wanted.add("noexec" if at.startswith("/dev/") and at != "/dev/shm" else "nodev")
        if at.startswith("/proc"):
            wanted.add("noexec")
        assert wanted <= flags, (at, flags)


def test_a_harmless_file_system_below_a_source_comes_with_it(tmp_path):
    (tmp_path / "in").mkdir()
    done = in_own_mounts('mount -t tmpfs none "$D/in"; echo hi >"$D/in/file"\n'
                         '"$VIAL" run --driver native --mount "$D:/data" '
                         'sh "cat /data/in/file"', D=str(tmp_path))
    assert (done.stdout, done.stderr) == ("hi\n", "")


def test_a_source_with_a_socket_in_it_is_refused(vial, tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        done = vial("run", "--driver", "native", "--mount", f"{tmp_path}:/data", "sh",
                    "ls /data")
    assert done.text == ""
    assert f"mount source '{tmp_path}' holds the socket 's' [VIAL-MOUNT]" in done.errors


CONNECT = """import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1] + "/s")
    print("connected")
except OSError as e:
    print("refused")"""


@pytest.mark.parametrize("place", ["/workspace", "/somewhere", "/tmp/a", "/var/lib", "/var"])
def test_a_strangers_settings_do_not_uncover_a_socket(vial, tmp_path, place):
    """What covers it lies in /var, which the workspace would hide."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "vial.yaml").write_text("defaults: {workspace_at: %s}\n" % place)
    (tmp_path / "none").symlink_to("s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        done = vial("exec", "--driver", "native", "--", "python3", "-c", CONNECT, place,
                    cwd=tmp_path)
    if place == "/var":
        assert done.status == 125 and "is taken by the vessel itself" in done.errors
    else:
        assert done.text == "refused\n", done.errors


@pytest.mark.parametrize("flags", [["--workspace", "{}"], ["--mount", "{}:/data"],
                                   ["--mount", "{}:/data:rw"]])
def test_the_callers_home_is_not_shown(vial, tmp_path, flags):
    flags = [flag.format(tmp_path) for flag in flags]
    done = vial("run", "--driver", "native", *flags, "sh", "ls",
                env=environment(HOME=str(tmp_path)))
    assert "is your home directory, or holds it [VIAL-MOUNT]" in done.errors


def test_a_directory_that_the_program_replaces_by_a_link_does_not_lead_away(vial,
                                                                            tmp_path):
    work = tmp_path / "work"
    away = tmp_path / "away"
    (work / "out").mkdir(parents=True)
    away.mkdir()
    done = vial("run", "--driver", "native", "--workspace", str(work),
                "--out", "x:out/", "sh",
                f"mv /workspace/out /workspace/moved; ln -s {away} /workspace/out; "
                "echo planted > /work/x", cwd=work)
    assert os.listdir(away) == []
    assert (work / "moved" / "x").read_text() == "planted\n", done.errors


def test_a_file_goes_nowhere_when_its_directory_is_missing_before_the_run(vial,
                                                                          tmp_path):
    done = vial("run", "--driver", "native", "--out", "x:none/x", "sh", "echo > x",
                cwd=tmp_path)
    assert done.status == 125
    assert "open the directory of 'none/x'" in done.errors
    assert "[VIAL-FILE]" in done.errors


@pytest.fixture
def open_place():
    """A directory that anyone may enter, and not in /tmp, which the vessel's own root
    hides while it is made."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        yield Path(place)


def test_links_in_a_root_do_not_lead_mounts_away(vial, open_place):
    root, data, away = (open_place / name for name in ("root", "data", "away"))
    for path in (root, data, away):
        path.mkdir()
    away.chmod(0o777)
    (root / "data").symlink_to(away)
    (root / "mask").symlink_to("/proc/sys")
    for target, step in (("/data/deep/x", "mkdir data/deep"),
                         ("/data", "attach /data"), ("/mask", "attach /mask")):
        done = vial("run", "--driver", "native", "--rootfs", str(root), "--mount",
                    f"{data}:{target}", "sh", "true")
        assert os.listdir(away) == []
        assert f"step '{step}'" in done.errors


def test_a_project_file_does_not_raise_a_limit(vial, tmp_path):
    (tmp_path / "vial.yaml").write_text("defaults: {memory: 1g}\n")
    done = vial("run", "sh", "true", cwd=tmp_path)
    assert done.status == 125
    assert "is not trusted" in done.errors and "memory" in done.errors
    assert "[VIAL-TRUST]" in done.errors


def test_a_project_file_is_no_link(vial, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("root:hash: 1\n")
    (tmp_path / "vial.yaml").symlink_to(secret)
    done = vial("run", "sh", "true", cwd=tmp_path)
    assert done.status == 125
    assert "is not a regular file [VIAL-FILE]" in done.errors
    assert "hash" not in done.errors
