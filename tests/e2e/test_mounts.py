# SPDX-License-Identifier: Apache-2.0
"""What of the host a mount can show, and where files that come back can go."""

import os
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import VIAL, call, environment, why_absent

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


@pytest.fixture
def environment_of(tmp_path):
    """Makes a virtual environment with a module `mine`."""
    def make(name):
        root = tmp_path / name
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(root)], check=True)
        [site] = root.glob("lib/python3.*/site-packages")
        (site / "mine.py").write_text("where = %r\n" % name)
        return root
    return make


SHOW = "import mine, sys; print(mine.where, sys.prefix)"


def test_a_virtual_environment_is_used_and_cannot_be_written(environment_of):
    root = environment_of("env")
    assert call("run", "--venv", str(root), "python", SHOW).text == "env %s\n" % root
    assert call("run", "python", SHOW, env=environment(VIRTUAL_ENV=str(root))).text == "env %s\n" % root
    assert call("run", "python3.%d" % python_minor(root), SHOW,
                env=environment(VIRTUAL_ENV=str(root))).text == "env %s\n" % root
    other = environment_of("other")
    assert call("run", "--venv", str(other), "python", SHOW,
                env=environment(VIRTUAL_ENV=str(root))).text == "other %s\n" % other
    done = call("run", "--venv", str(root), "python", "open(%r, 'w')" % str(root / "new"))
    assert done.status == 1 and "Read-only file system" in done.errors
    done = call("run", "--venv", "none", "python", SHOW, env=environment(VIRTUAL_ENV=str(root)))
    assert done.status == 1 and "note: a vessel's Python has the packages of /usr" in done.errors
    assert call("run", "bash", "echo $VIRTUAL_ENV.", env=environment(VIRTUAL_ENV=str(root))).text == ".\n"


def python_minor(root):
    [lib] = root.glob("lib/python3.*")
    return int(lib.name.split(".")[1])


@pytest.fixture
def python_at(tmp_path):
    """Makes what looks like a Python, and an environment of it."""
    def make(prefix, env, name="python3.99"):
        for where in ("bin", "lib/python3.99", "share"):
            (prefix / where).mkdir(parents=True)
        (prefix / "bin" / name).write_text("#!/bin/sh\necho its own: $VIRTUAL_ENV\n")
        (prefix / "bin" / name).chmod(0o755)
        (prefix / "bin" / "python3").symlink_to(name)
        (prefix / "bin" / "other").write_text("")
        (prefix / "lib" / "python3.99" / "os.py").write_text("")
        (prefix / "lib" / "libpython3.99.so.1.0").write_text("")
        (prefix / "lib" / "keys").write_text("secret")
        (prefix / "share" / "keys").write_text("secret")
        link_python(env, prefix / "bin" / "python3")
        return prefix
    return make


def link_python(env, to):
    for name in ("python3", "python"):
        (env / "bin" / name).unlink(missing_ok=True)
    (env / "bin" / "python3").symlink_to(to)


def listed(venv, *where):
    done = call("exec", "--workspace", str(venv), "--venv", str(venv), "--", "find",
                *map(str, where), "-type", "f")
    return sorted(done.text.split()), done.errors


def test_of_the_python_that_an_environment_was_made_from_no_more_is_shown_than_it_needs(
        environment_of, python_at, tmp_path):
    """As pyenv's and uv's, which lie in the home."""
    root = environment_of("env")
    base = python_at(tmp_path / "local", root)
    (base / "lib" / "libpython3.so").symlink_to(base / "share" / "keys")
    (base / "lib" / "python3.98").symlink_to(base / "share")
    (base / "share" / "os.py").write_text("")
    assert call("run", "--venv", str(root), "python", "1").text == "its own: %s\n" % root
    assert listed(root, base) == (
        [str(base / name) for name in ("bin/python3", "bin/python3.99", "lib/libpython3.99.so.1.0",
                                       "lib/python3.99/os.py")], "")


def test_a_python_that_is_named_itself_is_shown_with_its_programs(environment_of, python_at,
                                                                  tmp_path):
    base = python_at(tmp_path / "local", environment_of("env"))
    assert call("run", "--venv", str(base), "python", "1").text == "its own: %s\n" % base
    assert listed(base, base) == (
        [str(base / name) for name in ("bin/other", "bin/python3.99", "lib/libpython3.99.so.1.0",
                                       "lib/python3.99/os.py")], "")


@pytest.mark.parametrize("name, keeps", [("bin/cargo", True), ("bin/python3", False),
                                         ("python/python3", True)])
