# SPDX-License-Identifier: Apache-2.0
"""What hostile programs and servers can make of a gate: nothing but their own loss."""

import os
import signal
import socket
import struct
import subprocess
import threading
from pathlib import Path

import pytest

from conftest import told
from servers import HOST, Handler, Raw, wait_until

HELLO = """
import urllib.request
print(urllib.request.urlopen("http://web.test/hello", timeout=60).read().decode().strip())
"""
ALLOW = ("--allow", "web.test", "--allow", "raw.test:7000-7009")


def gates_of(parent):
    """The gates that PARENT, a process, has started: their /proc directories."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(line.split(":\t", 1) for line in
                          (path / "status").read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if status["Name"] == "vial-gate" and int(status["PPid"]) == parent:
            found.append((path, status))
    return found


def test_a_gate_has_no_right_but_to_connect(world):
    p = world.start("run", "--network", "gate", "--allow", "web.test", "sh", "sleep 60",
                    stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: [s for _, s in gates_of(p.pid) if s["Seccomp"] == "2"])
        path, status = gates_of(p.pid)[0]
        for which in ["CapInh", "CapPrm", "CapEff", "CapAmb"]:
            assert int(status[which], 16) == 0, which
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        if os.geteuid() == 0:
            assert status["Uid"].split() == ["65534"] * 4 == status["Gid"].split()
            assert status["Groups"].strip() == ""
        # Its standard streams, the guest, its owner, and what it waits with.
        leads_to = [os.readlink(fd).split(":")[0] for fd in sorted((path / "fd").iterdir())]
        assert leads_to.count("socket") == 2 and leads_to.count("anon_inode") == 1
        assert int(status["VmRSS"].split()[0]) < 1024
    finally:
        p.kill()
        p.wait()
    wait_until(lambda: not path.exists())


BOMBS = r"""
import random, socket, struct
S = ("127.64.0.1", 53)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(1)
def ask(name, type=1, id=7, flags=0x100, count=1):
    return struct.pack(">HHHHHH", id, flags, count, 0, 0, 0) + name + struct.pack(">HH", type, 1)
def rcode(message, via=u):
    for attempt in range(60):
        via.sendto(message, S)
        try:
            got = via.recv(2000)
            break
        except TimeoutError:  # its queue was full
            pass
    return got[3] & 15, struct.unpack(">H", got[6:8])[0]
web = b"\x03web\x04test\0"
print("good", rcode(ask(web)))
print("aaaa", rcode(ask(web, 28)), "https", rcode(ask(web, 65)), "txt", rcode(ask(web, 16)))
print("loop", rcode(ask(b"\xc0\x0c")), "ahead", rcode(ask(b"\xc0\x0e")))
print("long", rcode(ask((b"\x3f" + b"a" * 63) * 5 + b"\0")))
print("nul", rcode(ask(b"\x04w\0eb\x04test\0")), "upper", rcode(ask(b"\x03WEB\x04tesT\0")))
print("none", rcode(ask(b"", count=0)), "two", rcode(ask(web, count=2)))
print("cut", rcode(ask(web)[:-5]), "opcode", rcode(ask(web, flags=0x2800)))
u.sendto(b"x", S); u.sendto(b"", S); u.sendto(ask(web, flags=0x8100), S)
for seed in range(3000):
    random.seed(seed)
    u.sendto(random.randbytes(random.randrange(1, 512)), S)
for i in range(20000):
    u.sendto(ask(b"\x05" + b"%05d" % i + b"\x04evil\0"), S)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(1)
print("after", rcode(ask(web), u))
t = [socket.create_connection(S) for _ in range(50)]
t[0].close(); t[-1].sendall(struct.pack(">H", 65535) + b"x" * 4096)
t = socket.create_connection(S); t.settimeout(30)
for piece in (b"\0", bytes([len(ask(web))]), ask(web)[:5], ask(web)[5:]):
    t.sendall(piece)
print("tcp", t.recv(2000)[5] & 15)
"""


def test_no_question_stops_the_answers(world):
    r = world.python(BOMBS + HELLO, "--timeout", "100s", *ALLOW)
    assert r.stdout.splitlines() == [
        "good (0, 1)", "aaaa (0, 0) https (0, 0) txt (0, 0)", "loop (1, 0) ahead (1, 0)",
        "long (1, 0)", "nul (3, 0) upper (0, 1)", "none (1, 0) two (1, 0)",
        "cut (1, 0) opcode (4, 0)", "after (0, 1)", "tcp 0", "hello from web.test"]
    assert r.network.left_out > 100  # of the names that were refused; others were not even told
    assert len(r.network.connections) == 128


def test_names_below_a_star_are_limited_in_number(world):
    """Or names that are asked for could carry data out, through the host's name server."""
    code = """
import socket
def known(name):
    try:
        return bool(socket.gethostbyname(name))
    except OSError as e:
        return e.errno
print([known("n%d.wild.test" % i) for i in range(130)].count(True))
"""
    r = world.python(code, "--allow", "*.wild.test")
    assert r.stdout == "128\n"
    assert not [name for name, _ in world.names.asked if name.startswith("n1")]


