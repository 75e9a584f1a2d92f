# SPDX-License-Identifier: Apache-2.0
"""What clients save: snapshots of sandboxes, and templates that they build. All of it in a daemon
whose front cannot enter the store of images."""
import urllib.parse

import pytest

from conftest import E2b, wait_until
from test_wire import control, create, envd, run, stream, upload


def daemon(world, serve=None, **more):
    templates = ["base", "deb=debian"]
    return E2b(env={"VIAL_IMAGES": str(world.store)},
               serve={"e2b_templates": templates, **(serve or {})}, **more)


@pytest.fixture(scope="module")
def deb(world):
    with daemon(world) as d:
        yield d
        for template in control(d, "GET", "/snapshots").json:
            control(d, "DELETE", "/templates/" + template["snapshotID"])


def make(d, template="deb", key=None, **more):
    return create(d, key, templateID=template, **more)


def snapshot(d, box, **body):
    answer = control(d, "POST", "/sandboxes/%s/snapshots" % box["sandboxID"], body)
    assert answer.status == 201, answer.body
    return answer.json


def kill(d, box):
    assert control(d, "DELETE", "/sandboxes/" + box["sandboxID"]).status == 204


def test_sandboxes_of_a_snapshot_have_its_files_and_outlive_it(deb):
    box = make(deb)
    assert run(deb, box, "echo mine > f; cat f") == "mine\n"
    saved = snapshot(deb, box, name="first")
    assert saved["names"] == ["first"]
    run(deb, box, "echo later > f")
    kill(deb, box)
    boxes = [make(deb, which) for which in (saved["snapshotID"], "first", "first:default")]
    assert [run(deb, b, "cat f") for b in boxes] == ["mine\n"] * 3
    run(deb, boxes[0], "echo own > f")
    assert run(deb, boxes[1], "cat f") == "mine\n"
    again = snapshot(deb, boxes[0])
    assert again["names"] == []
    last = make(deb, again["snapshotID"])
    assert run(deb, last, "cat f") == "own\n"
    for b in boxes + [last]:
        kill(deb, b)


def test_snapshots_are_listed_in_pages_and_deleted(deb):
    box = make(deb)
    ids = [snapshot(deb, box, name=name)["snapshotID"] for name in ("a", "b", "c")]
    only = "sandboxID=" + box["sandboxID"]
    assert [s["names"] for s in control(deb, "GET", "/snapshots?" + only).json] == [["c"], ["b"], ["a"]]
    first = control(deb, "GET", "/snapshots?limit=2&" + only)
    token = first.headers["X-Next-Token"]
    second = control(deb, "GET", "/snapshots?limit=2&%s&nextToken=%s" % (only, token))
    assert second.headers["X-Next-Token"] is None
    assert [s["snapshotID"] for s in first.json + second.json] == ids[::-1]
    assert [s["snapshotID"] for s in control(deb, "GET", "/snapshots?name=b&" + only).json] == [ids[1]]
    for wrong in ("limit=0", "limit=101", "nextToken=x"):
        assert control(deb, "GET", "/snapshots?" + wrong).status == 400
    for s in ids:
        assert control(deb, "DELETE", "/templates/" + s).status == 204
        assert control(deb, "DELETE", "/templates/" + s).status == 404
    assert control(deb, "GET", "/snapshots?" + only).json == []
    gone = control(deb, "POST", "/v2/sandboxes", {"templateID": ids[0]})
    assert (gone.status, gone.json["message"]) == (404, "template '%s' not found" % ids[0])
    kill(deb, box)


def test_nobody_else_s_snapshot_can_be_used_or_seen_or_deleted(deb):
    box = make(deb)
    saved = snapshot(deb, box, name="secret")["snapshotID"]
    at = "/sandboxes/%s/snapshots" % box["sandboxID"]
    assert control(deb, "POST", at, {}, deb.other_key).status == 404
    assert control(deb, "POST", "/sandboxes/%s/fork" % box["sandboxID"], {}, deb.other_key).status == 404
    assert control(deb, "GET", "/snapshots", None, deb.other_key).json == []
    for which in (saved, "secret"):
        body = {"templateID": which}
        assert control(deb, "POST", "/v2/sandboxes", body, deb.other_key).status == 404
        assert control(deb, "DELETE", "/templates/" + which, None, deb.other_key).status == 404
        assert control(deb, "GET", "/templates/aliases/" + which, None, deb.other_key).status == 404
    assert control(deb, "GET", "/templates/aliases/secret").json["templateID"] == "secret"
    assert control(deb, "DELETE", "/templates/" + saved).status == 204
    kill(deb, box)


