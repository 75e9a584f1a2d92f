# SPDX-License-Identifier: Apache-2.0
"""Streamable HTTP: what the suite does not look at."""
import http.client
import json
import os
import socket
from urllib.parse import urlparse

import pytest

from conftest import processes, text_of

META = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"


def mark(name):
    return "vial-http-%s-%d" % (name, os.getpid())


def sleeper(name):
    return {"language": "bash", "timeout": 600,
            "code": "echo up; exec -a %s sleep 600" % mark(name)}


class Http:
    """A client of one era; `session` is set once it has initialized."""

    def __init__(self, url, era="modern"):
        self.at = urlparse(url)
        self.era, self.session, self.last = era, None, 0
        if era == "elder":
            self.initialize()

    def headers(self, message):
        headers = {"Content-Type": "application/json", "Accept": BOTH}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if self.era == "modern" and "method" in message:
            headers["MCP-Protocol-Version"] = "2026-07-28"
            headers["Mcp-Method"] = message["method"]
            name = message["params"].get("name") or message["params"].get("uri")
            if name:
                headers["Mcp-Name"] = name
        return headers

    def raw(self, method, body=None, headers=None):
        """The answer as it comes; the connection is its own."""
        connection = http.client.HTTPConnection(self.at.netloc, timeout=60)
        connection.request(method, self.at.path, body, headers or {})
        answer = connection.getresponse()
        answer.connection = connection
        return answer

    def message(self, method, params=None, id=None):
        params = dict(params or {})
        if self.era == "modern":
            params["_meta"] = {META + "protocolVersion": "2026-07-28",
                               META + "clientCapabilities": {}, **params.get("_meta", {})}
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if id is not False:
            self.last += 1
            message["id"] = id or self.last
        return message

    def post(self, message, **headers):
        return self.raw("POST", json.dumps(message), {**self.headers(message), **headers})

    def begin(self, method, params=None, id=None):
        return self.post(self.message(method, params, id))

    def ask(self, method, params=None):
        return last_of(self.begin(method, params))

    def call(self, name, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})["result"]

    def begin_call(self, name, **arguments):
        return self.begin("tools/call", {"name": name, "arguments": arguments,
                                         "_meta": {"progressToken": "t"}})

    def initialize(self):
        answer = self.begin("initialize", {"protocolVersion": "2025-11-25",
                                           "capabilities": {}, "clientInfo":
                                           {"name": "t", "version": "1"}})
        assert answer.status == 200
        self.session = answer.headers["Mcp-Session-Id"]
        assert json.loads(answer.read())["result"]["protocolVersion"] == "2025-11-25"


def events(answer):
    """Messages of a stream, as they come."""
    while True:
        line = answer.readline()
        if not line:
            return
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def last_of(answer):
    if answer.headers["Content-Type"] == "text/event-stream":
        return list(events(answer))[-1]
    return json.loads(answer.read())


def code_of(answer):
    return json.loads(answer.read())["error"]["code"]


@pytest.fixture(params=["modern", "elder"])
def client(request, product_url):
    return Http(product_url, request.param)


