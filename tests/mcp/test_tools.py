# SPDX-License-Identifier: Apache-2.0
"""vial's own tools: what a model reads, and what programs get."""
import base64
import json
import os
import re
import subprocess

import jsonschema
import pytest

from conftest import HERE, OWN_TOOLS, VIAL, text_of

PAGES = os.path.join(HERE, "../../docs/tools")


@pytest.fixture
def tools(client):
    return client()


def sandbox(c, **more):
    return c.call("create_sandbox", **more)["structuredContent"]["sandbox_id"]


def told(result):
    """What programs get to know of a run."""
    return result["_meta"]["vial/result"]


def test_every_tool_has_a_page_with_its_very_parameters(tools):
    for tool in tools.ask("tools/list")["result"]["tools"]:
        page = open(os.path.join(PAGES, tool["name"] + ".md")).read()
        named = re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.M)
        schema = tool["inputSchema"]
        offered = {*schema["properties"], *(name for name, kind in named if "if there" in kind)}
        assert sorted(name for name, _ in named) == sorted(offered), tool["name"]
        assert sorted(name for name, kind in named if "required" in kind) == \
            sorted(schema["required"]), tool["name"]
        assert len(tool["description"]) > 30
    pages = {name[:-3] for name in os.listdir(PAGES) if name.endswith(".md")}
    assert set(OWN_TOOLS) <= pages


def test_every_answer_fits_its_output_schema(tools):
    schemas = {t["name"]: t.get("outputSchema") for t in
               tools.ask("tools/list")["result"]["tools"]}
    id = sandbox(tools)
    calls = [("run_code", {"language": "python", "code": "print(1)"}),
             ("run_code", {"language": "python", "code": "1/0"}),
             ("run_code", {"language": "python", "code": "x", "sandbox_id": id}),
             ("run_code", {"language": "bash", "code": "exit 3", "sandbox_id": id}),
             ("run_code", {"language": "bash", "code": "kill -9 $$"}),
             ("run_code", {"language": "bash", "code": "sleep 9", "timeout": 0.1}),
             ("run_code", {"language": "bash", "code": "echo > a", "outputs": ["a", "b"]}),
             ("run_command", {"command": "printf '\\377'"}),
             ("run_command", {"command": "true", "sandbox_id": id}),
             ("write_file", {"sandbox_id": id, "path": "d/a", "content": "1"}),
             ("write_file", {"sandbox_id": id, "path": "b", "content_base64": "/w=="}),
             ("read_file", {"sandbox_id": id, "path": "d/a"}),
             ("read_file", {"sandbox_id": id, "path": "b"}),
             ("list_files", {"sandbox_id": id, "recursive": True}),
             ("create_sandbox", {}), ("list_sandboxes", {}), ("list_languages", {}),
             ("delete_sandbox", {"sandbox_id": id})]
    assert {name for name, _ in calls} == set(schemas)
    for name, arguments in calls:
        result = tools.call(name, **arguments)
        if schemas[name]:
            jsonschema.validate(result["structuredContent"], schemas[name])
        else:
            assert "structuredContent" not in result, name


def test_a_text_comes_once(tools):
    """64 KiB are not 133: clients show a model either text or structured content."""
    text = "0123456789abcdef" * 4096
    id = sandbox(tools, files=[{"path": "long", "content": text}])
    result = tools.call("read_file", sandbox_id=id, path="long")
    assert text_of(result) == text and len(json.dumps(result)) < len(text) + 500
    run = tools.call("run_command", sandbox_id=id, command="head -c 20000 long")
    assert text_of(run) == text[:20000] and len(json.dumps(run)) < 20000 + 3000
    assert told(run)["stdout_bytes"] == 20000 and told(run)["sandbox_id"] == id


def test_an_absolute_path_is_what_programs_find_there(tools):
    id = sandbox(tools)
    assert not tools.call("write_file", sandbox_id=id, path="/tmp/d/a", content="in").get("isError")
    assert text_of(tools.call("run_command", sandbox_id=id,
                              command="ln -s d/a /tmp/l; cat /tmp/d/a")) == "in"
    assert text_of(tools.call("read_file", sandbox_id=id, path="/tmp/l")) == "in"
    listed = tools.call("list_files", sandbox_id=id, path="/tmp")
    assert [e["path"] for e in listed["structuredContent"]["entries"]] == ["d", "l"]
    assert "VIAL-FILE" in text_of(tools.call("write_file", sandbox_id=id, path="/usr/a", content=""))


