# SPDX-License-Identifier: Apache-2.0
"""What a client says in TLS and HTTP must be the name that it asked for."""

import pytest

from conftest import told
from servers import Raw

TLS = """
import socket, ssl
context = ssl.create_default_context(cadata=%r)
context.check_hostname = False
def say(host, name, port=443):
    try:
        with socket.create_connection((host, port), timeout=30) as s:
            with context.wrap_socket(s, server_hostname=name) as t:
                t.sendall(b"GET /hello HTTP/1.1\\r\\nHost: web.test\\r\\nConnection: close\\r\\n\\r\\n")
                print(t.recv(4096).split(b"\\r\\n")[0].decode())
    except OSError as e:
        print(type(e).__name__)
"""


def test_tls_to_the_name_that_was_asked_for_passes(world):
    r = world.python(TLS % world.ca + "say('web.test', 'web.test'); say('web.test', 'WEB.test')",
                     "--allow", "web.test")
    assert r.stdout.splitlines() == ["HTTP/1.1 200 OK"] * 2
    assert told(r) == [("web.test", 443, "ok")] * 2


@pytest.mark.parametrize("name, verdict", [("other.test", "other_name"), (None, "no_name")])
def test_tls_that_says_another_name_or_none_ends(world, name, verdict):
    accepted = len(world.names.asked)
    r = world.python(TLS % world.ca + f"say('web.test', {name!r})", "--allow", "web.test",
                     "--allow", "other.test")
    assert r.stdout == "ConnectionResetError\n"
    assert told(r) == [("web.test", 443, verdict)]
    assert len(world.names.asked) == accepted  # nobody was even looked up


def test_the_operator_can_let_clients_say_nothing(world):
    r = world.python(TLS % world.ca + "say('web.test', None)", "--allow", "web.test",
                     policy={"gate_unchecked": ["web.test:443"]})
    assert r.stdout == "HTTP/1.1 200 OK\n"


SEND = """
import socket
def send(port, *pieces):
    s = socket.create_connection(("raw.test", port), timeout=30)
    try:
        for piece in pieces:
            s.sendall(piece)
        s.shutdown(socket.SHUT_WR)
        got = s.recv(4096)
    except OSError as e:
        got = type(e).__name__.encode()
    print(got.split(b"\\r\\n")[0].decode() or "nothing")
"""


RESETS = ["ConnectionResetError", "BrokenPipeError", "OSError"]


@pytest.mark.parametrize("port, data, said, verdict", [
    (80, b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n", "ConnectionResetError", "other_name"),
    (80, b"GET / HTTP/1.1\r\n\r\n", "ConnectionResetError", "no_name"),
    (80, b"GET / HTTP/1.1\r\nHost: raw.test\r\nHost: other.test\r\n\r\n", "ConnectionResetError",
     "no_name"),
    (80, b"GET http://other.test/ HTTP/1.1\r\nHost: raw.test\r\n\r\n", "ConnectionResetError",
     "no_name"),
    (80, b"CONNECT other.test:443 HTTP/1.1\r\nHost: raw.test\r\n\r\n", "ConnectionResetError",
     "no_name"),
    (80, b"GET / HTTP/1.1\nHost: raw.test\n\n", "ConnectionResetError", "no_name"),
    (80, b"GET / HTTP/1.1\r\nx: " + b"y" * 20000, "ConnectionResetError", "no_name"),
    (80, b"SSH-2.0-x\r\n", "ConnectionResetError", "no_name"),
    (80, b"GET / HTTP/1.1\r\nHost: raw.test\r\nHost : other.test\r\n\r\n",
     "ConnectionResetError", "no_name"),
    (80, b"GET / HTTP/1.1\r\nHost: raw.test\r\nx: y\rHost: other.test\r\n\r\n",
     "ConnectionResetError", "no_name"),
    (80, b"GET / HTTP/1.1\r\nHost: raw.test\r\n .other.test\r\n\r\n",
     "ConnectionResetError", "no_name"),
    (443, b"GET / HTTP/1.1\r\nHost: raw.test\r\n\r\n", "ConnectionResetError", "no_name"),
    (443, b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "ConnectionResetError", "no_name"),
    (443, b"\x16\x03\x01\xff\xff" + b"\x01\x00\xff\xff" + b"\xff" * 17000,
     "ConnectionResetError", "no_name"),
    (2222, b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n", "ConnectionResetError", "other_name"),
    (2222, b"SSH-2.0-x\r\n", "SSH-2.0-x", "ok"),
    (2222, b"EHLO me\r\n", "EHLO me", "ok"),
    (2222, b"HI", "HI", "ok"),
    (2222, b"\x00\x01\x02", "\x00\x01\x02", "ok"),
    (2222, b"", "nothing", "ok"),
], ids=lambda value: str(value)[:40])
def test_what_a_client_says_first_is_judged(world, echo, port, data, said, verdict):
    r = world.python(SEND + f"send({port}, {data!r})", "--allow", "raw.test:80",
                     "--allow", "raw.test:443", "--allow", "raw.test:2222")
    # A reset may come while it still sends, or shuts its side.
    ways = RESETS if said == "ConnectionResetError" else [said]
    assert r.stdout in [way + "\n" for way in ways]
    assert told(r) == [("raw.test", port, verdict)]


def test_a_head_may_come_byte_by_byte(world):
    head = b"GET /hello HTTP/1.1\r\nHost: raw.test:80\r\nConnection: close\r\n\r\n"
    pieces = ", ".join(repr(bytes([b])) for b in head)
    r = world.python(SEND + f"send(80, {pieces})", "--allow", "raw.test")
    assert r.stdout == "HTTP/1.1 200 OK\n"


@pytest.fixture(scope="module")
def echo():
    """Says back what it is told, on a port of which the gate knows nothing."""
    def handle(peer):
        while data := peer.recv(4096):
            peer.sendall(data)
        peer.close()

    return Raw(2222, handle)


def test_a_server_that_speaks_first_is_heard(world):
    def greet(peer):
        peer.sendall(b"220 ready\r\n")
        peer.recv(1)
        peer.close()

    Raw(2525, greet)
    code = "import socket; print(socket.create_connection(('raw.test', 2525)).recv(99).decode())"
    r = world.python(code, "--allow", "raw.test:2525")
    assert r.stdout.startswith("220 ready")
