# SPDX-License-Identifier: Apache-2.0
"""vial's own tools: what a model reads, and what programs get."""
import base64
import os
import re

import jsonschema
import pytest

from conftest import HERE, OWN_TOOLS, text_of

PAGES = os.path.join(HERE, "../../docs/tools")


@pytest.fixture
def tools(client):
    return client()


def sandbox(c, **more):
    return c.call("create_sandbox", **more)["structuredContent"]["sandbox_id"]


def test_every_tool_has_a_page_with_its_very_parameters(tools):
    for tool in tools.ask("tools/list")["result"]["tools"]:
        page = open(os.path.join(PAGES, tool["name"] + ".md")).read()
        named = re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.M)
        schema = tool["inputSchema"]
        assert sorted(name for name, _ in named) == sorted(schema["properties"]), tool["name"]
        assert sorted(name for name, kind in named if "required" in kind) == \
            sorted(schema["required"]), tool["name"]
        assert len(tool["description"]) > 30
    pages = {name[:-3] for name in os.listdir(PAGES) if name.endswith(".md")}
    assert set(OWN_TOOLS) <= pages


def test_every_answer_fits_its_output_schema(tools):
    schemas = {t["name"]: t["outputSchema"] for t in
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
        jsonschema.validate(result["structuredContent"], schemas[name])


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
    assert result["structuredContent"]["verdict"] == "timeout"


def test_a_long_output_is_cut_and_the_rest_can_be_read(tools):
    result = tools.call("run_code", language="python",
                        code="for i in range(20000): print('line', i)")
    said = text_of(result)
    assert len(said) < 30 << 10
    assert said.startswith("line 0\n") and "\nline 19999\n" in said
    total = result["structuredContent"]["stdout_bytes"]
    assert "[stdout was cut: the program wrote %d bytes." % total in said
    uri = re.search(r'uri "(vial://runs/r-[0-9a-f]+/stdout)"', said).group(1)
    whole, at = "", 0
    while at < total:
        piece = tools.call("read_file", uri=uri, offset=at, length=50000)
        whole += piece["structuredContent"]["content"]
        at = piece["structuredContent"]["offset"] + \
            len(piece["structuredContent"]["content"].encode())
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


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "a/../../b", "", "link/x"])
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
    assert last["structuredContent"]["content"] == "56789"
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
