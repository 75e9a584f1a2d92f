# SPDX-License-Identifier: Apache-2.0
"""All presets that would have a container engine, and take the native driver where none
answers: whoever asks is told so, in the answer of that very call."""
import json
import re
import subprocess

import pytest
from conftest import ROOT, VIAL, environment

pytestmark = pytest.mark.usefixtures("own_output")
NOBODY = "unix:///nonexistent/sock"
WORDS = "no container engine answers here, so driver 'native' runs this instead of 'docker'"
CALLS = {
    "acode": ("sandbox_exec", {"command": "echo said"}),
    "klaw": ("code_execute", {"language": "bash", "code": "echo said"}),
    "codomyrmex": ("execute_code", {"language": "bash", "code": "echo said"}),
    "coding-agent": ("startContainer", {"sessionId": "s-%d"}),
}


def ask(client, preset, number=0):
    name, arguments = CALLS[preset]
    arguments = {k: v % number if "%d" in v else v for k, v in arguments.items()}
    client.unasked.clear()
    answer = client(name, **arguments)
    assert not answer.error, answer.whole
    if "said" in str(arguments):
        assert "said" in answer.text
    return answer


def logged(client):
    return [m["params"]["data"]["message"] for m in client.unasked
            if m.get("method") == "notifications/message"]


def check_told(client, answer, told):
    """Text, structured result and log alike."""
    assert answer.whole.startswith("[warning: " + WORDS) == told, answer.whole
    assert (answer.warning or "").startswith(WORDS) == told
    assert [m.startswith(WORDS) for m in logged(client)] == ([True] if told else [])


def test_every_preset_with_a_fallback_is_walked_here():
    with_one = [p.stem for p in (ROOT / "presets").glob("*.yaml")
                if re.search("^  fallback:", p.read_text(), re.M)]
    assert sorted(with_one) == sorted(CALLS)


@pytest.mark.parametrize("preset", CALLS)
def test_a_server_without_an_engine_says_so_at_every_call(mcp, preset):
    client = mcp(preset, DOCKER_HOST=NOBODY)
    schema = client.tools()[CALLS[preset][0]]["outputSchema"]
    assert schema["properties"]["warning"] == {"type": "string"}
    assert "warning" not in schema["required"]
    for i in range(2):
        check_told(client, ask(client, preset, i), True)


@pytest.mark.parametrize("preset", CALLS)
def test_an_engine_that_stops_between_two_calls_is_told_by_the_next(mcp, line, needs_engine,
                                                                    preset):
    """And not by the one after it has come back. What klaw keeps alive for its next call
    has died with the engine."""
    client = mcp(preset, DOCKER_HOST=line.address)
    check_told(client, ask(client, preset, 1), False)
    line.cut()
    for container in needs_engine.ours():
        needs_engine.call("POST", "/containers/%s/kill" % container["Id"])
    check_told(client, ask(client, preset, 2), True)
    line.mend()
    check_told(client, ask(client, preset, 3), False)


def test_a_kept_container_whose_engine_is_gone_is_not_used(mcp, line, needs_engine):
    """Its processes may live on, but nobody holds its limits any more."""
    client = mcp("klaw", DOCKER_HOST=line.address)
    check_told(client, ask(client, "klaw"), False)
    kept, = needs_engine.ours()
    line.cut()
    check_told(client, ask(client, "klaw"), True)
    assert kept["State"] == "running"


@pytest.mark.parametrize("preset", ["acode"])
def test_the_command_says_so_before_the_output(preset, tmp_path):
    """Both streams on one pipe, as on a terminal."""
    done = subprocess.run([VIAL, "--preset", preset, "exec", "echo out; echo err >&2"],
                          cwd=tmp_path, env=environment(DOCKER_HOST=NOBODY), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    first, *rest = done.stdout.splitlines()
    assert first.startswith("vial: warning: " + WORDS)
    assert rest == ["out", "err"]


def test_with_json_the_result_says_so_and_the_audit_log_too(tmp_path):
    log, settings = tmp_path / "audit.log", tmp_path / "settings.yaml"
    settings.write_text("audit: {path: %s}\n" % log)
    done = subprocess.run([VIAL, "--preset", "acode", "--config", str(settings), "exec", "--json",
                           "true"], cwd=tmp_path, env=environment(DOCKER_HOST=NOBODY), text=True,
                          capture_output=True, check=True)
    assert done.stderr == ""
    for told in (json.loads(done.stdout), json.loads(log.read_text().splitlines()[-1])):
        assert (told["driver"], told["wanted_driver"]) == ("native", "docker")
