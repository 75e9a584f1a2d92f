# SPDX-License-Identifier: Apache-2.0
"""What programs print, and what it costs the daemon: memory, disk, and other callers."""
import http.client
import json
import os
import socket

import pytest

from daemon import Daemon, wait_until
from test_auth import ask, secret, write_tokens

MIB = 1 << 20


def spilled(d):
    """Bytes of the host's disk that the daemon's unlinked files take."""
    total = 0
    base = "/proc/%d/fd" % d.process.pid
    for name in os.listdir(base):
        try:
            if "(deleted)" in os.readlink(os.path.join(base, name)):
                total += os.stat(os.path.join(base, name)).st_blocks * 512
        except OSError:
            continue
    return total


def session(d, **fields):
    answer = d.ask("POST", "/v1/sessions", fields)
    assert answer.status == 201, answer.body
    return "/v1/sessions/" + answer.json["id"]


def flood(d, at, megabytes, **more):
    shell = "head -c %dM /dev/zero; head -c %dM /dev/zero >&2" % (megabytes, megabytes)
    answer = d.ask("POST", at + "/exec?wait=1", {"shell": shell, **more})
    assert answer.status == 200, answer.body[:300]
    return answer.json


def test_kept_output_takes_what_was_asked_for():
    """With output_limit 1k, one exec took 512 MiB of the host's disk."""
    with Daemon() as d:
        at = session(d, disk="1m", output_limit="1k")
        told = flood(d, at, 300)
        assert told["stdout_bytes"] == 300 * MIB and told["stdout_truncated"]
        print("on disk:", spilled(d))
        assert spilled(d) < MIB


@pytest.mark.parametrize("how, mib", [("", 24), ("?raw=1", 16), ("?stream=ndjson", 16)])
def test_an_answer_costs_what_was_kept(how, mib):
    """64 MiB of zero bytes, whose JSON is six times as long, took 1.8 GiB."""
    with Daemon() as d:
        d.run("true")
        before = d.peak()
        answer = d.ask("POST", "/v1/run" + how,
                       {"language": "bash", "code": "head -c %dM /dev/zero" % mib,
                        "output_limit": "%dm" % mib})
        assert answer.status == 200
        took = d.peak() - before
        print("peak:", took / MIB, "MiB")
        assert took <= 1.2 * mib * MIB + 4 * MIB
        if not how:
            assert answer.json["stdout"] == "\0" * (mib * MIB)
        assert d.peak() < 200 * MIB


def unread(d, name, path, body, small=True, headers=None):
    """A request whose answer nobody reads."""
    s = socket.create_connection(("127.0.0.1", d.port))
    if small:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    text = json.dumps(body).encode()
    more = "".join("%s: %s\r\n" % item for item in (headers or {}).items()).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n%s"
              b"Content-Length: %d\r\n\r\n%s"
              % (path.encode(), secret(name).encode(), more, len(text), text))
    return s


def test_what_all_answers_hold_is_bounded(tmp_path):
    """Four such runs took 6 GiB. A caller has at most half of what there is for all."""
    large = {"language": "bash", "code": "head -c 4M /dev/zero", "output_limit": "4m"}
    small = {"language": "bash", "code": "echo small", "output_limit": "4m"}
    serve = {"output_memory": "64m", "concurrency": 8,
             "tokens": write_tokens(str(tmp_path / "tokens"))}
    with Daemon(serve=serve, tcp=True) as d:
        before = d.peak()
        held = [unread(d, "runner", "/v1/run", large)]
        while b" 200 " in held[-1].recv(20, socket.MSG_PEEK):
            held.append(unread(d, "runner", "/v1/run", large))
            assert len(held) < 20
        refused = ask(d, "POST", "/v1/run", "runner", small, Idempotency_Key="again")
        assert refused.status == 503
        assert refused.headers["Retry-After"] and refused.json["error"]["code"] == "VIAL-BUSY"
        print("peak:", (d.peak() - before) / MIB, "MiB")
        assert 20 * MIB < d.peak() - before < 40 * MIB
        assert ask(d, "POST", "/v1/run", "boss", small).json["stdout"] == "small\n"
        for s in held:
            s.close()
        assert wait_until(lambda: ask(d, "POST", "/v1/run", "runner", small,
                                      Idempotency_Key="again").status == 200)
        never = ask(d, "POST", "/v1/run", "runner", {**small, "output_limit": "64m"})
        assert never.status == 403 and never.code == "VIAL-CAP"
        assert "serve.output_memory" in never.json["error"]["remedy"]


