# SPDX-License-Identifier: Apache-2.0
"""`vial run --driver e2b`, against our own daemon as the service, and against worse ones."""
import http.server
import json
import os
import socket
import subprocess
import threading

import jsonschema
import pytest

from conftest import VIAL, E2b, clean_env, wait_until
from test_wire import control


class Client:
    """The command, told of a service as E2B's SDKs are."""

    def __init__(self, url, key, **more):
        self.env = clean_env(E2B_API_URL=url, E2B_SANDBOX_URL=url, E2B_API_KEY=key, **more)

    def start(self, *args, **more):
        return subprocess.Popen([VIAL, *args], env=self.env, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def __call__(self, *args, stdin=None, env=None, **more):
        return subprocess.run([VIAL, *args], env={**self.env, **(env or {})}, input=stdin or "",
                              capture_output=True, text=True, timeout=120, **more)

    def run(self, *args, **more):
        return self("run", "--driver", "e2b", *args, **more)

    def result(self, *args, driver="e2b", **more):
        return json.loads(self("run", "--driver", driver, "--json", *args, **more).stdout)


def client(daemon, **more):
    return Client(daemon.url, daemon.key, **more)


def usually(daemon):
    return client(daemon, VIAL_DRIVER="e2b")


@pytest.fixture(scope="module")
def service():
    with E2b() as daemon:
        yield daemon


def boxes(daemon):
    return control(daemon, "GET", "/sandboxes").json


SAME = ["verdict", "stage", "exit_code", "signal", "stdout", "stderr", "limits_hit",
        "stdout_truncated", "files", "error"]


@pytest.mark.parametrize("args, stdin", [
    (["python", "import sys; print(input()); print('e', file=sys.stderr); sys.exit(3)"], "in\n"),
    (["python", "import os; os.kill(os.getpid(), 11)"], None),
    (["c", "#include <stdio.h>\nint main(void) { puts(\"compiled\"); }"], None),
    (["c", "int main(void) { return x; }"], None),
    (["--in", "a.txt", "--out", "b.txt", "sh", "cat a.txt; echo made > b.txt"], None),
    (["--timeout", "3s", "sh", "echo before; sleep 600"], None),
    (["--cpu-time", "1s", "--timeout", "200s", "sh", "while :; do :; done"], None),
    (["--output-limit", "1k", "sh", "head -c 100000 /dev/zero"], None),
    (["--cwd", "nowhere", "sh", "exit 0"], None)],
    ids=["status", "signal", "compiled", "refused", "files", "timeout", "cpu", "output", "cwd"])
def test_a_program_ends_there_as_it_would_here(service, tmp_path, args, stdin):
    """covers: A-13"""
    (tmp_path / "a.txt").write_text("sent\n")
    here, there = (client(service).result(*args, driver=driver, stdin=stdin, cwd=tmp_path)
                   for driver in ("native", "e2b"))
    for result in (here, there):  # the compiler says where its file is
        result["stderr"] = result["stderr"].rpartition("main.c")[2]
    if there["verdict"] == "cpu_timeout":
        here["signal"] = "KILL"  # the kernel's own limit ends it there
    assert {k: there[k] for k in SAME} == {k: here[k] for k in SAME}
    assert there["driver"] == "e2b"


def test_what_the_service_alone_promises_is_not_called_isolation_of_ours(service):
    there = client(service).result("sh", "grep -E 'Seccomp:|NoNewPrivs|CapBnd' /proc/self/status")
    assert there["isolation"] == {"level": "remote", "limits_by": "rlimit",
                                  "layers": ["seccomp", "no_new_privs", "caps"]}
    jsonschema.validate(there, json.loads(client(service)("schema", "result").stdout))
    assert there["stdout"].split() == ["CapBnd:", "0000000000000000", "NoNewPrivs:", "1",
                                       "Seccomp:", "2"]
    for word in ("namespaces", "container", "net", "limits=cgroup"):
        refused = client(service).run("--require", word, "sh", "true")
        assert refused.returncode == 125 and "[VIAL-" in refused.stderr, word
    assert client(service).run("--require", "seccomp", "sh", "true").returncode == 0


def test_bytes_come_through_unchanged_both_ways(service, tmp_path):
    data = os.urandom(1 << 20)
    (tmp_path / "data").write_bytes(data)
    with open(tmp_path / "data", "rb") as file:
        done = subprocess.run([VIAL, "run", "--driver", "e2b", "--output-limit", "8m", "--in",
                               "data", "--out", "back", "sh", "cat; cat data; cp data back"],
                              stdin=file, capture_output=True, timeout=120, cwd=tmp_path,
                              env=client(service).env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == data * 2
    assert (tmp_path / "back").read_bytes() == data


def test_a_sandbox_lasts_as_long_as_its_run(service):
    running = client(service).start("run", "--driver", "e2b", "--task", "mine", "sh",
                                    "echo up; read x; echo $x")
    assert running.stdout.readline() == "up\n"  # while it runs
    mine = [b for b in boxes(service) if b["metadata"].get("vial.task") == "mine"]
    assert [b["templateID"] for b in mine] == ["base"]
    listed = usually(service)("ps").stdout
    assert [mine[0]["sandboxID"], "e2b", "running", "-", "mine"] in [
        line.split() for line in listed.splitlines()]
    assert running.communicate("down\n", timeout=60)[0] == "down\n"
    assert mine[0]["sandboxID"] not in [b["sandboxID"] for b in boxes(service)]


def test_what_cannot_be_promised_there_is_refused(service, tmp_path):
    for args, why in [(["--image", "debian"], "uses no image"),
                      (["--network", "gate"], "cannot give the program a gate"),
                      (["--inodes", "100"], "does not hold 'inodes'"),
                      (["--disk", "1m"], "does not hold 'disk'"),
                      (["--mount", "%s:/data" % tmp_path], "a directory of this host")]:
        done = client(service).run(*args, "sh", "echo ran")
        assert (done.returncode, done.stdout) == (125, ""), args
        assert why in done.stderr and "[VIAL-UNSUPPORTED]" in done.stderr
    assert boxes(service) == []


def test_without_a_network_there_is_no_socket_whatever_the_service_gives(service):
    code = "import socket\nfor f in (socket.AF_UNIX, socket.AF_INET):\n    try: socket.socket(f); print('has')\n    except OSError as e: print(e.strerror)"
    done = client(service).run("python", code)
    assert done.stdout == "has\nAddress family not supported by protocol\n", done.stderr
    done = client(service).run("--seccomp", "strict", "--network", "none", "sh", "true")
    assert done.returncode == 125 and "another seccomp profile without a network" in done.stderr


def test_a_network_is_there_or_it_is_said_that_there_is_none():
    with E2b(policy={"networks": ["none"]}) as d:
        done = client(d).run("--network", "bridge", "sh", "echo ran")
        assert (done.returncode, done.stdout) == (125, "")
        assert "the service gives its sandboxes no network" in done.stderr
        assert boxes(d) == []


@pytest.mark.parametrize("env, why", [
    ({"E2B_API_KEY": ""}, "E2B_API_KEY is not set"),
    ({"E2B_API_KEY": "e2b_" + "0" * 64}, "the service does not know the key"),
    ({"E2B_TEMPLATE": "nowhere"}, "the service has no such template"),
    ({"E2B_API_URL": "http://127.0.0.1:1"}, "'127.0.0.1' port 1 does not answer"),
    ({"E2B_SANDBOX_URL": "http://127.0.0.1:1"}, "'127.0.0.1' port 1 does not answer"),
    ({"E2B_API_URL": "", "E2B_DOMAIN": "nothing.invalid"}, "'api.nothing.invalid' port 443"),
], ids=["none", "key", "template", "port", "sandbox", "name"])
def test_a_service_that_cannot_be_used_is_told_with_a_way_out(service, env, why):
    done = client(service).run("--json", "sh", "echo ran", env=env)
    result = json.loads(done.stdout)
    assert (result["verdict"], result["error"]["code"]) == ("failed", "VIAL-REMOTE")
    assert why in result["error"]["message"] and result["error"]["remedy"]
    assert "0" * 64 not in done.stdout + done.stderr
    assert boxes(service) == []


def test_what_a_killed_caller_left_is_seen_and_removed(service):
    running = client(service).start("run", "--driver", "e2b", "sh", "echo up; sleep 600")
    assert running.stdout.readline() == "up\n"
    running.kill()
    running.wait()
    assert " orphan " in usually(service)("ps").stdout
    assert usually(service)("cleanup").stdout == "1 container removed\n"
    assert boxes(service) == []


def test_a_lease_that_nobody_renews_ends_the_sandbox(service):
    running = client(service, VIAL_TEST_LEASE="10").start(
        "run", "--driver", "e2b", "sh", "echo up; sleep 600")
    assert running.stdout.readline() == "up\n"
    for _ in range(2):  # it is renewed, and again
        end = boxes(service)[0]["endAt"]
        assert wait_until(lambda was=end: boxes(service)[0]["endAt"] > was)
    running.kill()
    running.wait()
    assert wait_until(lambda: boxes(service) == [], 60)


def lost(running):
    """What a run says of which the vessel is gone."""
    out, said = running.communicate(timeout=60)
    assert (out, running.returncode) == ("", 125), said
    return said


def test_a_sandbox_that_is_ended_under_a_program_is_a_lost_vessel(service):
    running = client(service).start("run", "--driver", "e2b", "sh", "echo up; sleep 600")
    assert running.stdout.readline() == "up\n"
    assert control(service, "DELETE", "/sandboxes/" + boxes(service)[0]["sandboxID"]).status == 204
    said = lost(running)
    assert "[VIAL-LOST]" in said and "the service knows what ended the sandbox" in said


def test_a_service_that_dies_under_a_program_is_told_as_such():
    with E2b() as d:
        running = client(d).start("run", "--driver", "e2b", "sh", "echo up; sleep 600")
        assert running.stdout.readline() == "up\n"
        d.process.kill()
        said = lost(running)
        assert "[VIAL-LOST]" in said and "'127.0.0.1' port %d" % d.port in said


def test_the_preset_s_variable_names_it(service):
    """covers: A-13"""
    done = client(service)("run", "--preset", "antigravity", "--json", "python", "print(6 * 7)",
                           env={"SANDBOX_TYPE": "e2b"})
    result = json.loads(done.stdout)
    assert (result["verdict"], result["stdout"], result["driver"]) == ("ok", "42\n", "e2b")


def test_a_session_there_keeps_files_and_variables_until_it_is_ended(service):
    """A tools' server keeps sandboxes open in its own process."""
    server = client(service, VIAL_DRIVER="e2b").start("mcp")
    number = 0

    def ask(method, **params):
        nonlocal number
        number += 1
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method,
                                       "params": params}) + "\n")
        server.stdin.flush()
        while (answer := json.loads(server.stdout.readline())).get("id") != number:
            pass
        return answer["result"]

    def tool(name, **args):
        return ask("tools/call", name=name, arguments=args)

    ask("initialize", protocolVersion="2025-06-18", capabilities={},
        clientInfo={"name": "test", "version": "1"})
    made = tool("create_sandbox")["structuredContent"]
    box = {"sandbox_id": made["sandbox_id"]}
    assert (made["driver"], made["isolation"]) == ("e2b", "remote")
    tool("write_file", path="a/b.txt", content="kept", **box)
    assert tool("run_command", command="cat a/b.txt", **box)["content"][0]["text"] == "kept"
    tool("run_code", language="python", code="x = 41", **box)
    said = tool("run_code", language="python", code="print(x + 1)", **box)
    assert said["content"][0]["text"] == "42\n"
    assert len(boxes(service)) == 1
    tool("delete_sandbox", **box)
    assert boxes(service) == []
    server.communicate(timeout=60)


