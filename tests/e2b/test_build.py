# SPDX-License-Identifier: Apache-2.0
"""Templates that clients build: by E2B's own package, and by one who means no good."""
import gzip
import io
import os
import tarfile
import urllib.parse

import pytest

from conftest import wait_until
from test_saved import daemon, kill, make
from test_wire import control, run, send

HASH = "ab" * 32


@pytest.fixture(scope="module")
def rooted(world):
    with daemon(world, defaults={"sudo": "nopasswd", "memory": "1g", "disk": "64m"}) as d:
        yield d
        forget(d)


def forget(d):
    for key in (d.key, d.other_key):
        for t in control(d, "GET", "/templates", None, key).json:
            assert control(d, "DELETE", "/templates/" + t["templateID"], None, key).status == 204


def request(d, name="mine", key=None, **more):
    return control(d, "POST", "/v3/templates", {"name": name, **more}, key)


def link(d, build, files_hash=HASH, key=None):
    return control(d, "GET", "/templates/%s/files/%s" % (build["templateID"], files_hash), None, key)


def bring(d, url, body):
    parts = urllib.parse.urlsplit(url)
    assert parts.netloc == "127.0.0.1:%d" % d.port
    return send(d, "PUT", parts.path + "?" + parts.query, body)


def start(d, build, *steps, key=None, **more):
    return control(d, "POST", "/v2/templates/%s/builds/%s" % (build["templateID"], build["buildID"]),
                   {"fromImage": "debian", "steps": list(steps), **more}, key)


def status(d, build, key=None, offset=0):
    return control(d, "GET", "/templates/%s/builds/%s/status?logsOffset=%d" %
                   (build["templateID"], build["buildID"], offset), None, key)


def ended(d, build):
    def over():
        told = status(d, build).json
        return told if told["status"] in ("ready", "error") else None
    return wait_until(over, 120)


def step(kind, *args, **more):
    return {"type": kind, "args": list(args), **more}


def copy(source, to, *more):
    return step("COPY", source, to, *more, filesHash=HASH, force=False, gzip=True)


def build(d, *steps, name="mine", archive=None, **more):
    asked = request(d, name)
    assert asked.status == 202, asked.body
    if archive is not None:
        assert bring(d, link(d, asked.json).json["url"], archive).status == 200
    begun = start(d, asked.json, *steps, **more)
    assert begun.status == 202, begun.body
    return ended(d, asked.json)


