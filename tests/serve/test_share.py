# SPDX-License-Identifier: Apache-2.0
"""One caller and the others: what one takes is its own share, whoever it is."""
import contextlib
import hashlib
import json
import os
import resource
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from daemon import Daemon, wait_until
from test_auth import ask, secret, write_tokens


@pytest.fixture
def tokens(tmp_path):
    def make(**quotas):
        entries = [{"name": name, "scopes": ["run", "read", "session"], **quota,
                    "sha256": hashlib.sha256(secret(name).encode()).hexdigest()}
                   for name, quota in quotas.items()]
        return write_tokens(str(tmp_path / "tokens"), entries=entries)
    return make


def descriptors(d):
    return len(os.listdir("/proc/%d/fd" % d.process.pid))


def send(d, head, body=b"", name=None):
    """A request over TCP that is not waited for: its socket."""
    s = socket.create_connection(("127.0.0.1", d.port), timeout=60)
    token = "Authorization: Bearer %s\r\n" % secret(name) if name else ""
    with contextlib.suppress(OSError):  # refused before it has all been sent
        s.sendall(head.encode() + b"\r\nHost: localhost\r\n" + token.encode() + body)
    return s


def hears(s):
    """The first line of what came back; "" when the connection was closed."""
    try:
        return s.makefile("rb").readline().decode()
    except ConnectionError:
        return ""


def is_well(d):
    """Everybody hears that the daemon lives; on TCP and on the unix socket."""
    return all(status == 200 for path in ("/healthz", "/readyz")
               for status in (ask(d, "GET", path).status, d.ask("GET", path).status))


def at_once(count, work):
    """WORK by COUNT threads that begin together; what they gave."""
    line = threading.Barrier(count)

    def begin(number):
        line.wait()
        return work(number)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def test_who_opens_many_sessions_at_once_gets_no_more_than_one_by_one():
    with Daemon(serve={"caller_sessions": 2, "concurrency": 24}) as d:
        answers = at_once(24, lambda _: d.ask("POST", "/v1/sessions", {}))
        assert sorted(a.status for a in answers) == [201] * 2 + [503] * 22


def test_a_session_that_is_deleted_is_given_back():
    with Daemon(serve={"caller_sessions": 4}) as d:
        def open_and_delete():
            path = "/v1/sessions/" + d.ask("POST", "/v1/sessions", {}).json["id"]
            assert d.ask("DELETE", path).status == 204
            return path
        path = open_and_delete()
        before = descriptors(d)
        rss = d.rss()
        for _ in range(60):
            path = open_and_delete()
        assert wait_until(lambda: descriptors(d) <= before + 8)
        assert d.rss() < rss + (3 << 20)
        # How it ended is known still, and what it had is not.
        assert d.ask("GET", path).json["outcome"] == "completed"
        assert d.ask("GET", path + "/exec").status == 404
        assert d.ask("DELETE", path).status == 204


def test_a_line_of_the_log_is_one_line():
    with Daemon(serve={"log": "logfmt"}) as d:
        assert d.ask("GET", "/v1/runs/a%0d%0aevent=forged%0d%1b[2J").status == 404
        assert wait_until(lambda: "forged" in d.log())
        with open(d.logfile, "rb") as file:
            log = file.read()
        line = next(l for l in log.split(b"\n") if b"forged" in l)
        assert b"event=http" in line and b"\r" not in log and b"\x1b" not in log


