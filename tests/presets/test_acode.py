# SPDX-License-Identifier: Apache-2.0
"""acode, Task 020: the Docker sandbox mode, as its user manual and acceptance criteria
have it. What its tables demand of containers in detail is tested in tests/docker."""
import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest
from conftest import BASE, DOCKER, ROOT, VIAL, engine_module, environment, wait_for

sys.path.insert(0, str(ROOT / "tests" / "serve"))
from daemon import Daemon  # noqa: E402

CONFIG = """# .agent/config.yml
sandbox:
  enabled: true

  defaults:
    cpu_limit: 1
    memory_mb: 512
    network: false

  images:
    dotnet: mcr.microsoft.com/dotnet/sdk:8.0
    node: node:20-alpine
"""


def give_away(*paths):
    """With an engine the repository is an ordinary user's, as containers' programs are; from
    top to bottom, or vial would take it for somebody else's trap."""
    for path in paths if DOCKER else ():
        os.chown(path, 4242, 4242)


@pytest.fixture
def repo(place):
    (place / ".git").mkdir()
    (place / ".agent").mkdir()
    (place / ".agent" / "config.yml").write_text(CONFIG)
    (place / "in.txt").write_text("given\n")
    give_away(place, place / ".git", place / ".agent")
    return place


@pytest.fixture
def acode(vial, repo):
    def call(*args, **more):
        return vial("--preset", "acode", *args, cwd=str(repo), **more)
    return call


@pytest.fixture
def audit(tmp_path):
    """Settings with an audit log, and what is in it by then."""
    class Log:
        config = tmp_path / "audit.yaml"

        def __call__(self, event=None):
            done = subprocess.run([VIAL, "audit", "show", "--json", "--config",
                                   str(self.config)], env=environment(), text=True,
                                  capture_output=True, check=True)
            records = [json.loads(line) for line in done.stdout.splitlines()]
            return [r for r in records if event in (None, r["event"])]
    log = Log()
    log.config.write_text(json.dumps({"audit": {"path": str(tmp_path / "audit.log")}}))
    return log


@pytest.fixture
def state(tmp_path_factory):
    """Where vial keeps what outlives it, of one test; not below the repository."""
    return tmp_path_factory.mktemp("outside") / "state"


@pytest.fixture
def served(api):
    with Daemon(args=["--preset", "acode"], serve={"keeper": "off"},
                env={"DOCKER_HOST": environment()["DOCKER_HOST"]}) as d:
        yield d


@pytest.fixture
def through(acode, served):
    """The same commands, run by a daemon that has the preset."""
    def call(*args, **more):
        words = 2 if args[0] == "sandbox" else 1
        return acode(*args[:words], "--daemon", "--socket", served.socket, *args[words:],
                     **more)
    return call


def test_a_command_runs_with_the_repository_mounted(acode, repo):
    """AC-001 AC-003 AC-006 AC-007; covers: FR-020-03
    covers: FR-020-37"""
    done = acode("sandbox", "exec", "pwd; cat in.txt; echo made > out.txt; exit 7")
    assert (done.out, done.status) == ("/workspace\ngiven\n", 7)
    assert (repo / "out.txt").read_text() == "made\n"


def test_errors_have_the_documents_codes(acode):
    """covers: FR-020-49"""
    def code(*args, **env):
        return acode("run", "--json", *args, "bash", "true", **env).json["preset_code"]
    absent = {"DOCKER_HOST": "unix:///nonexistent/sock"}
    assert code("--driver", "docker", **absent) == "ACODE-SBX-001"
    assert code("--mount", "/etc:/x") == "ACODE-SBX-003"
    assert code("--memory", "100g") == "ACODE-SBX-004"
    done = acode("run", "--mount", "/etc:/x", "bash", "true")
    assert "[ACODE-SBX-003, VIAL-MOUNT]" in done.err


def test_without_docker_it_falls_back_with_a_warning(acode):
    """The first row of the document's failure modes."""
    done = acode("sandbox", "exec", "echo local ok", DOCKER_HOST="unix:///nonexistent/sock")
    assert done.out == "local ok\n" and "warning: no container engine" in done.err
    r = acode("sandbox", "exec", "--json", "echo local ok",
              DOCKER_HOST="unix:///nonexistent/sock").json
    assert (r["driver"], r["wanted_driver"]) == ("native", "docker")


def test_what_was_asked_for_is_never_replaced(acode):
    done = acode("sandbox", "exec", "--driver", "docker", "echo never here",
                 DOCKER_HOST="unix:///nonexistent/sock")
    assert done.status == 125 and not done.out


def test_the_tools_are_the_commands(mcp, repo):
    """covers: FR-020-04 FR-020-06 FR-020-14"""
    client = mcp("acode", cwd=str(repo))
    assert list(client.tools()) == ["sandbox_exec", "sandbox_list", "sandbox_cleanup"]
    answer = client("sandbox_exec", command="cat in.txt; exit 3")
    assert answer.text == "given\n[exit code: 3]" and answer.json["exit_code"] == 3
    assert re.match("[0-9a-f]{64}$" if DOCKER else "acode-[0-9a-f]{12}-",
                    answer.json["container_id"])
    assert isinstance(client("sandbox_list").json["sandboxes"], list)
    assert client("sandbox_cleanup").json["removed"] >= 0
    refused = client("sandbox_exec", command="true", mount_path="/proc")
    assert refused.error and refused.json["code"] == "ACODE-SBX-003"
    assert refused.json["container_id"] is None  # none was made


# Sandbox Interface (FR-020-01 to FR-020-15)


@pytest.fixture
def program(tmp_path):
    """isandbox.c, built with what is installed: the public headers and the library."""
    build = os.path.dirname(VIAL)
    made = tmp_path / "isandbox"
    subprocess.run(["gcc", "-Wall", "-Werror", "-I", str(ROOT / "include"),
                    str(ROOT / "tests" / "presets" / "isandbox.c"), "-o", str(made), "-L", build,
                    "-lvial", "-Wl,-rpath," + build], check=True)
    return made


def test_a_program_uses_the_interface(program, repo, containers):
    """covers: FR-020-01 FR-020-02 FR-020-03 FR-020-04 FR-020-05 FR-020-06 FR-020-07
    covers: FR-020-08 FR-020-11 FR-020-12 FR-020-13 FR-020-15"""
    done = subprocess.run([str(program), str(repo)], capture_output=True, text=True,
                          env=environment(VIAL_SHARE=os.path.dirname(VIAL)), cwd=str(repo),
                          timeout=120, check=False)
    driver = "docker" if DOCKER else "native"
    assert done.stdout.splitlines()[:-1] == [
        "available=1", "stdout=given", "stderr=oops",
        "exit=3 driver=%s container=1 duration=1" % driver,
        "refused=denied code=ACODE-SBX-004", "cancelled=cancelled"], done.stderr
    assert done.stdout.splitlines()[-1].startswith("containers=[")
    assert wait_for(lambda: not containers("acode-"))


STEPS = ["create", "start", "exec", "exit", "remove"]


def steps_of(done):
    lines = [dict(word.split("=", 1) for word in line.split())
             for line in done.out.splitlines()]
    return lines, [line["event"] for line in lines]


def test_operations_are_logged_with_the_callers_id(acode):
    """covers: FR-020-09 NFR-020-48 NFR-020-49"""
    r = acode("sandbox", "exec", "--json", "exit 5", VIAL_REQUEST_ID="job-77").json
    assert r["correlation"] == "job-77"
    lines, events = steps_of(acode("logs", "--steps", "job-77"))
    assert events == STEPS
    assert {(line["request"], line["run"]) for line in lines} == {("job-77", r["id"])}
    assert lines[0]["driver"] == json.dumps("docker" if DOCKER else "native")
    assert lines[1]["vessel"] == lines[4]["vessel"] == json.dumps(r["vessel_id"])
    assert (lines[3]["verdict"], lines[3]["exit_code"]) == ('"nonzero"', "5")
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)


def test_who_gives_no_id_gets_one(acode):
    """covers: FR-020-09"""
    r = acode("sandbox", "exec", "--json", "echo $VIAL_REQUEST_ID").json
    assert r["stdout"] == r["correlation"] + "\n" and r["correlation"].startswith("q-")
    refused = acode("sandbox", "exec", "--json", "--mount", "/etc:/x", "true").json
    lines, events = steps_of(acode("logs", "--steps", refused["correlation"]))
    assert events == ["error"] and lines[0]["code"] == '"VIAL-MOUNT"'


def test_operations_are_logged_by_the_daemon(through, served, audit):
    """covers: FR-020-09 NFR-020-58"""
    r = through("sandbox", "exec", "--json", "exit 5").json
    line = served.lines("run")[-1]
    assert line["request"] == r["correlation"] and line["run"] == r["id"]
    assert (line["vessel"], line["exit_code"]) == (r["vessel_id"], 5)
    assert line["driver"] == ("docker" if DOCKER else "native")
    assert line["open_ms"] > 0 and line["run_ms"] > 0 and line["close_ms"] > 0
    shown = through("logs", r["correlation"], "--json").json
    assert shown["id"] == r["id"]


def counted(text, name):
    return float(dict(line.rsplit(" ", 1) for line in text.splitlines()
                      if not line.startswith("#"))[name])


DURATIONS = ["vial_open_seconds", "vial_run_seconds", "vial_close_seconds"]


def test_metrics_of_operations_are_emitted(acode, state):
    """covers: FR-020-10 NFR-020-50 NFR-020-51 NFR-020-52"""
    for line in ("true", "exit 1", "exit 2"):
        acode("sandbox", "exec", line, VIAL_STATE=str(state))
    acode("sandbox", "exec", "--mount", "/etc:/x", "true", VIAL_STATE=str(state))
    text = acode("metrics", VIAL_STATE=str(state)).out
    assert counted(text, 'vial_runs_total{verdict="nonzero"}') == 2
    assert counted(text, 'vial_runs_total{verdict="denied"}') == 1
    for name in DURATIONS:
        assert counted(text, name + "_count") == 3 and counted(text, name + "_sum") > 0
        assert counted(text, name + '_bucket{le="+Inf"}') == 3


def test_metrics_of_operations_are_emitted_by_the_daemon(through, served):
    """covers: FR-020-10 NFR-020-50 NFR-020-51 NFR-020-52"""
    assert through("sandbox", "exec", "exit 2").status == 2
    text = served.ask("GET", "/metrics").body.decode()
    assert counted(text, 'vial_runs_total{verdict="nonzero"}') == 1
    for name in DURATIONS:
        assert counted(text, name + "_count") == 1 and counted(text, name + "_sum") > 0


# Container Lifecycle (FR-020-16 to FR-020-35)

UP = "echo up; sleep 60"


@pytest.fixture
def start(repo):
    """`sandbox exec` in the background, once its program has said "up"."""
    begun = []

    def go(*args, cwd=None, **env):
        p = subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec", *args],
                             cwd=str(cwd or repo), env=environment(**env), text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        begun.append(p)
        assert p.stdout.readline() == "up\n", p.stderr.read()
        return p
    yield go
    for p in begun:
        if p.poll() is None:
            p.terminate()
        p.communicate()


def happened(engine, container):
    """What the engine did with a container, in its own words."""
    query = urllib.parse.quote(json.dumps({"container": [container]}))
    text = engine.call("GET", "/events?since=0&until=%d&filters=%s"
                       % (time.time() + 1, query))
    lines = [text] if isinstance(text, dict) else map(json.loads, text.splitlines())
    return [e["Action"] for e in lines if e["Type"] == "container"]


def own_image(engine, name):
    """An image that no other name stands for."""
    repo, _, tag = name.rpartition(":")
    made = engine.call("POST", "/containers/create", {"Image": BASE, "Cmd": ["true"]})
    engine.call("POST", "/commit?repo=%s&tag=%s&container=%s&comment=%s"
                % (repo, tag, made["Id"], tag), {})
    engine.call("DELETE", "/containers/" + made["Id"])


def abandoned(engine, name, started=True):
    """A container whose owner has died, as its label has it."""
    with open("/proc/self/ns/pid") as f:
        space = os.fstat(f.fileno()).st_ino
    made = engine.call("POST", "/containers/create?name=" + name, {
        "Image": BASE, "Cmd": ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"],
        "Labels": {"vial.managed": "true", "acode.managed": "true",
                   "vial.owner": "vial-%d-%d-1-v-%s" % (space, os.getpid(), name)}})
    if started:
        engine.call("POST", "/containers/%s/start" % made["Id"])
    return made["Id"]


