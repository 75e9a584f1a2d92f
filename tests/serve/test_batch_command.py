# SPDX-License-Identifier: Apache-2.0
"""`vial batch --socket` and `--daemon`: a daemon runs the rows."""
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

sys.path.append(os.path.join(os.path.dirname(__file__), "../e2e"))
import notes  # noqa: E402

from daemon import VIAL, Daemon, Held, clean_env, wait_until


def test_a_daemon_runs_a_batch(tmp_path):
    rows = [{"language": "sh", "code": "read x; echo $((x * x))",
             "tests": [{"stdin": "%d\n" % i, "expected": "%d\n" % (i * i)}, {"stdin": "1\n", "expected": "2\n"}]}
            for i in range(5)]
    with Daemon() as d:
        done = subprocess.run([VIAL, "batch", "--socket", d.socket, "--order", "input"],
                              input="".join(json.dumps(r) + "\n" for r in rows), text=True,
                              env=clean_env(), capture_output=True, timeout=120)
        ran = d.ask("GET", "/v1/runs?limit=100").json
    assert done.returncode == 0, done.stderr
    out = [json.loads(line) for line in done.stdout.splitlines()]
    assert [[t["passed"] for t in row["tests"]] for row in out] == [[True, False]] * 5
    assert len(ran) == 10


def test_a_run_that_somebody_else_cancels_is_a_row(tmp_path):
    with Daemon() as d:
        running = subprocess.Popen([VIAL, "batch", "--socket", d.socket, "-q", "--jobs", "1"], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_env())
        rows = [{"language": "sh", "code": "sleep 60"}, {"language": "sh", "code": "echo 1"}]
        running.stdin.write("".join(json.dumps(r) + "\n" for r in rows))
        running.stdin.close()
        wait_until(lambda: d.ask("GET", "/v1/runs").json)
        going = d.ask("GET", "/v1/runs").json[0]
        assert d.ask("DELETE", "/v1/runs/" + going["request"]).status == 204
        out = [json.loads(line) for line in running.stdout.read().splitlines()]
        assert running.wait(60) == 0
    assert [row["verdict"] for row in out] == ["cancelled", "ok"]


def test_several_daemons_share_a_batch_and_one_that_dies_is_passed_over(tmp_path):
    rows = [{"id": i, "language": "sh", "code": "sleep 0.05; echo %d" % i, "expected": "%d\n" % i}
            for i in range(60)]
    with Daemon() as one, Daemon() as two:
        running = subprocess.Popen(
            [VIAL, "batch", "-q", "--jobs", "4", "--socket", "%s,%s,%s/none" % (one.socket, two.socket, tmp_path)],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_env())
        running.stdin.write("".join(json.dumps(r) + "\n" for r in rows))
        running.stdin.close()
        out = [json.loads(running.stdout.readline()) for _ in range(20)]
        assert one.ask("GET", "/v1/runs").json
        one.process.kill()
        out += [json.loads(line) for line in running.stdout.read().splitlines()]
        assert running.wait(120) == 0
        assert two.ask("GET", "/v1/runs").json
    assert sorted((row["id"], row["passed"]) for row in out) == [(i, True) for i in range(60)]


def test_a_daemon_sums_up_a_batch_by_its_name(tmp_path):
    path = tmp_path / "my rows.jsonl"
    path.write_text("".join(json.dumps({"language": "sh", "code": "exit %d" % (i % 2)}) + "\n" for i in range(6)))
    with Daemon() as d:
        for flags in ([], ["--name", "second"]):
            subprocess.run([VIAL, "batch", str(path), "-q", "--socket", d.socket, *flags], check=True,
                           env=clean_env(), stdout=subprocess.DEVNULL, timeout=120)
        told = d.ask("GET", "/v1/recent").json["batches"]
        refused = d.run("true", path="/v1/run?batch=a%20b")
        many = [d.run("true", path="/v1/run?batch=b%d" % i).status for i in range(12)]
        after = d.ask("GET", "/v1/recent").json["batches"]
    assert [(b["name"], b["runs"], b["verdicts"], b["active"]) for b in told] == [
        ("second", 6, {"ok": 3, "nonzero": 3}, True), ("my-rows.jsonl", 6, {"ok": 3, "nonzero": 3}, True)]
    assert refused.status == 400 and refused.code == "VIAL-VALUE"
    assert many == [200] * 12 and len(after) == 8  # a caller's further names push its own out


