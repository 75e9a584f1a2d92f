# SPDX-License-Identifier: Apache-2.0
"""One caller and the others: what one takes is its own share, whoever it is."""
import hashlib
import os
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
