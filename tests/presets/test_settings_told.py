# SPDX-License-Identifier: Apache-2.0
"""What a tool's schema and description say of limits is what is in force: each setting is
changed by its variable, by the document's own variable or config block, or by the policy,
and the tools are listed again."""
import json

import pytest
import yaml

TOOL = {"": "run_code", "klaw": "code_execute", "antigravity": "run_python_code",
        "acode": "sandbox_exec", "codomyrmex": "execute_code",
        "coding-agent": "execInContainer"}
# A variable, and what the tool's texts then say.
CHANGES = [("VIAL_TIMEOUT", "7s", "7 seconds"), ("VIAL_MEMORY", "77m", "77 MB"),
           ("VIAL_CPUS", "0.7", "0.7"), ("VIAL_PIDS", "77", "77 processes")]
MORE = {  # what not every description tells
    "": [("VIAL_NETWORK", "bridge", "network: bridge"), ("VIAL_DISK", "7m", "7 MB of files"),
         ("VIAL_OUTPUT_LIMIT", "7k", "7 KB kept")],
    "klaw": [("VIAL_NETWORK", "none", "network: none"), ("VIAL_TMP", "7m", "/tmp (7 MB)"),
             ("VIAL_OUTPUT_LIMIT", "777", "beyond 777 characters")],
    "antigravity": [("VIAL_NETWORK", "bridge", "network: bridge"),
                    ("SANDBOX_TIMEOUT_SEC", "9", "9 seconds"),
                    ("SANDBOX_MAX_OUTPUT_KB", "9", "9 KB")],
    "acode": [("VIAL_NETWORK", "bridge", "Network: bridge"),
              ("VIAL_OUTPUT_LIMIT", "7k", "7 KB of each output")],
    "codomyrmex": [("VIAL_NETWORK", "bridge", "network: bridge"),
                   ("SANDBOX_DEFAULT_TIMEOUT_SECONDS", "9", "9 seconds"),
                   ("SANDBOX_DEFAULT_MEMORY_LIMIT_MB", "99", "99 MB"),
                   ("SANDBOX_DEFAULT_CPU_QUOTA_PERCENT", "90", "0.9"),
                   ("SANDBOX_PID_LIMIT", "99", "99 processes"),
                   ("SANDBOX_GLOBAL_MAX_TIMEOUT_SECONDS", "99", "99 seconds")],
    "coding-agent": [("VIAL_NETWORK", "bridge", "network: bridge"),
                     ("VIAL_DISK", "7m", "7 MB of files"),
                     ("VIAL_OUTPUT_LIMIT", "777", "at 777 characters")],
}
ROWS = [(p, *row) for p in TOOL for row in CHANGES + MORE[p]]


def told(mcp, preset, *args, **env):
    return json.dumps(mcp(preset, *args, **env).tools()[TOOL[preset]])


@pytest.mark.parametrize("preset,variable,value,text", ROWS)
def test_a_variable_changes_what_the_tool_says(mcp, own_output, preset, variable, value, text):
    usual = told(mcp, preset)
    if text not in usual:
        assert text in told(mcp, preset, **{variable: value})
    else:
        pytest.fail("'%s' is what it says anyhow" % text)


@pytest.mark.parametrize("preset", TOOL)
def test_defaults_and_maxima_are_those_in_force(mcp, own_output, preset, tmp_path):
    def bounds(*args, **env):
        schema = mcp(preset, *args, **env).tools()[TOOL[preset]]["inputSchema"]
        [(name, timeout)] = [(k, v) for k, v in schema["properties"].items()
                             if k.startswith("timeout")]
        unit = 1000 if name.endswith("Ms") else 1
        return timeout["default"] / unit, timeout["maximum"] / unit, unit
    assert bounds()[:2] == {"coding-agent": (60, 3600), "codomyrmex": (30, 300),
                            "acode": (600, 3600)}.get(preset, (30, 3600))
    config = tmp_path / "vial.yaml"
    config.write_text("policy: {max_timeout: 70s}\ndefaults: {timeout: 11s}\n")
    assert bounds("--config", str(config))[:2] == (11, 70)


@pytest.mark.parametrize("preset", [p for p in TOOL if p != "coding-agent"])
def test_above_the_maximum_it_is_the_policy_that_refuses(mcp, own_output, preset):
    code = {"acode": {"command": "true"}, "antigravity": {"code": "1"}}.get(
        preset, {"language": "bash", "code": "true"})
    answer = mcp(preset)(TOOL[preset], timeout=7201, **code)
    assert answer.error and "policy's max_timeout" in answer.text
    assert answer.json is not None


def test_klaws_block_changes_what_its_tool_says(mcp, own_output, tmp_path):
    """covers: K-13"""
    file = tmp_path / "engine.yaml"
    file.write_text(yaml.safe_dump({"codeExecution": {
        "timeout": 20, "allowNetwork": False, "maxMemory": "128m", "maxCpus": 0.5,
        "keepAliveIdleTimeoutMin": 5, "keepAliveMaxExecutions": 17}}))
    tool = mcp("klaw", "--config", str(file)).tools()["code_execute"]
    for text in ["20 seconds unless", "network: none", "128 MB", "CPU cores: 0.5",
                 "17 of them", "5 minutes without"]:
        assert text in tool["description"]
    assert tool["inputSchema"]["properties"]["timeout"]["default"] == 20