def reading(uri):
    """The body and the headers of a request that reads a resource."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}
    return ({"jsonrpc": "2.0", "id": 1, "method": "resources/read",
             "params": {"uri": uri, "_meta": meta}},
            {"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28",
             "Mcp-Method": "resources/read", "Mcp-Name": uri})


def test_a_resource_is_paid_for_until_it_was_read(tmp_path):
    """Each unread answer held its copies, and nobody counted them."""
    serve = {"output_memory": "300m", "tokens": write_tokens(str(tmp_path / "tokens"))}
    with Daemon(serve=serve, tcp=True) as d:
        at = "/v1/sessions/" + ask(d, "POST", "/v1/sessions", "boss", {}).json["id"]
        made = ask(d, "POST", at + "/exec?wait=1", "boss",
                   {"shell": "head -c 6M /dev/zero | tr '\\0' x > big"})
        assert made.json["exit_code"] == 0, made.body
        body, headers = reading("sandbox://%s/big" % at.split("/")[-1])

        def read():
            return ask(d, "POST", "/mcp", "boss", body, **headers)

        assert read().json["result"]["contents"][0]["text"] == "x" * (6 * MIB)
        held = unread(d, "boss", "/mcp", body, headers=headers)
        assert b" 200 " in held.recv(20, socket.MSG_PEEK)
        refused = read()
        held.close()
        assert refused.status == 503 and b"VIAL-BUSY" in refused.body, refused.body[:300]
        assert wait_until(lambda: read().status == 200)


def test_a_cell_keeps_what_there_is_memory_for():
    """A cell that printed as much as its session allowed took four times that."""
    with Daemon(serve={"output_memory": "32m"}) as d:
        at = session(d, output_limit="256m") + "/contexts/python/run"
        assert d.ask("POST", at, {"code": "1"}).status == 200
        before = d.peak()
        cell = d.ask("POST", at, {"code": "for i in range(200): print('x' * (1 << 20))"})
        assert cell.status == 200 and cell.json["stdout_truncated"], cell.body[:300]
        print("peak:", (d.peak() - before) / MIB, "MiB")
        assert len(cell.json["stdout"]) > 4 * MIB and d.peak() - before < 40 * MIB
        few = d.ask("POST", at, {"code": "print('x' * (1 << 20)); 2"})
        assert few.json["stdout"] == "x" * MIB + "\n"
        assert few.json["value"]["text/plain"] == "2"


def test_kept_output_is_freed_with_its_session():
    """Ten execs took 5 GiB, which were still held after DELETE."""
    with Daemon(serve={"session_output": "24m"}) as d:
        at = session(d, output_limit="8m")
        for _ in range(5):
            told = flood(d, at, 8)
            assert not told["stdout_truncated"] or told["stdout_bytes"] > MIB
        taken = spilled(d)
        print("on disk:", taken)
        assert 8 * MIB < taken <= 24 * MIB
        first, last = (d.ask("GET", at + "/exec/%d/output" % n) for n in (1, 5))
        assert first.headers["Vial-Gap"] == str(8 * MIB) and first.body == b""
        assert last.body == bytes(8 * MIB) and "Vial-Gap" not in last.headers
        assert d.ask("DELETE", at).status == 204
        assert wait_until(lambda: spilled(d) == 0)


def test_the_disk_for_output_is_shared(tmp_path):
    serve = {"output_disk": "16m", "tokens": write_tokens(str(tmp_path / "tokens"))}
    with Daemon(serve=serve, tcp=True) as d:
        kept = {}
        for name in ("boss", "sessions"):
            kept[name] = 0
            for _ in range(3):
                at = "/v1/sessions/" + ask(d, "POST", "/v1/sessions", name,
                                           {"output_limit": "8m"}).json["id"]
                ask(d, "POST", at + "/exec?wait=1", name, {"shell": "head -c 8M /dev/zero"})
                out = ask(d, "GET", at + "/exec/1/output", name)
                assert len(out.body) + int(out.headers.get("Vial-Gap", 0)) == 8 * MIB
                kept[name] += len(out.body)
        print(kept, spilled(d))
        assert spilled(d) <= 16 * MIB
        assert 4 * MIB < kept["boss"] < 10 * MIB and kept["sessions"] > 3 * MIB


def test_who_follows_an_exec_misses_nothing():
    """Whatever the limit: the program waits for who reads."""
    with Daemon() as d:
        at = session(d, output_limit="1k")
        answer = d.ask("POST", at + "/exec?stream=ndjson",
                       {"shell": "head -c 5M /dev/zero | tr '\\0' x; seq 200000 >&2"})
        events = answer.events
        assert not [e for e in events if e["event"] == "gap"]
        assert sum(len(e["data"]) for e in events if e["event"] == "stdout") == 5 * MIB
        assert "".join(e["data"] for e in events if e["event"] == "stderr") == \
            "".join("%d\n" % n for n in range(1, 200001))
        assert events[-1]["verdict"] == "ok"
        again = d.ask("GET", at + "/exec/1/output")
        assert again.body == b"x" * 1024
        assert again.headers["Vial-Gap"] == str(5 * MIB - 1024)


def test_who_follows_one_stream_does_not_hold_up_the_other():
    """Nobody read stderr: the program waited for its time-out."""
    with Daemon() as d:
        at = session(d)
        d.ask("POST", at + "/exec", {"shell": "read go; head -c 1M /dev/zero >&2; echo done",
                                     "stdin_live": True})
        c = d.connect()
        c.request("GET", at + "/exec/1/output?of=stdout&follow=1")
        answer = c.getresponse()
        assert d.ask("POST", at + "/exec/1/stdin", "go\n").status < 300
        # Before anybody's patience, of 20 s, is over.
        assert wait_until(lambda: d.ask("GET", at + "/exec/1").json["stderr_bytes"] == MIB, 15)
        assert answer.read() == b"done\n"
        c.close()
        assert d.ask("GET", at + "/exec/1").json["verdict"] == "ok"


def test_who_reads_gets_all_that_was_held_back():
    """What a limit holds back comes at the end, at once: beyond 4 MiB it was a gap."""
    with Daemon() as d:
        c = d.connect()
        c.request("POST", "/v1/run?stream=ndjson", json.dumps(
            {"language": "bash", "code": "head -c 24M /dev/zero | tr '\\0' x",
             "output_limit": "24m", "output_keep": "tail", "timeout": "50s"}))
        answer = c.getresponse()
        events = [json.loads(answer.readline()), json.loads(answer.readline())]
        assert events[-1]["event"] == "stdout"
        for _ in range(3):  # it reads on a little later
            d.run("true")
        events += [json.loads(line) for line in answer.read().splitlines()]
        c.close()
        assert not [e for e in events if e["event"] == "gap"]
        told = sum(len(e["data"]) for e in events if e["event"] == "stdout")
        assert told == 24 * MIB and events[-1]["result"]["verdict"] == "ok"


def runs_of(d, name):
    return ask(d, "GET", "/v1/runs", name).json


def test_a_verdict_does_not_depend_on_the_reader(tmp_path):
    """16 unread streams delayed another caller by 58 s; a program that died at its time-out
    was told as cancelled."""
    serve = {"concurrency": 4, "queue_timeout": "20s",
             "tokens": write_tokens(str(tmp_path / "tokens"))}
    flood_it = {"language": "bash", "code": "exec yes", "timeout": "1s"}
    ends = {"language": "bash", "code": "seq 150000; echo done >&2", "timeout": "3s"}
    with Daemon(serve=serve, tcp=True) as d:
        held = [unread(d, "runner", "/v1/run?stream=ndjson", flood_it) for _ in range(16)]
        held.append(unread(d, "runner", "/v1/run?stream=sse", ends))
        assert wait_until(lambda: len(runs_of(d, "runner")) >= 4)
        other = ask(d, "POST", "/v1/run", "boss", {"language": "bash", "code": "echo here"})
        assert other.status == 200 and other.json["stdout"] == "here\n"
        assert wait_until(lambda: [r["state"] for r in runs_of(d, "runner")] == ["ended"] * 17,
                          55)
        verdicts = sorted(r["verdict"] for r in runs_of(d, "runner"))
        assert verdicts == ["ok"] + ["timeout"] * 16
        for s in held:
            s.close()


def test_a_reader_that_stalls_is_told_what_it_missed(tmp_path):
    serve = {"slow": "1s", "tokens": write_tokens(str(tmp_path / "tokens"))}
    code = {"language": "bash", "code": "seq 4000000; echo done >&2", "timeout": "50s"}
    with Daemon(serve=serve, tcp=True) as d:
        s = unread(d, "runner", "/v1/run?stream=ndjson", code, small=False)
        assert wait_until(lambda: [r["verdict"] for r in runs_of(d, "runner")] == ["ok"], 50)
        assert d.peak() < 100 * MIB
        answer = http.client.HTTPResponse(s)
        answer.begin()
        events = [json.loads(line) for line in answer.read().splitlines()]
        told = sum(len(e["data"]) for e in events if e["event"] == "stdout")
        lost = sum(e["bytes"] for e in events if e["event"] == "gap" and e["stream"] == 1)
        assert lost > 0
        assert told + lost == events[-1]["result"]["stdout_bytes"]
        assert events[-1]["result"]["verdict"] == "ok"
