# SPDX-License-Identifier: Apache-2.0
"""Piston's wire, alone and with its clients from npm."""
import json
import re

import pytest

from wire import HELLO, b64

API = "/api/v2"


def execute(daemon, code, language="python", api=API, **fields):
    body = {"language": language, "version": "*", "files": [{"content": code}], **fields}
    return daemon.call("POST", api + "/execute", body)


def end(stage):
    return tuple(stage[name] for name in ("status", "code", "signal", "message"))


BOMB = "import os\nfor _ in range(99):\n    os.fork()\n"
FILL = ("import time\ntry:\n    open('x', 'wb').write(bytes(9 << 20))\n"
        "except OSError:\n    time.sleep(20)\n")


@pytest.mark.parametrize("code,fields,expected", [
    ("print(1)", {}, (None, 0, None, None)),
    ("exit(7)", {}, ("RE", 7, None, "Exited with error status 7")),
    ("import os; os.kill(os.getpid(), 11)", {}, ("SG", None, "SIGSEGV",
                                                 "Caught fatal signal 11")),
    ("import time; time.sleep(9)", {"run_timeout": 500},
     ("TO", None, "SIGKILL", "Time limit exceeded (wall clock)")),
    ("while True: pass", {"run_timeout": 9000, "run_cpu_time": 300},
     ("TO", None, "SIGKILL", "Time limit exceeded")),
    ("x = bytearray(1 << 30)", {"run_memory_limit": 64 << 20},
     ("SG", None, "SIGKILL", "Memory limit exceeded")),
    ("while True: print('x' * 1000)", {}, ("OL", None, "SIGKILL", "stdout length exceeded")),
    ("import sys\nwhile True: print('x' * 1000, file=sys.stderr)", {},
     ("EL", None, "SIGKILL", "stderr length exceeded")),
    (BOMB, {}, ("SG", None, "SIGKILL", "Caught fatal signal 9")),
    (FILL, {}, ("SG", None, "SIGKILL", "Caught fatal signal 9")),
])
def test_every_verdict_has_its_words(strict, code, fields, expected):
    status, answer = execute(strict, code, **fields)
    assert (status, end(answer["run"])) == (200, expected)


def test_an_answer_has_all_members_with_the_types_that_clients_parse(daemon):
    code = ("import sys\nprint('a', flush=True)\nprint('b', file=sys.stderr, flush=True)\n"
            "print(sys.argv[1:], input())")
    status, answer = execute(daemon, code, "py3", stdin="in", args=["1", "x y"])
    run = answer["run"]
    assert status == 200 and answer["language"] == "python"
    assert re.fullmatch(r"\d+\.\d+\.\d+", answer["version"])
    assert sorted(answer) == ["language", "run", "version"]
    assert run["stdout"] == "a\n['1', 'x y'] in\n" and run["stderr"] == "b\n"
    assert sorted(run["output"].splitlines()) == ["['1', 'x y'] in", "a", "b"]
    assert all(isinstance(run[n], int) for n in ("cpu_time", "wall_time", "memory"))


def test_sources_are_compiled_together_and_the_compile_stage_is_told(daemon):
    files = [{"name": "main.cpp", "content": "int f(); int main(){return f();}"},
             {"name": "f.cpp", "content": '#include "h.h"\nint f(){return X;}'},
             {"name": "h.h", "content": "#define X 4"}]
    status, answer = execute(daemon, "", "cpp", files=files)
    assert status == 200 and end(answer["compile"]) == (None, 0, None, None)
    assert end(answer["run"]) == ("RE", 4, None, "Exited with error status 4")


def test_a_compile_error_is_the_run_as_well(daemon):
    _, answer = execute(daemon, "a=b", "c++")
    assert end(answer["compile"])[:2] == ("RE", 1) and "error" in answer["compile"]["stderr"]
    assert answer["run"] == answer["compile"]


def test_the_compile_stage_has_limits_of_its_own(daemon):
    """No compiler is done in two milliseconds; the program has its three seconds."""
    _, answer = execute(daemon, "#include <iostream>\nint main(){}", "c++", compile_timeout=2)
    assert answer["compile"]["status"] == "TO"


def test_files_may_be_coded(daemon):
    code = "print(open('a').read(), open('d/b').read())"
    files = [{"name": "a", "content": b64("x"), "encoding": "base64"},
             {"name": "main.py", "content": code},
             {"name": "d/b", "content": "795A7a", "encoding": "hex"}]
    assert execute(daemon, "", files=files)[1]["run"]["stdout"] == "x yZz\n"


@pytest.mark.parametrize("text", ["-1", "+5", " 5", "5 ", "0x", "0x41", "g0", "0g", "416", "4"])
def test_what_is_not_hexadecimal_is_no_file(daemon, text):
    files = [{"name": "main.py", "content": "print(1)"},
             {"name": "b", "content": text, "encoding": "hex"}]
    assert execute(daemon, "", files=files) == \
        (400, {"message": "a file's content is not coded as it says"})


