# SPDX-License-Identifier: Apache-2.0
"""coding-agent: the Docker sandbox layer, a session with a container."""
import json

import pytest
from conftest import DOCKER, wait_for


class Session:
    def __init__(self, client, name):
        self.client = client
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


def test_the_tools_are_the_documents_functions(mcp):
    """covers: D-01"""
    tools = mcp("coding-agent").tools()
    assert list(tools) == ["startContainer", "execInContainer", "readFileInContainer",
                           "writeFileInContainer", "listDirectoryInContainer",
                           "cleanupContainer"]
    properties = tools["execInContainer"]["inputSchema"]["properties"]
    assert list(properties) == ["containerId", "command", "timeoutMs"]
    assert properties["timeoutMs"]["default"] == 60000


def test_a_session_owns_one_container(mcp, containers, vial):
    """covers: D-01"""
    session = Session(mcp("coding-agent"), "s-own")
    assert not session.start.error and session.id in session.start.text
    assert session.exec("pwd").json == {"stdout": "/workspace\n", "stderr": "",
                                        "exitCode": 0, "code": None}
    session.exec("echo kept > note")
    assert session.exec("cat note").text == "kept\n"
    if DOCKER:
        [c] = containers("coding-agent-s-own")
        assert c["Name"] == "/coding-agent-s-own"
        assert c["Config"]["Image"] == "oven/bun:latest"
    plan = vial("--preset", "coding-agent", "plan", "--driver", "docker", "sh", "1").json
    assert plan["image"] == "oven/bun:latest" and plan["workdir"] == "/workspace"


def test_a_command_gives_both_streams_and_its_exit_code(session):
    """covers: D-02"""
    answer = session.exec("echo out; echo err >&2; exit 9")
    assert answer.json == {"stdout": "out\n", "stderr": "err\n", "exitCode": 9, "code": None}
    assert answer.text == "out\n[stderr]\nerr\n[exit code: 9]"


def test_a_late_command_is_really_killed(session):
    """covers: D-02 D-06"""
    answer = session.exec("trap '' TERM; setsid sleep 77 & sleep 78", timeoutMs=300)
    assert answer.json["code"] == "COMMAND_TIMEOUT" and answer.text.startswith("COMMAND_TIMEOUT")
    left = session.exec("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done")
    assert "sleep 7" not in left.json["stdout"].replace("for p", ""), left.text


@pytest.mark.parametrize("content", ["plain\n", "", "quotes \" ' ` $(id) ${x} \\ %s\n",
                                     "\u00e9\u4e16\U0001f600\r\n\ttab", "EOF\n'EOF'\n",
                                     "x" * 9000])
def test_content_survives_byte_for_byte(session, content):
    """covers: D-03"""
    assert session.write("deep/er/file.txt", content).json["exitCode"] == 0
    assert session.read("deep/er/file.txt").json["stdout"] == content
    assert session.exec("wc -c < deep/er/file.txt").text.strip() == str(len(content.encode()))


def test_paths_are_relative_and_never_leave_the_workdir(session):
    """covers: D-03"""
    session.write("/a.txt", "top")
    assert session.exec("cat /workspace/a.txt").text == "top"
    assert "a.txt" in session.list().text and "a.txt" in session.list("/").text
    for path in ["../etc/passwd", "/../../etc/passwd", "x/../../y"]:
        for answer in (session.read(path), session.write(path, "x"), session.list(path)):
            assert answer.error and answer.json["code"] == "EXEC_FAILED"
    session.exec("ln -s /etc/passwd out; ln -s / root")
    assert session.read("out").error and session.read("root/etc/passwd").error


def test_a_missing_file_is_an_error_that_the_agent_reads(session):
    """covers: D-06"""
    answer = session.read("nope")
    assert answer.error and answer.text.startswith("EXEC_FAILED")
    assert session.exec("echo on").text == "on\n"


def test_each_stream_is_cut_at_ten_thousand_characters(session):
    """covers: D-04"""
    r = session.exec("head -c 20000 /dev/zero | tr '\\0' x; "
                     "head -c 20000 /dev/zero | tr '\\0' y >&2").json
    assert r["stdout"] == "x" * 10000 + "\n[...truncated at 10000 chars...]"
    assert r["stderr"] == "y" * 10000 + "\n[...truncated at 10000 chars...]"
    assert session.exec("head -c 10000 /dev/zero | tr '\\0' x").json["stdout"] == "x" * 10000


def test_cleanup_removes_and_never_fails(session, containers):
    """covers: D-05"""
    session.exec("sleep 1000 & trap '' TERM; true")
    assert session.cleanup().json == {"done": True}
    assert wait_for(lambda: not containers("coding-agent-s-one"))
    again = session.cleanup()
    assert again.json == {"done": True} and not again.error
    gone = session.exec("echo no")
    assert gone.error and gone.json["code"] == "EXEC_FAILED"


def test_a_start_that_fails_ends_the_session(mcp, tmp_path):
    """covers: D-06 D-07"""
    (tmp_path / "c.yaml").write_text("defaults: {driver: docker}\n")
    client = mcp("coding-agent", "--config", str(tmp_path / "c.yaml"),
                 DOCKER_HOST="unix:///nonexistent/sock")
    answer = client("startContainer", sessionId="s-two")
    assert answer.error and answer.json == {"containerId": None,
                                            "code": "CONTAINER_START_FAILED"}
    assert answer.text.startswith("CONTAINER_START_FAILED: Failed to start container: ")


def test_whatever_happens_the_container_goes(mcp, containers, vial):
    """covers: D-05 D-07"""
    client = mcp("coding-agent")
    session = Session(client, "s-three")
    session.exec("sleep 1000 &")
    pid = client.process.pid
    client.close()
    assert wait_for(lambda: not containers("coding-agent-s-three"))
    assert not [v for v in json.loads(vial("ps", "--json").out) if v.get("owner") == pid]
    killed = mcp("coding-agent")
    Session(killed, "s-four").exec("sleep 1000 &")
    killed.process.kill()
    killed.process.wait()
    assert wait_for(lambda: not containers("coding-agent-s-four"))
