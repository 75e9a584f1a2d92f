# SPDX-License-Identifier: Apache-2.0
"""The wire by itself, as a client that is none of E2B's, and means no good."""
import base64
import datetime
import gzip
import hashlib
import http.client
import json
import os
import struct
import subprocess
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import VIAL, E2b, wait_until

ENVD, PYTHON = "49983", "49999"


class Answer:
    def __init__(self, r):
        self.status, self.headers, self.body = r.status, r.headers, r.read()

    @property
    def json(self):
        return json.loads(self.body)


def send(e2b, method, path, body=None, **headers):
    c = http.client.HTTPConnection("127.0.0.1", e2b.port, timeout=60)
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    try:
        c.request(method, path, body=body, headers=headers)
        return Answer(c.getresponse())
    finally:
        c.close()


def control(e2b, method, path, body=None, key=None):
    return send(e2b, method, path, body, X_API_Key=key or e2b.key)


def create(e2b, key=None, **more):
    made = control(e2b, "POST", "/v2/sandboxes", {"templateID": "base", **more}, key)
    assert made.status == 201, made.body
    return made.json


def envd(e2b, box, method, path, body=None, port=ENVD, **headers):
    headers.setdefault("X_Access_Token", box.get("envdAccessToken", ""))
    return send(e2b, method, path, body, E2b_Sandbox_Id=box["sandboxID"], E2b_Sandbox_Port=port,
                **headers)


def rpc(e2b, box, method, message, **headers):
    return envd(e2b, box, "POST", "/" + method, message, Content_Type="application/json", **headers)


def frame(message, flags=0):
    data = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data)) + data


def frames(body):
    out, at = [], 0
    while at < len(body):
        flags, size = struct.unpack_from(">BI", body, at)
        out.append((flags, json.loads(body[at + 5:at + 5 + size])))
        at += 5 + size
    return out


def stream(e2b, box, method, *messages, raw=None, **headers):
    body = raw if raw is not None else b"".join(frame(m) for m in messages)
    answer = envd(e2b, box, "POST", "/" + method, body, Content_Type="application/connect+json",
                  **headers)
    assert answer.status == 200, answer.body
    return frames(answer.body)


def run(e2b, box, line):
    said = stream(e2b, box, "process.Process/Start",
                  {"process": {"cmd": "/bin/sh", "args": ["-c", line]}, "stdin": False})
    return b"".join(base64.b64decode(m["event"]["data"].get("stdout", "")) for _, m in said
                    if "data" in m.get("event", {})).decode()


def test_the_wire_is_off_unless_the_settings_have_it_on():
    with E2b(serve={"e2b": "off"}) as d:
        assert control(d, "GET", "/v2/sandboxes").json["error"]["code"] == "VIAL-AUTH"
        answer = send(d, "GET", "/v2/sandboxes", Authorization="Bearer " + d.key)
        assert (answer.status, answer.json["error"]["code"]) == (404, "VIAL-ROUTE")


def test_a_key_has_the_form_that_sdks_insist_on():
    made = subprocess.run([VIAL, "serve", "--new-token", "ci", "--e2b", "--json"],
                          capture_output=True, text=True, check=True)
    token = json.loads(made.stdout)["token"]
    assert token.startswith("e2b_")
    assert len(token) == 68 and int(token[4:], 16) >= 0
    alone = subprocess.run([VIAL, "serve", "--e2b"], capture_output=True, text=True)
    assert alone.returncode != 0
    assert "'--e2b' is for a new token" in alone.stderr


def test_a_key_without_the_scope_opens_nothing():
    with E2b() as d:
        answer = control(d, "POST", "/sandboxes", {"templateID": "base"}, d.add_key("reader", "read"))
        assert answer.status == 403
        assert answer.json == {"code": 403, "message": "'token:reader' may not hold sessions"}


def test_nobody_else_s_sandbox_can_be_seen_or_touched(e2b):
    mine, theirs = create(e2b), create(e2b, e2b.other_key)
    listed = control(e2b, "GET", "/v2/sandboxes").json
    assert [b["sandboxID"] for b in listed] == [mine["sandboxID"]]
    path = "/sandboxes/" + theirs["sandboxID"]
    for method, below, body in [("GET", "", None), ("DELETE", "", None), ("POST", "/connect", {}),
                                ("POST", "/timeout", {"timeout": 0}), ("POST", "/refreshes", {}),
                                ("GET", "/metrics", None), ("POST", "/resume", {})]:
        answer = control(e2b, method, path + below, body)
        assert (answer.status, answer.json["code"]) == (404, 404), below
    assert rpc(e2b, dict(theirs, envdAccessToken=mine["envdAccessToken"]),
               "filesystem.Filesystem/Stat", {"path": "/"}).status == 401
    assert envd(e2b, theirs, "GET", "/health").status == 204


def test_ids_and_tokens_are_long_and_never_the_same(e2b):
    made = [create(e2b) for _ in range(5)]
    assert len({b["sandboxID"] for b in made} | {b["envdAccessToken"] for b in made}) == 10
    assert all(len(b["sandboxID"]) == 21 and len(b["envdAccessToken"]) == 40 for b in made)


@pytest.mark.parametrize("headers, status, message", [
    ({"X_Access_Token": "wrong"}, 401, "the access token is missing or wrong"),
    ({"X_Access_Token": ""}, 401, "the access token is missing or wrong"),
])
def test_a_wrong_token_reads_nothing(e2b, headers, status, message):
    box = create(e2b)
    for path in ("/envs", "/files?path=x"):
        answer = envd(e2b, box, "GET", path, **headers)
        assert (answer.status, answer.json) == (status, {"code": status, "message": message})
    assert envd(e2b, box, "GET", "/health", **headers).status == 204
    big = envd(e2b, box, "POST", "/files?path=x", b"x" * 300000, **headers)
    assert (big.status, big.json["code"]) == (401, 401)