def test_an_administrator_cancels_the_run_that_was_meant(tokens):
    with Daemon(serve={"tokens": tokens(ann={}, bob={}), "concurrency": 4}, tcp=True) as d:
        results = {}

        def run(name, held):
            results[name] = ask(d, "POST", "/v1/run", name, held, X_Request_Id="same").json
        body = {"language": "bash", "code": "sleep 600", "timeout": "600s"}
        threads = [threading.Thread(target=run, args=(name, body)) for name in ("ann", "bob")]
        for t in threads:
            t.start()
        assert wait_until(lambda: len([r for r in d.ask("GET", "/v1/runs?all=1").json
                                       if r["state"] == "running"]) == 2)
        refused = ask(d, "DELETE", "/v1/runs/same", "boss")
        assert (refused.status, refused.code) == (409, "VIAL-CONFLICT")
        assert "token:ann" in refused.json["error"]["message"]
        assert "token:bob" in refused.json["error"]["message"]
        assert ask(d, "DELETE", "/v1/runs/same?caller=token:ann", "bob").status == 403
        assert ask(d, "DELETE", "/v1/runs/same", "bob").status == 204
        threads[1].join(60)
        assert results["bob"]["verdict"] == "cancelled" and "ann" not in results
        assert ask(d, "DELETE", "/v1/runs/same?caller=token:ann", "boss").status == 204
        threads[0].join(60)
        assert results["ann"]["verdict"] == "cancelled"


def test_no_body_is_taken_from_a_stranger(tokens):
    """Eight of 64 MiB took all the room there is for bodies."""
    with Daemon(serve={"tokens": tokens(ann={})}, tcp=True) as d:
        rss = d.rss()
        size = 64 << 20
        held = [send(d, "POST /v1/run HTTP/1.1\r\nContent-Length: %d" % size,
                     b"\r\n" + b"x" * (size - 1)) for _ in range(8)]
        held += [send(d, "POST /v1/run HTTP/1.1\r\nTransfer-Encoding: chunked",
                      b"\r\n1000\r\n" + b"x" * 4096) for _ in range(40)]
        body = {"language": "bash", "code": "cat", "stdin": "x" * 100000}
        for _ in range(5):
            assert len(ask(d, "POST", "/v1/run", "ann", body).json["stdout"]) == 100000
        assert d.rss() < rss + (64 << 20)
        assert {hears(s)[:12] for s in held} <= {"HTTP/1.1 401", ""}
        # What was announced and is small is passed over, so that the answer is heard.
        small = ask(d, "POST", "/v1/run", None, body | {"stdin": ""})
        assert (small.status, small.code) == (401, "VIAL-AUTH")


def test_strangers_do_not_keep_callers_out(tokens):
    """300 connections that sent half a head each kept a caller out for a minute."""
    with Daemon(serve={"tokens": tokens(ann={}), "connections": 300, "idle": "600s",
                       "slow": "600s"}, tcp=True) as d:
        held = [send(d, "GET /v1/version HTTP/1.1", b"X-A: ") for _ in range(700)]
        assert ask(d, "GET", "/v1/version", "ann").status == 200
        assert is_well(d)
        assert d.ask("GET", "/v1/version").status == 200
        assert len(held) == 700