def test_a_deterministic_program_prints_the_same_wherever_it_runs():
    """Here, and in a daemon whose interpreters wait: it has none of those."""
    rows = [{"language": "python", "code": "import os; print(object(), id([]), sorted(os.environ.items()))"}] * 5
    text = "".join(json.dumps(r) + "\n" for r in rows)

    def outputs(*flags):
        done = subprocess.run([VIAL, "batch", "-q", "--deterministic", *flags], input=text, text=True, check=True,
                              env=clean_env(), stdout=subprocess.PIPE, timeout=120)
        return [json.loads(line)["stdout"] for line in done.stdout.splitlines()]
    with Daemon(serve={"warm": ["python"]}) as d:
        wait_until(lambda: any(s["idle"] for s in d.ask("GET", "/v1/pool").json["shapes"]))
        seen = outputs("--socket", d.socket) + outputs("--driver", "native")
    assert len(seen) == 10 and len(set(seen)) == 1, set(seen)


TOKEN = "vial_" + "7" * 40


def served(tmp_path, **serve):
    """A daemon on loopback TCP that knows one token."""
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text(json.dumps([{"name": "batch", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(),
                                   "scopes": ["read", "run"]}]))
    for path in (tmp_path, *list(tmp_path.parents)[:2]):
        os.chmod(path, os.stat(path).st_mode | 0o055)  # root's daemon becomes another user
    return Daemon(serve={"tokens": str(tokens), **serve}, tcp=True)


def url(daemon, scheme="http"):
    return "%s://127.0.0.1:%d" % (scheme, daemon.port)


def batch(rows, *flags, token=TOKEN):
    env = clean_env(VIAL_TOKEN=token) if token else clean_env()
    return subprocess.run([VIAL, "batch", "-q", *flags], input="".join(json.dumps(r) + "\n" for r in rows),
                          text=True, env=env, capture_output=True, timeout=120)


def test_daemons_at_urls_share_a_batch_and_one_that_is_killed_loses_no_line(tmp_path):
    rows = [{"id": i, "language": "sh", "code": "sleep 0.05; echo %d" % i, "expected": "%d\n" % i}
            for i in range(60)]
    with served(tmp_path) as one, served(tmp_path) as two:
        running = subprocess.Popen(
            [VIAL, "batch", "-q", "--jobs", "4", "--daemon", url(one), "--daemon", url(two), "-"],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_env(VIAL_TOKEN=TOKEN))
        running.stdin.write("".join(json.dumps(r) + "\n" for r in rows))
        running.stdin.close()
        out = [json.loads(running.stdout.readline()) for _ in range(20)]
        ran = [d.ask("GET", "/v1/recent").json["batches"] for d in (one, two)]
        one.process.kill()
        out += [json.loads(line) for line in running.stdout.read().splitlines()]
        assert running.wait(120) == 0
    assert sorted((row["id"], row["passed"]) for row in out) == [(i, True) for i in range(60)]
    assert [len(batches) for batches in ran] == [1, 1]  # each had its share


