# SPDX-License-Identifier: Apache-2.0
"""Clients that mean no good: slow, huge, half-open, idle by the thousand, malformed."""
import json
import os
import random
import resource
import select
import socket
import threading
import time

import pytest

from daemon import Daemon, wait_until

SECONDS = float(os.environ.get("SERVE_FUZZ", "6"))


def answers(d):
    return d.run("echo alive").json["stdout"] == "alive\n"


def test_a_huge_body_is_refused_before_it_is_sent():
    with Daemon(serve={"body": "1m"}) as d:
        s = d.raw()
        s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        assert b" 413 " in s.recv(4096)
        s = d.raw()
        s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        try:
            while sent < 64 << 20:
                s.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                sent += 65536
        except OSError:
            pass
        assert sent < 64 << 20
        assert d.rss() < 200 << 20
        assert d.run("true", stdin="x" * 100000).status == 200
        assert answers(d)


@pytest.mark.parametrize("path, kind", [("/v1/run", "application/json"),
                                        ("/v1/batch", "application/json"),
                                        ("/mcp", "application/json")])
def test_small_values_do_not_become_large_ones(path, kind):
    """32 MiB of {}, took 2.5 GiB when they were read."""
    body = b"[" + b"{}," * ((32 << 20) // 3) + b"{}]"
    with Daemon(serve={"body": "64m"}) as d:
        d.run("true")
        answer = d.ask("POST", path, body, {"Content-Type": kind,
                                            "Accept": "application/json, text/event-stream"})
        assert answer.status == 400, answer.body[:300]
        assert b"more than 262144 values" in answer.body
        assert d.peak() < 200 << 20
        assert answers(d)


def test_slow_senders_are_cut_off_and_hurt_nobody():
    with Daemon(serve={"idle": "1s", "slow": "1s"}) as d:
        heads = [d.raw() for _ in range(50)]
        bodies = [d.raw() for _ in range(50)]
        for s in heads:
            s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: x\r\nX-A: ")
        for s in bodies:
            s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        open_ones = set(heads + bodies)

        def drip():
            for s in list(open_ones):
                try:
                    s.send(b"a")
                    if select.select([s], [], [], 0)[0] and not s.recv(4096):
                        open_ones.discard(s)
                except OSError:
                    open_ones.discard(s)
            return not open_ones
        assert wait_until(drip)
        assert answers(d)


def test_a_client_that_does_not_read_holds_up_itself_alone():
    with Daemon(serve={"idle": "2s", "slow": "1s", "concurrency": 4}) as d:
        s = d.raw()
        body = json.dumps({"language": "bash", "code": "yes", "timeout": "60s"}).encode()
        s.sendall(b"POST /v1/run?stream=ndjson HTTP/1.1\r\nHost: x\r\nX-Request-Id: deaf\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        assert wait_until(lambda: d.ask("GET", "/v1/runs/deaf").status == 200)
        assert answers(d)
        assert wait_until(lambda: d.ask("GET", "/v1/runs/deaf").json["verdict"])
        assert d.ask("GET", "/v1/runs/deaf").json["verdict"] == "cancelled"
        assert d.rss() < 200 << 20


def test_half_closed_connections_are_forgotten():
    with Daemon() as d:
        before = len(os.listdir("/proc/%d/fd" % d.process.pid))
        for _ in range(200):
            s = d.raw()
            s.sendall(b"GET /v1/runs HTTP/1.1\r\nHost: x\r\n\r\n")
            s.shutdown(socket.SHUT_WR)
            s.close()
        assert answers(d)
        assert wait_until(lambda: len(os.listdir("/proc/%d/fd" % d.process.pid)) <= before + 5)


def test_ten_thousand_idle_connections_hurt_nobody():
    many = 10000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < many + 1000:
        pytest.skip("this user may have only %d descriptors" % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sockets = []
    try:
        with Daemon(serve={"idle": "10m"}) as d:
            for _ in range(many):
                sockets.append(d.raw())
            assert answers(d)
            text = d.ask("GET", "/metrics").body.decode()
            value = next(l for l in text.splitlines() if l.startswith("vial_http_connections "))
            assert float(value.split()[1]) >= many
            handlers = next(l for l in text.splitlines() if l.startswith("vial_http_handlers "))
            assert float(handlers.split()[1]) <= 2
            for s in sockets[:: many // 20]:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"200 OK" in s.recv(4096)
            print("resident with %d connections: %d MiB" % (many, d.rss() >> 20))
            assert d.rss() < 300 << 20
            while sockets:
                sockets.pop().close()
            assert answers(d)
    finally:
        for s in sockets:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


SMUGGLED = [
    b"POST /v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 40\r\n\r\nabcGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/run HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    b"POST /v1/run HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nabcde",
    b"POST /v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\nabcde",
    b"POST /v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nabcde",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n\r\n",
    b"GET /../healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://evil/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("number", range(len(SMUGGLED)))
def test_a_request_that_can_be_read_in_two_ways_is_refused_once(daemon, number):
    """The connection ends with the refusal, and what follows is not another request."""
    s = daemon.raw()
    s.sendall(SMUGGLED[number])
    data = b""
    try:
        while chunk := s.recv(65536):
            data += chunk
    except OSError:
        pass
    # Errors of libmicrohttpd 0.9.75 itself have their head twice.
    statuses = {line.split()[1] for line in data.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")}
    assert statuses <= {b"400", b"501"} and len(statuses) <= 1


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 9)))
        elif kind == 2:
            del data[at:at + rng.randint(1, 20)]
        elif kind == 3:
            data[at:at] = rng.choice([b"\r\n", b"\0", b"%00", b"\n", b":", b"Transfer-Encoding: "
                                      b"chunked\r\n", b"Content-Length: 7\r\n", b"Expect: "
                                      b"100-continue\r\n", b"fffffffffffffffff\r\n"])
        elif kind == 4:
            data[at:at] = b"A" * rng.choice([10, 1000, 40000])
        else:
            data += data[:at]
    return bytes(data)


SEEDS = [
    b'POST /v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: 36\r\n\r\n{"language":"bash","code":"echo ok"}',
    b'POST /v1/run?stream=sse HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"language":"bas\r\n14\r\nh","code":"echo ok"}\r\n0\r\n\r\n',
    b"GET /v1/runs?limit=3 HTTP/1.1\r\nHost: x\r\nX-Request-Id: f\r\n\r\n",
    b"PUT /v1/sessions/s-1/files/a%20b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    b'POST /v1/sessions/s-1/exec HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{"shell":"ls"}',
    b'POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{"requests":[]}',
    b"GET /metrics HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"DELETE /v1/runs/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer aaaaaaaaaaaaaaaaaaaa\r\n\r\n",
    b'POST /v1/images/pull HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{"name":"a:b"}',
    *SMUGGLED,
]


def test_mutated_requests_neither_crash_nor_block_the_daemon():
    seed = int(os.environ.get("SERVE_FUZZ_SEED", str(random.randrange(1 << 30))))
    print("seed", seed)
    with Daemon(serve={"idle": "2s", "slow": "1s", "log": "none"},
                defaults={"timeout": "2s"}, args=["--log", "json"],
                env={"DOCKER_HOST": "unix:///nonexistent"}) as d:
        stop, over = time.monotonic() + SECONDS, threading.Event()
        sent = [0] * 4

        def attack(n):
            rng = random.Random(seed + n)
            while not over.is_set():
                data = mutate(rng, rng.choice(SEEDS))
                try:
                    s = d.raw()
                    s.settimeout(0.02)
                    for at in range(0, len(data), rng.choice([7, 100, 1 << 20])):
                        s.send(data[at:at + (1 << 20)])
                        if rng.random() < 0.9:
                            break
                    if rng.random() < 0.5:
                        s.recv(65536)
                    s.close()
                except OSError:
                    pass
                sent[n] += 1
        threads = [threading.Thread(target=attack, args=(n,)) for n in range(len(sent))]
        for t in threads:
            t.start()
        checks = 0
        try:
            while time.monotonic() < stop or sum(sent) <= 100 or checks <= 5:
                assert d.process.poll() is None
                assert d.ask("GET", "/healthz").status == 200
                checks += 1
                time.sleep(0.1)
        finally:
            over.set()
            for t in threads:
                t.join(60)
        assert answers(d)
        print("%d requests sent" % sum(sent))
        assert wait_until(lambda: len(os.listdir("/proc/%d/fd" % d.process.pid)) < 60)
        assert d.stop() == 0