MANY = """
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
held, ended = [], 0
for i in range(10000):
    try:
        s = socket.create_connection(("raw.test", 7000 + i % 10), timeout=30)
    except OSError:
        ended += 1
        continue
    held.append(s)
    if len(held) > 1000:
        held.pop(0).close()
print("still here")
for s in held:
    s.close()
import time, urllib.request
for attempt in range(100):  # until those are gone that were let out
    try:
        print(urllib.request.urlopen("http://web.test/hello", timeout=60).read().decode().strip())
        break
    except OSError:
        time.sleep(0.1)
"""


def test_ten_thousand_connections_end_in_refusals(world):
    for port in range(7000, 7010):
        Raw(port, lambda peer: peer.recv(1))
    r = world.python(MANY, "--open-files", "4000", "--timeout", "280s", *ALLOW)
    assert r.stdout.splitlines() == ["still here", "hello from web.test"]
    assert len(r.network.connections) == 128 and r.network.left_out > 100
    assert "limit" in {c.verdict for c in r.network.connections}


STUCK = """
import socket
socks = [socket.create_connection(("raw.test", 7100), timeout=60) for _ in range(20)]
for s in socks:
    s.sendall(b"x")
for s in socks:
    s.recv(1, socket.MSG_PEEK)  # it has come, and stays unread
"""


def test_a_program_that_never_reads_holds_up_nobody(world):
    def flood(peer):
        peer.recv(1)
        try:
            while True:
                peer.sendall(b"y" * 65536)
        except OSError:
            pass

    Raw(7100, flood)
    r = world.python(STUCK + HELLO, "--allow", "raw.test:7100", "--allow", "web.test")
    assert r.stdout == "hello from web.test\n"
    bound = 20 * (1 << 20)  # windows, and the kernel's buffers
    assert 0 < sum(c.bytes_in for c in r.network.connections) < bound


def test_a_server_that_never_reads_holds_up_nobody(world):
    peers = []
    Raw(7101, peers.append)
    code = """
import socket
s = socket.create_connection(("raw.test", 7101)); s.setblocking(False)
sent = 0
while True:
    try:
        sent += s.send(b"z" * 65536)
    except BlockingIOError:
        import time; time.sleep(0.2)
        try:
            sent += s.send(b"z")
        except BlockingIOError:
            break
print(sent < 64 << 20)
"""
    r = world.python(code + HELLO, "--allow", "raw.test:7101", "--allow", "web.test")
    assert r.stdout.splitlines() == ["True", "hello from web.test"]


