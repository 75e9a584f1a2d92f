# SPDX-License-Identifier: Apache-2.0
"""klaw, TASK-011: the tool code_execute. To be read beside that document, in its order:
goals, tool, sandbox manager, security constraints, output handling, its own list of tests,
the image, the page for agents. (The image's recipe is built and used by
tests/docker/test_recipes.py, the many ends of a run are in test_verdicts.py.)"""
import hashlib
import json
import os
import re
import shutil
import socket

import pytest
import yaml
from conftest import DOCKER, ROOT, Answer, wait_for

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


# Goals 1 and 8; "Code Execution Tool"

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
    """covers: K-01 K-12"""
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


def test_an_endless_loop_ends_at_its_time_out(klaw):
    """covers: K-01 K-12"""
    execute = klaw()
    answer = execute("while :; do :; done", timeout=1)
    assert answer.text == "[timed out after 1 s]" and answer.json["timedOut"]
    assert execute("echo on").text == "on\n"
    assert klaw(timeout=1)("while True: pass", "python").json["timedOut"]


# Goal 2; "Sandbox Manager (Keep-Alive)"

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


def begin(client, code, language="bash"):
    """Sends a call without waiting for its answer."""
    client.number += 1
    client.send({"id": client.number, "method": "tools/call", "params": {
        "name": "code_execute", "arguments": {"language": language, "code": code}}})
    return client.number


@pytest.mark.parametrize("language,say,wait", [
    ("bash", "touch /tmp/%s", "until [ -e /tmp/%s ]; do sleep 0.05; done; echo met"),
    ("python", "open('/tmp/%s', 'w')", "import os, time\nwhile not os.path.exists('/tmp/%s'): "
     "time.sleep(0.05)\nprint('met')")])
def test_calls_work_side_by_side_in_the_one_container(klaw, containers, language, say, wait):
    """covers: K-02"""
    execute = klaw()
    client = execute.client
    numbers = {begin(client, "%s\n%s" % (say % mine, wait % other), language)
               for mine, other in [("a", "b"), ("b", "a")]}  # each waits for the other
    while numbers:
        answer = json.loads(client.process.stdout.readline())
        if answer.get("id") in numbers:
            numbers.remove(answer["id"])
            assert Answer(answer).text == "met\n"
    assert len(containers("klaw-sandbox-")) == (1 if DOCKER else 0)


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_call_that_is_cancelled_while_it_waits_never_runs(mcp, own_output, tmp_path,
                                                            containers, cancelled):
    """covers: K-02. One call at a time, so that the second waits for the first, which goes
    on until it is told to end. Without a cancellation the same second call runs."""
    settings = tmp_path / "one.yaml"
    settings.write_text("serve: {concurrency: 1}")
    client = mcp("klaw", "--config", str(settings))
    name = "%s-%s" % (os.getpid(), cancelled)
    here, end, ran = (own_output / (word + name) for word in ("here", "end", "ran"))
    first = begin(client, "touch %s; until [ -e %s ]; do sleep 0.05; done; echo first"
                  % (here, end))
    assert wait_for(here.exists)
    second = begin(client, "touch %s; echo second" % ran)
    if cancelled:
        client.send({"method": "notifications/cancelled", "params": {"requestId": second}})
    assert client.ask("ping", {})["result"] == {}  # all that was said before has been read
    assert not ran.exists()
    end.touch()
    assert client.answer(first).text == "first\n"
    assert client.answer(begin(client, "echo third")).text == "third\n"
    assert ran.exists() is not cancelled
    assert (second in client.early) is not cancelled
    assert len(containers("klaw-sandbox-")) == (1 if DOCKER else 0)  # the one that is kept
    for path in (here, end, ran):
        path.unlink(missing_ok=True)


