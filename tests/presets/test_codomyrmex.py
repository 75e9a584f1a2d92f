# SPDX-License-Identifier: Apache-2.0
"""codomyrmex: "Code Execution Sandbox - Technical Overview", section by section. Without an
engine what needs Docker is skipped, and the native driver stands in for the rest."""
import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import PYTHON, ROOT, VIAL, Answer, environment, wait_for
from engine import is_own_user

sys.path.insert(0, str(ROOT / "tests" / "serve"))
from daemon import Daemon  # noqa: E402


ALL = ["python3.10", "python3.9", "nodejs18", "bash"]  # of the document
NOBODY = "unix:///nonexistent/sock"


@pytest.fixture
def execute(mcp):
    def start(**env):
        client = mcp("codomyrmex", **env)

        def call(code, language="bash", **arguments):
            return client("execute_code", language=language, code=code, **arguments)
        call.client = client
        return call
    return start


# 1. Introduction and Purpose; 2. Architecture
#
# "MCP request (language, code, stdin, timeout) arrives …"; "Returns Formatted: stdout, stderr,
# exit_code, status, exec_time".


def test_the_tool_and_its_answer_are_the_documents(execute):
    """covers: C-01 C-05"""
    call = execute()
    tool = call.client.tools()["execute_code"]
    assert list(tool["inputSchema"]["properties"]) == ["language", "code", "stdin", "timeout",
                                                        "files", "outputs", "network"]
    assert tool["inputSchema"]["required"] == ["language", "code"]
    assert set(tool["outputSchema"]["properties"]) - {"warning"} == {
        "stdout", "stderr", "exit_code", "status", "exec_time", "files"}
    answer = call("read x; echo got $x; echo e >&2; exit 5", stdin="abc\n")
    assert answer.json["exec_time"] > 0
    del answer.json["exec_time"]
    assert answer.json == {"stdout": "got abc\n", "stderr": "e\n", "exit_code": 5,
                           "status": "execution_error", "files": []}


@pytest.mark.parametrize("code,status", [("true", "success"), ("exit 1", "execution_error"),
                                         ("while :; do :; done", "timeout")])
def test_the_status_tells_how_it_ended(execute, code, status):
    """covers: C-01"""
    assert execute()(code, timeout=4).json["status"] == status


def test_a_request_above_a_cap_is_refused_and_not_clipped(execute):
    """covers: C-04"""
    answer = execute()("true", timeout=301)
    assert answer.error and answer.json["status"] == "refused"
    assert "max_timeout 5m" in answer.text
    answer = execute(SANDBOX_GLOBAL_MAX_TIMEOUT_SECONDS="10")("true", timeout=11)
    assert answer.error and "max_timeout 10s" in answer.text


def test_a_language_has_its_image_and_profile(needs_engine, execute, vial):
    """covers: C-02 C-07"""
    answer = execute()("import sys; print(sys.version_info[0])", "python3.10")
    assert answer.json["stdout"] == "3\n", answer.text
    plan = vial("--preset", "codomyrmex", "plan", "python3.10", "1").json
    assert plan["image"] == PYTHON and plan["seccomp"] == "python3"


UP = {"bash": "sleep 50", "nodejs18": "sleep 50",  # the test engine's node is a shell
      "python3.10": "import time; time.sleep(50)", "python3.9": "import time; time.sleep(50)"}
IMAGES = {"bash": "codomyrmex/sandbox-bash:5.1-alpine", "python3.10": PYTHON,
          "python3.9": "codomyrmex/sandbox-python:3.9.17-slim-bullseye",
          "nodejs18": "codomyrmex/sandbox-node:18.17.1-alpine"}


def container_of(containers, call, language="bash", **arguments):
    """What the engine says of the container of a call that is under way."""
    number = call.client.begin("execute_code", language=language, code=UP[language],
                               **arguments)
    try:
        assert wait_for(lambda: any(c["State"]["Running"] for c in containers("codomyrmex-")))
        [c] = containers("codomyrmex-")
        return c
    finally:
        call.client.send({"method": "notifications/cancelled", "params": {"requestId": number}})
        assert wait_for(lambda: not containers("codomyrmex-"))