@pytest.mark.parametrize("version,good", [("*", True), ("3.x", True), ("^3.5", True), ("3", True),
                                          (">=3.0.0", True), ("2.x", False), ("99.0.0", False)])
def test_a_range_of_versions_finds_the_newest(daemon, version, good):
    status, answer = execute(daemon, "print(1)", version=version)
    assert status == (200 if good else 400)
    if not good:
        assert answer == {"message": "python-%s runtime is unknown" % version}


@pytest.mark.parametrize("change,message", [
    ({"language": 1}, "language is required as a string"),
    ({"version": None}, "version is required as a string"),
    ({"files": "x"}, "files is required as an array"),
    ({"files": [{}]}, "files[0].content is required as a string"),
    ({"files": [{"content": ""}] * 1025}, "files cannot exceed the limit of 1024 files"),
    ({"language": "cobol"}, "cobol-* runtime is unknown"),
    ({"files": [{"content": "", "encoding": "hex"}]},
     "files must include at least one utf8 encoded file"),
    ({"run_timeout": "1"}, "If specified, run_timeout must be a number"),
    ({"run_timeout": 99999}, "run_timeout cannot exceed the configured limit of 30000"),
    ({"run_timeout": -5}, "run_timeout must be non-negative"),
    ({"files": [{"name": "../x", "content": ""}]}, "file '../x' lies outside /work"),
])
def test_a_bad_job_is_400_with_pistons_own_words(strict, change, message):
    assert execute(strict, "print(1)", **change) == (400, {"message": message})


def test_runtimes_are_what_can_run_here(daemon):
    status, listed = daemon.call("GET", API + "/runtimes")
    assert status == 200
    python = next(r for r in listed if r["language"] == "python")
    assert "py" in python["aliases"] and "runtime" not in python
    assert len({(r["language"], r["version"]) for r in listed}) == len(listed)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", r["version"]) for r in listed)


def test_every_runtime_that_is_listed_runs(daemon):
    hello = dict(HELLO, javascript=HELLO["node"], rscript=HELLO["r"])
    listed = daemon.call("GET", API + "/runtimes")[1]
    for runtime in listed:
        _, answer = execute(daemon, hello[runtime["language"]], runtime["language"],
                            version=runtime["version"], run_timeout=20000, compile_timeout=60000)
        assert answer["run"]["stdout"].strip() == "hi", (runtime, answer)


@pytest.mark.parametrize("asked,name", [("py", "python"), ("sh", "bash"), ("cpp", "c++")])
def test_a_program_sees_which_language_it_is(daemon, asked, name):
    code = {"python": "import os; print(os.environ['PISTON_LANGUAGE'])", "bash": "echo $PISTON_LANGUAGE",
            "c++": '#include <cstdlib>\n#include <cstdio>\nint main() { puts(getenv("PISTON_LANGUAGE")); }'}[name]
    assert execute(daemon, code, asked)[1]["run"]["stdout"] == name + "\n"


def test_packages_are_the_hosts(daemon):
    listed = daemon.call("GET", API + "/packages")[1]
    python = next(p for p in listed if p["language"] == "python")
    assert python["installed"] is True
    asked = {"language": "python", "version": python["language_version"]}
    assert daemon.call("POST", API + "/packages", asked) == (200, asked)
    assert daemon.call("POST", API + "/packages", {"language": "cobol", "version": "1.0.0"}) == (
        404, {"message": "Requested package cobol-1.0.0 does not exist"})
    assert daemon.call("DELETE", API + "/packages", asked)[0] == 403


@pytest.mark.parametrize("api", ["/api/v2/piston", "/piston/api/v2"])
def test_it_answers_under_each_of_its_paths(daemon, api):
    assert execute(daemon, "print(1)", api=api)[1]["run"]["stdout"] == "1\n"


def test_refusals_have_its_form(daemon):
    assert daemon.call("GET", API + "/nothing") == (404, {"message": "Not Found"})
    assert list(daemon.call("GET", API + "/runtimes", token=None)[1]) == ["message"]
    assert daemon.call("POST", API + "/execute", b"no json")[0] == 415


def test_json_is_read_whatever_its_type_is_said_to_be(daemon):
    body = {"language": "python", "version": "*", "files": [{"content": "print(1)"}]}
    status, _ = daemon.call("POST", API + "/execute", body, {"Content-Type": "text/plain"})
    assert status == 200


def test_its_clients_from_npm_are_satisfied(daemon, node):
    said = json.loads(node("piston.mjs", daemon.url_with_token))
    assert said == {"piston-client": "5\n", "piston-api-client": "5\n", "piston-api": "5\n",
                    "runtimes": True, "packages": True, "refusal": "API Error: run_timeout must "
                    "be non-negative"}
