# SPDX-License-Identifier: Apache-2.0
"""Every tool of every preset has a page that tells an agent what it takes."""
import json
import re

import pytest
import yaml
from conftest import ROOT

PRESETS = ["klaw", "antigravity", "acode", "codomyrmex", "coding-agent"]
OWN = {"run_code", "run_command", "read_file", "write_file", "list_files", "create_sandbox",
       "list_sandboxes", "delete_sandbox", "list_languages"}


def words(data):
    return set(re.findall(r"\w+", json.dumps(data)))


@pytest.mark.parametrize("preset", ["", *PRESETS])
def test_the_server_names_only_tools_that_it_has(mcp, preset, own_output):
    client = mcp(preset)
    tools = set(client.tools())
    others = OWN.union(*(yaml.safe_load((ROOT / "presets" / (p + ".yaml")).read_text())
                         ["preset"]["tools"] for p in PRESETS)) - tools
    assert tools & words(client.begun["instructions"])
    if preset:
        assert tools <= words(client.begun["instructions"])
    told = [client.begun, list(client.tools().values()),
            client.ask("resources/templates/list", {}).get("result"),
            client.ask("prompts/list", {}).get("result")]
    assert not words(told) & others


@pytest.mark.parametrize("preset", PRESETS)
def test_every_tool_has_a_page_with_its_parameters(mcp, preset, own_output):
    """covers: K-11"""
    for name, tool in mcp(preset).tools().items():
        page = (ROOT / "docs/tools" / (name + ".md")).read_text()
        assert page.startswith("# %s\n" % name) and "`%s`" % preset in page
        for parameter, schema in tool["inputSchema"]["properties"].items():
            row = [line for line in page.splitlines() if line.startswith("| `%s`" % parameter)]
            assert len(row) == 1, (name, parameter)
            assert ("required" in row[0]) == (parameter in tool["inputSchema"]["required"])
            if isinstance(schema.get("default"), int):
                assert str(schema["default"]) in row[0]
        for key in tool.get("outputSchema", {}).get("properties", {}):
            if name not in ("code_execute",) and key not in ("stderr", "exitCode", "code",
                                                             "stdout"):
                assert "`%s`" % key in page, (name, key)