@pytest.mark.parametrize("language", ALL)
def test_the_container_has_the_documents_options(needs_engine, execute, containers, language):
    """covers: C-02 C-04 C-07"""
    c = container_of(containers, execute(), language)
    host = c["HostConfig"]
    assert c["Config"]["Image"] == IMAGES[language]
    assert is_own_user(c["Config"]["User"].split(":")[0])
    assert host["ReadonlyRootfs"] and host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Privileged"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert any(o.startswith("seccomp={") for o in host["SecurityOpt"])
    own = 192 if language == "nodejs18" else 256  # the document gives it its own
    assert host["Memory"] == host["MemorySwap"] == own << 20
    assert host["NanoCpus"] == 500000000 and host["PidsLimit"] == 101  # and our init


# 3. Design Decisions and Rationale
#
# "Each execute_code request ideally spins up a fresh, new container instance … Containers are
# destroyed immediately after use."


def test_each_request_has_a_sandbox_of_its_own(execute, containers):
    """covers: C-06"""
    call = execute()
    assert call("echo x > /tmp/left; echo x > left; ls").json["stdout"] == "left\n"
    assert call("ls /tmp/left left 2>/dev/null").json["stdout"] == ""
    for code, status in [("true", "success"), ("while :; do :; done", "timeout"),
                         ("exit 3", "execution_error"), ("kill -9 $$", "execution_error"),
                         ("x=x; while :; do x=$x$x; done", "memory_limit")]:
        assert call(code, timeout=1 if status == "timeout" else 30).json["status"] == status
        assert not containers("codomyrmex-"), code  # with the answer it is gone


# 4. Supported Languages and Runtimes
#
# "The execute_code tool's language parameter must match one of the configured and available
# language runtimes."


def test_the_languages_are_the_configured_ones(execute, vial):
    """covers: C-02 C-03"""
    answer = execute()("x", "cobol")
    assert answer.error and "python3.10" in answer.text and "nodejs18" in answer.text
    done = vial("--preset", "codomyrmex", "run", "python", "print(1)")
    assert done.status == 125 and "known: python3.10, bash, nodejs18, python3.9" in done.err


def offered(call):
    tool = call.client.tools()["execute_code"]
    return tool["inputSchema"]["properties"]["language"]["enum"]


def test_without_an_engine_only_what_this_host_has_is_offered(execute, vial):
    """covers: C-03"""
    call = execute(DOCKER_HOST=NOBODY)
    rows = vial("--preset", "codomyrmex", "languages", "--json", DOCKER_HOST=NOBODY).json
    assert sorted(row["name"] for row in rows) == sorted(ALL)
    assert sorted(offered(call)) == sorted(row["name"] for row in rows if row["usable"])
    assert "bash" in offered(call)
    assert shutil.which("python3.9", path="/usr/bin:/bin") or "python3.9" not in offered(call)
    for language in set(ALL) - set(offered(call)) - {"nodejs18"}:  # node may be another
        answer = call("1", language)
        assert answer.error and answer.json["status"] == "refused"
        assert "'%s' needs a container engine, and none answers now" % language in answer.text


def test_languages_come_and_go_with_the_engine(needs_engine, execute, vial, line):
    """covers: C-03"""
    if shutil.which("python3.10", path="/usr/bin:/bin"):
        pytest.skip("this host has a python3.10 of its own")
    assert all(row["usable"] for row in vial("--preset", "codomyrmex", "languages",
                                             "--json").json)
    call = execute(DOCKER_HOST="unix://" + line.path)
    code = "import sys; print(sys.version_info[0])"
    assert sorted(offered(call)) == sorted(ALL)
    assert call(code, "python3.10").json["stdout"] == "3\n"
    line.cut()
    assert "python3.10" not in offered(call) and "bash" in offered(call)
    answer = call(code, "python3.10")
    assert answer.error and "'python3.10' needs a container engine" in answer.text
    line.mend()
    assert sorted(offered(call)) == sorted(ALL)
    assert call(code, "python3.10").json["stdout"] == "3\n"


# 5. Configuration
#
# "Key configuration options managed by administrators (not typically via MCP tool parameters,
# which are validated against these global settings)".


VARIABLES = {"SANDBOX_DEFAULT_TIMEOUT_SECONDS": "7", "SANDBOX_DEFAULT_MEMORY_LIMIT_MB": "64",
             "SANDBOX_DEFAULT_CPU_QUOTA_PERCENT": "25", "SANDBOX_PID_LIMIT": "33",
             "SANDBOX_DEFAULT_USER_UID_GID": "1234:1235"}


@pytest.mark.parametrize("language", ALL)
def test_the_administrators_variables_are_the_containers(needs_engine, execute, containers,
                                                         language):
    """covers: C-04"""
    c = container_of(containers, execute(**VARIABLES), language)
    host = c["HostConfig"]
    own = 192 if language == "nodejs18" else 64
    assert host["Memory"] == own << 20 and host["NanoCpus"] == 250000000
    assert host["PidsLimit"] == 34 and c["Config"]["User"] == "1234:1235"


@pytest.mark.parametrize("language", ALL)
def test_the_administrators_variables_bind_every_language(vial, language):
    """As the engine's containers show above; here without an engine."""
    plan = vial("--preset", "codomyrmex", "plan", "--driver", "docker", language, "1",
                **VARIABLES).json
    limits = plan["limits"]
    own_memory = 192 if language == "nodejs18" else 64  # the document gives it its own
    assert (limits["wall_ms"], limits["memory_bytes"]) == (7000, own_memory << 20)
    assert (limits["milli_cpus"], limits["pids"]) == (250, 33)
    assert plan["container"]["user"] == "1234:1235"


@pytest.mark.parametrize("language", ALL)
def test_a_maximum_below_a_default_lowers_the_default(vial, language):
    """covers: C-04"""
    args = ["--preset", "codomyrmex", "plan", "--driver", "docker"]
    plan = vial(*args, language, "1", SANDBOX_GLOBAL_MAX_TIMEOUT_SECONDS="10").json
    assert plan["limits"]["wall_ms"] == 10000
    plan = vial(*args, language, "1", SANDBOX_GLOBAL_MAX_TIMEOUT_SECONDS="10",
                SANDBOX_DEFAULT_TIMEOUT_SECONDS="60").json
    assert plan["limits"]["wall_ms"] == 10000
    done = vial(*args, "--timeout", "11", language, "1",
                SANDBOX_GLOBAL_MAX_TIMEOUT_SECONDS="10")
    assert done.status == 125 and "max_timeout 10s" in done.err


def test_the_administrators_variables_hold(vial, execute):
    """covers: C-04"""
    done = vial("--preset", "codomyrmex", "run", "bash", "true",
                SANDBOX_DEFAULT_CPU_QUOTA_PERCENT="lots")
    assert done.status == 125 and "SANDBOX_DEFAULT_CPU_QUOTA_PERCENT" in done.err
    late = execute(SANDBOX_DEFAULT_TIMEOUT_SECONDS="1")("while :; do :; done")
    assert late.json["status"] == "timeout"
    forks = "for i in $(seq 40); do sleep 5 & done; exit 0"
    answer = execute(SANDBOX_PID_LIMIT="8")(forks)
    assert "fork" in answer.json["stderr"] or "Resource" in answer.json["stderr"], answer.text


def test_the_socket_and_the_user_are_the_administrators(needs_engine, vial):
    """covers: C-04"""
    env = {"DOCKER_SOCKET_PATH": os.environ["DOCKER_HOST"], "DOCKER_HOST": "unix:///nope"}
    done = vial("--preset", "codomyrmex", "run", "bash", "id -u; id -g",
                SANDBOX_DEFAULT_USER_UID_GID="1234:1235", **env)
    assert done.out == "1234\n1235\n", done.err
    done = vial("--preset", "codomyrmex", "run", "--driver", "docker", "bash", "id -u",
                SANDBOX_DEFAULT_USER_UID_GID="0:0", **env)
    assert done.status == 125 and "root" in done.err


LANGUAGES = """{
  "bash": {
    "image": "mine:1",
    "seccomp_profile": "python3.json", // Path to custom seccomp profile
    "default_memory_mb": 96,
    "allow_network": false // Explicitly state default, or override
  }
}
"""
# As a person would write one: everything but making directories and sockets.
PROFILE = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
    {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13},
    {"names": ["socket"], "action": "SCMP_ACT_ERRNO"}]}


