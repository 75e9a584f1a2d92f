# SPDX-License-Identifier: Apache-2.0
"""Every way in which a run can end, under every preset and under none, by the command, by
MCP over stdio and by MCP over HTTP: each has a text, and text, mark, structured result and
exit status agree. `cancelled` has no reader over MCP, where nobody waits for an answer any
more: tests/unit/test_preset_tools.c looks at its text."""
import json
import os
import sys
import tempfile

import pytest
from conftest import DOCKER, ROOT, VIAL, Mcp, environment

os.environ["VIAL"] = VIAL
sys.path.insert(0, str(ROOT / "tests" / "serve"))
from daemon import Daemon  # noqa: E402

# Programs that end so: for a shell, and for Python.
PROGRAMS = {
    "ok": ("echo fine", "print('fine')"),
    "nonzero": ("echo fine; exit 3", "print('fine'); raise SystemExit(3)"),
    "signal": ("kill -SEGV $$", "import os; os.abort()"),
    "timeout": ("sleep 100", "import time; time.sleep(100)"),
    "cpu_timeout": ("while :; do :; done", "while True: pass"),
    "oom": ("exec tail /dev/zero", "x = b'x' * (600 << 20)"),
    "disk": ("head -c 8m /dev/zero >big; sleep 100",
             "import time\ntry: open('big', 'wb').write(bytes(8 << 20))\n"
             "except OSError: pass\ntime.sleep(100)"),
    "pids": ("(for i in $(seq 60); do sleep 100 & done); exec sleep 100",
             "import os, time\ntry:\n  while os.fork(): pass\nexcept OSError: pass\n"
             "time.sleep(100)"),
    "output_limit": ("while :; do echo long line; done", "while True: print('long line')"),
    "denied": ("echo fine", "print('fine')"),
    "failed": ("echo fine", "print('fine')"),
}
SETTINGS = {
    "timeout": {"VIAL_TIMEOUT": "1s"},
    "cpu_timeout": {"VIAL_CPU_TIME": "300ms"},
    "oom": {"VIAL_MEMORY": "64m"},
    "disk": {"VIAL_DISK": "1m", "VIAL_END_ON": "disk"},
    "pids": {"VIAL_PIDS": "24", "VIAL_END_ON": "pids"},
    "output_limit": {"VIAL_OUTPUT_MAX": "2k"},
    "failed": {"VIAL_ROOTFS": "EMPTY", "VIAL_DRIVER": "native", "VIAL_NETWORK": "none"},
}
# What the command's own exit status says (README, "Exit status").
STATUS = {"ok": 0, "nonzero": 3, "timeout": 124, "cpu_timeout": 124, "oom": 137, "disk": 125,
          "pids": 125, "output_limit": 125, "denied": 125, "failed": 125}
# A word that each text must have, whatever else it says.
WORD = {"ok": "fine", "nonzero": "3", "signal": "SIG", "timeout": "timed out|timeout|TIMEOUT",
        "cpu_timeout": "cpu", "oom": "memory", "disk": "disk", "pids": "processes|pids",
        "output_limit": "printed|output_limit", "denied": "max_timeout",
        "failed": "start|find"}
LATE = 7200  # seconds: above every policy's maximum


def code_execute(kind, sh, py):
    return "code_execute", {"language": "bash", "code": sh}


def run_python_code(kind, sh, py):
    return "run_python_code", {"code": py}


def sandbox_exec(kind, sh, py):
    return "sandbox_exec", {"command": sh}


def execute_code(kind, sh, py):
    return "execute_code", {"language": "bash", "code": sh}


def run_code(kind, sh, py):
    return "run_code", {"language": "bash", "code": sh}


TOOLS = {"klaw": code_execute, "antigravity": run_python_code, "acode": sandbox_exec,
         "codomyrmex": execute_code, "": run_code}
CASES = [(p, v) for p in TOOLS for v in PROGRAMS]


class Http:
    """The same client over the daemon's /mcp."""

    def __init__(self, preset, env, block):
        self.daemon = Daemon(args=["--preset", preset] if preset else [], env=env,
                             policy={"mount_roots": ["/tmp"]})
        self.daemon.settings.update(block)
        self.daemon.start()

    def __call__(self, name, **arguments):
        answer = self.daemon.ask(
            "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": name, "arguments": arguments, "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {}}}},
            {"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28",
             "Mcp-Method": "tools/call", "Mcp-Name": name})
        assert answer.status == 200, answer.body
        return answer.json["result"]

    def close(self):
        self.daemon.stop()