@pytest.mark.parametrize("path", ["d/a.txt", "./d/a.txt", "/work/d/a.txt", "/work/./d/a.txt"])
def test_a_path_may_be_absolute_or_begin_with_a_dot(tools, path):
    id = sandbox(tools)
    assert not tools.call("write_file", sandbox_id=id, path=path, content="in").get("isError")
    assert text_of(tools.call("run_command", sandbox_id=id, command="cat /work/d/a.txt")) == "in"
    assert text_of(tools.call("read_file", sandbox_id=id, path=path)) == "in"
    listed = tools.call("list_files", sandbox_id=id, path=os.path.dirname(path))
    assert [e["path"] for e in listed["structuredContent"]["entries"]] == ["a.txt"]
    for whole in (".", "./", "/work", "/work/"):
        listed = tools.call("list_files", sandbox_id=id, path=whole, recursive=True)
        assert "d/a.txt" in text_of(listed), whole


def test_only_files_that_a_program_made_are_linked(tools):
    id = sandbox(tools)
    code = "mkdir -p .cache/x d; echo > .cache/x/y; echo > .hidden; echo > d/made; echo > main.txt"
    result = tools.call("run_command", sandbox_id=id, command=code)
    assert [b["name"] for b in result["content"][1:]] == ["d/made", "main.txt"]
    result = tools.call("run_code", sandbox_id=id, language="perl",
                        code="open(F, '>', 'out.txt'); print F 'x' # " + "x" * (100 << 10))
    assert [b["name"] for b in result["content"][1:]] == ["out.txt"], text_of(result)
    result = tools.call("run_code", sandbox_id=id, language="c",
                        code="int main(void) { return 0; }")
    assert result["content"][1:] == []


# What goes wrong by what tools take, each with the tool's arguments.
FAULTS = [
    ("run_code", {"language": "pythn", "code": "1"}),
    ("run_code", {"language": "klingon", "code": "1"}),
    ("run_code", {"language": "python", "code": "1", "timeout": 1e6}),
    ("run_code", {"language": "python", "code": "1", "memory": "2000g"}),
    ("run_code", {"language": "python", "code": "1", "memory": "much"}),
    ("run_code", {"language": "python", "code": "1", "memory": "100g"}),
    ("run_code", {"language": "python", "code": "1", "network": "bridge"}),
    ("run_code", {"language": "python", "code": "1", "env": {"1A": "b"}}),
    ("run_code", {"language": "python", "code": "1", "files": [{"path": "../a", "content": ""}]}),
    ("run_code", {"language": "python", "code": "1", "outputs": ["/etc/passwd"]}),
    ("run_code", {"language": "python", "code": "1", "tiemout": 1}),
    ("run_code", {"language": "python", "code": "1", "args": ["x" * (200 << 10)]}),
    ("run_code", {"language": "python", "code": "1", "sandbox_id": "s-0"}),
    ("run_code", {"language": "bash", "code": "1", "sandbox_id": "ID", "timeout": 1e6}),
    ("run_code", {"language": "python", "code": "1", "sandbox_id": "ID", "timeout": 1e6}),
    ("run_code", {"language": "python", "code": "1", "sandbox_id": "ID", "memory": "1g"}),
    ("run_code", {"language": "python", "code": "1", "sandbox_id": "ID", "stdin": "1"}),
    ("run_code", {"language": "python", "sandbox_id": "ID", "code": "import os; os._exit(1)"}),
    ("run_command", {"command": "true", "cwd": "/nowhere"}),
    ("run_command", {"command": "true", "cwd": "../x", "sandbox_id": "ID"}),
    ("run_command", {"command": "true", "cwd": "/nowhere", "sandbox_id": "ID"}),
    ("run_command", {"command": "true", "env": {"A=": "b"}, "sandbox_id": "ID"}),
    ("run_command", {"command": "sleep 9", "timeout": 0.1}),
    ("run_command", {"command": "sleep 9", "timeout": 0.1, "sandbox_id": "ID"}),
    ("run_command", {"command": "python3 -c \"'x' * (1 << 30)\"", "memory": "16m"}),
    ("read_file", {"sandbox_id": "ID", "path": "none"}),
    ("read_file", {"sandbox_id": "ID", "path": "."}),
    ("read_file", {"sandbox_id": "ID", "path": "/etc/shadow"}),
    ("read_file", {"sandbox_id": "ID", "path": "/tmp/../etc/passwd"}),
    ("read_file", {"uri": "vial://runs/r-0/stdout"}),
    ("read_file", {"path": "a"}),
    ("write_file", {"sandbox_id": "ID", "path": "a"}),
    ("write_file", {"sandbox_id": "ID", "path": "a", "content_base64": "?"}),
    ("list_files", {"sandbox_id": "ID", "path": "none"}),
    ("create_sandbox", {"network": "bridge"}),
    ("create_sandbox", {"memory": "2000g"}),
    ("create_sandbox", {"disk": "1g"}),
    ("delete_sandbox", {"sandbox_id": "s-0"}),
]


