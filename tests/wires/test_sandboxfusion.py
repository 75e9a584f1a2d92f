# SPDX-License-Identifier: Apache-2.0
"""SandboxFusion's wire, as its own client and verl use it."""
import concurrent.futures
import http.client
import json
import subprocess

import pytest

from wire import HELLO, TOKEN, Wired, b64, has_program, wait_until

BOMB = "import os\nfor _ in range(99):\n    os.fork()\n"
FILL = """import time
try:
    open('x', 'wb').write(bytes(9 << 20))
except OSError:
    time.sleep(20)
"""


def run(daemon, code, language="python", path="/run_code", **fields):
    return daemon.call("POST", path, {"code": code, "language": language, **fields})


def end(answer):
    """What a grader reads: status, message, and of the last stage its status and code."""
    last = answer["run_result"] or answer["compile_result"]
    return (answer["status"], answer["message"], last["status"], last["return_code"])


@pytest.mark.parametrize("code,fields,expected", [
    ("print(1)", {}, ("Success", "", "Finished", 0)),
    ("exit(7)", {}, ("Failed", "", "Finished", 7)),
    ("import os; os.kill(os.getpid(), 11)", {}, ("Failed", "", "Finished", -11)),
    ("while True: pass", {"run_timeout": 0.5}, ("Failed", "", "TimeLimitExceeded", None)),
    ("x = bytearray(1 << 30)", {"memory_limit_MB": 64}, ("Failed", "oom", "Finished", -9)),
    ("while True: print('x' * 1000)", {}, ("Failed", "output_limit", "Finished", -9)),
    (BOMB, {}, ("Failed", "pids", "Finished", -9)),
    (FILL, {}, ("Failed", "disk", "Finished", -9)),
    ("def f(:", {}, ("Failed", "", "Finished", 1)),
])
def test_every_verdict_has_its_words(strict, code, fields, expected):
    status, answer = run(strict, code, **fields)
    assert (status, end(answer)) == (200, expected)


def test_an_answer_has_all_members_and_no_others(daemon):
    status, answer = run(daemon, "import sys; print(input()); print('e', file=sys.stderr)",
                         stdin="input1")
    run_time = answer["run_result"].pop("execution_time")
    assert status == 200 and run_time > 0
    assert answer == {
        "status": "Success", "message": "", "compile_result": None, "executor_pod_name": None,
        "files": {}, "run_result": {"status": "Finished", "return_code": 0,
                                    "stdout": "input1\n", "stderr": "e\n"}}


def test_what_was_printed_before_a_timeout_comes_along(daemon):
    _, answer = run(daemon, "print('so far', flush=True)\nwhile True: pass", run_timeout=3)
    assert answer["run_result"]["stdout"] == "so far\n"
    assert answer["run_result"]["status"] == "TimeLimitExceeded"


def test_half_a_megabyte_is_no_timeout(daemon):
    _, answer = run(daemon, "print('x' * 500000)")
    assert answer["run_result"]["stdout"] == "x" * 500000 + "\n"


def test_output_that_is_no_text_is_repaired(daemon):
    _, answer = run(daemon, "import sys; sys.stdout.buffer.write(b'a\\xffb')")
    assert answer["run_result"]["stdout"] == "a�b"


@pytest.mark.parametrize("code,stage,status", [
    ("int main(){return 3;}", "run_result", "Failed"),
    ("a=b", "compile_result", "Failed"),
    ('#include <cstdio>\nint main(){puts("hi");}', "run_result", "Success")])
def test_cpp_has_a_compile_stage(daemon, code, stage, status):
    code_status, answer = run(daemon, code, "cpp")
    assert (code_status, answer["status"]) == (200, status)
    assert answer["compile_result"]["status"] == "Finished"
    if stage == "compile_result":
        assert answer["run_result"] is None
        assert answer["compile_result"]["return_code"] == 1
        assert "error" in answer["compile_result"]["stderr"]
    else:
        assert answer["compile_result"]["return_code"] == 0


