# SPDX-License-Identifier: Apache-2.0
"""Secrets that programs use and never see: the value is in requests, and nowhere inside."""

import base64
import gzip
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import servers
from conftest import PATIENCE, ROOT, VIAL, told
from servers import HOST, wait_until

sys.path.insert(0, str(ROOT / "tests" / "serve"))
sys.path.append(str(ROOT / "tests" / "attacks"))

from api_server import body_of  # noqa: E402
from daemon import Daemon  # noqa: E402

VALUE = "sk-real-" + "".join("%02x" % (i * 37 % 256) for i in range(20))
BASIC = base64.b64encode(b"me:" + VALUE.encode()).decode()
PORT = 8443


class Api(http.server.BaseHTTPRequestHandler):
    """Says what it was asked, and has ways to say a value back."""
    protocol_version = "HTTP/1.1"
    asked = []

    def log_message(self, *args):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (OSError, ssl.SSLError):
            self.close_connection = True

    def answer(self, body, headers=()):
        self.send_response(200)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        body = body_of(self)
        Api.asked.append(SimpleNamespace(line=self.requestline, headers=self.headers.items(), body=body))
        said = self.headers.get("Authorization", "")
        path = self.path.partition("?")[0]
        if path == "/echo":
            self.answer(("you said " + said + "\n").encode(), [("X-Said", said)])
        elif path == "/chunks":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for byte in said.encode():
                self.wfile.write(b"1\r\n%c\r\n" % byte)
            self.wfile.write(b"0\r\n\r\n")
        elif path == "/to-the-end":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said.encode())
            self.close_connection = True
            self.connection.unwrap()
        elif path == "/gzip":
            self.answer(gzip.compress(said.encode()), [("Content-Encoding", "gzip")])
        elif path == "/large":
            self.answer(b"x" * 100000)
        elif path == "/both":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            self.close_connection = True
        elif path == "/other":
            self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
            self.close_connection = True
        else:
            self.answer(b"fine\n")

    do_POST = do_HEAD = do_PUT = do_GET


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *args):
        pass


