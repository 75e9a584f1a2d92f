# SPDX-License-Identifier: Apache-2.0
"""vial mcp on stdin and stdout: what it answers, and that nothing a client does stops it
or leaves anything running."""
import base64
import contextlib
import json
import os
import signal
import subprocess
import time

import pytest

from conftest import CLEAN, OWN_TOOLS, VIAL, measured, processes, text_of

META = "io.modelcontextprotocol/"


def modern(**more):
    return {"_meta": {META + "protocolVersion": "2026-07-28",
                      META + "clientCapabilities": {}, **more}}


def mark(name):
    return "vial-%s-%d" % (name, os.getpid())


def sleeper(name):
    return "echo up; exec -a %s sleep 600" % mark(name)


# Its start.

def test_a_server_that_cannot_start_says_why_in_its_first_answer(tmp_path):
    """Most clients show no more of stderr than that a server went away."""
    settings = tmp_path / "vial.yaml"
    settings.write_text("policy: {memry: 1g}")

    def told(first):
        done = subprocess.run([VIAL, "mcp", "--config", settings], input=first, text=True,
                              capture_output=True, env=CLEAN, timeout=60, check=False)
        assert done.returncode == 125 and "[VIAL-FIELD]" in done.stderr
        return done.stdout

    asked = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {}}
    answer = json.loads(told(json.dumps(asked) + "\n"))
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)
    assert answer["error"]["message"].startswith("VIAL-FIELD: ")
    assert "memry" in answer["error"]["message"]
    assert answer["error"]["data"]["code"] == "VIAL-FIELD"
    for first in ["", "no message\n", "x" * 100000, json.dumps({**asked, "id": None}) + "\n",
                  '{"jsonrpc":"2.0","method":"notifications/initialized"}\n']:
        assert told(first) == ""


# The two eras.

