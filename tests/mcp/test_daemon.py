# SPDX-License-Identifier: Apache-2.0
"""The same protocol at /mcp of the daemon: who asks, and what each may see."""
import hashlib
import json
import os
import sys

import pytest

from conftest import VIAL, processes, text_of

os.environ["VIAL"] = VIAL
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../serve"))
from daemon import Daemon, wait_until  # noqa: E402

META = "io.modelcontextprotocol/"


def secret(name):
    return "vial_" + hashlib.sha256(name.encode()).hexdigest()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    rows = [{"name": name, "scopes": scopes,
             "sha256": hashlib.sha256(secret(name).encode()).hexdigest(), **more}
            for name, scopes, more in [("ann", ["run", "session"], {}),
                                       ("bob", ["run", "session"], {"runs_per_minute": 2}),
                                       ("eve", ["session"], {})]]
    tokens.write_text(json.dumps(rows))
    tokens.chmod(0o600)
    with Daemon(serve={"tokens": str(tokens)}, tcp=True) as d:
        yield d


def ask(daemon, method, params=None, who=None, era="modern", **headers):
    params = dict(params or {})
    headers = {"Content-Type": "application/json", **headers}
    if era == "modern":
        params["_meta"] = {META + "protocolVersion": "2026-07-28",
                           META + "clientCapabilities": {}}
        headers.update({"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method})
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
    if who:
        headers["Authorization"] = "Bearer " + secret(who)
    import http.client
    connection = (http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60) if who
                  else daemon.connect())
    return daemon.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method,
                                       "params": params}, headers, connection)


def call(daemon, name, who=None, **arguments):
    answer = ask(daemon, "tools/call", {"name": name, "arguments": arguments}, who)
    assert answer.status == 200, answer.body
    return answer.json["result"]


@pytest.mark.parametrize("who", [None, "ann"])
def test_the_daemon_serves_both_eras_on_both_kinds_of_sockets(daemon, who):
    result = call(daemon, "run_code", who, language="python", code="print(6 * 7)")
    assert text_of(result) == "42\n"
    begun = ask(daemon, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}},
                who, era="elder")
    session = {"Mcp-Session-Id": begun.headers["Mcp-Session-Id"]}
    listed = ask(daemon, "tools/list", None, who, era="elder", **session)
    assert listed.json["result"]["tools"][0]["name"] == "run_code"


def test_who_has_no_token_or_not_the_scope_gets_nowhere(daemon):
    assert ask(daemon, "tools/list", who="nobody").status == 401
    assert ask(daemon, "tools/list", who="eve").status == 403


def test_sandboxes_outputs_and_sessions_are_their_owners_alone(daemon):
    sandbox_id = call(daemon, "create_sandbox", "ann")["structuredContent"]["sandbox_id"]
    call(daemon, "write_file", "ann", sandbox_id=sandbox_id, path="a", content="secret")
    for name, more in [("read_file", {"path": "a"}), ("list_files", {}),
                       ("write_file", {"path": "b", "content": ""}), ("delete_sandbox", {}),
                       ("run_command", {"command": "cat a"})]:
        result = call(daemon, name, None, sandbox_id=sandbox_id, **more)
        assert result["isError"] and "VIAL-SESSION" in text_of(result)
    assert call(daemon, "list_sandboxes")["structuredContent"]["sandboxes"] == []
    long = call(daemon, "run_code", "ann", language="python", code="print('x' * 99999)")
    uri = "vial://runs/%s/stdout" % long["_meta"]["vial/result"]["id"]
    assert "VIAL-NO-FILE" in text_of(call(daemon, "read_file", None, uri=uri))
    assert text_of(call(daemon, "read_file", "ann", uri=uri, length=3)).startswith("xxx\n[")
    begun = ask(daemon, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}},
                "ann", era="elder")
    session = {"Mcp-Session-Id": begun.headers["Mcp-Session-Id"]}
    assert ask(daemon, "ping", None, "ann", era="elder", **session).status == 200
    assert ask(daemon, "ping", None, None, era="elder", **session).status == 404


def test_tools_wait_for_their_turn_like_all_runs(daemon):
    """A quota that is used up is told to the model, and nothing is run."""
    said = [call(daemon, "run_code", "bob", language="bash", code="echo 1")
            for _ in range(3)]
    assert [r.get("isError", False) for r in said] == [False, False, True]
    assert "VIAL-RATE" in text_of(said[2]) and "Nothing was run" in text_of(said[2])
    assert text_of(call(daemon, "list_sandboxes", "bob"))  # what runs nothing is free


def test_a_daemon_that_ends_takes_all_runs_with_it():
    name = "vial-daemon-%d" % os.getpid()
    with Daemon(serve={"drain": "100ms"}) as d:
        connection = d.connect()
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "run_command", "arguments": {
                "command": "exec -a %s sleep 600" % name, "timeout": 600},
            "_meta": {META + "protocolVersion": "2026-07-28",
                      META + "clientCapabilities": {}}}})
        connection.request("POST", "/mcp", body, {
            "Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call", "Mcp-Name": "run_command"})
        assert wait_until(lambda: processes(name))
    assert processes(name) == []
