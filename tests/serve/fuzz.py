# SPDX-License-Identifier: Apache-2.0
"""fuzz.py SECONDS [SEED]: raw requests against a live daemon, best one built with
sanitizers (VIAL names its `vial`): bodies, heads, chunks, what can be read in two ways,
pipelines, halves, and connections that drip or do not read. Beside them somebody asks for
/healthz all the time, and for a run. It must neither crash nor keep them waiting, and
what lies in a body, or behind a refusal, must never be served as a request.
"""
import json
import os
import random
import re
import resource
import socket
import struct
import sys
import threading
import time
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import Daemon, wait_until  # noqa: E402
from test_auth import secret, write_tokens  # noqa: E402
from test_hostile import SEEDS, SMUGGLED, mutate  # noqa: E402

PATIENCE = 30  # for an answer to /healthz on a busy machine
OPEN = 400     # connections that are left half-way, at once
HIDDEN = b"/v1/never-asked"

METHODS = [b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"TRACE", b"CONNECT",
           b"get", b"", b"G\0T", b"POST POST", b"A" * 9000, b"\xff\xfe"]
NAMES = [b"Content-Length", b"Transfer-Encoding", b"Host", b"Connection", b"Expect", b"Accept",
         b"Authorization", b"Origin", b"X-Request-Id", b"Idempotency-Key", b"Content-Type",
         b"Upgrade", b"Range", b"Cookie", b"Trailer", b"TE", b"Mcp-Session-Id",
         b"MCP-Protocol-Version", b"Last-Event-ID", b"X" * 300, b" Host", b"Ho st", b"", b"\x00",
         b"Content-Length ", b"content-length", b"\xc3\xa9"]
VALUES = [b"0", b"5", b"-1", b"+5", b"0x5", b"5, 5", b"99999999999999999999", b"18446744073709551616",
          b"chunked", b"Chunked", b"chunked, chunked", b"gzip, chunked", b"identity", b"xchunked",
          b"\x0bchunked", b"localhost", b"evil", b"[::1]:99", b"a:b:c", b"keep-alive", b"close",
          b"upgrade", b"100-continue", b"200-maybe", b"text/event-stream", b"application/x-ndjson",
          b"Bearer " + b"a" * 5000, b"Bearer", b"Basic eDp4", b"null", b"https://evil.test",
          b"../../x", b"a b", b"\xff" * 40, b"x" * 7000, b"x" * 40000, b"", b"\t", b"a\rb",
          b"a\r\n folded", b"a\n folded", b"bytes=0-"]