def test_a_service_by_https_is_one_whose_certificate_is_known(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=service", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"], check=True,
                   capture_output=True)
    os.chmod(tmp_path / "key.pem", 0o644)
    with E2b(serve={"tls_cert": str(tmp_path / "cert.pem"),
                    "tls_key": str(tmp_path / "key.pem")}) as d:
        url = d.url.replace("http:", "https:")
        known = Client(url, d.key, SSL_CERT_FILE=str(tmp_path / "cert.pem")).run("sh", "echo hi")
        stranger = Client(url, d.key).run("sh", "echo hi")
    assert (known.returncode, known.stdout) == (0, "hi\n"), known.stderr
    assert (stranger.returncode, stranger.stdout) == (125, "")
    assert "cannot be trusted" in stranger.stderr


class Line:
    """A bad line to a service: bytes come one by one, and it can be cut."""

    def __init__(self, daemon, most):
        self.to, self.most, self.pairs = ("127.0.0.1", daemon.port), most, []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.server.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        try:
            while True:
                near = self.server.accept()[0]
                far = socket.create_connection(self.to)
                self.pairs.append((near, far))
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=self.pass_on, args=(a, b), daemon=True).start()
        except OSError:
            pass

    def pass_on(self, a, b):
        try:
            while data := a.recv(self.most):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        for near, _ in self.pairs:
            try:
                near.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.cut()
        for pair in self.pairs:
            for end in pair:
                end.close()