def test_remedies_are_those_that_a_model_can_follow(tools):
    """None names a flag, a command of people, a vessel, or a field that no tool takes."""
    listed = {t["name"]: t["inputSchema"]["properties"]
              for t in tools.ask("tools/list")["result"]["tools"]}
    taken = {name for properties in listed.values() for name in properties}
    out = subprocess.run([VIAL, "schema", "request"], capture_output=True, check=True)
    fields = set(json.loads(out.stdout)["properties"]) - taken
    id = sandbox(tools)
    for name, arguments in FAULTS:
        arguments = {k: id if v == "ID" else v for k, v in arguments.items()}
        result = tools.call(name, **arguments)
        said = text_of(result)
        remedy = said.partition("Remedy: ")[2]
        assert result["isError"], (name, str(arguments)[:200], said)
        assert not re.search(r" --\w|'vial (?!doctor)|`vial|VIAL_", said), said
        assert not re.search(r"\b(session|vessel|driver)s?\b", remedy), said
        assert not set(re.findall(r"['`](\w+)['`]", remedy)) & fields, said
        assert "bridge" not in remedy, said


def test_a_network_is_offered_only_where_there_can_be_one(tools):
    for tool in tools.ask("tools/list")["result"]["tools"]:
        assert "network" not in tool["inputSchema"]["properties"], tool["name"]
    refused = tools.call("run_code", language="python", code="1", network="bridge")
    assert "do without it: it cannot be had here" in text_of(refused)


def test_the_cap_in_force_is_told(client, tmp_path):
    (tmp_path / "vial.yaml").write_text("policy: {max_timeout: 5s, max_memory: 64m}\n"
                                        "defaults: {timeout: 2s, memory: 32m}\n")
    tools = client("--config", str(tmp_path / "vial.yaml"))
    properties = tools.ask("tools/list")["result"]["tools"][0]["inputSchema"]["properties"]
    assert properties["timeout"]["maximum"] == 5
    assert "at most 64 MB" in properties["memory"]["description"]
    for place in ({}, {"sandbox_id": sandbox(tools)}):
        said = text_of(tools.call("run_command", command="true", timeout=6, **place))
        assert "timeout 6s exceeds the policy's max_timeout 5s" in said and "ask for less" in said
    late = text_of(tools.call("run_command", command="sleep 60", timeout=5))
    assert "That is the most there is" in late and "larger `timeout`" not in late
    full = text_of(tools.call("run_command", memory="20m",
                              command="python3 -c \"'x' * (1 << 30)\""))
    assert "the limit (20m) was reached" in full or "MemoryError" in full


