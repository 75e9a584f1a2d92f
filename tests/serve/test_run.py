# SPDX-License-Identifier: Apache-2.0
"""POST /v1/run and what belongs to it."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import jsonschema
import pytest

from daemon import VIAL, Daemon, clean_env, wait_until


def test_a_run_gives_the_result_that_the_schema_describes(daemon):
    answer = daemon.run("print(6 * 7)", "python")
    assert answer.status == 200
    assert answer.json["stdout"] == "42\n"
    schema = daemon.ask("GET", "/v1/schema/result").json
    jsonschema.validate(answer.json, schema)


@pytest.mark.parametrize("code,fields,verdict", [
    ("exit 3", {}, "nonzero"),
    ("kill -9 $$", {}, "signal"),
    ("sleep 60", {"timeout": "0.3s"}, "timeout"),
    ("yes", {"output_max": "64k"}, "output_limit"),
])
def test_the_verdict_is_the_programs(daemon, code, fields, verdict):
    answer = daemon.run(code, **fields)
    assert (answer.status, answer.json["verdict"]) == (200, verdict)


def test_stdin_args_env_and_files_go_in_and_files_come_out(daemon):
    answer = daemon.run('cat; echo "$1 $NAME"; cat in.txt; echo made > out.txt', stdin="first\n",
                        args=["arg"], env={"NAME": "value"},
                        files=[{"path": "in.txt", "content": "file\n"}], outputs=["out.txt"])
    assert answer.json["stdout"] == "first\narg value\nfile\n"
    assert answer.json["files"][0]["content"] == "made\n"


def test_a_stream_of_lines_has_output_before_the_result(daemon):
    answer = daemon.run("echo out; echo err >&2", path="/v1/run?stream=ndjson")
    events = answer.events
    assert events[0]["event"] == "start"
    assert {(e["event"], e.get("data")) for e in events[1:-1]} == {
        ("stdout", "out\n"), ("stderr", "err\n")}
    assert events[-1]["event"] == "result" and events[-1]["result"]["verdict"] == "ok"


def test_a_stream_comes_while_the_program_runs(daemon):
    c = daemon.connect()
    c.request("POST", "/v1/run?stream=ndjson",
              json.dumps({"language": "bash", "code": "echo first; sleep 60", "timeout": "70s"}))
    r = c.getresponse()
    seen = []
    while not any(e["event"] == "stdout" for e in seen):
        seen.append(json.loads(r.readline()))
    assert seen[-1]["data"] == "first\n"
    c.sock.close()
    r.close()
    assert wait_until(lambda: not any(
        run["state"] == "running" for run in daemon.ask("GET", "/v1/runs").json))


def test_server_sent_events_are_chosen_by_the_accept_header(daemon):
    answer = daemon.run("echo hi", headers={"Accept": "text/event-stream"})
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert b'event: stdout\ndata: {"event":"stdout","data":"hi\\n"}\n\n' in answer.body


def test_bytes_that_are_no_text_come_as_base64(daemon):
    answer = daemon.run(r"printf '\xff\xfe'; printf '\xc3'; sleep 0.1; printf '\xa9'",
                        path="/v1/run?stream=ndjson")
    events = [e for e in answer.events if e["event"] == "stdout"]
    assert events[0].get("base64")
    raw = daemon.run(r"printf '\xff'", path="/v1/run?raw=1").json
    assert raw["stdout_base64"] == "/w=="


def test_a_character_is_never_cut_in_two(daemon):
    answer = daemon.run(r"printf '\xc3'; sleep 0.2; printf '\xa9'; sleep 0.2; printf '\xe2\x82'",
                        path="/v1/run?stream=ndjson")
    pieces = [e.get("data", e.get("base64")) for e in answer.events if e["event"] == "stdout"]
    assert pieces == ["é", "4oI="]


@pytest.mark.parametrize("body,code", [
    (b"", "VIAL-JSON"),
    (b"{", "VIAL-JSON"),
    (b"[]", "VIAL-VALUE"),
    (b'{"code":"x","code":"y"}', "VIAL-JSON"),
    (b'{"langauge":"python"}', "VIAL-FIELD"),
    (b'{"language":"python","code":"1","timeout":"soon"}', "VIAL-VALUE"),
    (b'{"language":"python","code":"1","privileged":true}', "VIAL-FIELD"),
    (b"[" * 200, "VIAL-JSON"),
    (b'"\xff"', "VIAL-JSON"),
])
def test_a_body_that_is_no_request_is_refused(daemon, body, code):
    answer = daemon.ask("POST", "/v1/run", body)
    assert (answer.status, answer.code) == (400, code)


def test_what_the_policy_forbids_is_a_result_with_status_403():
    with Daemon(policy={"max_memory": "64m", "networks": ["none"]}) as d:
        answer = d.run("true", memory="128m")
        assert (answer.status, answer.json["verdict"]) == (403, "denied")
        assert answer.code == "VIAL-CAP"
        assert d.run("true", network="bridge").code == "VIAL-POLICY"


def test_unknown_parameters_paths_and_methods_are_refused(daemon):
    assert daemon.ask("POST", "/v1/run?fast=1", b"{}").code == "VIAL-FIELD"
    assert daemon.ask("GET", "/v1/nothing").status == 404
    answer = daemon.ask("GET", "/v1/run")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


def test_a_client_that_goes_away_cancels_its_run(daemon):
    s = daemon.raw()
    body = json.dumps({"language": "bash", "code": "sleep 600", "timeout": "700s",
                       "session": "gone"})
    s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: x\r\nX-Request-Id: going-away\r\n"
              b"Content-Length: %d\r\n\r\n%s" % (len(body), body.encode()))
    assert wait_until(lambda: daemon.ask("GET", "/v1/runs/going-away").status == 200)
    s.close()
    assert wait_until(lambda: daemon.ask("GET", "/v1/runs/going-away").json["verdict"]
                      == "cancelled")


def test_a_run_can_be_cancelled_by_the_id_of_its_request(daemon):
    c = daemon.connect()
    c.request("POST", "/v1/run", json.dumps({"language": "bash", "code": "sleep 600",
                                            "timeout": "700s"}),
              {"X-Request-Id": "to-be-ended"})
    assert wait_until(lambda: daemon.ask("DELETE", "/v1/runs/to-be-ended").status == 204)
    assert json.loads(c.getresponse().read())["verdict"] == "cancelled"
    assert daemon.ask("DELETE", "/v1/runs/to-be-ended").status == 404


def test_an_idempotency_key_gives_the_first_answer_again(daemon):
    body = {"language": "bash", "code": "echo $RANDOM$RANDOM"}
    first = daemon.ask("POST", "/v1/run", body, {"Idempotency-Key": "one"})
    again = daemon.ask("POST", "/v1/run", body, {"Idempotency-Key": "one"})
    assert first.body == again.body
    assert again.headers["Idempotency-Replayed"] == "true"
    other = daemon.ask("POST", "/v1/run", {"language": "bash", "code": "true"},
                       {"Idempotency-Key": "one"})
    assert (other.status, other.code) == (409, "VIAL-IDEMPOTENCY")
    third = daemon.ask("POST", "/v1/run", body, {"Idempotency-Key": "two"})
    assert third.json["id"] != first.json["id"]


def keyed(daemon, key, code, **more):
    """A run with a key, under way: its connection, and how to ask for it again."""
    body = json.dumps({"language": "bash", "code": code, "timeout": "60s", **more}).encode()
    s = daemon.raw()
    s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %s\r\nX-Request-Id: with-%s\r\n"
              b"Content-Length: %d\r\n\r\n%s" % (key, key, len(body), body))
    assert wait_until(lambda: daemon.ask("GET", "/v1/runs/with-%s" % key.decode()).status == 200)
    return s, lambda: daemon.ask("POST", "/v1/run", body, {"Idempotency-Key": key.decode()})


def test_a_key_whose_run_goes_on_is_refused(daemon):
    s, again = keyed(daemon, b"busy", "sleep 600")
    assert (again().status, again().code) == (409, "VIAL-IDEMPOTENCY")
    assert daemon.ask("DELETE", "/v1/runs/with-busy").status == 204
    s.recv(65536)
    assert wait_until(lambda: again().status == 200)
    assert again().json["verdict"] == "cancelled"
    s.close()


def test_a_client_with_a_key_may_come_back_for_its_answer(daemon):
    s, again = keyed(daemon, b"back", "sleep 1; echo done")
    s.close()
    answer = wait_until(lambda: next((a for a in [again()] if a.status == 200), None))
    assert answer.json["stdout"] == "done\n"
    assert answer.json["id"] == daemon.ask("GET", "/v1/runs/with-back").json["id"]


def test_a_client_that_goes_within_its_answer_may_come_back_for_all_of_it(daemon):
    """The key gave a cut text with a 200 from then on."""
    s, again = keyed(daemon, b"within", "head -c 4M /dev/zero | tr '\\0' x", output_limit="4m")
    s.recv(1)
    s.close()
    answer = wait_until(lambda: next((a for a in [again()] if a.status == 200), None))
    assert answer.headers["Idempotency-Replayed"] == "true"
    assert answer.json["stdout"] == "x" * (4 << 20)


def test_the_history_keeps_a_bounded_part_of_the_output():
    with Daemon(serve={"history": 3, "history_output": 10}) as d:
        ids = [d.run("echo 0123456789abcdef; echo n%d >&2" % n).json["id"] for n in range(5)]
        runs = d.ask("GET", "/v1/runs").json
        assert [r["id"] for r in runs] == ids[:1:-1]
        one = d.ask("GET", "/v1/runs/" + ids[4]).json
        assert (one["stdout"], one["stderr"]) == ("0123456789", "n4\n")
        assert d.ask("GET", "/v1/runs/" + ids[0]).status == 404
        env = clean_env()
        out = subprocess.run([VIAL, "logs", "--socket", d.socket, ids[4]], env=env,
                             capture_output=True, text=True)
        assert (out.returncode, out.stdout, out.stderr) == (0, "0123456789", "n4\n")
        out = subprocess.run([VIAL, "logs", "--socket", d.socket], env=env,
                             capture_output=True, text=True)
        assert ids[4] in out.stdout and "ok" in out.stdout


def test_one_correlation_id_goes_from_request_to_log(daemon):
    answer = daemon.run("true", headers={"X-Request-Id": "trace-7"})
    assert answer.headers["X-Request-Id"] == "trace-7"
    run = next(line for line in daemon.lines("run") if line["request"] == "trace-7")
    assert run["run"] == answer.json["id"] and run["vessel"] == answer.json["vessel_id"]
    wait_until(lambda: any(line["request"] == "trace-7" for line in daemon.lines("http")))
    bad = daemon.run("true", headers={"X-Request-Id": "a b\tc"})
    assert bad.headers["X-Request-Id"].startswith("q-")


def test_a_batch_gives_every_result_with_its_index(daemon):
    requests = [{"language": "bash", "code": "echo %d; exit %d" % (n, n % 3)} for n in range(12)]
    requests.append({"language": "nonsense", "code": ""})
    events = daemon.ask("POST", "/v1/batch", {"requests": requests}).events
    results = {e["index"]: e["result"] for e in events if e["event"] == "result"}
    assert [results[n]["stdout"] for n in range(12)] == ["%d\n" % n for n in range(12)]
    assert results[12]["verdict"] == "denied"
    assert events[-1]["event"] == "end" and events[-1]["count"] == 13
    assert events[-1]["verdicts"] == {"ok": 4, "nonzero": 8, "denied": 1}


def test_a_compiled_program_is_compiled_once_for_many_inputs(daemon):
    code = ('#include <stdio.h>\nint main(int c, char **v) { int n = 0; scanf("%d", &n);'
            'printf("%s %d %s\\n", __TIME__, n * 2, c > 1 ? v[1] : "-"); }')
    events = daemon.ask("POST", "/v1/batch", {
        "request": {"language": "c", "code": code},
        "inputs": [{"stdin": str(n), "args": ["a%d" % n]} for n in range(8)]}).events
    assert events[0]["compiled"] is True
    results = {e["index"]: e["result"] for e in events if e["event"] == "result"}
    lines = [results[n]["stdout"].split() for n in range(8)]
    assert [line[1:] for line in lines] == [[str(2 * n), "a%d" % n] for n in range(8)]
    assert len({r["vessel_id"] for r in results.values()}) == 8


def test_a_compiled_programs_arguments_are_given_once(daemon):
    code = ('#include <stdio.h>\n#include <stdlib.h>\nint main(int c, char **v) {'
            'for (int i = 1; i < c; i++) printf("%s ", v[i]); puts(getenv("A")); }')
    events = daemon.ask("POST", "/v1/batch", {
        "request": {"language": "c", "code": code, "args": ["own"], "env": {"A": "{dir}"},
                    "files": [{"path": "data", "content": "x"}]},
        "inputs": [{}, {"args": ["other"]}, {"env": {"A": "b"}}]}).events
    assert events[0]["compiled"] is True
    results = {e["index"]: e["result"]["stdout"] for e in events if e["event"] == "result"}
    assert results == {0: "own {dir}\n", 1: "other {dir}\n", 2: "own b\n"}


def test_a_program_that_does_not_compile_says_so_for_each_input(daemon):
    events = daemon.ask("POST", "/v1/batch", {
        "request": {"language": "c", "code": "int main( {"}, "inputs": [{}, {}]}).events
    assert [e["result"]["stage"] for e in events if e["event"] == "result"] == ["compile"] * 2


def test_a_batch_that_makes_no_sense_is_refused(daemon):
    for body in ({}, {"requests": [], "inputs": []}, {"request": {}}, {"runs": []},
                 {"requests": {}}):
        assert daemon.ask("POST", "/v1/batch", body).status == 400


def test_the_openapi_document_names_every_route(daemon):
    doc = daemon.ask("GET", "/v1/openapi.json").json
    assert doc["openapi"].startswith("3.1")
    schema = doc["components"]["schemas"]["request"]
    assert "memory" in schema["properties"] and schema["additionalProperties"] is False
    source = open(os.path.join(os.path.dirname(__file__), "../../src/serve/routes.def"),
                  encoding="utf-8").read()
    named = [line for line in source.splitlines() if line.startswith("ROUTE(")]
    assert sum(len(item) for item in doc["paths"].values()) == len(named)
    for path, item in doc["paths"].items():
        for operation in item.values():
            wanted = {part.strip("{}") for part in path.split("/") if part.startswith("{")}
            given = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert wanted == given, path


def test_the_openapi_document_has_a_schema_for_every_body(daemon):
    doc = daemon.ask("GET", "/v1/openapi.json").json
    known = doc["components"]["schemas"]
    for schema in known.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for path, item in doc["paths"].items():
        for method, operation in item.items():
            forms = [operation.get("requestBody", {})] + list(operation["responses"].values())
            for media, form in (pair for f in forms for pair in f.get("content", {}).items()):
                schema = form["schema"]
                assert schema, (method, path, media)
                for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(schema)):
                    assert name in known, (method, path, name)
            for parameter in operation["parameters"]:
                assert parameter["in"] == "path" or parameter["description"], (path, parameter)
    for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(known)):
        assert name in known, name


def test_a_body_is_judged_by_what_the_document_says_of_it(daemon):
    """The same table: what the schema allows is read, and what it does not is refused."""
    doc = daemon.ask("GET", "/v1/openapi.json").json
    session = daemon.ask("POST", "/v1/sessions", {"lease": "10m"}).json["id"]
    for path, item in doc["paths"].items():
        body = item.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
        if not body or path.startswith("/mcp"):
            continue
        path = path.replace("{id}", session).replace("{name}", "1")
        got = daemon.ask("POST", path, {"no_such_member": 1})
        assert got.status in (400, 404), path
        if got.status == 400:
            assert got.code in ("VIAL-FIELD", "VIAL-VALUE") and "no_such_member" in got.body.decode()
    daemon.ask("DELETE", "/v1/sessions/" + session)


def test_languages_doctor_plan_and_version_are_json(daemon):
    assert any(l["name"] == "python" for l in daemon.ask("GET", "/v1/languages").json)
    assert daemon.ask("GET", "/v1/doctor").json["automatic"]["driver"] == "native"
    plan = daemon.ask("POST", "/v1/plan", {"language": "bash", "code": "true"}).json
    assert plan["driver"] == "native"
    assert daemon.ask("GET", "/v1/version").json["caller"] == "uid:%d" % os.getuid()
    assert daemon.ask("GET", "/v1/config").json["serve"]["queue"] == 256
    assert isinstance(daemon.ask("GET", "/v1/vessels").json, list)


def test_images_need_an_engine_and_say_so():
    with Daemon(env={"DOCKER_HOST": "unix:///nonexistent/docker.sock"}) as d:
        for method, path, body in (("GET", "/v1/images", None),
                                   ("POST", "/v1/images/pull", {"name": "x:1"}),
                                   ("POST", "/v1/images/prune", {})):
            answer = d.ask(method, path, body)
            assert (answer.status, answer.code[:12]) == (503, "VIAL-ENGINE-"), path
        assert d.ask("POST", "/v1/images/pull", {}).status == 400


def measured(d, name):
    text = d.ask("GET", "/metrics").body.decode()
    return float(re.search(r"^vial_%s (\S+)$" % name, text, re.M)[1])


@pytest.fixture
def orphan():
    """A vessel whose owner was killed: neither it nor the janitor could act."""
    owner = subprocess.Popen([VIAL, "run", "bash", "echo up; sleep 60"], env=clean_env(),
                             stdout=subprocess.PIPE, cwd="/")
    assert owner.stdout.readline() == b"up\n"
    with open("/proc/%d/task/%d/children" % (owner.pid, owner.pid)) as f:
        left = [int(n) for n in f.read().split()]
    for pid in left:
        os.kill(pid, signal.SIGSTOP)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    yield left
    for pid in left:
        with contextlib.suppress(ProcessLookupError):  # a later run may have removed it
            os.kill(pid, signal.SIGCONT)
    assert wait_until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in left))


def test_metrics_count_the_runs_and_the_vessels_whose_owner_died(orphan):
    d = Daemon()
    d.settings["cleanup"] = {"interval": 0}  # its sweeper's first turn is at any moment
    with d:
        listed = [v for v in d.ask("GET", "/v1/vessels").json if v.get("pid") in orphan]
        assert [v["orphan"] for v in listed] == [True]
        assert measured(d, "vessels_orphaned") >= 1 and measured(d, "vessels") >= 1
        assert measured(d, "runs_active") == 0
        c = d.connect()
        c.request("POST", "/v1/run", json.dumps({"language": "bash", "code": "sleep 60",
                                                "timeout": "60s"}))
        assert wait_until(lambda: measured(d, "runs_active") == 1)
        c.close()
        assert wait_until(lambda: measured(d, "runs_active") == 0)


def test_metrics_are_prometheus_text_and_count_what_happened():
    with Daemon() as d:
        d.run("true")
        d.run("exit 1")
        d.run("sleep 9", timeout="0.2s")
        d.ask("GET", "/v1/nothing")
        text = d.ask("GET", "/metrics").body.decode()
        values = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        assert values['vial_runs_total{verdict="ok"}'] == 1
        assert values['vial_runs_total{verdict="nonzero"}'] == 1
        assert values['vial_runs_total{verdict="timeout"}'] == 1
        assert values["vial_run_seconds_count"] == 3
        assert values['vial_run_seconds_bucket{le="+Inf"}'] == 3
        assert values['vial_limits_hit_total{limit="time"}'] == 1
        assert values['vial_http_responses_total{code="4xx"}'] == 1
        assert values["vial_runs_active"] == 0
        assert values["vial_open_seconds_count"] == values["vial_close_seconds_count"] == 3
        assert values["vial_vessels_orphaned"] >= 0 and "vial_vessels" in values
        buckets = [v for k, v in values.items() if k.startswith("vial_run_seconds_bucket")]
        assert buckets == sorted(buckets)
        names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
        assert len(names) == len(set(names))