def test_ports_need_a_token_where_the_caller_asks_for_that(e2b):
    box = create(e2b, network={"allowPublicTraffic": False})
    assert len(box["trafficAccessToken"]) == 40
    refused = envd(e2b, box, "GET", "/contexts", port=PYTHON)
    assert refused.status == 403
    assert refused.json == {"sandboxId": box["sandboxID"], "code": 403,
                            "message": "the traffic access token is missing or wrong"}
    assert envd(e2b, box, "GET", "/contexts", port=PYTHON,
                E2B_Traffic_Access_Token=box["trafficAccessToken"]).status == 200
    assert "trafficAccessToken" not in create(e2b)


@pytest.mark.parametrize("token", [None, "", "wrong"])
@pytest.mark.parametrize("path", ["/execute", "/e2b/execute", "//execute", "/contextsx"])
def test_a_site_s_name_is_not_enough_to_run_code(e2b, path, token):
    """The id was, and it is part of the name of every site that a sandbox has."""
    box = create(e2b)
    given = {} if token is None else {"X_Access_Token": token}
    for where in ({"Host": "49999-%s.box.test" % box["sandboxID"]},
                  {"E2b_Sandbox_Id": box["sandboxID"], "E2b_Sandbox_Port": PYTHON}):
        answer = send(e2b, "POST", path, {"code": "1"}, **where, **given)
        assert (answer.status, answer.json) == (
            401, {"code": 401, "message": "the access token is missing or wrong"})
        assert send(e2b, "GET", "/contexts", **where).status == 200  # SDKs send none


def test_the_traffic_token_runs_code(e2b):
    box = create(e2b, network={"allowPublicTraffic": False})
    assert execute(e2b, box, "1+1")[0] == 403
    answer = envd(e2b, box, "POST", "/execute", {"code": "1+1"}, port=PYTHON, X_Access_Token="",
                  E2B_Traffic_Access_Token=box["trafficAccessToken"])
    assert answer.status == 200


def test_who_says_secure_false_needs_no_token(e2b):
    box = create(e2b, secure=False)
    assert "envdAccessToken" not in box
    assert rpc(e2b, box, "filesystem.Filesystem/Stat", {"path": "."}).status == 200
    assert execute(e2b, box, "1+1")[0] == 200


def test_one_of_the_two_headers_alone_means_nothing(e2b):
    box = create(e2b)
    answer = send(e2b, "GET", "/health", E2b_Sandbox_Id=box["sandboxID"])
    assert (answer.status, answer.json["message"]) == (
        400, "E2b-Sandbox-Id and E2b-Sandbox-Port belong together")


def test_a_host_name_leads_to_a_sandbox(e2b):
    box = create(e2b)
    host = "49983-%s.example.com:8080" % box["sandboxID"]
    assert send(e2b, "GET", "/health", Host=host).status == 204
    assert send(e2b, "GET", "/envs", Host=host,
                X_Access_Token=box["envdAccessToken"]).json["E2B_SANDBOX"] == "true"


def test_a_port_cannot_be_reached_where_nobody_may_have_a_gate():
    with E2b(policy={}) as e2b:
        port = envd(e2b, create(e2b), "GET", "/", port="3000")
        assert (port.status, port.json["code"]) == (501, 501)


SITE = """
from http.server import *
class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(self.headers).encode())
ThreadingHTTPServer(("127.0.0.1", 3000), Site).serve_forever()
"""


def test_what_listens_inside_sees_no_key_of_ours(e2b):
    """The caller's key went to the program, which nobody trusts."""
    box = create(e2b)
    assert upload(e2b, box, SITE.encode(), "site.py", "application/octet-stream").status == 200
    run(e2b, box, "python3 site.py >/dev/null 2>&1 </dev/null & exit 0")
    host = "3000-%s.box.test" % box["sandboxID"]
    assert wait_until(lambda: send(e2b, "GET", "/", Host=host).status == 200)
    for where in ({"Host": host}, {"E2b_Sandbox_Id": box["sandboxID"], "E2b_Sandbox_Port": "3000"}):
        seen = send(e2b, "GET", "/", X_API_Key=e2b.key, X_Access_Token=box["envdAccessToken"],
                    Authorization="bearer " + e2b.key, X_Other="kept", **where).body.decode()
        assert "X-Other: kept" in seen
        assert e2b.key not in seen and box["envdAccessToken"] not in seen
        own = send(e2b, "GET", "/", Authorization="Bearer of-the-site's-own", **where).body
        assert b"Authorization: Bearer of-the-site's-own" in own


def test_a_lease_that_was_renewed_does_not_end_in_a_pause(e2b):
    """It was paused by a look at it from before, and the client told that it runs."""
    def renew_at_its_end(_):
        box = create(e2b, timeout=1, autoPause=True)
        at = "/sandboxes/" + box["sandboxID"]
        ends = datetime.datetime.fromisoformat(control(e2b, "GET", at).json["endAt"])
        while datetime.datetime.now(datetime.timezone.utc) < ends:
            pass
        assert control(e2b, "POST", at + "/connect", {"timeout": 60}).status in (200, 201)
        return control(e2b, "GET", at).json["state"]
    for _ in range(4):
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(renew_at_its_end, range(4))) == {"running"}


def test_what_is_gone_is_502_and_says_so(e2b):
    box = create(e2b)
    port = envd(e2b, box, "GET", "/", port="3000")
    assert (port.status, port.json["port"]) == (502, 3000)
    assert control(e2b, "DELETE", "/sandboxes/" + box["sandboxID"]).status == 204
    gone = envd(e2b, box, "GET", "/health")
    assert gone.status == 502
    assert gone.json == {"sandboxId": box["sandboxID"], "message": "The sandbox was not found",
                         "code": 502}
    big = envd(e2b, box, "POST", "/files?path=x", b"x" * 300000)
    assert big.status == 502


