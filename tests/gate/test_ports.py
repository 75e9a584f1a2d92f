# SPDX-License-Identifier: Apache-2.0
"""Ports of sessions: over the daemon's HTTP, by `vial session forward`, and published."""

import contextlib
import hashlib
import http.client
import json
import signal
import socket
import subprocess
import sys

import pytest

from conftest import DRIVER, PATIENCE, ROOT, VIAL
from servers import wait_until

sys.path.insert(0, str(ROOT / "tests" / "serve"))

from daemon import Daemon, clean_env  # noqa: E402

# A server that says what it heard. It echoes what comes behind a WebSocket's handshake,
# and answers on /raw/… with just those bytes.
SERVER = r'''
import base64, hashlib, json, socket, sys, threading, urllib.parse

def serve(c):
    head = b""
    while b"\r\n\r\n" not in head:
        more = c.recv(65536)
        if not more:
            return
        head += more
    head, body = head.split(b"\r\n\r\n", 1)
    first, *lines = head.decode("latin-1").split("\r\n")
    heads = [line.split(": ", 1) for line in lines]
    named = {n.lower(): v for n, v in heads}
    while len(body) < int(named.get("content-length", 0)):
        body += c.recv(65536)
    target = first.split(" ")[1]
    if named.get("upgrade"):
        key = named["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        c.sendall(("HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Accept: %s\r\n\r\nhello" % accept).encode())
        while data := c.recv(65536):
            c.sendall(data)
        c.close()
        return
    if target.startswith("/raw/"):
        c.sendall(base64.urlsafe_b64decode(target[5:]))
    elif target == "/long":
        c.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 40000 + b"\r\n\r\n")
    elif target.startswith("/big/"):
        n = int(target[5:])
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n)
        while n:
            n -= c.send(b"x" * min(n, 1 << 20))
    else:
        told = json.dumps({"first": first, "heads": heads, "body": len(body)}).encode()
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/told\r\nSet-Cookie: a=b; Path=/\r\n"
                  b"Clear-Site-Data: *\r\nX-Own: yes\r\nConnection: X-Hop\r\nX-Hop: no\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(told) + told)
    c.close()

s = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64)
print("up", flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
'''