def test_a_wrong_token_ends_a_batch_before_it_begins(tmp_path):
    rows = [{"language": "sh", "code": "echo 1"}]
    with served(tmp_path) as d:
        right = batch(rows, "--daemon=" + url(d))
        wrong = batch(rows, "--daemon", url(d), token="vial_" + "8" * 40)
        none = batch(rows, "--daemon", url(d), token=None)
        file = tmp_path / "token"
        file.write_text(TOKEN + "\n")
        by_file = batch(rows, "--daemon", url(d), "--token-file", str(file), token="wrong")
        ran = d.ask("GET", "/v1/recent").json["batches"]
    assert right.returncode == 0 and json.loads(right.stdout)["stdout"] == "1\n"
    assert by_file.returncode == 0 and json.loads(by_file.stdout)["stdout"] == "1\n"
    assert (wrong.returncode, wrong.stdout) == (none.returncode, none.stdout) == (125, "")
    assert "does not know this token" in wrong.stderr and "VIAL_TOKEN" in wrong.stderr
    assert "does not know who asks" in none.stderr
    assert sum(b["runs"] for b in ran) == 2


def test_a_daemon_by_https_is_one_whose_certificate_is_known(tmp_path):
    for name, more in (("known", ["-addext", "subjectAltName=IP:127.0.0.1"]),
                       ("elsewhere", ["-addext", "subjectAltName=DNS:other.example"])):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=" + name, "-keyout", tmp_path / (name + ".key"), "-out", tmp_path / (name + ".pem"),
                        *more], check=True, capture_output=True)
        os.chmod(tmp_path / (name + ".key"), 0o644)
    rows = [{"language": "sh", "code": "echo 1"}]
    serve = {name: {"tls_cert": str(tmp_path / (name + ".pem")), "tls_key": str(tmp_path / (name + ".key"))}
             for name in ("known", "elsewhere")}
    with served(tmp_path, **serve["known"]) as d:
        good = batch(rows, "--daemon", url(d, "https"), "--ca-file", str(tmp_path / "known.pem"))
        stranger = batch(rows, "--daemon", url(d, "https"))
    with served(tmp_path, **serve["elsewhere"]) as d:
        other = batch(rows, "--daemon", url(d, "https"), "--ca-file", str(tmp_path / "elsewhere.pem"))
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["stdout"] == "1\n"
    assert (stranger.returncode, other.returncode) == (125, 125)
    assert "--ca-file" in stranger.stderr and "name" in other.stderr


@pytest.mark.parametrize("address,said", [
    ("http://192.0.2.1:8123", "ssh -L"), ("http://build.example", "https://"),
    ("ftp://127.0.0.1", "is no address"), ("http://127.0.0.1/v1", "is not HOST:PORT"),
    ("unix:relative", "short absolute path"), ("http://me@127.0.0.1:1", "is not HOST:PORT")])
def test_an_address_that_cannot_be_used_is_refused_with_a_way_out(address, said):
    done = batch([{"language": "sh", "code": "echo 1"}], "--daemon", address)
    assert done.returncode == 125 and done.stdout == "" and said in done.stderr


def said(verdict="ok", **more):
    return {"verdict": verdict, "stage": "run", "exit_code": 0 if verdict == "ok" else 1, "stdout": "1\n",
            "driver": "native", "vessel_id": "v-1", **more}


def error(code, **more):
    return {"error": {"code": code, "message": "for now", "cause": "", "remedy": ""}, **more}


GOOD = (200, said(), {})