def test_a_lease_of_seconds_ends_it(e2b):
    box = create(e2b, timeout=4)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        stream(e2b, box, "process.Process/Start", {"process": {"cmd": "sleep", "args": ["100"]}})
    assert envd(e2b, box, "GET", "/health").status == 502
    assert control(e2b, "GET", "/v2/sandboxes").json == []


def test_a_stream_is_cut_when_its_sandbox_is_killed(e2b):
    box = create(e2b)
    c = http.client.HTTPConnection("127.0.0.1", e2b.port, timeout=60)
    c.request("POST", "/process.Process/Start", frame({"process": {"cmd": "sleep", "args": ["99"]}}),
              {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": ENVD,
               "X-Access-Token": box["envdAccessToken"],
               "Content-Type": "application/connect+json"})
    r = c.getresponse()
    head = r.read(5)
    assert "start" in json.loads(r.read(struct.unpack(">BI", head)[1]))["event"]
    control(e2b, "DELETE", "/sandboxes/" + box["sandboxID"])
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        r.read()


@pytest.mark.parametrize("field, value", [
    ("autoPauseMemory", False),
    ("mcp", {"x": {}}), ("iam", {"tokens": {"a": {}}}),
    ("network", {"rules": {"a": []}}), ("network", {"egressProxy": {"address": "a:1"}}),
    ("network", {"httpsPorts": [443]}), ("somethingNew", 1),
])
def test_a_field_that_is_not_honoured_is_refused_by_its_name(e2b, field, value):
    answer = control(e2b, "POST", "/sandboxes", {"templateID": "base", field: value})
    name = field if field != "network" else "network." + next(iter(value))
    assert answer.json == {"code": 400, "message": "'%s' is not supported by this server" % name}


def test_what_is_kept_of_a_caller_s_words_is_bounded(e2b):
    long = {"k": "x" * (64 << 10)}
    for field in ("metadata", "envVars"):
        answer = control(e2b, "POST", "/sandboxes", {"templateID": "base", field: long})
        assert answer.json == {"code": 400, "message": "'%s' is not at most 64 KiB of text" % field}
    box = create(e2b)
    answer = rpc(e2b, box, "filesystem.Filesystem/Stat", {"path": "x" * 4096})
    assert answer.json == {"code": "invalid_argument", "message": "the path is too long"}
    stream(e2b, box, "process.Process/Start",
           {"process": {"cmd": "/bin/true", "args": ["x" * 20000], "more": "y" * 20000}})


@pytest.mark.parametrize("name, message", [("args", "'args' is not a list"),
                                           ("envs", "'envs' is not an object"),
                                           ("cwd", "'cwd' is not a text")])
def test_what_is_kept_of_a_program_is_what_was_understood(e2b, name, message):
    """30 MiB under each of these were kept with the program, for half a minute after its end."""
    value = [1] if name != "args" else "x"
    said = stream(e2b, create(e2b), "process.Process/Start",
                  {"process": {"cmd": "/bin/true", name: value}})
    assert said == [(2, {"error": {"code": "invalid_argument", "message": message}})]


def test_many_short_words_are_not_kept_either(e2b):
    box = create(e2b)
    stream(e2b, box, "process.Process/Start",
           {"process": {"cmd": "/bin/sh", "args": ["-c", "sleep 60 >/dev/null 2>&1 & exit 0"]}})
    c = http.client.HTTPConnection("127.0.0.1", e2b.port, timeout=60)
    c.request("POST", "/process.Process/Start", frame(
        {"process": {"cmd": "/bin/sh", "args": ["-c", "read x"] + [""] * 4000}}), {
            "E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": ENVD,
            "X-Access-Token": box["envdAccessToken"],
            "Content-Type": "application/connect+json"})
    c.getresponse().read(5)  # it has begun
    listed = rpc(e2b, box, "process.Process/List", {}).json["processes"]
    assert [p["config"] for p in listed] == [{"cmd": "/bin/sh"}]
    c.close()


def test_sandboxes_that_end_by_themselves_are_given_back(e2b):
    """Each left a descriptor and 180 KiB behind, until somebody listed."""
    def descriptors():
        return len(os.listdir("/proc/%d/fd" % e2b.process.pid))

    def create_and_wait():
        short = create(e2b, timeout=1)
        assert wait_until(lambda: envd(e2b, short, "GET", "/health").status == 502)
    create_and_wait()
    before = descriptors()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: create_and_wait(), range(48)))
    create_and_wait()
    create_and_wait()
    assert wait_until(lambda: descriptors() <= before + 24)  # 16 of a caller's are kept whole


def test_details_say_that_there_is_no_network():
    with E2b(policy={}, serve={"e2b_domain": None}) as e2b:
        box = create(e2b, allow_internet_access=True)
        info = control(e2b, "GET", "/sandboxes/" + box["sandboxID"]).json
        assert info["allowInternetAccess"] is False
        assert info["domain"] is None


def test_details_say_that_the_operator_gave_a_network():
    with E2b(defaults={"network": "gate", "allow": ["a.example"]},
             policy={"networks": ["none", "gate"], "allow": ["a.example"]}) as e2b:
        box = create(e2b)
        at = "/sandboxes/" + box["sandboxID"]
        assert control(e2b, "GET", at).json["allowInternetAccess"] is True


@pytest.mark.parametrize("method, path", [
    ("POST", "/templates"), ("POST", "/secrets"), ("GET", "/secrets"), ("GET", "/teams"),
])
def test_a_call_that_is_not_done_says_so(e2b, method, path):
    answer = control(e2b, method, path, {} if method != "GET" else None)
    assert (answer.status, answer.json["code"]) == (501, 501)


def test_a_page_of_another_origin_may_speak_to_a_sandbox_but_not_to_the_control(e2b):
    box = create(e2b)
    asked = {"Origin": "https://a.example", "Access_Control_Request_Method": "POST",
             "Access_Control_Request_Headers": "x-access-token,content-type"}
    answer = send(e2b, "OPTIONS", "/files", E2b_Sandbox_Id=box["sandboxID"], E2b_Sandbox_Port=ENVD,
                  **asked)
    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Access-Control-Allow-Headers"] == "x-access-token,content-type"
    assert send(e2b, "OPTIONS", "/v2/sandboxes", **asked).headers[
        "Access-Control-Allow-Origin"] is None


