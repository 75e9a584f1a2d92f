# SPDX-License-Identifier: Apache-2.0
"""The official clients: the library in both generations, and the inspector."""
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import OWN_TOOLS, VIAL, measured

CLIENTS = [("v1", "legacy"), ("v2", "legacy"), ("v2", "modern")]


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("generation,era", CLIENTS)
def test_the_client_library_runs_follows_and_cancels_a_program(node, product_url, generation,
                                                              era, transport):
    target = [VIAL, "mcp"] if transport == "stdio" else [product_url]
    mark = "vial-mcp-%s-%s-%s-%d" % (generation, era, transport, os.getpid())
    done = node.run("client.mjs", generation, era, transport, *target, MARK=mark)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout)
    assert seen["tools"] == OWN_TOOLS
    assert seen["answer"]["content"] == [{"type": "text", "text": "42\n"}]
    assert seen["answer"]["_meta"]["vial/result"]["verdict"] == "ok"
    # Progress came while the program ran: it could not have ended otherwise. What comes
    # right before the answer may be dropped by the library, which takes answers first.
    assert [p["text"] for p in seen["progress"]] in (["first\n"], ["first\n", "second\n"])
    assert seen["progress"][0]["before_end"]
    assert seen["followed"]["content"][0]["text"] == "first\nsecond\n"
    assert "enough" in seen["cancelled"]
    measured("cancelled by %s %s over %s" % (generation, era, transport),
             seen["dead_after_ms"])


class Inspector:
    def __init__(self, node, *target):
        self.node, self.target = node, target

    def run(self, method, *args, era):
        before = [] if self.target[0] == "--" else list(self.target)
        after = list(self.target) if self.target[0] == "--" else []
        done = self.node.run(os.path.join(self.node.modules, ".bin/mcp-inspector"), "--cli",
                             *before, "--protocol-era", era, "-q", "--format", "json",
                             "--method", method, *args, *after)
        # A tool that says it failed makes the inspector's status 5.
        assert done.returncode in (0, 5), done.stdout + done.stderr
        return json.loads(done.stdout)["result"]

    def call(self, name, era, **arguments):
        return self.run("tools/call", "--tool-name", name, "--tool-args-json",
                        json.dumps(arguments), era=era)


def test_the_inspector_lists_and_calls_every_tool_over_http(node, product_url):
    inspector = Inspector(node, "--server-url", product_url, "--transport", "http")
    with ThreadPoolExecutor(2) as pool:
        lists = pool.map(lambda era: inspector.run("tools/list", era=era),
                         ["legacy", "modern"])
        for listed in lists:
            assert [tool["name"] for tool in listed["tools"]] == OWN_TOOLS
    made = inspector.call("create_sandbox", "modern")
    sandbox_id = made["structuredContent"]["sandbox_id"]
    calls = {
        "run_code": {"language": "python", "code": "print(6 * 7)"},
        "run_command": {"command": "echo $((6 * 7))"},
        "write_file": {"sandbox_id": sandbox_id, "path": "a.txt", "content": "forty-two"},
        "list_sandboxes": {},
        "list_languages": {},
    }
    with ThreadPoolExecutor(2) as pool:
        answers = dict(zip(calls, pool.map(
            lambda name: inspector.call(name, "modern", **calls[name]), calls)))
        later = dict(zip(["read_file", "list_files"], pool.map(
            lambda call: inspector.call(call[0], "legacy", **call[1]),
            [("read_file", {"sandbox_id": sandbox_id, "path": "a.txt"}),
             ("list_files", {"sandbox_id": sandbox_id})])))
    answers.update(later)
    answers["create_sandbox"] = made
    answers["delete_sandbox"] = inspector.call("delete_sandbox", "legacy",
                                               sandbox_id=sandbox_id)
    assert sorted(answers) == sorted(OWN_TOOLS)
    assert {name: answer for name, answer in answers.items() if answer.get("isError")} == {}
    assert answers["run_code"]["content"][0]["text"] == "42\n"
    assert answers["run_command"]["content"][0]["text"] == "42\n"
    assert answers["read_file"]["content"][0]["text"] == "forty-two"
    assert [e["path"] for e in answers["list_files"]["structuredContent"]["entries"]] == \
        ["a.txt"]