# By their names here: the program, and what has to be installed for it besides vial's language.
FUSION = {"cpp": (HELLO["c++"], "g++"), "nodejs": (HELLO["node"], "node"), "R": (HELLO["r"], "Rscript"),
          "pytest": ("def test_a():\n    print('hi')", "pytest"), "typescript": (HELLO["typescript"], "tsx"),
          "go_test": ('package main\nimport ("fmt"; "testing")\nfunc TestA(t *testing.T) { fmt.Println("hi") }', "go"),
          "python": (HELLO["python"], "python3"), "rust": (HELLO["rust"], "rustc"), "java": (HELLO["java"], "javac"),
          **{name: (HELLO[name], name) for name in ("go", "bash", "lua", "perl", "ruby", "php")}}
FOREIGN = {"julia": ("println(\"hi\")", "julia"), "racket": ('#lang racket\n(display "hi")', "racket"),
           "kotlin_script": ('println("hi")', "kotlin"),
           "scala": ('object Main { def main(a: Array[String]): Unit = println("hi") }', "scala"),
           "swift": ('print("hi")', "swiftc"), "D_ut": ('import std.stdio; void main() { writeln("hi"); }', "dmd"),
           "verilog": ('module tb; initial $display("hi"); endmodule', "iverilog")}
ABSENT = {"cuda", "python_gpu", "csharp", "junit", "jest", "lean", "sql"}


def test_every_language_of_theirs_runs_or_says_what_is_missing(daemon):
    """All that its clients may name: what is not installed is never the program's fault."""
    known = daemon.call("POST", "/run_code", {"code": "", "language": "?"})[1]["detail"][0]["msg"]
    names = {name.strip("'") for name in known.replace("Input should be ", "").split(", ")}
    assert names == {*FUSION, *FOREIGN, *ABSENT}
    for name, (code, program) in {**FUSION, **FOREIGN}.items():
        status, answer = run(daemon, code, name, compile_timeout=60, run_timeout=60, memory_limit_MB=1024)
        assert status == 200
        if has_program(program):
            assert answer["status"] == "Success", (name, answer)
            assert name in ("pytest", "go_test") or answer["run_result"]["stdout"].strip() == "hi", answer
        else:
            assert answer["status"] == "SandboxError" and program in answer["message"], (name, answer)
            assert answer["run_result"] is None
    for name in ABSENT:
        status, answer = run(daemon, "", name)
        assert (status, answer["status"]) == (200, "SandboxError") and "not supported" in answer["message"]


@pytest.mark.parametrize("library,code", [
    ("libcrypto.so", "#include <openssl/sha.h>\nint main() { unsigned char a[20]; SHA1(a, 0, a); return a[0] != 0xda; }"),
    ("libc.so", "#include <thread>\nint main() { std::thread([] {}).join(); }")])
def test_cpp_is_linked_with_the_libraries_that_are_installed(daemon, library, code):
    found = subprocess.run(["g++", "-print-file-name=" + library], capture_output=True, text=True).stdout
    _, answer = run(daemon, code, "cpp")
    assert (answer["status"] == "Success") == (found.strip() != library), answer


@pytest.mark.parametrize("code", ["echo 'hi';", "<?php echo 'hi';", "\n    <?php\n    echo 'hi';\n    ?>"])
def test_the_mark_of_php_is_put_in_front_where_it_is_missing(daemon, code):
    assert run(daemon, code, "php")[1]["run_result"]["stdout"] == "hi"


def test_files_go_in_and_come_back_under_the_names_they_were_asked_for(daemon):
    status, answer = run(daemon, "open('out/b', 'w').write(open('in/a').read() * 2)",
                         files={"in/a": b64("xy"), "out/.keep": b64(""), "skip": None},
                         fetch_files=["out/b", "missing", "/work/in/a"])
    assert (status, answer["status"]) == (200, "Success")
    assert answer["files"] == {"out/b": b64("xyxy"), "/work/in/a": b64("xy")}


def test_files_below_tmp_are_there_for_compiler_and_program(daemon):
    """And leave nothing in the working directory."""
    files = {"/tmp/d/a.txt": b64("xy"), "/tmp/two.h": b64("#define TWO 2"), "beside": b64("z")}
    code = "import os; print(open('/tmp/d/a.txt').read(), open('beside').read(), sorted(os.listdir('/tmp')), " \
           "[n for n in os.listdir('.') if n.startswith('.')])"
    _, answer = run(daemon, code, files=files)
    assert answer["run_result"]["stdout"] == "xy z ['d', 'two.h'] []\n", answer
    code = '#include "/tmp/two.h"\n#include <fstream>\n#include <iostream>\nint main() { ' \
           'std::string s; std::ifstream("/tmp/d/a.txt") >> s; std::cout << s << TWO; }'
    _, answer = run(daemon, code, "cpp", files=files)
    assert answer["run_result"]["stdout"] == "xy2", answer


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b", "/tmp/", "/tmp/../x", "/tmp/a/../../b", "/tmpx"])
def test_a_file_outside_the_working_directory_is_refused(daemon, name):
    status, answer = run(daemon, "pass", files={name: b64("x")})
    assert status == 422
    assert answer["detail"][0]["msg"] == "file '%s' lies outside /work" % name


