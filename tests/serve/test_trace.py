# SPDX-License-Identifier: Apache-2.0
"""One id from the client's request through every layer, and one account of all runs,
whichever way they came."""
import hashlib
import json
import os
import threading

import pytest

from daemon import Daemon, wait_until

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="controls run as root only")


@pytest.fixture(scope="module")
def recorded():
    d = Daemon(serve={"warm": "none"})  # the keeper opens each vessel for its run
    d.audit = d.dir + "/audit/log"
    d.settings["audit"] = {"path": d.audit, "sync": "lazy"}
    with d:
        yield d


def records(d, correlation):
    with open(d.audit, encoding="utf-8") as file:
        return [r for r in map(json.loads, file)
                if (r.get("caller") or {}).get("correlation") == correlation]


def test_one_id_is_in_result_program_log_and_record(recorded):
    answer = recorded.run("echo $VIAL_REQUEST_ID", headers={"X-Request-Id": "trace-1"})
    assert answer.json["correlation"] == "trace-1" and answer.json["stdout"] == "trace-1\n"
    assert recorded.ask("GET", "/v1/runs/trace-1").json["id"] == answer.json["id"]
    assert [r["event"] for r in records(recorded, "trace-1")] == ["begin", "run"]
    assert wait_until(lambda: [l for l in recorded.lines("http") if l["request"] == "trace-1"])
    assert [l["run"] for l in recorded.lines("run") if l["request"] == "trace-1"] == \
        [answer.json["id"]]


def test_a_request_without_an_id_gets_one_that_the_program_sees(recorded):
    for given in ({}, {"X-Request-Id": "no good\tid"}, {"X-Request-Id": "x" * 65}):
        answer = recorded.run("echo $VIAL_REQUEST_ID", headers=given)
        made = answer.headers["X-Request-Id"]
        assert made.startswith("q-") and answer.json["stdout"] == made + "\n"


def test_no_run_is_hidden_by_what_its_command_is_called(recorded):
    """Its name is cut, and must not be cut within a character."""
    recorded.ask("POST", "/v1/run", {"command": ["\u00e9" * 40]}, {"X-Request-Id": "long"})
    assert recorded.ask("GET", "/v1/runs/long").json["what"].startswith("\u00e9" * 31)
    assert "long" in [r["request"] for r in recorded.ask("GET", "/v1/runs").json]


def test_a_variable_of_the_callers_own_is_left_alone(recorded):
    answer = recorded.run("echo $VIAL_REQUEST_ID", env={"VIAL_REQUEST_ID": "mine"},
                          headers={"X-Request-Id": "trace-2"})
    assert answer.json["stdout"] == "mine\n" and answer.json["correlation"] == "trace-2"


def test_each_program_of_a_session_has_the_id_of_its_own_request(recorded):
    made = recorded.ask("POST", "/v1/sessions", {}, {"X-Request-Id": "trace-s"}).json
    answer = recorded.ask("POST", "/v1/sessions/%s/exec?wait=1" % made["id"],
                          {"shell": "echo $VIAL_REQUEST_ID"}, {"X-Request-Id": "trace-x"})
    assert answer.json["stdout"] == "trace-x\n"
    assert [r["event"] for r in records(recorded, "trace-s")] == ["session.begin"]
    assert [r["event"] for r in records(recorded, "trace-x")] == ["exec.begin", "exec.end"]
    recorded.ask("DELETE", "/v1/sessions/" + made["id"])


CELL = "print('cell of a session')"


def cells_of(d, session):
    with open(d.audit, encoding="utf-8") as file:
        return [r for r in map(json.loads, file)
                if r["event"].startswith("cell.") and r["session"] == session]


def test_every_cell_of_a_context_is_in_the_audit_log(recorded):
    made = recorded.ask("POST", "/v1/sessions", {}).json
    at = "/v1/sessions/%s/contexts" % made["id"]
    assert recorded.ask("POST", at, {"language": "python"}).status == 201
    for code, name in ((CELL, "cell-1"), ("1/0", "cell-2")):
        recorded.ask("POST", at + "/python/run", {"code": code}, {"X-Request-Id": name})
    first, last = records(recorded, "cell-1")
    assert (first["event"], last["event"]) == ("cell.begin", "cell.end")
    assert first["code_sha256"] == hashlib.sha256(CELL.encode()).hexdigest()
    assert (first["cell"], first["language"], last["outcome"]) == (1, "python", "ok")
    assert last["stdout_bytes"] == len("cell of a session\n")
    assert [r["outcome"] for r in records(recorded, "cell-2")[1:]] == ["error"]
    opened = [r["session"] for r in records(recorded, "cell-1")]
    assert len(cells_of(recorded, opened[0])) == 4 and opened[0] == opened[1]
    recorded.ask("DELETE", "/v1/sessions/" + made["id"])