def test_exec_creates_starts_stops_and_removes_a_container(needs_engine, acode):
    """AC-001 AC-002; covers: FR-020-16 FR-020-21 FR-020-23 FR-020-24"""
    done = acode("sandbox", "exec", "--json", "echo said").json
    assert done["stdout"] == "said\n"
    steps = [a for a in happened(needs_engine, done["container_id"])
             if a in ("create", "start", "die", "destroy")]
    assert steps == ["create", "start", "die", "destroy"]


def test_the_container_is_made_of_what_the_command_says(needs_engine, start, containers, repo):
    """covers: FR-020-17 FR-020-18 FR-020-19 FR-020-20"""
    start("--image", "mine:1", "--memory", "96m", "--cpus", "0.5", "--pids", "40", UP)
    c, = containers("acode-")
    assert c["Config"]["Image"] == "mine:1"
    mount, = [m for m in c["Mounts"] if m["Destination"] == "/workspace"]
    assert (mount["Type"], mount["Source"], mount["RW"]) == ("bind", str(repo), True)
    host = c["HostConfig"]
    assert (host["Memory"], host["NanoCpus"]) == (96 << 20, 500000000)
    assert 40 <= host["PidsLimit"] <= 42  # and those who wait for the program
    assert host["NetworkMode"] == "none"


def test_a_command_that_takes_too_long_is_ended_with_its_container(needs_engine, acode,
                                                                   containers):
    """covers: FR-020-22"""
    done = acode("sandbox", "exec", "--timeout", "4s", "echo begun; sleep 60")
    assert (done.status, done.out) == (124, "begun\n") and "timeout after" in done.err
    assert not containers("acode-")


def test_when_exec_returns_the_container_is_gone(needs_engine, acode):
    """For `sandbox list`, and in no image's way: `docker rmi` without force succeeds at
    once. AC-002; covers: FR-020-24"""
    for i in range(3):
        name = "mine-alone:%d" % i
        own_image(needs_engine, name)
        assert acode("sandbox", "exec", "--image", name, "true").status == 0
        assert not needs_engine.ours()
        listed = json.loads(acode("sandbox", "list", "--json").out)
        assert [v for v in listed if v["driver"] == "docker"] == []
        gone = needs_engine.call("DELETE", "/images/" + name)
        assert any("Deleted" in entry for entry in gone)


def test_a_cancelled_command_ends(start, containers):
    """covers: FR-020-07 FR-020-08"""
    p = start(UP)
    p.send_signal(signal.SIGINT)
    assert p.wait(60) == 130
    assert not containers("acode-")


def test_orphans_are_found_by_their_label_and_removed_by_force(needs_engine, acode):
    """One that runs and does not hear SIGTERM, and one that never started; what has no
    label of ours is left alone. covers: FR-020-25 FR-020-27 NFR-020-22"""
    orphans = {abandoned(needs_engine, "acode-left-running"),
               abandoned(needs_engine, "acode-never-started", started=False)}
    other = needs_engine.call("POST", "/containers/create?name=acode-of-somebody-else",
                              {"Image": BASE, "Cmd": ["true"]})["Id"]
    try:
        listed = json.loads(acode("sandbox", "list", "--json").out)
        assert {v["id"] for v in listed if v["orphan"]} == orphans
        assert acode("sandbox", "cleanup", "--json").json == {"removed": 2}
        left = needs_engine.call("GET", "/containers/json?all=1")
        assert [c["Id"] for c in left] == [other]
    finally:
        needs_engine.call("DELETE", "/containers/" + other)


def test_a_server_that_starts_removes_what_an_earlier_one_left(needs_engine, mcp, repo):
    """covers: FR-020-26"""
    abandoned(needs_engine, "acode-left-by-another")
    mcp("acode", cwd=str(repo))
    assert wait_for(lambda: not needs_engine.ours())


def test_containers_are_labelled_and_named_by_session_and_task(needs_engine, start, containers,
                                                               repo):
    """Without a flag: the repository has a session, each command a task. Two at once do
    not conflict. covers: FR-020-28 FR-020-29 FR-020-30 FR-020-31 NFR-020-38"""
    (repo / "below").mkdir()
    give_away(repo / "below")
    start(UP)
    start(UP, cwd=repo / "below")
    found = containers("acode-")
    assert len(found) == 2
    labels = [c["Config"]["Labels"] for c in found]
    assert [one["acode.managed"] for one in labels] == ["true", "true"]
    assert len({one["acode.session"] for one in labels}) == 1
    assert len({one["acode.task"] for one in labels}) == 2
    for c, one in zip(found, labels):
        assert c["Name"] == "/acode-%s-%s" % (one["acode.session"], one["acode.task"])
        assert re.fullmatch(r"/acode-[0-9a-f]{12}-[0-9a-z]+", c["Name"])
        assert not any(part in c["Name"] for part in repo.parts[1:])


def test_another_repository_is_another_session(acode, repo):
    """covers: FR-020-29"""
    def session():
        return json.loads(acode("plan", "--workspace", str(repo), "bash", "1").out)["session"]
    first = session()
    assert first == session() and re.fullmatch("[0-9a-f]{12}", first)
    os.rename(repo, str(repo) + "-moved")
    repo.mkdir()
    assert session() == first
    other = json.loads(acode("plan", "--workspace", str(repo) + "-moved", "bash", "1").out)
    assert other["session"] != first


def test_session_and_task_can_be_given(needs_engine, start, containers):
    """covers: FR-020-29 FR-020-30 FR-020-31"""
    start("--session", "s1", "--task", "t1", UP)
    c, = containers("acode-s1-t1")
    labels = c["Config"]["Labels"]
    assert (labels["acode.session"], labels["acode.task"]) == ("s1", "t1")


def test_the_tool_takes_session_and_task(needs_engine, mcp, repo):
    """covers: FR-020-14 FR-020-29 FR-020-30 FR-020-31"""
    client = mcp("acode", cwd=str(repo))
    answer = client("sandbox_exec", command="true", session="s2", task="t2")
    assert re.fullmatch("[0-9a-f]{64}", answer.json["container_id"])
    assert "create" in happened(needs_engine, "acode-s2-t2")
    assert "destroy" in happened(needs_engine, answer.json["container_id"])


def test_several_commands_at_once(needs_engine, repo):
    """covers: FR-020-32"""
    several = [subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec", "echo $((%d*2))" % i],
                                cwd=str(repo), env=environment(), text=True,
                                stdout=subprocess.PIPE) for i in range(4)]
    assert [p.communicate(timeout=90)[0] for p in several] == ["0\n", "2\n", "4\n", "6\n"]
    assert not needs_engine.ours()


@pytest.mark.parametrize("moment", ["POST /containers/create", "GET /"])
def test_failed_operations_are_tried_again(needs_engine, acode, line, moment):
    """As often as is configured, with a growing pause. covers: FR-020-33 FR-020-34
    covers: NFR-020-20"""
    left = line.refuse_once(moment)
    done = acode("sandbox", "exec", "--retry-wait", "20ms", "echo done", DOCKER_HOST=line.address)
    assert (done.out, left) == ("done\n", [])
    for _ in range(3):
        line.refuse_once("POST /containers/create")
    r = acode("sandbox", "exec", "--json", "--retries", "2", "--retry-wait", "20ms", "echo never",
              DOCKER_HOST=line.address).json
    assert (r["verdict"], r["preset_code"], r["stdout"]) == ("failed", "ACODE-SBX-001", "")
    assert left == []
    for _ in range(3):
        line.refuse_once("POST /containers/create")
    done = acode("sandbox", "exec", "--retries", "3", "--retry-wait", "20ms", "echo at last",
                 DOCKER_HOST=line.address)
    assert done.out == "at last\n"


def test_creation_that_takes_too_long_is_given_up(acode, tmp_path_factory):
    """covers: FR-020-35 NFR-020-23"""
    deaf = str(tmp_path_factory.mktemp("deaf") / "sock")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(deaf)
        s.listen()
        r = acode("sandbox", "exec", "--json", "--driver", "docker", "--open-timeout", "300ms",
                  "echo never", DOCKER_HOST="unix://" + deaf).json
    assert (r["error"]["code"], r["preset_code"]) == ("VIAL-ENGINE-TIMEOUT", "ACODE-SBX-001")
    assert r["stdout"] == ""


# Mount Configuration (FR-020-36 to FR-020-50)

def test_the_repository_is_where_it_is_asked_for(acode, repo, mcp):
    """By default, flag, variable, .agent/config.yml and tool. covers: FR-020-36"""
    (repo / "sub").mkdir()
    give_away(repo / "sub")
    line = "pwd; cat in.txt"
    assert acode("sandbox", "exec", line).out == "/workspace\ngiven\n"
    assert acode("sandbox", "exec", "--workspace-at", "/src", line).out == "/src\ngiven\n"
    assert acode("sandbox", "exec", line, VIAL_WORKSPACE_AT="/opt/src").out == \
        "/opt/src\ngiven\n"
    client = mcp("acode", cwd=str(repo / "sub"))
    assert client("sandbox_exec", command="pwd", mount_path="/src").text.strip() == "/src/sub"
    (repo / ".agent" / "config.yml").write_text(
        CONFIG.replace("network: false", "network: false\n    mount_path: /repo"))
    assert acode("sandbox", "exec", line).out == "/repo\ngiven\n"
    assert "with the repository at /repo" in \
        mcp("acode", cwd=str(repo)).tools()["sandbox_exec"]["description"]


def test_the_repository_cannot_lie_over_what_the_sandbox_needs(acode):
    """covers: FR-020-41 FR-020-49"""
    for at in ("/", "/etc", "/proc/x", "/tmp", "/work", "/usr/src", "src", "/a/../etc", "/a,b"):
        done = acode("sandbox", "exec", "--workspace-at", at, "echo never here")
        assert done.status == 125 and not done.out, (at, done.out)
        assert "[ACODE-SBX-003, VIAL-MOUNT]" in done.err


def test_the_repository_is_written_to_unless_it_is_read_only(acode, repo, mcp):
    """covers: FR-020-37 FR-020-38"""
    line = "cat in.txt; touch made"
    assert acode("sandbox", "exec", line).status == 0 and (repo / "made").exists()
    (repo / "made").unlink()

    def refused(out, err):
        return "given" in out and "Read-only file system" in err and \
            not (repo / "made").exists()
    done = acode("sandbox", "exec", "--workspace-mode", "ro", line)
    assert done.status == 1 and refused(done.out, done.err)
    mine = repo / "mine.yml"
    mine.write_text(CONFIG.replace("network: false", "network: false\n    read_only: true"))
    done = acode("--config", str(mine), "sandbox", "exec", line)
    assert refused(done.out, done.err)
    answer = mcp("acode", cwd=str(repo))("sandbox_exec", command=line, mount_mode="ro")
    assert refused(answer.text, answer.text)


def test_mounts_are_binds_that_lead_nothing_back(needs_engine, start, containers, repo):
    """covers: FR-020-18 FR-020-37 FR-020-38 FR-020-39 FR-020-42 FR-020-43"""
    for name in ("read", "write"):
        (repo / name).mkdir()
        os.chown(repo / name, 4242, 4242)

    def mounts(*flags):
        p = start(*flags, "echo up; exec >/dev/null; sleep 60")
        c, = containers("acode-")
        p.terminate()
        p.wait()
        binds = [m for m in c["Mounts"] if m["Type"] == "bind"]
        assert all(m["Propagation"] == "rprivate" for m in c["Mounts"])
        return {m["Destination"]: (m["Source"], m["RW"]) for m in binds}
    made = mounts("--mount", f"{repo}/read:/r", "--mount", f"{repo}/write:/w:rw")
    assert made["/workspace"] == (str(repo), True)
    assert made["/r"] == (f"{repo}/read", False) and made["/w"] == (f"{repo}/write", True)
    assert mounts("--workspace-mode", "ro", "--workspace-at", "/src")["/src"] == \
        (str(repo), False)


