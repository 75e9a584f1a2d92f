# SPDX-License-Identifier: Apache-2.0
"""The watch over the host (host.py): it finds each thing that a run could leave, and does not
mind what others do on the same machine."""
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import host as host_module  # noqa: E402

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="plants things as root")
OF_A_DEAD = "vial-1-4194305-1-left"  # no process has a number so high
# Its parent ends at once, so that it is an orphan; it says its number.
ORPHAN = ("import os, signal\nif os.fork(): os._exit(0)\nos.setresuid(*[%d] * 3)\n"
          "print(os.getpid(), flush=True)\nos.close(1)\nsignal.pause()\n" % 0x7FFF0001)


@pytest.fixture(scope="module")
def host():
    h = host_module.Host()
    yield h
    h.remove()


@pytest.fixture
def watch(host):
    """All that is found now; afterwards everything is as it was."""
    host.before = host.picture()
    yield lambda: [what for what, _ in host.check(0)]
    assert host.check(10) == []


@contextlib.contextmanager
def mounted(where, *below):
    subprocess.run([*below, "mount", "-t", "tmpfs", "left", where], check=True)
    yield
    subprocess.run([*below, "umount", where], check=True)


@contextlib.contextmanager
def orphan():
    out = subprocess.run([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, check=True)
    yield int(out.stdout)
    os.kill(int(out.stdout), signal.SIGKILL)


@contextlib.contextmanager
def directory(path):
    os.mkdir(path)
    yield
    os.rmdir(path)


@pytest.fixture
def outside(host):
    """A command's beginning that gives it the machine's mounts again."""
    return ["nsenter", "--mount=/proc/%d/fd/%d" % (os.getpid(), host.own.outside), "--"]


def test_a_mount_that_is_left_is_found(watch):
    with tempfile.TemporaryDirectory() as where, mounted(where):
        assert watch() == ["mounts"]


def test_a_mount_that_comes_out_of_a_vessel_is_found(watch):
    with tempfile.TemporaryDirectory() as where:
        subprocess.run(["unshare", "--mount", "--propagation", "unchanged", "mount", "-t",
                        "tmpfs", "left", where], check=True)
        assert watch() == ["mounts"]
        subprocess.run(["umount", where], check=True)


def test_a_mount_that_has_become_another_is_found(host, watch):
    with tempfile.TemporaryDirectory() as where, mounted(where):
        host.before = host.picture()
        subprocess.run(["mount", "-o", "remount,ro", where], check=True)
        assert watch() == ["mounts"]


def test_a_mount_of_others_is_not_minded(watch, outside):
    with tempfile.TemporaryDirectory() as where, mounted(where, *outside):
        assert watch() == []


# A watch of its own, made while an engine has its shared directory; then the engine ends.
MEANWHILE = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from host import Host
host = Host()
subprocess.run(["nsenter", "--mount=/proc/self/fd/%d" % host.own.outside, "--",
                "umount", "--lazy", sys.argv[2]], check=True, pass_fds=[host.own.outside])
print(host.check(0))
host.remove()
"""


def test_a_shared_mount_of_others_that_goes_is_not_minded(outside):
    with tempfile.TemporaryDirectory() as where:
        for command in (["mount", "-t", "tmpfs", "left", where], ["mount", "--make-shared", where]):
            subprocess.run([*outside, *command], check=True)
        try:
            done = subprocess.run([*outside, sys.executable, "-c", MEANWHILE,
                                   os.path.dirname(host_module.__file__), where],
                                  capture_output=True, text=True, check=False)
        finally:
            subprocess.run([*outside, "umount", "--quiet", where], check=False)
        assert done.stdout == "[]\n", done


@pytest.fixture
def groups(host):
    if not host.own.groups:
        pytest.skip("the unified hierarchy alone: the whole machine is looked at")
    return host.own.groups


def test_a_group_that_is_left_is_found(watch, groups):
    with directory(os.path.join(groups[0], OF_A_DEAD)):
        assert watch() == ["cgroups"]


def test_a_group_of_others_is_not_minded(watch, groups):
    with directory(os.path.join(os.path.dirname(groups[0]), OF_A_DEAD)):
        assert watch() == []


def test_a_process_that_is_left_is_found(watch):
    with orphan():
        assert watch() == ["processes"]


def test_a_process_of_others_is_not_minded(watch, groups):
    parents = [os.path.dirname(group) for group in groups]
    for parent in parents:
        host_module.put(parent, os.getpid())
    try:
        with orphan():
            assert watch() == []
    finally:
        for group in groups:
            host_module.put(group, os.getpid())


def test_a_process_that_an_engine_of_the_tests_has_left_is_found(watch, groups, monkeypatch):
    others = [os.path.join(os.path.dirname(group), "engine-of-tests-0x") for group in groups]
    with contextlib.ExitStack() as stack:
        for path in others:
            stack.enter_context(directory(path))
        with orphan() as pid:
            for path in others:
                host_module.put(path, pid)
            assert watch() == []
            monkeypatch.setenv("DOCKER_HOST", "unix:///tmp/vial-engine-0x/docker.sock")
            assert watch() == ["processes"]
        while any(host_module.read(path + "/cgroup.procs") for path in others):
            pass


def test_a_temporary_file_that_is_left_is_found(host, watch):
    with directory(os.path.join(host.tmp, "vial-0")):
        assert watch() == ["tmp"]


def test_a_temporary_file_of_others_is_not_minded(watch):
    with tempfile.TemporaryDirectory(prefix="vial-", dir="/tmp"):
        assert watch() == []


def test_a_file_that_was_written_to_is_found(host, watch):
    path = host.planted[0]
    before = os.stat(path)
    with open(path, "a", encoding="ascii") as file:
        file.write("x")
    assert watch() == ["canaries"]
    os.truncate(path, before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_that_was_made_is_found(host, watch):
    path = "/etc/.w" + host.canary
    with open(path, "w", encoding="ascii"):
        assert watch() == ["written"]
    os.unlink(path)


def test_a_caller_is_found(host, watch):
    with socket.create_connection(("127.0.0.1", host.listener.port)) as caller:
        assert caller.recv(1) == b""  # it was accepted, hence counted next
    while not watch():
        pass
    assert watch() == ["connections"]
    host.before = host.picture()
