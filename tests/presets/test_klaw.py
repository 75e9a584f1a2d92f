# SPDX-License-Identifier: Apache-2.0
"""klaw, TASK-011: the tool code_execute."""
import json
import os

import pytest
import yaml
from conftest import DOCKER, ROOT, wait_for

pytestmark = pytest.mark.usefixtures("own_output")
MARK = "touch /tmp/mark"
LOOK = "test -e /tmp/mark && echo there || echo gone"


@pytest.fixture
def klaw(mcp, tmp_path):
    """The tool, under a block `codeExecution` of the caller's."""
    def start(**block):
        more = []
        if block:
            file = tmp_path / "engine.yaml"
            file.write_text(yaml.safe_dump({"other": 1, "codeExecution": block}))
            more = ["--config", str(file)]
        client = mcp("klaw", *more)

        def execute(code, language="bash", **arguments):
            return client("code_execute", language=language, code=code, **arguments)
        execute.client = client
        return execute
    return start


def test_the_tool_has_the_documents_parameters(klaw):
    """covers: K-01"""
    tools = klaw().client.tools()
    assert list(tools) == ["code_execute"]
    schema = tools["code_execute"]["inputSchema"]
    assert schema["properties"]["language"]["enum"] == ["python", "bash"]
    assert schema["properties"]["timeout"]["default"] == 30
    assert schema["properties"]["timeout"]["type"] == "integer"
    assert schema["required"] == ["language", "code"]


def test_python_and_bash_code_executes_and_returns_output(klaw):
    """covers: K-01 K-08 K-12"""
    execute = klaw()
    assert execute("print(6*7)", "python").text == "42\n"
    answer = execute("echo out; echo err >&2; exit 3")
    assert answer.text == "out\n[stderr]\nerr\n[exit code: 3]"
    assert answer.json == {"stdout": "out\n", "stderr": "err\n", "exitCode": 3,
                           "timedOut": False}
    assert execute("true").text == "(no output)"
    assert not answer.error


def test_another_language_is_refused(klaw):
    answer = klaw()("puts 1", "ruby")
    assert answer.error and "python, bash" in answer.text


def test_repeated_calls_reuse_one_container(klaw, containers):
    """covers: K-02"""
    execute = klaw()
    assert execute(MARK).text == "(no output)"
    first = containers("klaw-sandbox-")
    assert execute(LOOK).text == "there\n"
    assert execute("import os; print(os.path.exists('/tmp/mark'))", "python").text == "True\n"
    if DOCKER:
        assert len(first) == 1
        assert [c["Id"] for c in containers("klaw-sandbox-")] == [first[0]["Id"]]


def test_without_keep_alive_each_call_has_a_container_of_its_own(klaw, containers):
    """covers: K-03 K-13"""
    execute = klaw(keepAlive=False)
    assert execute(MARK).text == "(no output)"
    assert execute(LOOK).text == "gone\n"
    assert wait_for(lambda: not containers("klaw-sandbox-"))


def test_the_container_is_made_anew_after_so_many_executions(klaw):
    """covers: K-05"""
    execute = klaw(keepAliveMaxExecutions=3)
    execute(MARK)
    assert [execute(LOOK).text for _ in range(3)] == ["there\n", "there\n", "gone\n"]


def test_an_idle_container_is_stopped_and_made_anew(klaw, vial):
    """covers: K-05"""
    execute = klaw(keepAliveIdleTimeoutMin=0.02)
    execute(MARK)
    pid = execute.client.process.pid

    def is_idle():
        return not [v for v in vial("ps", "--json").json
                    if v.get("owner") == pid or v["driver"] == "docker"]
    assert wait_for(is_idle)
    assert execute(LOOK).text == "gone\n"


def test_a_shutdown_stops_the_container(klaw, vial, containers):
    """covers: K-09"""
    execute = klaw()
    execute("sleep 1000 &")
    pid = execute.client.process.pid
    execute.client.close()
    assert execute.client.process.returncode == 0
    assert wait_for(lambda: not containers("klaw-sandbox-"))
    assert not [v for v in vial("ps", "--json").json if v.get("owner") == pid]