def test_a_gate_that_is_killed_leaves_a_vessel_without_a_network(world):
    code = """
import socket, sys, time
s = socket.create_connection(("raw.test", 7102)); s.sendall(b"x")
print("ready", flush=True)
try:
    print(s.recv(1))
except OSError as e:
    print(type(e).__name__)
try:
    while socket.gethostbyname("web.test"):  # until the guest has seen it, too
        time.sleep(0.01)
except OSError as e:
    print(type(e).__name__)
"""
    Raw(7102, lambda peer: peer.recv(100) and peer.recv(1))
    p = world.start("run", "--network", "gate", "--allow", "raw.test:7102", "--allow", "web.test",
                    "--timeout", "60s", "python", code, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    os.kill(int(gates_of(p.pid)[0][0].name), signal.SIGKILL)
    assert p.stdout.read() == "ConnectionResetError\ngaierror\n"
    assert p.wait(60) == 0


@pytest.mark.parametrize("end", ["timeout", "killed"])
def test_a_vessel_that_dies_in_mid_transfer_leaves_nothing(world, end):
    closed = threading.Event()

    def pour(peer):
        try:
            while True:
                peer.sendall(b"y" * 65536)
        except OSError:
            closed.set()

    server = Raw({"timeout": 7103, "killed": 7104}[end], pour)
    port = server.socket.getsockname()[1]
    code = f"""
import socket
s = socket.create_connection(("raw.test", {port}))
while s.recv(65536):
    pass
"""
    p = world.start("run", "--network", "gate", "--allow", f"raw.test:{port}", "--timeout",
                    "6s" if end == "timeout" else "60s", "python", code,
                    stderr=subprocess.DEVNULL)
    wait_until(lambda: server.accepted)
    gates = [path for path, _ in gates_of(p.pid)]
    if end == "killed":
        p.kill()
    p.wait(60)
    assert closed.wait(60)
    wait_until(lambda: not any(path.exists() for path in gates))


def test_a_name_server_that_is_silent_ends_in_a_refusal_and_stops_nobody_else(world):
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind((HOST, 0))
    address = "%s:%d" % silent.getsockname()
    code = HELLO.replace("print(", "try:\n    print(") + "except OSError as e:\n    print(e)\n"
    r = world.python(code, "--allow", "web.test", "--timeout", "60s",
                     policy={"gate_resolvers": [address]})
    assert "reset" in r.stdout
    assert told(r) == [("web.test", 80, "unresolved")]
    asked = silent.recv(512)
    assert struct.unpack(">H", asked[4:6])[0] == 1


SLOW = """
import socket, time, urllib.request
slow = [socket.create_connection(("web.test", 80), timeout=60) for _ in range(30)]
for s in slow:
    s.sendall(b"G")
print(urllib.request.urlopen("http://web.test/hello", timeout=60).read().decode().strip())
try:
    for letter in b"ET / HTTP/1.1\\r\\nHost: web.test\\r\\nX: " + b"y" * 1000:
        slow[0].sendall(bytes([letter]))
        time.sleep(0.1)
    print("never ended")
except OSError as e:
    print(type(e).__name__)
"""


def test_a_head_that_comes_slowly_holds_up_nobody_and_ends(world):
    """Slow loris: it has 15 seconds for all of its first head, not for each byte."""
    before = len(Handler.seen)
    r = world.python(SLOW, "--timeout", "100s", *ALLOW)
    assert r.stdout.splitlines()[0] == "hello from web.test", r.stderr
    assert r.stdout.splitlines()[1] in ("ConnectionResetError", "BrokenPipeError")
    assert ("web.test", 80, "no_name") in told(r)
    assert len(Handler.seen) == before + 1  # the slow ones have reached nobody


def test_half_open_connections_hold_up_nobody_and_end(world):
    """A server whose queue is full answers no more: connections to it stay half-open."""
    server = socket.socket()
    server.bind((HOST, 7120))
    server.listen(0)
    full = [socket.socket() for _ in range(4)]
    for s in full:
        s.setblocking(False)
        s.connect_ex((HOST, 7120))
    code = """
import socket
half = [socket.create_connection(("raw.test", 7120), timeout=60) for _ in range(30)]
for s in half:
    s.sendall(b"x")
""" + HELLO + """
for s in half:
    try:
        s.recv(1)
    except OSError as e:
        pass
print("all ended")
"""
    r = world.python(code, "--timeout", "100s", "--allow", "raw.test:7120", "--allow", "web.test")
    assert r.stdout.splitlines() == ["hello from web.test", "all ended"], r.stderr
    assert {verdict for name, _, verdict in told(r) if name == "raw.test"} == {"timeout"}


STORM = """
import socket, struct
now = struct.pack("ii", 1, 0)
for i in range(2000):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
    try:
        s.connect(("raw.test", 7121))
        if i % 2:
            s.sendall(b"x" * (i % 5000))
    except OSError:
        pass  # the other side's came first
    s.close()
"""


def test_a_storm_of_resets_from_both_sides_breaks_nothing(world):
    def reset(peer):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()

    Raw(7121, reset)
    r = world.python(STORM + HELLO, "--timeout", "100s", "--allow", "raw.test:7121", "--allow", "web.test")
    assert r.stdout == "hello from web.test\n", r.stderr
    assert r.network.whole is True


@pytest.mark.parametrize("to, verdict", [
    ("http://169.254.169.254/latest", None), ("http://10.0.0.1/", None), ("http://127.0.0.1:22/", None),
    ("http://lead.test/", "private_address"), ("http://other.test/", "denied"),
])
def test_a_redirect_leads_to_no_private_address(world, to, verdict):
    world.names.names["lead.test"] = ["10.0.0.1"]
    code = f"""
import urllib.request
try:
    print(urllib.request.urlopen("http://web.test/to/{to}", timeout=60).read())
except OSError as e:
    print("refused")
"""
    r = world.python(code, "--allow", "web.test", "--allow", "lead.test")
    assert r.stdout == "refused\n", r.stderr
    assert ("web.test", 80, "ok") in told(r)
    assert {v for name, _, v in told(r) if name != "web.test"} == ({verdict} if verdict else set())
