# SPDX-License-Identifier: Apache-2.0
"""Three daemons and a real HAProxy before them, on loopback addresses of their own."""
import hashlib
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

from daemon import Answer, Daemon, free_port, wait_until

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
CHART = os.path.join(ROOT, "deploy/helm/vial")
TOKEN = "vial_" + "f" * 40
BEARER = {"Authorization": "Bearer " + TOKEN}
COUNT = 3


class Fleet:
    name, token = "fleet", TOKEN

    def __init__(self, directory, **serve):
        self.dir = str(directory)
        self.net = "127.%d.%d." % (random.randrange(64, 127), random.randrange(1, 255))
        self.port, self.agent_port, self.front_port = free_port(), free_port(), free_port()
        self.tokens = os.path.join(self.dir, "tokens.yaml")
        with open(self.tokens, "w", encoding="utf-8") as file:
            json.dump([{"name": "fleet", "scopes": ["all"],
                        "sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}], file)
        os.chmod(self.tokens, 0o600)
        self.serve = serve
        self.nodes = [self.node(i) for i in range(COUNT)]
        self.proxy = None

    def node(self, i):
        """They stay who they are: a directory of pytest's is closed to others."""
        host = self.net + str(i)
        return Daemon(serve={
            "node": "vial-%d" % i, "tokens": self.tokens, "keeper": "off", "warm": "none",
            "hosts": ["fleet"], "listen": ["tcp:%s:%d" % (host, self.port)],
            "agent": "tcp:%s:%d" % (host, self.agent_port), "concurrency": 4,
            "notice": "2s", **self.serve})

    def write_config(self):
        sets = {"replicas.most": COUNT, "proxy.bind": "127.0.0.1:%d" % self.front_port,
                "proxy.server": "%s%%d:%d" % (self.net, self.port), "proxy.serverOptions": '""', "proxy.status": '""',
                "proxy.agentPort": self.agent_port, "proxy.checkHost": "fleet",
                "proxy.inter": "200ms", "proxy.connections": 500}
        text = subprocess.check_output(
            [sys.executable, os.path.join(ROOT, "tools/helm-render"), CHART, "--only",
             "files/haproxy.cfg"] + ["--set=%s=%s" % pair for pair in sets.items()], text=True)
        path = os.path.join(self.dir, "haproxy.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start_proxy(self):
        self.proxy = subprocess.Popen(
            ["/usr/sbin/haproxy", "-db", "-f", self.write_config()],
            stdin=subprocess.DEVNULL, stdout=open(os.path.join(self.dir, "haproxy.log"), "ab"),
            stderr=subprocess.STDOUT)
        assert wait_until(self.all_serve), "HAProxy: " + self.said()

    def said(self):
        with open(os.path.join(self.dir, "haproxy.log"), encoding="utf-8") as file:
            return file.read()

    def all_serve(self):
        """Whether the proxy finds every node by a name in an id."""
        try:
            return all(self.ask("GET", "/v1/sessions/s-%d-%016x" % (i, 0)).status == 404
                       for i in range(COUNT)) and self.ask("GET", "/v1/version").status == 200
        except OSError:
            return False

    def ask(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.front_port, timeout=60)
        try:
            c.request(method, path, None if body is None else json.dumps(body),
                      {"Host": "fleet", **BEARER, **(headers or {})})
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            c.close()

    def run(self, code, headers=None):
        return self.ask("POST", "/v1/run", {"language": "bash", "code": code}, headers)

    def session(self, **request):
        return self.ask("POST", "/v1/sessions", request).json["id"]

    def session_on(self, i, **request):
        """Sessions are opened until one is there; the others end."""
        while True:
            sid = self.session(**request)
            if sid.split("-")[1] == str(i):
                return sid
            self.ask("DELETE", "/v1/sessions/" + sid)

    def exec(self, sid, shell):
        return self.ask("POST", "/v1/sessions/%s/exec?wait=1" % sid, {"shell": shell})

    def __enter__(self):
        for d in self.nodes:
            d.start()
        self.start_proxy()
        return self

    def __exit__(self, *_):
        if self.proxy:
            self.proxy.kill()
            self.proxy.wait()
        for d in self.nodes:
            d.stop(signal.SIGKILL)
            d.close()


def finds_a_sandbox(fleet):
    """E2B's clients reach one by path, header and name, on whichever node it is."""
    key = {"X-API-Key": fleet.token}
    sid = fleet.ask("POST", "/v2/sandboxes", {"templateID": "base"}, key).json["sandboxID"]
    assert re.fullmatch("i[0-9a-v]{20}[0-2]", sid)
    assert fleet.ask("GET", "/sandboxes/" + sid, headers=key).json["sandboxID"] == sid
    assert fleet.ask("GET", "/e2b/sandboxes/" + sid, headers=key).json["sandboxID"] == sid
    assert fleet.ask("GET", "/health", headers={
        "E2b-Sandbox-Id": sid, "E2b-Sandbox-Port": "49983"}).status == 204
    assert fleet.ask("GET", "/health", headers={
        "Host": "49983-%s.%s" % (sid, fleet.name)}).status == 204
    assert fleet.ask("DELETE", "/sandboxes/" + sid, headers=key).status == 204


def finds_an_mcp_session(fleet):
    """What a client of MCP began on a node goes on there."""
    head = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}

    def say(head, **words):
        return fleet.ask("POST", "/mcp", {"jsonrpc": "2.0", **words}, head)
    begun = say(head, id=1, method="initialize", params={
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}})
    head["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]
    assert say(head, method="notifications/initialized").status == 202
    assert b"tools" in say(head, id=2, method="tools/list").body


class Load:
    """Clients that ask for runs of which they know the answer, until they are told to end."""

    def __init__(self, fleet, keyed, clients=4, again=False):
        self.fleet, self.keyed, self.again = fleet, keyed, again
        self.done, self.lost, self.wrong, self.ending = 0, [], [], False
        self.lock = threading.Lock()
        self.mark = os.urandom(4).hex()  # nodes keep answers: those of another load are not ours
        self.threads = [threading.Thread(target=self.client, args=(n,)) for n in range(clients)]

    def one(self, n, i):
        key = {"Idempotency-Key": "%s-%d-%d" % (self.mark, n, i)} if self.keyed else {}
        a = self.fleet.run("echo $((%d * 7)); exit %d" % (i, i % 2), key)
        if a.status != 200:
            raise OSError("%d %s" % (a.status, a.body[:200]))
        got = (a.json["verdict"], a.json["exit_code"], a.json["stdout"])
        want = ("nonzero" if i % 2 else "ok", i % 2, "%d\n" % (i * 7))
        with self.lock:
            self.done += 1
            if got != want:
                self.wrong.append((got, want))

    def client(self, n):
        i = 0
        while not self.ending:
            i += 1
            while True:
                try:
                    self.one(n, i)
                    break
                except (OSError, http.client.HTTPException) as e:
                    if self.again:  # the same under the same key
                        time.sleep(0.05)
                        continue
                    with self.lock:
                        self.lost.append(repr(e))
                    break

    def passed(self, more):
        """Waits until so many more runs have ended."""
        until = self.done + more
        assert wait_until(lambda: self.done >= until, 300), (self.done, self.lost[:3])

    def __enter__(self):
        for t in self.threads:
            t.start()
        self.passed(4)
        return self

    def __exit__(self, *_):
        self.ending = True
        for t in self.threads:
            t.join(90)
