# SPDX-License-Identifier: Apache-2.0
"""Piston's and go-judge's WebSockets, with a client from npm and by hand."""
import base64
import contextlib
import json
import os
import select
import socket
import struct

import pytest

from wire import TOKEN, Wired, wait_until

DONE = {"closed": 4999, "reason": "Job Completed"}


def test_pistons_jobs_have_their_input_and_signals_live(daemon, node):
    said = json.loads(node("piston_connect.mjs", daemon.url_with_token))
    assert said["asked"] == {"stages": ["run"], "out": "who? hi me\n", "exit": ["run", 0, None],
                             **DONE}
    assert said["compiled"]["stages"] == ["compile", "run"]
    assert said["compiled"]["exit"] == ["run", 5, None]
    assert said["broken"]["exit"] == ["compile", 1, None] and "error" in said["broken"]["out"]
    assert said["ended"]["out"] == "3\n"
    assert said["signalled"]["exit"] == ["run", None, "SIGTERM"]
    assert said["late"]["exit"] == ["run", None, "SIGKILL"]
    assert said["unknown"]["error"] == "cobol-* runtime is unknown"
    closed = {name: told["closed"] for name, told in said.items()}
    assert closed == {"asked": 4999, "compiled": 4999, "broken": 4999, "ended": 4999,
                      "signalled": 4999, "late": 4999, "twice": 4000, "silent": 4001,
                      "unknown": 4002, "early": 4003, "stream": 4004, "signal": 4005}


def test_go_judges_requests_are_answered_as_they_end(daemon, node):
    said = json.loads(node("gojudge_ws.mjs", daemon.url_with_token))
    assert said == {"slow": ['duplicated request id: "slow"', ""], "": ["empty request id"],
                    "bad": ["no cmd provided"], "quick": ["xxx\n"], "last": "Signalled",
                    "closed": 1000}


def test_go_judges_streams_are_live(daemon, node):
    said = json.loads(node("gojudge_stream.mjs", daemon.url_with_token))
    # What came before an input was sent, and all that came.
    assert said["asked"] == {"before": "who? ", "out": {"0/1": "who? hello me\n", "0/2": "done"},
                             "statuses": ["Accepted"], "closed": 1000, "id": "one"}
    assert said["two"]["out"] == {"0/1": "3\n", "1/1": "7\n"}
    assert said["two"]["statuses"] == ["Accepted", "Accepted"]
    assert said["large"]["size"] == 3 << 20 and said["large"]["statuses"] == ["Accepted"]
    assert said["bytes"]["hex"] == "ff00fe0a"
    assert said["cancelled"]["statuses"] == ["Signalled"]
    assert said["tty"]["error"] == "tty is not supported"
    assert said["broken"]["error"].startswith("parse 'request'")
    assert (said["early"]["closed"], said["early"]["reason"]) == (
        1008, "the first stream request must be exec request")
    assert (said["sized"]["closed"], said["sized"]["reason"]) == (
        1008, "resize input does not have tty")
    assert (said["other"]["closed"], said["other"]["reason"]) == (1008, "input does not exist")


@pytest.mark.parametrize("files,told", [
    ([{"streamIn": True}], "files[0]: streamIn is for /stream"),
    ([None, {"streamOut": True}], "files[1]: streamOut is for /stream")])
def test_a_request_that_is_not_streamed_has_no_live_files(daemon, files, told):
    status, answer = daemon.call("POST", "/run", {"cmd": [{"args": ["true"], "files": files}]})
    assert (status, answer) == (400, told)


def test_a_client_that_hangs_up_ends_what_it_streamed(daemon):
    raw = Raw(daemon, "/stream")
    code = "import sys, time\nprint('on', flush=True)\ntime.sleep(600)"
    raw.send(2, b"\x01" + json.dumps({"cmd": [{
        "args": ["python3", "-c", code], "env": ["PATH=/usr/bin:/bin"], "clockLimit": 25e9,
        "files": [{"streamIn": True}, {"streamOut": True}]}]}).encode())
    assert raw.frame() == (2, b"\x02\x01on\n")
    raw.socket.close()
    assert wait_until(lambda: not daemon.call("GET", "/judge0/workers")[1][0]["working"])
    newest = daemon.call("GET", "/v1/runs?limit=1")[1][0]
    assert newest["verdict"] == "cancelled"


