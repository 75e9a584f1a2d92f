# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with an engine while vial uses it. Each time: a true verdict or a true
error, and nothing left running after the next start."""
import json
import os
import signal
import socket
import subprocess
import threading

import pytest
from conftest import BUILD, PATIENCE, VIAL
from engine import PORT, Engine, wait_for
from proxy import Proxy

UP = "echo up; sleep 60"
# A registry's line, which is cut for good when a piece of this length has passed.
CUT = """
import os, socket, threading
listener = socket.create_server(("127.0.0.1", %d))
print("up", flush=True)
def pass_on(a, b, left):
    while data := a.recv(65536):
        left -= len(data)
        if left < 0:
            os._exit(0)
        b.sendall(data)
    b.shutdown(socket.SHUT_WR)
while True:
    client, server = listener.accept()[0], socket.create_connection(("127.0.0.1", %d))
    for pair in ((client, server), (server, client)):
        threading.Thread(target=pass_on, args=(*pair, 8 << 20)).start()
""" % (PORT, PORT + 1)


def nothing_left(engine, vial):
    """After the next start: no container, no process of a container."""
    assert vial("cleanup").returncode == 0
    return wait_for(lambda: not engine.api.ours())


@pytest.fixture
def proxy(engine):
    line = Proxy(engine.socket, os.path.join(engine.run, "proxy.sock"))
    yield line
    line.cut()


def bring_back(engine):
    engine.stop_registry()
    engine.start_daemon()
    engine.start_registry()


@pytest.mark.parametrize("moment", ["GET /", "POST /containers/create"])
def test_an_engine_that_was_busy_once_is_asked_again(proxy, run, api, moment):
    """covers: FR-020-33 NFR-020-20"""
    left = proxy.refuse_once(moment)
    r = run("--retry-wait", "20ms", "bash", "echo done", DOCKER_HOST=proxy.address)
    assert (r["verdict"], r["stdout"]) == ("ok", "done\n"), r
    assert left == []
    assert wait_for(lambda: not api.ours())


@pytest.mark.parametrize("moment", ["POST /containers/create", "POST /containers/"])
def test_an_engine_killed_while_it_makes_a_container(engine, proxy, run, vial, moment):
    """At create; and at attach, the container being there. covers: NFR-020-13 NFR-020-22"""
    killed = threading.Event()

    def kill():
        if not killed.is_set():
            killed.set()
            engine.stop_daemon(signal.SIGKILL)
    if moment.endswith("create"):
        proxy.on(moment, kill)
    else:
        proxy.on("POST /containers/", lambda: None)
        seen = []
        proxy.on("POST /containers/",
                 lambda: (seen.append(1), kill() if len(seen) == 2 else None))
    try:
        r = run("bash", "true", DOCKER_HOST=proxy.address)
        assert killed.is_set()
        assert r["verdict"] == "failed", r
        assert r["error"]["code"] in ("VIAL-ENGINE-DOWN", "VIAL-ENGINE-MISSING"), r
    finally:
        bring_back(engine)
    assert nothing_left(engine, vial)
    assert run("bash", "echo again")["stdout"] == "again\n"


@pytest.mark.parametrize("way", ["bind", "copy"])
def test_an_engine_that_is_killed_mid_run(engine, vial, run, env, way):
    """Over a line of its own the run goes on to its end; over the engine's stream it has
    failed. covers: NFR-020-13 NFR-020-24"""
    p = subprocess.Popen([VIAL, "run", "--driver", "docker", "bash",
                          "echo up; read x; echo got $x"], cwd="/",
                         env={**env, "VIAL_TEST_PLACE": way}, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    engine.stop_daemon(signal.SIGKILL)
    try:
        out, err = p.communicate(b"word\n", timeout=PATIENCE)
        if way == "bind":
            assert (p.returncode, out) == (0, b"got word\n"), err
        else:
            assert p.returncode == 125 and b"VIAL-LOST" in err, err
    finally:
        bring_back(engine)
    assert nothing_left(engine, vial)
    assert run("bash", "echo again")["stdout"] == "again\n"


def test_an_engine_that_stops_answering_lengthens_no_run(engine, start, api):
    """The deadline is ours, and so is the kill. covers: NFR-020-23 FR-020-22"""
    p = start("--timeout", "6s", "bash", UP)
    engine.daemon.send_signal(signal.SIGSTOP)
    try:
        _, err = p.communicate(timeout=PATIENCE)
    finally:
        engine.daemon.send_signal(signal.SIGCONT)
    assert p.returncode == 124, err
    assert wait_for(lambda: not api.ours())


def test_a_socket_that_is_removed_ends_no_run_and_is_told_to_the_next(engine, run, start, env,
                                                                      api):
    """covers: NFR-020-18 FR-020-05"""
    p = subprocess.Popen([VIAL, "run", "--driver", "docker", "bash",
                          "echo up; read x; echo got $x"], env=env, cwd="/",
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    hidden = engine.socket + ".hidden"
    os.rename(engine.socket, hidden)
    try:
        assert run("bash", "true")["error"]["code"] == "VIAL-ENGINE-DOWN"
        out, _ = p.communicate(b"word\n", timeout=PATIENCE)
        assert (p.returncode, out) == (0, b"got word\n")
    finally:
        os.rename(hidden, engine.socket)
    assert wait_for(lambda: not api.ours())


def test_a_registry_cut_mid_pull_is_told_and_the_next_pull_is_whole(engine, api, vial, run):
    """covers: NFR-020-15 NFR-020-18 FR-020-88"""
    if engine.has("cut:1"):  # of a run that was cut itself
        api.untag("cut:1")
    made = api.call("POST", "/containers/create",
                    {"Image": engine.small(), "Entrypoint": ["/bin/cat"]})
    big = os.path.join(engine.run, "big.tar")
    with open(os.path.join(engine.run, "big"), "wb") as f:
        f.write(os.urandom(30 << 20))
    subprocess.run(["tar", "-C", engine.run, "-cf", big, "big"], check=True)
    with open(big, "rb") as f:
        api.call("PUT", "/containers/%s/archive?path=/" % made["Id"], f,
                 {"Content-Type": "application/x-tar"})
    api.call("POST", "/commit?repo=vial-test-big&tag=1&container=" + made["Id"])
    api.call("DELETE", "/containers/" + made["Id"])
    engine.publish("vial-test-big:1", "library/cut:1")
    api.untag("vial-test-big:1")
    engine.stop_registry()
    engine.start_registry(PORT + 1)
    line = subprocess.Popen([*engine.inside, "python3", "-c", CUT], stdout=subprocess.PIPE)
    try:
        assert line.stdout.readline() == b"up\n"
        done = vial("image", "pull", "--driver", "docker", "--json", "--timeout", "4s", "cut:1")
        code = json.loads(done.stdout)["error"]["code"]
        assert done.returncode == 125 and code in ("VIAL-PULL", "VIAL-PULL-TIMEOUT"), done
        assert code == "VIAL-PULL-TIMEOUT" or line.wait(PATIENCE) == 0  # by itself
        assert run("--no-pull", "--image", "cut:1", "bash", "true")["error"]["code"] == \
            "VIAL-IMAGE"
    finally:
        line.kill()
        line.communicate()
        engine.stop_registry()
        engine.start_registry()
    assert wait_for(lambda: vial("image", "pull", "--driver", "docker", "cut:1").returncode == 0)
    assert run("--image", "cut:1", "bash", "echo whole")["stdout"] == "whole\n"
    api.untag("cut:1")


@pytest.fixture(scope="module")
def tiny():
    """A second engine, whose data directory holds 48 MiB."""
    place = os.path.join(BUILD, "docker-tiny")
    os.makedirs(os.path.join(place, "data"), exist_ok=True)
    data = os.path.join(place, "data")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", data], check=True)
    e = Engine(place, "-tiny")
    try:
        e.start_bare()
        e.small()
        yield e
    finally:
        e.stop()
        subprocess.run(["umount", "-R", data], check=False)


def test_a_full_disk_is_told_apart_and_leaves_nothing(tiny, run, vial):
    """covers: NFR-020-17 NFR-020-16"""
    ballast = os.path.join(tiny.dir, "data", "ballast")
    host = {"DOCKER_HOST": tiny.address}
    assert run("--image", tiny.small(), "bash", "echo hi", **host)["stdout"] == "hi\n"
    assert wait_for(lambda: not tiny.api.ours())
    with open(ballast, "wb") as f:
        try:
            while f.write(b"\0" * 65536):
                f.flush()
        except OSError:
            pass
    r = run("--image", tiny.small(), "bash", "echo hi", **host)
    assert r["error"]["code"] == "VIAL-ENGINE-SPACE", r
    assert "vial image prune" in r["error"]["remedy"] and r["verdict"] == "failed"
    os.unlink(ballast)
    assert vial("cleanup", **host).returncode == 0
    assert wait_for(lambda: not tiny.api.ours())
    assert run("--image", tiny.small(), "bash", "echo again", **host)["stdout"] == "again\n"