@pytest.mark.parametrize("asked,agreed", [
    ("2025-11-25", "2025-11-25"), ("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-03-26"),
    ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25"), ("2026-07-28", "2025-11-25")])
def test_initialize_agrees_on_the_newest_elder_version(client, asked, agreed):
    result = client(initialize=False).initialize(asked)
    assert result["protocolVersion"] == agreed
    assert result["serverInfo"]["name"] == "vial"
    assert "tools" in result["capabilities"] and "logging" in result["capabilities"]


def test_both_eras_are_served_to_one_client_request_by_request(client):
    c = client()
    old = c.ask("tools/list")["result"]
    new = c.ask("tools/list", modern())["result"]
    assert [t["name"] for t in old["tools"]] == OWN_TOOLS
    assert new["tools"] == old["tools"]
    assert "resultType" not in old and "ttlMs" not in old
    assert (new["resultType"], new["cacheScope"]) == ("complete", "public")
    assert new["_meta"][META + "serverInfo"]["name"] == "vial"
    found = c.ask("server/discover", modern())["result"]
    assert found["supportedVersions"][0] == "2026-07-28"


def test_the_stateless_era_needs_no_initialize_and_the_elder_one_does(client):
    c = client(initialize=False)
    assert c.ask("ping")["result"] == {}
    assert c.ask("tools/list")["error"]["code"] == -32600
    answer = c.ask("tools/call", {**modern(), "name": "run_code", "arguments":
                                  {"language": "python", "code": "print(1)"}})
    assert text_of(answer["result"]) == "1\n"


def test_what_one_era_does_not_have_is_not_found_in_it(client):
    c = client()
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe"]:
        assert c.ask(method, modern())["error"]["code"] == -32601
    for method in ["server/discover", "subscriptions/listen", "tasks/get"]:
        assert c.ask(method)["error"]["code"] == -32601


def test_a_version_nobody_speaks_is_refused_with_those_we_do(client):
    meta = modern()
    meta["_meta"][META + "protocolVersion"] = "1900-01-01"
    error = client().ask("tools/list", meta)["error"]
    assert error["code"] == -32022
    assert error["data"]["requested"] == "1900-01-01"
    assert "2026-07-28" in error["data"]["supported"]


# Bad input. After each the server still answers.

@pytest.mark.parametrize("line,code", [
    ("{", -32700), ("nonsense", -32700), ('{"a":1,"a":2}', -32700), ("[" * 100, -32700),
    ("[]", -32600), ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600), ("1", -32600),
    ("{}", -32600), ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    ('{"jsonrpc":"2.0","id":1,"method":"ping\\u0000x"}', -32600),
    ('{"jsonrpc":"2.0","id":1}', -32600),
    ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602),
    ('{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', -32602),
    ('{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601)])
def test_what_is_no_message_gets_its_error(client, line, code):
    c = client()
    c.write(line + "\n")
    answer = c.receive()
    assert answer["error"]["code"] == code
    assert set(answer) <= {"jsonrpc", "id", "error"}
    assert answer.get("id") in (None, 1) and (None is not answer.get("id") or
                                              "id" not in answer)
    assert c.ask("ping")["result"] == {}


def test_lines_that_are_not_text_or_much_too_long_are_answered(client):
    c = client()
    c.write(b"\xff\xfe\n\n  \r\n")
    assert c.receive()["error"]["code"] == -32700
    block = b"x" * (1 << 20)
    for _ in range(65):
        c.write(block)
    assert c.receive()["error"]["code"] == -32600
    c.write(b"\n")
    assert c.ask("ping")["result"] == {}


@pytest.mark.parametrize("params,text", [
    ({"name": "no_such"}, "Unknown tool: no_such"), ({}, "Unknown tool"),
    ({"name": 7}, "Unknown tool"), ({"name": "run_code\u0000"}, "Unknown tool"),
    ({"name": "run_code", "arguments": []}, "arguments is not an object"),
    ({"name": "run_code", "arguments": "x"}, "arguments is not an object")])
def test_a_call_of_no_tool_is_a_protocol_error(client, params, text):
    c = client()
    error = c.ask("tools/call", params)["error"]
    assert error["code"] == -32602 and text in error["message"]
    assert c.ask("ping")["result"] == {}


@pytest.mark.parametrize("arguments,text", [
    ({"language": "python"}, "lacks the required member 'code'"),
    ({"language": "python", "code": 7}, "'code' must be of type string"),
    ({"language": "python", "code": "1", "timeout": "soon"},
     "'timeout' must be of type number"),
    ({"language": "python", "code": "1", "timeout": 0}, "'timeout' must be at least 0.001"),
    ({"language": "python", "code": "1", "timout": 1}, "did you mean 'timeout'?"),
    ({"language": "python", "code": "1\u0000"}, "'code' holds a NUL byte"),
    ({"language": "python", "code": "1", "network": "host"},
     "'network' must be one of: none, bridge"),
    ({"language": "python", "code": "1", "files": [{"path": "a"}]},
     "'files[0]' lacks the required member 'content'"),
    ({"language": "klingon", "code": "1"}, "VIAL-LANGUAGE"),
    ({"language": "python", "code": "1", "timeout": 7200}, "VIAL-CAP"),
    ({"language": "python", "code": "1", "memory": "lots"}, "VIAL-VALUE"),
    ({"language": "python", "code": "1", "files": [{"path": "../a", "content": ""}]},
     "VIAL-PATH"),
    ({"language": "python", "code": "1", "sandbox_id": "s-none"}, "VIAL-SESSION")])
def test_arguments_that_do_not_do_are_told_to_the_model(client, arguments, text):
    c = client()
    result = c.call("run_code", **arguments)
    assert result["isError"] is True
    assert text in text_of(result)
    assert c.ask("ping")["result"] == {}


def test_code_above_the_cap_is_refused_and_not_cut(client):
    c = client()
    result = c.call("run_code", language="python", code="#" * (17 << 20))
    assert result["isError"] is True and "VIAL-CAP" in text_of(result)
    assert text_of(c.call("run_code", language="python", code="print(1)")) == "1\n"


def test_a_language_the_policy_forbids_is_refused(client, tmp_path):
    settings = tmp_path / "vial.yaml"
    settings.write_text("policy:\n  languages: [bash]\n  max_timeout: 5s\n"
                        "defaults:\n  timeout: 4s\n")
    c = client("--config", str(settings))
    assert "VIAL-POLICY" in text_of(c.call("run_code", language="python", code="1"))
    assert "VIAL-CAP" in text_of(c.call("run_code", language="bash", code="1", timeout=6))
    assert text_of(c.call("run_code", language="bash", code="echo 1")) == "1\n"
    described = c.ask("tools/list")["result"]["tools"][0]["description"]
    assert "4 seconds of time" in described and "at most 5 seconds" in described


def test_two_requests_with_one_id_do_not_disturb_the_first(client):
    c = client()
    sandbox_id = c.call("create_sandbox")["structuredContent"]["sandbox_id"]
    c.begin("tools/call", {"name": "run_command", "arguments": {
        "sandbox_id": sandbox_id, "timeout": 60,
        "command": "until [ -e go ]; do sleep 0.02; done; echo 7"}}, id="same")
    c.begin("tools/call", {"name": "run_code", "arguments":
                           {"language": "bash", "code": "echo 8"}}, id="same")
    assert c.answer_to("same")["error"]["code"] == -32600
    c.call("write_file", sandbox_id=sandbox_id, path="go", content="")
    assert text_of(c.answer_to("same")["result"]) == "7\n"
    assert c.answer_to(c.begin("ping", id="same"))["result"] == {}


def test_notifications_out_of_order_are_ignored(client):
    c = client(initialize=False)
    c.notify("notifications/initialized")
    c.notify("notifications/cancelled", requestId=99)
    c.notify("notifications/cancelled")
    c.notify("notifications/cancelled", requestId={"a": 1})
    c.notify("notifications/progress", progressToken="none", progress=1)
    c.notify("notifications/no_such")
    c.send({"jsonrpc": "2.0", "id": "q-nobody-asked", "result": {}})
    c.send({"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "x"}})
    c.initialize()
    assert c.ask("ping")["result"] == {}
    assert c.unasked == []


def test_unknown_cursors_levels_and_resources_are_refused(client):
    c = client()
    for method in ["tools/list", "resources/list", "prompts/list",
                   "resources/templates/list"]:
        for cursor in ["x", "", 7, base64.b64encode(b"100000").decode()]:
            assert c.ask(method, {"cursor": cursor})["error"]["code"] == -32602
    assert c.ask("logging/setLevel", {"level": "loud"})["error"]["code"] == -32602
    for uri in ["sandbox://s-none/a", "vial://runs/r-none/stdout", "file:///etc/passwd",
                "sandbox://", "sandbox:///etc/passwd", "sandbox://" + "s" * 999 + "/a"]:
        error = c.ask("resources/read", {"uri": uri})["error"]
        assert error["code"] == -32002 and error["data"]["uri"] == uri
        assert c.ask("resources/read", {**modern(), "uri": uri})["error"]["code"] == -32602
    assert c.ask("prompts/get", {"name": "no_such"})["error"]["code"] == -32602
    assert c.ask("prompts/get", {"name": "solve_with_code"})["error"]["code"] == -32602


# What runs, and how it ends.

def test_a_cancelled_call_is_dead_when_the_next_message_is_answered(client):
    """No answer comes for it."""
    c = client()
    name = mark("cancel")
    id = c.begin_call("run_code", token="t", language="bash", code=sleeper("cancel"),
                      timeout=600)
    c.await_progress("up")
    while not processes(name):
        pass
    begun = time.monotonic()
    c.notify("notifications/cancelled", requestId=id)
    assert c.ask("ping")["result"] == {}
    measured("cancelled over stdio, and answered", (time.monotonic() - begun) * 1000)
    assert processes(name) == []
    assert c.answers == []


@pytest.mark.parametrize("arguments", [
    {"tool": "run_command", "command": sleeper("held")},
    {"tool": "run_code", "language": "python",
     "code": "import subprocess; print('up', flush=True);"
             "subprocess.run(['bash', '-c', 'exec -a %s sleep 600'])" % mark("held")},
    {"tool": "run_code", "language": "python",
     "code": "import signal, os, sys, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
             "print('up', flush=True)\nwhile True: pass"}])
def test_a_cancelled_call_in_a_sandbox_ends_and_leaves_the_sandbox(client, arguments):
    c = client()
    arguments = dict(arguments)
    tool = arguments.pop("tool")
    sandbox_id = c.call("create_sandbox")["structuredContent"]["sandbox_id"]
    c.call("write_file", sandbox_id=sandbox_id, path="kept", content="yes")
    id = c.begin_call(tool, token="t", sandbox_id=sandbox_id, timeout=600, **arguments)
    c.await_progress("up")
    c.notify("notifications/cancelled", requestId=id)
    assert c.ask("ping")["result"] == {}
    if "sleep" in str(arguments):
        assert processes(mark("held")) == []
    again = c.call("run_code", sandbox_id=sandbox_id, language="python",
                   code="print(open('kept').read())")
    assert text_of(again) == "yes\n"


@pytest.mark.parametrize("how", ["closes", "dies"])
def test_a_client_that_goes_away_takes_its_runs_with_it(client, how):
    c = client()
    name = mark("gone-" + how)
    sandbox_id = c.call("create_sandbox")["structuredContent"]["sandbox_id"]
    for more in [{}, {"sandbox_id": sandbox_id}]:
        c.begin_call("run_command", token="t", timeout=600,
                     command="echo up; exec -a %s sleep 600" % name, **more)
        c.await_progress("up")
    while len(processes(name)) < 2:
        pass
    if how == "closes":
        status, rest = c.close()
        assert status == 0
        assert all(b'"method"' in line for line in rest.splitlines())
    else:
        c.server.stdout.close()
        with pytest.raises(OSError):
            while True:
                c.begin("ping")
                time.sleep(0.01)
        assert c.server.wait(timeout=60) == 0
        c.server.stdin = open(os.devnull, "wb")
        c.server.stdout = open(os.devnull, "rb")
    assert processes(name) == []


def test_a_client_that_reads_nothing_and_leaves_does_not_keep_us(client):
    """Answers and progress fill the pipe long before it closes its end."""
    c = client()
    name = mark("unread")
    for _ in range(3):
        c.begin_call("run_command", token="t", timeout=600, command="head -c 99999 /dev/zero "
                     "| tr '\\0' x; exec -a %s sleep 600" % name)
    for _ in range(30):
        c.begin("tools/list")
    c.server.stdin.close()
    assert c.server.wait(timeout=60) == 0
    assert processes(name) == []


def test_calls_run_at_once(client):
    """The first one waits for what the last one does."""
    c = client()
    sandbox_id = c.call("create_sandbox")["structuredContent"]["sandbox_id"]
    waiting = c.begin_call("run_command", sandbox_id=sandbox_id, timeout=60,
                           command="until [ -e go ]; do sleep 0.02; done; echo went")
    others = [c.begin_call("run_code", language="bash", code="echo %d" % n)
              for n in range(3)]
    for n, id in enumerate(others):
        assert text_of(c.answer_to(id)["result"]) == "%d\n" % n
    c.call("write_file", sandbox_id=sandbox_id, path="go", content="")
    assert text_of(c.answer_to(waiting)["result"]) == "went\n"


def test_progress_comes_only_when_asked_for_and_grows(client):
    c = client()
    c.call("run_code", language="bash", code="echo 1; sleep 0.1; echo 2")
    assert [m for m in c.unasked if m["method"] == "notifications/progress"] == []
    name = mark("progress")
    id = c.begin_call("run_code", token=7, language="bash", timeout=60, code=(
        "mkfifo f; exec -a %s bash -c 'trap \"trap : TERM; echo 2 >&2; exit 0\" TERM; "
        "echo 1; read <>f'" % name))
    c.await_progress("1\n")
    for pid in iter(lambda: processes(name), []):
        with contextlib.suppress(ProcessLookupError):  # one that comes before the read
            os.kill(pid[0], signal.SIGTERM)            # is heard with the next
    assert c.answer_to(id)["result"]["_meta"]["vial/result"]["verdict"] == "ok"
    told = [m["params"] for m in c.unasked if m["method"] == "notifications/progress"]
    assert [p["message"] for p in told] == ["1\n", "2\n"]
    assert [p["progressToken"] for p in told] == [7, 7]
    assert told[0]["progress"] < told[1]["progress"]


def test_a_flood_of_output_is_no_flood_of_messages(client):
    c = client()
    result = c.call("run_code", token="t", language="bash",
                    code="for i in $(seq 20000); do echo $i; done")
    told = [m for m in c.unasked if m["method"] == "notifications/progress"]
    assert len(told) < 1000
    assert sum(len(m["params"]["message"]) for m in told) < 400 << 10
    assert result["_meta"]["vial/result"]["stdout_bytes"] == 108894


def test_logs_are_sent_from_the_level_that_was_asked_for(client):
    c = client()
    code = {"language": "python", "code": "print(1)"}
    c.call("run_code", **code)
    assert [m for m in c.unasked if m["method"] == "notifications/message"] == []
    assert c.ask("logging/setLevel", {"level": "debug"})["result"] == {}
    c.call("run_code", **code)
    logs = [m["params"] for m in c.unasked if m["method"] == "notifications/message"]
    assert [(m["level"], m["data"]["verdict"]) for m in logs] == [("debug", "ok")]
    c.unasked.clear()
    c.ask("tools/call", {"name": "run_code", "arguments": code,
                         **modern(**{META + "logLevel": "debug"})})
    c.ask("tools/call", {"name": "run_code", "arguments": code, **modern()})
    assert len([m for m in c.unasked if m["method"] == "notifications/message"]) == 1


def test_changes_are_told_to_those_who_listen(client):
    c = client()
    listening = c.begin("subscriptions/listen", {
        **modern(), "notifications": {"resourcesListChanged": True}})
    hello = c.receive()
    assert hello["method"] == "notifications/subscriptions/acknowledged"
    assert hello["params"]["_meta"][META + "subscriptionId"] == listening
    sandbox_id = c.call("create_sandbox")["structuredContent"]["sandbox_id"]
    uri = "sandbox://%s/a" % sandbox_id
    assert c.ask("resources/subscribe", {"uri": uri})["result"] == {}
    c.call("write_file", sandbox_id=sandbox_id, path="a", content="1")

    def tagged():
        return [m["params"]["_meta"][META + "subscriptionId"] for m in c.unasked
                if "_meta" in m["params"]]

    while len(tagged()) < 2:  # they have a thread of their own
        c.unasked.append(c.receive())
    assert tagged() == [listening, listening]
    assert "notifications/resources/updated" in [m["method"] for m in c.unasked]
    assert c.ask("resources/unsubscribe", {"uri": uri})["result"] == {}
    c.notify("notifications/cancelled", requestId=listening)
    c.unasked.clear()
    c.call("write_file", sandbox_id=sandbox_id, path="a", content="2")
    assert [m["method"] for m in c.unasked] == ["notifications/resources/list_changed"]


def test_a_long_call_becomes_a_task_for_clients_that_know_them(client):
    c = client(initialize=False)
    can = modern()
    can["_meta"][META + "clientCapabilities"] = {"extensions": {META + "tasks": {}}}
    quick = c.ask("tools/call", {**can, "name": "run_code", "arguments":
                                 {"language": "bash", "code": "echo 1"}})["result"]
    assert quick["resultType"] == "complete" and text_of(quick) == "1\n"
    name = mark("task")
    task = c.ask("tools/call", {**can, "name": "run_code", "arguments": {
        "language": "bash", "timeout": 600, "code": sleeper("task")}})["result"]
    assert (task["resultType"], task["status"]) == ("task", "working")
    while len(processes(name)) != 1:
        pass
    about = {**can, "taskId": task["taskId"]}
    assert c.ask("tasks/get", about)["result"]["status"] == "working"
    assert c.ask("tasks/cancel", about)["result"]["resultType"] == "complete"
    assert c.ask("tasks/get", about)["result"]["status"] == "cancelled"
    while processes(name):
        pass
    assert c.ask("tasks/get", {**can, "taskId": "t-none"})["error"]["code"] == -32602
    error = c.ask("tasks/get", {**modern(), "taskId": task["taskId"]})["error"]
    assert error["code"] == -32021


def test_nothing_but_messages_is_written_to_stdout():
    done = subprocess.run([VIAL, "mcp"], input="\n{}\nx\n", text=True, capture_output=True,
                          env=CLEAN, timeout=60)
    assert done.returncode == 0
    assert [json.loads(line)["error"]["code"] for line in done.stdout.splitlines()] == \
        [-32600, -32700]


def test_print_config_shows_what_starts_this_server():
    said = subprocess.run([VIAL, "mcp", "--print-config", "--json"], text=True,
                          capture_output=True, env=CLEAN, check=True).stdout
    server = json.loads(said)["mcpServers"]["vial"]
    assert server == {"command": VIAL, "args": ["mcp"]}
    said = subprocess.run([VIAL, "mcp", "--print-config", "--preset", "klaw"], text=True,
                          capture_output=True, env=CLEAN, check=True).stdout
    assert "claude mcp add vial -- '%s' 'mcp' '--preset' 'klaw'" % VIAL in said
    assert '"servers"' in said and '"type": "stdio"' in said
    begun = subprocess.run([server["command"], *server["args"]], input=json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n", text=True,
        capture_output=True, env=CLEAN, timeout=60)
    assert json.loads(begun.stdout)["result"] == {}


@pytest.mark.parametrize("which", ["stdin", "stdout"])
def test_a_stream_that_fails_is_said_and_not_taken_for_the_clients_end(which):
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    with open("/dev/full", "wb") as full:
        fd = os.open("/", os.O_RDONLY)
        try:
            how = ({"stdin": fd, "stdout": subprocess.PIPE} if which == "stdin"
                   else {"input": ping, "stdout": full})
            done = subprocess.run([VIAL, "mcp"], stderr=subprocess.PIPE, env=CLEAN, timeout=60,
                                  check=False, **how)
        finally:
            os.close(fd)
    assert done.returncode == 125
    assert b"the client" in done.stderr