class Stdio(Mcp):
    def __init__(self, preset, env, block):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump(block, file)
            file.flush()
            super().__init__(preset, *(["--config", file.name] if block else []), **env)

    def __call__(self, name, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})["result"]


@pytest.fixture
def settings(place):
    """The variables of a verdict; nothing runs in a root that holds nothing."""
    def of(verdict, **more):
        env = {**SETTINGS.get(verdict, {}), **more}
        if "VIAL_ROOTFS" in env:
            (place / "empty").mkdir(exist_ok=True)
            env["VIAL_ROOTFS"] = str(place / "empty")
        return env
    return of


def check(preset, verdict, result):
    text = result["content"][0]["text"]
    data = result["structuredContent"] if preset else result["_meta"]["vial/result"]
    assert any(word in text for word in WORD[verdict].split("|")), text
    assert result.get("isError", False) == (verdict not in ("ok", "nonzero")), text
    if verdict == "cpu_timeout":
        assert "session" not in text, text  # also where a vessel is kept
    code = data.get("exitCode", data.get("exit_code"))
    name = data.get("signal") if not preset else None
    if verdict in ("ok", "nonzero"):
        assert code == STATUS[verdict]
    elif verdict == "signal":
        assert (code in (134, 139) if preset else name in ("SEGV", "ABRT")), data
    elif verdict == "oom" and preset:
        assert code == 137, data
    else:
        assert code is None, data


@pytest.mark.parametrize("door", [Stdio, Http])
@pytest.mark.parametrize("preset,verdict", CASES)
def test_every_end_is_told_over_mcp(api, door, preset, verdict, settings, own_output):
    if DOCKER and verdict == "failed":
        pytest.skip("an empty root is the native driver's")
    name, arguments = TOOLS[preset](verdict, *PROGRAMS[verdict])
    if verdict == "denied":
        arguments["timeout"] = LATE
    env = settings(verdict, DOCKER_HOST=environment()["DOCKER_HOST"])
    # What is kept alive does not end when such a limit is touched.
    once = preset == "klaw" and verdict in ("disk", "pids")
    client = door(preset, env, {"codeExecution": {"keepAlive": False}} if once else {})
    try:
        check(preset, verdict, client(name, **arguments))
    finally:
        client.close()


@pytest.mark.parametrize("preset,verdict", CASES)
def test_every_end_is_told_by_the_command(vial, preset, verdict, settings, own_output):
    if DOCKER and verdict == "failed":
        pytest.skip("an empty root is the native driver's")
    sh, py = PROGRAMS[verdict]
    more = ["--timeout", "2h"] if verdict == "denied" else []
    program = ["python", py] if preset == "antigravity" else ["bash", sh]
    words = (["--preset", preset] if preset else []) + ["run", *more]
    done = vial(*words, *program, **settings(verdict))
    assert done.status == STATUS.get(verdict, 134 if "python" in program else 139), done.err
    said = done.out + done.err
    if verdict == "nonzero":  # the status says it
        assert said.startswith("fine\n")
    else:
        assert any(word in said for word in WORD[verdict].split("|")), said
    result = vial(*words, "--json", *program, **settings(verdict)).json
    assert result["verdict"] == verdict
    assert result["signal"] == {"signal": "ABRT" if "python" in program else "SEGV",
                                "oom": "KILL"}.get(verdict)


EXECS = {v: PROGRAMS[v][0] for v in ("ok", "nonzero", "signal", "timeout", "cpu_timeout",
                                     "oom", "output_limit", "denied")}


@pytest.mark.parametrize("door", [Stdio, Http])
@pytest.mark.parametrize("verdict", EXECS)
def test_every_end_in_a_session_is_told(api, door, verdict, settings):
    client = door("coding-agent", settings(verdict, DOCKER_HOST=environment()["DOCKER_HOST"]),
                  {})
    try:
        begun = client("startContainer", sessionId="a")
        place = begun["structuredContent"]["containerId"]
        more = {"timeoutMs": LATE * 1000} if verdict == "denied" else {}
        check("coding-agent", verdict, client("execInContainer", containerId=place,
                                              command=EXECS[verdict], **more))
    finally:
        client.close()
