# SPDX-License-Identifier: Apache-2.0
"""`vial batch --socket` and `--daemon`: a daemon runs the rows."""
import hashlib
import json
import os
import subprocess

import pytest

from daemon import VIAL, Daemon, clean_env, wait_until


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
        os.chmod(path, 0o755)  # root's daemon becomes another user
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