def test_a_line_that_brings_a_few_bytes_at_a_time_changes_none(service):
    with Line(service, 7) as line:
        slow = Client(line.url, service.key)
        done = slow.run("python", "print(input() * 20)", stdin="abc\n")
    assert (done.returncode, done.stdout) == (0, "abc" * 20 + "\n"), done.stderr


def test_a_line_that_is_cut_ends_the_run_and_the_sandbox(service):
    """What was written while nobody heard it would be missing, so nothing goes on."""
    with Line(service, 1 << 16) as line:
        running = Client(line.url, service.key).start("run", "--driver", "e2b", "sh",
                                                      "echo up; sleep 600")
        assert running.stdout.readline() == "up\n"
        line.cut()
        assert "[VIAL-LOST]" in lost(running)
    assert boxes(service) == []


# A service that means no good, or is none.

class Liar(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, body):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path))
        self.send_response(status)
        endless = callable(body)
        self.send_header(*("Connection", "close") if endless else
                         ("Content-Length", str(len(body))))
        self.end_headers()
        try:
            for piece in body() if endless else [body]:
                self.wfile.write(piece)
        except OSError:
            pass  # it has hung up

    def do_POST(self):
        script = self.server.script
        status, body = next((script[part] for part in script if part in self.path),
                            (200, b"{}"))
        self.say(status, body)

    do_GET = do_DELETE = do_POST


