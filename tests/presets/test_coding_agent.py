# SPDX-License-Identifier: Apache-2.0
"""coding-agent: "Docker Sandbox Layer - Internal Design", in the document's order. Its
functions are the tools' names, its codes theirs."""
import base64
import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
import time
import urllib.parse
from pathlib import Path

import pytest
from conftest import BASE, DOCKER, ROOT, VIAL, engine_module, wait_for

BUILD = os.environ.get("VIAL_BUILD", os.path.dirname(VIAL))
GOOD = {"stderr": "", "exitCode": 0, "code": None, "reason": None}
AWAY = "unix:///nonexistent/sock"
EVERYBODY = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done"


class Session:
    def __init__(self, client, name):
        self.client = client
        self.name = name
        self.start = client("startContainer", sessionId=name)
        self.id = self.start.json["containerId"]

    def exec(self, command, **more):
        return self.client("execInContainer", containerId=self.id, command=command, **more)

    def read(self, path):
        return self.client("readFileInContainer", containerId=self.id, path=path)

    def write(self, path, content):
        return self.client("writeFileInContainer", containerId=self.id, path=path,
                           content=content)

    def list(self, *path):
        more = {"path": path[0]} if path else {}
        return self.client("listDirectoryInContainer", containerId=self.id, **more)

    def cleanup(self):
        return self.client("cleanupContainer", containerId=self.id)


@pytest.fixture
def session(mcp):
    return Session(mcp("coding-agent"), "s-one")


# Architecture: startContainer -> execInContainer -> cleanupContainer

def test_the_tools_are_the_documents_functions(mcp):
    tools = mcp("coding-agent").tools()
    assert list(tools) == ["startContainer", "execInContainer", "readFileInContainer",
                           "writeFileInContainer", "listDirectoryInContainer",
                           "cleanupContainer"]
    properties = tools["execInContainer"]["inputSchema"]["properties"]
    assert list(properties) == ["containerId", "command", "timeoutMs"]
    assert properties["timeoutMs"]["default"] == 60000


# Configuration: DOCKER_CONFIG

def test_the_documents_config_is_the_preset(vial):
    plan = vial("--preset", "coding-agent", "plan", "--driver", "docker", "sh", "1").json
    assert plan["image"] == "oven/bun:latest" and plan["workdir"] == "/workspace"
    assert plan["container"]["prefix"] == "coding-agent"
    assert plan["limits"]["wall_ms"] == 60_000


# Start Container

def test_a_session_owns_one_container(mcp, needs_engine, containers):
    """covers: D-01"""
    session = Session(mcp("coding-agent"), "s-own")
    assert not session.start.error and session.start.text == session.id
    [c] = containers("coding-agent-s-own")
    assert c["Name"] == "/coding-agent-s-own" and c["State"]["Running"]
    assert c["Config"]["Image"] == "oven/bun:latest"
    assert session.exec("pwd").json == {"stdout": "/workspace\n", **GOOD}
    session.exec("echo kept > note")
    assert session.exec("cat note").text == "kept\n"
    assert session.cleanup().json == {"done": True}
    assert wait_for(lambda: not containers("coding-agent-s-own"))


def test_without_an_engine_a_session_is_native(session):
    if DOCKER:
        pytest.skip("there is an engine")
    assert session.exec("pwd; echo kept > note; cat note").text == "/workspace\nkept\n"


def test_a_real_project_has_room(session):
    """covers: D-01"""
    made = session.exec("mkdir node_modules && cd node_modules && seq 20000 | xargs touch && "
                        "ls | wc -l && cd .. && head -c 300M /dev/zero > big && "
                        "stat -c %s big && rm big && ulimit -n")
    assert made.json == {"stdout": "20000\n%d\n16384\n" % (300 << 20), **GOOD}, made.text


def add(tar, path, **more):
    """Where the loader looks for it: no directory of its name is a link."""
    name = os.path.realpath(os.path.dirname(path)) + "/" + os.path.basename(path)
    tar.add(path, name, **more)


