# SPDX-License-Identifier: Apache-2.0
"""Many callers at once: turns, quotas, refusals, the end and a new beginning."""
import hashlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from daemon import VIAL, Daemon, Held, clean_env, wait_until
from test_auth import ask, secret, write_tokens


def post(d, code, **fields):
    """A run that is under way: its connection."""
    c = d.connect()
    c.request("POST", "/v1/run", json.dumps({"language": "bash", "code": code, "timeout": "60s",
                                            **fields}))
    return c


def end(c):
    r = c.getresponse()
    return r.status, json.loads(r.read()), r.headers


def ends(held, runs):
    """The results of RUNS, which are let go."""
    with ThreadPoolExecutor(len(runs)) as pool:
        results = [pool.submit(end, c) for c in runs]
        assert held.let_go(lambda: all(r.done() for r in results))
        return [r.result()[1] for r in results]


def gauge(d, name):
    for line in d.ask("GET", "/metrics").body.decode().splitlines():
        if line.startswith("vial_%s " % name):
            return float(line.split()[1])
    return None


def test_no_more_runs_go_on_than_allowed_and_others_wait():
    """covers: NFR-020-10"""
    with Daemon(serve={"concurrency": 2}) as d:
        held, begun = Held("turns"), time.monotonic()
        runs = [post(d, held.code) for _ in range(4)]
        assert wait_until(lambda: gauge(d, "queue_length") == 2)
        assert gauge(d, "runs_active") == 2
        seen = time.monotonic()
        # Until two have waited longer than the other two can have.
        assert wait_until(lambda: time.monotonic() - seen > seen - begun)
        waited_ms = (time.monotonic() - seen) * 1000
        results = ends(held, runs)
        assert all(r["verdict"] == "ok" for r in results)
        assert sum(r["timing"]["queue_ms"] >= waited_ms for r in results) == 2
        assert gauge(d, "runs_active") == gauge(d, "queue_length") == 0


def test_a_full_queue_refuses_with_503_and_a_time_to_try_again():
    with Daemon(serve={"concurrency": 1, "queue": 1}) as d:
        running = post(d, "sleep 600")
        assert wait_until(lambda: gauge(d, "runs_active") == 1)
        waiting = post(d, "true")
        assert wait_until(lambda: gauge(d, "queue_length") == 1)
        answer = d.run("true")
        assert (answer.status, answer.code) == (503, "VIAL-BUSY")
        assert int(answer.headers["Retry-After"]) >= 1
        events = d.run("true", path="/v1/run?stream=ndjson").events
        assert events[-1]["error"]["code"] == "VIAL-BUSY" and events[-1]["retry_after"] >= 1
        running.close()  # its client goes away, and the next one has its turn
        assert end(waiting)[1]["verdict"] == "ok"


def test_a_run_that_waits_too_long_is_refused():
    with Daemon(serve={"concurrency": 1, "queue_timeout": "200ms"}) as d:
        running = post(d, "sleep 600")
        assert wait_until(lambda: gauge(d, "runs_active") == 1)
        answer = d.run("true")
        assert (answer.status, answer.code) == (503, "VIAL-BUSY")
        running.close()


def test_a_client_that_goes_away_leaves_the_queue():
    with Daemon(serve={"concurrency": 1}) as d:
        running = post(d, "sleep 600")
        assert wait_until(lambda: gauge(d, "runs_active") == 1)
        waiting = post(d, "true")
        assert wait_until(lambda: gauge(d, "queue_length") == 1)
        waiting.close()
        assert wait_until(lambda: gauge(d, "queue_length") == 0)
        running.close()


@pytest.fixture
def tokens(tmp_path):
    def make(**quotas):
        entries = [{"name": name, "scopes": ["run", "read"], **quota,
                    "sha256": hashlib.sha256(secret(name).encode()).hexdigest()}
                   for name, quota in quotas.items()]
        return write_tokens(str(tmp_path / "tokens"), entries=entries)
    return make


RUN = {"language": "bash", "code": "true"}


def test_callers_take_turns_whatever_the_length_of_their_lines(tokens):
    path = tokens(greedy={}, modest={})
    with Daemon(serve={"concurrency": 1, "tokens": path}, tcp=True) as d:
        blocker = post(d, "sleep 600")
        assert wait_until(lambda: gauge(d, "runs_active") == 1)
        order = []

        def run(name):
            answer = ask(d, "POST", "/v1/run", name, RUN)
            order.append((answer.json["timing"]["queue_ms"], name))
        threads = [threading.Thread(target=run, args=("greedy",)) for _ in range(8)]
        for t in threads:
            t.start()
        assert wait_until(lambda: gauge(d, "queue_length") == 8)
        late = threading.Thread(target=run, args=("modest",))
        late.start()
        assert wait_until(lambda: gauge(d, "queue_length") == 9)
        blocker.close()
        for t in [*threads, late]:
            t.join(60)
        lines = [line for line in d.lines("run") if line["caller"].startswith("token:")]
        assert [l["caller"] for l in lines].index("token:modest") <= 2