def test_a_client_that_hangs_up_is_noticed_while_its_input_waits(daemon):
    """It was noticed when the command had ended by itself."""
    raw = Raw(daemon, "/stream")
    code = "print('on', flush=True)\nwhile True: pass"
    raw.send(2, b"\x01" + json.dumps({"cmd": [{
        "args": ["python3", "-c", code], "env": ["PATH=/usr/bin:/bin"], "cpuLimit": 25e9,
        "clockLimit": 25e9, "files": [{"streamIn": True}, {"streamOut": True}]}]}).encode())
    assert raw.frame() == (2, b"\x02\x01on\n")
    raw.send(2, b"\x03\x00" + b"x" * (1 << 20))  # more than all pipes on the way hold
    raw.socket.close()
    while daemon.call("GET", "/judge0/workers")[1][0]["working"]:
        pass
    newest = daemon.call("GET", "/v1/runs?limit=1")[1][0]
    assert newest["verdict"] == "cancelled"


def test_piston_apis_own_sessions_are_satisfied(daemon, node):
    assert json.loads(node("piston_session.mjs", daemon.url_with_token)) == {"out": "5\n"}


class Raw:
    """A client that keeps to no rule but ours."""

    def __init__(self, daemon, path="/ws", **headers):
        self.socket = socket.create_connection(("127.0.0.1", daemon.port), timeout=30)
        given = {"Host": "127.0.0.1", "Upgrade": "websocket", "Connection": "Upgrade",
                 "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
                 "Sec-WebSocket-Version": "13", "Authorization": "Bearer " + TOKEN, **headers}
        head = "GET %s HTTP/1.1\r\n" % path + "".join(
            "%s: %s\r\n" % pair for pair in given.items() if pair[1])
        self.socket.sendall(head.encode() + b"\r\n")
        self.head = b""
        while b"\r\n\r\n" not in self.head:
            some = self.socket.recv(4096)
            if not some:
                break
            self.head += some
        self.status = int(self.head.split()[1])

    def send(self, opcode, data, fin=True, masked=True, length=None):
        mask = os.urandom(4) if masked else b""
        n = len(data) if length is None else length
        size = bytes([n]) if n < 126 else b"\x7e" + struct.pack("!H", n) if n < 65536 else \
            b"\x7f" + struct.pack("!Q", n)
        size = bytes([size[0] | (0x80 if masked else 0)]) + size[1:]
        body = bytes(b ^ mask[i % 4] for i, b in enumerate(data)) if masked else data
        self.socket.sendall(bytes([(0x80 if fin else 0) | opcode]) + size + mask + body)

    def frame(self):
        """Opcode and content of the next frame; None at the end."""
        head = self.socket.recv(2, socket.MSG_WAITALL)
        if len(head) < 2:
            return None
        n = head[1] & 127
        if n == 126:
            n = struct.unpack("!H", self.socket.recv(2, socket.MSG_WAITALL))[0]
        elif n == 127:
            n = struct.unpack("!Q", self.socket.recv(8, socket.MSG_WAITALL))[0]
        content = bytearray()
        while len(content) < n and (some := self.socket.recv(min(n - len(content), 1 << 20))):
            content += some
        return head[0] & 15, bytes(content)