def test_processes_that_calls_left_do_not_break_the_next(klaw):
    execute = klaw()
    execute("for i in $(seq 200); do sleep 1000 >/dev/null 2>&1 & done")
    answer = execute("echo next; ls /tmp/klaw-sandbox >/dev/null && echo forked")
    assert re.fullmatch(r"next\nforked\n\[the container was made anew: earlier calls had left "
                        r"\d+ processes in it\]", answer.text)
    assert execute("echo third").text == "third\n"


# Goal 3: one-shot

def test_without_keep_alive_each_call_has_a_container_of_its_own(klaw, containers):
    """covers: K-03 K-13"""
    execute = klaw(keepAlive=False)
    assert execute(MARK).text == "(no output)"
    assert execute(LOOK).text == "gone\n"
    assert wait_for(lambda: not containers("klaw-sandbox-"))


# Goal 4: limits

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


# Goal 5: a new container after 50 calls or 10 idle minutes

def test_the_container_is_made_anew_after_so_many_executions(klaw):
    """covers: K-05"""
    execute = klaw(keepAliveMaxExecutions=3)
    execute(MARK)
    assert [execute(LOOK).text for _ in range(3)] == ["there\n", "there\n", "gone\n"]


def test_each_call_in_a_kept_vessel_is_in_the_audit_log_with_its_code(mcp, tmp_path):
    config, log = tmp_path / "vial.yaml", tmp_path / "log"
    config.write_text("audit: {path: %s}\n" % log)
    client = mcp("klaw", "--config", str(config))
    code = ["echo one", "echo two; exit 3"]
    for text in code:
        client("code_execute", language="bash", code=text)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    begun, ended = ([r for r in told if r["event"] == kind] for kind in ("begin", "run"))
    assert [r["code_sha256"] for r in begun] == \
        [hashlib.sha256(text.encode()).hexdigest() for text in code]
    assert [(r["run"], r["verdict"]) for r in ended] == \
        [(begun[0]["run"], "ok"), (begun[1]["run"], "nonzero")]
    assert len([r for r in told if r["event"] == "session.begin"]) == 1
    assert len([r for r in told if r["event"] == "exec.end"]) == 2


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


# Goal 6: volume mounts

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


def test_the_documents_own_path_for_large_outputs_works(klaw, own_output):
    """covers: K-06"""
    execute = klaw()
    assert execute("seq 20000 > /tmp/klaw-sandbox/output.txt").text == "(no output)"
    lines = (own_output / "output.txt").read_text().splitlines()  # as file_read would
    (own_output / "output.txt").unlink()
    assert len(lines) == 20000 and lines[-1] == "20000"
    assert execute("touch /tmp/other && ls -d /tmp/other").text == "/tmp/other\n"


BIND = """import os, socket
os.makedirs("/output/%(own)s/deep", exist_ok=True)
for name in ["%(own)s/one", "%(own)s/deep/two"]:
    socket.socket(socket.AF_UNIX).bind("/output/" + name)
os.symlink("%(away)s", "/output/%(own)s/away")
print("bound")"""


def test_a_programs_sockets_do_not_shut_later_runs_out(vial, own_output, tmp_path):
    """Only below the directory itself: not where a link in it leads."""
    own = "sockets-%d" % os.getpid()
    away = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(away))
    try:
        first = vial("--preset", "klaw", "run", "python",
                     BIND % {"own": own, "away": tmp_path})
        assert first.out == "bound\n", first.err
        assert (own_output / own / "deep" / "two").is_socket()
        second = vial("--preset", "klaw", "run", "python", "print('still here')")
        assert second.out == "still here\n", second.err
        assert not (own_output / own / "one").exists()
        assert not (own_output / own / "deep" / "two").exists()
        assert away.is_socket()
    finally:
        shutil.rmtree(own_output / own, ignore_errors=True)