def test_additional_mounts_are_shown_as_asked_for(acode, repo):
    """covers: FR-020-39"""
    data = repo / "data"
    data.mkdir()
    (data / "x").write_text("shown\n")
    if DOCKER:
        os.chown(data, 4242, 4242)
    done = acode("sandbox", "exec", "--mount", f"{data}:/data", "cat /data/x; touch /data/y")
    assert done.out == "shown\n" and "Read-only file system" in done.err
    assert acode("sandbox", "exec", "--mount", f"{data}:/data:rw", "touch /data/y").status == 0
    assert (data / "y").exists()


@pytest.fixture
def outside(tmp_path_factory):
    """A directory that is nobody's secret, but not the repository's."""
    path = tmp_path_factory.mktemp("outside")
    for one in [path, *list(path.parents)[:2]]:
        os.chmod(one, os.stat(one).st_mode | 0o055)
    (path / "x").write_text("not yours\n")
    return path


def test_paths_outside_the_repository_are_rejected(acode, repo, outside, tmp_path_factory):
    """covers: FR-020-40 FR-020-49 NFR-020-29"""
    def mount(source, *flags):
        return acode(*flags, "sandbox", "exec", "--mount", f"{source}:/data", "cat /data/x")
    done = mount(outside)
    assert done.status == 125 and not done.out
    assert f"mount source '{outside}' lies outside the workspace [ACODE-SBX-003" in done.err
    assert mount(repo.parent).status == 125
    # No flag of a request widens it; the operator's own settings do.
    done = acode("sandbox", "exec", "--mounts-from", "anywhere", "--mount", f"{outside}:/data",
                 "cat /data/x")
    assert done.status == 125 and not done.out
    mine = tmp_path_factory.mktemp("own") / "vial.yaml"
    mine.write_text(f"policy: {{mount_roots: ['{repo}', '{outside}']}}\n")
    assert mount(outside, "--config", str(mine)).out == "not yours\n"


def test_no_way_of_writing_a_path_leads_out(acode, repo, outside):
    """covers: FR-020-41 NFR-020-29 NFR-020-33"""
    (repo / "sub").mkdir()
    (repo / "link").symlink_to(outside)
    (repo / "up").symlink_to("../" * 12 + str(outside)[1:])
    (repo / "far").symlink_to("link")
    (repo / "etc").symlink_to("/etc")
    for source in ("link", "up", "far", "link/x", "sub/../../" + outside.name, "etc", "etc/ssl",
                   "../" * 12 + "etc", "sub/../link", ".git/../far"):
        r = acode("sandbox", "exec", "--json", "--mount", f"{repo}/{source}:/data",
                  "cat /data/x").json
        assert (r["verdict"], r["preset_code"]) == ("denied", "ACODE-SBX-003"), (source, r)
        assert not r["stdout"]
    assert acode("sandbox", "exec", "--mount", f"{repo}/sub/../sub:/data", "true").status == 0


def test_sensitive_paths_are_never_mounted(acode, tmp_path_factory, repo):
    """Whatever the policy says. covers: NFR-020-33"""
    mine = tmp_path_factory.mktemp("own") / "vial.yaml"
    mine.write_text("policy: {mount_roots: [/]}\n")
    for source in ("/", "/etc", "/proc", "/sys", "/dev", "/var/run", "/run", "/root", "/home",
                   "/var/lib/docker", "/boot"):
        r = acode("--config", str(mine), "sandbox", "exec", "--json", "--mount",
                  f"{source}:/data", "ls /data").json
        assert (r["verdict"], r["preset_code"]) == ("denied", "ACODE-SBX-003"), (source, r)


def test_a_socket_in_the_repository_is_hidden_and_a_start_file_shown(acode, repo):
    """Nobody inside can talk to whoever listens on the host; the work goes on."""
    (repo / "deep").mkdir()
    (repo / ".bashrc").write_text("alias x=y\n")
    listeners = []
    for name in ("agent.sock", "deep/agent.sock"):
        listeners.append(socket.socket(socket.AF_UNIX))
        listeners[-1].bind(str(repo / name))
        listeners[-1].listen()
        os.chmod(repo / name, 0o777)
    talk = ("python3 -c 'import socket,sys; s = socket.socket(socket.AF_UNIX); "
            "s.connect(sys.argv[1]); print(\"talked\")' ")
    done = acode("sandbox", "exec", "cat .bashrc in.txt; ls deep; test -S agent.sock || echo none; "
                 + talk + "agent.sock; " + talk + "deep/agent.sock; touch made")
    assert done.out == "alias x=y\ngiven\nagent.sock\nnone\n", (done.out, done.err)
    assert done.err.count("Connection refused") + done.err.count("Permission denied") == 2
    assert (repo / "made").exists() and (repo / "agent.sock").is_socket()
    for listener in listeners:
        listener.close()


def test_what_makes_a_home_still_refuses_it(acode, repo):
    """covers: NFR-020-33"""
    (repo / ".ssh").mkdir()
    done = acode("sandbox", "exec", "echo never here")
    assert done.status == 125 and not done.out and "holds '.ssh' [ACODE-SBX-003" in done.err


def test_a_mount_source_must_exist(acode, repo):
    """covers: FR-020-49 FR-020-50"""
    done = acode("sandbox", "exec", "--mount", f"{repo}/absent:/data", "echo never here")
    assert done.status == 125 and not done.out
    assert f"mount source '{repo}/absent' does not exist [ACODE-SBX-003, VIAL-MOUNT]" in done.err
    assert not (repo / "absent").exists()  # engines make directories of what is missing


def test_caches_are_volumes_that_persist(needs_engine, acode):
    """covers: FR-020-44 FR-020-45 FR-020-46"""
    first = acode("sandbox", "exec", "--json", "--cache", "nuget", "echo kept >/cache/nuget/x").json
    second = acode("sandbox", "exec", "--json", "--cache", "nuget", "cat /cache/nuget/x").json
    try:
        assert second["stdout"] == "kept\n", (first, second)
        assert first["container_id"] != second["container_id"]
        names = [v["Name"] for v in needs_engine.call("GET", "/volumes")["Volumes"]]
        assert "acode-cache-nuget" in names
    finally:
        needs_engine.call("DELETE", "/volumes/acode-cache-nuget")


# Resource Limits (FR-020-51 to FR-020-65)

BIG = "python3 -c 'b = bytearray(900 << 20)'"
BOMB = "f() { f | f & }; f; sleep 60"


@pytest.fixture
def held(repo, containers, needs_engine):
    """What the engine says of the container of a command that still runs."""
    running = []

    def hold(*flags, **env):
        p = subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec", *flags, "--session",
                              "held", "--task", "t", "echo up; sleep 60"], cwd=repo,
                             env=environment(**env), stdout=subprocess.PIPE, text=True)
        running.append(p)
        assert p.stdout.readline() == "up\n"
        [container] = containers("acode-held-t")
        return container
    yield hold
    for p in running:
        p.terminate()
        p.communicate()
    assert wait_for(lambda: not containers("acode-held-t"))


def test_the_limits_are_the_documents_and_the_engine_holds_them(held):
    """covers: FR-020-51 FR-020-52 FR-020-53 FR-020-54 FR-020-55 FR-020-56 FR-020-59
    covers: FR-020-19 FR-020-66"""
    host = held()["HostConfig"]
    assert host["NanoCpus"] == 10 ** 9
    assert host["Memory"] == host["MemorySwap"] == 512 << 20  # no swap beside it
    assert not host["OomKillDisable"]
    assert host["PidsLimit"] == 256
    assert {"Name": "nofile", "Soft": 1024, "Hard": 1024} in host["Ulimits"]
    assert host["NetworkMode"] == "none"


def test_a_command_may_have_other_limits(held, acode):
    """covers: FR-020-51 FR-020-53 FR-020-56 FR-020-58 FR-020-59 FR-020-61 FR-020-47
    covers: FR-020-48"""
    host = held("--cpus", "0.5", "--memory", "96m", "--pids", "40", "--open-files", "2048",
                "--disk", "5m", "--tmp", "3m")["HostConfig"]
    assert host["NanoCpus"] == 5 * 10 ** 8
    assert host["Memory"] == host["MemorySwap"] == 96 << 20
    assert host["PidsLimit"] == 40
    assert {"Name": "nofile", "Soft": 2048, "Hard": 2048} in host["Ulimits"]
    assert "size=%d" % (5 << 20) in host["Tmpfs"]["/work"].split(",")
    assert "size=%d" % (3 << 20) in host["Tmpfs"]["/tmp"].split(",")
    done = acode("sandbox", "exec", "--tmp", "3m",
                 "df -B1 --output=fstype,size /tmp | tail -1")
    assert done.out.split() == ["tmpfs", str(3 << 20)], done.err


def test_a_program_sees_its_ulimits(needs_engine, acode):
    """covers: FR-020-59 FR-020-60"""
    done = acode("sandbox", "exec", "bash -c 'ulimit -n; ulimit -u; ulimit -Hu'")
    assert done.out == "1024\n256\n256\n", done.err
    done = acode("sandbox", "exec", "--pids", "70", "bash -c 'ulimit -u'")
    assert done.out == "70\n", done.err


CROWD = """
import os, sys, threading
if os.getuid() == 0:
    os.setuid(int(sys.argv[1]))
over = threading.Event()
for _ in range(317):
    threading.Thread(target=over.wait, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.fixture
def crowd(repo):
    """318 tasks of the repository's owner, elsewhere on the host."""
    if os.getuid() == 0:
        os.chown(repo, 4242, 4242)
    p = subprocess.Popen([sys.executable, "-c", CROWD, str(repo.stat().st_uid)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "up\n"
    yield p
    p.communicate()


def test_what_its_owner_runs_elsewhere_does_not_count(crowd, acode):
    """covers: FR-020-56 FR-020-60"""
    assert len(os.listdir(f"/proc/{crowd.pid}/task")) == 318
    done = acode("sandbox", "exec", "echo hi; bash -c 'true & wait; echo forked'")
    assert (done.out, done.status) == ("hi\nforked\n", 0), done.err


def test_a_fork_bomb_is_stopped_and_named(crowd, acode, mcp, repo):
    """The document's failure modes: a resource limit exceeded kills the container.
    covers: FR-020-56 FR-020-57 FR-020-62 NFR-020-17 NFR-020-37"""
    r = acode("sandbox", "exec", "--json", BOMB).json
    assert (r["verdict"], r["limits_hit"]) == ("pids", ["pids"]), r
    assert r["preset_code"] == "ACODE-SBX-004"
    done = acode("sandbox", "exec", BOMB)
    assert done.status == 125
    assert "ended because the pids limit was touched [ACODE-SBX-004]" in done.err
    answer = mcp("acode", cwd=str(repo))("sandbox_exec", command=BOMB)
    assert answer.json["code"] == "ACODE-SBX-004"


def test_what_is_killed_for_memory_is_named_whoever_its_parent_is(acode, mcp, repo):
    """A shell stands between, as it does for every command of the document.
    covers: FR-020-54 FR-020-62 FR-020-63 NFR-020-17 NFR-020-54"""
    for line in (BIG, BIG + "; exit $?", "cd /tmp && " + BIG, "sh -c \"%s\"" % BIG):
        r = acode("sandbox", "exec", "--json", line).json
        assert (r["verdict"], r["limits_hit"]) == ("oom", ["memory"]), (line, r)
        assert r["preset_code"] == "ACODE-SBX-004"
    done = acode("sandbox", "exec", BIG)
    assert done.status == 137
    assert "out of memory: the memory limit was reached [ACODE-SBX-004]" in done.err
    answer = mcp("acode", cwd=str(repo))("sandbox_exec", command=BIG)
    assert answer.json["code"] == "ACODE-SBX-004"
    assert "[ACODE-SBX-004: out of memory]" in answer.text


def test_a_command_that_survives_a_childs_death_has_its_own_end(acode):
    """covers: FR-020-62"""
    for line, verdict in ((BIG + "; echo on", "ok"), (BIG + " || exit 3", "nonzero")):
        r = acode("sandbox", "exec", "--json", line).json
        assert (r["verdict"], r["limits_hit"]) == (verdict, ["memory"]), (line, r)
        assert "preset_code" not in r
    r = acode("sandbox", "exec", "--json", "sh -c 'kill -9 $$'").json
    assert (r["verdict"], r["exit_code"], r["limits_hit"]) == ("nonzero", 137, []), r


def test_a_full_disk_is_told(acode):
    """covers: FR-020-58 FR-020-62"""
    r = acode("sandbox", "exec", "--json", "--tmp", "1m",
              "head -c 3000000 /dev/zero >/tmp/f; stat -c %s /tmp/f").json
    assert int(r["stdout"]) <= 1 << 20 and "No space left" in r["stderr"], r
    assert r["limits_hit"] == ["disk"]


def test_usage_is_told_and_throttling_and_kills_are_logged(acode, tmp_path):
    """So little of a processor that even a busy machine gives more than that.
    covers: FR-020-64 FR-020-65 NFR-020-53 NFR-020-54"""
    config = tmp_path / "audit.yaml"
    config.write_text("audit: {path: %s}\n" % (tmp_path / "log"))
    spin = "timeout 2 sh -c 'while :; do :; done'; true"
    r = acode("--config", str(config), "sandbox", "exec", "--json", "--cpus", "0.02", spin).json
    usage = r["usage"]
    assert usage["throttled_ms"] > 0 and usage["cpu_user_ms"] + usage["cpu_system_ms"] > 0
    assert usage["memory_peak_bytes"] > 0 and usage["pids_peak"] > 0
    acode("--config", str(config), "sandbox", "exec", "--memory", "64m", BIG)
    slow, killed = [e for e in map(json.loads, (tmp_path / "log").read_text().splitlines())
                    if e["event"] == "run"]
    assert slow["usage"]["throttled_ms"] > 0
    assert (killed["verdict"], killed["limits_hit"]) == ("oom", ["memory"])


# Network Policy (FR-020-66 to FR-020-80)


TRIES = ("python3 -c \"import socket; socket.create_connection(('10.20.30.40', 80), 5)\"")


@pytest.fixture
def going(repo, containers, needs_engine):
    """Starts a command that says "up" and stays; gives its container, inspected."""
    started = []

    def start(*args):
        p = subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec", "--task",
                              "going", *args], cwd=repo, env=environment(),
                             stdout=subprocess.PIPE, text=True)
        started.append(p)
        assert p.stdout.readline() == "up\n"
        return [c for c in containers("acode-")
                if c["Config"]["Labels"].get("acode.task") == "going"][0]
    yield start
    for p in started:
        p.terminate()
        p.communicate()