def tar(*members, packed=True):
    """Of (name, content), (name, ("link", target)) and (name, None), a directory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, what in members:
            info = tarfile.TarInfo(name)
            if isinstance(what, tuple):
                info.type = tarfile.SYMTYPE if what[0] == "link" else tarfile.LNKTYPE
                info.linkname = what[1]
            elif what is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            else:
                info.size = len(what)
            t.addfile(info, io.BytesIO(what) if isinstance(what, bytes) else None)
    return gzip.compress(out.getvalue()) if packed else out.getvalue()


def test_e2b_s_own_package_builds_templates(node, rooted):
    told = {row["what"]: row["value"] for row in node.run("build.mjs", rooted)}
    forget(rooted)
    assert told == {
        "info": ["all:v1", "all", ["v1", "stable"]], "logged": True,
        "tree": ".:\n.hidden\ndeep\nlink\nmain.py\n\ndeep:\ndata.txt\nmain.py\nmain",
        "owners": "user 755 app\nuser 644 app/main.py\nroot 600 /opt/own/one.txt\n"
                  "user 755 /srv/site/sub\nuser 644 /srv/site/here",
        "many": "one.txt\nnone",
        "env": 'it\'s "a" /home/user|it\'s "a" /home/user b\n/home/user\nuser\nroot\n/root\n'
               "/srv/site\nroot",
        "links": "700\nmade", "left": "nothing", "no env": "<>",
        "exists": [True, False, False],
        "tags": [["v1", True, True], ["stable", True, True]],
        "live": [["live", "other"], 4, "user\n"],
        "assign": "TemplateError: 400: the tag ':x' is not of letters a-z, digits, '-', '_' and '.', 48 at most",
        "unassign some": told["unassign some"], "unassign": ["nothing", False, True],
        "onto": ["ready", 'print("main")\n'],
        "exit": ["BuildError: failed to run command 'echo no >&2; exit 7': exit status 7", True],
        "who": ["BuildError: failed to run command 'whoami': command failed: unauthenticated: "
                "invalid username: 'root123'", True],
        "missing": told["missing"], "start": told["start"], "registry": told["registry"],
        "no template": ["BuildError: 404: template 'nothing-of-the-kind' not found", True],
        "name": told["name"], "operator": "BuildError: 403: template 'deb' is the operator's",
        "failed is none": False, "dockerfile": "Error: oney\nroot\n"}
    assert told["missing"][0].startswith("BuildError: ") and "no-such-image" in told["missing"][0]
    assert told["unassign some"].startswith("TemplateError: 501: build '")
    assert told["start"][0].startswith("BuildError: 400: 'startCmd' is not supported")
    assert told["registry"][0].startswith("BuildError: 400: 'fromImageRegistry' is not supported")
    assert told["name"].startswith("BuildError: 400: the name 'Upper' is not of letters")


def test_a_log_comes_in_pages_and_has_an_end(rooted):
    told = build(rooted, step("RUN", "seq 250; yes a-long-line-of-a-program | head -c 2000000"))
    assert told["status"] == "ready" and len(told["logEntries"]) == 100
    lines, offset = [], 0
    while page := status(rooted, told, offset=offset).json["logEntries"]:
        assert len(page) <= 100
        lines += [entry["message"] for entry in page]
        offset += len(page)
    assert lines[1:251] == [str(i) for i in range(1, 251)]
    assert lines[-1] == "what is printed from here on is not kept"
    assert sum(map(len, lines)) < 300_000


def test_a_build_takes_the_place_of_what_its_names_meant(rooted):
    first = build(rooted, step("RUN", "echo 1 > n"), name="again")
    second = build(rooted, step("RUN", "echo 2 > n"), name="again")
    box = make(rooted, "again")
    assert run(rooted, box, "cat n") == "2\n"
    kill(rooted, box)
    third = build(rooted, step("RUN", "true"), name="again")
    tags = control(rooted, "GET", "/templates/again/tags").json
    assert [t["buildID"] for t in tags] == [third["buildID"]]
    listed, = [t for t in control(rooted, "GET", "/templates").json if t["templateID"] == "again"]
    assert (listed["buildID"], listed["names"], listed["buildCount"]) == (third["buildID"], ["again"], 2)
    assert len({b["buildID"] for b in (first, second, third)}) == 3
    assert control(rooted, "DELETE", "/templates/again").status == 204
    assert control(rooted, "GET", "/templates/aliases/again").status == 404


def test_an_archive_reaches_nothing_but_its_sandbox(rooted):
    """Its names and links lead where a program of the sandbox could go, and no further."""
    marked = "/tmp/e2b-escaped-%d" % os.getpid()
    up = "../" * 12
    archive = tar(("d", None), ("d/f", b"good"), (up + marked[1:], b"out"), (marked, b"out"),
                  ("d/etc", ("link", "/etc")), ("d/etc/passwd-of-mine", b"through a link"),
                  ("d/hard", ("hard", up + "etc/hostname")))
    told = build(rooted, copy("d", "/opt/d"), name="hostile", archive=archive)
    assert not os.path.exists(marked) and not os.path.exists("/etc/passwd-of-mine")
    if told["status"] == "ready":
        box = make(rooted, "hostile")
        assert run(rooted, box, "cat /opt/d/f") == "good"
        kill(rooted, box)
    else:
        assert told["reason"]["step"] == "1"


@pytest.mark.parametrize("archive, why", [
    (b"no archive at all" * 100, "failed to copy 'd'"),
    (tar(("d/f", b"x" * 4096))[:40], "failed to copy 'd'"),
    (b"", "failed to copy 'd'"),
    (tar(("other", b"x")), "'d' is not among its files"),
])
def test_an_archive_that_is_none_fails_its_step(rooted, archive, why):
    told = build(rooted, copy("d", "d"), archive=archive)
    assert (told["status"], told["reason"]["step"]) == ("error", "1")
    assert why in told["reason"]["message"]


def test_a_bomb_fills_its_own_disk_and_nothing_else(rooted):
    told = build(rooted, copy("big", "big"), name="bomb", archive=tar(("big", bytes(200 << 20))))
    assert (told["status"], told["reason"]["step"]) == ("error", "1")
    assert told["reason"]["message"].startswith("failed to copy 'big'")
    assert build(rooted, step("RUN", "true"), name="after")["status"] == "ready"


def test_plain_archives_and_all_forms_of_places(rooted):
    archive = tar(("a", None), ("a/x", b"x"), ("a/b", None), ("a/b/y", b"y"), packed=False)
    told = build(rooted, step("WORKDIR", "/w"), step("RUN", "mkdir t; echo old > t/old"),
                 copy("./a/b/../*", "t"), copy("a/x", "t/as"), copy("a/x", "into/"),
                 copy(".", "/all"), copy("a", "-n"), name="forms", archive=archive)
    assert told["status"] == "ready", told["reason"]
    box = make(rooted, "forms")
    assert run(rooted, box, "cd /w; find . /all -type f | sort") == "".join(p + "\n" for p in sorted(
        ["./t/old", "./t/x", "./t/b/y", "./t/as", "./into/x", "/all/a/x", "/all/a/b/y", "./-n/x", "./-n/b/y"]))
    kill(rooted, box)


@pytest.mark.parametrize("steps, why", [
    ("x", "'steps' is not a list"),
    ([1], "step 1: it is not an object"),
    ([step("ADD", "a", "b")], "'ADD' is not supported"),
    ([step("RUN")], "too few arguments"),
    ([step("RUN", 1)], "not all texts"),
    ([step("ENV", "A")], "too few arguments"),
    ([step("ENV", "A", "b", "C")], "a variable has no value"),
    ([step("ENV", "A;id", "b")], "a variable's name is none"),
    ([step("COPY", "a", "b")], "'filesHash' is not a hash"),
    ([step("COPY", "../a", "b", filesHash=HASH)], "its source leads out"),
    ([step("COPY", "/a", "b", filesHash=HASH)], "its source leads out"),
    ([step("COPY", "a", "b", "", "u+s", filesHash=HASH)], "its mode is not octal"),
    ([step("COPY", "a", "b", "$(id)", filesHash=HASH)], "its owner is none"),
    ([step("COPY", "a", "b", filesHash=HASH)], "were not uploaded"),
    ([step("RUN", "true", x=1)], "'x' is not supported"),
    ([step("RUN", "true")] * 129, "more than 128 steps"),
])
def test_steps_that_are_none_are_refused_before_any_is_run(rooted, steps, why):
    asked = request(rooted).json
    answer = start(rooted, asked, steps=steps)
    assert (answer.status, why in answer.json["message"]) == (400, True), answer.body
    assert status(rooted, asked).json["status"] == "waiting"


@pytest.mark.parametrize("body, code", [
    ({}, 400), ({"name": ""}, 400), ({"name": "a b"}, 400), ({"name": "x" * 49}, 400),
    ({"name": "a", "tags": "b"}, 400), ({"name": "a", "tags": [1]}, 400), ({"name": "a:B"}, 400),
    ({"name": "a", "tags": [":x"]}, 400), ({"name": "a", "tags": list("abcdefghi")}, 400),
    ({"name": "a" * 40, "tags": ["b" * 48, "c" * 48]}, 400),
    ({"name": "a", "cpuCount": 0}, 400), ({"name": "a", "memoryMB": "1"}, 400),
    ({"name": "a", "minFreeDiskMb": 10}, 400), ({"name": "deb"}, 403), ({"name": "base:v2"}, 403),
])
def test_a_template_that_is_none_is_refused(rooted, body, code):
    answer = control(rooted, "POST", "/v3/templates", body)
    assert (answer.status, answer.json["code"]) == (code, code)


def test_nobody_else_s_build_can_be_seen_or_fed(rooted):
    asked = request(rooted, "secret").json
    url = link(rooted, asked).json["url"]
    assert link(rooted, asked, key=rooted.other_key).status == 404
    assert start(rooted, asked, key=rooted.other_key).status == 404
    assert status(rooted, asked, key=rooted.other_key).status == 404
    assert control(rooted, "GET", "/templates/secret/tags", None, rooted.other_key).status == 404
    for wrong in (url[:-1], url[:-1] + "g", url.split("=")[0] + "="):
        answer = bring(rooted, wrong, b"x")
        assert (answer.status, answer.json["code"]) == (403, 403)
    assert link(rooted, asked).json["present"] is False
    assert bring(rooted, url, tar(("f", b"1"))).status == 200
    assert link(rooted, asked).json["present"] is True
    assert start(rooted, asked, step("RUN", "sleep 2")).status == 202
    assert start(rooted, asked).status == 409
    assert bring(rooted, url, b"later").status in (403, 409)
    assert ended(rooted, asked)["status"] == "ready"
    assert bring(rooted, url, b"later").status == 403
    assert control(rooted, "POST", "/v2/sandboxes", {"templateID": "secret"},
                   rooted.other_key).status == 404


def test_one_caller_leaves_places_for_others_archives(world):
    """Each is a descriptor of the front's, however small."""
    with daemon(world) as d:
        told = []
        for name in ("a", "b", "c"):
            asked = request(d, name).json
            for i in range(100):
                url = link(d, asked, "%064x" % i).json["url"]
                told.append(bring(d, url, b"").status)
        assert told[:200] == [200] * 200 and told[-1] == 429
        url = link(d, request(d, "theirs", d.other_key).json, key=d.other_key).json["url"]
        assert bring(d, url, b"x").status == 200