@contextlib.contextmanager
def scripted(*answers):
    """Stands for a daemon that has accidents: it gives these answers in turn, the last one for ever.
    Each is a status, JSON or a text, and lines of the head. `asked` has what came."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(200, {}, {})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                server.asked.append((self.path, body))
                at = min(len(server.asked), len(answers)) - 1
            self.answer(*answers[at])

        def answer(self, status, body, head):
            text = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text)), "Connection": "close", **head}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    lock = threading.Lock()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.url = [], "http://127.0.0.1:%d" % server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def rows_of(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


ONE = {"language": "sh", "code": "echo 1", "expected": "1\n"}


@pytest.mark.parametrize("turned_away", [
    (503, error("VIAL-BUSY"), {}),
    (503, error("VIAL-BUSY"), {"retry-after": "1"}),
    (429, error("VIAL-RATE"), {"Retry-After": "never"}),
    (503, said("denied", **error("VIAL-BUSY")), {}),
    (503, "<h1>no upstream</h1>", {})])
def test_a_row_that_is_turned_away_waits_and_has_no_verdict_by_that(turned_away):
    with scripted(turned_away, turned_away, turned_away, GOOD) as d:
        done = batch([ONE], "--daemon", d.url, "--retries", "0", token=None)
    assert done.returncode == 0, done.stderr
    assert [(r["verdict"], r["passed"], r["attempts"]) for r in rows_of(done)] == [("ok", True, 1)]
    assert len(d.asked) == 4


def test_what_a_daemon_turns_away_goes_to_others_for_as_long_as_it_asks():
    with scripted((503, error("VIAL-BUSY"), {"Retry-After": "300"}), GOOD) as busy, scripted(GOOD) as free:
        done = batch([ONE] * 8, "--daemon", busy.url + "," + free.url, "--jobs", "1", token=None)
    assert done.returncode == 0, done.stderr
    assert [r["verdict"] for r in rows_of(done)] == ["ok"] * 8
    assert (len(busy.asked), len(free.asked)) == (1, 8)


@pytest.mark.parametrize("failed", [
    (500, error("VIAL-INTERNAL"), {}), (200, said("failed", **error("VIAL-LOST")), {}),
    (503, said("denied", **error("VIAL-ENGINE-DOWN")), {}), (502, "bad gateway", {})])
def test_a_try_that_failed_once_is_no_verdict(failed):
    with scripted(failed, GOOD) as d:
        done = batch([ONE], "--daemon", d.url, "--retries", "1", token=None)
    assert [(r["verdict"], r["attempts"]) for r in rows_of(done)] == [("ok", 2)] and done.returncode == 0
    with scripted(failed) as d:
        done = batch([ONE], "--daemon", d.url, "--retries", "1", token=None)
    assert [(r["verdict"], r["attempts"]) for r in rows_of(done)] == [("failed", 2)]
    assert done.returncode == 125 and len(d.asked) == 2


@pytest.mark.parametrize("verdict", ["nonzero", "signal", "timeout", "oom", "output_limit", "denied"])
def test_a_verdict_is_tried_once(verdict):
    more = error("VIAL-LANGUAGE") if verdict == "denied" else {}
    with scripted((422 if more else 200, said(verdict, **more), {}), GOOD) as d:
        done = batch([ONE], "--daemon", d.url, "--retries", "3", token=None)
    assert [(r["verdict"], r["attempts"]) for r in rows_of(done)] == [(verdict, 1)]
    assert done.returncode == 0 and len(d.asked) == 1


def test_who_waits_to_be_let_in_can_be_stopped_and_is_seen():
    with scripted((503, error("VIAL-BUSY"), {})) as d:
        running = subprocess.Popen([VIAL, "batch", "--daemon", d.url, "--progress", "100ms", "--jobs", "2"],
                                   text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=clean_env())
        running.stdin.write((json.dumps(ONE) + "\n") * 2)
        running.stdin.flush()
        for line in running.stderr:
            if "2 wait to be let in" in line:
                break
        assert len(d.asked) >= 2
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")


def test_a_daemon_that_is_full_is_waited_for():
    """One run holds its only place, and nobody may wait there, until rows were turned away."""
    held = Held("full")
    with Daemon(serve={"concurrency": 1, "queue": 0}) as d:
        first = threading.Thread(target=d.run, args=(held.code,))
        first.start()
        wait_until(lambda: d.ask("GET", "/v1/runs").json)
        running = subprocess.Popen([VIAL, "batch", "-q", "--socket", d.socket, "--jobs", "3", "--retries", "0"],
                                   text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_env())
        running.stdin.write("".join(json.dumps(dict(ONE, id=i)) + "\n" for i in range(9)))
        running.stdin.close()
        busy = re.compile(r'vial_refused_total\{why="busy"\} (\d+)')
        assert wait_until(lambda: int(busy.search(d.ask("GET", "/metrics").body.decode())[1]) >= 3)
        held.let_go(lambda: not first.is_alive())
        out = [json.loads(line) for line in running.stdout.read().splitlines()]
        assert running.wait(120) == 0
    assert sorted((r["id"], r["verdict"], r["attempts"]) for r in out) == [(i, "ok", 1) for i in range(9)]


def test_a_daemon_that_is_started_anew_loses_no_row():
    """Its socket leads nowhere for as long as the test likes; rows wait for that, and were tried once."""
    rows = [dict(ONE, id=i) for i in range(12)]
    with Daemon() as d:
        running = subprocess.Popen([VIAL, "batch", "--progress", "100ms", "--socket", d.socket, "--jobs", "2",
                                    "--retries", "0"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=clean_env())
        running.stdin.write("".join(json.dumps(row) + "\n" for row in rows[:4]))
        running.stdin.flush()
        out = [json.loads(running.stdout.readline()) for _ in range(4)]
        d.stop()
        running.stdin.write("".join(json.dumps(row) + "\n" for row in rows[4:]))
        running.stdin.close()
        for line in running.stderr:
            if "2 wait to be let in" in line:
                break
        d.start()
        drain = threading.Thread(target=running.stderr.read)
        drain.start()
        out += [json.loads(line) for line in running.stdout.read().splitlines()]
        drain.join()
        assert running.wait(120) == 0
    assert sorted((r["id"], r["verdict"], r["attempts"]) for r in out) == [(i, "ok", 1) for i in range(12)]


def test_what_a_daemons_operator_forbids_is_the_rows_fault(tmp_path):
    with served(tmp_path) as d:
        done = batch([ONE], "--daemon", url(d), "--mount", "/etc:/data")
    row, = rows_of(done)
    assert (row["verdict"], row["attempts"], row["error"]["code"]) == ("denied", 1, "VIAL-POLICY"), row
    assert done.returncode == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_at_any_point_by_a_daemon_too_it_goes_on_without_a_trace(how):
    with tempfile.TemporaryDirectory(prefix="noted-", dir="/tmp") as name:
        place = pathlib.Path(name)
        place.chmod(0o755)  # root's daemon becomes another user
        noted = notes.Notes(place, 60)
        with Daemon(policy={"mount_roots": [name]}) as d:
            noted.flags += ["--socket", d.socket]
            whole, cut = place / "whole", place / "cut"
            done = subprocess.run([VIAL, "batch", str(noted.input), *noted.flags, "-o", str(whole)],
                                  env=clean_env(), capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
            assert noted.counts() == noted.once()
            for note in noted.dir.iterdir():
                note.unlink()
            stops = notes.stop_and_go_on(lambda *args: subprocess.Popen([VIAL, *args], env=clean_env()),
                                         noted, cut, 6, how, lambda: wait_until(
                                             lambda: b"\nvial_runs_active 0\n" in d.ask("GET", "/metrics").body))
        assert stops >= 2 and notes.judged(cut) == notes.judged(whole)


def test_the_summary_names_the_daemons_and_what_they_say_of_themselves(tmp_path):
    with Daemon(defaults={"timeout": "13s"}) as d:
        done = subprocess.run([VIAL, "batch", "-", "--socket", d.socket, "-o", str(tmp_path / "out"), "--json"],
                              input=json.dumps(ONE), text=True, env=clean_env(), capture_output=True, timeout=120)
        there = {one["name"]: one["version"] for one in d.ask("GET", "/v1/languages").json}
        socket = d.socket
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["daemons"] == [socket]
    assert told["languages"] == {"sh": there["sh"]} and told["limits"]["wall_ms"] == 13000


def test_bytes_that_are_no_text_come_from_a_daemon_too_and_do_not_go_there():
    raw = {"language": "sh", "code": "cat; printf '\\377'"}
    with Daemon() as d:
        done = subprocess.run([VIAL, "batch", "-q", "--socket", d.socket, "--order", "input"], text=True,
                              input="".join(json.dumps(r) + "\n" for r in (
                                  raw, dict(raw, expected_base64="Yf8=", stdin_base64="YQ=="),
                                  dict(raw, stdin_base64="/w=="))),
                              env=clean_env(), capture_output=True, timeout=120)
    one, text, refused = rows_of(done)
    assert done.returncode == 0 and one["stdout_base64"] == "/w==" and text["passed"]
    assert (refused["verdict"], refused["attempts"], refused["error"]["code"]) == ("denied", 1, "VIAL-VALUE")
    assert "--daemon" in refused["error"]["remedy"]


LANGUAGE = """
marked:
  file: main.txt
  compile: [sh, -c, "echo compiled >> /notes/compiled; cp main.txt main"]
  run: [sh, main]
