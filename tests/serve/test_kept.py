# SPDX-License-Identifier: Apache-2.0
"""What programs print, and what it costs the daemon: memory, disk, and other callers."""
import json
import os
import socket

import pytest

from daemon import Daemon, wait_until
from test_auth import ask, secret, write_tokens

MIB = 1 << 20


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


def unread(d, name, path, body):
    """A request whose answer nobody reads."""
    s = socket.create_connection(("127.0.0.1", d.port))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    text = json.dumps(body).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
              b"Content-Length: %d\r\n\r\n%s"
              % (path.encode(), secret(name).encode(), len(text), text))
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
        refused = ask(d, "POST", "/v1/run", "runner", small)
        assert refused.status == 503
        assert refused.headers["Retry-After"] and refused.json["error"]["code"] == "VIAL-BUSY"
        print("peak:", (d.peak() - before) / MIB, "MiB")
        assert 20 * MIB < d.peak() - before < 40 * MIB
        assert ask(d, "POST", "/v1/run", "boss", small).json["stdout"] == "small\n"
        for s in held:
            s.close()
        assert wait_until(lambda: ask(d, "POST", "/v1/run", "runner", small).status == 200)
        never = ask(d, "POST", "/v1/run", "runner", {**small, "output_limit": "64m"})
        assert never.status == 403 and never.code == "VIAL-CAP"
        assert "serve.output_memory" in never.json["error"]["remedy"]