@pytest.mark.parametrize("body,loc,kind", [
    ({"language": "python"}, ["body", "code"], "missing"),
    ({"code": "x"}, ["body", "language"], "missing"),
    ({"code": 1, "language": "python"}, ["body", "code"], "string_type"),
    ({"code": "x", "language": "js"}, ["body", "language"], "literal_error"),
    ({"code": "x", "language": "python", "run_timeout": "5"}, ["body", "run_timeout"],
     "float_type"),
    (b"{", ["body", 0], "json_invalid")])
def test_a_bad_body_is_422_as_there(daemon, body, loc, kind):
    status, answer = daemon.call("POST", "/run_code", body)
    assert (status, answer["detail"][0]["loc"], answer["detail"][0]["type"]) == (422, loc, kind)


def test_a_limit_above_the_policy_is_refused_and_not_clipped(strict):
    status, answer = run(strict, "pass", run_timeout=3600)
    assert status == 422 and "exceeds the policy" in answer["detail"][0]["msg"]


def test_unknown_members_are_passed_over(daemon):
    status, answer = run(daemon, "print(1)", unheard_of={"a": 1})
    assert (status, answer["status"]) == (200, "Success")


@pytest.mark.parametrize("header,value", [
    ("Authorization", "Bearer " + TOKEN), ("Authorization", "Basic " + b64("any:" + TOKEN)),
    ("X-Auth-Token", TOKEN), ("X-RapidAPI-Key", TOKEN)])
def test_a_token_may_come_in_each_of_these_headers(daemon, header, value):
    body = {"code": "print(1)", "language": "python"}
    assert daemon.call("POST", "/run_code", body, {header: value}, token=None)[0] == 200
    # Vial's own routes take none but the first.
    own = daemon.call("POST", "/v1/plan", body, {header: value}, token=None)[0]
    assert own == (200 if value.startswith("Bearer") else 401)


def test_pages_of_named_origins_ask_first_and_read_refusals_too():
    page, asked = "https://ide.test", {"Access-Control-Request-Method": "POST"}

    def ask(path, method, origin, **more):
        connection = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
        connection.request(method, path, headers={"Origin": origin, **more})
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get_all("Access-Control-Allow-Origin"), answer.headers

    with Wired(serve={"origins": [page]}) as d:
        for path in ("/run_code", "/api/v2/execute", "/submissions", "/run", "/judge0/about",
                     "/gojudge/nothing"):
            status, origin, headers = ask(path, "OPTIONS", page, **asked)
            assert (status, origin) == (204, [page]), path
            allowed = headers["Access-Control-Allow-Headers"].split(", ")
            assert {"Authorization", "X-Auth-Token", "X-RapidAPI-Key"} <= set(allowed)
            assert "Access-Control-Allow-Credentials" not in headers
            assert ask(path, "POST", page)[:2] == (401, [page]), path
            for other in ("https://evil.test", "null", page + ".evil.test"):
                assert ask(path, "OPTIONS", other, **asked)[1] is None
                status, origin, _ = ask(path, "POST", other, Authorization="Bearer " + TOKEN)
                assert status in (400, 403) and origin is None, path  # some wires say 400


def test_who_is_not_known_is_told_so_in_the_wires_own_form(daemon):
    body = {"code": "print(1)", "language": "python"}
    status, answer = daemon.call("POST", "/run_code", body, token=None)
    assert status == 401 and list(answer) == ["detail"]
    assert daemon.call("GET", "/v1/ping", token=None) == (200, "pong")


def test_no_token_is_in_the_log(daemon):
    daemon.call("POST", "/run_code?X-Auth-Token=" + TOKEN, {"code": "1", "language": "python"},
                token=None)
    assert TOKEN not in daemon.log()