def test_the_limits_are_the_documents(klaw, vial, containers, api):
    """covers: K-04"""
    plan = vial("--preset", "klaw", "plan", "--driver", "docker", "bash", "true").json
    assert plan["limits"]["memory_bytes"] == 256 << 20
    assert plan["limits"]["milli_cpus"] == 1000 and plan["network"] == "bridge"
    assert plan["limits"]["tmp_bytes"] == 64 << 20
    execute = klaw(allowNetwork=False)
    assert "Read-only" in execute("touch /usr/x").text
    assert execute("df -m /tmp | tail -1 | awk '{print $2}'").text == "64\n"
    killed = execute("b = bytearray(600 << 20)\nprint(len(b))", "python")
    assert killed.text == "[killed: out of memory]" and killed.json["exitCode"] == 137
    # What fits does run: it is the limit that killed, not something else.
    fits = execute("b = bytearray(150 << 20)\nprint(len(b) >> 20)", "python")
    assert fits.text == "150\n"
    for c in containers("klaw-sandbox-"):
        host = c["HostConfig"]
        assert host["ReadonlyRootfs"] and host["NetworkMode"] == "none"
        assert host["Memory"] == host["MemorySwap"] == 256 << 20
        assert host["NanoCpus"] == 10 ** 9
    result = vial("--preset", "klaw", "run", "--json", "python", "b = bytearray(600 << 20)").json
    assert (result["verdict"], result["limits_hit"]) == ("oom", ["memory"])
    assert 0 < result["usage"]["memory_peak_bytes"] <= 256 << 20


def test_the_network_is_a_bridge_unless_disabled(needs_engine, klaw, containers):
    """covers: K-04"""
    execute = klaw()
    execute("true")
    assert [c["HostConfig"]["NetworkMode"] for c in containers("klaw-sandbox-")] == ["bridge"]


def test_skills_are_readable_and_output_is_writable(mcp, place, own_output):
    """covers: K-06 K-12"""
    (place / "skills").mkdir()
    (place / "skills" / "s.sh").write_text("echo skill")
    client = mcp("klaw", KLAW_WORKSPACE=str(place))

    def execute(code):
        return client("code_execute", language="bash", code=code)
    assert execute("cat /skills/s.sh").text == "echo skill"
    assert "Read-only" in execute("echo x > /skills/y").text
    assert not (place / "skills" / "y").exists()
    name = "vial-test-%d" % os.getpid()
    assert execute("echo large > /output/%s" % name).text == "(no output)"
    assert (own_output / name).read_text() == "large\n"
    (own_output / name).unlink()


def test_further_mounts_come_from_the_configuration_alone(klaw, place):
    """covers: K-06 K-13"""
    (place / "f").write_text("given")
    execute = klaw(volumeMounts=["%s:/data:ro" % place])
    assert execute("cat /data/f; ls -d /output").text == "given/output\n"
    assert "mounts" not in json.dumps(execute.client.tools()["code_execute"]["inputSchema"])


@pytest.mark.parametrize("mount", ["/var/run/docker.sock:/s", "/run:/r", "/proc:/p", "/:/h"])
def test_the_docker_socket_and_the_host_cannot_be_mounted(klaw, mount):
    """covers: K-07"""
    answer = klaw(volumeMounts=[mount], keepAlive=False)("ls /s /r /p /h")
    assert answer.error and "VIAL-MOUNT" in answer.text


@pytest.mark.parametrize("preset", ["klaw", "antigravity", "acode", "codomyrmex",
                                    "coding-agent"])