@pytest.fixture
def lie():
    servers = []

    def tell(**script):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
        server.daemon_threads = True
        server.seen, server.script = [], {**GOOD, **script}
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server, Client("http://127.0.0.1:%d" % server.server_port, "e2b_00")

    yield tell
    for server in servers:
        server.shutdown()
        server.server_close()


BOX = b'{"sandboxID": "i1", "envdAccessToken": "t"}'
GOOD = {"/files": (200, b'[{"path": "/home/user/.vial-init"}]'), "Start": (200, b""),
        "sandboxes/i1": (204, b""), "metadata": (200, b"[]"), "sandboxes": (201, BOX)}


def framed(text, flags=0):
    return bytes([flags]) + len(text).to_bytes(4, "big") + text


@pytest.mark.parametrize("script, why", [
    ({"sandboxes": (201, b"{}")}, "makes no sense: sandboxID"),
    ({"sandboxes": (201, b"<html>")}, "the service's answer"),
    ({"sandboxes": (201, b'{"sandboxID": "i1/../x"}')}, "makes no sense: sandboxID"),
    ({"sandboxes": (402, b'{"message": "pay \\u001b[2J"}')}, "wants to be paid: pay \\x1b[2J"),
    ({"sandboxes": (500, b"")}, "answers with status 500"),
    ({"sandboxes": (302, b"")}, "answers with status 302"),
    ({"sandboxes": (502, b"")}, "answers with status 502"),
    ({"sandboxes": (201, BOX[:-1] + b', "domain": "a/b"}')}, "makes no sense: domain"),
    ({"sandboxes": (201, BOX.replace(b'"t"', b'["t"]'))}, "makes no sense: envdAccessToken"),
    ({"/files": (200, b'[{"path": "/etc/../.vial-init"}]')}, "makes no sense: the path"),
    ({"/files": (507, b"{}")}, "no space left"),
    ({"/files": (502, b"{}")}, "the sandbox is gone"),
    ({"Start": (200, b"")}, "its stream ended"),
    ({"Start": (200, b"\0\xff\xff\xff\xff")}, "a frame that is too long"),
    ({"Start": (200, framed(b"{"))}, "VIAL-REMOTE"),
    ({"Start": (200, framed(b'{"error": {"code": "unavailable"}}', 2))}, "says 'unavailable'"),
    ({"Start": (200, framed(b'{"event": {"start": {"pid": 7}}}') +
      framed(b'{"event": {"data": {"stderr": "bm90IGZvdW5kCg=="}}}') +
      framed(b'{"event": {"end": {"exitCode": 127, "status": "exit status 127"}}}'))},
     "the guest ended with 'exit status 127': not found"),
    ({"Start": (200, framed(b'{"event": {"start": {"pid": 7}}}') +
      framed(b'{"event": {"data": {"stderr": "Cg=="}}}') +
      framed(b'{"event": {"end": {"status": "exit status 1"}}}'))},
     "the guest ended with 'exit status 1' [VIAL-REMOTE]"),
])
def test_nonsense_is_refused_and_its_sandbox_ended(lie, script, why):
    server, liar = lie(**script)
    done = liar.run("sh", "echo ran")
    assert (done.returncode, done.stdout) == (125, ""), done.stderr
    assert why in done.stderr and "[VIAL-REMOTE]" in done.stderr
    made = b'"i1"' in script.get("sandboxes", GOOD["sandboxes"])[1]
    assert server.seen.count(("DELETE", "/sandboxes/i1")) == made