def bun():
    """The program, which npm brings into the build directory; None on other machines."""
    if platform.machine() != "x86_64":
        return None
    place = Path(BUILD) / "bun"
    package = "@oven/bun-linux-x64-baseline"
    program = place / "node_modules" / package / "bin" / "bun"
    if not program.exists():
        place.mkdir(exist_ok=True)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock",
                        "--prefix", str(place), package], check=True, capture_output=True)
    return program


def put(api, container, path, files):
    """FILES: name to bytes, into a directory of the container."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    api.call("PUT", "/containers/%s/archive?path=%s" % (container, path), data.getvalue(),
             {"Content-Type": "application/x-tar"})


@pytest.fixture(scope="module")
def with_bun(api, tmp_path_factory):
    """oven/bun:latest with what an agent expects to find: bun, node, npm, git."""
    if not api:
        yield None
        return
    packed = tmp_path_factory.mktemp("bun") / "bun.tar"
    programs = ["/usr/bin/node", "/usr/bin/git", "/usr/lib/git-core/git-daemon"]
    npm = os.path.realpath("/usr/bin/npm")
    with tarfile.open(packed, "w") as tar:
        for path in {p for program in programs for p in engine_module.libraries(program)}:
            add(tar, os.path.realpath(path))
            if os.path.islink(path):
                add(tar, path)
        for path in ["/usr/bin/node", "/usr/bin/git", "/usr/lib/git-core",
                     "/usr/share/git-core", "/usr/share/nodejs",
                     os.path.dirname(os.path.dirname(npm)), "/usr/bin/npm"]:
            if os.path.lexists(path):
                add(tar, path)
        if bun():
            tar.add(bun(), "/usr/local/bin/bun")
    made = api.call("POST", "/containers/create", {"Image": BASE, "Cmd": ["true"]})
    try:
        with open(packed, "rb") as f:
            api.call("PUT", "/containers/%s/archive?path=/" % made["Id"], f,
                     {"Content-Type": "application/x-tar"})
        api.call("POST", "/commit?repo=oven/bun&tag=latest&container=" + made["Id"], {})
    finally:
        api.call("DELETE", "/containers/" + made["Id"])
    os.unlink(packed)
    yield api
    api.tag(BASE, "oven/bun:latest")


def package():
    """A package `left`, as a registry has it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in {"package.json": '{"name": "left", "version": "1.0.0", '
                                           '"main": "index.js"}',
                           "index.js": "module.exports = 'from the registry'"}.items():
            info = tarfile.TarInfo("package/" + name)
            info.size, info.mode = len(text), 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


def about_package(tgz, address):
    sha = base64.b64encode(hashlib.sha512(tgz).digest()).decode()
    return json.dumps({"name": "left", "dist-tags": {"latest": "1.0.0"}, "versions": {
        "1.0.0": {"name": "left", "version": "1.0.0", "main": "index.js",
                  "dist": {"tarball": "http://%s:8000/left-1.0.0.tgz" % address,
                           "integrity": "sha512-" + sha}}}}).encode()