STAYS = "echo up; sleep 60"
INTERFACES = "cut -d: -f1 /proc/net/dev | tail -n +3 | xargs"


def test_the_network_is_disabled_by_default(acode, going):
    """covers: FR-020-66 NFR-020-30"""
    assert acode("sandbox", "exec", INTERFACES).out == "lo\n"
    assert going(STAYS)["HostConfig"]["NetworkMode"] == "none"


def test_an_enabled_network_is_a_bridge(acode, going):
    """covers: FR-020-67 FR-020-68 FR-020-80"""
    assert going("--network", "bridge", STAYS)["HostConfig"]["NetworkMode"] == "bridge"
    ask = ("python3 -c 'import socket; socket.socket(2, 2).sendto(b\"x\" * 1000, "
           "(\"172.31.254.1\", 9))'; ")
    r = acode("sandbox", "exec", "--json", "--network", "bridge", ask + INTERFACES).json
    assert set(r["stdout"].split()) == {"lo", "eth0"}
    assert r["usage"]["net_tx_bytes"] >= 1000 and "network_refused" not in r


def test_air_gapped_overrides_what_enables_it(acode, repo, tmp_path, needs_engine):
    """covers: FR-020-69 FR-020-70"""
    sealed = tmp_path / "sealed.yaml"
    sealed.write_text("policy: {networks: [none]}\n")
    done = acode("sandbox", "exec", "--config", str(sealed), "--network", "bridge",
                 "echo never here")
    assert done.status == 125 and not done.out and "network" in done.err
    sealed.write_text("policy: {networks: [none]}\n" + CONFIG.replace("network: false",
                                                                      "network: true"))
    assert acode("sandbox", "exec", "--config", str(sealed), "echo never here").out == ""
    sealed.write_text("policy: {networks: [none]}\n")
    assert acode("sandbox", "exec", "--config", str(sealed), INTERFACES).out == "lo\n"


def test_name_servers_are_the_callers_choice(acode, needs_engine):
    """covers: FR-020-71 FR-020-73"""
    servers = "grep nameserver /etc/resolv.conf"
    done = acode("sandbox", "exec", "--network", "bridge", "--dns", "10.9.8.7", servers)
    assert done.out == "nameserver 10.9.8.7\n"
    done = acode("sandbox", "exec", "--dns", "10.9.8.7", servers)
    assert done.status == 125 and "dns is given, but the program has no network" in done.err


def test_services_talk_over_a_network_that_was_asked_for(acode, going, api):
    """covers: FR-020-75 FR-020-76"""
    api.call("POST", "/networks/create", {"Name": "acode-services", "Driver": "bridge"})
    joined = ["--network", "bridge", "--network-name", "acode-services"]
    try:
        served = going(*joined, "echo up; python3 -c 'import http.server as h; "
                       "h.HTTPServer((\"0.0.0.0\", 8000), h.BaseHTTPRequestHandler)"
                       ".serve_forever()'")
        address = served["NetworkSettings"]["Networks"]["acode-services"]["IPAddress"]
        ask = ("python3 -c 'import socket; s = socket.create_connection((\"%s\", 8000)); "
               "s.sendall(b\"GET / HTTP/1.0\\r\\n\\r\\n\"); print(s.recv(5))'" % address)
        ask = "for i in 1 2 3 4 5 6 7 8 9; do %s && exit 0; sleep 1; done 2>&1; exit 1" % ask
        assert "b'HTTP/" in acode("sandbox", "exec", *joined, ask).out
        alone = acode("sandbox", "exec", ask)
        assert alone.status == 1 and "unreachable" in alone.out
    finally:
        assert wait_for(lambda: gone(api, "acode-services", going))


def gone(api, network, going):
    """Whether NETWORK is; its containers go first."""
    for c in api.call("GET", "/networks/" + network)["Containers"] or []:
        api.call("DELETE", "/containers/%s?force=true" % c)
    try:
        api.call("DELETE", "/networks/" + network)
        return True
    except RuntimeError as e:
        return " 404 " in str(e)


def test_ports_are_published_and_conflicts_are_told(acode, going):
    """covers: FR-020-77 FR-020-78"""
    made = going("--network", "bridge", "--ports", "127.0.0.1:18080:80", STAYS)
    assert made["HostConfig"]["PortBindings"] == {
        "80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18080"}]}
    done = acode("sandbox", "exec", "--network", "bridge", "--ports", "127.0.0.1:18080:80",
                 "echo never here")
    assert done.status == 125 and not done.out and "VIAL-ENGINE-PORT" in done.err


def test_connecting_ends_with_the_networks_time_out(acode, needs_engine):
    """From the engine's network nothing leads to that address, and nobody says so.
    covers: FR-020-79"""
    line = ("python3 -c 'import socket; socket.socket().connect((\"10.20.30.40\", 80))'")
    on = ["--network", "bridge", "--json"]
    r = acode("sandbox", "exec", *on, "--network-timeout", "3s", "--timeout", "60s", line).json
    assert r["verdict"] == "nonzero" and "Connection timed out" in r["stderr"], r
    r = acode("sandbox", "exec", *on, "--network-timeout", "1h", "--timeout", "6s", line).json
    assert r["verdict"] == "timeout"


def test_the_networks_time_out_is_told_to_kernel_and_resolver(acode, needs_engine):
    """covers: FR-020-79"""
    show = ("cat /proc/sys/net/ipv4/tcp_syn_retries /proc/sys/net/ipv4/tcp_retries2; "
            "grep options /etc/resolv.conf")
    assert acode("sandbox", "exec", "--network", "bridge", "--dns", "10.9.8.7",
                 show).out.split("\n")[:3] == ["3", "6", "options timeout:30 attempts:1"]


def test_a_networks_time_out_without_a_network_is_refused(acode):
    done = acode("sandbox", "exec", "--network-timeout", "5s", "true")
    assert done.status == 125 and "network" in done.err and "time" in done.err


def test_an_attempt_at_the_network_is_told_and_recorded(acode, audit):
    """Failure mode 'Network policy violation: clear error explaining network restriction'.
    covers: FR-020-74 NFR-020-55"""
    done = acode("sandbox", "exec", "--config", str(audit.config), TRIES)
    assert done.status == 1 and "Network is unreachable" in done.err
    assert "note: the program tried the network 1 time, and has none" in done.err
    event, = audit("network.refused")
    run, = audit("run")
    assert (event["run"], event["count"]) == (run["run"], 1)
    assert (run["network_refused"], run["verdict"]) == (1, "nonzero")


def test_who_tries_no_network_is_told_nothing(acode, audit):
    done = acode("sandbox", "exec", "--json", "--config", str(audit.config),
                 "python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); "
                 "s.listen(); socket.create_connection(s.getsockname())'; exit 3")
    assert done.json["exit_code"] == 3 and "network_refused" not in done.json
    assert audit("run") and not audit("network.refused")


def test_a_lookup_of_a_name_is_an_attempt(acode):
    """covers: FR-020-72"""
    r = acode("sandbox", "exec", "--json",
              "python3 -c 'import socket; socket.getaddrinfo(\"example.com\", 80)'").json
    assert r["verdict"] == "nonzero" and r["network_refused"] >= 1
    assert "name resolution" in r["stderr"]


def test_an_attempt_at_the_network_is_in_the_tools_answer(mcp, repo):
    answer = mcp("acode", cwd=str(repo))("sandbox_exec", command=TRIES + " 2>/dev/null")
    assert answer.text == ("[the network is disabled: 1 attempts to use it were refused]\n"
                           "[exit code: 1]")


def test_attempts_are_counted_by_the_daemon(through, served):
    """covers: NFR-020-55"""
    assert through("sandbox", "exec", TRIES).status == 1
    assert "\nvial_network_refused_total 1\n" in served.ask("GET", "/metrics").body.decode()
    assert served.lines("run")[-1]["network_refused"] == 1


# Image Management (FR-020-81 to FR-020-95)

WAY = "127.0.0.1:5001"  # to the registry, in the engine's network; see tests/docker/faulty.py


class Registry:
    """The engine's registry, whose images are "SMALL" under other names, and a way to it
    that fails as an image's name says."""

    def __init__(self, api):
        self.engine = engine_module.Engine("unused")
        self.engine.api = self.api = api
        self.small = self.engine.small()
        self.engine.publish(self.small, "library/small:1")
        with open(os.path.join(os.path.dirname(api.path), "pid")) as f:
            inside = ["nsenter", "--net", "--target", f.read().strip()]
        self.way = subprocess.Popen(
            [*inside, sys.executable, str(ROOT / "tests/docker/faulty.py"), "5001", "5000"],
            stdout=subprocess.PIPE, text=True)
        assert self.way.stdout.readline() == "up\n"

    def offer(self, name):
        """NAME can be pulled, and is not here."""
        self.engine.publish(self.small, name if "/" in name else "library/" + name)
        self.forget(name)
        return name

    def forget(self, name):
        if self.has(name):
            self.api.untag(name)

    def has(self, name):
        return self.engine.has(name)

    def through(self, fault):
        """The small image through a way with that FAULT; not here."""
        name = "%s/%s/library/small:1" % (WAY, fault)
        self.forget(name)
        return name

    def asked(self):
        """Waits until the way was asked for a manifest."""
        return self.way.stdout.readline()

    def close(self):
        self.way.terminate()
        self.way.communicate()


@pytest.fixture(scope="module")
def registry(api):
    if not api:
        pytest.skip("needs a container engine")
    registry = Registry(api)
    yield registry
    registry.close()


@pytest.fixture
def log(repo):
    """Settings with an audit log, and what is in it."""
    path = repo / "audit" / "log"
    path.parent.mkdir()
    settings = repo / "audited.yaml"
    settings.write_text("audit: {path: %s}\n" % path)

    def records(event):
        return [r for r in map(json.loads, path.read_text().splitlines())
                if r["event"] == event]
    records.flags = ("--config", str(settings))
    return records


@pytest.fixture
def image(acode):
    """The image that a command line gets, by a call that ends before anything is pulled."""
    def choose(line, *flags):
        r = acode("sandbox", "exec", "--json", "--driver", "docker", *flags, line,
                  DOCKER_HOST="unix:///nonexistent/sock")
        return r.json["image"]
    return choose