def test_the_longest_line_gives_way_when_all_places_are_taken(tokens):
    path = tokens(greedy={}, modest={})
    with Daemon(serve={"concurrency": 1, "queue": 4, "tokens": path}, tcp=True) as d:
        blocker = post(d, "sleep 600")
        assert wait_until(lambda: gauge(d, "runs_active") == 1)
        seen = []

        def run(name):
            seen.append((name, ask(d, "POST", "/v1/run", name, RUN).status))
        threads = [threading.Thread(target=run, args=("greedy",)) for _ in range(4)]
        for t in threads:
            t.start()
        assert wait_until(lambda: gauge(d, "queue_length") == 4)
        threads.append(threading.Thread(target=run, args=("modest",)))
        threads[-1].start()
        assert wait_until(lambda: ("greedy", 503) in seen)
        blocker.close()
        for t in threads:
            t.join(60)
        assert ("modest", 200) in seen and seen.count(("greedy", 200)) == 3


def test_quotas_refuse_with_429_and_a_time_to_try_again(tokens):
    path = tokens(few={"runs_per_minute": 2}, lazy={"cpu_per_minute": "50ms"})
    with Daemon(serve={"tokens": path}, tcp=True) as d:
        assert [ask(d, "POST", "/v1/run", "few", RUN).status for _ in range(2)] == [200, 200]
        answer = ask(d, "POST", "/v1/run", "few", RUN)
        assert (answer.status, answer.code) == (429, "VIAL-RATE")
        assert 1 <= int(answer.headers["Retry-After"]) <= 31
        busy = {"language": "bash", "code": "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"}
        assert ask(d, "POST", "/v1/run", "lazy", busy).status == 200
        assert ask(d, "POST", "/v1/run", "lazy", RUN).status == 429
        assert ask(d, "POST", "/v1/run", "boss", RUN).status == 200
        text = d.ask("GET", "/metrics").body.decode()
        assert 'vial_refused_total{why="rate"} 2' in text


def test_one_callers_share_of_the_runs_is_bounded(tokens):
    path = tokens(one={"concurrency": 1})
    with Daemon(serve={"tokens": path, "concurrency": 8}, tcp=True) as d:
        held = Held("share")
        slow = {"language": "bash", "code": held.code}
        results = []
        threads = [threading.Thread(target=lambda: results.append(
            ask(d, "POST", "/v1/run", "one", slow).json)) for _ in range(3)]
        for t in threads:
            t.start()
        assert wait_until(lambda: gauge(d, "runs_active") == 1 and gauge(d, "queue_length") == 2)
        assert d.run("true").json["verdict"] == "ok"  # though none of these has ended
        assert gauge(d, "runs_active") == 1 and gauge(d, "queue_length") == 2
        assert held.let_go(lambda: len(results) == 3)
        for t in threads:
            t.join(60)
        assert [r["verdict"] for r in results] == ["ok"] * 3


def test_sigterm_lets_runs_finish_and_takes_no_new_ones():
    with Daemon() as d:
        kept = d.connect()
        d.ask("GET", "/healthz", connection=kept)
        held = Held("drain")
        running = post(d, held.code + "; echo finished")
        assert wait_until(lambda: gauge(d, "runs_active") == 1)
        d.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: d.lines("drain"))
        assert d.ask("GET", "/v1/version", connection=kept).status == 503
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(d.ask, "GET", "/healthz")  # nobody takes it
            assert ends(held, [running])[0]["stdout"] == "finished\n"
            with pytest.raises(OSError):
                late.result()
        assert d.process.wait(60) == 0


def test_a_run_from_before_reloads_is_let_finish_as_well(tokens):
    """A reload replaces the server of TCP: what that has under way is waited for, too, and
    by no further one ended."""
    with Daemon(serve={"tokens": tokens(one={}), "keeper": "off"}, tcp=True) as d:
        held = Held("replaced")
        running = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
        running.request("POST", "/v1/run", json.dumps({**RUN, "code": held.code + "; echo finished"}),
                        {"Authorization": "Bearer " + secret("one")})
        assert wait_until(lambda: gauge(d, "runs_active") == 1)
        for times in range(1, 4):
            d.process.send_signal(signal.SIGHUP)
            assert wait_until(lambda n=times: len(d.lines("reload")) == n)
        d.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: d.lines("drain"))
        assert ends(held, [running])[0]["stdout"] == "finished\n"
        assert d.process.wait(60) == 0