@pytest.mark.parametrize("arguments,text", [
    ({"language": "python", "code": "print(2 + 2)"}, "4\n"),
    ({"language": "python", "code": "pass"}, "(no output)"),
    ({"language": "bash", "code": "echo out; echo err >&2"}, "out\nstderr:\nerr\n"),
    ({"language": "bash", "code": "printf out; echo err >&2; exit 3"},
     "Failed: exit code 3.\nout\nstderr:\nerr\n"),
    ({"language": "bash", "code": "kill -TERM $$"}, "Killed by signal 15 (SIGTERM).\n"),
    ({"language": "bash", "code": "cat", "stdin": "read me"}, "read me"),
    ({"language": "bash", "code": "echo $A", "env": {"A": "b"}}, "b\n"),
    ({"language": "bash", "code": "echo $1", "args": ["x y"]}, "x y\n"),
    ({"language": "bash", "code": "cat d/f", "files": [{"path": "d/f", "content": "in"}]},
     "in"),
    ({"language": "c", "code": "int main(void) { return 0 }"}, "Compiling failed: exit code 1.\n")])
def test_a_run_reads_as_a_person_would_tell_it(tools, arguments, text):
    said = text_of(tools.call("run_code", **arguments))
    assert said.startswith(text) if "Compiling" in text else said == text


def test_a_time_out_says_what_to_do(tools):
    result = tools.call("run_code", language="bash", code="echo before; sleep 60",
                        timeout=2.5)
    assert result["isError"]
    assert text_of(result).startswith("Timed out after 2.5 s; everything it had started was "
                                      "ended. If it needs longer, call again with a larger "
                                      "`timeout` (at most 1 hour)")
    assert text_of(result).endswith("before\n")
    assert told(result)["verdict"] == "timeout"


def test_a_long_output_is_cut_and_the_rest_can_be_read(tools):
    result = tools.call("run_code", language="python",
                        code="for i in range(20000): print('line', i)")
    said = text_of(result)
    assert len(said) < 30 << 10
    assert said.startswith("line 0\n") and "\nline 19999\n" in said
    total = told(result)["stdout_bytes"]
    assert "[stdout was cut: the program wrote %d bytes." % total in said
    uri = re.search(r'uri "(vial://runs/r-[0-9a-f]+/stdout)"', said).group(1)
    whole, at = "", 0
    while at < total:
        piece = text_of(tools.call("read_file", uri=uri, offset=at, length=50000))
        text = piece.rpartition("\n[bytes ")[0]
        whole += text
        at += len(text.encode())
    assert whole == "".join("line %d\n" % i for i in range(20000))
    listed = tools.ask("resources/list")["result"]["resources"]
    assert uri in [r["uri"] for r in listed]
    read = tools.ask("resources/read", {"uri": uri})["result"]["contents"][0]
    assert (read["text"], read["mimeType"]) == (whole, "text/plain")


PNG = ("import struct, zlib\n"
       "def part(t, d): return struct.pack('>I', len(d)) + t + d + struct.pack('>I', "
       "zlib.crc32(t + d))\n"
       "open('dot.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + part(b'IHDR', "
       "struct.pack('>IIBBBBB', 1, 1, 8, 2, 0, 0, 0)) + part(b'IDAT', "
       "zlib.compress(b'\\0\\xff\\0\\0')) + part(b'IEND', b''))\n")


def test_an_image_comes_as_an_image(tools):
    result = tools.call("run_code", language="python", code=PNG, outputs=["dot.png"])
    image = [b for b in result["content"] if b["type"] == "image"]
    link = [b for b in result["content"] if b["type"] == "resource_link"]
    assert [b["mimeType"] for b in image] == ["image/png"]
    assert base64.b64decode(image[0]["data"]).startswith(b"\x89PNG")
    read = tools.ask("resources/read", {"uri": link[0]["uri"]})["result"]["contents"][0]
    assert (read["blob"], read["mimeType"]) == (image[0]["data"], "image/png")

    id = sandbox(tools)
    made = tools.call("run_code", sandbox_id=id, language="python", code=PNG)
    assert [b["uri"] for b in made["content"] if b["type"] == "resource_link"] == \
        ["sandbox://%s/dot.png" % id]
    shown = tools.call("read_file", sandbox_id=id, path="dot.png")["content"]
    assert (shown[0]["type"], shown[0]["data"]) == ("image", image[0]["data"])