@pytest.mark.parametrize("programs,name", [
    ("dotnet", "mcr.microsoft.com/dotnet/sdk:8.0"),
    ("node npm npx yarn pnpm", "node:20-alpine"),
    ("python python3 pip pytest", "python:3.11-slim"),
    ("go", "golang:1.22"),
    ("cargo rustc", "rust:1-slim"),
    ("java javac", "eclipse-temurin:17"),
    ("mvn ./mvnw", "maven:3-eclipse-temurin-17"),
    ("gradle ./gradlew", "gradle:8-jdk17"),
    ("ls ./build.sh", "debian:12-slim")])
def test_each_language_has_a_default_image(image, programs, name):
    """covers: FR-020-81 FR-020-82 FR-020-83"""
    for program in programs.split():
        assert image(program + " build it") == name


@pytest.mark.parametrize("line", [
    "cd web && npm test", "cd web; npm test", "(cd web && npm test)", "CI=1 npm test",
    "A='x y' B=2 npm test", "sudo npm ci", "sudo -u builder npm ci", "time npm test",
    "env CI=1 npm test", "env -u CI npm test", "nice -n 5 npm test", "nice npm test",
    "timeout 60 npm test", "cd web && CI=1 sudo time nice -n 5 npm test 2>&1 | tee log",
    "mkdir -p out\nnpm test", "if test -f x; then npm test; fi", "/usr/local/bin/npm test",
    "echo 'python3 && go' && npm test", "cat < python | npm test", "! npm test"])
def test_the_language_is_seen_through_what_stands_before_it(image, line):
    """covers: FR-020-81"""
    assert image(line) == "node:20-alpine"


def test_an_argument_is_no_program(image):
    assert image("echo npm test") == "debian:12-slim"
    assert image("grep -r 'npm test' .") == "debian:12-slim"


def test_the_contract_names_other_images(image, repo):
    """covers: FR-020-84"""
    mine = repo / "mine.yml"
    mine.write_text(CONFIG.replace("node:20-alpine", "node:22-alpine"))
    assert image("npm test", "--config", str(mine)) == "node:22-alpine"
    assert image("npm test", "--image", "node:18") == "node:18"


def test_an_image_that_is_not_here_is_pulled_and_its_progress_seen(registry, acode):
    """The default image of a command, as a new machine has it. covers: FR-020-85 FR-020-87
    covers: FR-020-91 NFR-020-04 NFR-020-56"""
    try:
        registry.offer("node:20-alpine")
        done = acode("sandbox", "exec", "node --version; echo ran in it")
        assert done.out == "ran in it\n", done.err
        assert "vial: Pulling from library/node 20-alpine\n" in done.err
        assert "vial: Status: Downloaded newer image for node:20-alpine\n" in done.err
        again = acode("sandbox", "exec", "node --version; echo again")
        assert again.out == "again\n" and "Pulling" not in again.err
    finally:
        registry.api.tag(BASE, "node:20-alpine")
    tag = registry.offer("small:other")
    assert acode("sandbox", "exec", "--image", tag, "echo a tag").out == "a tag\n"
    assert registry.has(tag)


def test_the_tool_pulls_too_and_tells_its_progress(registry, mcp, repo):
    """covers: FR-020-85 FR-020-87"""
    client = mcp("acode", cwd=str(repo))
    name = registry.offer("small:tool")
    client.send({"id": 77, "method": "tools/call", "params": {
        "name": "sandbox_exec", "_meta": {"progressToken": "p"},
        "arguments": {"command": "echo pulled", "image": name}}})
    told = []
    while True:
        message = json.loads(client.process.stdout.readline())
        if message.get("id") == 77:
            break
        told.append(message["params"].get("message", ""))
    assert message["result"]["structuredContent"]["stdout"] == "pulled\n"
    assert any("Pulling from library/small" in m for m in told), told


@pytest.mark.parametrize("fault", ["busy-2", "broken-2", "cut-2"])
def test_a_pull_is_tried_again_where_the_trouble_may_pass(registry, acode, fault):
    """"Retry with backoff" of the document's failure modes: too many requests, a registry
    that is down, a broken connection. covers: FR-020-88 NFR-020-18"""
    name = registry.through(fault)
    done = acode("sandbox", "exec", "--image", name, "--retry-wait", "1ms", "echo got it")
    assert (done.out, done.status) == ("got it\n", 0), done.err
    assert "trying again in 10 ms: " in done.err
    registry.forget(name)


def test_a_pull_is_tried_again_a_bounded_number_of_times(registry, acode):
    """covers: FR-020-88 NFR-020-18"""
    name = registry.through("busy-1000")
    done = acode("image", "pull", "--json", name, VIAL_RETRIES="3", VIAL_RETRY_WAIT="1ms")
    waits = [json.loads(line)["status"].split(":")[0] for line in done.err.splitlines()]
    assert [w for w in waits if w.startswith("trying")] == \
        ["trying again in %d ms" % ms for ms in (10, 20, 40)]
    assert done.status == 125 and done.json["preset_code"] == "ACODE-SBX-002"
    assert done.json["error"]["code"] == "VIAL-PULL"
    assert "toomanyrequests" in done.json["error"]["cause"]
    once = acode("image", "pull", "--json", name, VIAL_RETRIES="0")
    assert once.status == 125 and "trying" not in once.err


def test_a_pull_has_a_time_of_its_own(registry, acode, mcp, repo, log):
    """Its setting, flag and variable; 5 minutes unless told. covers: FR-020-86"""
    plan = json.loads(acode("plan", "--driver", "docker", "python", "1").out)
    assert plan["container"]["pull_ms"] == 5 * 60 * 1000
    name = registry.through("stall-1000")
    late = acode("sandbox", "exec", "--json", "--image", name, "--pull-timeout", "300ms", "true")
    assert late.status == 125 and late.json["preset_code"] == "ACODE-SBX-002"
    assert late.json["error"]["code"] == "VIAL-PULL-TIMEOUT"
    assert "--pull-timeout" in late.json["error"]["remedy"]
    (repo / "slow.yaml").write_text("defaults: {pull_timeout: 200ms}\n")
    for args, env in [(("--config", str(repo / "slow.yaml")), {}),
                      ((), {"VIAL_PULL_TIMEOUT": "200ms"})]:
        done = acode(*args, "image", "pull", name, **env)
        assert done.status == 125, done.err
        assert "[ACODE-SBX-002, VIAL-PULL-TIMEOUT]" in done.err
    client = mcp("acode", cwd=str(repo), VIAL_PULL_TIMEOUT="200ms")
    answer = client("sandbox_exec", command="true", image=name)
    assert answer.error and answer.json["code"] == "ACODE-SBX-002"
    done = acode(*log.flags, "image", "pull", "--timeout", "200ms", name)
    [record] = log("image.pull")
    assert record["outcome"] == "failed" and record["error"]["code"] == "VIAL-PULL-TIMEOUT"


def test_a_failed_pull_has_its_code(registry, acode):
    """covers: FR-020-88"""
    r = acode("run", "--json", "--image", "no-such:1", "bash", "true").json
    assert r["error"]["code"] == "VIAL-PULL" and r["preset_code"] == "ACODE-SBX-002"
    done = acode("image", "pull", WAY + "/none-0/library/nothing:1")
    assert done.status == 125 and "manifest unknown" in done.err
    assert "[ACODE-SBX-002, VIAL-PULL]" in done.err and "trying" not in done.err
    assert "check the name" in done.err


def test_an_interrupted_pull_ends_and_can_be_repeated(registry, acode, repo, log):
    """covers: NFR-020-15"""
    name = registry.through("stall-1")
    p = subprocess.Popen([VIAL, "--preset", "acode", *log.flags, "image", "pull", name],
                         cwd=repo, env=environment(), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    while "stall-1/" not in registry.asked():
        pass
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    assert p.returncode == 130 and not registry.has(name)
    done = acode(*log.flags, "image", "pull", name)
    assert done.status == 0 and registry.has(name), done.err
    assert [r["outcome"] for r in log("image.pull")] == ["failed", "ok"]
    registry.forget(name)


def test_offline_only_what_is_here_is_used(registry, acode, mcp, repo):
    """As flag, setting, parameter and policy. covers: FR-020-89"""
    absent = registry.offer("small:absent")
    (repo / "offline.yaml").write_text("defaults: {pull: never}\n")
    (repo / "airgapped.yaml").write_text("policy: {pulls: [never], networks: [none]}\n")
    offline, gapped = (("--config", str(repo / f)) for f in ("offline.yaml", "airgapped.yaml"))
    for args, env in [(("--pull", "never"), {}), (offline, {}), (gapped, {}),
                      ((), {"VIAL_PULL": "never"})]:
        r = acode("sandbox", "exec", "--json", "--image", absent, *args, "true", **env)
        assert r.json["error"]["code"] == "VIAL-IMAGE", r.out
        assert r.json["preset_code"] == "ACODE-SBX-002" and "Pull" not in r.err
        done = acode("sandbox", "exec", "--image", registry.small, *args, "echo cached", **env)
        assert done.out == "cached\n", done.err
    client = mcp("acode", cwd=str(repo))
    answer = client("sandbox_exec", command="true", image=absent, pull="never")
    assert answer.error and answer.json["code"] == "ACODE-SBX-002"
    assert client("sandbox_exec", command="echo cached", image=registry.small,
                  pull="never").json["stdout"] == "cached\n"
    for asked in ["missing", "always"]:
        done = acode("sandbox", "exec", *gapped, "--image", absent, "--pull", asked, "true")
        assert done.status == 125 and "'pulls'" in done.err
    assert "allows no pulls" in acode(*gapped, "image", "pull", absent).err
    assert not registry.has(absent)


def test_a_registry_can_be_asked_each_time(registry, acode):
    """covers: FR-020-89"""
    name = registry.offer("small:moving")
    for _ in range(2):
        done = acode("sandbox", "exec", "--image", name, "--pull", "always", "echo asked")
        assert done.out == "asked\n" and "Pulling from library/small moving" in done.err
    assert "Image is up to date" in done.err
    registry.forget(name)
    gone = acode("sandbox", "exec", "--image", registry.small, "--pull", "always", "echo never")
    assert gone.status == 125 and not gone.out and "ACODE-SBX-002" in gone.err


def test_a_digest_pins_an_image_and_what_came_is_verified(registry, acode):
    """covers: FR-020-90 FR-020-92 NFR-020-32"""
    name = registry.offer("small:pinned")
    image = acode("image", "pull", "--json", name).json
    assert name in image["tags"] and image["id"].startswith("sha256:")
    [digest] = [d for d in image["digests"] if d.startswith("small@")]
    registry.forget(name)
    done = acode("sandbox", "exec", "--image", digest, "echo pinned")
    assert done.out == "pinned\n", done.err
    other = "small@sha256:" + "0" * 64
    r = acode("sandbox", "exec", "--json", "--image", other, "true").json
    assert (r["error"]["code"], r["preset_code"]) == ("VIAL-PULL", "ACODE-SBX-002")


def test_images_are_listed_with_all_their_names_and_sizes(registry, acode):
    """covers: FR-020-94 FR-020-95"""
    registry.api.tag(registry.small, "also:called")
    try:
        rows = [line.split() for line in acode("image", "list").out.splitlines()]
        assert rows[0] == ["IMAGE", "ID", "SIZE"]
        mine = {r[0]: r[1:] for r in rows if r[0] in (registry.small, "also:called")}
        assert len(mine) == 2 and mine["also:called"] == mine[registry.small]
        assert mine["also:called"][2] == "MiB" and int(mine["also:called"][1]) > 0
        [one] = [i for i in json.loads(acode("image", "list", "--json").out)
                 if "also:called" in (i["tags"] or [])]
        assert registry.small in one["tags"] and one["size"] > 1 << 20
    finally:
        registry.api.untag("also:called")


def test_old_images_are_pruned_on_command_and_recorded(registry, acode, log):
    """covers: FR-020-93"""
    made = registry.api.call("POST", "/containers/create",
                             {"Image": registry.small, "Cmd": ["/bin/cat"]})
    old = registry.api.call("POST", "/commit?container=" + made["Id"],
                            {"Labels": {"old": "1"}})["Id"]
    registry.api.call("DELETE", "/containers/" + made["Id"])
    done = acode(*log.flags, "image", "prune")
    assert done.status == 0 and " removed, " in done.out and not done.out.startswith("0")
    assert old not in {i["id"] for i in json.loads(acode("image", "list", "--json").out)}
    assert registry.has(registry.small)
    [record] = log("image.prune")
    assert record["outcome"] == "ok" and record["removed"] > 0 and record["all"] is False
    assert record["caller"]["uid"] == os.getuid() and record["duration_ms"] > 0


def test_pulls_are_in_the_audit_log(registry, acode, log):
    """Who, which image, its digest, what came of it, how long it took; of a run's pull as
    well. covers: NFR-020-35 NFR-020-49"""
    first, second = registry.offer("small:logged"), registry.offer("small:run")
    acode(*log.flags, "image", "pull", first)
    acode("sandbox", "exec", *log.flags, "--image", second, "true")
    acode(*log.flags, "image", "pull", "no-such:1")
    good, run, bad = log("image.pull")
    assert [r["image"] for r in (good, run, bad)] == [first, second, "no-such:1"]
    assert [r["outcome"] for r in (good, run, bad)] == ["ok", "ok", "failed"]
    for r in (good, run):
        assert any(d.startswith("small@sha256:") for d in r["digests"])
    for r in (good, run, bad):
        assert r["caller"]["uid"] == os.getuid() and r["duration_ms"] > 0
    assert bad["error"]["code"] == "VIAL-PULL" and good["preset"] == "acode"
    assert acode(*log.flags, "audit", "verify").status == 0


# Output Capture (FR-020-96 to FR-020-105)


def test_output_and_exit_code_are_captured(acode):
    """covers: FR-020-96 FR-020-97 FR-020-98 FR-020-100 FR-020-103 FR-020-104"""
    line = "printf 'gr\\303\\274n\\n'; printf 'bad \\377\\n' >&2; exit 9"
    r = acode("sandbox", "exec", "--json", line).json
    assert (r["stdout"], r["exit_code"]) == ("grün\n", 9)
    assert r["stderr"] == "bad \ufffd\n"
    assert base64.b64decode(r["stderr_base64"]) == b"bad \xff\n"


def test_output_is_streamed_as_it_comes(repo):
    """covers: FR-020-99"""
    p = subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec",
                          "echo first; read go; echo then $go"], cwd=repo, text=True,
                         env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == "first\n"  # it waits for us
    assert p.communicate("on\n")[0] == "then on\n" and p.returncode == 0


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_limit_of_output_holds_however_it_comes(acode, through, flags):
    """Streamed and buffered, here and through a daemon. covers: FR-020-101 FR-020-102"""
    line = ["--output-limit", "40", "seq 1 100; seq 1 5 >&2"]
    want = "".join("%d\n" % n for n in range(1, 11)) + "[… 252 bytes left out …]\n" + \
           "\n" + "".join("%d\n" % n for n in range(95, 101))
    for call in (acode, through):
        done = call("sandbox", "exec", *flags, *line)
        out = done.json["stdout"] if flags else done.out
        assert out == "1" + want[1:], call
        assert "1\n2\n3\n4\n5\n" in (done.json["stderr"] if flags else done.err)
    assert not flags or (done.json["stdout_truncated"], done.json["stderr_truncated"],
                         done.json["stdout_bytes"]) == (True, False, 292)