@pytest.mark.parametrize("path", ["/run_code/", "/sandboxfusion/run_code",
                                  "/sandboxfusion/run_code/"])
def test_the_prefix_and_a_slash_at_the_end_make_no_difference(daemon, path):
    assert run(daemon, "print(1)", path=path)[1]["run_result"]["stdout"] == "1\n"


def test_a_wire_that_is_off_is_not_there():
    with Wired(wires=[]) as d:
        assert d.call("POST", "/run_code", {})[1]["error"]["code"] == "VIAL-ROUTE"


def test_cells_of_a_notebook_remember(daemon):
    status, answer = daemon.call("POST", "/run_jupyter", {
        "cells": ["a = 20", "print(a)\na + 1", "1/0", "open('f', 'w').write('x'); a"],
        "fetch_files": ["f"]})
    assert (status, answer["status"], answer["driver"]["status"]) == (200, "Success", "Finished")
    assert [c["stdout"] for c in answer["cells"]] == ["", "20\n", "", ""]
    assert answer["cells"][1]["display"][0]["text/plain"] == "21"
    assert answer["cells"][2]["error"][0]["ename"] == "ZeroDivisionError"
    assert answer["cells"][3]["display"][0]["text/plain"] == "20"
    assert answer["files"] == {"f": b64("x")}


def test_files_of_a_notebook_are_fetched_once_and_within_bounds(daemon):
    def fetch(code, *names):
        return daemon.call("POST", "/run_jupyter", {"cells": [code], "fetch_files": names})
    status, answer = fetch("1", "f", "./f")
    assert (status, answer["detail"][0]["msg"]) == (422, "fetch_files has 'f' twice")
    status, answer = fetch("for n in 'ab': open(n, 'wb').truncate(40 << 20)", "a", "b")
    assert (status, answer["detail"][0]["msg"]) == (
        422, "fetch_files are more than 64 MiB in all")
    _, answer = fetch("open('a', 'w'); open('b', 'w').write('x')", "a", "b", "nothing")
    assert answer["files"] == {"a": "", "b": b64("x")}


def test_a_notebook_that_is_out_of_time_has_failed_without_cells(daemon):
    _, answer = daemon.call("POST", "/run_jupyter", {
        "cells": ["1", "while True: pass"], "total_timeout": 1})
    assert (answer["status"], answer["cells"]) == ("Failed", [])
    assert answer["driver"]["status"] == "TimeLimitExceeded"


def test_there_are_no_datasets(daemon):
    assert daemon.call("GET", "/list_datasets") == (200, [])
    assert daemon.call("POST", "/get_prompts", {"dataset": "humaneval"}) == (
        400, {"detail": "no eval class found for dataset humaneval"})
    assert daemon.call("POST", "/get_metrics", {}) == (200, {})
    assert daemon.call("POST", "/get_metrics_function", {}) == (200, {"function": None})


def submit(daemon, completion, tests, language="python", **config):
    return daemon.call("POST", "/submit", {
        "dataset": "mine", "id": 3, "completion": completion,
        "config": {"dataset_type": "CommonOJDataset", "language": language,
                   "provided_data": {"test": tests}, **config}})


def oj(*pairs):
    return [{"input": {"stdin": i}, "output": {"stdout": o}} for i, o in pairs]


def test_a_completion_is_judged_by_the_tests_that_come_along(daemon):
    code = "Here:\n```python\nprint(float(input()) / 3)\n```\nand\n```sh\nexit 1\n```"
    status, answer = submit(daemon, code, oj(("1", "0.333333"), ("3", "1"), ("6", "5")),
                            extra={"run_all_cases": True})
    assert (status, answer["accepted"]) == (200, False)
    assert [t["passed"] for t in answer["tests"]] == [True, True, False]
    assert answer["extracted_code"] == "print(float(input()) / 3)\n"
    assert answer["id"] == 3 and answer["full_code"] is None


@pytest.mark.parametrize("completion,extracted", [
    ("```python\nprint(1)", "print(1)"), ("so:\n```\nprint(1)\nprint(2)", "print(1)\nprint(2)"),
    ("```sh\nexit 1\n```\n```python\nprint(1)\n```", "print(1)\n"), ("print(1)", "")])