def test_a_service_with_no_room_is_asked_again_a_few_times(lie):
    server, full = lie(sandboxes=(429, b'{"message": "too many"}'))
    done = full.run("sh", "echo ran")
    assert done.returncode == 125 and "try again later" in done.stderr
    assert server.seen.count(("POST", "/sandboxes")) == 3


STARTED = framed(b'{"event": {"start": {"pid": 7}}}') + framed(
    b'{"event": {"data": {"stdout": "QUFB"}}}')


@pytest.mark.parametrize("script, what, times", [
    ({"sandboxes": (503, b"{}")}, ("POST", "/sandboxes"), 1),
    ({"/files": (503, b"{}")}, ("POST", "/files?path=.vial-init"), 3),
    ({"sandboxes/i1": (429, b"{}")}, ("DELETE", "/sandboxes/i1"), 1)],
    ids=["create", "bring", "end"])
def test_what_must_not_happen_twice_is_not_asked_for_again(lie, script, what, times):
    server, busy = lie(**script)
    assert busy.run("sh", "echo ran").returncode == 125
    assert server.seen.count(what) == times


def test_a_service_that_never_stops_talking_keeps_nobody(lie):
    def talk():
        yield STARTED
        while True:
            yield framed(b'{"event": {"keepalive": {}}}') * 4000

    server, chatty = lie(Start=(200, talk))
    done = chatty.run("--timeout", "1s", "sh", "echo ran")
    assert (done.returncode, done.stdout) == (124, ""), done.stderr
    assert ("DELETE", "/sandboxes/i1") in server.seen


@pytest.mark.parametrize("env, why", [
    ({}, "E2B_SANDBOX_URL is not set, and the service says no domain"),
    ({"E2B_DOMAIN": "nothing.invalid"}, "'49983-i1.nothing.invalid' port 443")],
    ids=["nowhere", "domain"])
def test_what_a_service_of_ones_own_makes_is_not_looked_for_at_the_usual_one(lie, env, why):
    server, own = lie()
    done = own.run("sh", "echo ran", env={"E2B_SANDBOX_URL": "", **env})
    assert (done.returncode, done.stdout) == (125, "")
    assert why in done.stderr and "[VIAL-REMOTE]" in done.stderr
    assert server.seen == [("POST", "/sandboxes"), ("DELETE", "/sandboxes/i1")]


def test_a_list_that_there_is_not_is_no_sandbox_that_there_is_not(lie):
    _, other = lie(metadata=(404, b"{}"))
    done = other("ps", env={"VIAL_DRIVER": "e2b"})
    assert done.returncode == 125 and "E2B_API_URL" in done.stderr, done.stderr
    assert "no such sandbox" not in done.stderr


def test_a_guest_that_never_ran_gives_no_result(lie):
    """The service can say what it likes: what is no guest is none."""
    answer = framed(b'{"event": {"start": {"pid": 7}}}') + framed(
        b'{"event": {"data": {"stdout": "%s"}}}' % (b"QUFB" * 1000)) + framed(b"{}", 2)
    _, liar = lie(Start=(200, answer))
    done = liar.run("--json", "sh", "echo ran")
    assert json.loads(done.stdout)["verdict"] == "failed"