def test_logs_are_there_after_the_exit(acode, state):
    """covers: FR-020-105"""
    done = acode("sandbox", "exec", "--json", "echo kept; echo this too >&2; exit 3",
                 VIAL_STATE=str(state))
    logs = acode("logs", done.json["id"], VIAL_STATE=str(state))
    assert (logs.out, logs.err) == ("kept\n", "this too\n")
    acode("sandbox", "exec", "echo live", VIAL_STATE=str(state))
    listed = acode("logs", "--json", VIAL_STATE=str(state)).json
    assert [run["verdict"] for run in listed] == ["ok", "nonzero"]
    assert acode("logs", listed[0]["request"], VIAL_STATE=str(state)).out == "live\n"
    for path in [state, *state.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    missing = acode("logs", "r-0", VIAL_STATE=str(state))
    assert missing.status == 125 and "there is no run 'r-0' in the journal" in missing.err


def test_logs_are_bounded(acode, state, tmp_path):
    """covers: FR-020-105"""
    few = tmp_path / "few.yaml"
    few.write_text("journal: {runs: 2, output: 10}\n")
    for n in range(4):
        acode("sandbox", "exec", "--config", str(few), "seq %d 100" % n, VIAL_STATE=str(state))
    listed = acode("logs", "--json", VIAL_STATE=str(state)).json
    assert len(listed) == 2 and len(list((state / "runs").glob("*-r-*"))) == 2
    assert acode("logs", listed[0]["id"], VIAL_STATE=str(state)).out == "3\n4\n5\n6\n7\n"
    assert counted(acode("metrics", VIAL_STATE=str(state)).out, 'vial_runs_total{verdict="ok"}') == 4


def test_counters_that_cannot_be_read_are_put_aside_and_told_once(acode, state):
    acode("sandbox", "exec", "true", VIAL_STATE=str(state))
    counters = state / "runs" / "counters.json"
    counters.write_text("{nonsense")
    told = acode("metrics", VIAL_STATE=str(state))
    assert told.status == 125 and "they are called 'bad-counters.json' now" in told.err
    assert (state / "runs" / "bad-counters.json").read_text() == "{nonsense"
    acode("sandbox", "exec", "true", VIAL_STATE=str(state))
    assert counted(acode("metrics", VIAL_STATE=str(state)).out, 'vial_runs_total{verdict="ok"}') == 1
    counters.write_text("{worse")
    acode("sandbox", "exec", "true", VIAL_STATE=str(state))
    assert (state / "runs" / "bad-counters.json").read_text() == "{worse"


def test_logs_are_there_after_the_exit_through_a_daemon(through, served):
    """covers: FR-020-105"""
    r = through("sandbox", "exec", "--json", "echo kept; echo this too >&2").json
    logs = through("logs", r["id"])
    assert (logs.out, logs.err) == ("kept\n", "this too\n")


def test_runs_of_the_tool_are_remembered(mcp, acode, repo, state):
    """covers: FR-020-09 FR-020-105"""
    mcp("acode", cwd=str(repo), VIAL_STATE=str(state))("sandbox_exec", command="echo by the tool")
    run, = acode("logs", "--json", VIAL_STATE=str(state)).json
    assert acode("logs", run["id"], VIAL_STATE=str(state)).out == "by the tool\n"


def test_a_stream_says_in_its_result_that_it_was_cut(served):
    """covers: FR-020-101 FR-020-102"""
    events = served.ask("POST", "/v1/run?stream=ndjson", {
        "command": ["seq", "1", "100"], "output_limit": 40}).events
    text = "".join(e.get("data", "") for e in events if e["event"] == "stdout")
    assert "[… 252 bytes left out …]" in text
    result = events[-1]["result"]
    assert result["stdout_truncated"] and "output" in result["limits_hit"]
    whole = served.ask("POST", "/v1/run?stream=ndjson", {"command": ["seq", "1", "100"]}).events
    assert not whole[-1]["result"]["stdout_truncated"]


# Performance (NFR-020-01 to NFR-020-12)


def most_at_once(engine, containers):
    """The most of CONTAINERS that ran at once, by the engine's own record."""
    query = urllib.parse.quote(json.dumps({"type": ["container"], "event": ["start", "die"]}))
    text = engine.call("GET", "/events?since=0&until=%d&filters=%s" % (time.time() + 1, query))
    now = most = 0
    for event in sorted(map(json.loads, text.splitlines()), key=lambda e: e["timeNano"]):
        if event["id"] in containers:
            now += 1 if event["Action"] == "start" else -1
            most = max(most, now)
    return most


def test_no_more_than_four_containers_at_once(needs_engine, start, acode, repo):
    """Whoever asks: the fifth is told that it waits, and goes on when a place is free, were
    it by kill -9; or it is refused when its time is over. covers: NFR-020-10"""
    four = [start(UP) for _ in range(4)]
    r = acode("sandbox", "exec", "--json", "--open-timeout", "300ms", "echo never").json
    assert (r["verdict"], r["error"]["code"], r["preset_code"]) == \
        ("denied", "VIAL-BUSY", "ACODE-SBX-004")
    assert "4 are open already" in r["error"]["message"] and "--containers" in r["error"]["remedy"]
    fifth = subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec", "echo at last"],
                             cwd=repo, env=environment(), text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "waits for its turn" in fifth.stderr.readline()
    assert len(needs_engine.ours()) <= 5 and fifth.poll() is None
    four[0].send_signal(signal.SIGKILL)
    assert fifth.communicate(timeout=90)[0] == "at last\n"


def test_who_waits_for_a_place_can_be_stopped(needs_engine, start, repo):
    start("--containers", "1", UP)
    p = subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec", "--containers", "1",
                          "echo never"], cwd=repo, env=environment(), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "waits for its turn" in p.stderr.readline()
    p.send_signal(signal.SIGINT)
    assert p.communicate(timeout=60)[0] == "" and p.returncode == 130


def test_the_number_of_containers_is_configurable_up_to_sixteen(needs_engine, start, acode):
    """covers: NFR-020-10"""
    for _ in range(4):
        start(UP)
    assert acode("sandbox", "exec", "--containers", "5", "echo fifth").out == "fifth\n"
    assert acode("sandbox", "exec", "echo sixth", VIAL_CONTAINERS="5").out == "sixth\n"
    r = acode("sandbox", "exec", "--json", "--containers", "17", "echo never").json
    assert (r["error"]["code"], r["preset_code"]) == ("VIAL-CAP", "ACODE-SBX-004")


def test_the_bound_holds_when_many_come_at_the_same_moment(needs_engine, repo):
    """covers: NFR-020-10 FR-020-32"""
    many = [subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec", "--containers", "2",
                              "--json", "echo done"], cwd=repo, env=environment(), text=True,
                             stdout=subprocess.PIPE) for _ in range(8)]
    results = [json.loads(p.communicate(timeout=120)[0]) for p in many]
    assert [r["stdout"] for r in results] == ["done\n"] * 8
    assert 1 <= most_at_once(needs_engine, {r["container_id"] for r in results}) <= 2


# Reliability (NFR-020-13 to NFR-020-24)

def test_an_engine_that_goes_away_and_comes_back(needs_engine, start, acode, line, containers):
    """What a restart of the daemon is to its client: the way is gone, the container killed.
    The running command ends with the truth, and the next one after it works.
    covers: NFR-020-13"""
    p = start("--retries", "0", UP, DOCKER_HOST=line.address)
    line.cut()
    needs_engine.call("POST", "/containers/%s/kill" % containers("acode-")[0]["Id"])
    _, err = p.communicate(timeout=90)
    assert p.returncode == 125 and "[VIAL-LOST]" in err
    line.mend()
    assert acode("sandbox", "exec", "echo again", DOCKER_HOST=line.address).out == "again\n"


def test_a_container_that_crashes_is_told_as_that(needs_engine, repo, containers, mcp):
    """By `docker kill`, in the middle: what it had printed is there, and nobody says that
    it could not be created. covers: NFR-020-14"""
    def shoot():
        assert wait_for(lambda: containers("acode-"))
        c, = containers("acode-")
        assert wait_for(lambda: (repo / "up").exists())
        needs_engine.call("POST", "/containers/%s/kill" % c["Id"])
    command = "echo begun; touch up; sleep 60"
    p = subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec", "--json", command],
                         cwd=repo, env=environment(), stdout=subprocess.PIPE, text=True)
    shoot()
    r = json.loads(p.communicate(timeout=90)[0])
    assert (p.returncode, r["verdict"], r["error"]["code"]) == (125, "failed", "VIAL-LOST")
    assert r["stdout"] == "begun\n" and "preset_code" not in r
    (repo / "up").unlink()
    client = mcp("acode", cwd=str(repo))
    shot = threading.Thread(target=shoot)
    shot.start()
    answer = client("sandbox_exec", command=command)
    shot.join()
    assert answer.error and answer.json["code"] == "VIAL-LOST"
    assert "the vessel ended while its program ran" in answer.text and "begun" in answer.text
    assert "ACODE-SBX-001" not in answer.text
    assert not needs_engine.ours()