def test_the_inspector_lists_and_calls_every_tool_over_stdio(node):
    """Each call has a server of its own here, so that no sandbox outlives it."""
    inspector = Inspector(node, "--", VIAL, "mcp")
    none = {"sandbox_id": "s-0000000000000000"}
    calls = {
        "run_code": {"language": "node", "code": "console.log(6 * 7)"},
        "run_command": {"command": "echo $((6 * 7))"},
        "create_sandbox": {},
        "list_sandboxes": {},
        "list_languages": {},
        "read_file": {**none, "path": "a"},
        "write_file": {**none, "path": "a", "content": ""},
        "list_files": none,
        "delete_sandbox": none,
    }
    eras = ["modern", "legacy"]
    with ThreadPoolExecutor(2) as pool:
        listed = list(pool.map(lambda era: inspector.run("tools/list", era=era), eras))
        answers = dict(zip(calls, pool.map(
            lambda name: inspector.call(name, eras[len(name) % 2], **calls[name]), calls)))
    assert all([t["name"] for t in one["tools"]] == OWN_TOOLS for one in listed)
    assert sorted(answers) == sorted(OWN_TOOLS)
    for name, answer in answers.items():
        assert bool(answer.get("isError")) == ("sandbox_id" in calls[name]), answer
        if "sandbox_id" in calls[name]:
            assert "VIAL-SESSION" in answer["content"][0]["text"]
    assert answers["run_code"]["content"][0]["text"] == "42\n"


# Each preset's tools, and arguments with which each can be called. What needs a
# container engine that is not there says so; it is called all the same.
PRESET_CALLS = {
    "klaw": {"code_execute": {"language": "python", "code": "print(6 * 7)"}},
    "antigravity": {"run_python_code": {"code": "print(6 * 7)"}},
    "acode": {"sandbox_exec": {"command": "echo $((6 * 7))"}, "sandbox_list": {},
              "sandbox_cleanup": {}},
    "codomyrmex": {"execute_code": {"language": "python", "code": "print(6 * 7)"}},
    "coding-agent": {
        "startContainer": {"sessionId": "inspected"},
        "execInContainer": {"containerId": "c", "command": "echo $((6 * 7))"},
        "readFileInContainer": {"containerId": "c", "path": "a"},
        "writeFileInContainer": {"containerId": "c", "path": "a", "content": "1"},
        "listDirectoryInContainer": {"containerId": "c"},
        "cleanupContainer": {"containerId": "c"},
    },
}


@pytest.mark.parametrize("preset", sorted(PRESET_CALLS))
def test_the_inspector_lists_and_calls_every_tool_of_a_preset(node, serving, preset):
    calls = PRESET_CALLS[preset]
    targets = [("modern", Inspector(node, "--", VIAL, "mcp", "--preset", preset)),
               ("legacy", Inspector(node, "--server-url", serving("product", preset),
                                    "--transport", "http"))]
    with ThreadPoolExecutor(2) as pool:
        for listed in pool.map(lambda t: t[1].run("tools/list", era=t[0]), targets):
            assert [tool["name"] for tool in listed["tools"]] == list(calls)
        work = [(t, name) for t in targets for name in calls]
        answers = list(pool.map(lambda w: w[0][1].call(w[1], w[0][0], **calls[w[1]]), work))
    for (target, name), answer in zip(work, answers):
        said = answer["content"][0]["text"]
        assert answer["content"][0]["type"] == "text" and said, (name, answer)
        if not answer.get("isError") and "6 * 7" in str(calls[name]):
            assert "42" in said, (name, answer)