ENDS = [b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\r\n", b"\r\n\t"]
TARGETS = [b"/", b"*", b"//", b"/v1/run?stream=%s", b"/%", b"/%0", b"/%00", b"/%2e%2e/x", b"/a%2f..%2fb",
           b"http://x/healthz", b"/v1/runs?limit=-1", b"/v1/runs?limit=9999999999999999999999",
           b"/v1/run?stream=sse&stream=ndjson", b"/v1/schema/%ff", b"/page/..%5c", b"/" + b"a" * 9000,
           b"/" + b"%61" * 3000, b"/?" + b"a=b&" * 500, b"/v1/sessions/%s/files/" + b"d/" * 400]
PATHS = ["/v1/run", "/v1/run?stream=ndjson", "/v1/run?stream=sse", "/v1/batch", "/v1/plan", "/v1/runs",
         "/v1/runs/{}", "/v1/sessions", "/v1/sessions/{}", "/v1/sessions/{}/renew",
         "/v1/sessions/{}/exec", "/v1/sessions/{}/exec?wait=1", "/v1/sessions/{}/exec/1",
         "/v1/sessions/{}/exec/1/attach?stdout=0", "/v1/sessions/{}/exec/1/output?of=stdout&offset=3",
         "/v1/sessions/{}/exec/1/stdin?close=1", "/v1/sessions/{}/exec/1/signal",
         "/v1/sessions/{}/exec/1/resize", "/v1/sessions/{}/files/a%2Fb", "/v1/sessions/{}/list?path=.",
         "/v1/sessions/{}/stat?path=a", "/v1/sessions/{}/mkdir", "/v1/sessions/{}/move",
         "/v1/sessions/{}/tar?path=.", "/v1/sessions/{}/workspace",
         "/v1/sessions/{}/workspace/commit", "/v1/sessions/{}/contexts",
         "/v1/sessions/{}/contexts/x/run", "/v1/languages", "/v1/config", "/v1/vessels",
         "/v1/version", "/v1/schema/request", "/v1/openapi.json", "/v1/images", "/v1/images/pull",
         "/v1/images/prune", "/mcp", "/v1/pool", "/", "/page/page.js", "/metrics", "/readyz"]
KEYS = ["language", "code", "command", "stdin", "files", "env", "timeout", "memory", "cpus", "pids",
        "network", "mounts", "outputs", "driver", "image", "session", "task", "args", "requests",
        "inputs", "request", "name", "shell", "argv", "path", "from", "to", "signal", "rows", "columns",
        "idle", "lease", "jsonrpc", "method", "params", "id", "arguments", "artifacts", "keep",
        "require", "rootfs", "workspace", "workspace_mode", "output_max", "__proto__", ""]
WORDS = ["bash", "python", "true", "echo hi", "cat", "yes", "\0", "\ud800", "é" * 100, "A" * 20000,
         "../../etc/passwd", "/etc/passwd", "1s", "-1", "64m", "1e999", "none", "bridge", "native",
         "docker", "2.0", "initialize", "tools/call", "tools/list", "ping", "TERM", "9", "a/b", "",
         "2025-06-18", "execute_code", "run_code", "notifications/cancelled"]


# Other services' words; `{}` is a program.
WIRES = {
    "/run_code": {"language": "bash", "code": "echo 1", "files": {"a": "eA=="}, "run_timeout": 1},
    "/submit": {"dataset": "x", "id": 1, "completion": "x", "config": {"test_cases": [{}]}},
    "/run_jupyter": {"cells": ["1"], "files": {}},
    "/api/v2/execute": {"language": "bash", "version": "*", "files": [{"content": "echo 1"}],
                        "args": ["a"], "stdin": "x", "run_timeout": 500},
    "/submissions?wait=true": {"language_id": 46, "source_code": "echo 1", "stdin": "x"},
    "/submissions/batch?base64_encoded=true": {"submissions": [{"language_id": 46,
                                                                "source_code": "ZWNobyAx"}] * 2},
    "/submissions?page=1&per_page=3": {}, "/file": {},
    "/run": {"cmd": [{"args": ["/bin/echo"], "env": ["A=b"], "cpuLimit": 10 ** 9,
                      "memoryLimit": 1 << 25, "procLimit": 9, "copyIn": {"f": {"content": "x"}},
                      "files": [{"content": ""}, {"name": "o", "max": 99}, {"name": "e", "max": 9}],
                      "copyOut": ["f", "g?"], "copyOutCached": ["f"]}],
             "pipeMapping": [{"in": {"index": 0, "fd": 1}, "out": {"index": 0, "fd": 0}}]}}
PROGRAM = {"process": {"cmd": "/bin/sh", "args": ["-c", "echo 1"], "envs": {"A": "b"}, "cwd": "/"}}
BOXED = {
    "process.Process/Start": [PROGRAM, dict(PROGRAM, pty={"size": {"rows": 3, "cols": 3}}, tag="t")],
    "process.Process/Connect": [{"process": {"pid": 2}}], "process.Process/List": [{}],
    "process.Process/StreamInput": [{"start": {"process": {"tag": "t"}}},
                                    {"data": {"input": {"pty": "eA=="}}}],
    "process.Process/SendSignal": [{"process": {"tag": "t"}, "signal": "SIGNAL_SIGKILL"}],
    "filesystem.Filesystem/Stat": [{"path": "a"}], "filesystem.Filesystem/MakeDir": [{"path": "d"}],
    "filesystem.Filesystem/ListDir": [{"path": "/etc", "depth": 2}],
    "filesystem.Filesystem/WatchDir": [{"path": ".", "recursive": True}],
    "filesystem.Filesystem/CreateWatcher": [{"path": "."}],
    "filesystem.Filesystem/GetWatcherEvents": [{"watcherId": "w1"}],
    "files?path=a": [], "files": [], "execute": [{"code": "1", "env_vars": {"A": "b"}}],
    "contexts": [{"language": "python", "cwd": "/"}], "envs": [], "health": []}


class Fuzzer:
    def __init__(self, d, seed):
        self.d, self.seed = d, seed
        self.box = {"sandboxID": "inone", "envdAccessToken": "x"}
        self.sent, self.statuses = Counter(), Counter()
        self.session = "s-none"
        self.left = []  # sockets in the middle of something
        self.lock = threading.Lock()

    # What is sent.

    def value(self, rng, depth=0):
        kind = rng.randrange(9 if depth < 6 else 6)
        if kind < 3:
            return rng.choice(WORDS)
        if kind == 3:
            return rng.choice([0, 1, -1, 2 ** 31, 2 ** 53, -2 ** 63, 10 ** 30, 0.5, 1e308])
        if kind < 6:
            return rng.choice([None, True, False, "true", [], {}])
        if kind == 6:
            return [self.value(rng, depth + 1) for _ in range(rng.randrange(4))]
        return {rng.choice(KEYS): self.value(rng, depth + 1) for _ in range(rng.randrange(5))}

    def document(self, rng):
        """A body that is nearly good."""
        kind = rng.randrange(10)
        if kind == 0:
            return b"[" * rng.choice([10, 500, 100000])
        if kind == 1:
            return b'{"a":' * rng.choice([10, 500, 20000]) + b"1"
        good = rng.choice([
            {"language": "bash", "code": "echo hi"}, {"shell": "echo hi"}, {"argv": ["true"]},
            {"requests": [{"language": "bash", "code": "true"}] * rng.randrange(4)},
            {"request": {"language": "bash", "code": "cat"}, "inputs": ["a", "b"]},
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "f", "version": "1"}}},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
             "params": {"name": "run_code", "arguments": {"language": "bash", "code": "true"}}},
            {"name": "x", "language": "python"}, {"path": "a"}, {"from": "a", "to": "b"},
            {"signal": "TERM"}, {"rows": 3, "columns": 3}, {"idle": "5s"}])
        body = dict(good)
        for _ in range(rng.randrange(4)):
            body[rng.choice(KEYS)] = self.value(rng)
        text = json.dumps(body).encode()
        if kind == 2:
            text = text[:-1] + b',"code":"again","code":1}'
        return mutate(rng, text) if rng.random() < 0.4 else text

    def path(self, rng):
        path = rng.choice(PATHS).replace("{}", rng.choice([self.session, self.session, "x", "%2e%2e"]))
        return path.encode()

    def simple(self, rng):
        body = self.document(rng)
        return b"%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (
            rng.choice([b"POST", b"POST", b"PUT", b"GET", b"DELETE"]), self.path(rng), len(body), body)

    def chunks(self, rng):
        body, out = self.document(rng), b""
        while body:
            n = rng.choice([1, 7, 100, 5000])
            size = rng.choice([b"%x", b"%X", b"0%x", b"%x;a=b", b'%x;a="' + b"q" * 50 + b'"', b"%x ",
                               b" %x", b"0x%x", b"-%x", b"%xg", b"%x"]) % min(n, len(body))
            if rng.random() < 0.02:
                size = rng.choice([b"ffffffffffffffff", b"7fffffffffffffff", b"", b"1" * 3000])
            out += size + rng.choice(ENDS) + body[:n] + rng.choice(ENDS)
            body = body[n:]
        out += rng.choice([b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\r\nContent-Length: 9\r\n\r\n", b"0\n\n",
                           b"", b"00000\r\n\r\n", b"0\r\n" + b"T: v\r\n" * 3000 + b"\r\n"])
        return b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%s" % (
            self.path(rng), out)

    def head(self, rng):
        target = rng.choice(TARGETS) if rng.random() < 0.5 else self.path(rng)
        end = rng.choice(ENDS)
        lines = [b"%s %s %s" % (rng.choice(METHODS), target,
                                rng.choice([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b"", b"http/1.1"]))]
        for _ in range(rng.choice([0, 1, 3, 10, 120])):
            lines.append(rng.choice(NAMES) + rng.choice([b": ", b":", b" : ", b"", b":\t"]) + rng.choice(VALUES))
        return end.join(lines) + rng.choice(ENDS) + rng.choice(ENDS) + self.document(rng)[:rng.choice([0, 99])]

    def hidden(self, rng):
        """Another request where none is: in a body, or behind what can be read in two ways."""
        inner = b"GET " + HIDDEN + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        if rng.random() < 0.5:
            return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (
                rng.choice([b"/v1/run", b"/v1/none", b"/v1/sessions/x/files/a"]), len(inner), inner)
        pairs = [(b"Content-Length: 4", b"Transfer-Encoding: chunked"),
                 (b"Content-Length: 3", b"Content-Length: %d" % (3 + len(inner))),
                 (b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
                 (b"Transfer-Encoding: chunked", b"Content-Length: %d" % (5 + len(inner))),
                 (b"Transfer-Encoding: xchunked", b"X: y"), (b"Content-Length: +3", b"X: y"),
                 (b"Content-Length: 3, 3", b"X: y"), (b"Content-Length: 0x3", b"X: y")]
        pair = list(rng.choice(pairs))
        rng.shuffle(pair)
        return b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\n" + b"\r\n".join(pair) + b"\r\n\r\n" + \
            rng.choice([b"0\r\n\r\n", b"abc"]) + inner

    def pipeline(self, rng):
        one = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
        return b"".join(one % rng.choice([b"/healthz", b"/v1/version", b"/metrics", b"/v1/runs"])
                        if rng.random() < 0.7 else self.simple(rng)
                        for _ in range(rng.randint(2, 30)))

    def token(self, rng):
        """Over TCP: nobody, somebody, nearly somebody."""
        word = rng.choice([secret("boss"), secret("reader"), secret("boss")[:-1], "", "x" * 3000])
        return b"%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s %s\r\nOrigin: %s\r\n\r\n" % (
            rng.choice([b"GET", b"POST"]), self.path(rng), rng.choice([b"127.0.0.1", b"evil", b"localhost:1"]),
            rng.choice([b"Bearer", b"bearer", b"Basic"]), word.encode(),
            rng.choice([b"null", b"http://localhost", b"https://evil"]))

    def grown(self, rng, good):
        """GOOD with a member, anywhere in it, that is something else."""
        if isinstance(good, dict) and good:
            key = rng.choice([*good, rng.choice(KEYS)])
            return dict(good, **{key: self.grown(rng, good.get(key)) if rng.random() < 0.7
                                 else self.value(rng)})
        if isinstance(good, list) and good and rng.random() < 0.7:
            at = rng.randrange(len(good))
            return good[:at] + [self.grown(rng, good[at])] + good[at:] * rng.choice([0, 1, 1, 30])
        return self.value(rng)

    def wires(self, rng):
        path, good = rng.choice(list(WIRES.items()))
        body = json.dumps(self.grown(rng, good) if rng.random() < 0.7 else good).encode()
        body = mutate(rng, body) if rng.random() < 0.2 else body
        kind = rng.choice([b"application/json", b"application/json", b"multipart/form-data; boundary=B", b""])
        return b"%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
            rng.choice([b"POST", b"POST", b"POST", b"GET"]), path.encode(), kind, len(body), body)

    def boxed(self, rng):
        path, messages = rng.choice(list(BOXED.items()))
        body = b""
        framed = "/" in path and rng.random() < 0.7
        for message in messages:
            text = json.dumps(self.grown(rng, message) if rng.random() < 0.6 else message).encode()
            size = rng.choice([len(text)] * 5 + [0, 1 << 31, len(text) + 1])
            body += (struct.pack(">BI", rng.choice([0, 0, 0, 1, 2, 255]), size) if framed else b"") + text
        if path.startswith("files") and rng.random() < 0.7:
            body = b'--B\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\nx\r\n--B--\r\n' % \
                rng.choice([b"a", b"../a", b"/etc/x", b'a"b', b"\xff", b"a" * 5000, b""])
            body = mutate(rng, body) if rng.random() < 0.5 else body
        kind = b"application/connect+json" if framed else b"multipart/form-data; boundary=B" \
            if path.startswith("files") else b"application/json"
        port = b"49983" if "/" in path or path[:3] in ("fil", "env", "hea") else b"49999"
        return (b"%s /%s HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: %s\r\n"
                b"X-Access-Token: %s\r\nContent-Type: %s\r\nConnect-Timeout-Ms: 900\r\n"
                b"Content-Length: %d\r\n\r\n%s") % (
            rng.choice([b"POST", b"POST", b"POST", b"GET"]), path.encode(), self.box["sandboxID"].encode(),
            rng.choice([port] * 9 + [b"80"]), self.box["envdAccessToken"].encode(), kind, len(body), body)

    KINDS = {"wires": wires, "boxed": boxed, "mutated": lambda self, rng: mutate(rng, rng.choice(SEEDS + SMUGGLED)), "simple": simple,
             "chunks": chunks, "head": head, "hidden": hidden, "pipeline": pipeline, "token": token}

    # How it is sent.

    def connect(self, tcp):
        if not tcp:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(PATIENCE)
            s.connect(self.d.socket)
        else:
            s = socket.create_connection(("127.0.0.1", self.d.port), PATIENCE)
        return s

    def leave(self, s):
        """Half-way: it is kept open, and the oldest of those goes."""
        with self.lock:
            self.left.append(s)
            old = self.left.pop(0) if len(self.left) > OPEN else None
        if old:
            old.close()

    def once(self, rng):
        kind = rng.choice(list(self.KINDS))
        data = self.KINDS[kind](self, rng)
        s = self.connect(kind == "token" or rng.random() < 0.1)
        self.sent[kind] += 1
        step = rng.choice([1 << 20, 1 << 20, 1 << 20, 4096, 100])
        until = len(data) if rng.random() < 0.8 else rng.randrange(len(data) + 1)
        if step == 100:
            until = min(until, 5000)
        for at in range(0, until, step):
            s.sendall(data[at:min(at + step, until)])
        if rng.random() < 0.1:
            s.shutdown(socket.SHUT_WR)
        if until < len(data) or rng.random() < 0.05:
            self.leave(s)
            return
        if rng.random() < 0.8:
            s.settimeout(0.25)
            answer = s.recv(65536)
            for status in re.findall(rb"HTTP/1\.[01] (\d\d\d)", answer):
                self.statuses[status.decode()] += 1
        s.close()

    def attack(self, number, stop):
        rng = random.Random(self.seed + number)
        while time.monotonic() < stop:
            try:
                self.once(rng)
            except OSError:
                pass

    def drip(self, stop):
        """A byte to each of those that were left half-way, all the time."""
        while time.monotonic() < stop:
            with self.lock:
                sockets = list(self.left)
            for s in sockets:
                try:
                    s.send(b"a", socket.MSG_DONTWAIT)
                except OSError:
                    pass
            time.sleep(0.5)