def test_a_mount_that_cannot_be_made_is_told(needs_engine, acode, repo):
    """covers: NFR-020-16"""
    r = acode("sandbox", "exec", "--json", "--mount", str(repo / "nowhere") + ":/x", "echo never").json
    assert (r["preset_code"], r["stdout"]) == ("ACODE-SBX-003", "")
    assert "nowhere" in r["error"]["message"] and r["error"]["remedy"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_caller_that_ends_takes_its_container_along(needs_engine, start, how):
    """covers: NFR-020-19 NFR-020-24"""
    p = start("echo up; trap '' TERM HUP; sleep 60; sleep 60")
    assert len(needs_engine.ours()) == 1
    p.send_signal(how)
    p.wait(60)
    if how == signal.SIGKILL:  # the guest sees that nobody is there, and the engine that
        assert wait_for(lambda: not needs_engine.ours())
    assert not needs_engine.ours()


def test_cleanups_at_once_do_not_fight(needs_engine, repo):
    """covers: NFR-020-21"""
    for i in range(4):
        abandoned(needs_engine, "acode-left-%d" % i)
    several = [subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "cleanup", "--json"],
                                cwd=repo, env=environment(), stdout=subprocess.PIPE, text=True)
               for _ in range(3)]
    removed = [json.loads(p.communicate(timeout=90)[0])["removed"] for p in several]
    assert [p.returncode for p in several] == [0, 0, 0] and sum(removed) == 4
    assert not needs_engine.ours()


def test_a_container_that_vanishes_is_no_trouble(needs_engine, start, acode, containers):
    """Removed behind our back, by `docker rm -f`. covers: NFR-020-22"""
    p = start(UP)
    needs_engine.call("DELETE", "/containers/%s?force=1" % containers("acode-")[0]["Id"])
    _, err = p.communicate(timeout=90)
    assert p.returncode == 125 and "[VIAL-LOST]" in err
    assert acode("sandbox", "exec", "echo next").out == "next\n"


# Security (NFR-020-25 to NFR-020-38)

STATUS = "grep -E '^(Uid|Cap|NoNewPrivs|Seccomp):?' /proc/self/status"


def test_a_command_is_nobody_in_particular_and_can_do_nothing_special(acode):
    """covers: NFR-020-25 NFR-020-27 NFR-020-28"""
    done = acode("sandbox", "exec", STATUS + "; id -u")
    lines = done.out.splitlines()
    caps = [line.split()[1] for line in lines if line.startswith("Cap")]
    assert caps == ["0" * 16] * 5, done.out
    assert "NoNewPrivs:\t1" in lines and "Seccomp:\t2" in lines
    assert lines[-1] != "0" and "0" not in lines[0].split()
    # Calls that no command needs, and that have led out of containers.
    done = acode("sandbox", "exec", "unshare -Ur true || echo no; mount -t tmpfs x /tmp || "
                 "echo no; chroot / true || echo no; dd if=/dev/mem count=1 || echo no")
    assert done.out == "no\n" * 4, done.err


def test_the_container_is_closed_on_all_sides(held):
    """covers: NFR-020-25 NFR-020-26 NFR-020-27 NFR-020-28 NFR-020-30 NFR-020-36 NFR-020-37"""
    c = held()
    host = c["HostConfig"]
    assert c["Config"]["User"] == "4242:4242"  # the repository's owner, who is not root
    assert not host["Privileged"] and host["ReadonlyRootfs"]
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert any(o.startswith("seccomp=") and "SCMP_ACT_ALLOW" in o for o in host["SecurityOpt"])
    assert host["NetworkMode"] == "none" and c["Config"]["NetworkDisabled"]
    assert host["IpcMode"] == "private" and host["CgroupnsMode"] == "private"
    assert "host" not in (host["PidMode"], host["UTSMode"], host["UsernsMode"])
    assert not host["Devices"] and not host["Binds"] and not host["PortBindings"]
    assert host["Memory"] and host["NanoCpus"] and host["PidsLimit"]


def test_the_network_is_off_unless_it_is_enabled(needs_engine, acode):
    """covers: NFR-020-30"""
    line = "ls /sys/class/net"
    assert acode("sandbox", "exec", line).out.split() == ["lo"]
    assert "eth0" in acode("sandbox", "exec", "--network", "bridge", line).out.split()


def test_air_gapped_means_no_network_whatever_is_asked_for(acode, tmp_path_factory, held):
    """covers: NFR-020-31"""
    mine = tmp_path_factory.mktemp("own") / "vial.yaml"
    mine.write_text("policy: {networks: [none]}\n")
    done = acode("--config", str(mine), "sandbox", "exec", "--network", "bridge", "echo never")
    assert done.status == 125 and not done.out and "network 'bridge'" in done.err
    c = held(VIAL_CONFIG=str(mine))
    assert c["HostConfig"]["NetworkMode"] == "none" and c["Config"]["NetworkDisabled"]


def test_the_environment_of_the_caller_stays_outside(acode):
    """covers: NFR-020-34"""
    done = acode("sandbox", "exec", "--env", "GIVEN=yes", "env", SECRET_TOKEN="hunter2",
                 LD_PRELOAD_X="/evil.so", AWS_SECRET_ACCESS_KEY="hunter2")
    assert "GIVEN=yes" in done.out and "hunter2" not in done.out and "evil" not in done.out
    for bad in ("1X=1", "A B=1", "=x"):
        done = acode("sandbox", "exec", "--env", bad, "echo never here")
        assert done.status == 125 and not done.out, bad


def test_nothing_of_the_host_is_seen_or_reached(acode, repo):
    """covers: NFR-020-36 NFR-020-37"""
    done = acode("sandbox", "exec", "ps -e -o comm= 2>/dev/null | wc -l; ls /proc | grep -c '^[0-9]'; "
                 f"ls -d {repo} /root/.ssh /var/run/docker.sock 2>/dev/null; "
                 "hostname; touch /usr/x /etc/x /x || echo closed")
    lines = done.out.splitlines()
    assert int(lines[0]) < 10 and int(lines[1]) < 10, done.out
    assert str(repo) not in done.out and "docker.sock" not in done.out
    assert os.uname().nodename not in lines and lines[-1] == "closed"


def test_names_say_nothing_of_the_repository(needs_engine, start, containers, repo):
    """covers: NFR-020-38"""
    start("echo up; exec >/dev/null; sleep 60")
    c, = containers("acode-")
    for part in repo.parts[1:]:
        assert part not in c["Name"] and part not in c["Config"]["Hostname"]


# Maintainability (NFR-020-39 to NFR-020-48)


# Observability (NFR-020-49 to NFR-020-60)


def test_the_containers_there_are_are_counted(going, served, api, acode):
    """covers: NFR-020-57 NFR-020-60"""
    going(STAYS)
    space = os.stat("/proc/self/ns/pid").st_ino
    made = api.call("POST", "/containers/create?name=acode-orphan", {
        "Image": BASE, "Cmd": ["sleep", "60"], "Labels": {
            "vial.managed": "true", "vial.vessel": "v-1",
            "vial.owner": "vial-%d-%d-1-v-1" % (space, os.getpid())}})
    try:
        for text in (served.ask("GET", "/metrics").body.decode(), acode("metrics").out):
            assert counted(text, "vial_vessels") >= 2
            assert counted(text, "vial_vessels_orphaned") == 1
    finally:
        api.call("DELETE", "/containers/%s?force=true" % made["Id"])


def test_ends_and_limits_are_recorded(acode, audit):
    """covers: NFR-020-35 NFR-020-49 NFR-020-53 NFR-020-54 NFR-020-58"""
    def run(*args):
        acode("sandbox", "exec", "--config", str(audit.config), *args)
        return audit("run")[-1]
    assert run("exit 41")["exit_code"] == 41
    hungry = run("--memory", "64m", "exec python3 -c 'b = bytearray(300 << 20)'")
    assert (hungry["verdict"], hungry["preset_code"]) == ("oom", "ACODE-SBX-004")
    assert "memory" in hungry["limits_hit"]
    assert "time" in run("--timeout", "1s", "sleep 60")["limits_hit"]
    assert "output" in run("--output-limit", "10", "seq 1 100")["limits_hit"]
    begun = audit("begin")
    assert [b["run"] for b in begun] == [r["run"] for r in audit("run")]
    assert {b["driver"] for b in begun} == {"docker" if DOCKER else "native"}


def test_health_tells_of_each_driver(served):
    """covers: NFR-020-59"""
    answer = served.ask("GET", "/readyz")
    ready = answer.json
    drivers = {d["name"]: d for d in ready["drivers"]}
    assert answer.status == 200 and ready["status"] == "ready"
    assert drivers["native"]["ready"] and drivers["docker"]["ready"] == DOCKER
    assert ready["needed"] == {"driver": "docker", "fallback": "native", "ready": True,
                               "takes": "docker" if DOCKER else "native"}
    if DOCKER:
        assert drivers["docker"]["version"]
    else:
        assert drivers["docker"]["error"]["code"] == "VIAL-ENGINE-DOWN"


def test_a_driver_that_the_settings_need_makes_it_unready(api):
    """covers: NFR-020-59"""
    with Daemon(serve={"keeper": "off"}, defaults={"driver": "docker"},
                env={"DOCKER_HOST": "unix:///nonexistent/sock"}) as d:
        answer = d.ask("GET", "/readyz")
        assert (answer.status, answer.json["status"]) == (503, "not ready")
        assert answer.json["needed"]["takes"] is None


def test_the_doctor_tells_the_same(acode):
    """covers: FR-020-05 NFR-020-59"""
    told = acode("doctor").out
    if DOCKER:
        assert "docker: usable, engine " in told
        assert told.endswith("settings: driver docker\n")
    else:
        assert "docker: not usable" in told
        assert told.endswith("settings: driver docker, for which native stands in\n")


def test_what_is_cleaned_up_is_recorded(acode, audit):
    """covers: NFR-020-35 NFR-020-48 NFR-020-49"""
    assert acode("sandbox", "cleanup", "--config", str(audit.config)).status == 0
    told = {r["driver"]: r for r in audit("cleanup")}
    assert {"native", "docker"} <= set(told)
    assert all(r["removed"] >= 0 and r["caller"]["uid"] == os.getuid()
               for r in told.values())


# User Manual: configuration and commands

# The document's file, with every value another.
WIDE = """# .agent/config.yml
sandbox:
  enabled: true

  defaults:
    cpu_limit: 2
    memory_mb: 1024
    network: true

  images:
    dotnet: mcr.microsoft.com/dotnet/sdk:8.0
    node: node:22-alpine
"""
CHANGES = ("images.node from node:20-alpine to node:22-alpine", "memory from 512m to 1g",
           "cpus from 1 to 2", "network from none to bridge")


@pytest.fixture
def manual(vial, repo, tmp_path_factory):
    """Who reads the manual: in any directory of the repository, with a state of their own."""
    class Reader:
        file = repo / ".agent" / "config.yml"
        env = {"VIAL_STATE": str(tmp_path_factory.mktemp("state"))}
        below = repo / "src" / "deep"

        def __call__(self, *args, cwd=repo, **env):
            return vial("--preset", "acode", *args, cwd=str(cwd), **{**self.env, **env})

        def trusts(self, text):
            self.file.write_text(text)
            done = self("trust", str(self.file))
            assert done.status == 0, done.err
            return done.out
    Reader.below.mkdir(parents=True)
    give_away(repo / "src", Reader.below)
    return Reader()


def test_the_documents_file_works_as_it_stands(manual):
    """Its values are the defaults, so that nobody need trust it. covers: NFR-020-43"""
    assert manual("sandbox", "exec", "echo built").out == "built\n"
    where = manual("config", "show", "--json").json["defaults"]
    assert where["memory"] == {"value": "512m", "from": str(manual.file)}


def test_a_strangers_file_can_lower_and_not_raise(manual):
    for old, new in [("cpu_limit: 1", "cpu_limit: 4"), ("memory_mb: 512", "memory_mb: 4096"),
                     ("network: false", "network: true"), ("node:20-alpine", "evil.example/data"),
                     ("enabled: true", "enabled: false")]:
        manual.file.write_text(CONFIG.replace(old, new))
        done = manual("sandbox", "exec", "echo never here")
        assert done.status == 125 and not done.out, (new, done.err)
    manual.file.write_text(CONFIG.replace("512", "64"))
    assert manual("config", "show", "--json").json["defaults"]["memory"]["value"] == "64m"