def test_a_figure_of_matplotlib_comes_as_an_image(tools):
    result = tools.call("run_code", sandbox_id=sandbox(tools), language="python", timeout=60,
                        code="import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()")
    image = [b for b in result["content"] if b["type"] == "image"]
    assert base64.b64decode(image[0]["data"]).startswith(b"\x89PNG"), text_of(result)


def test_a_sandbox_remembers_and_a_run_of_its_own_does_not(tools):
    id = sandbox(tools)
    for arguments in [{"language": "python", "code": "x = 41; open('f', 'w').write('1')"},
                      {"language": "node", "code": "var y = 1"}]:
        tools.call("run_code", sandbox_id=id, **arguments)
    assert text_of(tools.call("run_code", sandbox_id=id, language="python",
                              code="x + 1")) == "42"
    assert text_of(tools.call("run_code", sandbox_id=id, language="js",
                              code="y + 1")) == "2"
    assert text_of(tools.call("run_command", sandbox_id=id, command="cat f")) == "1"
    assert "NameError" in text_of(tools.call("run_code", language="python", code="x"))
    assert text_of(tools.call("run_command", command="ls")) == "(no output)"
    for language, code in [("bash", "echo hi"), ("perl", "print qq(hi\\n)"),
                           ("c", '#include <stdio.h>\nint main(void) { puts("hi"); }')]:
        said = text_of(tools.call("run_code", sandbox_id=id, language=language, code=code,
                                  timeout=60))
        assert said == "hi\n", language


def test_a_cell_is_told_as_a_notebook_shows_it(tools):
    picture = "class P:\n    def _repr_png_(self): return b'png'\n"
    shown = tools.call("run_code", sandbox_id=sandbox(tools), language="python",
                       code=picture + "print('one')\ndisplay({'k': 1})\ndisplay(P())\n"
                                      "!echo two\nawait __import__('asyncio').sleep(0, 3)")
    assert text_of(shown) == "one\n{'k': 1}\n[figure 1]\ntwo\n3"
    assert [c["type"] for c in shown["content"]] == ["text", "image"]


def test_an_exception_in_a_sandbox_leaves_its_variables(tools):
    id = sandbox(tools)
    tools.call("run_code", sandbox_id=id, language="python", code="x = 1")
    failed = tools.call("run_code", sandbox_id=id, language="python", code="print(x); 1/0")
    assert text_of(failed).startswith("Failed: exit code 1.\n1\nstderr:\nTraceback")
    assert "ZeroDivisionError" in text_of(failed)
    assert text_of(tools.call("run_code", sandbox_id=id, language="python", code="x")) == "1"


def test_an_interpreter_that_dies_is_replaced_and_the_model_is_told(tools):
    id = sandbox(tools)
    died = tools.call("run_code", sandbox_id=id, language="python",
                      code="import os; os._exit(7)")
    assert died["isError"] and "VIAL-CONTEXT" in text_of(died)
    assert "started anew, and its variables are gone" in text_of(died)
    assert text_of(tools.call("run_code", sandbox_id=id, language="python", code="1")) == "1"


@pytest.mark.parametrize("path", ["../a", "/etc/shadow", "/../etc/passwd", "a/../../b", "", "link/x"])
def test_no_path_leads_out_of_a_sandbox(tools, path):
    id = sandbox(tools)
    tools.call("run_command", sandbox_id=id, command="ln -s / link")
    for name, more in [("read_file", {}), ("write_file", {"content": "x"})]:
        result = tools.call(name, sandbox_id=id, path=path, **more)
        assert result["isError"], result
        assert re.search("VIAL-(PATH|NO-FILE|FILE)", text_of(result))
    uri = "sandbox://%s/%s" % (id, path)
    assert tools.ask("resources/read", {"uri": uri})["error"]["code"] == -32002


def test_files_are_read_in_pieces_with_a_hint_how_to_go_on(tools):
    id = sandbox(tools, files=[{"path": "long", "content": "0123456789" * 10000}])
    first = tools.call("read_file", sandbox_id=id, path="long")
    assert text_of(first).endswith("[bytes 0 to 65536 of 100000; call again with offset "
                                   "65536 for more]")
    last = tools.call("read_file", sandbox_id=id, path="long", offset=99995)
    assert text_of(last).startswith("56789\n[bytes 99995 to 100000 of 100000]")
    assert "call again" not in text_of(last)
    behind = tools.call("read_file", sandbox_id=id, path="long", offset=100001)
    assert behind["isError"] and "VIAL-OFFSET" in text_of(behind)
    missing = tools.call("read_file", sandbox_id=id, path="none")
    assert missing["isError"] and "VIAL-NO-FILE" in text_of(missing)