def test_an_unfinished_fence_goes_to_the_end_and_finished_ones_come_first(daemon, completion, extracted):
    _, answer = submit(daemon, completion, oj(("", "1")))
    assert answer["extracted_code"] == extracted
    assert answer["accepted"] is (extracted.splitlines() == ["print(1)"])


def test_the_tests_may_come_as_a_text_that_is_their_list(daemon):
    tests = oj(("1", "2"), ("3", "5"))
    _, answer = submit(daemon, "```python\nprint(int(input()) + 1)\n```", json.dumps(tests))
    assert [(t["passed"], t["test_info"]) for t in answer["tests"]] == [(True, tests[0]), (False, tests[1])]
    for wrong in ("no json", "{}", 7, None):
        status, answer = submit(daemon, "x", wrong)
        assert status == 400 and "provided_data.test" in answer["detail"], wrong


@pytest.mark.parametrize("config,text", [
    ({"language": None}, "language field required in config"),
    ({"language": "cobol"}, "language 'cobol' is not known")])
def test_a_submission_without_a_language_that_is_known_is_refused(daemon, config, text):
    assert submit(daemon, "x", [], **config) == (400, {"detail": text})


def test_judging_stops_at_the_first_wrong_answer(daemon):
    _, answer = submit(daemon, "```python\nprint(1)\n```", oj(("", "1"), ("", "2"), ("", "1")))
    assert [t["passed"] for t in answer["tests"]] == [True, False]


def test_what_a_compiler_says_is_kept_once_for_all_tests():
    loud = "```cpp\n#warning %s\nint main() { return 0; }\n```" % ("x" * 1000)
    with Wired(serve={"output_memory": "32m"}, defaults={"output_limit": "16k"}) as d:
        status, answer = submit(d, loud, oj(*[(str(n), "") for n in range(20)]), language="cpp")
        assert (status, answer["accepted"]) == (200, True), answer
        said = [t["exec_info"]["compile_result"]["stderr"] for t in answer["tests"]]
        assert len(said) == 20 and "x" * 1000 in said[0] and len(set(said)) == 1


def test_code_that_would_run_in_the_server_is_refused(daemon):
    status, answer = submit(daemon, "x", [], custom_extract_logic="import os")
    assert status == 400 and "custom_extract_logic" in answer["detail"]


def verl(daemon, code, language, stdin, expected, timeout=5):
    """What verl's utils.py makes of one case: true, false, or a number below zero."""
    status, answer = daemon.call("POST", "/run_code", {
        "compile_timeout": 10, "run_timeout": timeout, "code": code, "stdin": stdin,
        "memory_limit_MB": 1024, "language": language, "files": {}, "fetch_files": []})
    if status != 200 or answer["status"] == "SandboxError":
        return -1
    compiled, ran = answer["compile_result"], answer["run_result"]
    if compiled and (compiled["status"] != "Finished" or compiled["return_code"] != 0):
        return -4
    if ran["status"] == "TimeLimitExceeded":
        return -3
    if ran["return_code"] != 0:
        return -2
    return ran["stdout"].rstrip("\n") == expected.rstrip("\n")


def test_a_hundred_cases_of_verl_at_once_are_each_exact(daemon):
    """Four of them time out; and some fail in each other way."""
    code = ("import sys\nn = int(input())\nif n % 25 == 0:\n    while True: pass\n"
            "if n % 10 == 3: sys.exit(1)\nprint(n * 2 if n % 10 != 7 else 'wrong')\n")
    truth = [-3 if n % 25 == 0 else -2 if n % 10 == 3 else n % 10 != 7 for n in range(100)]
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        got = list(pool.map(lambda n: verl(daemon, code, "python", str(n), str(n * 2)),
                            range(100)))
    assert got == truth
    assert got.count(-3) == 4


def test_many_cases_of_one_program_are_compiled_once(daemon):
    """One compile step took one time, which all of them tell."""
    code = '#include <cstdio>\nint main(){int n; scanf("%d", &n); printf("%d\\n", n + 1);}'
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda n: daemon.call("POST", "/run_code", {
            "code": code, "language": "cpp", "stdin": str(n)})[1], range(16)))
    assert [a["run_result"]["stdout"] for a in got] == ["%d\n" % (n + 1) for n in range(16)]
    assert len({a["compile_result"]["execution_time"] for a in got}) == 1
    assert verl(daemon, "a=b", "cpp", "", "") == -4