@pytest.fixture
def languages(tmp_path):
    """The document's file with one language, and its profile beside it."""
    file = tmp_path / "sandbox_languages.json"
    file.write_text(LANGUAGES)
    profile = tmp_path / "python3.json"

    def write(profile_text=json.dumps(PROFILE), mode=0o644):
        profile.write_text(profile_text)
        os.chmod(profile, mode)
        return str(file)
    write.profile = profile
    return write


def test_a_language_file_replaces_the_table(execute, vial, languages):
    """covers: C-02"""
    call = execute(SANDBOX_LANGUAGE_CONFIG_FILE=languages())
    schema = call.client.tools()["execute_code"]["inputSchema"]
    assert schema["properties"]["language"]["enum"] == ["bash"]
    assert call("echo hi").json["stdout"] == "hi\n"
    plan = vial("--preset", "codomyrmex", "plan", "--driver", "docker", "bash", "1",
                SANDBOX_LANGUAGE_CONFIG_FILE=languages()).json
    digest = hashlib.sha256(languages.profile.read_bytes()).hexdigest()
    assert plan["seccomp_file"] == {"path": str(languages.profile), "sha256": digest,
                                    "rules": 3}
    assert (plan["image"], plan["seccomp"]) == ("mine:1", "default")
    assert plan["limits"]["memory_bytes"] == 96 << 20 and plan["network"] == "none"
    done = vial("--preset", "codomyrmex", "plan", "bash", "1",
                SANDBOX_LANGUAGE_CONFIG_FILE="/nonexistent.json")
    assert done.status == 125 and "SANDBOX_LANGUAGE_CONFIG_FILE" in done.err


# "Example entry in sandbox_languages.json", as it stands there.
EXAMPLE = """{
  "python3.10": {
    "image": "codomyrmex/sandbox-python:3.10.12-slim-bullseye",
    "seccomp_profile": "python3.json", // Path to custom seccomp profile
    "default_memory_mb": 256
  },
  "nodejs18": {
    "image": "codomyrmex/sandbox-node:18.17.1-alpine",
    "seccomp_profile": "default.json",
    "default_memory_mb": 192,
    "allow_network": false // Explicitly state default, or override if a lang needs restricted net
  }
}
"""