def test_a_languages_own_profile_and_network_hold_beside_a_kept_vessel(mcp, tmp_path):
    """The vessel was made without them: such a call has one of its own."""
    (tmp_path / "p.json").write_text(json.dumps({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO",
                      "errnoRet": 13}]}))
    (tmp_path / "languages.yaml").write_text(
        "python: {like: python, seccomp_file: p.json, network: none}\n")
    (tmp_path / "vial.yaml").write_text("languages: languages.yaml\n")
    client = mcp("klaw", "--config", str(tmp_path / "vial.yaml"))
    python = "import os; print(open('/proc/net/dev').read()); os.mkdir('/tmp/x')"
    for _ in range(2):
        answer = client("code_execute", language="bash", code="mkdir -p /tmp/y && echo made")
        assert answer.text.endswith("made\n")
        answer = client("code_execute", language="python", code=python)
        assert "Permission denied: '/tmp/x'" in answer.text, answer.text
        assert "eth0" not in answer.text
    assert client("code_execute", language="bash", code="ls -d /tmp/y").text.endswith("/y\n")


def test_a_workspace_without_skills_works(mcp, place):
    """covers: K-06"""
    client = mcp("klaw", KLAW_WORKSPACE=str(place))
    answer = client("code_execute", language="bash", code="ls -d /skills || echo none")
    assert answer.text.startswith("none\n") and not answer.error


def test_files_made_natively_do_not_block_a_container(needs_engine, vial, own_output):
    """covers: K-06"""
    name = own_output / ("both-%d" % os.getpid())
    for engine in [{"DOCKER_HOST": "unix:///nonexistent/sock"}, {}] * 2:
        done = vial("--preset", "klaw", "run", "bash", "echo $0 >> /output/%s; cp /output/%s "
                    "/output/%s.new; rm /output/%s.new" % ((name.name,) * 4), **engine)
        assert done.status == 0, done.err
    assert len(name.read_text().splitlines()) == 4
    name.unlink()


def test_further_mounts_come_from_the_configuration_alone(klaw, place):
    """covers: K-06 K-13"""
    (place / "f").write_text("given")
    execute = klaw(volumeMounts=["%s:/data:ro" % place])
    assert execute("cat /data/f; ls -d /output").text == "given/output\n"
    assert "mounts" not in json.dumps(execute.client.tools()["code_execute"]["inputSchema"])


# Goal 7; "Security Constraints (Hardcoded)"

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
                "--network-name", "host", "bash", "true", SANDBOX_ALLOWED_NETWORK="bridge")
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


# "Output Handling": formatForLlm

def test_the_output_is_formatted_for_an_llm(klaw):
    """covers: K-08"""
    execute = klaw()
    # "stderr included when non-empty", apart; and only then
    assert execute("echo out; echo err >&2").text == "out\n[stderr]\nerr\n"
    assert execute("echo out").text == "out\n"
    # "non-zero exit code reported"; and only then
    assert execute("echo out; exit 7").text == "out\n[exit code: 7]"
    assert execute("kill -SEGV $$").text == "[killed by signal SIGSEGV]\n[exit code: 139]"
    # "timeout flagged in output", with what came before it
    late = execute("echo before; sleep 100", timeout=3)
    assert late.text == "before\n[timed out after 3 s]"
    assert late.json == {"stdout": "before\n", "stderr": "", "exitCode": None,
                         "timedOut": True}
    # "stdout truncated at max length": 10000 characters, with a notice
    cut = execute("printf 'x%.0s' $(seq 10001)").text
    assert cut == "x" * 10000 + ("\n[output truncated at 10000 characters; write large results "
                                 "to /output and read them in parts]")
    assert execute("printf 'x%.0s' $(seq 10000)").text == "x" * 10000


def test_output_is_cut_at_ten_thousand_characters(klaw):
    """covers: K-08"""
    execute = klaw()
    text = execute("print('\u00e9' * 12000, end='')", "python").text
    assert text.startswith("\u00e9" * 10000 + "\n[output truncated at 10000 characters")
    assert execute("print('x' * 9999)", "python").text == "x" * 9999 + "\n"
    both = execute("print('o' * 9000); import sys; sys.stderr.write('e' * 9000)", "python").text
    assert 10000 <= both.count("o") + both.count("e") < 10400 and both.count("e") > 2000