def test_a_build_is_no_sandbox_that_anybody_finds(rooted):
    asked = request(rooted, "hidden").json
    assert start(rooted, asked, step("RUN", "echo begun; sleep 3")).status == 202
    wait_until(lambda: any(e["message"] == "begun" for e in status(rooted, asked).json["logEntries"]))
    assert control(rooted, "GET", "/v2/sandboxes").json == []
    assert ended(rooted, asked)["status"] == "ready"


def test_a_template_has_the_size_that_it_was_built_for(rooted):
    asked = request(rooted, "small", cpuCount=1, memoryMB=256).json
    assert start(rooted, asked).status == 202
    assert ended(rooted, asked)["status"] == "ready"
    box = make(rooted, "small")
    info = control(rooted, "GET", "/sandboxes/" + box["sandboxID"]).json
    assert (info["cpuCount"], info["memoryMB"]) == (1, 256)
    kill(rooted, box)
    more = request(rooted, "large", memoryMB=1 << 20).json
    assert start(rooted, more).status == 202
    assert "memory" in ended(rooted, more)["reason"]["message"]


def test_without_root_the_user_s_own_is_what_can_be_made(world):
    with daemon(world) as d:
        assert build(d, copy("f", "sub/f"), step("WORKDIR", "own"), step("RUN", "id -un > who"),
                     archive=tar(("f", b"1")))["status"] == "ready"
        box = make(d, "mine")
        assert run(d, box, "cat own/who; stat -c %U sub/f") == "user\nuser\n"
        kill(d, box)
        for steps, why in [([step("RUN", "id", "root")], "invalid username: 'root': this server's"),
                           ([step("USER", "root")], "invalid username: 'root'"),
                           ([step("WORKDIR", "/srv/x")], "Permission denied"),
                           ([copy("f", "/opt/f")], "Permission denied"),
                           ([copy("f", "f", "root")], "invalid username: 'root'")]:
            told = build(d, *steps, name="fails", archive=tar(("f", b"1")))
            assert why in told["reason"]["message"], told
        forget(d)