def test_what_is_no_frame_is_refused_in_the_last_one(e2b):
    box = create(e2b)
    for raw, message in [(b"\0\0\0", "a frame is cut short"),
                         (b"\0\xff\xff\xff\xff{}", "a frame is cut short"),
                         (b"\1\0\0\0\2{}", "compressed frames are not understood"),
                         (frame([1]), "the message is not an object"),
                         (b"", "there is no message")]:
        (flags, last), = stream(e2b, box, "process.Process/Start", raw=raw)
        assert (flags, last["error"]["message"]) == (2, message)


PROTO = "application/proto"


def varint(n):
    return bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])


def part(number, data):
    """A field of protobuf that has a length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def test_a_call_in_protobuf_is_answered_in_it_and_its_error_is_json(e2b):
    box = create(e2b)
    answer = envd(e2b, box, "POST", "/process.Process/List", b"", Content_Type=PROTO)
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, b"", PROTO)
    answer = envd(e2b, box, "POST", "/filesystem.Filesystem/Stat", part(1, b"none"), Content_Type=PROTO)
    assert (answer.status, answer.json["code"]) == (404, "not_found")
    unknown = b"\x78\x01" + part(77, b"x") + b"\xfd\x02abcd" + b"\xf9\x02abcdefgh"
    answer = envd(e2b, box, "POST", "/filesystem.Filesystem/Stat", unknown + part(1, b"."),
                  Content_Type=PROTO)
    assert answer.status == 200 and b"/home/user" in answer.body


@pytest.mark.parametrize("body", [
    b"\x0a", b"\x0a\x05abc", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff" * 30, b"\x08\x01",
    b"\x0f", b"\x0b\x0c", b"\x79abc", part(1, b"\xff\xfe"), b"\x80",
])
def test_what_is_no_protobuf_is_refused(e2b, body):
    answer = envd(e2b, create(e2b), "POST", "/filesystem.Filesystem/Stat", body, Content_Type=PROTO)
    assert (answer.status, answer.json) == (400, {"code": "invalid_argument",
                                                 "message": "the message cannot be read"})


def test_a_list_in_protobuf_is_so_long_and_no_longer(e2b):
    box = create(e2b)
    for many, message in ((4096, "cwd '/no' does not exist"), (8193, "the message cannot be read")):
        start = part(1, part(1, b"true") + many * part(2, b"") + part(4, b"/no"))
        body = struct.pack(">BI", 0, len(start)) + start
        answer = envd(e2b, box, "POST", "/process.Process/Start", body,
                      Content_Type="application/connect+proto")
        assert answer.headers["Content-Type"] == "application/connect+proto"
        (flags, last), = frames(answer.body)
        assert (flags, last["error"]) == (2, {"code": "invalid_argument", "message": message})


def test_another_encoding_is_415_and_an_unknown_method_unimplemented(e2b):
    box = create(e2b)
    answer = envd(e2b, box, "POST", "/process.Process/List", b"", Content_Type="application/grpc")
    assert answer.status == 415
    answer = envd(e2b, box, "POST", "/process.Process/Nothing", b"", Content_Type=PROTO)
    assert (answer.status, answer.json["code"]) == (501, "unimplemented")
    once = rpc(e2b, box, "process.Process/Nothing", {})
    assert (once.status, once.json["code"]) == (501, "unimplemented")
    (flags, last), = stream(e2b, box, "filesystem.Filesystem/Nothing", {})
    assert (flags, last["error"]["code"]) == (2, "unimplemented")


def test_input_comes_in_frames_too(e2b):
    box = create(e2b)
    c = http.client.HTTPConnection("127.0.0.1", e2b.port, timeout=60)
    c.request("POST", "/process.Process/Start", frame({"process": {"cmd": "cat"}, "tag": "me"}),
              {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": ENVD,
               "X-Access-Token": box["envdAccessToken"], "Content-Type": "application/connect+json"})
    r = c.getresponse()
    who = {"process": {"tag": "me"}}
    sent = stream(e2b, box, "process.Process/StreamInput", {"start": who},
                  {"data": {"input": {"stdin": base64.b64encode(b"one ").decode()}}}, {"keepalive": {}},
                  {"data": {"input": {"stdin": base64.b64encode(b"two").decode()}}})
    assert sent == [(0, {}), (2, {})]
    assert rpc(e2b, box, "process.Process/CloseStdin", who).json == {}
    said = [m for _, m in frames(r.read())]
    out = b"".join(base64.b64decode(m["event"]["data"]["stdout"]) for m in said
                   if "data" in m.get("event", {}))
    assert out == b"one two"
    assert said[-2]["event"]["end"] == {"exitCode": 0, "exited": True, "status": "exit status 0"}


def test_a_quiet_stream_is_kept_alive(e2b):
    box = create(e2b)
    said = stream(e2b, box, "process.Process/Start",
                  {"process": {"cmd": "sleep", "args": ["2.5"]}}, Keepalive_Ping_Interval="1")
    assert {"event": {"keepalive": {}}} in [m for _, m in said]


def test_a_command_whose_time_is_over_is_killed(e2b):
    box = create(e2b)
    said = stream(e2b, box, "process.Process/Start", {"process": {"cmd": "sleep", "args": ["77"]}},
                  Connect_Timeout_Ms="300")
    assert said[-1][1]["error"]["code"] == "deadline_exceeded"
    assert run(e2b, box, "ps ax -o args= | grep -c '^sleep 7[7]'; true") == "0\n"


def test_watchers_can_be_fetched_from(e2b):
    box = create(e2b)
    service = "filesystem.Filesystem/"
    made = rpc(e2b, box, service + "CreateWatcher", {"path": ".", "includeEntry": True}).json
    run(e2b, box, "echo x > seen")
    events = []
    while not any(e["type"] == "EVENT_TYPE_WRITE" for e in events):
        events += rpc(e2b, box, service + "GetWatcherEvents", made).json["events"]
    assert events[0]["name"] == "seen" and events[0]["type"] == "EVENT_TYPE_CREATE"
    assert events[0]["entry"]["path"] == "/home/user/seen"
    assert rpc(e2b, box, service + "RemoveWatcher", made).json == {}
    again = rpc(e2b, box, service + "GetWatcherEvents", made)
    assert (again.status, again.json["code"]) == (404, "not_found")


def test_watchers_are_so_many_and_no_more(e2b):
    box = create(e2b)
    for _ in range(8):
        assert rpc(e2b, box, "filesystem.Filesystem/CreateWatcher", {"path": "."}).status == 200
    more = rpc(e2b, box, "filesystem.Filesystem/CreateWatcher", {"path": "."})
    assert (more.status, more.json["code"]) == (429, "resource_exhausted")


def form(*parts):
    body = b""
    for name, filename, data in parts:
        body += b'--B\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n' % (
            name.encode(), filename.encode(), data)
    return body + b"--B--\r\n"


def upload(e2b, box, body, path=None, kind="multipart/form-data; boundary=B", **more):
    return envd(e2b, box, "POST", "/files" + ("?path=" + path if path else ""), body,
                Content_Type=kind, **more)


def test_a_form_brings_files_with_their_directories(e2b):
    box = create(e2b)
    made = upload(e2b, box, form(("file", "a/b", b"1\r\n-B not"), ("other", "c", b"2"),
                                 ("file", "/home/user/d", b"")))
    assert [f["path"] for f in made.json] == ["/home/user/a/b", "/home/user/d"]
    assert run(e2b, box, "ls; od -An -c a/b").split() == [
        "a", "d", "1", "\\r", "\\n", "-", "B", "n", "o", "t"]


@pytest.mark.parametrize("body, path, kind, message", [
    (form(("file", "a", b"1"), ("file", "./a", b"2")), None, None,
     "path '/home/user/a' comes twice"),
    (b"--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx", "a", None,
     "the form is cut short"),
    (b"x", "a", "text/plain", "send multipart/form-data or application/octet-stream"),
    (b"x", None, "application/octet-stream", "'path' is missing"),
    (b"x", "~root/a", "application/octet-stream", "path '~root/a' is in another user's home"),
    (b"x", ".", "application/octet-stream", "path '/home/user' is a directory"),
])
def test_an_upload_that_makes_no_sense_is_refused(e2b, body, path, kind, message):
    answer = upload(e2b, create(e2b), body, path, kind or "multipart/form-data; boundary=B")
    assert (answer.status, answer.json) == (400, {"code": 400, "message": message})


OCTETS = "application/octet-stream"


def test_a_packed_upload_is_unpacked(e2b):
    box = create(e2b)
    many = b"".join(b"%d\n" % i for i in range(200000))
    twice = gzip.compress(many[:1000]) + gzip.compress(many[1000:])
    for name, packed in (("one", gzip.compress(many)), ("two", twice)):
        made = upload(e2b, box, packed, name, OCTETS, Content_Encoding="gzip")
        assert made.json == [{"path": "/home/user/" + name, "name": name, "type": "file"}]
        assert envd(e2b, box, "GET", "/files?path=" + name).body == many
    made = upload(e2b, box, gzip.compress(form(("file", "a", b"1"))), Content_Encoding="GZIP")
    assert made.status == 200, made.body
    assert upload(e2b, box, gzip.compress(b""), "none", OCTETS, Content_Encoding="gzip").status == 200
    assert run(e2b, box, "cat a; wc -c < none") == "10\n"


@pytest.mark.parametrize("coding, body, message", [
    ("gzip", b"plain", "the body is not gzip, or cut short"),
    ("gzip", b"", "the body is not gzip, or cut short"),
    ("gzip", gzip.compress(b"x" * 1000)[:-1], "the body is not gzip, or cut short"),
    ("gzip", gzip.compress(b"x") + b"more", "the body is not gzip, or cut short"),
    ("gzip", zlib.compress(b"x"), "the body is not gzip, or cut short"),
    ("br", b"x", "Content-Encoding 'br' is not known; send gzip"),
])
def test_what_cannot_be_unpacked_is_refused_and_leaves_nothing(e2b, coding, body, message):
    box = create(e2b)
    answer = upload(e2b, box, body, "f", OCTETS, Content_Encoding=coding)
    assert (answer.status, answer.json) == (400, {"code": 400, "message": message})
    assert run(e2b, box, "ls") == ""


def test_what_unpacks_to_more_than_the_setting_is_413():
    with E2b(serve={"body": "1m"}) as d:
        box = create(d)
        packed = gzip.compress(bytes(64 << 20))
        for _ in range(3):
            answer = upload(d, box, packed, "big", OCTETS, Content_Encoding="gzip")
            assert (answer.status, answer.json["code"]) == (413, 413)
        assert upload(d, box, gzip.compress(bytes(1 << 20)), "fits", OCTETS,
                      Content_Encoding="gzip").status == 200


def test_a_download_is_packed_for_who_asks_for_that_alone(e2b):
    box = create(e2b)
    run(e2b, box, "seq 400000 > f; : > none")
    want = b"".join(b"%d\n" % i for i in range(1, 400001))

    def get(accepted, path="f", method="GET", **more):
        return envd(e2b, box, method, "/files?path=" + path, Accept_Encoding=accepted, **more)
    packed = get("gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(packed.body) < len(want) / 2 and gzip.decompress(packed.body) == want
    for plain in (get("gzip, deflate"), get("identity")):
        assert "Content-Encoding" not in plain.headers and plain.body == want
    part = get("gzip", Range="bytes=0-3")
    assert (part.status, part.body, part.headers["Content-Encoding"]) == (206, want[:4], None)
    assert get("gzip", "none").headers["Content-Length"] == "0"
    assert get("gzip", method="HEAD").headers["Content-Length"] == str(len(want))


def entry(e2b, box, path):
    return rpc(e2b, box, "filesystem.Filesystem/Stat", {"path": path}).json["entry"]


@pytest.mark.parametrize("path", ["f", "/tmp/f"])  # by the guest, and by a process of its own
def test_metadata_are_attributes_that_stay_with_the_file(e2b, path):
    box = create(e2b)
    want = {"owner": "me", "long-key": "a=b c"}
    made = upload(e2b, box, b"x", path, OCTETS, X_Metadata_Owner="me", X_Metadata_Long_Key="a=b c")
    assert made.json[0]["metadata"] == want
    assert entry(e2b, box, path)["metadata"] == want
    look = "import os; print(sorted((k, os.getxattr('%s', k)) for k in os.listxattr('%s')))"
    assert run(e2b, box, 'python3 -c "%s"' % (look % (path, path))) == (
        "[('user.e2b.long-key', b'a=b c'), ('user.e2b.owner', b'me')]\n")
    run(e2b, box, "python3 -c \"import os; os.setxattr('%s', 'user.e2b.inside', b'yes');"
                  "os.setxattr('%s', 'user.other', b'no'); os.setxattr('%s', 'user.e2b.raw', bytes([255]))\""
        % (path, path, path))
    rpc(e2b, box, "filesystem.Filesystem/Move", {"source": path, "destination": path + "2"})
    moved = rpc(e2b, box, "filesystem.Filesystem/ListDir", {"path": os.path.dirname(path) or "."})
    assert [e["metadata"] for e in moved.json["entries"] if e["name"] == "f2"] == [
        {**want, "inside": "yes"}]
    again = upload(e2b, box, b"y", path + "2", OCTETS, X_Metadata_New="1")
    assert again.json[0]["metadata"] == entry(e2b, box, path + "2")["metadata"] == {"new": "1"}
    assert "metadata" not in upload(e2b, box, b"z", path + "2", OCTETS).json[0]
    assert "metadata" not in entry(e2b, box, path + "2")


@pytest.mark.parametrize("headers, message", [
    ({"X_Metadata_A": "1", "x_metadata_a": "2"}, "metadata key 'a' comes twice"),
    ({"X_Metadata_A": "\xe9"}, "the metadata value of 'A' is not printable ASCII"),
    ({"X_Metadata_" + "k" * 247: "1"}, "metadata key '%s' has no characters, a '=', or more than 246"
     % ("k" * 64)),
    ({"X_Metadata_A": "1" * 3100}, "metadata is more than 3072 bytes together"),
    ({"X_Metadata_": "1"}, "metadata key '' has no characters, a '=', or more than 246"),
])
def test_metadata_that_cannot_be_kept_is_refused_by_name(e2b, headers, message):
    box = create(e2b)
    answer = upload(e2b, box, b"x", "f", OCTETS, **headers)
    assert (answer.status, answer.json) == (400, {"code": 400, "message": message})
    assert run(e2b, box, "ls") == ""


def test_attributes_of_many_files_are_told_within_bounds(e2b):
    box = create(e2b)
    run(e2b, box, "python3 -c \"import os\nfor i in range(300):\n open(f'f{i}', 'w').close()\n"
                  " os.setxattr(f'f{i}', 'user.e2b.a', b'x' * 3000)\n"
                  " os.setxattr(f'f{i}', 'user.e2b.b', b'y' * 3000)\"")
    listed = rpc(e2b, box, "filesystem.Filesystem/ListDir", {"path": "."}).json["entries"]
    assert len(listed) == 300
    assert all(sum(map(len, e["metadata"].values())) == 3000 for e in listed)


def test_a_disk_that_is_full_is_507():
    with E2b(defaults={"disk": "1m"}) as d:
        answer = upload(d, create(d), b"x" * (2 << 20), "big", "application/octet-stream")
        assert (answer.status, answer.json["code"]) == (507, 507)


def test_a_body_larger_than_the_setting_is_413():
    with E2b(serve={"body": "1m"}) as d:
        answer = upload(d, create(d), b"", "big", "application/octet-stream",
                        Content_Length=str(1 << 20 | 1))
        assert answer.status == 413


LARGE = 24 << 20


def peak(e2b):
    """The most memory that the daemon has had so far, in bytes."""
    with open("/proc/%d/status" % e2b.process.pid) as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))


@pytest.fixture(scope="module")
def large():
    # Near the boundary in many places, and such that it packs badly.
    unit = b"".join(b"\r\n--B" + hashlib.sha512(b"%d" % i).digest() for i in range(1000))
    return (unit * (LARGE // len(unit) + 1))[:LARGE]


@pytest.fixture
def roomy():
    with E2b(serve={"body": "32m"}, defaults={"disk": "64m", "memory": "512m"}) as d:
        yield d


@pytest.mark.parametrize("way, path", [("bytes", "f"), ("chunks", "/tmp/f"), ("form", "f"), ("gzip", "f")])
def test_a_large_file_goes_in_and_comes_out_and_is_held_nowhere(roomy, large, way, path):
    box = create(roomy)
    assert upload(roomy, box, large[:1 << 20], path, OCTETS).status == 200
    assert envd(roomy, box, "GET", "/files?path=" + path).body == large[:1 << 20]
    before = peak(roomy)
    if way == "form":
        made = upload(roomy, box, form(("other", "x", b"1"), ("file", path, large), ("file", "g", b"2")))
        assert [f["name"] for f in made.json] == ["f", "g"]
    elif way == "gzip":
        made = upload(roomy, box, gzip.compress(large, 1), path, OCTETS, Content_Encoding="gzip")
    else:
        body = (large[i:i + 100000] for i in range(0, LARGE, 100000)) if way == "chunks" else large
        made = upload(roomy, box, body, path, OCTETS)
    assert made.status == 200, made.body
    assert run(roomy, box, "sha256sum < " + path).split()[0] == hashlib.sha256(large).hexdigest()
    got = envd(roomy, box, "GET", "/files?path=" + path)
    assert got.headers["Content-Length"] == str(LARGE)
    assert got.body == large
    assert peak(roomy) - before < LARGE // 2


@pytest.mark.parametrize("kind", ["cut", "large", "full", "unpacked"])
def test_a_large_upload_that_fails_leaves_what_was_there(roomy, large, kind):
    box = create(roomy)
    assert upload(roomy, box, b"before", "f", OCTETS).status == 200
    if kind == "cut":
        answer = upload(roomy, box, form(("file", "f", large))[:-10])
        want = (400, "the form is cut short")
    elif kind == "large":
        answer = upload(roomy, box, (large[:1 << 20] for _ in range(33)), "f", OCTETS)
        want = (413, "the body is too large")
    elif kind == "full":
        assert run(roomy, box, "head -c 50M /dev/zero > fill; echo $?") == "0\n"
        answer = upload(roomy, box, large, "f", OCTETS)
        want = (507, None)
    else:
        answer = upload(roomy, box, gzip.compress(bytes(33 << 20)), "f", OCTETS,
                        Content_Encoding="gzip")
        want = (413, "the body is too large once it is unpacked")
    assert answer.status == want[0], answer.body
    assert want[1] in (None, answer.json["message"])
    assert run(roomy, box, "cat f; ls -A | grep -v fill") == "beforef\n"


def test_who_goes_away_in_a_large_upload_leaves_nothing(roomy, large):
    box = create(roomy)
    c = http.client.HTTPConnection("127.0.0.1", roomy.port, timeout=60)
    c.putrequest("POST", "/files?path=f")
    for name, value in (("E2b-Sandbox-Id", box["sandboxID"]), ("E2b-Sandbox-Port", ENVD),
                        ("X-Access-Token", box["envdAccessToken"]), ("Content-Type", OCTETS),
                        ("Content-Length", str(LARGE))):
        c.putheader(name, value)
    c.endheaders()
    c.send(large[:4 << 20])
    assert wait_until(lambda: run(roomy, box, "ls -A") != "")  # it is on its way
    c.close()
    assert wait_until(lambda: run(roomy, box, "ls -A") == "")


def test_a_path_cannot_climb_out_of_the_vessel(e2b):
    box = create(e2b)
    for path in ("../../../../etc/shadow", "/proc/1/root/etc/shadow", "../../root/x"):
        answer = envd(e2b, box, "GET", "/files?path=" + path)
        assert answer.status in (400, 403, 404), (path, answer.body)
    run(e2b, box, "ln -s /etc/shadow link")
    assert b"root:" not in envd(e2b, box, "GET", "/files?path=link").body


def test_a_file_behind_a_link_is_read_by_pieces_too(e2b):
    box = create(e2b)
    run(e2b, box, "mkdir -p d && seq 400000 > d/f && ln -s d/f link && ln -s d way && "
                  "truncate -s 2G d/holes && ln -s d/holes holes")
    want = "".join("%d\n" % i for i in range(1, 400001)).encode()
    for path in ("link", "way/f", "/home/user/link"):
        answer = envd(e2b, box, "GET", "/files?path=" + path)
        assert answer.status == 200 and answer.body == want, path
        assert answer.headers["Content-Length"] == str(len(want))
    part = envd(e2b, box, "GET", "/files?path=link", Range="bytes=2000000-2000009")
    assert (part.status, part.body) == (206, want[2000000:2000010])
    assert b"mostly holes" in envd(e2b, box, "GET", "/files?path=holes").body
    assert envd(e2b, box, "GET", "/files?path=/proc/self/status").status == 200


def sign(box, path, operation, expires=None):
    text = ":".join([path, operation, "", box["envdAccessToken"]] +
                    ([str(expires)] if expires else []))
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def test_a_signature_holds_for_one_operation_and_until_its_time(e2b):
    from urllib.parse import quote
    box, other = create(e2b), create(e2b, e2b.other_key)
    run(e2b, box, "echo mine > f")

    def get(method, signature, expires=None):
        return send(e2b, method, "/files?path=f&signature=%s%s" % (
            quote(signature, safe=""), "&signature_expiration=%d" % expires if expires else ""))
    assert get("GET", sign(box, "f", "read")).body == b"mine\n"
    assert get("POST", sign(box, "f", "read")).json["message"] == "invalid signature"
    assert get("GET", sign(box, "f", "read", 5), 5).json["message"] == "signature is already expired"
    assert get("GET", sign(other, "f", "read")).status == 404
    assert get("GET", "v1_nothing").json == {"code": 401, "message": "invalid signature"}
    longest = "x" * 4096
    assert send(e2b, "GET", "/files?path=%s&signature=%s" % (
        longest, quote(sign(box, longest, "read"), safe=""))).json["message"] == "invalid signature"


def test_a_file_of_a_guest_is_no_page_of_ours(e2b):
    box = create(e2b)
    run(e2b, box, "echo '<script>1</script>' > p.html")
    answer = envd(e2b, box, "GET", "/files?path=p.html")
    assert answer.headers["Content-Security-Policy"] == "sandbox"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def execute(e2b, box, code, **more):
    answer = envd(e2b, box, "POST", "/execute", {"code": code, **more}, port=PYTHON)
    return answer.status, [json.loads(x) for x in answer.body.splitlines()] \
        if answer.status == 200 else answer.body.decode()


def test_the_lines_of_an_execution_come_in_their_order(e2b):
    box = create(e2b)
    status, lines = execute(e2b, box, 'print("é")\nimport sys\nprint("e", file=sys.stderr)\n7')
    assert status == 200
    assert [x["type"] for x in lines] == ["number_of_executions", "stdout", "stderr", "result",
                                          "end_of_execution"]
    assert lines[1]["text"] == "é\n"
    assert lines[3] == {"type": "result", "is_main_result": True, "text": "7", "extra": {},
                        **{k: v for k, v in lines[3].items() if k == "json"}}


def test_a_table_of_empty_rows_costs_no_more_than_it_has(e2b):
    box = create(e2b)
    show = """
