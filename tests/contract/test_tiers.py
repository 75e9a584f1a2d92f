# SPDX-License-Identifier: Apache-2.0
"""The ladder: an ordinary user, one without user namespaces, and inside a container.
Each gets the layers that are really there, named, or a refusal."""
import json
import os
import shutil
import subprocess
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
VIAL = os.path.abspath(os.environ.get("VIAL", os.path.join(HERE, "../../build/vial")))
PARTS = ("vial", "vial-init", "runtimes", "presets", "seccomp")
USER = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--"]
# A user namespace in which no further one can be made.
NO_NAMESPACES = USER + ["unshare", "-Ur", "sh", "-c",
                        'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh"]
ATTACK = r"""
import os, socket, signal
got = []
for path in ("/root", "/home", "/var/lib", "/etc/shadow", os.environ["CANARY"]):
    try:
        got.append(os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError:
        pass
for path in ("/usr/x", "/etc/x", "/var/tmp/x", "/tmp/x-vial", "/dev/shm/x-vial"):
    try:
        open(path, "w").close()
        got.append(path)
    except OSError:
        pass
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_VSOCK):
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        got.append(family)
    except OSError:
        pass
for pid in (1, os.getppid(), int(os.environ["SENTINEL"])):
    try:
        os.kill(pid, 0)
        got.append(pid)
    except OSError:
        pass
print(got)
"""


@pytest.fixture(scope="module")
def staged():
    """A copy of the build that every user can reach."""
    where = tempfile.mkdtemp(dir="/var/tmp")
    for part in PARTS:
        source = os.path.join(os.path.dirname(VIAL), part)
        (shutil.copytree if os.path.isdir(source) else shutil.copy2)(
            source, os.path.join(where, part))
    subprocess.run(["chmod", "-R", "a+rX", where], check=True)
    yield os.path.join(where, "vial")
    shutil.rmtree(where)


def run(prefix, vial, *flags, code="print(6)", language="python"):
    p = subprocess.run(prefix + [vial, "run", "--json", *flags, language, code], cwd="/",
                       capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert p.stdout, p.stderr
    return p.returncode, json.loads(p.stdout)


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="changes users, so it needs root")


@needs_root
def test_an_ordinary_user_has_every_namespace(staged):
    status, r = run(USER, staged)
    assert (status, r["stdout"], r["isolation"]["level"]) == (0, "6\n", "namespaces")
    assert {"user", "pid", "mount", "net", "seccomp", "no_new_privs", "caps"} <= set(
        r["isolation"]["layers"])


@needs_root
def test_an_ordinary_user_without_a_cgroup_is_told_so_and_can_refuse(staged):
    _, r = run(USER, staged)
    if r["isolation"]["limits_by"].startswith("cgroup"):
        pytest.skip("this user has a writable cgroup")
    assert r["isolation"]["limits_by"] == "rlimit"
    status, r = run(USER, staged, "--require", "limits=cgroup")
    assert (status, r["verdict"], r["error"]["code"]) == (125, "denied", "VIAL-LIMITS")


@needs_root
def test_without_user_namespaces_the_lower_tier_runs_and_is_named(staged):
    status, r = run(NO_NAMESPACES, staged)
    assert (status, r["stdout"]) == (0, "6\n")
    assert r["isolation"]["level"] == "landlock"
    assert "user" not in r["isolation"]["layers"]
    assert {"seccomp", "landlock", "no_new_privs"} <= set(r["isolation"]["layers"])


@needs_root
def test_without_user_namespaces_a_requirement_of_them_refuses(staged):
    status, r = run(NO_NAMESPACES, staged, "--require", "namespaces")
    assert (status, r["verdict"], r["error"]["code"]) == (125, "denied", "VIAL-ISOLATION")
    assert r["stdout"] == ""


@needs_root
def test_the_lower_tier_keeps_files_network_and_other_processes_away(staged):
    sentinel = subprocess.Popen(USER + ["sleep", "60"])
    canary = tempfile.NamedTemporaryFile(dir="/var/tmp", mode="w")
    canary.write("canary")
    canary.flush()
    os.chmod(canary.name, 0o644)
    try:
        _, r = run(NO_NAMESPACES, staged, "--env", "SENTINEL=%d" % sentinel.pid, "--env",
                   "CANARY=" + canary.name, code=ATTACK)
        assert (r["verdict"], r["stdout"]) == ("ok", "[]\n"), r
        assert sentinel.poll() is None
    finally:
        sentinel.kill()
        sentinel.wait()


@needs_root
@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
@pytest.mark.parametrize("who", [USER, []], ids=["user", "root without capabilities"])
def test_inside_an_unprivileged_container_it_runs_with_what_is_there(staged, who):
    box = who + ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
                 "--tmpfs", "/tmp", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    status, r = run(box, staged)
    assert (status, r["stdout"]) == (0, "6\n")
    assert r["isolation"]["level"] in ("namespaces", "landlock")
    assert {"seccomp", "no_new_privs"} <= set(r["isolation"]["layers"])