def test_sandboxes_are_listed_and_limited(tools):
    first, second = sandbox(tools), sandbox(tools)
    listed = tools.call("list_sandboxes")["structuredContent"]["sandboxes"]
    assert [s["sandbox_id"] for s in listed] == [first, second]
    done = tools.ask("completion/complete", {
        "ref": {"type": "ref/resource", "uri": "sandbox://{sandbox_id}/{+path}"},
        "argument": {"name": "sandbox_id", "value": first[:-2]}})
    assert done["result"]["completion"]["values"] == [first]
    for _ in range(62):
        sandbox(tools)
    refused = tools.call("create_sandbox")
    assert refused["isError"] and "VIAL-BUSY" in text_of(refused)
    tools.call("delete_sandbox", sandbox_id=first)
    assert sandbox(tools)


def test_the_prompt_holds_the_task(tools):
    got = tools.ask("prompts/get", {"name": "solve_with_code",
                                    "arguments": {"task": "Count the primes below 100."}})
    text = got["result"]["messages"][0]["content"]["text"]
    assert text.startswith("Count the primes below 100.\n") and "run_code" in text


@pytest.mark.parametrize("arguments,text", [
    ({"language": "bash", "code": "1", "memory": "1g"}, "give it to create_sandbox"),
    ({"language": "python", "code": "1", "network": "none"}, "give it to create_sandbox"),
    ({"language": "python", "code": "1", "stdin": "x"}, "'stdin' has no meaning for python"),
    ({"language": "js", "code": "1", "env": {"A": "1"}}, "'env' has no meaning for js")])
def test_what_a_sandbox_cannot_heed_is_refused_and_not_ignored(tools, arguments, text):
    result = tools.call("run_code", sandbox_id=sandbox(tools), **arguments)
    assert result["isError"] and text in text_of(result)


def test_environment_files_and_stdin_reach_programs_in_a_sandbox(tools):
    id = sandbox(tools, env={"A": "sandbox", "B": "sandbox"})
    given = {"sandbox_id": id, "env": {"A": "call"}, "stdin": "in",
             "files": [{"path": "f", "content": "file"}]}
    line = "echo $A $B $(cat f) $(cat)"
    assert text_of(tools.call("run_command", command=line, **given)) == "call sandbox file in\n"
    assert text_of(tools.call("run_code", language="bash", code=line + "; echo $1",
                              args=["arg"], **given)) == "call sandbox file in\narg\n"


def test_links_are_text_for_clients_that_do_not_know_them(client):
    for version, kind in [("2025-03-26", "text"), ("2025-06-18", "resource_link")]:
        c = client(initialize=False)
        c.initialize(version)
        result = c.call("run_code", language="bash", code="echo > a", outputs=["a"])
        assert result["content"][1]["type"] == kind
        assert "vial://runs/" in str(result["content"][1])


def test_a_languages_own_profile_is_not_left_out_in_a_sandbox(client, tmp_path):
    (tmp_path / "p.json").write_text(
        '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], '
        '"action": "SCMP_ACT_ERRNO", "errnoRet": 13}]}')
    (tmp_path / "languages.yaml").write_text("".join(
        "%s: {like: %s, seccomp_file: p.json}\n" % (name, name) for name in ["bash", "python"]))
    (tmp_path / "vial.yaml").write_text("languages: languages.yaml\n")
    tools = client("--config", str(tmp_path / "vial.yaml"))
    id = sandbox(tools)
    for language, code in [("bash", "mkdir d && echo made"),
                           ("python", "import os; os.mkdir('d'); print('made')")]:
        alone = tools.call("run_code", language=language, code=code)
        assert "Permission denied" in text_of(alone)
        inside = tools.call("run_code", language=language, code=code, sandbox_id=id)
        assert inside["isError"] and "seccomp profile of its own" in text_of(inside)
