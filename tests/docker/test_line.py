# SPDX-License-Identifier: Apache-2.0
"""The socket by which a container's guest reaches us, and how things go on without it."""
import glob
import os
import signal
import socket
import subprocess

import pytest

from conftest import PATIENCE, VIAL
from engine import wait_for
from test_faults import proxy  # noqa: F401 (a fixture)

CALL = """
import socket
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("/.vial-line/line")
    print("connected")
except OSError as e:
    print(e.errno)
"""


@pytest.fixture
def env(env, engine):
    """With a TMPDIR in which nobody else has lines."""
    return {**env, "TMPDIR": engine.run}


def lines(engine):
    return set(glob.glob("%s/vial-%d/*/tmp/line" % (engine.run, os.geteuid())))


def test_a_program_finds_no_line(run):
    """ENOENT, or EACCES where Landlock is faster."""
    assert run("python", CALL)["stdout"] in ("2\n", "13\n")
    assert run("bash", "ls -A /.vial-line 2>/dev/null | wc -l")["stdout"] == "0\n"


def test_nothing_of_the_line_is_left(run, engine):
    assert run("bash", "echo hi")["stdout"] == "hi\n"
    assert lines(engine) == set()


def test_a_line_that_is_dead_costs_nothing_but_time(run, engine, proxy):  # noqa: F811
    """The guest speaks over the engine's streams instead."""
    dead = []

    def cut():
        for path in lines(engine):
            with socket.socket(socket.AF_UNIX) as s:
                s.bind(path + "-dead")
            os.rename(path + "-dead", path)
            dead.append(path)
    proxy.on("POST /containers/create", cut)
    r = run("--stdin", "word", "bash", "head -c 300000 /dev/zero | wc -c; cat",
            DOCKER_HOST=proxy.address)
    assert dead and (r["verdict"], r["stdout"]) == ("ok", "300000\nword"), r


def test_closing_waits_for_no_engine(engine, env, api):
    """Which removes the container when it can. covers: NFR-020-23"""
    p = subprocess.Popen([VIAL, "run", "--driver", "docker", "bash",
                          "echo up; read x; echo got $x"], env=env, cwd="/",
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    engine.daemon.send_signal(signal.SIGSTOP)
    try:
        out, _ = p.communicate(b"word\n", timeout=PATIENCE)
    finally:
        engine.daemon.send_signal(signal.SIGCONT)
    assert (p.returncode, out) == (0, b"got word\n")
    assert wait_for(lambda: not api.ours())


def test_an_engine_that_does_not_see_our_directory_runs_without_a_line(env, tmp_path):
    """As in a service with a /tmp of its own."""
    script = 'mount -t tmpfs none "$1" && shift && TMPDIR=%s exec "$@"' % tmp_path
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), VIAL,
                           "run", "--driver", "docker", "bash", "echo there"],
                          capture_output=True, text=True, env=env, cwd="/", timeout=PATIENCE,
                          check=False)
    assert (done.returncode, done.stdout) == (0, "there\n"), done.stderr