def test_runs_that_outlast_the_drain_are_cancelled_and_answered():
    with Daemon(serve={"drain": "300ms"}) as d:
        running = post(d, "sleep 600")
        assert wait_until(lambda: gauge(d, "runs_active") == 1)
        d.process.send_signal(signal.SIGTERM)
        assert end(running)[1]["verdict"] == "cancelled"
        assert d.process.wait(60) == 0


def test_a_reload_brings_new_settings_and_ends_nothing(tokens):
    path = tokens()
    # Whom the daemon becomes cannot read this file, so that it stays who it is.
    with Daemon(serve={"tokens": path, "concurrency": 4, "keeper": "off"}, tcp=True) as d:
        sid = d.ask("POST", "/v1/sessions", {}).json["id"]
        held = Held("reload")
        running = post(d, held.code + "; echo still here")
        assert wait_until(lambda: gauge(d, "runs_active") == 1)
        assert ask(d, "GET", "/v1/version", "newcomer").status == 401
        tokens(newcomer={})
        d.settings["policy"] = {"max_memory": "32m"}
        d.settings["defaults"] = {"memory": "32m"}
        d.write_settings()
        d.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: d.lines("reload"))
        assert ask(d, "GET", "/v1/version", "newcomer").status == 200
        assert d.run("true", memory="64m").code == "VIAL-CAP"
        assert ends(held, [running])[0]["stdout"] == "still here\n"
        answer = d.ask("POST", "/v1/sessions/%s/exec?wait=1" % sid, {"shell": "echo too"})
        assert answer.json["stdout"] == "too\n"
        assert not d.lines("settings")
        d.settings["serve"].update(sessions=7, queue=3)
        d.write_settings()
        d.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: len(d.lines("reload")) == 2)
        assert [line["changed"] for line in d.lines("settings")] == ["sessions"]
        d.settings["serve"]["nonsense"] = 1
        d.write_settings()
        d.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: len(d.lines("reload")) == 3)
        assert d.lines("reload")[-1]["error"]["code"] == "VIAL-FIELD"
        assert d.run("true").json["verdict"] == "ok"


def check_records(d, path):
    """Every run that was let in has one line and one audit record, under its own id."""
    ids = [line["run"] for line in d.lines("run")]
    assert len(ids) == len(set(ids))
    with open(path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    ended = [r.get("id") or r.get("run") for r in records if r.get("event") == "run"]
    assert sorted(ended) == sorted(ids)
    out = subprocess.run([VIAL, "audit", "verify", path], capture_output=True, text=True,
                         env=clean_env(HOME=d.dir))
    assert out.returncode == 0, out.stdout + out.stderr
    return len(ids)


def test_64_clients_with_mixed_verdicts_and_some_killed_leave_nothing_behind():
    """soak.py is the long version, in which more goes wrong."""
    seconds, clients = 4, 64
    cases = [("true", {}, "ok"), ("exit 2", {}, "nonzero"), ("kill -11 $$", {}, "signal"),
             ("sleep 30", {"timeout": "0.1s"}, "timeout"),
             ("head -c 100000 /dev/zero", {"output_max": "10k"}, "output_limit"),
             ("true", {"memory": "100g"}, "denied")]
    with Daemon(serve={"queue": 200, "log": "json", "history": 100, "warm": "none"}) as d:
        path = d.dir + "/audit/log"
        d.stop()
        d.settings["audit"] = {"path": path, "sync": "lazy", "rotate": "1g"}
        d.start()
        bad, done = [], []

        def client(n):
            while time.monotonic() < stop:
                code, fields, verdict = cases[n % len(cases)]
                n += 1
                try:
                    answer = d.run(code, **fields)
                except OSError as error:
                    bad.append(str(error))
                    continue
                got = answer.json.get("verdict")
                done.append(got)
                if got != verdict:
                    bad.append((code, answer.body))

        def killer():
            while time.monotonic() < stop:
                c = post(d, "sleep 20")
                time.sleep(min(1, seconds / 10))
                c.close()
        first = post(d, "sleep 600")
        assert wait_until(d.vessels)
        first.close()
        stop = time.monotonic() + seconds
        threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
        threads.append(threading.Thread(target=killer))
        for t in threads:
            t.start()
        for t in threads:
            t.join(seconds + 120)
        assert not bad, bad[:3]
        assert len(done) > clients
        assert wait_until(lambda: gauge(d, "runs_active") == 0)
        assert wait_until(lambda: not d.vessels())
        assert wait_until(lambda: len(os.listdir("/proc/%d/fd" % d.process.pid)) < 100)
        assert d.stop() == 0
        assert check_records(d, path) >= len(done)