def test_a_cell_that_ends_its_interpreter_has_its_end_recorded(recorded):
    made = recorded.ask("POST", "/v1/sessions", {}).json
    at = "/v1/sessions/%s/contexts" % made["id"]
    recorded.ask("POST", at, {"language": "python"})
    recorded.ask("POST", at + "/python/run", {"code": "import os; os._exit(3)"},
                 {"X-Request-Id": "cell-3"})
    last = [r for r in records(recorded, "cell-3") if r["event"] == "cell.end"][0]
    assert (last["outcome"], last["error"]["code"]) == ("failed", "VIAL-CONTEXT")
    recorded.ask("DELETE", "/v1/sessions/" + made["id"])


@ROOT_ONLY
def test_the_keepers_log_has_the_same_id(recorded):
    answer = recorded.run("true", headers={"X-Request-Id": "trace-k"})

    def lines(event):
        return [l for l in recorded.lines(event) if l.get("request") == "trace-k"]
    line = wait_until(lambda: lines("vessel"))[0]
    assert line["part"] == "keeper" and line["run"] == answer.json["id"]
    assert line["vessel"] == answer.json["vessel_id"]
    # The front lets root name paths; its keeper mounts none unless told from where.
    refused = recorded.run("true", mounts=["/usr:/data"], headers={"X-Request-Id": "trace-k"})
    assert refused.code == "VIAL-MOUNT-OUTSIDE"
    assert wait_until(lambda: lines("no vessel"))[0]["code"] == "VIAL-MOUNT-OUTSIDE"


def test_an_interpreter_that_waited_sees_the_id_too():
    with Daemon(serve={"warm": ["python"]}) as d:
        assert wait_until(lambda: d.ask("GET", "/metrics").body.decode()
                          .split("\nvial_vessels_pooled ")[1].split()[0] != "0")
        answer = d.run("import os; print(os.environ['VIAL_REQUEST_ID'])", "python",
                       headers={"X-Request-Id": "trace-w"})
        assert (answer.json["start"], answer.json["stdout"]) == ("warm", "trace-w\n")


def call_tool(d, name, arguments, **headers):
    """A call of the stateless era."""
    return d.ask("POST", "/mcp", {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}}}},
        {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
         "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name,
         **{k.replace("_", "-"): v for k, v in headers.items()}})


def test_the_python_of_a_sandbox_is_in_the_audit_log(recorded):
    made = call_tool(recorded, "create_sandbox", {}).json["result"]["structuredContent"]
    call_tool(recorded, "run_code", {"sandbox_id": made["sandbox_id"], "language": "python",
                                     "code": CELL}, X_Request_Id="cell-m")
    told = records(recorded, "cell-m")
    assert [r["event"] for r in told if "cell" in r] == ["cell.begin", "cell.end"]
    assert told[-1]["code_sha256"] == hashlib.sha256(CELL.encode()).hexdigest()
    call_tool(recorded, "delete_sandbox", {"sandbox_id": made["sandbox_id"]})


def test_what_tools_run_is_remembered_counted_and_logged_like_other_runs(recorded):
    def counted():
        text = recorded.ask("GET", "/metrics").body.decode()
        return {line.split()[0]: float(line.split()[1]) for line in text.splitlines()
                if line.startswith(("vial_runs_total", "vial_run_seconds_count"))}
    before = counted()
    answer = call_tool(recorded, "run_code", {"language": "bash", "code": "echo $VIAL_REQUEST_ID; exit 3"},
                       X_Request_Id="trace-m")
    ran = answer.json["result"]["_meta"]["vial/result"]
    assert answer.json["result"]["content"][0]["text"].endswith("trace-m\n")
    assert (ran["correlation"], ran["verdict"]) == ("trace-m", "nonzero")
    kept = recorded.ask("GET", "/v1/runs/trace-m").json
    assert (kept["id"], kept["what"], kept["verdict"]) == (ran["id"], "bash", "nonzero")
    assert kept["stdout"] == "trace-m\n" and kept["state"] == "ended"
    assert ran["id"] in [r["id"] for r in recorded.ask("GET", "/v1/runs").json]
    after = counted()
    assert after['vial_runs_total{verdict="nonzero"}'] == \
        before['vial_runs_total{verdict="nonzero"}'] + 1
    assert after["vial_run_seconds_count"] == before["vial_run_seconds_count"] + 1
    assert [l["verdict"] for l in recorded.lines("run") if l["request"] == "trace-m"] == ["nonzero"]
    assert [r["event"] for r in records(recorded, "trace-m")] == ["begin", "run"]


def test_what_a_tool_runs_can_be_cancelled_as_a_run(recorded):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(call_tool(
        recorded, "run_command", {"command": "sleep 600", "timeout": 30}, X_Request_Id="trace-c")))
    thread.start()
    assert wait_until(lambda: recorded.ask("GET", "/v1/runs/trace-c").status == 200)
    assert recorded.ask("DELETE", "/v1/runs/trace-c").status == 204
    thread.join(60)
    assert recorded.ask("GET", "/v1/runs/trace-c").json["verdict"] == "cancelled"
