# SPDX-License-Identifier: Apache-2.0
"""Every tool of every preset has a page that tells an agent what it takes."""
import pytest
from conftest import ROOT

PRESETS = ["klaw", "antigravity", "acode", "codomyrmex", "coding-agent"]


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


@pytest.mark.parametrize("preset", PRESETS)
def test_answers_name_only_what_exists(preset):
    import re
    import yaml
    values = {"stdout", "stderr", "exit_code", "verdict", "status", "error", "code", "remedy",
              "duration", "duration_ms", "timeout", "timed_out", "truncated", "driver", "level",
              "image", "container", "signal", "id", "list", "items", "removed", "done"}
    flags = {"stdout", "stderr", "error", "remedy", "timeout", "oom", "nonzero", "signal",
             "silent", "id", "done", "code", "truncated"}

    def leaves(shape):
        return [shape] if isinstance(shape, str) else [x for v in shape.values()
                                                       for x in leaves(v)]
    data = yaml.safe_load((ROOT / "presets" / (preset + ".yaml")).read_text())
    for tool in data["preset"]["tools"].values():
        for line in tool["answer"]["text"]:
            assert line.get("when", "done") in flags
            assert set(re.findall(r"\{(\w+)\}", line["show"])) <= values
        assert set(leaves(tool["answer"]["json"])) <= values