def test_what_is_forbidden_has_no_name_under_any_preset(vial, preset, tmp_path):
    """covers: K-07"""
    for flag in ["--privileged", "--pid=host", "--cap-add=ALL", "--device=/dev/sda",
                 "--security-opt=x", "--ipc=host"]:
        done = vial("--preset", preset, "run", flag, "bash", "true")
        assert done.status == 125 and "VIAL-FIELD" in done.err
    done = vial("--preset", preset, "run", "--network", "host", "bash", "true")
    assert done.status == 125 and "VIAL-VALUE" in done.err
    done = vial("--preset", preset, "run", "--driver", "docker", "--network", "bridge",
                "--network-name", "host", "bash", "true")
    assert done.status == 125 and "container network" in done.err
    for line in ["privileged: true", "pid: host", "host_network: true"]:
        (tmp_path / "c.yaml").write_text("defaults: {%s}\n" % line)
        done = vial("--preset", preset, "--config", str(tmp_path / "c.yaml"), "run", "bash",
                    "true")
        assert done.status == 125 and "VIAL-FIELD" in done.err
    request = {"language": "bash", "code": "true", "privileged": True}
    done = vial("--preset", preset, "run", "--json", "--request", "-",
                stdin=json.dumps(request))
    assert done.json["error"]["code"] == "VIAL-FIELD"


def test_a_container_is_never_privileged(needs_engine, klaw, containers):
    """covers: K-07"""
    klaw()("true")
    for c in containers("klaw-sandbox-"):
        host = c["HostConfig"]
        assert not host["Privileged"] and host["CapDrop"] == ["ALL"] and not host["CapAdd"]
        assert "host" not in (host["NetworkMode"], host["PidMode"], host["IpcMode"])
        assert not [m for m in c["Mounts"] if "docker.sock" in str(m.get("Source"))]
        assert c["Config"]["User"] not in ("", "0", "root", "0:0")


def test_an_endless_loop_ends_at_its_time_out(klaw):
    """covers: K-01 K-08 K-12"""
    execute = klaw()
    answer = execute("while :; do :; done", timeout=1)
    assert answer.text == "[timed out after 1 s]" and answer.json["timedOut"]
    assert execute("echo on").text == "on\n"
    assert klaw(timeout=1)("while True: pass", "python").json["timedOut"]


def test_output_is_cut_at_ten_thousand_characters(klaw):
    """covers: K-08"""
    execute = klaw()
    text = execute("print('\u00e9' * 12000, end='')", "python").text
    assert text.startswith("\u00e9" * 10000 + "\n[output truncated at 10000 characters")
    assert execute("print('x' * 9999)", "python").text == "x" * 9999 + "\n"
    both = execute("print('o' * 9000); import sys; sys.stderr.write('e' * 9000)", "python").text
    assert 10000 <= both.count("o") + both.count("e") < 10400 and both.count("e") > 2000


def test_there_is_nothing_of_the_host_inside(klaw, place):
    """covers: K-12"""
    (place / "secret").write_text("hunter2")
    answer = klaw()("cat %s/secret /root/.ssh/* /etc/shadow; ls /home /var/lib/docker"
                    % place)
    assert "hunter2" not in answer.text and "root:" not in answer.text


def test_the_block_knows_its_keys(klaw):
    """covers: K-13"""
    with pytest.raises(AssertionError, match="did you mean 'maxMemory'"):
        klaw(maxMemori="1g")
    with pytest.raises(AssertionError, match="timeout 'soon' is not a number"):
        klaw(timeout="soon")
    execute = klaw(dockerImage="mine:1", timeout=20, allowNetwork=False, maxMemory="128m",
                   maxCpus=0.5, keepAlive=True, keepAliveIdleTimeoutMin=5,
                   keepAliveMaxExecutions=10, volumeMounts=[])
    assert execute("echo fine").text == "fine\n"


def test_the_tools_page_tells_an_agent_what_it_needs():
    """covers: K-11"""
    page = (ROOT / "docs/tools/code_execute.md").read_text()
    for head in ["Parameters", "Constraints", "What is available", "Performance",
                 "Lifecycle", "Truncation", "Common patterns", "Hard limits"]:
        assert "\n## " + head in page
    for word in ["`language`", "`code`", "`timeout`", "256 MB", "1.0", "read-only", "/skills",
                 "/output", "50", "10 minutes", "10,000", "privileged", "Docker socket"]:
        assert word in page