class Table:
    def __init__(self, columns, rows): self.columns, self.rows = columns, rows
    def __len__(self): return len(self.rows)
    def head(self, most): return self
    def itertuples(self, **how): return self.rows
"""
    good = execute(e2b, box, show + "Table(['a', 'b'], [[1, 2], [3, 4]])")[1]
    assert [x["data"] for x in good if x["type"] == "result"] == [{"a": [1, 3], "b": [2, 4]}]
    status, lines = execute(e2b, box, show + "Table(['a'] * 20000, [[]] * 20000)")
    assert status == 200
    assert [x.get("data") for x in lines if x["type"] == "result"] == [None]


def test_an_interpreter_that_dies_is_said_to_have_and_another_takes_its_place(e2b):
    box = create(e2b)
    _, lines = execute(e2b, box, "import os; os._exit(3)")
    assert [x.get("name") for x in lines if x["type"] == "error"] == ["UnexpectedEndOfExecution"]
    assert lines[-1] == {"type": "end_of_execution"}
    assert execute(e2b, box, "1+1")[1][1]["text"] == "2"


def test_what_an_execution_cannot_be_is_refused_in_words(e2b):
    box = create(e2b)
    assert execute(e2b, box, "1", context_id="x") == (404, "Context x not found")
    assert execute(e2b, box, "1", context_id="x", language="python")[0] == 400
    assert execute(e2b, box, "1", language="cobol") == (500, "there is no interpreter of 'cobol'")


def test_variables_of_an_execution_are_few_and_short(e2b):
    """40 MiB of them took 850 MiB, and the interpreter a minute."""
    box = create(e2b)
    for given, message in [({"a": "x" * (64 << 10)}, "'env_vars' is not at most 64 KiB of text"),
                           ({"a": 1}, "'env_vars' is not an object of texts"),
                           ([], "'env_vars' is not an object of at most 256 texts")]:
        assert execute(e2b, box, "1", env_vars=given) == (400, message)
    assert execute(e2b, box, "import os; os.environ['a']", env_vars={"a": "b"})[1][1]["text"] == "b"


def test_a_list_is_asked_for_by_so_many_words_and_no_more(e2b):
    asked = "%26".join("k%d%%3Dv" % i for i in range(257))
    answer = control(e2b, "GET", "/v2/sandboxes?metadata=" + asked)
    assert answer.json == {"code": 400, "message": "'metadata' has more than 256 names"}


def test_contexts_are_so_many_and_no_more():
    with E2b(defaults={"memory": "2g", "pids": 1000}) as d:
        box = create(d)
        for _ in range(14):
            assert envd(d, box, "POST", "/contexts", {}, port=PYTHON).status == 200
        assert envd(d, box, "POST", "/contexts", {}, port=PYTHON).status == 429


def test_a_caller_with_a_quota_of_programs_gets_no_more(e2b):
    with E2b(serve={"caller_runs_per_minute": 3}) as d:
        box = create(d)
        said = [stream(d, box, "process.Process/Start", {"process": {"cmd": "true"}})
                for _ in range(3)]
        assert said[-1][-1][1]["error"]["code"] == "resource_exhausted"


def test_metrics_are_what_the_sandbox_uses(e2b):
    box = create(e2b)
    at = "/sandboxes/%s/metrics" % box["sandboxID"]
    (before,) = control(e2b, "GET", at).json
    run(e2b, box, "head -c 30000000 /dev/zero > big; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
    after = wait_until(lambda: (len(control(e2b, "GET", at).json) > 1 and
                                control(e2b, "GET", at).json[-1]))
    assert after["diskUsed"] - before["diskUsed"] >= 30000000
    assert after["diskTotal"] >= after["diskUsed"]
    assert after["memUsed"] - before["memUsed"] >= 20000000
    assert after["memTotal"] >= after["memUsed"] > 0 and after["cpuUsedPct"] > 0
    assert after["timestampUnix"] >= before["timestampUnix"]
    assert control(e2b, "GET", at + "?end=5").json == []
    assert control(e2b, "GET", at + "?start=x").status == 400
    both = "/sandboxes/metrics?sandbox_ids=%s,inone" % box["sandboxID"]
    assert list(control(e2b, "GET", both).json["sandboxes"]) == [box["sandboxID"]]
    assert control(e2b, "GET", both, None, e2b.other_key).json == {"sandboxes": {}}


def test_pages_and_their_tokens(e2b):
    made = [create(e2b)["sandboxID"] for _ in range(3)]
    first = control(e2b, "GET", "/v2/sandboxes?limit=2")
    assert [b["sandboxID"] for b in first.json] != []
    token = first.headers["X-Next-Token"]
    second = control(e2b, "GET", "/v2/sandboxes?limit=2&nextToken=" + token)
    assert second.headers["X-Next-Token"] is None
    assert sorted(b["sandboxID"] for b in first.json + second.json) == sorted(made)
    for query in ("limit=0", "limit=101", "limit=x", "nextToken=broken", "startedAfter=yesterday"):
        assert control(e2b, "GET", "/v2/sandboxes?" + query).status == 400, query
    assert control(e2b, "GET", "/v2/sandboxes?startedAfter=2999-01-01T00:00:00Z").json == []
    assert control(e2b, "GET", "/v2/sandboxes?template=none").json == []


def test_a_prefix_may_stand_before_every_path(e2b):
    made = control(e2b, "POST", "/e2b/v2/sandboxes", {"templateID": "base:default"})
    assert made.status == 201