def test_the_documents_example_works_as_it_stands(needs_engine, execute, containers, tmp_path):
    """covers: C-02 C-04"""
    (tmp_path / "sandbox_languages.json").write_text(EXAMPLE)
    (tmp_path / "python3.json").write_text(json.dumps(PROFILE))
    (tmp_path / "default.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    call = execute(SANDBOX_LANGUAGE_CONFIG_FILE=str(tmp_path / "sandbox_languages.json"))
    assert offered(call) == ["python3.10", "nodejs18"]
    for language, megabytes in [("python3.10", 256), ("nodejs18", 192)]:
        c = container_of(containers, call, language)
        assert c["Config"]["Image"] == IMAGES[language]
        assert c["HostConfig"]["Memory"] == megabytes << 20
        assert c["HostConfig"]["NetworkMode"] == "none"
    answer = call("import os; os.mkdir('d')", "python3.10").json
    assert "Permission denied: 'd'" in answer["stderr"]
    assert call("mkdir d && ls -d d", "nodejs18").json["stdout"] == "d\n"
    answer = call("echo", "bash")
    assert answer.error and "unknown language 'bash'; known: python3.10, nodejs18" in answer.text


def test_a_bare_word_names_a_built_in_profile(vial, tmp_path):
    """covers: C-02"""
    (tmp_path / "l.json").write_text('{"bash": {"image": "mine:1",'
                                     ' "seccomp_profile": "strict"}}')
    plan = vial("--preset", "codomyrmex", "plan", "--driver", "docker", "bash", "1",
                SANDBOX_LANGUAGE_CONFIG_FILE=str(tmp_path / "l.json")).json
    assert plan["seccomp"] == "strict" and "seccomp_file" not in plan


def test_a_profile_that_others_could_write_is_refused(vial, languages):
    """covers: C-02 C-07"""
    args = ["--preset", "codomyrmex", "run", "bash", "echo ran"]
    done = vial(*args, SANDBOX_LANGUAGE_CONFIG_FILE=languages(mode=0o666))
    assert done.status == 125 and "only you and root can write" in done.err
    file = languages()
    languages.profile.unlink()
    done = vial(*args, SANDBOX_LANGUAGE_CONFIG_FILE=file)
    assert done.status == 125 and str(languages.profile) in done.err and done.out == ""
    assert "'strict'" in done.err


@pytest.mark.parametrize("text,why", [
    ("{", "python3.json"),
    ('{"defaultAction": "SCMP_ACT_LOG"}', "action 'SCMP_ACT_LOG' is not supported"),
    ('{"defaultAction": "SCMP_ACT_NOTIFY"}', "action 'SCMP_ACT_NOTIFY' is not supported"),
    ('{"defaultAction": "SCMP_ACT_ALLOW", "flags": []}', "unknown key 'flags'"),
    ('{"defaultAction": "SCMP_ACT_ERRNO"}', "it refuses 'execve'"),
    ('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdri"],'
     ' "action": "SCMP_ACT_KILL"}]}', "'mkdri' is no system call"),
    ('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"],'
     ' "action": "SCMP_ACT_KILL", "args": [{"index": 6, "value": 0,'
     ' "op": "SCMP_CMP_EQ"}]}]}', "there is no argument 6"),
    ('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"],'
     ' "action": "SCMP_ACT_KILL"}, {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO",'
     ' "args": [{"index": 1, "value": 1, "op": "SCMP_CMP_EQ"}]}]}', "contradict"),
    ('{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_MIPS"]}',
     "it is for other machines")])
def test_a_profile_that_cannot_be_kept_is_refused_and_nothing_runs(vial, languages, place,
                                                                   text, why):
    """covers: C-02 C-07"""
    done = vial("--preset", "codomyrmex", "run", "bash", "echo ran",
                SANDBOX_LANGUAGE_CONFIG_FILE=languages(text))
    assert done.status == 125 and done.out == ""
    assert why in done.err and str(languages.profile) in done.err


# 6. Scalability and Performance
#
# "The module should be designed to handle multiple concurrent execute_code requests."


def records(vial, **env):
    shown = vial("--preset", "codomyrmex", "audit", "show", "--json", **env)
    assert shown.status == 0, shown.err
    return [json.loads(line) for line in shown.out.splitlines()]


def most_at_once(events):
    """Of requests that had begun and not ended, as the log tells it."""
    going = most = 0
    for e in events:
        going += {"begin": 1, "run": -1 if e.get("vessel_id") else 0}[e["event"]]
        most = max(most, going)
    return most


def test_many_requests_at_once_are_all_answered(vial, execute, tmp_path):
    """covers: C-08"""
    env = {"VIAL_STATE": str(tmp_path / "state")}
    client = execute(SANDBOX_MAX_CONCURRENT="3", **env).client
    numbers = {client.begin("execute_code", language="bash", code="echo %d" % i): i
               for i in range(12)}
    for number, i in numbers.items():
        answer = client.answer(number)
        assert answer.json["stdout"] == "%d\n" % i, answer.text
    events = records(vial, **env)
    assert len(events) == 24 and 1 <= most_at_once(events) <= 3


def test_past_the_limit_requests_wait_and_past_the_queue_they_are_refused(vial, execute,
                                                                          tmp_path):
    """covers: C-08"""
    env = {"VIAL_STATE": str(tmp_path / "state")}
    client = execute(SANDBOX_MAX_CONCURRENT="2", SANDBOX_MAX_WAITING="3", **env).client
    codes = {client.begin("execute_code", language="bash", code="sleep 50; # %d" % i): i
             for i in range(6)}
    digests = {hashlib.sha256(b"sleep 50; # %d" % i).hexdigest(): n for n, i in codes.items()}

    def cancel(number):
        client.send({"method": "notifications/cancelled", "params": {"requestId": number}})

    def begun():
        return [digests[e["code_sha256"]] for e in records(vial, **env)
                if e["event"] == "begin"]

    refused = client.any()  # they come in side by side: one of them is the sixth
    answer = Answer(refused)
    assert answer.error and answer.json["status"] == "refused"
    assert "too many runs are waiting [VIAL-BUSY]" in answer.text
    # Who is turned away has a record, too.
    turned_away, = [e for e in records(vial, **env) if e["event"] == "refused"]
    assert turned_away["error"]["code"] == "VIAL-BUSY" and turned_away["path"] == "stdio"
    assert wait_for(lambda: len(begun()) == 2)
    first = begun()
    waiting = sorted(set(codes) - set(first) - {refused["id"]})
    cancel(waiting[0])  # it has not run, and never will
    for number in first:
        cancel(number)
    assert wait_for(lambda: len(begun()) == 4)
    for number in waiting[1:]:
        cancel(number)
    assert Answer(client.ask("tools/call", {"name": "execute_code", "arguments": {
        "language": "bash", "code": "true"}})).json["status"] == "success"
    assert wait_for(lambda: [e["event"] for e in records(vial, **env)].count("run") >= 5)
    events = [e for e in records(vial, **env) if e["event"] != "refused"]
    assert waiting[0] not in [digests.get(e["code_sha256"]) for e in events]
    assert most_at_once(events) == 2
    bad = vial("--preset", "codomyrmex", "run", "bash", "true", SANDBOX_MAX_CONCURRENT="many")
    assert bad.status == 125 and "SANDBOX_MAX_CONCURRENT" in bad.err


# 7. Security Aspects (Module Internals)
#
# "seccomp: Custom profiles drastically limit available syscalls."


TRY = "touch file && mkdir d; ls; exec 3<>/dev/tcp/127.0.0.1/9"


def test_a_custom_profile_forbids_what_it_says(execute, languages):
    """covers: C-02 C-07"""
    answer = execute(SANDBOX_LANGUAGE_CONFIG_FILE=languages())(TRY).json
    assert answer["stdout"] == "file\n", answer
    assert "cannot create directory" in answer["stderr"]
    assert "Permission denied" in answer["stderr"]
    assert "socket: Operation not permitted" in answer["stderr"]
    nothing = languages('{"defaultAction": "SCMP_ACT_ALLOW"}')
    answer = execute(SANDBOX_LANGUAGE_CONFIG_FILE=nothing)(TRY).json
    assert answer["stdout"] == "d\nfile\n" and "Connection refused" in answer["stderr"]


def test_a_custom_profile_cannot_allow_what_the_vessel_refuses(execute, languages):
    """covers: C-07"""
    everything = languages('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": ['
                           '{"name": "unshare", "action": "SCMP_ACT_ALLOW"}]}')
    answer = execute(SANDBOX_LANGUAGE_CONFIG_FILE=everything)("unshare -U true")
    assert answer.json["exit_code"] == 1
    assert "Operation not permitted" in answer.json["stderr"]


def test_nobody_asks_a_custom_profile_away(vial, languages):
    """covers: C-07"""
    done = vial("--preset", "codomyrmex", "run", "--seccomp", "default", "bash", "mkdir d",
                SANDBOX_LANGUAGE_CONFIG_FILE=languages())
    assert done.status == 1 and "Permission denied" in done.err


# Logging & Auditing for Security
#
# "Every execute_code request (caller, language, code hash, resource settings). Sandbox instance
# creation/destruction (container ID, image used). Resource limit enforcement actions … Any
# errors … If kernel logs seccomp violations …"


def test_security_events_are_recorded_without_being_asked_for(vial, tmp_path):
    """covers: C-09"""
    env = {"VIAL_STATE": str(tmp_path / "state")}
    run = ["--preset", "codomyrmex", "run"]
    assert vial(*run, "bash", "echo secret-code", **env).status == 0
    assert vial(*run, "--timeout", "1", "bash", "while :; do :; done", **env).status == 124
    assert vial(*run, "--timeout", "999", "bash", "true", **env).status == 125
    assert vial(*run, "cobol", "x", **env).status == 125
    events = records(vial, **env)
    assert [e["event"] for e in events] == ["begin", "run", "begin", "run", "run", "run"]
    assert [e.get("verdict") for e in events] == [None, "ok", None, "timeout", "denied",
                                                  "denied"]
    begun, ended, _, late, refused, unknown = events
    digest = hashlib.sha256(b"echo secret-code").hexdigest()
    assert begun["code_sha256"] == ended["code_sha256"] == digest
    assert begun["language"] == "bash" and begun["caller"]["uid"] == os.getuid()
    assert begun["limits"]["memory_bytes"] == 256 << 20 and begun["run"] == ended["run"]
    assert ended["vessel_id"] and ended["image"] == begun["image"]
    assert late["limits_hit"] == ["time"] and refused["error"]["code"] == "VIAL-CAP"
    assert unknown["language"] == "cobol" and unknown["error"]["code"] == "VIAL-LANGUAGE"
    assert "secret-code" not in json.dumps(events)
    log = tmp_path / "state" / "codomyrmex" / "audit"
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.parent.stat().st_mode & 0o777 == 0o700


def test_an_unknown_language_is_recorded(vial, execute, tmp_path):
    """covers: C-03 C-09"""
    env = {"VIAL_STATE": str(tmp_path / "state")}
    answer = execute(**env)("x", "cobol")
    assert answer.error and answer.json["status"] == "refused"
    assert "unknown language 'cobol'; known: " in answer.text
    last = records(vial, **env)[-1]
    assert last["language"] == "cobol" and last["error"]["code"] == "VIAL-LANGUAGE"


def test_refused_system_calls_are_recorded_by_name(vial, execute, tmp_path):
    """covers: C-09"""
    env = {"VIAL_STATE": str(tmp_path / "state")}
    answer = execute(**env)("for i in 1 2 3; do unshare -U true; done; echo on")
    assert answer.json["stdout"] == "on\n"
    assert answer.json["stderr"].count("Operation not permitted") == 3
    assert records(vial, **env)[-1]["denied_calls"] == {"unshare": 3}
    assert execute(**env)("true").json["status"] == "success"
    assert records(vial, **env)[-1]["denied_calls"] == {}


@pytest.fixture
def python(tmp_path):
    """A language file with the python that this host and the test engine's image have."""
    file = tmp_path / "python.json"
    file.write_text('{"python3": {"image": "%s", "default_memory_mb": 256}}' % PYTHON)
    return {"SANDBOX_LANGUAGE_CONFIG_FILE": str(file)}


def test_a_hundred_thousand_refused_calls_are_counted_and_bounded(vial, execute, python,
                                                                  tmp_path):
    """covers: C-09"""
    env = {"VIAL_STATE": str(tmp_path / "state"), **python}
    answer = execute(**env)("""if True:
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        for _ in range(100000):
            assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == errno.EPERM
        print("on")""", "python3", timeout=120)
    assert answer.json["stdout"] == "on\n", answer.text
    assert len(answer.whole) < 1000
    last = records(vial, **env)[-1]
    assert last["denied_calls"] == {"unshare": 100000} and len(json.dumps(last)) < 10000


SPY = """if True:
    import ctypes, errno
    libc = ctypes.CDLL(None, use_errno=True)
    class Filter(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte),
                    ("k", ctypes.c_uint)]
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]
    ask = Program(1, ctypes.pointer(Filter(6, 0, 0, 0x7fc00000)))  # SECCOMP_RET_USER_NOTIF
    def call(number, *args):
        rc = libc.syscall(number, *args)
        print("refused" if rc == -1 else "given %d" % rc, flush=True)
    call(317, 1, 8, ctypes.byref(ask))  # seccomp, SET_MODE_FILTER, FLAG_NEW_LISTENER
    call(101, 16, 1, 0, 0)  # ptrace, ATTACH
    call(101, 0x4206, 1, 0, 0)  # ptrace, SEIZE
    call(438, 3, 0, 0)  # pidfd_getfd
    call(310, 1, 0, 0, 0, 0, 0)  # process_vm_readv"""


def test_a_program_cannot_be_the_one_who_counts(vial, execute, python, tmp_path):
    """Nor look into who does. covers: C-07 C-09"""
    env = {"VIAL_STATE": str(tmp_path / "state"), **python}
    answer = execute(**env)(SPY, "python3")
    assert answer.json["stdout"] == "refused\n" * 5, answer.text
    assert records(vial, **env)[-1]["denied_calls"] == {
        "ptrace": 2, "pidfd_getfd": 1, "process_vm_readv": 1}


def test_the_operator_moves_the_log_or_switches_it_off(vial, tmp_path):
    """covers: C-09"""
    env = {"VIAL_STATE": str(tmp_path / "state")}
    config = tmp_path / "c.yaml"
    args = ["--preset", "codomyrmex", "--config", str(config), "run", "bash", "true"]
    config.write_text("audit: {path: %s/mine}\n" % tmp_path)
    assert vial(*args, **env).status == 0
    assert (tmp_path / "mine").stat().st_size > 0 and not (tmp_path / "state").exists()
    config.write_text("audit: off\n")
    before = (tmp_path / "mine").stat().st_size
    assert vial(*args, **env).status == 0
    assert (tmp_path / "mine").stat().st_size == before
    assert not (tmp_path / "state").exists()
    (tmp_path / "file").write_text("")
    done = vial("--preset", "codomyrmex", "run", "bash", "echo ran",
                VIAL_STATE=str(tmp_path / "file"))
    assert done.status == 125 and done.out == "" and "VIAL-AUDIT" in done.err


# 8. Future Development / Roadmap
#
# "Pluggable Sandboxing Backends: … beyond Docker (e.g., gVisor, Firecracker, Wasm runtimes)"


def test_a_runtime_goes_by_its_name_through_the_engine(needs_engine, containers):
    """covers: C-11

    The engine has runc under a second name; gVisor's would be runsc."""
    p = subprocess.Popen([VIAL, "--preset", "codomyrmex", "run", "--runtime", "second", "bash",
                          "echo up; sleep 60"], cwd="/", env=environment(),
                         stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "up\n"
        [c] = containers("codomyrmex-")
        assert c["HostConfig"]["Runtime"] == "second"
    finally:
        p.terminate()
        p.communicate()


def test_another_runtime_is_named_in_the_plan_and_refused_without_an_engine(vial):
    plan = vial("--preset", "codomyrmex", "plan", "--driver", "docker", "--runtime", "runsc",
                "bash", "1").json
    assert plan["container"]["runtime"] == "runsc"
    done = vial("--preset", "codomyrmex", "run", "--driver", "native", "--runtime", "runsc",
                "bash", "true")
    assert done.status == 125 and "VIAL-UNSUPPORTED" in done.err


def test_a_runtime_that_the_engine_lacks_is_refused(needs_engine, vial):
    """covers: C-11"""
    r = vial("--preset", "codomyrmex", "run", "--json", "--runtime", "runsc", "bash",
             "true").json
    assert r["verdict"] in ("denied", "failed") and "runsc" in json.dumps(r["error"])


# Finer-Grained Network Policies
#
# "… per-execution rule definitions (subject to strict admin approval and overrides)"


def test_a_network_is_the_administrators_to_allow(vial, execute):
    """covers: C-13"""
    call = execute()
    answer = call("true", network="bridge")
    assert answer.error and answer.json["status"] == "refused"
    assert "network 'bridge' is not allowed" in answer.text
    assert "SANDBOX_ALLOWED_NETWORK" in answer.text
    assert call("true", network="none").json["status"] == "success"
    schema = call.client.tools()["execute_code"]["inputSchema"]["properties"]["network"]
    assert schema["enum"] == ["none", "bridge"] and "allows: none" in schema["description"]
    done = vial("--preset", "codomyrmex", "run", "bash", "true",
                SANDBOX_ALLOWED_NETWORK="everything")
    assert done.status == 125 and "SANDBOX_ALLOWED_NETWORK" in done.err


def test_each_execution_has_the_network_it_asked_for(needs_engine, execute, containers):
    """covers: C-13"""
    call = execute(SANDBOX_ALLOWED_NETWORK="bridge")
    for asked, has in [({}, "none"), ({"network": "bridge"}, "bridge"),
                       ({"network": "none"}, "none")]:
        c = container_of(containers, call, **asked)
        assert c["HostConfig"]["NetworkMode"] == has


def test_a_language_that_needs_a_network_has_one(vial, tmp_path):
    """covers: C-02 C-13"""
    file = tmp_path / "l.json"
    file.write_text('{"bash": {"image": "mine:1", "allow_network": true},'
                    ' "python3": {"image": "mine:1", "allow_network": false}}')
    env = {"SANDBOX_LANGUAGE_CONFIG_FILE": str(file)}
    args = ["--preset", "codomyrmex", "plan", "--driver", "docker"]
    assert vial(*args, "bash", "1", **env).json["network"] == "bridge"
    assert vial(*args, "--network", "bridge", "bash", "1", **env).json["network"] == "bridge"
    assert vial(*args, "--network", "none", "bash", "1", **env).json["network"] == "none"
    assert vial(*args, "python3", "1", **env).json["network"] == "none"
    done = vial(*args, "--network", "bridge", "python3", "1", **env)
    assert done.status == 125 and "SANDBOX_ALLOWED_NETWORK" in done.err
    (tmp_path / "c.yaml").write_text("policy: {networks: [none]}\n")
    done = vial("--config", str(tmp_path / "c.yaml"), *args, "bash", "1", **env)
    assert done.status == 125 and "VIAL-POLICY" in done.err


@pytest.mark.parametrize("allowed,status", [("none", 403), ("bridge", 200)])
def test_the_keeper_takes_no_fronts_word_for_a_network(needs_engine, tmp_path, place, allowed,
                                                       status):
    """Which language has one only the front knows, and it may be taken over."""
    (place / "l.json").write_text('{"bash": {"image": "mine:1", "allow_network": true}}')
    with Daemon(args=["--preset", "codomyrmex"], serve={"keeper": "on"},
                env={"DOCKER_HOST": os.environ["DOCKER_HOST"], "SANDBOX_ALLOWED_NETWORK": allowed,
                     "SANDBOX_LANGUAGE_CONFIG_FILE": str(place / "l.json")}) as d:
        answer = d.run("echo ran")
        assert answer.json["verdict"] == ("ok" if status == 200 else "denied"), answer.body
        assert ("VIAL-POLICY" in str(answer.json.get("error"))) == (status == 403)


# Filesystem Provisioning
#
# "A secure mechanism to provide read-only input files to the sandbox beyond stdin, or to
# retrieve larger output files beyond stdout."


def test_input_files_are_read_only_and_outputs_are_files(execute):
    """covers: C-10"""
    call = execute()
    answer = call("cat data.csv sub/more; echo x >> data.csv; ls -l data.csv | cut -c1-10",
                  files=[{"path": "data.csv", "content": "1,2\n"},
                         {"path": "sub/more", "content": "3\n"}])
    assert answer.json["stdout"] == "1,2\n3\n-r--r--r--\n", answer.text
    assert "Permission denied" in answer.json["stderr"]
    answer = call("seq 1 999999 > big.txt", outputs=["big.txt", "none.txt"])
    big = "".join("%d\n" % i for i in range(1, 1000000))  # 6.9 MB, more than any stdout
    first, second = answer.json["files"]
    assert (first["path"], first["size"]) == ("big.txt", len(big)), answer.text
    assert second["path"] == "none.txt" and second["uri"] is None
    assert "No such file" in second["error"] and second["error"] in answer.text
    assert "[file big.txt: %d bytes]" % len(big) in answer.text
    read = call.client.ask("resources/read", {"uri": first["uri"]})
    assert read["result"]["contents"][0]["text"] == big


def test_a_path_of_a_file_stays_inside(execute):
    """covers: C-10"""
    call = execute()
    for more in [{"files": [{"path": "../x", "content": ""}]}, {"outputs": ["../../etc/passwd"]},
                 {"outputs": ["/etc/passwd"]}, {"files": [{"path": "x"}]}]:
        answer = call("true", **more)
        assert answer.error, more
    answer = call("ln -s /etc/passwd out", outputs=["out"])
    assert "root:" not in json.dumps(answer.json) and answer.json["files"][0]["uri"] is None


# Pre-warmed Sandbox Pools
#
# "secure pooling mechanisms with extreme caution regarding state isolation"


LEAVE = "cat left /tmp/left 2>/dev/null; echo was here | tee left > /tmp/left; ls"


def by_run(daemon):
    r = daemon.run(LEAVE).json
    return r["verdict"], r["stdout"], r["start"]


def by_mcp(daemon):
    answer = daemon.ask(
        "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "execute_code", "arguments": {"language": "bash", "code": LEAVE}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}}}},
        {"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28",
         "Mcp-Method": "tools/call", "Mcp-Name": "execute_code"}).json["result"]
    told = daemon.lines("run")[-1]
    return told["verdict"], answer["structuredContent"]["stdout"], told["start"]


@pytest.mark.parametrize("ask", [by_run, by_mcp])
@pytest.mark.parametrize("keeper", ["off", "on"])
def test_prewarmed_sandboxes_are_used_once(needs_engine, containers, ask, keeper):
    """covers: C-12"""
    with Daemon(args=["--preset", "codomyrmex"], serve={"keeper": keeper, "warm": ["bash"]},
                env={"DOCKER_HOST": os.environ["DOCKER_HOST"]}) as d:
        used = set()
        for _ in range(3):
            assert wait_for(lambda: len({c["Id"] for c in containers("codomyrmex-")
                                         if c["State"]["Running"]} - used) >= 2)
            waiting = {c["Id"] for c in containers("codomyrmex-")} - used
            assert ask(d) == ("ok", "left\n", "warm")
            assert wait_for(lambda: len(waiting - {c["Id"] for c in
                                                   containers("codomyrmex-")}) == 1)
            used |= waiting - {c["Id"] for c in containers("codomyrmex-")}
        assert len(used) == 3  # each took another, which is gone
        assert len({line["vessel"] for line in d.lines("run")}) == 3
    assert wait_for(lambda: not containers("codomyrmex-"))