def test_who_waits_a_lot_keeps_nobody_else_out(tokens):
    """1,150 readers of one caller's that followed an output had everybody refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 8192:
        pytest.skip("no more than %d descriptors" % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 8192), hard))
    with Daemon(serve={"tokens": tokens(ann={}, bob={})}, tcp=True) as d:
        session = "/v1/sessions/" + ask(d, "POST", "/v1/sessions", "ann",
                                        {"timeout": "600s"}).json["id"]
        assert ask(d, "POST", session + "/exec", "ann", {"shell": "sleep 600"}).status == 201
        follow = "GET %s/exec/1/output?follow=1 HTTP/1.1" % session
        held = []
        while True:
            held += [send(d, follow, b"\r\n", "ann") for _ in range(50)]
            if "503" in hears(held[-1]):
                break
            assert len(held) < 4000
        assert len(held) > 1100
        assert ask(d, "GET", "/v1/version", "ann").status == 503
        assert is_well(d)
        run = ask(d, "POST", "/v1/run", "bob", {"language": "bash", "code": "echo on"})
        assert run.json["stdout"] == "on\n"
        assert d.run("echo on").json["stdout"] == "on\n"
        # Its own places are its own again once it lets go of them.
        for s in held:
            s.close()
        assert wait_until(lambda: ask(d, "GET", "/v1/version", "ann").status == 200)


def test_who_holds_turns_with_long_runs_keeps_nobody_else_out(tokens):
    """Of eight turns one caller's sleepers had seven, and all others one."""
    body = json.dumps({"language": "bash", "code": "sleep 600", "timeout": "600s"}).encode()
    with Daemon(serve={"tokens": tokens(ann={}, bob={}, eve={})}, tcp=True) as d:
        def sleepers(name, count):
            return [send(d, "POST /v1/run HTTP/1.1\r\nContent-Length: %d" % len(body),
                         b"\r\n" + body, name) for _ in range(count)]

        def count(gauge):
            return next(int(line.split()[1]) for line in d.ask("GET", "/metrics").body.decode()
                        .splitlines() if line.startswith("vial_%s " % gauge))
        turns = 4 * os.cpu_count()
        share = max(n for n in range(1, turns + 1) if n // 8 <= turns - n)
        held = sleepers("ann", turns)
        assert wait_until(lambda: count("runs_active") == share)
        assert count("queue_length") == turns - share
        # All of these go on, though none of ann's has ended; she has no more than before.
        held += sleepers("bob", share)
        assert wait_until(lambda: count("runs_active") == 2 * share)
        assert count("queue_length") == turns - share
        run = ask(d, "POST", "/v1/run", "eve", {"language": "bash", "code": "echo on"})
        assert run.json["stdout"] == "on\n"
        for s in held:
            s.close()
        assert wait_until(lambda: count("runs_active") == count("queue_length") == 0)


def test_programs_in_sessions_count_for_their_callers_quotas(tokens):
    """Programs and cells went past the number of runs at once and in a minute."""
    with Daemon(serve={"tokens": tokens(few={"concurrency": 2},
                                        slow={"runs_per_minute": 6},
                                        busy={"cpu_per_minute": "1s"}),
                       "concurrency": 8}, tcp=True) as d:
        def opened(name):
            return "/v1/sessions/" + ask(d, "POST", "/v1/sessions", name,
                                         {"timeout": "60s"}).json["id"]

        def start(name, path, line="sleep 600", query=""):
            return ask(d, "POST", path + "/exec" + query, name, {"shell": line})
        few = opened("few")
        answers = at_once(12, lambda _: start("few", few))
        assert sorted(a.status for a in answers) == [201] * 2 + [503] * 10
        refused = next(a for a in answers if a.status == 503)
        assert "runs and programs at once" in refused.json["error"]["message"]
        cell = ask(d, "POST", few + "/contexts/python/run", "few", {"code": "1"})
        assert (cell.status, cell.code) == (503, "VIAL-BUSY")
        # One that ends, in whichever way, gives its place back.
        assert ask(d, "POST", few + "/exec/1/signal", "few", {"signal": "KILL"}).status == 204
        assert wait_until(lambda: not ask(d, "GET", few + "/exec/1", "few").json["running"])
        assert start("few", few).status == 201
        assert ask(d, "DELETE", few, "few").status == 204
        few = opened("few")
        assert start("few", few, "echo on", "?wait=1").json["stdout"] == "on\n"

        slow = opened("slow")  # the first of six
        assert [start("slow", slow, ":").status for _ in range(4)] == [201] * 4
        cell = ask(d, "POST", slow + "/contexts/python/run", "slow", {"code": "1"})
        assert cell.status == 200
        refused = start("slow", slow, ":")
        assert (refused.status, refused.code) == (429, "VIAL-RATE")
        assert int(refused.headers["Retry-After"]) > 1

        busy = opened("busy")
        spin = "i=0; while :; do i=$((i+1)); done"
        assert start("busy", busy, spin).status == 201
        assert wait_until(lambda: start("busy", busy, ":").status == 429)
        assert start("busy", busy, ":").code == "VIAL-RATE"


def test_what_a_batch_copies_for_its_items_is_paid_for():
    """Each of 40 would have 16 MiB while it waits for its turn; a caller has 256 for bodies."""
    with Daemon(serve={"caller_concurrency": 1, "concurrency": 64}) as d:
        before = d.peak()
        batch = {"request": {"language": "bash", "code": ":", "stdin": "x" * (16 << 20)},
                 "inputs": [{}] * 40}
        assert d.ask("POST", "/v1/batch", batch).events[-1]["verdicts"] == {"ok": 40}
        assert d.peak() - before < 450 << 20