def test_the_handshake_has_the_answer_that_the_rfc_says(daemon):
    raw = Raw(daemon, **{"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
    assert raw.status == 101
    assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in raw.head


@pytest.mark.parametrize("headers,status", [
    ({"Authorization": None}, 401), ({"Upgrade": None}, 426), ({"Sec-WebSocket-Key": "x"}, 426),
    ({"Sec-WebSocket-Version": "8"}, 426), ({"Origin": "http://elsewhere"}, 400)])
def test_a_handshake_that_is_not_right_is_refused(daemon, headers, status):
    assert Raw(daemon, **headers).status == status


@pytest.mark.parametrize("opcode,data,how,code", [
    (1, b"x", {"masked": False}, 1002),   # a client masks
    (3, b"x", {}, 1002),                  # no such kind
    (9, b"x", {"fin": False}, 1002),      # a ping is whole
    (9, b"x" * 126, {}, 1002),            # and short
    (0x41, b"x", {}, 1002),               # an extension that nobody offered
    (0, b"x", {}, 1009),                  # goes on with nothing
    (1, b"", {"length": 1 << 40}, 1009),  # more than anyone takes
])
def test_a_frame_against_the_rules_ends_it(daemon, opcode, data, how, code):
    raw = Raw(daemon)
    raw.send(opcode, data, **how)
    said, content = raw.frame()
    assert (said, struct.unpack("!H", content[:2])[0]) == (8, code)


def test_parts_make_one_message_with_a_ping_between(daemon):
    raw = Raw(daemon)
    raw.send(1, b'{"requestId"', fin=False)
    raw.send(9, b"hello")
    raw.send(0, b': ""}')
    assert raw.frame() == (10, b"hello")
    assert json.loads(raw.frame()[1]) == {"requestId": "", "results": [],
                                          "error": "empty request id"}
    raw.send(8, struct.pack("!H", 1000))
    assert raw.frame()[0] == 8
    assert raw.frame() is None


@pytest.fixture(scope="module")
def tight():
    with Wired(serve={"body": "64k"}) as d:
        yield d


@pytest.mark.parametrize("path", ["/ws", "/stream", "/api/v2/connect"])
def test_a_message_is_no_longer_than_a_body(tight, path):
    raw = Raw(tight, path)
    raw.send(1, b"x" * 40000, fin=False)
    raw.send(0, b"x" * 40000)
    said, content = raw.frame()
    assert (said, struct.unpack("!H", content[:2])[0]) == (8, 1009)


def test_messages_count_for_their_callers_share():
    part = b"x" * (1 << 20)
    with Wired() as d:
        raws = [Raw(d) for _ in range(5)]  # four have all of it
        with contextlib.suppress(OSError):  # it may be closed meanwhile
            for raw in raws:
                for n in range(63):
                    raw.socket.sendall(bytes([n == 0, 0xff]) + struct.pack("!QI", len(part), 0)
                                       + part)
        told = select.select([raw.socket for raw in raws], [], [], 30)[0][0]
        said, content = next(raw for raw in raws if raw.socket is told).frame()
        assert (said, struct.unpack("!H", content[:2])[0]) == (8, 1013)


def test_a_request_over_a_socket_gives_back_what_it_took(tight):
    raw = Raw(tight)
    for n in range(3):
        raw.send(1, json.dumps({"requestId": "r%d" % n, "cmd": [], "x": "y" * 60000}).encode())
        assert json.loads(raw.frame()[1])["error"] == "no cmd provided"


def test_a_long_answer_is_one_message_and_is_not_made_in_memory():
    code = "import sys; sys.stdout.buffer.write(b'a\\0\\xff' * (8 << 20))"
    asked = {"requestId": "1", "cmd": [{
        "args": ["/usr/bin/python3", "-c", code], "cpuLimit": 10 ** 10, "procLimit": 50,
        "memoryLimit": 256 << 20, "files": [{"content": ""}, {"name": "out", "max": 64 << 20}]}]}
    with Wired() as daemon:
        raw = Raw(daemon)
        raw.send(1, json.dumps(asked).encode())
        opcode, content = raw.frame()
        told = json.loads(content)
        assert (opcode, told["requestId"], told["results"][0]["status"]) == (1, "1", "Accepted")
        assert told["results"][0]["files"]["out"] == "a\0\ufffd" * (8 << 20)
        assert daemon.peak() < 120 << 20
        raw.send(9, b"still there")
        assert raw.frame() == (10, b"still there")


def test_a_daemon_ends_while_sockets_are_open():
    with Wired() as d:
        raw = [Raw(d), Raw(d, "/api/v2/connect"), Raw(d, "/stream")]
        assert [r.status for r in raw] == [101, 101, 101]
        assert d.stop() == 0