class Place:
    """A session with a server on PORT."""

    def __init__(self, daemon, port=8080, **request):
        self.daemon = daemon
        self.id = daemon.ask("POST", "/v1/sessions", {"network": "gate", "driver": DRIVER,
                                                      "timeout": "10m", **request}).json["id"]
        self.path = "/v1/sessions/" + self.id
        self.listen(port)

    def listen(self, port):
        exec_path = self.path + "/exec"
        number = self.daemon.ask("POST", exec_path, {
            "argv": ["python3", "-c", SERVER, str(port)], "timeout": "10m"}).json["exec"]
        out = "%s/%d/output?of=stdout&offset=0" % (exec_path, number)
        wait_until(lambda: self.daemon.ask("GET", out).body == b"up\n")

    def ask(self, rest, method="GET", port=8080, **more):
        return self.daemon.ask(method, "%s/ports/%d%s" % (self.path, port, rest), **more)

    def token(self, port=8080):
        return self.daemon.ask("GET", "%s/ports/%d" % (self.path, port)).json["token"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.yaml"
    tokens.write_text(json.dumps([
        {"name": name, "sha256": hashlib.sha256(name[0].encode() * 20).hexdigest(),
         "scopes": ["session"]} for name in ("ann", "bob")]))
    tokens.chmod(0o644)
    tokens.parent.chmod(0o755)
    tokens.parent.parent.chmod(0o755)
    with Daemon(policy={"networks": ["none", "gate"]}, tcp=True,
                serve={"tokens": str(tokens)}) as d:
        yield d


@pytest.fixture(scope="module")
def place(daemon):
    return Place(daemon)


def heads(answer):
    return {n.lower(): v for n, v in answer.json["heads"]}


def test_a_request_reaches_the_server_as_it_was_meant(place):
    told = place.ask("/a%2Fb/%20c?x=1&y=%2B&z", "POST", body=b"q" * 100_000,
                     headers={"X-Mine": "1", "Accept": "text/*"})
    assert told.status == 200 and told.headers["X-Own"] == "yes"
    assert told.json["first"] == "POST /a%2Fb/%20c?x=1&y=%2B&z HTTP/1.1"
    assert told.json["body"] == 100_000
    had = heads(told)
    assert had["host"] == "localhost:8080" and had["x-mine"] == "1"
    assert had["connection"] == "close" and had["content-length"] == "100000"
    assert had["x-forwarded-prefix"] == place.path + "/ports/8080"


def test_what_belongs_to_a_connection_stays_behind(place):
    told = place.ask("/", headers={"Connection": "close, X-Secret-Hop", "X-Secret-Hop": "1",
                                   "TE": "trailers", "Keep-Alive": "1", "Proxy-Connection": "1",
                                   "X-Forwarded-For": "10.0.0.1"})
    assert not heads(told).keys() & {"x-secret-hop", "te", "keep-alive", "proxy-connection",
                                     "x-forwarded-for"}
    assert told.headers["X-Hop"] is None


def test_no_cookie_passes_and_the_answer_has_no_origin(place):
    """What a vessel sends must be nothing to the daemon's own page, or another session."""
    told = place.ask("/", headers={"Cookie": "sid=1"})
    assert "cookie" not in heads(told)
    assert told.headers["Set-Cookie"] is None and told.headers["Clear-Site-Data"] is None
    assert told.headers["Content-Security-Policy"].startswith("sandbox ")
    assert "allow-same-origin" not in told.headers["Content-Security-Policy"]
    assert place.ask("/sw.js", headers={"Service-Worker": "script"}).code == "VIAL-HOST"


def test_a_large_answer_comes_whole_and_bounded(place, daemon):
    def resident():
        with open("/proc/%d/status" % daemon.process.pid, encoding="utf-8") as file:
            return int(next(x for x in file if x.startswith("VmRSS")).split()[1])
    place.ask("/big/1000000")
    before = resident()
    c = daemon.connect()
    c.request("GET", place.path + "/ports/8080/big/200000000")
    r, got = c.getresponse(), 0
    while some := r.read(1 << 20):
        got += len(some)
        assert resident() < before + 32_000
    assert got == 200_000_000


def encoded(answer):
    import base64
    return "/raw/" + base64.urlsafe_b64encode(answer).decode()


@pytest.mark.parametrize("answer, why", [
    (b"", "nothing answers on this port"),
    (b"SSH-2.0-x\r\n\r\n", "the port's server does not answer in HTTP"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "the port's server does not answer in HTTP"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
     "the port's server does not answer in HTTP"),
    (b"HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n", "the port's server does not answer in HTTP"),
    (b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n", "the port's server does not answer in HTTP"),
    (b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n", "the port's server wants another protocol"),
    (None, "the port's server does not answer in HTTP"),
], ids=["nothing", "ssh", "two_lengths", "other_lengths", "bad_name", "folded", "switch", "long"])
def test_an_answer_that_can_be_read_in_two_ways_is_refused(place, answer, why):
    refused = place.ask("/long" if answer is None else encoded(answer))
    assert (refused.status, refused.code) == (502, "VIAL-PORT")
    assert refused.json["error"]["message"] == why


def test_other_answers_are_what_they_are(place):
    assert place.ask(encoded(b"HTTP/1.1 204 No\r\n\r\n")).status == 204
    chunked = place.ask(encoded(b"HTTP/1.1 100 Wait\r\n\r\nHTTP/1.1 404 No\r\n"
                                b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"))
    assert (chunked.status, chunked.body) == (404, b"abcde")
    to_end = place.ask(encoded(b"HTTP/1.0 200 OK\r\n\r\nuntil the end"))
    assert to_end.body == b"until the end"
    moved = place.ask(encoded(b"HTTP/1.1 302 Go\r\nLocation: /next?x\r\nContent-Length: 0\r\n\r\n"))
    assert moved.headers["Location"] == place.path + "/ports/8080/next?x"
    away = place.ask(encoded(b"HTTP/1.1 302 Go\r\nLocation: //x.test/\r\nContent-Length: 0\r\n\r\n"))
    assert away.headers["Location"] == "//x.test/"
    head = place.ask("/big/1234", "HEAD")
    assert head.headers["Content-Length"] == "1234" and head.body == b""


def test_an_answer_that_is_cut_off_is_seen_to_be(place, daemon):
    c = daemon.connect()
    c.request("GET", place.path + "/ports/8080" + encoded(
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"))
    with pytest.raises(http.client.IncompleteRead):
        c.getresponse().read()


@pytest.mark.parametrize("smuggled", [
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    b"Content-Length : 4\r\n\r\nabcd",
    b"X: a\rGET /evil HTTP/1.1\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\n\r\n",
])
def test_no_request_is_smuggled(place, daemon, smuggled):
    s = daemon.raw()
    s.sendall(b"POST %s/ports/8080/ HTTP/1.1\r\nHost: localhost\r\n" % place.path.encode() + smuggled)
    assert s.recv(4096).split(b" ")[1] in (b"400", b"501")


def websocket(place, sock, *more):
    sock.sendall(b"GET %s/ports/8080/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                 b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                 b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" % place.path.encode() +
                 b"".join(more) + b"\r\n")
    got = b""
    while not got.endswith(b"hello") and (some := sock.recv(4096)):
        got += some
    return got


def test_a_websocket_passes_both_ways(place, daemon):
    s = daemon.raw()
    got = websocket(place, s)
    assert got.startswith(b"HTTP/1.1 101 ") and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in got
    for _ in range(3):
        s.sendall(b"\x81\x05abcde")
        assert s.recv(100) == b"\x81\x05abcde"
    s.shutdown(socket.SHUT_WR)
    assert s.recv(100) == b""


def tcp(daemon, method, path, **heads_):
    c = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    c.request(method, path, headers=heads_)
    r = c.getresponse()
    return r.status, r.read()


def test_a_ports_token_is_good_for_that_port_alone(place, daemon):
    token = place.token()
    path = place.path + "/ports/%d/x"
    status, body = tcp(daemon, "GET", path % 8080, **{"X-Vial-Port-Token": token,
                                                      "Authorization": "Bearer theirs"})
    told = {n.lower(): v for n, v in json.loads(body)["heads"]}
    assert status == 200 and told["authorization"] == "Bearer theirs"
    assert "x-vial-port-token" not in told
    status, body = tcp(daemon, "GET", path % 8080 + "?a=1&vial_token=" + token + "&b=2")
    assert json.loads(body)["first"] == "GET /x?a=1&b=2 HTTP/1.1"
    assert tcp(daemon, "GET", path % 8081, **{"X-Vial-Port-Token": token})[0] == 401
    assert tcp(daemon, "GET", path % 8080, **{"X-Vial-Port-Token": "0" * 64})[0] == 401
    assert tcp(daemon, "GET", path % 8080)[0] == 401
    assert tcp(daemon, "GET", place.path, **{"X-Vial-Port-Token": token})[0] == 401
    assert tcp(daemon, "GET", place.path + "/ports/8080", **{"X-Vial-Port-Token": token})[0] == 401


def test_the_daemons_own_credentials_never_reach_a_session(daemon):
    ann, bob = {"Authorization": "Bearer " + "a" * 20}, {"Authorization": "Bearer " + "b" * 20}
    c = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    c.request("POST", "/v1/sessions", body=json.dumps({"network": "gate", "timeout": "10m"}), headers=ann)
    path = "/v1/sessions/" + json.loads(c.getresponse().read())["id"]
    c.request("POST", path + "/exec", body=json.dumps({
        "argv": ["python3", "-c", SERVER, "8080"], "timeout": "10m"}), headers=ann)
    c.getresponse().read()

    def up():
        c.request("GET", path + "/ports/8080/", headers=ann)
        r = c.getresponse()
        body = r.read()
        return body if r.status == 200 else None
    wait_until(up)
    assert b"aaaa" not in up()
    assert tcp(daemon, "GET", path + "/ports/8080/", **bob)[0] == 404
    assert tcp(daemon, "GET", path + "/ports/8080", **bob)[0] == 404
    assert tcp(daemon, "GET", path + "/ports/8080/", **ann, Origin="http://evil.test")[0] == 403


def test_a_session_without_a_gate_has_no_ports(daemon):
    session = daemon.ask("POST", "/v1/sessions", {}).json["id"]
    refused = daemon.ask("GET", "/v1/sessions/%s/ports/80/" % session)
    assert (refused.code, refused.json["error"]["message"]) == (
        "VIAL-UNSUPPORTED", "this vessel has no gate")
    for port in ("0", "65536", "99999999"):
        assert daemon.ask("GET", "/v1/sessions/%s/ports/%s/" % (session, port)).status in (400, 404)


def forward(daemon, place, ports):
    p = subprocess.Popen([VIAL, "session", "forward", "--socket", daemon.socket, place.id, ports],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env=clean_env(HOME=daemon.dir))
    line = p.stdout.readline()
    assert " leads to port " in line, p.communicate(timeout=PATIENCE)
    return p, int(line.split()[0].rpartition(":")[2])


def test_forward_leads_from_loopback_to_a_port(daemon):
    place = Place(daemon, 9000)
    p, port = forward(daemon, place, "0:9000")
    with open("/proc/net/tcp", encoding="utf-8") as file:
        listening = [line.split()[1] for line in file if line.split()[1].endswith(":%04X" % port)
                     and line.split()[3] == "0A"]
    assert listening == ["0100007F:%04X" % port]  # and on nothing but loopback
    for _ in range(3):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        c.request("GET", "/here", headers={"Cookie": "its own"})
        told = json.loads(c.getresponse().read())
        assert told["first"] == "GET /here HTTP/1.1" and ["Cookie", "its own"] in told["heads"]
    kept = socket.create_connection(("127.0.0.1", port))
    kept.sendall(b"GET /x HTTP/1.1\r\n")
    daemon.ask("DELETE", place.path)
    kept.settimeout(60)
    with contextlib.suppress(ConnectionResetError):  # nothing hangs on a session that is gone
        assert kept.recv(10) == b""
    with contextlib.suppress(ConnectionError):  # it may have heard of the end by `kept`
        socket.create_connection(("127.0.0.1", port)).close()
    assert p.wait(PATIENCE) != 0
    assert "has ended, and is given back [VIAL-SESSION]" in p.stderr.read()


def test_forward_passes_half_closes_and_many_at_once(daemon, place):
    p, port = forward(daemon, place, "0:8080")
    peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    for s in peers:
        s.settimeout(60)
        s.sendall(b"GET /big/300000 HTTP/1.1\r\n\r\n")
        s.shutdown(socket.SHUT_WR)
    for s in peers:
        got = 0
        while some := s.recv(1 << 20):
            got += len(some)
        assert got > 300_000
    p.send_signal(signal.SIGINT)
    assert p.wait(PATIENCE) != 0


def test_forward_refuses_at_once_what_cannot_be(daemon):
    for ports, why in [("x", "'x' is not [LOCAL:]PORT"), ("1:0", "'1:0' is not [LOCAL:]PORT")]:
        done = subprocess.run([VIAL, "session", "forward", "--socket", daemon.socket, "s-none", ports],
                              capture_output=True, text=True, check=False, timeout=PATIENCE,
                              env=clean_env(HOME=daemon.dir))
        assert why in done.stderr
    done = subprocess.run([VIAL, "session", "forward", "--socket", daemon.socket, "s-none", "80"],
                          capture_output=True, text=True, check=False, timeout=PATIENCE,
                          env=clean_env(HOME=daemon.dir))
    assert "there is no session 's-none'" in done.stderr
