# SPDX-License-Identifier: Apache-2.0
"""A real daemon for one test, and a plain client for it."""
import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time

VIAL = os.path.abspath(os.environ.get("VIAL", "build/vial"))
VIALD = os.path.join(os.path.dirname(VIAL), "viald")


class Contract:
    """Every answer is held against what the OpenAPI document says of it."""

    def __init__(self):
        self.routes, self.document = None, None

    def load(self):
        import jsonschema
        out = subprocess.run([VIALD, "--openapi"], capture_output=True, check=True)
        self.document = json.loads(out.stdout)
        self.validator = jsonschema.Draft202012Validator
        self.routes = [(re.compile(re.sub(r"\\{path\\}", ".+", re.sub(
            r"\\{(?!path)\w+\\}", "[^/]+", re.escape(path))) + r"\Z"), item)
            for path, item in self.document["paths"].items()]

    def schema(self, method, path, status, media):
        """None: it says nothing of such an answer."""
        for pattern, item in self.routes:
            if pattern.match(path.partition("?")[0]) and method.lower() in item:
                answers = item[method.lower()]["responses"]
                answer = answers.get(str(status)) or (answers["default"] if status >= 400 else None)
                assert answer, "%s %s: nothing is said of status %d" % (method, path, status)
                return answer.get("content", {}).get(media, {}).get("schema")
        return None

    def check(self, method, path, answer):
        media = (answer.headers.get("Content-Type") or "").partition(";")[0]
        if media not in ("application/json", "application/x-ndjson") or not answer.body:
            return
        if not self.routes:
            self.load()
        schema = self.schema(method, path, answer.status, media)
        if schema is None and answer.status >= 400:
            schema = {"$ref": "#/components/schemas/refusal"}  # a path that there is not
        assert schema is not None, "%s %s: nothing is said of %s" % (method, path, media)
        judge = self.validator(dict(schema, components=self.document["components"]))
        whole = [answer.json] if media == "application/json" else answer.events
        for value in whole:
            error = next(judge.iter_errors(value), None)
            assert not error, "%s %s: %s: %s" % (method, path, error.json_path, error.message)


CONTRACT = Contract()


def clean_env(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("VIAL") and k not in ("XDG_RUNTIME_DIR", "NOTIFY_SOCKET")}
    env.update(more)
    return env


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)
        self.sock.settimeout(self.timeout)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["error"]["code"]

    @property
    def events(self):
        return [json.loads(line) for line in self.body.splitlines() if line]


class Daemon:
    """viald in a directory of its own; `serve` and `policy` go into its settings."""

    def __init__(self, serve=None, policy=None, defaults=None, tcp=False, args=(), env=None,
                 uid=None):
        self.dir = tempfile.mkdtemp(prefix="served-", dir="/tmp")  # no trace of vial itself
        self.socket = os.path.join(self.dir, "run", "vial.sock")
        self.config = os.path.join(self.dir, "vial.yaml")
        self.logfile = os.path.join(self.dir, "log")
        self.settings = {"serve": dict(serve or {}), "policy": policy or {},
                         "defaults": defaults or {}}
        self.settings["serve"].setdefault("log", "json")
        self.port = None
        listen = ["unix:" + self.socket]
        if tcp:
            self.port = free_port()
            listen.append("tcp:127.0.0.1:%d" % self.port)
        self.settings["serve"].setdefault("listen", listen)
        self.args, self.env, self.uid = list(args), env or {}, uid
        self.process = None
        self.command, self.pass_fds = [VIALD], ()  # how it is started

    def write_settings(self):
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(self.settings, file)

    def start(self):
        self.write_settings()
        os.chmod(self.dir, 0o755)  # its settings are read by whom it becomes
        if self.uid is not None:
            for path in (self.dir, self.config):
                os.chown(path, self.uid, self.uid)
        self.process = subprocess.Popen(
            [*self.command, "--config", self.config, *self.args], pass_fds=self.pass_fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=open(self.logfile, "wb"),
            env=clean_env(HOME=self.dir, **self.env), cwd="/",
            user=self.uid, group=self.uid, extra_groups=[] if self.uid is not None else None)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if '"event":"ready"' in self.log() or "event=ready" in self.log():
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise RuntimeError("viald did not start: " + self.log())

    def log(self):
        with open(self.logfile, encoding="utf-8", errors="replace") as file:
            return file.read()

    def lines(self, event):
        # The keeper says in words that it had to be started anew, and the last line may
        # be on its way still.
        whole = self.log().rpartition("\n")[0]
        return [line for line in map(json.loads, (text for text in whole.splitlines()
                                                  if text.startswith("{")))
                if line["event"] == event]

    def connect(self, timeout=60):
        return UnixConnection(self.socket, timeout)

    def raw(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(self.socket)  # waits when the backlog is full
        s.settimeout(60)
        return s

    def ask(self, method, path, body=None, headers=None, connection=None):
        c = connection or self.connect()
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        c.request(method, path, body=body, headers=headers or {})
        r = c.getresponse()
        answer = Answer(r.status, r.headers, r.read())
        if not connection:
            c.close()
        if method != "HEAD" and not path.startswith("/mcp"):
            CONTRACT.check(method, path, answer)
        return answer

    def first_bytes(self, path, most):
        """How many bytes a GET gives, up to MOST, and its status."""
        c = self.connect()
        c.request("GET", path)
        r, got = c.getresponse(), 0
        try:
            while got < most and (some := r.read(1 << 20)):
                got += len(some)
        except http.client.IncompleteRead as cut:
            got += len(cut.partial)
        c.close()
        return got, r.status

    def run(self, code, language="bash", path="/v1/run", headers=None, **fields):
        return self.ask("POST", path, {"language": language, "code": code, **fields}, headers)

    def stop(self, sig=signal.SIGTERM, timeout=60):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
            self.process.wait(timeout)
        return self.process.returncode if self.process else None

    def close(self):
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        subprocess.run(["rm", "-rf", self.dir], check=False)

    def memory(self, name):
        with open("/proc/%d/status" % self.process.pid, encoding="ascii") as file:
            return int(re.search(r"^%s:\s+(\d+) kB" % name, file.read(), re.M)[1]) * 1024

    def rss(self):
        return self.memory("VmRSS")

    def peak(self):
        return self.memory("VmHWM")

    def vessels(self):
        """The guests that descend from this daemon, or from its keeper."""
        children = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid, encoding="utf-8", errors="replace") as file:
                    name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                continue
            children.setdefault(int(rest.split()[1]), []).append((int(pid), name))
        found, todo = [], [self.process.pid]
        while todo:
            for pid, name in children.get(todo.pop(), []):
                todo.append(pid)
                if name in ("vial-init", "memfd:guest"):
                    found.append(pid)
        return found

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()


def free_port():
    """Below those that the kernel gives to whoever asks for any: nobody else gets it
    between now and when it is bound."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    while True:
        port = random.randrange(first // 2, first)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port


def processes(mark):
    """The pids of programs that call themselves MARK."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/cmdline" % pid, "rb") as file:
            if file.read().startswith(mark.encode()):
                found.append(int(pid))
    return found


class Held:
    """Runs that go on until they are let go: `code` is what they wait in."""

    def __init__(self, name):
        self.mark = "vial-held-%s-%d" % (name, os.getpid())
        self.code = "(exec -a %s sleep 600); true" % self.mark

    def let_go(self, until):
        """Those that wait, and those that still come to it, until UNTIL says so."""
        def done():
            for pid in processes(self.mark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            return until()
        return wait_until(done)


def wait_until(condition, seconds=90):
    """No test depends on how fast this is; it only must not wait for ever."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    return condition()