def test_a_snapshot_is_found_again_by_another_daemon(world):
    with daemon(world) as d:
        saved = snapshot(d, make(d), name="kept")
        d.stop()
        d.start()
        assert control(d, "GET", "/snapshots?name=kept").json == [saved]
        box = make(d, saved["snapshotID"])
        assert run(d, box, "echo up") == "up\n"
        used = control(d, "DELETE", "/templates/kept")
        assert (used.status, used.json["code"]) == (409, 409)
        kill(d, box)
        assert wait_until(lambda: control(d, "DELETE", "/templates/kept").status == 204)


@pytest.mark.parametrize("name", ["A", "a/b", "a__b", "", "x" * 49, 3])
def test_a_name_that_is_none_is_refused(deb, name):
    box = make(deb)
    answer = control(deb, "POST", "/sandboxes/%s/snapshots" % box["sandboxID"], {"name": name})
    assert answer.status == 400 and "name" in answer.json["message"]
    kill(deb, box)


def test_a_sandbox_of_the_host_s_programs_cannot_be_saved_and_says_so(deb):
    box = create(deb)
    for what in ("snapshots", "fork"):
        answer = control(deb, "POST", "/sandboxes/%s/%s" % (box["sandboxID"], what), {})
        assert answer.status == 501
        assert answer.json["message"].startswith("template 'base' is the host's programs")
    kill(deb, box)


def test_forks_have_files_and_tokens_of_their_own(deb):
    box = make(deb, metadata={"of": "fork"}, envVars={"A": "b"})
    run(deb, box, "echo shared > f")
    at = "/sandboxes/%s/fork" % box["sandboxID"]
    made = [f["sandbox"] for f in control(deb, "POST", at, {"count": 2, "timeout": 60}).json]
    assert len({b["sandboxID"] for b in made + [box]}) == 3
    assert len({b["envdAccessToken"] for b in made + [box]}) == 3
    for b in made:
        assert run(deb, b, "cat f; echo $A") == "shared\nb\n"
        info = control(deb, "GET", "/sandboxes/" + b["sandboxID"]).json
        assert (info["metadata"], info["templateID"]) == ({"of": "fork"}, "deb")
        kill(deb, b)
    for body in ({"count": 0}, {"count": 101}, {"timeout": 0}, {"other": 1}):
        assert control(deb, "POST", at, body).status == 400, body
    kill(deb, box)


@pytest.mark.parametrize("more, change", [
    ({"allow_internet_access": False, "network": {"maskRequestHost": "a"}}, None),
    ({"network": {"maskRequestHost": "a"}}, {"allow_internet_access": False}),
    ({}, {"denyOut": ["0.0.0.0/0"]}),
])
def test_a_fork_reaches_no_more_than_its_origin_does_now(deb, more, change):
    """One that had no network by `allow_internet_access` beside `network` had forks with all of it."""
    box = make(deb, **more)
    at = "/sandboxes/" + box["sandboxID"]
    if change:
        assert control(deb, "PUT", at + "/network", change).status == 204
    fork = control(deb, "POST", at + "/fork", {}).json[0]["sandbox"]
    told = [control(deb, "GET", "/sandboxes/" + b["sandboxID"]).json for b in (box, fork)]
    assert [t["allowInternetAccess"] for t in told] == [False, False]
    assert told[0].get("network") == told[1].get("network")
    kill(deb, box)
    kill(deb, fork)


def test_a_sandbox_whose_programs_run_is_not_forked(deb):
    """They would not go on in the fork, which is what E2B's callers are promised."""
    box = make(deb)
    tag = {"process": {"cmd": "sleep", "args": ["100"]}, "tag": "t"}
    import http.client
    from test_wire import frame
    c = http.client.HTTPConnection("127.0.0.1", deb.port, timeout=60)
    c.request("POST", "/process.Process/Start", frame(tag), {
        "E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "49983",
        "X-Access-Token": box["envdAccessToken"], "Content-Type": "application/connect+json"})
    c.getresponse().read(5)
    answer = control(deb, "POST", "/sandboxes/%s/fork" % box["sandboxID"], {})
    assert answer.status == 501 and "has programs" in answer.json["message"]
    c.close()
    kill(deb, box)