def descriptors(d, all_of_them=False):
    """But for those of MCP's sessions, which are bounded and live for an hour."""
    where = "/proc/%d/fd/" % d.process.pid
    found = []
    for name in os.listdir(where):
        try:
            found.append(os.readlink(where + name))
        except OSError:
            pass
    events = found.count("anon_inode:[eventfd]")
    assert events < 700, events
    return found if all_of_them else [what for what in found if "[eventfd]" not in what]


def sandboxes(d, method, path, body=None):
    """E2B's control API; None where it is refused."""
    c = d.connect(PATIENCE)
    c.request(method, path, json.dumps(body) if body else None, {"X-API-Key": secret("boss")})
    answer = c.getresponse()
    said = json.loads(answer.read() or b"null")
    c.close()
    return said if answer.status < 300 else None


def watch(d, fuzzer, stop):
    """Asks for its health, and now and then for a run; the longest wait for each."""
    worst, checks, runs, last = 0.0, 0, 0, 0.0
    while time.monotonic() < stop:
        begun = time.monotonic()
        assert d.process.poll() is None, "the daemon died: " + d.log()[-3000:]
        answer = d.ask("GET", "/healthz", connection=d.connect(PATIENCE))
        assert answer.status == 200
        worst, checks = max(worst, time.monotonic() - begun), checks + 1
        if begun - last > 3:
            last = begun
            # Others may have all places; what is refused is refused at once, in form.
            answer = d.run("echo alive")
            runs += answer.status == 200 and answer.json["stdout"] == "alive\n"
            assert answer.status in (200, 503), answer.body
            made = d.ask("POST", "/v1/sessions", {"lease": "20s"})
            if made.status < 300:
                fuzzer.session = made.json["id"]
            fuzzer.box = sandboxes(d, "POST", "/v2/sandboxes", {
                "templateID": "base", "timeout": 20}) or fuzzer.box
        time.sleep(0.1)
    return worst, checks, runs