def serve(port, context, handler=Api):
    server = Server((HOST, port), handler, bind_and_activate=False)
    server.allow_reuse_address = True
    server.server_bind()
    server.server_activate()
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def own_authority(world, name, *names, days=2):
    where = world.where / name
    where.mkdir()
    context = servers.authority(where, *names)
    if days < 2:
        servers_pem = where / "server.pem"
        subprocess.run(["openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                        "-CAcreateserial", "-out", "server.pem", "-days", str(days), "-extfile", "names"],
                       cwd=where, check=True, capture_output=True)
        context.load_cert_chain(servers_pem, where / "server.key")
    return str(where / "ca.pem"), context


@pytest.fixture(scope="module")
def api(world):
    """api.test at 8443; its authority; a file that has the value, for root alone."""
    for name in ["api.test", "wrong.test", "late.test"]:
        world.names.names[name] = [HOST]
    ca, context = own_authority(world, "api", "api.test")
    serve(PORT, context)
    late, late_context = own_authority(world, "late", "late.test", days=-1)
    serve(7443, late_context)
    key = world.where / "key"
    key.write_text(VALUE + "\n")
    key.chmod(0o600)
    return SimpleNamespace(ca=ca, late=late, key=str(key), where=world.where)


def definition(api, **more):
    return {"from": "env:REAL_KEY", "hosts": ["api.test:%d" % PORT], "ca": api.ca, **more}


def settings(world, secrets, **more):
    path = world.where / ("secrets-%d.json" % len(list(world.where.iterdir())))
    path.write_text(json.dumps({
        "secrets": secrets, **more,
        "policy": {"gate_resolvers": [world.names.address], "allow_private": ["127.77.0.0/16"],
                   **more.get("policy", {})}}))
    path.chmod(0o644)
    return str(path)


def environment(config):
    env = {k: v for k, v in os.environ.items() if not k.startswith("VIAL_")}
    return {**env, "HOME": "/nonexistent", "VIAL_CONFIG": config, "REAL_KEY": VALUE}


def run(world, *args, secrets, prefix=(), policy=None):
    done = subprocess.run([*prefix, VIAL, "run", "--driver", "native", "--network", "gate", "--json",
                           "--timeout", "60s", "--pids", "64", *args],
                          env=environment(settings(world, secrets, policy=policy or {})),
                          capture_output=True, timeout=PATIENCE, check=False)
    assert done.stdout, done.stderr
    assert VALUE.encode() not in done.stdout + done.stderr
    return json.loads(done.stdout, object_hook=lambda d: SimpleNamespace(**d))


def shell(world, api, script, *args, prefix=(), **more):
    Api.asked.clear()
    return run(world, "--secrets", "API_KEY", *args, "sh", script, prefix=prefix,
               secrets={"API_KEY": definition(api, **more)})


URL = "https://api.test:%d" % PORT
BEARER = '-H "Authorization: Bearer $API_KEY"'
CLIENTS = {
    "curl": f"curl -sS {BEARER} {URL}/v1/models",
    "python": f"""/usr/bin/python3 -c '
import os, urllib.request as u
print(u.urlopen(u.Request("{URL}/v1/models", headers={{"Authorization": "Bearer " + os.environ["API_KEY"]}})).read().decode(), end="")'""",
    "node": f"""node -e '
fetch("{URL}/v1/models", {{headers: {{Authorization: "Bearer " + process.env.API_KEY}}}})
.then(r => r.text()).then(t => process.stdout.write(t), e => {{ console.error(e.cause); process.exit(1) }})'""",
    "openssl": f"""printf 'GET /v1/models HTTP/1.1\\r\\nHost: api.test:{PORT}\\r\\nAuthorization: Bearer %s\\r\\n\
Connection: close\\r\\n\\r\\n' "$API_KEY" | openssl s_client -quiet -ign_eof -verify_return_error -verify_hostname api.test \
-servername api.test -CAfile "$SSL_CERT_FILE" -connect api.test:{PORT} 2> /dev/null | tail -n 1""",
}


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_a_clients_request_carries_the_value(world, api, name):
    r = shell(world, api, CLIENTS[name], "--memory", "1g")
    assert (r.exit_code, r.stdout) == (0, "fine\n"), (r.stderr, r.error)
    assert told(r) == [("api.test", PORT, "ok")]
    assert [dict(a.headers)["Authorization"] for a in Api.asked] == ["Bearer " + VALUE]


def test_git_believes_the_vessels_authority(world, api):
    r = shell(world, api, f'git -c http.extraHeader="Authorization: Bearer $API_KEY" ls-remote {URL}/r.git')
    assert r.exit_code == 128 and "ertificate" not in r.stderr, r.stderr  # what answers is no repository
    assert {dict(a.headers)["Authorization"] for a in Api.asked} == {"Bearer " + VALUE}


def test_a_secret_of_the_command_line_needs_no_settings(world, api):
    Api.asked.clear()
    r = run(world, "--secret", f"API_KEY=env:REAL_KEY@api.test:{PORT}", "sh", CLIENTS["curl"], secrets={})
    # No authority is named, and the host's own do not know this one.
    assert r.stdout == "vial: the host's certificate is from nobody that is trusted\n", (r.stderr, r.error)
    assert told(r) == [("api.test", PORT, "certificate")] and Api.asked == []


def test_the_value_goes_into_headers_and_nowhere_else(world, api):
    r = shell(world, api, f"""curl -sS -H "X-Key: a $API_KEY b" -d "body=$API_KEY" "{URL}/x?key=$API_KEY"
        curl -sS -u "me:$API_KEY" {URL}/basic; echo $API_KEY""")
    placeholder = r.stdout.splitlines()[-1]
    assert r.stdout == "fine\nfine\n" + placeholder + "\n" and len(placeholder) == 40, (r.stderr, r.error)
    first, second = Api.asked
    assert dict(first.headers)["X-Key"] == f"a {VALUE} b"
    assert first.body == b"body=" + placeholder.encode() and VALUE not in first.line
    assert placeholder in first.line
    assert dict(second.headers)["Authorization"] == "Basic " + BASIC


def test_a_placeholder_has_the_shape_that_is_wanted(world, api):
    r = shell(world, api, "echo $API_KEY", shape="sk-proj-" + "*" * 20)
    assert r.stdout.startswith("sk-proj-") and len(r.stdout) == 29 and "*" not in r.stdout


def test_what_a_server_says_back_has_no_value(world, api):
    r = shell(world, api, f"""for p in echo chunks to-the-end; do curl -sSi {BEARER} {URL}/$p; echo; done
        curl -sSi -u "me:$API_KEY" {URL}/echo; curl -sSi {BEARER} --compressed {URL}/gzip""")
    assert r.exit_code == 0, r.stderr
    assert BASIC not in r.stdout and VALUE not in r.stdout
    assert len(Api.asked) == 5 and VALUE in dict(Api.asked[1].headers)["Authorization"]
    assert r.stdout.count("X-Said: Bearer ") == 1 and r.stdout.count("you said Bearer ") == 1
    assert r.stdout.count("Bearer ") == 4
    assert "the host's answer is compressed, though nobody asked" in r.stdout
    assert {dict(a.headers)["Accept-Encoding"] for a in Api.asked} == {"identity"}


def test_rules_say_what_may_be_asked(world, api):
    tries = ["/v1/models", "/v1/models?x=1", "/v1/models/", "/v1/models/../admin", "/files/a/b", "/files/../admin",
             "/files/%2e%2e/admin", "//files/a"]
    ask = "".join(f"curl -sS --path-as-is -o /dev/null -w '%{{http_code}} ' {BEARER} '{URL}{t}';" for t in tries)
    r = shell(world, api, ask + f"curl -sS -o /dev/null -w '%{{http_code}}' -X POST {URL}/v1/models",
              only=["GET /v1/models", "GET /files/*"])
    assert r.stdout == "200 200 403 403 200 403 403 403 403", r.stderr
    assert [a.line.split()[1] for a in Api.asked] == ["/v1/models", "/v1/models?x=1", "/files/a/b"]
    assert sorted({c.verdict for c in r.network.connections}) == ["ok", "request"]


def test_no_header_stands_for_another_method_or_path_than_the_rules_saw(world, api):
    tries = ["X-HTTP-Method-Override: DELETE", "x-method-override: PUT", "X-Original-URL: /admin", "X-Other: 1"]
    ask = "".join(f"curl -sS -o /dev/null -w '%{{http_code}} ' {BEARER} -H '{t}' {URL}/v1/models;" for t in tries)
    r = shell(world, api, ask, only=["GET /v1/models"])
    assert r.stdout == "403 403 403 200 ", r.stderr
    assert len(Api.asked) == 1
    r = shell(world, api, f"curl -sS -o /dev/null -w '%{{http_code}}' {BEARER} -H '{tries[0]}' {URL}/v1/models")
    assert r.stdout == "200", r.stderr  # without rules there is nothing to get around


def test_headers_are_added_and_sizes_bound(world, api):
    r = shell(world, api, f"""curl -sS -H "X-Team: mine" {URL}/a; head -c 2000 /dev/zero > f
        curl -sS -o /dev/null -w '%{{http_code}} ' --data-binary @f {URL}/b
        curl -sS -H 'Transfer-Encoding: chunked' -o /dev/null -w '%{{http_code}} ' --data-binary @f {URL}/c
        curl -sS -o /dev/null -w '%{{http_code}} ' {URL}/large""",
              headers={"X-Team": "agents"}, max_request=1000, max_response=50000)
    assert r.stdout == "fine\n413 400 502 ", r.stderr
    assert [v for k, v in Api.asked[0].headers if k == "X-Team"] == ["agents"]
    assert not [a for a in Api.asked if a.line.startswith("POST /b")]


HTTP2 = r"""
import socket, ssl, subprocess, os
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
def start(*protocols):
    context = ssl.create_default_context()
    if protocols:
        context.set_alpn_protocols(protocols)
    return context.wrap_socket(socket.create_connection(("api.test", 8443)), server_hostname="api.test")
try:
    start("h2")
except ssl.SSLError as e:
    print("alone:", "no application protocol" in str(e))
s = start()
s.sendall(PREFACE)
print("unasked:", s.recv(1000).decode().splitlines()[-1])
print("both:", start("h2", "http/1.1").selected_alpn_protocol())
s = start()
try:  # a header that never ends: one HEADERS frame, then CONTINUATION upon CONTINUATION
    s.sendall(PREFACE + b"\0\0\0\4\0\0\0\0\0" + b"\0\x40\0\1\0\0\0\0\1" + b"\x40" * 16384)
    for _ in range(4000):
        s.sendall(b"\0\x40\0\x09\0\0\0\0\1" + b"\x40" * 16384)
    print("bomb: taken")
except OSError as e:
    print("bomb: refused")
"""


def test_http2_is_refused_where_the_host_has_it_not_and_its_header_bombs_with_it(world, api):
    Api.asked.clear()
    r = run(world, "--secrets", "API_KEY", "python", HTTP2, secrets={"API_KEY": definition(api)})
    assert r.stdout.splitlines() == [
        "alone: True",
        "unasked: vial: HTTP/2 was not agreed on in TLS (ALPN)",
        "both: http/1.1", "bomb: refused"], (r.stdout, r.stderr)
    assert ("api.test", PORT, "request") in told(r) and not Api.asked


def test_a_client_that_prefers_http2_falls_back_to_what_the_host_has(world, api):
    r = shell(world, api, f"curl -sS --http2 {BEARER} -w '%{{http_version}}\\n' {URL}/v1/models")
    assert r.stdout == "fine\n1.1\n", r.stderr


STRICT = r"""
import os, socket, ssl
context = ssl.create_default_context()
def ask(*lines, end="\r\n", body=""):
    s = context.wrap_socket(socket.create_connection(("api.test", 8443)), server_hostname="api.test")
    s.sendall((end.join(lines) + end + end + body).encode())
    got = b""
    while b"\r\n\r\n" not in got:
        more = s.recv(65536)
        if not more: break
        got += more
    return got.split(b" ")[1].decode() if got else "end"
host, key = "Host: api.test:8443", "Authorization: Bearer " + os.environ["API_KEY"]
get = "GET / HTTP/1.1"
post = "POST / HTTP/1.1"
print("good", ask(get, host, key))
print("both", ask(post, host, "Content-Length: 4", "Transfer-Encoding: chunked", body="0\r\n\r\n"))
print("lengths", ask(post, host, "Content-Length: 4", "Content-Length: 4", body="abcd"))
print("list", ask(post, host, "Content-Length: 4, 4", body="abcd"))
print("sign", ask(post, host, "Content-Length: +4", body="abcd"))
print("coding", ask(post, host, "Transfer-Encoding: xchunked", body="0\r\n\r\n"))
print("codings", ask(post, host, "Transfer-Encoding: gzip, chunked", body="0\r\n\r\n"))
print("twice", ask(post, host, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body="0\r\n\r\n"))
print("space", ask(post, host, "Content-Length : 4", body="abcd"))
print("fold", ask(get, host, "X-A: b", " c"))
print("lf", ask(get, host, end="\n"))
print("cr", ask(get, host, "X-A: a\rb"))
print("nul", ask(get, host, "X-A: a\0b"))
print("host", ask(get, "Host: other.test"))
print("hosts", ask(get, host, host))
print("no host", ask(get, key))
print("absolute", ask("GET https://other.test/ HTTP/1.1", host))
print("trace", ask("TRACE / HTTP/1.1", host, key))
print("old", ask("GET / HTTP/1.0", host))
print("extension", ask(post, host, "Transfer-Encoding: chunked", body="1;x=y\r\na\r\n0\r\n\r\n"))
print("chunk", ask(post, host, "Transfer-Encoding: chunked", body="0x1\r\na\r\n0\r\n\r\n"))
print("chunk lf", ask(post, host, "Transfer-Encoding: chunked", body="1\na\n0\n\n"))
print("trailer", ask(post, host, "Transfer-Encoding: chunked", body="0\r\nX-A: b\r\n\r\n"))
print("many", ask(get, host, *["X-%d: b" % i for i in range(200)]))
print("large", ask(get, host, "X-A: " + "b" * 40000))
print("both back", ask("GET /both HTTP/1.1", host, key))
print("other back", ask("GET /other HTTP/1.1", host, "Upgrade: x", "Connection: Upgrade"))
"""


def test_nothing_is_smuggled(world, api):
    Api.asked.clear()
    r = run(world, "--secrets", "API_KEY", "python", STRICT, secrets={"API_KEY": definition(api)})
    got = dict(line.rsplit(" ", 1) for line in r.stdout.splitlines())
    refused = {"host": "421", "hosts": "421", "no host": "421", "trace": "405", "both back": "502",
               "other back": "502", "good": "200"}
    names = [line.split('"')[1] for line in STRICT.splitlines() if line.startswith("print(")]
    expected = {n: refused.get(n, "400") for n in names}
    assert got == expected, r.stderr
    # A chunked body's head may have gone before its nonsense was seen; none of the nonsense did.
    lines = [a.line for a in Api.asked]
    assert set(lines) <= {"GET / HTTP/1.1", "GET /both HTTP/1.1", "GET /other HTTP/1.1"}
    assert lines.count("GET / HTTP/1.1") == 1


def test_a_body_goes_whole_both_ways_over_one_connection(world, api):
    r = shell(world, api, f"""head -c 3000000 /dev/urandom > f
        curl -sS --data-binary @f -o a {URL}/1 --next -sS -H 'Transfer-Encoding: chunked' --data-binary @f -o b {URL}/2 \
        --next -sS -o c {URL}/large
        cat a b; wc -c < c; sha256sum < f""")
    out = r.stdout.split()
    assert out[:3] == ["fine", "fine", "100000"], (r.stderr, r.stdout)
    import hashlib
    assert [hashlib.sha256(a.body).hexdigest() for a in Api.asked[:2]] == [out[3]] * 2
    assert told(r) == [("api.test", PORT, "ok")]


@pytest.mark.parametrize("host, port, why", [
    ("late.test", 7443, "the host's certificate is not valid now"),
    ("wrong.test", PORT, "the host's certificate is for another name"),
    ("web.test", 443, "the host's certificate is from nobody that is trusted")])
def test_a_host_that_is_not_who_it_says_gets_nothing(world, api, host, port, why):
    ca = {"late.test": api.late}.get(host, api.ca)
    Api.asked.clear()
    r = run(world, "--secrets", "API_KEY", "sh", f"curl -sS {BEARER} https://{host}:{port}/",
            secrets={"API_KEY": definition(api, hosts=[f"{host}:{port}"], ca=ca)})
    assert (r.stdout, told(r)) == (f"vial: {why}\n", [(host, port, "certificate")]), (r.stderr, r.error)
    assert Api.asked == []


def test_no_other_host_gets_the_value(world, api):
    """The placeholder is all that other names, other ports and plain HTTP see."""
    r = shell(world, api, "curl -sS -H \"X-Key: $API_KEY\" http://web.test/hello", "--allow", "web.test")
    assert (r.exit_code, r.stdout) == (0, "hello from web.test\n"), (r.stderr, r.error)


def below(pid):
    """PID's descendants."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    found, more = set(), {pid}
    while more:
        found |= more
        more = {p for p, parent in parents.items() if parent in more} - found
    return found - {pid}


def in_memory(pid, needle):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            span, rights = line.split()[:2]
            if rights[0] != "r" or "[v" in line:
                continue
            first, last = (int(x, 16) for x in span.split("-"))
            try:
                mem.seek(first)
                if needle in mem.read(last - first):
                    return True
            except (OSError, ValueError, OverflowError):
                continue
    return False


def in_files(root, needle):
    for top, dirs, names in os.walk(root):
        if top == root:
            dirs[:] = [d for d in dirs if d not in ("proc", "usr", "bin", "lib", "lib64", "sbin", "dev", "sys")]
        for name in names:
            path = os.path.join(top, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    if needle in f.read():
                        return True
    return False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look into every process")
def test_the_value_is_found_nowhere_in_the_vessel(world, api):
    """Memory, files, environment and arguments of everything inside are searched while
    requests carry the value; the same search finds what is there."""
    control = "control-" + "0123456789abcdef"
    code = f"""
import os, sys, urllib.request as u
for path in ["/echo", "/chunks"]:
    got = u.urlopen(u.Request("{URL}" + path, headers={{"Authorization": "Bearer " + os.environ["API_KEY"]}})).read()
open("kept", "wb").write(got + b"\\n" + {control.encode()!r})
print("ready", flush=True)
sys.stdin.read()
"""
    config = settings(world, {"API_KEY": definition(api)})
    Api.asked.clear()
    p = subprocess.Popen([VIAL, "run", "--driver", "native", "--network", "gate", "--secrets", "API_KEY",
                          "--timeout", "100s", "python", code],
                         env=environment(config), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline() == b"ready\n"
        assert [dict(a.headers)["Authorization"] for a in Api.asked] == ["Bearer " + VALUE] * 2
        names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in below(p.pid)}
        ours = {pid for pid, name in names.items() if name in ("vial-secrets", "vial-gate")}
        ours_mounts = os.stat("/proc/self/ns/mnt").st_ino
        inside = {pid for pid in names if os.stat(f"/proc/{pid}/ns/mnt").st_ino != ours_mounts} - ours
        assert {names[pid] for pid in ours} == {"vial-secrets", "vial-gate"} and len(inside) >= 2
        secrets = next(pid for pid in ours if names[pid] == "vial-secrets")
        gate = next(pid for pid in ours if names[pid] == "vial-gate")
        assert in_memory(secrets, VALUE.encode())  # the search finds what is there
        assert not in_memory(gate, VALUE.encode())
        assert any(in_memory(pid, control.encode()) for pid in inside)
        assert [names[pid] for pid in inside if in_memory(pid, VALUE.encode())] == []
        roots = [f"/proc/{pid}/root/" for pid in inside]
        assert all(in_files(root, control.encode()) for root in roots)
        assert not any(in_files(root, VALUE.encode()) for root in roots)
        for pid in inside | ours:
            assert VALUE.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
            assert VALUE.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{secrets}/status").read_text().splitlines()
                      if ":\t" in line)
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert status["Uid"].split() == ["65534"] * 4 and int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
        limits = Path(f"/proc/{secrets}/limits").read_text()
        assert [line.split()[4] for line in limits.splitlines() if line.startswith("Max core")] == ["0"]
        p.stdin.close()
        assert p.wait(PATIENCE) == 0
        wait_until(lambda: not Path(f"/proc/{secrets}").exists())
    finally:
        p.kill()
        p.wait()


def test_vial_secrets_ends_with_a_command_that_is_killed(world, api):
    p = subprocess.Popen([VIAL, "run", "--driver", "native", "--network", "gate", "--secrets", "API_KEY", "sh",
                          "echo ready; sleep 60"], env=environment(settings(world, {"API_KEY": definition(api)})),
                         stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    mine = [pid for pid in below(p.pid) if Path(f"/proc/{pid}/comm").read_text() == "vial-secrets\n"]
    assert len(mine) == 1
    p.kill()
    p.wait()
    wait_until(lambda: not Path(f"/proc/{mine[0]}").exists() or
               "State:\tZ" in Path(f"/proc/{mine[0]}/status").read_text())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_has_secrets_too(world, api):
    as_user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--"]
    if subprocess.run([*as_user, "test", "-x", VIAL], check=False).returncode:
        pytest.skip("an ordinary user cannot reach this build")
    r = shell(world, api, CLIENTS["curl"], prefix=as_user)
    assert (r.exit_code, r.stdout) == (0, "fine\n"), (r.stderr, r.error)
    assert [dict(a.headers)["Authorization"] for a in Api.asked] == ["Bearer " + VALUE]


def test_what_is_no_secret_is_refused(world, api):
    def error(*args, secrets=None, **more):
        return run(world, *args, "sh", "true", secrets=secrets or {}, **more).error.message

    named = {"API_KEY": definition(api)}
    assert error("--secrets", "NONE") == "'NONE' is not a secret: the settings have none of that name"
    assert error("--secret", "K=env:X") == "'K=env:X' is not a secret: it is not NAME=SOURCE@HOST"
    assert error("--secret", "K=env:NOT_THERE@api.test") == "secret 'K': there is no variable 'NOT_THERE'"
    assert error("--secret", "K=env:REAL_KEY@*") == "'K=env:REAL_KEY@*' is not a secret: it may not go to every host"
    assert error("--secrets", "API_KEY", "--env", "API_KEY=x", secrets=named) == "env 'API_KEY' is a secret's variable"
    assert error("--secrets", "API_KEY", secrets=named, policy={"secrets": ["OTHER"]}) == \
        "secret 'API_KEY' is not allowed by the policy"
    assert error("--secret", "K=env:REAL_KEY@api.test", policy={"secrets": ["K"]}) == \
        "a request may not define secrets here"
    assert error("--secrets", "API_KEY", secrets={"API_KEY": definition(api, ca="/nonexistent")}) == \
        "secrets: '/nonexistent' has no certificates that can be read"


def daemon_of(world, secrets, policy, **more):
    d = Daemon(policy={"gate_resolvers": [world.names.address], "allow_private": ["127.77.0.0/16"],
                       "allow": ["api.test:%d" % PORT], **policy}, **more)
    d.settings["secrets"] = secrets
    return d


CODE = f"""
import os, urllib.request as u
print(u.urlopen(u.Request("{URL}/echo", headers={{"Authorization": "Bearer " + os.environ["API_KEY"]}})).read().decode())
"""


@pytest.mark.parametrize("warm", ["off", "auto"])
def test_a_daemons_callers_use_what_the_policy_grants(world, api, warm):
    secrets = {"API_KEY": definition(api, **{"from": "file:" + api.key}), "OTHER": definition(api)}
    body = {"language": "python", "code": CODE, "network": "gate", "secrets": ["API_KEY"]}
    Api.asked.clear()
    with daemon_of(world, secrets, {"secrets": ["API_KEY"]}, serve={"warm": warm}) as d:
        def ran():
            answer = d.ask("POST", "/v1/run", body)
            assert VALUE not in answer.body.decode()
            assert answer.json["stdout"].startswith("you said Bearer "), answer.json
            assert dict(Api.asked[-1].headers)["Authorization"] == "Bearer " + VALUE
            return warm == "off" or answer.json["start"] == "warm"
        wait_until(ran)
        session = d.ask("POST", "/v1/sessions", {"network": "gate", "secrets": ["API_KEY"]}).json
        path = "/v1/sessions/%s" % session["id"]
        done = d.ask("POST", path + "/exec?wait=true", {"argv": ["python3", "-c", CODE]}).json
        assert done["stdout"].startswith("you said Bearer ") and VALUE not in done["stdout"], done
        d.ask("DELETE", path)
        for wrong, message in [(["OTHER"], "secret 'OTHER' is not allowed by the policy"),
                               ([f"X=file:{api.key}@api.test"], "a request may not define secrets here")]:
            answer = d.ask("POST", "/v1/run", {**body, "secrets": wrong})
            assert answer.json["error"]["message"] == message