"""


@contextlib.contextmanager
def marked(where, tokens=()):
    """A language whose compiler notes each time that it runs, here or in a daemon. Gives the flags of a
    batch, the directory of notes and the daemon, which knows TOKENS on a port."""
    with tempfile.TemporaryDirectory(prefix="noted-", dir="/tmp") as name:
        place = pathlib.Path(name)
        place.chmod(0o755)
        (place / "notes").mkdir()
        (place / "notes").chmod(0o777)
        (place / "languages.yaml").write_text(LANGUAGE)
        (place / "vial.yaml").write_text("languages: %s/languages.yaml\n" % name)
        flags = [VIAL, "batch", "-q", "--mount", "%s/notes:/notes:rw" % name, "--timeout", "60s"]
        with contextlib.ExitStack() as stack:
            d = None
            if where == "daemon":
                (place / "tokens").write_text(json.dumps([
                    {"name": token, "sha256": hashlib.sha256(token.encode()).hexdigest(), "scopes": ["run"]}
                    for token in tokens]))
                d = Daemon(policy={"mount_roots": [name]}, tcp=bool(tokens),
                           serve={"tokens": str(place / "tokens")} if tokens else None)
                d.settings["languages"] = str(place / "languages.yaml")
                flags += ["--socket", stack.enter_context(d).socket]
            else:
                flags += ["--config", str(place / "vial.yaml")]
            yield flags, place / "notes", d


def counts_of(notes_dir):
    return {p.name: p.read_text().count("\n") for p in notes_dir.iterdir()}


@pytest.mark.parametrize("where", ["here", "daemon"])
@pytest.mark.parametrize("tests", [
    [{"stdin": "%d\n" % i, "expected": "%d\n" % i} for i in range(4)],
    [{"expected": "row\n"}, {"stdin_base64": "MQo=", "expected": "1\n"}]])
def test_a_program_with_several_tests_is_compiled_once_wherever_it_runs(where, tests):
    row = {"language": "marked", "code": "echo ran >> /notes/ran; cat", "stdin": "row\n", "tests": tests}
    with marked(where) as (flags, place, _):
        done = subprocess.run(flags, input=json.dumps(row) + "\n" + json.dumps(dict(row, id="other")),
                              text=True, env=clean_env(), capture_output=True, timeout=120)
        counts = counts_of(place)
    assert done.returncode == 0, done.stderr
    assert [[t["passed"] for t in r["tests"]] for r in rows_of(done)] == [[True] * len(tests)] * 2
    assert counts == {"compiled": 2, "ran": 2 * len(tests)}


JUDGE = {"language": "marked", "args": ["first"], "files": [{"path": "own", "content": "own"}],
         "code": 'echo judged >> /notes/judged; [ "$*" = "first input.txt output.txt answer.txt" ] && '
                 '[ "$(cat own)" = own ] && cmp -s output.txt answer.txt'}


@pytest.mark.parametrize("where", ["here", "daemon"])
def test_a_checker_is_compiled_once_for_all_rows_wherever_it_runs(where):
    """With arguments and a file of its own; another one is compiled, too."""
    tests = [{"stdin": "%d\n" % i, "expected": "%d\n" % (i + (i == 1))} for i in range(3)]
    rows = [{"id": i, "language": "sh", "code": "cat", "tests": tests, "checker": JUDGE} for i in range(4)]
    rows.append(dict(rows[0], id="other", checker=dict(JUDGE, code=JUDGE["code"] + " ")))
    with marked(where) as (flags, place, _):
        done = subprocess.run([*flags, "--jobs", "4"], input="".join(json.dumps(r) + "\n" for r in rows),
                              text=True, env=clean_env(), capture_output=True, timeout=120)
        counts = counts_of(place)
    assert done.returncode == 0, done.stderr
    assert [[t["passed"] for t in r["tests"]] for r in rows_of(done)] == [[True, False, True]] * 5
    assert counts == {"compiled": 2, "judged": 15}


@pytest.mark.parametrize("where", ["here", "daemon"])
def test_a_checker_that_does_not_compile_judges_nothing(where):
    """A compiler ends with 1, which says "wrong" of a checker."""
    row = {"language": "sh", "code": "echo 1", "checker": {"language": "c", "code": "int main( {"}}
    with contextlib.ExitStack() as stack:
        flags = ["--socket", stack.enter_context(Daemon()).socket] if where == "daemon" else ["--driver", "native"]
        done = subprocess.run([VIAL, "batch", "-q", *flags], input=json.dumps(row), text=True, env=clean_env(),
                              capture_output=True, timeout=120)
    out, = rows_of(done)
    assert (done.returncode, out["verdict"], out["passed"]) == (125, "failed", False)
    assert out["error"]["message"] == "the checker itself does not compile: nonzero, exit code 1"


def test_what_a_batch_keeps_is_its_callers_and_of_that_request_alone():
    """`POST /v1/batch` with `keep`: three batches of one request, one of another, one of another caller."""
    other_token = "vial_" + "8" * 40
    base = {"language": "marked", "code": "cat f; echo $*", "args": ["a"], "timeout": "60s"}
    with marked("daemon", [TOKEN, other_token]) as (_, place, d):
        base["mounts"] = [{"source": str(place), "target": "/notes", "mode": "rw"}]

        def ask(body, token=TOKEN):
            return d.ask("POST", "/v1/batch", json.dumps(body), {"Authorization": "Bearer " + token},
                         http.client.HTTPConnection("127.0.0.1", d.port, timeout=60))

        def kept(request, inputs, token=TOKEN):
            body = {"request": request, "inputs": inputs, "keep": True, "parallel": 1}
            said = [json.loads(line) for line in ask(body, token).body.splitlines()]
            return [said[0].get("compiled")] + [e["result"]["stdout"] for e in said if e["event"] == "result"]
        inputs = [{"files": [{"path": "f", "content": "1"}], "args": ["b"]}]
        told = [kept(base, inputs) for _ in range(3)]
        first = counts_of(place)["compiled"]
        other = kept(dict(base, env={"X": "1"}), inputs + [{"args": ["c"]}])
        second = counts_of(place)["compiled"]
        strangers = kept(base, inputs, other_token)
        third = counts_of(place)["compiled"]
        refused = ask({"requests": [base], "keep": True})
    assert told == [[True, "1a b\n"]] * 3 and first == 1
    assert other == [True, "1a b\n", "a c\n"] and second == 2
    assert strangers == told[0] and third == 3
    assert refused.status == 400 and "'keep' goes with" in refused.json["error"]["message"]


def test_what_is_run_together_by_a_daemon_is_judged_as_one_by_one(tmp_path):
    """With a first test that fails, a checker, arguments, a program that does not compile; and the page
    knows whose runs they are."""
    add = '#include <stdio.h>\nint main(void) { int x; scanf("%d", &x); printf("%d\\n", x + 1); return x == 3; }'
    tests = [{"stdin": str(i), "expected": "%d\n" % (i + (i != 1))} for i in range(4)]
    sums = {"language": "python", "code": "import sys\nprint(sum(map(int, sys.argv[1:])))"}
    check = {"language": "sh", "code": "cmp -s output.txt answer.txt"}
    rows = [{"language": "c", "code": add, "tests": tests},
            {"language": "c", "code": add, "tests": tests, "checker": check},
            {"language": "c", "code": "int main( {", "tests": tests},
            dict(sums, args=["1"], tests=[{"args": ["2"], "expected": "3\n"}, {"expected": "1\n"}]),
            dict(sums, tests=[{"args": ["2", "3"], "expected": "5\n"}, {"expected": "0\n"}]),
            {"language": "c", "code": '#include <stdio.h>\nint main(int n, char **a) { puts(a[n - 1]); }', "tests": [
                {"args": ["x"], "expected": "x\n"}, {"args": ["y", "z"], "expected": "z\n"}]},
            {"language": "sh", "code": "cat f", "tests": [
                {"files": [{"path": "f", "content": "1"}], "expected": "1"}, {"expected": ""}]},
            {"language": "sh", "code": "cat; sleep 60", "timeout": "2s", "tests": [{"stdin": "a"}, {"stdin": "b"}]}]
    text = "".join(json.dumps(dict(row, compile_timeout="60s")) + "\n" for row in rows)
    with Daemon() as d:
        def told(*flags):
            done = subprocess.run([VIAL, "batch", "-q", "--order", "input", "--no-times", "--name", "together", *flags],
                                  input=text, text=True, env=clean_env(), capture_output=True, timeout=300)
            assert done.returncode == 0, done.stderr
            return [[(t["verdict"], t["stage"], t["exit_code"], t["stdout"], t["passed"]) for t in row["tests"]]
                    for row in rows_of(done)]
        there, first = told("--socket", d.socket), told("--socket", d.socket, "--stop", "first")
        runs = d.ask("GET", "/v1/recent").json["batches"]
        here = told("--driver", "native")
    assert there == here
    assert [row[:len(one)] for row, one in zip(there, first)] == first
    assert [len(one) for one in first] == [2, 2, 1, 2, 2, 2, 2, 1]
    assert [b["name"] for b in runs] == ["together"] and runs[0]["runs"] >= sum(map(len, there))


def test_a_daemon_that_breaks_off_loses_no_test():
    """One that knows no batches, and one that hangs up behind its first result."""
    row = dict(ONE, tests=[{"expected": "1\n"}] * 3)
    torn = json.dumps({"event": "result", "index": 0, "result": said()}) + "\n" + '{"event": "res'
    del row["expected"]
    for first in ((404, error("VIAL-ROUTE"), {}), (200, torn, {"Content-Length": "9999"})):
        with scripted(first, GOOD) as d:
            done = batch([row], "--daemon", d.url, token=None)
        out, = rows_of(done)
        assert [t["passed"] for t in out["tests"]] == [True] * 3 and done.returncode == 0
        assert [path.partition("?")[0] for path, _ in d.asked] == ["/v1/batch"] + ["/v1/run"] * (
            3 if first[0] == 404 else 2)


def test_a_daemon_that_keeps_no_checkers_runs_them(tmp_path):
    row = dict(ONE, checker={"language": "sh", "code": "exit 0"})
    with scripted(GOOD, (400, error("VIAL-FIELD"), {}), GOOD) as d:
        done = batch([row], "--daemon", d.url, token=None)
    out, = rows_of(done)
    assert (out["passed"], out["checker"]) == (True, {"verdict": "ok", "exit_code": 0}) and done.returncode == 0
    assert [path.partition("?")[0] for path, _ in d.asked] == ["/v1/run", "/v1/batch", "/v1/run"]