@pytest.mark.parametrize("policy, why", [
    ({"snapshots": ["fork"]}, "snapshot"),
    ({"privileges": ["sudo"]}, "cannot be written to"),
])
def test_who_may_not_save_may_not_build(world, policy, why):
    with daemon(world, policy=policy) as d:
        answer = request(d)
        assert (answer.status, why in answer.json["message"]) == (403, True), answer.body


def test_an_image_that_the_policy_does_not_name_is_no_base(world):
    with daemon(world, policy={"images": ["other", "snapshot/*"]}) as d:
        asked = request(d).json
        assert start(d, asked, step("RUN", "true")).status == 202
        told = ended(d, asked)
        assert told["reason"]["step"] == "base" and "debian" in told["reason"]["message"]


def test_a_key_without_the_scope_builds_nothing(world):
    with daemon(world) as d:
        assert request(d, key=d.add_key("reader", "run")).status == 403


def test_a_daemon_ends_while_something_is_built(world):
    with daemon(world, serve={"drain": "1s"}) as d:
        asked = request(d).json
        assert start(d, asked, step("RUN", "echo begun; sleep 1000")).status == 202
        wait_until(lambda: len(status(d, asked).json["logEntries"]) > 1)
        d.stop()
        d.start()
        assert status(d, asked).status == 404
        assert control(d, "GET", "/templates/aliases/mine").status == 404
