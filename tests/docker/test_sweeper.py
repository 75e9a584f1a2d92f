# SPDX-License-Identifier: Apache-2.0
"""What dead callers left goes by itself where a process of vial's stays: the daemon, with
a keeper and without, and the server for agents. What the living have stays."""
import glob
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from conftest import HERE, PATIENCE, VIAL
from engine import wait_for
from test_faults import proxy  # noqa: F401 (a fixture)

sys.path.insert(0, str(HERE.parent / "serve"))
import daemon as daemon_module  # noqa: E402

OFTEN = {"interval": "300ms"}
UP = "echo up; sleep 60"


@pytest.fixture(autouse=True)
def tidy(vial, api):
    """Whatever earlier tests left does not count."""
    assert vial("cleanup").returncode == 0
    assert wait_for(lambda: not api.ours())


@pytest.fixture
def daemon(engine):
    """Starts a daemon whose sweeper comes round often."""
    running = []

    def start(keeper, cleanup=None, host=None):
        d = daemon_module.Daemon(serve={"keeper": keeper},
                                 env={"DOCKER_HOST": host or engine.address})
        d.settings["cleanup"] = cleanup or OFTEN
        running.append(d)
        return d.start()
    yield start
    for d in running:
        d.close()


@pytest.fixture
def abandon(proxy, env, api):  # noqa: F811
    """Containers whose owners are killed with -9 before they could start them, so that
    they do not remove themselves; their ids."""
    hold, release = os.pipe()
    proxy.on("POST /containers/create", lambda: os.read(hold, 1))

    def one():
        before = left(api)
        p = subprocess.Popen([VIAL, "run", "--driver", "docker", "bash", "true"],
                             env={**env, "DOCKER_HOST": proxy.address}, cwd="/",
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        assert wait_for(lambda: left(api) - before)
        new = left(api) - before
        p.kill()
        p.wait()
        os.write(release, b"x")
        return new

    def abandon_(count=1):
        return set().union(*[one() for _ in range(count)])
    yield abandon_
    os.close(release)
    os.close(hold)


def left(api):
    return {c["Id"] for c in api.ours()}


def removed(d, driver="docker"):
    """What the daemon says it has removed."""
    text = d.ask("GET", "/metrics").body.decode()
    return int(re.search(r'vial_orphans_removed_total{driver="%s"} (\d+)' % driver, text)[1])


@pytest.mark.parametrize("keeper", ["on", "off"])
def test_a_daemon_removes_orphans_and_no_living_one(api, start, daemon, abandon, keeper):
    """covers: FR-020-26 FR-020-27"""
    start("--session", "alive", "bash", UP)
    alive = left(api)
    orphans = abandon(2)
    assert len(orphans) == 2 and len(alive) == 1
    d = daemon(keeper)
    assert wait_for(lambda: not left(api) & orphans), d.log()
    assert wait_for(lambda: removed(d) == 2)
    assert sum(line["removed"] for line in d.lines("cleanup")
               if line["driver"] == "docker") == 2
    # It goes on, and the one that lives outlives several rounds.
    orphans = abandon()
    assert wait_for(lambda: not left(api) & orphans), d.log()
    assert left(api) == alive
    assert wait_for(lambda: removed(d) == 3)
    assert d.run("echo served").json["stdout"] == "served\n"


def test_two_daemons_at_once_do_not_fight(api, daemon, abandon):
    """Each orphan is removed, and counted, once. covers: NFR-020-21"""
    both = [daemon("on"), daemon("off")]
    for _ in range(3):
        orphans = abandon(2)
        assert wait_for(lambda: not left(api) & orphans)
    assert wait_for(lambda: sum(removed(d) for d in both) == 6), [removed(d) for d in both]
    assert not [line for d in both for line in d.lines("cleanup") if line["level"] != "info"]


def test_a_server_for_agents_removes_orphans(api, env, abandon, tmp_path):
    """covers: FR-020-26"""
    config = tmp_path / "vial.yaml"
    config.write_text(json.dumps({"cleanup": OFTEN}))
    orphans = abandon()
    p = subprocess.Popen([VIAL, "mcp", "--config", str(config)], env=env, cwd="/", text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert wait_for(lambda: not left(api) & orphans)
        assert select.select([p.stderr], [], [], PATIENCE)[0]  # it is told after that
    finally:
        out, err = p.communicate(timeout=PATIENCE)
    assert (p.returncode, out) == (0, "")
    assert "vial: cleanup: 1 vessel of dead callers removed (docker)" in err


def test_an_interval_of_0_removes_nothing(api, daemon, abandon):
    orphans = abandon()
    d = daemon("off", {"interval": 0})
    for _ in range(3):
        assert d.run("true").json["verdict"] == "ok"
    time.sleep(1)
    assert left(api) >= orphans and removed(d) == 0


def test_an_engine_out_of_reach_is_waited_for_without_a_word(api, engine, daemon, abandon):
    """covers: NFR-020-13"""
    orphans = abandon()
    hidden = engine.socket + ".away"
    os.rename(engine.socket, hidden)
    try:
        d = daemon("on")
        time.sleep(1)
        assert d.run("echo served").json["stdout"] == "served\n"
        assert not d.lines("cleanup")
    finally:
        os.rename(hidden, engine.socket)
    assert wait_for(lambda: not left(api) & orphans), d.log()


def test_an_engine_that_hangs_delays_neither_runs_nor_the_end(engine, daemon):
    """covers: NFR-020-23"""
    engine.daemon.send_signal(signal.SIGSTOP)
    try:
        d = daemon("on")
        time.sleep(1)
        assert d.run("echo served").json["stdout"] == "served\n"
        assert d.stop(timeout=20) == 0  # its patience with the engine is longer
    finally:
        engine.daemon.send_signal(signal.SIGCONT)


def groups(pid):
    """Native vessels' cgroups of process PID."""
    return glob.glob("/sys/fs/cgroup/**/vial-*-%d-*" % pid, recursive=True)


@pytest.mark.parametrize("keeper", ["on", "off"])
def test_a_daemon_removes_what_a_native_run_left(daemon, env, keeper):
    """Its janitor was killed as well. covers: NFR-020-24"""
    p = subprocess.Popen([VIAL, "run", "--driver", "native", "bash", UP], env=env, cwd="/",
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    living = subprocess.Popen([VIAL, "run", "--driver", "native", "bash", UP], env=env, cwd="/",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline() == living.stdout.readline() == b"up\n"
        with open("/proc/%d/task/%d/children" % (p.pid, p.pid)) as f:
            children = [int(pid) for pid in f.read().split()]
        p.send_signal(signal.SIGSTOP)  # or it would tidy up after the first of them
        for pid in [*children, p.pid]:
            os.kill(pid, signal.SIGKILL)
        p.wait()
        assert groups(p.pid) and groups(living.pid)
        d = daemon(keeper)
        assert wait_for(lambda: not groups(p.pid)), d.log()
        assert wait_for(lambda: removed(d, "native") >= 1)
        assert groups(living.pid) and living.poll() is None
    finally:
        living.kill()
        living.wait()