def main():
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    print("seed", seed, flush=True)
    d = Daemon(serve={"idle": "5s", "slow": "2s", "sessions": 40, "queue": 50, "keeper": "off",
                      "body": "4m", "e2b": "on",
                      "wires": ["sandboxfusion", "piston", "judge0", "gojudge"]}, tcp=True,
               defaults={"timeout": "2s", "memory": "64m"},
               policy={"max_timeout": "3s", "max_memory": "64m"},
               env={"DOCKER_HOST": "unix:///nonexistent",
                    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=0",
                    "UBSAN_OPTIONS": "print_stacktrace=1"})
    d.settings["serve"]["tokens"] = write_tokens(d.dir + "/tokens")
    with d:
        fuzzer = Fuzzer(d, seed)
        at_first = len(descriptors(d))
        stop = time.monotonic() + seconds
        threads = [threading.Thread(target=fuzzer.attack, args=(n, stop)) for n in range(8)]
        threads.append(threading.Thread(target=fuzzer.drip, args=(stop,)))
        for t in threads:
            t.start()
        try:
            worst, checks, runs = watch(d, fuzzer, stop)
        finally:
            stop = 0
        for t in threads:
            t.join(60)
        for s in fuzzer.left:
            s.close()
        assert wait_until(lambda: d.run("echo alive").json.get("stdout") == "alive\n", 60)
        # Ended sandboxes go with a call of their own.
        assert wait_until(lambda: sandboxes(d, "GET", "/v2/sandboxes") is not None and
                          len(descriptors(d)) <= at_first + 60, 90), \
            Counter(re.sub(r"\d+", "", what) for what in descriptors(d, True))
        log = d.log()
        assert HIDDEN.decode() not in log, "a hidden request was served"
        assert "Sanitizer" not in log and "runtime error" not in log, \
            "\n".join(line for line in log.splitlines() if not line.startswith("{"))[:5000]
        print("%d requests: %s" % (sum(fuzzer.sent.values()), dict(fuzzer.sent)))
        print("answers:", dict(sorted(fuzzer.statuses.items())))
        print("/healthz answered %d times, after %.2f s at most; %d runs beside" % (checks, worst, runs))
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