@pytest.fixture
def servers(with_bun, tmp_path):
    """Another container with a package registry (port 8000) and a git server; its address."""
    if not with_bun:
        pytest.skip("needs a container engine")
    api, work = with_bun, tmp_path / "work"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(work)]
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], check=True)
    (work / "README").write_text("cloned\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    subprocess.run([*git, "bundle", "create", "-q", str(tmp_path / "b"), "main"], check=True)
    made = api.call("POST", "/containers/create", {
        "Image": "oven/bun:latest", "WorkingDir": "/srv",
        "Cmd": ["sh", "-c", "mkdir -p git/project.git && git clone -q --bare -b main b "
                            "git/project.git && git daemon --export-all --base-path=/srv/git "
                            "/srv/git & exec python3 -m http.server 8000"]})
    try:
        put(api, made["Id"], "/srv", {"b": (tmp_path / "b").read_bytes()})
        api.call("POST", "/containers/%s/start" % made["Id"])
        address = api.inspect(made)["NetworkSettings"]["IPAddress"]
        tgz = package()
        put(api, made["Id"], "/srv", {"left": about_package(tgz, address),
                                      "left-1.0.0.tgz": tgz})
        yield address
    finally:
        api.call("DELETE", "/containers/%s?force=true" % made["Id"])


ANSWERS = ("python3 -c 'import socket,sys; socket.create_connection((sys.argv[1], 8000), 1); "
           "socket.create_connection((sys.argv[1], 9418), 1)' %s")


def test_an_agent_can_work_in_it(mcp, servers):
    """The operator has allowed a network; all else is the preset's own.
    covers: D-01"""
    session = Session(mcp("coding-agent", VIAL_NETWORK="bridge"), "s-work")
    registry = "export NPM_CONFIG_REGISTRY=http://%s:8000/; " % servers
    assert wait_for(lambda: session.exec(ANSWERS % servers).json["exitCode"] == 0)
    done = session.exec("git clone -q git://%s/project.git && cat project/README" % servers)
    assert done.json == {"stdout": "cloned\n", **GOOD}, done.text
    done = session.exec(registry + "mkdir one && cd one && npm init -y >/dev/null && "
                        "npm install left && node -p 'require(\"left\")'")
    assert done.json["exitCode"] == 0, done.text
    assert done.json["stdout"].endswith("from the registry\n")
    if bun():
        done = session.exec(registry + "mkdir two && cd two && bun init -y >/dev/null 2>&1; "
                            "echo '{}' > package.json; bun add left && "
                            "bun -e 'console.log(require(\"left\"))'")
        assert done.json["exitCode"] == 0, done.text
        assert done.json["stdout"].endswith("from the registry\n"), done.text
    # Without the operator's word there is none of it.
    closed = Session(mcp("coding-agent"), "s-closed")
    assert closed.exec("git clone -q git://%s/project.git" % servers).json["exitCode"] != 0


def test_tool_and_page_say_how_long_a_session_lives(mcp):
    told = mcp("coding-agent").tools()["startContainer"]["description"]
    page = (ROOT / "docs/tools/startContainer.md").read_text()
    for text in (told, page):
        assert "30 minutes" in text and "12 hours" in text


# Execute in Container

def test_a_command_gives_both_streams_and_its_exit_code(session):
    """covers: D-02"""
    answer = session.exec("echo out; echo err >&2; exit 9")
    assert answer.json == {**GOOD, "stdout": "out\n", "stderr": "err\n", "exitCode": 9}
    assert answer.text == "out\n[stderr]\nerr\n[exit code: 9]"


def test_a_late_command_is_really_killed(session, api, containers):
    """The container's processes are the engine's to tell. covers: D-02 D-06"""
    answer = session.exec("trap '' TERM; setsid sleep 77 & sleep 78", timeoutMs=300)
    assert answer.json["code"] == "COMMAND_TIMEOUT" and answer.json["exitCode"] is None
    assert answer.text == "COMMAND_TIMEOUT: killed after 0.3 s"
    left = session.exec(EVERYBODY)
    assert "sleep 7" not in left.json["stdout"], left.text
    if api:
        [c] = containers("coding-agent-s-one")
        top = api.call("GET", "/containers/%s/top?ps_args=-eo%%20pid,args" % c["Id"])
        assert "vial-init" in str(top["Processes"]) or "vial" in str(top["Processes"])
        assert "sleep 7" not in str(top["Processes"])


def test_each_stream_is_cut_at_ten_thousand_characters(session):
    """covers: D-04"""
    r = session.exec("head -c 20000 /dev/zero | tr '\\0' x; "
                     "head -c 20000 /dev/zero | tr '\\0' y >&2").json
    assert r["stdout"] == "x" * 10000 + "\n[...truncated at 10000 chars...]"
    assert r["stderr"] == "y" * 10000 + "\n[...truncated at 10000 chars...]"
    assert session.exec("head -c 10000 /dev/zero | tr '\\0' x").json["stdout"] == "x" * 10000
    # Characters, not bytes.
    r = session.exec("python3 -c 'print(\"\u00e9\" * 10001, end=\"\")'").json
    assert r["stdout"] == "\u00e9" * 10000 + "\n[...truncated at 10000 chars...]"


# File Operations

@pytest.mark.parametrize("content", ["plain\n", "", "quotes \" ' ` $(id) ${x} \\ %s\n",
                                     "\u00e9\u4e16\U0001f600\r\n\ttab", "EOF\n'EOF'\n",
                                     "nul \0 in the \0\0 middle", "x" * 9000])
def test_content_survives_byte_for_byte(session, content):
    """covers: D-03"""
    assert session.write("deep/er/file.txt", content).json["exitCode"] == 0
    assert session.read("deep/er/file.txt").json["stdout"] == content
    assert session.exec("wc -c < deep/er/file.txt").text.strip() == str(len(content.encode()))


def test_only_content_may_hold_nul(session):
    answer = session.exec("echo \0")
    assert answer.error and "NUL" in answer.text


def test_paths_are_relative_and_never_leave_the_workdir(session):
    """covers: D-03"""
    session.write("/a.txt", "top")
    assert session.exec("cat /workspace/a.txt").text == "top"
    assert "a.txt" in session.list().text and "a.txt" in session.list("/").text
    for path in ["../etc/passwd", "/../../etc/passwd", "x/../../y", "/workspace/../etc/passwd"]:
        for answer in (session.read(path), session.write(path, "x"), session.list(path)):
            assert answer.error and answer.json["code"] == "EXEC_FAILED"
            assert answer.json["reason"] == "VIAL-PATH"
    session.exec("ln -s /etc/passwd out; ln -s / root")
    assert session.read("out").error and session.read("root/etc/passwd").error


def test_an_absolute_path_of_the_workdir_is_that_file(session):
    """covers: D-03"""
    session.write("/workspace/src/b.txt", "there")
    assert session.exec("cat src/b.txt; test -e workspace || echo none").text == "therenone\n"
    assert session.read("/workspace/src/b.txt").text == "there"
    assert session.list("/workspace/src").text == session.list("src").text
    assert "src" in session.list("/workspace").text
    session.write("workspace/c.txt", "below")
    assert session.exec("cat /workspace/workspace/c.txt").text == "below"


def test_overwriting_keeps_mode_and_owner(session):
    """covers: D-03"""
    session.exec("echo old > run.sh; chmod 750 run.sh")
    before = session.exec("stat -c '%a %u %g' run.sh").text
    assert before.startswith("750 ")
    assert not session.write("run.sh", "#!/bin/sh\necho new\n").error
    assert session.exec("stat -c '%a %u %g' run.sh; ./run.sh").text == before + "new\n"
    session.write("fresh", "x")
    assert session.exec("stat -c %a fresh").text == "644\n"


# Cleanup Container: docker stop -t 10, docker rm -f

def ended(api, container, since):
    """What the engine tells of it, up to its end."""
    query = urllib.parse.quote(json.dumps({"container": [container]}))

    def look():
        text = api.call("GET", "/events?since=%d&until=%d&filters=%s"
                        % (since, int(time.time()) + 1, query))
        lines = text.splitlines() if isinstance(text, str) else [json.dumps(text)]
        return [json.loads(line) for line in lines if line.strip()]
    assert wait_for(lambda: any(e.get("Action") == "destroy" for e in look()))
    return [(e["Action"], e["Actor"]["Attributes"].get("signal")) for e in look()
            if e["Action"] in ("kill", "die", "destroy")]


@pytest.fixture
def saved(place):
    """A directory of the operator's that programs may write to, and the settings."""
    folder = place / "saved"
    folder.mkdir()
    os.chmod(folder, 0o777)
    (place / "c.yaml").write_text("defaults: {mounts: ['%s:/mnt/saved:rw']}\n" % folder)
    return folder


SAVES = ("sh -c 'trap \"echo state > /mnt/saved/state; exit 0\" TERM; echo > /mnt/saved/up; "
         "while :; do sleep 0.1; done' >/dev/null 2>&1 &")


def test_programs_are_asked_to_end_first(mcp, saved, api, containers):
    """The one that saves ends by itself: no second signal. covers: D-05"""
    session = Session(mcp("coding-agent", "--config", str(saved.parent / "c.yaml")), "s-stop")
    assert not session.start.error, session.start.text
    since = int(time.time()) - 1
    found = containers("coding-agent-s-stop")
    session.exec(SAVES)
    assert wait_for((saved / "up").exists)
    assert session.cleanup().json == {"done": True}
    assert (saved / "state").read_text() == "state\n"
    if api:
        assert ended(api, found[0]["Id"], since) == [("kill", "15"), ("die", None),
                                                     ("destroy", None)]


def test_who_does_not_end_is_killed_after_the_grace(mcp, vial, api, containers):
    """covers: D-05"""
    assert vial("--preset", "coding-agent", "plan", "sh", "1").json["stop_ms"] == 10_000
    session = Session(mcp("coding-agent", VIAL_STOP_GRACE="500ms"), "s-stubborn")
    since = int(time.time()) - 1
    found = containers("coding-agent-s-stubborn")
    session.exec("sh -c 'trap \"\" TERM; echo > /tmp/deaf; while :; do sleep 1; done' >/dev/null 2>&1 & "
                 "until [ -e /tmp/deaf ]; do sleep 0.1; done")
    assert session.cleanup().json == {"done": True}
    if api:
        assert ended(api, found[0]["Id"], since) == [
            ("kill", "15"), ("kill", "9"), ("die", None), ("destroy", None)]
    assert not [v for v in vial("ps", "--json").json
                if v.get("session") == "s-stubborn" and not v.get("orphan")]


def test_a_cleanup_that_fails_is_logged_and_not_thrown(session, api, containers):
    """covers: D-05"""
    if api:
        [c] = containers("coding-agent-s-one")
        api.call("DELETE", "/containers/%s?force=true" % c["Id"])
    assert session.cleanup().json == {"done": True}
    session.client.ask("logging/setLevel", {"level": "warning"})
    session.client.unasked.clear()
    never = session.client("cleanupContainer", containerId="s-never")
    assert never.json == {"done": True} and not never.error
    [log] = [m["params"] for m in session.client.unasked
             if m.get("method") == "notifications/message"]
    assert log["level"] == "warning" and "s-never" in log["data"]["message"]
    gone = session.exec("echo no")
    assert gone.error and gone.json["code"] == "EXEC_FAILED"


# Error Handling: CONTAINER_START_FAILED, EXEC_FAILED, COMMAND_TIMEOUT

def test_the_codes_are_explained(vial):
    """With the words of the document's table. covers: D-06"""
    for code, words in [("CONTAINER_START_FAILED", "Container start fails"),
                        ("EXEC_FAILED", "Command exec fails"),
                        ("COMMAND_TIMEOUT", "Command timeout")]:
        told, = vial("errors", "--json", code).json
        assert told["preset"] == "coding-agent" and told["meaning"].startswith(words)
        assert "fix " in vial("errors", code).out


def failed_start(answer, why, reason):
    assert answer.error and answer.json == {
        "containerId": None, "code": "CONTAINER_START_FAILED", "reason": reason}
    first, _, remedy = answer.text.partition("\n")
    assert first.startswith("CONTAINER_START_FAILED: Failed to start container: ")
    assert why in first, answer.text
    assert remedy and "vial " not in remedy, answer.text


def test_each_cause_of_a_failed_start_is_told(mcp):
    """covers: D-06"""
    client = mcp("coding-agent")
    failed_start(client("startContainer", sessionId=""), "'sessionId' is empty", "VIAL-VALUE")
    failed_start(client("startContainer", sessionId="x" * 129),
                 "'sessionId' has 129 bytes, more than 128", "VIAL-VALUE")


def test_an_engine_that_is_away_is_told(mcp, tmp_path):
    """The operator wants Docker and nothing else. covers: D-06"""
    (tmp_path / "c.yaml").write_text("defaults: {driver: docker}\n")
    client = mcp("coding-agent", "--config", str(tmp_path / "c.yaml"), DOCKER_HOST=AWAY)
    answer = client("startContainer", sessionId="s-two")
    failed_start(answer, "/nonexistent/sock", "VIAL-ENGINE-DOWN")
    assert "docker ps" in answer.text
    gone = client("execInContainer", containerId="s-two", command="true")
    assert gone.error and gone.json["code"] == "EXEC_FAILED"
    assert gone.text.endswith("start another container with startContainer")


def test_an_image_that_is_missing_is_told(mcp, needs_engine):
    """covers: D-06"""
    client = mcp("coding-agent", VIAL_IMAGE="oven/nothing:1")
    answer = client("startContainer", sessionId="s-three")
    assert answer.json["reason"] in ("VIAL-IMAGE", "VIAL-PULL")
    failed_start(answer, "oven/nothing:1", answer.json["reason"])


def test_too_many_sessions_are_told(mcp):
    """covers: D-06"""
    if DOCKER:
        pytest.skip("64 containers say no more than 64 native ones")
    client = mcp("coding-agent")
    held = [Session(client, "s-%d" % i) for i in range(64)]
    answer = client("startContainer", sessionId="s-64")
    failed_start(answer, "all 64 are open", "VIAL-BUSY")
    assert "cleanupContainer" in answer.text
    held[0].cleanup()
    assert not client("startContainer", sessionId="s-64").error


def test_what_fails_in_the_container_is_the_agents_to_read(session):
    """Recoverable: the session goes on. covers: D-06"""
    answer = session.read("nope")
    assert answer.error and answer.text.startswith("EXEC_FAILED: ")
    assert "listDirectoryInContainer" in answer.text
    answer = session.exec("true", timeoutMs=100_000_000)
    assert answer.error and answer.json["code"] == "EXEC_FAILED"
    assert session.exec("sleep 30", timeoutMs=100).json["code"] == "COMMAND_TIMEOUT"
    assert session.exec("echo on").text == "on\n"


# Integration Pattern: createSession, updateSessionStatus, finally cleanupContainer

@pytest.fixture
def audited(place):
    """The operator's settings, and what was recorded under them."""
    log = place / "audit"
    (place / "c.yaml").write_text("audit: {path: %s}\n" % log)

    def events():
        lines = [json.loads(line) for f in sorted(place.glob("audit*")) if f.is_file()
                 for line in f.read_text().splitlines() if line.startswith("{")]
        return [(e["event"], e) for e in lines if e.get("event", "").startswith("session.")]
    return str(place / "c.yaml"), events


def check_story(events, label, outcome):
    (one, begin), (two, end) = [e for e in events if e[1].get("label") == label]
    assert (one, two) == ("session.begin", "session.end")
    assert begin["session"] == end["session"] and begin["session"].startswith("s-")
    assert end["outcome"] == outcome
    return end


def test_a_sessions_outcome_is_recorded_under_its_id(mcp, audited):
    """covers: D-07"""
    config, events = audited
    client = mcp("coding-agent", "--config", config)
    session = Session(client, "s-told")
    assert session.exec("echo hi").text == "hi\n"
    session.cleanup()
    assert check_story(events(), "s-told", "completed")["session"] == session.id
    Session(client, "s-left")
    client.close()
    check_story(events(), "s-left", "failed")


def test_a_start_that_fails_is_a_session_that_failed(mcp, audited, place):
    """covers: D-06 D-07"""
    config, events = audited
    Path(config).write_text(Path(config).read_text() + "defaults: {driver: docker}\n")
    client = mcp("coding-agent", "--config", config, DOCKER_HOST=AWAY)
    assert client("startContainer", sessionId="s-bad").error
    end = check_story(events(), "s-bad", "failed")
    assert end["error"]["code"] == "VIAL-ENGINE-DOWN"


def test_whatever_happens_the_container_goes(mcp, containers, vial):
    """covers: D-05 D-07"""
    client = mcp("coding-agent")
    session = Session(client, "s-three")
    session.exec("trap '' TERM; sleep 1000 &")
    pid = client.process.pid
    client.close()
    assert wait_for(lambda: not containers("coding-agent-s-three"))
    assert not [v for v in vial("ps", "--json").json if v.get("owner") == pid]
    killed = mcp("coding-agent")
    Session(killed, "s-four").exec("sleep 1000 &")
    killed.process.kill()
    killed.process.wait()
    assert wait_for(lambda: not containers("coding-agent-s-four"))
