# SPDX-License-Identifier: Apache-2.0
"""Whoever is turned away is in the audit log, and cannot fill it."""
import json
import os
import subprocess
import tempfile

import pytest

from daemon import VIAL, Daemon, clean_env, wait_until
from test_auth import RUN, ask, write_tokens
from test_load import gauge, post


@pytest.fixture(scope="module")
def watched():
    with tempfile.TemporaryDirectory() as where:
        d = Daemon(serve={"tokens": write_tokens(where + "/tokens", entries=[]),
                          "keeper": "off", "concurrency": 1, "queue": 1}, tcp=True)
        d.audit = d.dir + "/audit"
        d.settings["audit"] = {"path": d.audit, "sync": "lazy"}
        with d:
            yield d


def refused(d, name):
    """The records of the request NAME."""
    with open(d.audit, encoding="utf-8") as file:
        return [r for r in map(json.loads, file) if r["event"] == "refused" and
                r["caller"]["correlation"] == name]


@pytest.mark.parametrize("who,method,path,body,headers,status,code", [
    (None, "GET", "/v1/version", None, {}, 401, "VIAL-AUTH"),
    ("reader", "POST", "/v1/run", RUN, {}, 403, "VIAL-SCOPE"),
    ("boss", "GET", "/v1/version", None, {"Host": "evil.test"}, 403, "VIAL-HOST"),
    ("boss", "GET", "/v1/version", None, {"Origin": "https://evil.test"}, 403, "VIAL-HOST"),
    ("runner", "POST", "/v1/run", {"langage": "bash"}, {}, 400, "VIAL-FIELD"),
    ("runner", "POST", "/v1/run?loud=1", RUN, {}, 400, "VIAL-FIELD"),
    ("runner", "POST", "/v1/run", {**RUN, "mounts": ["/etc:/x"]}, {}, 403, "VIAL-POLICY"),
    ("sessions", "POST", "/v1/sessions", {"memory": "lots"}, {}, 400, "VIAL-VALUE"),
])
def test_a_refusal_has_a_record_that_says_who_what_and_why(watched, who, method, path, body,
                                                           headers, status, code, request):
    name = "refusal-%s" % abs(hash(request.node.name))
    answer = ask(watched, method, path, who, body, **{"X-Request-Id": name, **headers})
    assert (answer.status, answer.code) == (status, code)
    record, = refused(watched, name)
    assert (record["status"], record["error"]["code"]) == (status, code)
    assert (record["method"], record["path"]) == (method, path.split("?")[0])
    assert record["caller"]["address"] == "127.0.0.1"
    known = who and code not in ("VIAL-HOST", "VIAL-AUTH")
    assert record["caller"]["name"] == ("token:" + who if known else "")


def test_a_full_queue_and_a_stream_that_never_had_its_turn_are_recorded(watched):
    running = post(watched, "sleep 600")
    assert wait_until(lambda: gauge(watched, "runs_active") == 1)
    waiting = post(watched, "true")
    assert wait_until(lambda: gauge(watched, "queue_length") == 1)
    watched.run("true", headers={"X-Request-Id": "full-1"})
    watched.run("true", path="/v1/run?stream=ndjson", headers={"X-Request-Id": "full-2"})
    for name in ("full-1", "full-2"):
        record, = refused(watched, name)
        assert (record["status"], record["error"]["code"]) == (503, "VIAL-BUSY")
        assert record["caller"]["name"] == "uid:%d" % os.getuid()
    running.close()
    waiting.getresponse().read()
    waiting.close()


def test_a_flood_of_refusals_becomes_one_record_with_their_number():
    with tempfile.TemporaryDirectory() as where:
        d = Daemon(serve={"tokens": write_tokens(where + "/tokens"), "keeper": "off"}, tcp=True)
        d.audit = d.dir + "/audit"
        d.settings["audit"] = {"path": d.audit, "sync": "lazy"}
        with d:
            for n in range(300):
                assert ask(d, "GET", "/v1/version", token="x" * 40).status == 401
            for n in range(20):
                s = d.raw()  # what the server itself cannot read is counted as well
                s.sendall(b"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b" 400 " in s.recv(4096)
                s.close()
            assert os.path.getsize(d.audit) < 10000
            assert d.stop() == 0
            with open(d.audit, encoding="utf-8") as file:
                records = list(map(json.loads, file))
            alone = [r for r in records if r["event"] == "refused"]
            more = {(r["caller"]["name"], r["code"]): r["count"] for r in records
                    if r["event"] == "refused.more"}
            assert len(alone) == 5
            assert more == {("127.0.0.1", "VIAL-AUTH"): 295,
                            ("uid:%d" % os.getuid(), "VIAL-HTTP"): 20}
            out = subprocess.run([VIAL, "audit", "verify", d.audit], capture_output=True,
                                 text=True, env=clean_env(HOME=d.dir), check=False)
            assert out.returncode == 0, out.stdout + out.stderr
            shown = subprocess.run([VIAL, "audit", "show", d.audit], capture_output=True, text=True,
                                   env=clean_env(HOME=d.dir), check=False).stdout
            assert "127.0.0.1" in shown and "295 times" in shown and "VIAL-AUTH" in shown


def test_secrets_in_a_path_are_not_written(watched):
    ask(watched, "GET", "/v1/token=hunter2hunter2hunter2", None, X_Request_Id="secret-path")
    record, = refused(watched, "secret-path")
    assert "hunter2" not in json.dumps(record)
