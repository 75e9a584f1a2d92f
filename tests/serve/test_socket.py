# SPDX-License-Identifier: Apache-2.0
"""The name of the daemon's socket, when daemons begin and end beside each other."""
import os
import socket
import subprocess

from daemon import VIALD, Daemon, clean_env

AT_ONCE = 6
ROUNDS = 8


def left_by_the_dead(path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
        dead.listen()


def begin(path):
    return subprocess.Popen([VIALD, "--listen", "unix:" + path, "--keeper", "off"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, env=clean_env(HOME="/"),
                            cwd="/")


def serves(process):
    """Whether it became ready; it ends by itself otherwise."""
    for line in process.stderr:
        if "event=ready" in line:
            return True
    assert process.wait() == 125
    return False


def answers(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        return b" 200 " in client.recv(100)


def test_of_daemons_that_begin_at_once_one_alone_has_the_socket(tmp_path):
    for turn in range(ROUNDS):
        path = str(tmp_path / ("%d.sock" % turn))
        left_by_the_dead(path)
        all_of_them = [begin(path) for _ in range(AT_ONCE)]
        serving = [p for p in all_of_them if serves(p)]
        try:
            assert len(serving) == 1
            assert answers(path)
        finally:
            for p in serving:
                p.terminate()
            for p in all_of_them:
                p.communicate()
        assert not list(tmp_path.iterdir())


def test_a_daemon_that_ends_leaves_anothers_socket_under_its_name():
    with Daemon(serve={"keeper": "off"}) as first:
        os.unlink(first.socket)
        second = begin(first.socket)
        try:
            assert serves(second)
            assert first.stop() == 0
            assert answers(first.socket)
        finally:
            second.terminate()
            second.communicate()
        assert not os.path.exists(first.socket)


def test_a_file_in_the_way_is_left_and_named_with_what_to_do(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    with begin(str(mine)) as process:
        said = process.communicate()[1]
    assert process.returncode == 125
    assert "not a socket" in said and "--listen" in said
    assert mine.read_text() == "mine"
    assert os.listdir(tmp_path) == ["mine"]