# "DockerSandboxIntegrationTest": no access to host filesystem

def test_there_is_nothing_of_the_host_inside(klaw, place):
    """covers: K-12"""
    (place / "secret").write_text("hunter2")
    answer = klaw()("cat %s/secret /root/.ssh/* /etc/shadow; ls /home /var/lib/docker"
                    % place)
    assert "hunter2" not in answer.text and "root:" not in answer.text


# The block `codeExecution`

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


# "Documentation Subtask": the page for agents

def page_part(name):
    page = (ROOT / "docs/tools/code_execute.md").read_text()
    assert "\n## %s\n" % name in page
    return page.split("\n## %s\n" % name)[1].split("\n## ")[0]


def test_the_pages_parameters_are_the_tools(klaw):
    """covers: K-11"""
    schema = klaw().client.tools()["code_execute"]["inputSchema"]
    rows = dict(re.findall(r"\| `(\w+)` \|(.*)\|\n", page_part("Parameters") + "\n"))
    assert set(rows) == set(schema["properties"])
    for name, row in rows.items():
        assert ("required" in row) == (name in schema["required"])
    assert "optional, %d" % schema["properties"]["timeout"]["default"] in rows["timeout"]
    assert all('"%s"' % one in rows["language"] for one in schema["properties"]["language"]["enum"])


def test_the_pages_constraints_and_numbers_hold(klaw, vial):
    """covers: K-11"""
    config = vial("--preset", "klaw", "config", "show", "--json").json
    usual = {k: v["value"] for k, v in config["defaults"].items()}
    text = page_part("Constraints")
    assert "Memory 256 MB" in text and usual["memory"] == "256m"
    assert "CPU 1.0 core" in text and usual["cpus"] == 1
    assert "`/tmp` of 64 MB" in text and usual["tmp"] == "64m"
    assert "bridge by default" in text and usual["network"] == "bridge"
    execute = klaw()
    assert "Read-only" in execute("touch /usr/x /etc/x /x").text
    assert execute("df -m /tmp | tail -1 | awk '{print $2}'").text == "64\n"
    assert execute("grep CapEff /proc/self/status; id -u").text.split() == [
        "CapEff:", "0" * 16, "1000"]
    life = page_part("Lifecycle")
    assert "after 50 executions, after 10 minutes" in life
    assert (config["keep"]["executions"], config["keep"]["idle"]) == (50, 600)
    assert "beyond 10,000 characters" in page_part("Truncation")
    assert "[output truncated at 10000 characters" in execute("seq 9999").text


def test_the_pages_patterns_run_as_they_are_written(mcp, place):
    """covers: K-11"""
    scripts = place / "skills" / "NAME" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "script.sh").write_text("echo skilled $(pwd)")
    client = mcp("klaw", KLAW_WORKSPACE=str(place))
    patterns = dict(re.findall(r'- (.*?): `language="\w+", code="(.*)"`',
                               page_part("Common patterns")))
    assert set(patterns) == {"Fetch JSON", "Process data", "Run a skill"}

    def execute(language, code):
        return client("code_execute", language=language, code=code)
    assert execute("bash", patterns["Run a skill"]).text.startswith("skilled /work")
    data = patterns["Process data"].replace("…", "result = {'n': 6 * 7}")
    assert execute("python", data).text == '{"n": 42}\n'
    # No server is out there: one inside takes its place.
    execute("bash", "mkdir -p /tmp/s && cd /tmp/s && echo '{\"k\": 1}' > data && "
            "(python3 -m http.server 8099 --bind 127.0.0.1 >/dev/null 2>&1 &) ; until "
            "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8099))' "
            "2>/dev/null; do sleep 0.1; done")
    fetch = patterns["Fetch JSON"].replace("https://api.example.com", "http://127.0.0.1:8099")
    answer = execute("bash", "command -v curl >/dev/null || exit 9; " + fetch)
    assert answer.text == '{"k": 1}\n' or (DOCKER and answer.json["exitCode"] == 9)