def test_a_trusted_file_sets_what_it_says(manual):
    """covers: NFR-020-43"""
    manual.file.write_text(WIDE)
    refused = manual("sandbox", "exec", "echo never here")
    assert (refused.status, refused.out) == (125, "")
    assert all(change in refused.err for change in CHANGES), refused.err
    assert f"vial trust --preset acode '{manual.file}'" in refused.err
    told = manual.trusts(WIDE)
    assert all(change in told for change in CHANGES), told
    big = "python3 -c 'b = bytearray(700 << 20); print(len(b) >> 20)'"
    assert manual("sandbox", "exec", big).out == "700\n"
    manual.file.write_text(CONFIG)
    assert manual("sandbox", "exec", big).status == 137


def test_one_byte_more_and_it_is_a_strangers_again(manual):
    manual.trusts(WIDE)
    manual.file.write_text(WIDE.replace("1024", "2048"))
    refused = manual("sandbox", "exec", "echo never here")
    assert (refused.status, refused.out) == (125, "")
    assert "has changed since you trusted it" in refused.err
    assert "memory from 1g to 2g" in refused.err and "cpus" not in refused.err
    assert "ACODE-SBX" not in refused.err  # no container was asked for yet
    manual.file.write_text(WIDE)
    assert manual("sandbox", "exec", "echo built").out == "built\n"
    assert manual("trust", "--revoke", str(manual.file)).status == 0
    assert manual("sandbox", "exec", "echo never here").status == 125


def test_the_file_is_found_from_every_directory_of_the_repository(manual):
    """covers: NFR-020-43"""
    manual.file.write_text(CONFIG.replace("512", "64"))
    for where in (manual.below, manual.below.parent, manual.file.parent):
        shown = manual("config", "show", "--json", cwd=where).json["defaults"]["memory"]
        assert shown == {"value": "64m", "from": str(manual.file)}
    manual.trusts(WIDE)
    done = manual("sandbox", "exec", "pwd; cat ../../in.txt", cwd=manual.below)
    assert done.out == "/workspace/src/deep\ngiven\n", done.err


def test_the_tools_server_reads_the_same_file(manual, mcp, repo):
    manual.trusts(WIDE)
    tool = mcp("acode", cwd=str(manual.below), **manual.env).tools()["sandbox_exec"]
    assert "Network: bridge." in tool["description"], tool["description"]
    assert "1 GB of memory, CPU cores: 2" in tool["description"], tool["description"]


def test_the_engine_holds_what_a_trusted_file_says(needs_engine, manual, start, containers):
    """covers: FR-020-51 FR-020-52 FR-020-53 FR-020-67 FR-020-68 FR-020-84"""
    needs_engine.tag(BASE, "node:22-alpine")
    manual.trusts(WIDE)
    start("--task", "wide", "node --version; echo up; sleep 60", cwd=manual.below, **manual.env)
    [made] = [c for c in containers("acode-") if c["Name"].endswith("-wide")]
    host = made["HostConfig"]
    assert host["NanoCpus"] == 2 * 10 ** 9
    assert host["Memory"] == host["MemorySwap"] == 1 << 30
    assert host["NetworkMode"] == "bridge"
    assert made["Config"]["Image"] == "node:22-alpine"


def test_a_command_wins_over_a_trusted_file(needs_engine, manual, start, containers):
    """covers: FR-020-61"""
    manual.trusts(WIDE)
    start("--task", "own", "--cpus", "0.5", "--memory", "96m", "--network", "none", UP,
          **manual.env)
    [made] = [c for c in containers("acode-") if c["Name"].endswith("-own")]
    host = made["HostConfig"]
    assert (host["NanoCpus"], host["Memory"]) == (5 * 10 ** 8, 96 << 20)
    assert host["NetworkMode"] == "none"


def test_the_operators_policy_wins_over_a_trusted_file(manual, mcp, repo, tmp_path_factory):
    """As `.agent/config.yml` is not read beside --config, by vial.yaml, which is trusted the
    same way. covers: FR-020-70"""
    operator = tmp_path_factory.mktemp("operator") / "vial.yaml"
    operator.write_text("policy: {networks: [none]}\n")
    mine = manual.file.parent.parent / "vial.yaml"
    mine.write_text("defaults: {network: bridge}\n")
    assert manual("trust", str(mine)).status == 0
    done = manual("sandbox", "exec", "--config", str(operator), "echo never here")
    assert (done.status, done.out) == (125, "") and "VIAL-POLICY" in done.err
    client = mcp("acode", "--config", str(operator), cwd=str(repo), **manual.env)
    answer = client("sandbox_exec", command="echo never here")
    assert answer.error and "never" not in answer.text and "policy" in answer.text


def test_a_repository_that_somebody_else_put_above_is_not_mounted(manual, repo):
    """As git's safe.directory. covers: FR-020-40"""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    mine = manual.below
    os.chown(repo, 1000, 1000)
    os.chown(repo / ".git", 1000, 1000)
    os.chown(mine, 0, 0)
    refused = manual("sandbox", "exec", "cat ../../in.txt", cwd=mine)
    assert (refused.status, refused.out) == (125, "")
    assert "belongs to user 1000" in refused.err and f"vial trust '{repo}'" in refused.err
    assert manual("trust", str(repo)).status == 0
    assert manual("sandbox", "exec", "cat ../../in.txt", cwd=mine).out == "given\n"


def test_the_commands_of_the_manual(manual, start):
    """`sandbox exec`, `sandbox list`, `sandbox cleanup`."""
    assert manual("sandbox", "exec", "pwd;ls").out == "/workspace\nin.txt\nsrc\n"
    p = start(UP, **manual.env)
    stranger = subprocess.Popen([VIAL, "run", "--driver", "native", "bash", UP], text=True,
                                env=environment(), stdout=subprocess.PIPE)
    try:
        assert stranger.stdout.readline() == "up\n"
        listed = manual("sandbox", "list", "--json").json
        assert listed and all(v["name"].startswith("acode-") for v in listed)
        assert stranger.pid not in [v.get("owner") for v in listed]
        if not DOCKER:
            assert p.pid in [v.get("owner") for v in listed]
        assert "acode-" in manual("sandbox", "list").out
        assert manual("sandbox", "cleanup").status == 0
    finally:
        stranger.terminate()
        stranger.communicate()


def test_the_commands_explain_themselves(manual):
    for words in (["sandbox"], ["sandbox", "--help"]):
        done = manual(*words)
        assert done.status == 0, done.err
        assert [line.split()[:2] for line in done.out.splitlines()[:3]] == [
            ["sandbox", "exec"], ["sandbox", "list"], ["sandbox", "cleanup"]]
    assert manual("sandbox", "exec", "--help").out.startswith("vial exec: ")
    done = manual("sandbox", "run", "true")
    assert done.status == 125
    assert done.err == ("vial: error: unknown command 'sandbox run' [VIAL-USAGE]; preset acode "
                        "has 'sandbox exec', 'sandbox list', 'sandbox cleanup'\n")


def test_there_is_time_for_a_build(manual, mcp, repo):
    """covers: FR-020-22"""
    assert manual("config", "show", "--json").json["defaults"]["timeout"] == {
        "value": "10m", "from": "preset acode"}
    tool = mcp("acode", cwd=str(repo)).tools()["sandbox_exec"]
    assert "10 minutes unless you give a timeout" in tool["description"]


# Failure Modes and Error Codes


def test_codes_are_the_same_through_a_daemon(acode, through, repo):
    """covers: FR-020-49"""
    for flags, code in [(["--mount", "/etc:/x"], "ACODE-SBX-003"),
                        (["--memory", "100g"], "ACODE-SBX-004")]:
        here = acode("sandbox", "exec", "--json", *flags, "true").json
        there = through("sandbox", "exec", "--json", *flags, "true").json
        assert here["preset_code"] == there["preset_code"] == code
        assert here["error"] == there["error"]
        here = acode("sandbox", "exec", *flags, "true")
        there = through("sandbox", "exec", *flags, "true")
        assert (here.err, here.status) == (there.err, there.status) and code in here.err


def test_a_failed_pull_is_the_same_through_a_daemon(needs_engine, acode, through):
    """covers: FR-020-88"""
    flags = ["--image", "no-such:1", "true"]
    here = acode("sandbox", "exec", "--json", *flags).json
    there = through("sandbox", "exec", "--json", *flags).json
    assert here["preset_code"] == there["preset_code"] == "ACODE-SBX-002"
    assert here["error"] == there["error"] and here["error"]["code"] == "VIAL-PULL"
    assert "[ACODE-SBX-002, VIAL-PULL]" in through("sandbox", "exec", *flags).err


def test_a_daemon_of_another_preset_is_refused(vial, repo):
    with Daemon() as d:
        done = vial("--preset", "acode", "sandbox", "exec", "--daemon", "--socket", d.socket,
                    "true", cwd=str(repo))
    assert done.status == 125 and "'--preset' has no effect on a daemon" in done.err


def test_error_codes_are_explained(vial):
    """covers: NFR-020-44"""
    for code, meaning in [("ACODE-SBX-001", "Container creation failed"),
                          ("ACODE-SBX-002", "Image pull failed"),
                          ("ACODE-SBX-003", "Mount error"),
                          ("ACODE-SBX-004", "Resource limit exceeded")]:
        done = vial("errors", code)
        assert done.status == 0 and meaning in done.out and "fix " in done.out
        told, = vial("errors", "--json", code).json
        assert (told["preset"], told["meaning"]) == ("acode", meaning)
        assert all(vial("errors", ours).status == 0 for ours in told["errors"])
        assert told["errors"] or told["verdicts"]
        assert meaning in vial("--preset", "acode", "errors").out
    assert "VIAL-MOUNT-OUTSIDE" in vial("errors", "ACODE-SBX-003").out
    assert vial("errors", "ACODE-SBX-005").status == 125
# Not about the sandbox, or not of acode's: these keep vial's own code.
OWN_CODES = {
    "what was asked is not understood": "USAGE JSON YAML FIELD VALUE LANGUAGE PRESET",
    "the program, not its container": "INTERPRETER EXEC CWD FILE PATH NO-FILE LOST",
    "the caller's wish": "CANCELLED TRUST",
    "templates, which acode has not": "TEMPLATE",
    "trouble of vial itself": "SYSTEM MEMORY INTERNAL",
    "sessions, which acode has not": "SESSION OFFSET TAR CONFLICT CONTEXT PAUSED PORT",
    "the daemon's door": "HTTP ROUTE AUTH SCOPE HOST IDEMPOTENCY DAEMON",
}


def test_every_code_is_one_of_the_documents_or_has_its_reason():
    text = (ROOT / "presets" / "acode.yaml").read_text()
    block = re.search(r"\n  errors:\n((?:    .*\n)+)", text).group(1)
    given = dict(re.findall(r"VIAL-(\S+): (\S+)", block))
    all_codes = re.findall(r'"VIAL-(\S+)"', (ROOT / "src" / "base" / "codes.def").read_text())
    own = " ".join(OWN_CODES.values()).split()
    assert sorted(own + list(given)) == sorted(all_codes)
    assert set(given.values()) == {"ACODE-SBX-00%d" % i for i in (1, 2, 3, 4)}


def test_a_port_that_is_taken_and_a_network_that_is_missing_have_their_code(needs_engine, acode,
                                                                            start):
    """The document has one for what could not be created. covers: FR-020-78"""
    def refused(*flags):
        return acode("sandbox", "exec", "--json", "--network", "bridge", *flags, "echo never").json
    start("--network", "bridge", "--ports", "18080:80", UP)
    r = refused("--ports", "18080:80")
    assert (r["error"]["code"], r["preset_code"]) == ("VIAL-ENGINE-PORT", "ACODE-SBX-001")
    assert "18080" in r["error"]["message"] and "another" in r["error"]["remedy"]
    r = refused("--network-name", "nowhere")
    assert (r["error"]["code"], r["preset_code"]) == ("VIAL-ENGINE-NETWORK", "ACODE-SBX-001")
    assert "nowhere" in r["error"]["message"] and r["error"]["remedy"]