@pytest.mark.parametrize("era", ["modern", "elder"])
def test_a_quiet_call_shows_that_it_lives(lively_url, era):
    """No progress is asked for, and nothing is printed before the end."""
    client = Http(lively_url, era)
    message = client.message("tools/call", {"name": "run_code", "arguments": {
        "language": "bash", "code": "sleep 1; echo done"}})
    answer = client.post(message)
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/event-stream"
    lines = answer.read().split(b"\n")
    assert lines.count(b":") >= 2
    said = [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
    assert [m["id"] for m in said] == [message["id"]]
    assert text_of(said[0]["result"]).startswith("done\n")
    assert set(lines) - {b":", b"", b"event: message"} == \
        {line for line in lines if line.startswith(b"data: ")}


def test_who_takes_no_stream_gets_no_heartbeat(lively_url):
    client = Http(lively_url, "elder")
    message = client.message("tools/call", {"name": "run_code", "arguments": {
        "language": "bash", "code": "sleep 0.3; echo done"}})
    answer = client.post(message, Accept="application/json")
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(answer.read())["id"] == message["id"]


def test_a_client_that_leaves_a_quiet_call_ends_it(lively_url):
    client = Http(lively_url)
    answer = client.begin("tools/call", {"name": "run_code", "arguments": {
        "language": "bash", "timeout": 600, "code": "exec -a %s sleep 600" % mark("quiet")}})
    assert answer.readline() == b":\n"
    while not processes(mark("quiet")):
        pass
    answer.connection.sock.shutdown(socket.SHUT_RDWR)
    answer.connection.close()
    while processes(mark("quiet")):
        pass


def test_an_answer_is_json_unless_there_is_something_to_say_before(client):
    quiet = client.begin("tools/call", {"name": "run_code", "arguments":
                                        {"language": "python", "code": "print(1)"}})
    assert quiet.headers["Content-Type"] == "application/json"
    told = client.begin_call("run_code", language="python", code="print(1)")
    assert told.headers["Content-Type"] == "text/event-stream"
    assert told.headers["Cache-Control"] == "no-cache"
    methods = [m.get("method", "answer") for m in events(told)]
    assert methods == ["notifications/progress", "answer"]


def test_a_closed_stream_ends_the_run(client):
    answer = client.begin_call("run_code", **sleeper("closed"))
    assert next(events(answer))["params"]["message"] == "up\n"
    while not processes(mark("closed")):
        pass
    answer.connection.sock.shutdown(socket.SHUT_RDWR)
    answer.connection.close()
    while processes(mark("closed")):
        pass
    assert text_of(client.call("run_code", language="python", code="print(1)")) == "1\n"


def test_a_client_that_never_reads_its_answer_leaves_nothing_running(client):
    message = client.message("tools/call", {"name": "run_code",
                                            "arguments": sleeper("silent")})
    body = json.dumps(message)
    s = socket.create_connection((client.at.hostname, client.at.port))
    head = "".join("%s: %s\r\n" % h for h in client.headers(message).items())
    s.sendall(("POST /mcp HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s"
               % (client.at.netloc, head, len(body), body)).encode())
    while not processes(mark("silent")):
        pass
    s.close()
    while processes(mark("silent")):
        pass


def test_a_cancelled_request_is_dead_when_the_notification_is_taken(product_url):
    c = Http(product_url, "elder")
    answer = c.begin_call("run_code", **sleeper("cancelled"))
    assert next(events(answer))["params"]["message"] == "up\n"
    while not processes(mark("cancelled")):
        pass
    taken = c.post({"jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"requestId": c.last}})
    assert (taken.status, taken.read()) == (202, b"")
    assert processes(mark("cancelled")) == []
    assert list(events(answer)) == []


def test_one_id_twice_in_a_session_does_not_disturb_the_first(product_url):
    c = Http(product_url, "elder")
    first = c.post(c.message("tools/call", {
        "name": "run_code", "arguments": {"language": "bash", "code": "sleep 0.5; echo 7"},
        "_meta": {"progressToken": "t"}}, id="same"))
    second = c.begin("ping", id="same")
    if second.status == 400:  # the first was still under way
        assert code_of(second) == -32600
    assert text_of(last_of(first)["result"]) == "7\n"


def test_sessions_begin_with_initialize_and_end_with_delete(product_url):
    c, other = Http(product_url, "elder"), Http(product_url, "elder")
    assert c.session != other.session
    listing = c.message("tools/list")
    without = {k: v for k, v in c.headers(listing).items() if k != "Mcp-Session-Id"}
    assert c.raw("POST", json.dumps(listing), without).status == 400
    assert c.post(listing, **{"Mcp-Session-Id": "0" * 32}).status == 404
    assert c.raw("GET", headers={"Accept": "text/event-stream"}).status == 405
    assert c.raw("DELETE").status == 405
    assert c.raw("DELETE", headers={"Mcp-Session-Id": "0" * 32}).status == 404
    assert c.raw("PUT", b"{}").status == 405
    assert c.raw("DELETE", headers={"Mcp-Session-Id": c.session}).status == 204
    assert c.post(listing).status == 404
    assert other.post(listing).status == 200


def test_deleting_a_session_ends_what_it_runs(product_url):
    c = Http(product_url, "elder")
    answer = c.begin_call("run_code", **sleeper("deleted"))
    next(events(answer))
    while not processes(mark("deleted")):
        pass
    assert c.raw("DELETE", headers={"Mcp-Session-Id": c.session}).status == 204
    assert processes(mark("deleted")) == []
    assert list(events(answer)) == []


def test_a_session_hears_of_changes_on_one_stream(product_url):
    c = Http(product_url, "elder")
    listen = {"Mcp-Session-Id": c.session, "Accept": "text/event-stream"}
    assert c.raw("GET", headers={"Mcp-Session-Id": c.session}).status == 406
    stream = c.raw("GET", headers=listen)
    assert stream.status == 200
    assert c.raw("GET", headers=listen).status == 409
    c.call("create_sandbox")
    assert next(events(stream))["method"] == "notifications/resources/list_changed"
    stream.connection.sock.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"}, {"Origin": "http://evil.example"},
    {"Host": "localhost.evil.example"}, {"Host": "127.0.0.1.evil.example:80"},
    {"Origin": "null"}, {"Origin": "http://localhost:80@evil.example"},
    {"Host": "[::1].evil.example"}, {"Host": "localhost:80x"}])
def test_a_foreign_host_or_origin_is_refused(client, headers):
    assert client.post(client.message("tools/list"), **headers).status == 403


@pytest.mark.parametrize("headers", [
    {"Origin": "http://localhost:3000"}, {"Host": "localhost"}, {"Host": "[::1]:99"},
    {"Origin": "http://127.0.0.1"}, {"Host": "LOCALHOST:1"}])
def test_the_loopback_names_are_known(client, headers):
    assert client.post(client.message("tools/list"), **headers).status == 200


@pytest.mark.parametrize("body,code", [
    (b"{", -32700), (b"", -32700), (b"\xff", -32700), (b"[]", -32600), (b"7", -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600)])
def test_what_is_no_message_is_a_bad_request(client, body, code):
    answer = client.raw("POST", body, {"Content-Type": "application/json", "Accept": BOTH})
    assert answer.status == 400
    assert code_of(answer) == code
    assert client.ask("tools/list")["result"]["tools"]


@pytest.mark.parametrize("headers,status,code", [
    ({"Mcp-Method": "tools/call"}, 400, -32020),
    ({"MCP-Protocol-Version": "2025-11-25"}, 400, -32020)])
def test_headers_must_say_what_the_body_says(product_url, headers, status, code):
    c = Http(product_url)
    answer = c.post(c.message("tools/list"), **headers)
    assert (answer.status, code_of(answer)) == (status, code)


def test_the_answer_to_an_unknown_method_is_404_in_the_stateless_era_only(product_url):
    answer = Http(product_url).begin("no/such")
    assert (answer.status, code_of(answer)) == (404, -32601)
    answer = Http(product_url, "elder").begin("no/such")
    assert (answer.status, code_of(answer)) == (200, -32601)


def test_tools_keep_files_and_variables_in_a_sandbox(client):
    """Whoever has the id may use it, in whichever era."""
    sandbox_id = client.call("create_sandbox")["structuredContent"]["sandbox_id"]
    assert client.call("run_code", sandbox_id=sandbox_id, language="python",
                       code="x = 41")["_meta"]["vial/result"]["verdict"] == "ok"
    answer = client.call("run_code", sandbox_id=sandbox_id, language="python", code="x + 1")
    assert answer["content"][0]["text"] == "42"
    assert text_of(answer) == "42"
    client.call("delete_sandbox", sandbox_id=sandbox_id)
    after = client.call("run_code", sandbox_id=sandbox_id, language="python", code="x")
    assert after["isError"] and "VIAL-SESSION" in text_of(after)