def test_a_strangers_environment_does_not_choose_what_of_the_home_is_shown(
        environment_of, python_at, tmp_path, name, keeps):
    root = environment_of("env")
    home = tmp_path / ".cargo"
    python_at(home, root)
    (home / "python").mkdir()
    for at in ("bin/cargo", "python/python3"):
        (home / at).write_text("#!/bin/sh\n")
        (home / at).chmod(0o755)
    if not keeps:
        (home / "lib" / "python3.99" / "os.py").unlink()
    link_python(root, home / name)
    for args, env in ((["exec", "--workspace", str(root), "--venv", str(root), "--"], environment()),
                      (["run", "--venv", str(root), "python"], environment()),
                      (["run", "python"], environment(VIRTUAL_ENV=str(root)))):
        done = call(*args, *(["cat", str(home / "share/keys")] if args[0] == "exec" else ["1"]),
                    env=env)
        assert "is not the interpreter of a Python [VIAL-INTERPRETER]" in done.errors
        assert done.status in (125, 127) and done.text == ""


def test_a_directory_that_is_no_environment_is_not_shown_as_one(environment_of, python_at,
                                                                tmp_path):
    """As ~/.local, whose bin/python3 is a link of uv's: a repository's .venv may lead there."""
    root = environment_of("env")
    python_at(tmp_path / "uv", root)
    local = tmp_path / "local"
    (local / "bin").mkdir(parents=True)
    (local / "bin" / "python3").symlink_to(tmp_path / "uv" / "bin" / "python3")
    (tmp_path / ".venv").symlink_to(local)
    done = call("run", "--venv", str(tmp_path / ".venv"), "python", "1")
    assert "is not the interpreter of a Python" in done.errors and done.text == ""


def test_an_environment_or_python_that_others_could_write_is_refused(environment_of, python_at,
                                                                     tmp_path):
    root = environment_of("env")
    base = python_at(tmp_path / "local", root)
    for changed in (root, base):
        before = changed.stat().st_mode
        changed.chmod(before | 0o002)
        done = call("run", "--venv", str(root), "python", "1")
        assert "'%s' is somebody else's, or can be written by others" % changed in done.errors
        changed.chmod(before)
        if os.geteuid() == 0:
            os.chown(changed, 4321, -1)
            done = call("run", "--venv", str(root), "python", "1")
            assert "'%s' is somebody else's" % changed in done.errors
            os.chown(changed, 0, -1)
    assert call("run", "--venv", str(root), "python", "1").status == 0


def test_an_environment_that_cannot_be_used_is_refused(environment_of, tmp_path):
    root = environment_of("env")
    (root / "bin" / "python3").unlink()
    for args, said in (
            (["--venv", str(root), "python"], "has no 'python3' [VIAL-INTERPRETER]"),
            (["--venv", str(tmp_path / "none"), "python"], "No such file or directory"),
            (["--venv", str(root), "bash"], "language 'bash' has no virtual environments"),
            (["--venv", str(root), "--driver", "process", "python"],
             "driver 'process' shows no virtual environment [VIAL-UNSUPPORTED]")):
        done = call("run", *args, "1")
        assert done.status in (125, 127) and said in done.errors, done.errors
    done = call("run", "python", "1", env=environment(VIRTUAL_ENV=str(root)))
    assert done.status in (125, 127) and "has no 'python3'" in done.errors


KEEPS = """
kept:
  file: main.sh
  run: [sh, "{file}"]
  version: [sh, -c, "echo 1"]
  env: {OWN: "1"}
  cache_env: KEPT
  cache: [sh, -c, 'ls "$KEPT"; echo made $OWN > "$KEPT/one"; exit %d']
"""


def test_what_a_compiler_kept_is_made_once_and_shown_read_only(tmp_path):
    languages = tmp_path / "languages.yaml"
    env = environment(XDG_CACHE_HOME=str(tmp_path / "c"), VIAL_LANGUAGES=str(languages),
                      VIAL_DRIVER="process")
    cache = tmp_path / "c" / "vial" / "kept"

    def shown(script="echo [$KEPT] $(cat $KEPT/*)", *flags):
        return call("run", "--driver", "native", *flags, "kept", script, env=env)
    languages.write_text(KEEPS % 3)
    assert shown().text.startswith("[]")
    assert call("languages", "--prepare", "kept", env=env).status == 3
    assert shown().text.startswith("[]")  # half of it is of no use
    languages.write_text(KEEPS % 0)
    (cache / "theirs").write_text("evil")  # of an earlier one nothing is believed
    assert call("languages", "--prepare", "kept", env=env).status == 0
    assert shown().text == "[/opt/cache] made 1\n"
    assert os.listdir(tmp_path / "c") == ["vial"]
    assert "Read-only file system" in shown("echo theirs > $KEPT/one").errors
    assert shown("echo $KEPT", "-e", "KEPT=mine").text == "mine\n"
    for below in ("", "vial", "vial/kept"):
        done = shown("echo theirs > /data/one", "--mount", "%s:/data:rw" % (tmp_path / "c" / below))
        assert "holds vial's own files and cannot be writable" in done.errors
    cache.chmod(0o777)  # a stranger may have been there
    assert shown().text.startswith("[]")
    assert "has nothing to prepare" in call("languages", "--prepare", "bash", env=env).errors
