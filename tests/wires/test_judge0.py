# SPDX-License-Identifier: Apache-2.0
"""Judge0's wire, played as its clients play it."""
import base64
import contextlib
import hashlib
import io
import json
import re
import signal
import sqlite3
import stat
import uuid
import zipfile

import pytest

from wire import HELLO, TOKEN, Wired, b64, has_program, wait_until

CPP, C, PYTHON = 54, 50, 71


def submit(daemon, code, language=PYTHON, query="wait=true", **fields):
    return daemon.call("POST", "/submissions?" + query,
                       {"source_code": code, "language_id": language, **fields})


def wait(daemon, token, query=""):
    while True:
        status, answer = daemon.call("GET", "/submissions/%s?%s" % (token, query))
        assert status == 200
        if "status" not in answer or answer["status"]["id"] > 2:
            return answer


BOMB = "import os\nfor _ in range(99):\n    os.fork()\n"
FILL = ("import time\ntry:\n    for n in range(9):\n        open(str(n), 'wb').write(bytes(1 << 20))\n"
        "except OSError:\n    time.sleep(9)\n")
KILL = "import os; os.kill(os.getpid(), %d)"


@pytest.mark.parametrize("code,fields,status,exit_code,signal,message", [
    ("print(1)", {}, 3, 0, None, None),
    ("print(1)", {"expected_output": "1"}, 3, 0, None, None),
    ("print(1)", {"expected_output": "2"}, 4, 0, None, None),
    ("", {"source_code": "pass", "expected_output": ""}, 3, 0, None, None),
    ("exit(7)", {}, 11, 7, None, "Exited with error status 7"),
    (KILL % 11, {}, 7, 139, 11, "Caught fatal signal 11"),
    ("import signal; signal.signal(25, signal.SIG_DFL); " + KILL % 25, {}, 8, 153, 25, "Caught fatal signal 25"),
    (KILL % 8, {}, 9, 136, 8, "Caught fatal signal 8"),
    (KILL % 6, {}, 10, 134, 6, "Caught fatal signal 6"),
    (KILL % 15, {}, 12, 143, 15, "Caught fatal signal 15"),
    ("import time; time.sleep(9)", {"wall_time_limit": 1}, 5, None, None,
     "Time limit exceeded (wall clock)"),
    ("while True: pass", {"cpu_time_limit": 0.3}, 5, None, None, "Time limit exceeded"),
    ("x = bytearray(1 << 30)", {"memory_limit": 65536}, 11, 137, 9,
     "Exited with error status 137"),
    ("while True: print('x' * 1000)", {}, 8, 153, 25, "Caught fatal signal 25"),
    (BOMB, {"max_processes_and_or_threads": 20}, 12, 137, 9, "Caught fatal signal 9"),
    (FILL, {"max_file_size": 4096}, 12, 137, 9, "Caught fatal signal 9"),
])
def test_every_verdict_has_its_status(strict, code, fields, status, exit_code, signal, message):
    code, fields = fields.pop("source_code", code), fields
    created, answer = submit(strict, code, query="wait=true&fields=status_id,exit_code,"
                             "exit_signal,message", **fields)
    assert created == 201
    assert answer == {"status_id": status, "exit_code": exit_code, "exit_signal": signal,
                      "message": message}


def test_a_submission_has_the_usual_fields_with_their_types(daemon):
    status, answer = submit(daemon, "print(input())", stdin="hi", query="wait=true")
    assert status == 201
    assert re.fullmatch(r"\d+\.\d{3}", answer.pop("time"))
    assert answer.pop("memory") > 0
    assert uuid.UUID(answer.pop("token")).version == 4
    assert answer == {"stdout": "hi\n", "stderr": None, "compile_output": None, "message": None,
                      "status": {"id": 3, "description": "Accepted"}}


ALL = """source_code language_id stdin expected_output stdout status_id created_at finished_at time
memory stderr token number_of_runs cpu_time_limit cpu_extra_time wall_time_limit memory_limit
stack_limit max_processes_and_or_threads enable_per_process_and_thread_time_limit
enable_per_process_and_thread_memory_limit max_file_size compile_output exit_code exit_signal message
wall_time compiler_options command_line_arguments redirect_stderr_to_stdout callback_url
additional_files enable_network status language""".split()


def test_a_star_gives_all_fields_and_not_one_more(daemon):
    _, answer = submit(daemon, "print(1)", query="wait=true&fields=*")
    assert sorted(answer) == sorted(ALL)
    assert (answer["cpu_time_limit"], answer["wall_time_limit"]) == ("5.0", "10.0")
    assert answer["memory_limit"] == 128000 and answer["enable_network"] is False
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z", answer["finished_at"])
    assert answer["language"]["id"] == PYTHON
    assert re.match(r"^Python \(3", answer["language"]["name"])


def test_without_wait_there_is_a_token_and_later_an_answer(daemon):
    status, answer = submit(daemon, "print(1)", query="")
    assert status == 201 and list(answer) == ["token"]
    assert wait(daemon, answer["token"])["stdout"] == "1\n"


def test_a_compile_error_has_no_run(daemon):
    _, answer = submit(daemon, "a=b", CPP, query="wait=true&fields=*")
    assert answer["status"] == {"id": 6, "description": "Compilation Error"}
    assert "error" in answer["compile_output"]
    assert [answer[n] for n in ("stdout", "stderr", "time", "memory", "message")] == [None] * 5


def test_a_warning_leaves_compile_output_behind(daemon):
    _, answer = submit(daemon, "#warning look\nint main(){return 0;}", C)
    assert answer["status"]["id"] == 3 and "look" in answer["compile_output"]


def test_base64_goes_in_and_comes_out_in_lines_of_sixty(daemon):
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read() * 30 + b'\\xff')"
    _, answer = submit(daemon, b64(code), stdin=b64("\u00e4b"),
                       query="wait=true&base64_encoded=true&fields=stdout,token")
    assert base64.b64decode(answer["stdout"]) == "\u00e4b".encode() * 30 + b"\xff"
    assert all(len(line) <= 60 for line in answer["stdout"].split("\n"))
    assert answer["stdout"].endswith("\n")
    status, refusal = daemon.call("GET", "/submissions/%s" % answer["token"])
    assert status == 400 and "cannot be converted to UTF-8" in refusal["error"]


# By how their names begin.
NAMES = {"Python": "python", "C (": "c", "C++": "c++", "Java (": "java", "JavaScript": "node",
         "TypeScript": "typescript", "Go": "go", "Rust": "rust", "Bash": "bash", "Perl": "perl",
         "Ruby": "ruby", "PHP": "php", "Lua": "lua", "R (": "r", "SQL (": "sqlite"}


def test_every_number_that_is_listed_runs(daemon):
    """One program for each language, and for each of its numbers."""
    hello = {start: HELLO[name] for start, name in NAMES.items()}
    hello.update({"Plain Text": "hi", "Executable": "#!/bin/sh\necho hi"})
    listed = [l for l in daemon.call("GET", "/languages")[1] if l["id"] != 89]
    assert {l["id"] for l in listed} >= {71, 92, 46, 85, 43, 44}
    for language in listed:
        code = next(code for start, code in hello.items() if language["name"].startswith(start))
        _, answer = submit(daemon, code, language["id"], cpu_time_limit=15, wall_time_limit=20,
                           memory_limit=512000)
        assert (answer["status"]["id"], answer["stdout"].strip()) == (3, "hi"), (language, answer)


def test_sql_finds_the_database_among_its_files(daemon, tmp_path):
    listed = {l["id"] for l in daemon.call("GET", "/languages")[1]}
    if not has_program("sqlite3"):
        assert 82 not in listed
        return
    with contextlib.closing(sqlite3.connect(str(tmp_path / "db"))) as db:
        db.execute("create table t as select 'brought' as v")
        db.commit()
    code = "insert into t values ('added');\nselect * from t order by v;\nselect x from t;"
    _, answer = submit(daemon, code, 82, stdin="select 7;",
                       additional_files=zipped({"db.sqlite": (tmp_path / "db").read_bytes()}))
    assert (answer["status"]["id"], answer["stdout"]) == (11, "added\nbrought\n"), answer
    assert "no such column" in answer["stderr"]
    assert submit(daemon, "select 2;", 82, stack_limit=64000)[1]["stdout"] == "2\n"


def test_an_executable_runs_as_it_is(daemon):
    with open("/bin/echo", "rb") as file:
        program = b64(file.read())
    _, answer = submit(daemon, program, 44, query="wait=true&base64_encoded=true",
                       command_line_arguments="not a script")
    assert base64.b64decode(answer["stdout"]) == b"not a script\n", answer


def test_options_and_arguments_are_split_as_a_shell_would(daemon):
    code = '#include <stdio.h>\nint main(int c, char **v){printf("%d %s %d", c, v[1], X);}'
    _, answer = submit(daemon, code, C, compiler_options="-DX='7'",
                       command_line_arguments="'a b' c; $x")
    assert answer["stdout"] == "4 a b 7", answer


def test_streams_can_be_one_in_order(daemon):
    code = "import sys\nfor i in range(50):\n    print(i, file=(sys.stdout, sys.stderr)[i % 2], flush=True)"
    _, answer = submit(daemon, code, redirect_stderr_to_stdout=True)
    assert answer["stdout"] == "".join("%d\n" % i for i in range(50))
    assert answer["stderr"] is None


def test_a_stack_that_was_asked_for_is_there(daemon):
    code = "int main(){ volatile char x[40 << 20]; x[0] = x[(40 << 20) - 1] = 1; return x[0] - 1; }"
    assert submit(daemon, code, C, stack_limit=64000)[1]["status"]["id"] == 3
    assert submit(daemon, code, C, stack_limit=1000)[1]["status"]["id"] == 7


def runs_of(daemon, name, code, **fields):
    """What is told of a submission, and how many runs it came to."""
    body = {"source_code": code, "language_id": PYTHON, **fields}
    _, answer = daemon.call("POST", "/submissions?wait=true", body, {"X-Request-Id": name})
    runs = daemon.call("GET", "/v1/runs?limit=200")[1]
    return answer, len([run for run in runs if run["request"] == name])


def test_several_runs_stop_at_the_first_that_fails(daemon):
    answer, count = runs_of(daemon, "all-of-them", "print(1)", number_of_runs=4)
    assert (answer["status"]["id"], count) == (3, 4)
    answer, count = runs_of(daemon, "one-of-them", "exit(3)", number_of_runs=4)
    assert (answer["status"]["id"], count) == (11, 1)
    answer, count = runs_of(daemon, "wrong-at-once", "print(1)", number_of_runs=4, expected_output="2")
    assert (answer["status"]["id"], count) == (4, 1)


def test_several_runs_tell_the_mean_of_their_memory(daemon):
    """By a coin that falls twenty times: it lies between what one run takes with a large piece of
    memory and without one."""
    coin = "import random\nx = bytearray((%s) * (128 << 20))"
    small, large = (submit(daemon, coin % part, memory_limit=512000)[1]["memory"] for part in "01")
    assert large > small + 120000
    mean = submit(daemon, coin % "random.random() < .5", memory_limit=512000, number_of_runs=20)[1]["memory"]
    assert small + 3000 < mean < large - 3000


@pytest.mark.parametrize("fields,wrong", [
    ({"source_code": ""}, {"source_code": ["can't be blank"]}),
    ({"language_id": None}, {"language_id": ["can't be blank"]}),
    ({"language_id": 70}, {"language_id": ["language with id 70 doesn't exist"]}),
    ({"wall_time_limit": 21}, {"wall_time_limit": ["must be less than or equal to 20.0"]}),
    ({"wall_time_limit": 0}, {"wall_time_limit": ["must be greater than or equal to 1"]}),
    ({"number_of_runs": 0}, {"number_of_runs": ["must be greater than or equal to 1"]}),
    ({"memory_limit": "much"}, {"memory_limit": ["is not a number"]}),
    ({"memory_limit": 2048}, {"memory_limit": ["must be greater than or equal to 4096"]}),
    ({"callback_url": "http://x"}, {"callback_url": ["setting callback is not allowed"]}),
    ({"enable_network": True}, {"enable_network": ["enabling network is not allowed"]}),
    ({"enable_per_process_and_thread_time_limit": True},
     {"enable_per_process_and_thread_time_limit": ["this option cannot be enabled"]}),
    ({"language_id": 89}, {"source_code": ["must be blank"], "additional_files": ["can't be blank"]}),
    ({"compiler_options": "-O3"}, {"compiler_options": [
        "setting compiler options is only allowed for compiled languages"]}),
])
def test_what_is_wrong_is_told_by_member(daemon, fields, wrong):
    body = {"source_code": "print(1)", "language_id": PYTHON, **fields}
    assert daemon.call("POST", "/submissions", body) == (422, wrong)


def zipped(files, modes=None):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (modes or {}).get(name, 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return b64(packed.getvalue())


def test_additional_files_lie_beside_the_program(daemon):
    files = zipped({"data/in.txt": "inside", "helper.py": "def twice(x): return 2 * x", "main.py": "not this",
                    "tool.sh": "#!/bin/sh\necho ran"}, {"tool.sh": 0o100755})
    code = ("import helper, subprocess\nprint(helper.twice(21), open('data/in.txt').read(), flush=True)\n"
            "subprocess.run('./tool.sh')")
    status, answer = submit(daemon, code, additional_files=files, number_of_runs=2)
    assert (status, answer["status"]["id"], answer["stdout"]) == (201, 3, "42 inside\nran\n"), answer
    header = zipped({"two.h": "#define TWO 2"})
    code = '#include <stdio.h>\n#include "two.h"\nint main() { printf("%d\\n", TWO); }'
    assert submit(daemon, code, CPP, additional_files=header)[1]["stdout"] == "2\n"
    _, told = daemon.call("GET", "/submissions/%s?fields=additional_files" % answer["token"])
    assert base64.b64decode(told["additional_files"]) == base64.b64decode(files)


def test_what_no_client_asks_for_is_no_more_than_the_policy_gives():
    """Time for the compiler, and for unpacking."""
    with Wired(policy={"max_timeout": "9s", "max_memory": "256m"}) as d:
        assert submit(d, "int main() { return 7; }", C)[1]["status"]["id"] == 11
        answer = submit(d, "print(open('a').read())", additional_files=zipped({"a": "x"}))[1]
        assert (answer["status"]["id"], answer["stdout"]) == (3, "x\n"), answer


@pytest.mark.parametrize("scripts,status,out", [
    ({"run": "cat made"}, 11, None),
    ({"run": "cat made; read x; echo $x", "compile": "echo compiled > made"}, 3, "compiled\nin\n"),
    ({"run": "echo never", "compile": "echo broken >&2; exit 3"}, 6, None),
    ({"other": "x"}, 13, None)])
def test_a_program_of_many_files_has_scripts(daemon, scripts, status, out):
    _, answer = daemon.call("POST", "/submissions?wait=true&fields=status_id,stdout,compile_output", {
        "language_id": 89, "additional_files": zipped(scripts), "stdin": "in"})
    assert (answer["status_id"], answer["stdout"]) == (status, out), answer
    assert (answer["compile_output"] == "broken\n") == (status == 6)


def links():
    return zipped({"passwd": "/etc/passwd"}, {"passwd": stat.S_IFLNK | 0o777})


@pytest.mark.parametrize("archive,message", [
    (b64("no zip at all"), "additional_files: BadZipFile: File is not a zip file"),
    (zipped({"../up": "x"}), "file '../up' lies outside /work"),
    (zipped({"/etc/up": "x"}), "file '/etc/up' lies outside /work"),
    (links(), "additional_files: 'passwd' is no plain file"),
    (zipped({"bomb": bytes(11 << 20)}), "additional_files: more than 10485760 bytes"),
    (zipped({"n%d" % n: "" for n in range(1001)}), "additional_files: more than 1000 files"),
    (zipped({"a": "1", "a/b": "2"}), None),
], ids=["no zip", "above", "absolute", "link", "bomb", "many", "file and directory"])
def test_an_archive_that_cannot_be_unpacked_is_told(daemon, archive, message):
    """It is unpacked in a vessel, and what that says is judged as a stranger's."""
    status, answer = submit(daemon, "print(1)", additional_files=archive)
    assert (status, answer["status"]["id"]) == (201, 13), answer
    assert answer["message"] == message if message else answer["message"]


def test_a_batch_tells_of_each_in_order(daemon):
    one = {"source_code": "print(%d)", "language_id": str(PYTHON)}
    given = [dict(one, source_code="print(%d)" % n) for n in range(3)] + [{"language_id": 71}]
    status, tokens = daemon.call("POST", "/submissions/batch", {"submissions": given})
    assert status == 201 and tokens[3] == {"source_code": ["can't be blank"]}
    for token in tokens[:3]:
        wait(daemon, token["token"])
    asked = ",".join(t["token"] for t in tokens[:3]) + ",nothing"
    _, answer = daemon.call("GET", "/submissions/batch?fields=stdout&tokens=" + asked)
    assert answer == {"submissions": [{"stdout": "%d\n" % n} for n in range(3)] + [None]}


@pytest.mark.parametrize("given,text", [
    ([], "there should be at least one submission in a batch"),
    ([{}] * 21, "number of submissions in a batch should be less than or equal to 20")])
def test_a_batch_has_bounds(daemon, given, text):
    assert daemon.call("POST", "/submissions/batch", {"submissions": given}) == (
        400, {"error": text})


def test_a_list_of_tokens_has_bounds_and_each_once(daemon):
    token = submit(daemon, "print(1)")[1]["token"]
    for tokens, text in (
            (["x"] * 21, "number of submissions in a batch should be less than or equal to 20"),
            ([token, token], "a token should be in a batch once")):
        assert daemon.call("GET", "/submissions/batch?tokens=" + ",".join(tokens)) == (
            400, {"error": text})
    assert daemon.call("GET", "/submissions/%s?fields=stdout,stdout,,stdout" % token) == (
        200, {"stdout": "1\n"})


def test_an_answer_that_nobody_has_memory_for_is_refused():
    with Wired(serve={"output_memory": "2m"}, defaults={"output_limit": "16k"}) as d:
        big = submit(d, "pass", query="", stdin="x" * (3 << 20))[1]["token"]
        small = submit(d, "print(1)", query="")[1]["token"]
        for path in ("/" + big, "/batch?tokens=%s,%s" % (small, big), "?page=1"):
            assert d.call("GET", "/submissions" + path) == (503, {"error": "queue is full"})
        assert d.call("GET", "/submissions/" + small)[0] == 200


def test_what_waits_in_line_is_kept_within_bounds_when_it_has_run():
    """Room was made when one came, so that what all of them printed was kept until the next.
    A hundred that print 4 MiB each are more than is kept in all."""
    loud = {"language_id": 46, "max_file_size": 4096, "source_code":
            "head -c 4190000 /dev/zero; head -c 4190000 /dev/zero >&2"}
    with Wired() as daemon:
        tokens = []
        for _ in range(5):
            status, told = daemon.call("POST", "/submissions/batch",
                                       {"submissions": [loud] * 20})
            assert status == 201
            tokens += [t["token"] for t in told]
        ended = set()
        for token in reversed(tokens):
            def status_of(token=token):
                return daemon.call("GET", "/submissions/%s?fields=status_id" % token)[1].get(
                    "status_id", "forgotten")
            assert wait_until(lambda: status_of() not in (1, 2), 120)
            ended.add(status_of())
        assert ended <= {8, "forgotten"}  # by SIGXFSZ: both outputs are one file's size
        assert daemon.peak() < 400 << 20
        kept = [daemon.call("GET", "/submissions/%s?fields=status_id" % t)[0] for t in tokens]
        assert 404 in kept and kept[-1] == 200


DEFAULTS = ["encoded", "delete"]


@pytest.fixture(scope="module")
def other():
    """One whose settings say what Judge0's may."""
    with Wired(serve={"judge0": DEFAULTS}) as d:
        yield d


def test_texts_are_base64_where_the_settings_say_so(other):
    status, answer = submit(other, b64("print(input())"), stdin=b64("hi"))
    assert (status, answer["stdout"]) == (201, b64("hi\n") + "\n")
    token = answer["token"]
    assert other.call("GET", "/submissions/" + token)[1]["stdout"] == b64("hi\n") + "\n"
    assert other.call("GET", "/submissions/%s?base64_encoded=false" % token)[1]["stdout"] == "hi\n"
    assert submit(other, "print(1)", query="wait=true&base64_encoded=false")[1]["stdout"] == "1\n"


def test_submissions_that_have_ended_can_be_deleted_where_the_settings_say_so(other):
    assert other.call("GET", "/config_info")[1]["enable_submission_delete"] is True
    token = submit(other, "print(1)", query="wait=true&base64_encoded=false")[1]["token"]
    status, answer = other.call("DELETE", "/submissions/%s?fields=stdout,token" % token)
    assert (status, answer) == (200, {"stdout": b64("1\n") + "\n", "token": token})
    for method in ("GET", "DELETE"):
        assert other.call(method, "/submissions/" + token)[0] == 404
    assert token not in [s["token"] for s in other.call("GET", "/submissions")[1]["submissions"]]
    slow = submit(other, "import time; time.sleep(60)", query="base64_encoded=false", wall_time_limit=20)[1]["token"]
    assert other.call("DELETE", "/submissions/" + slow) == (
        400, {"error": "submission cannot be deleted before it has ended"})
    assert other.call("GET", "/submissions/%s?fields=token" % slow)[0] == 200


def test_a_second_token_has_the_right_of_an_administrator_and_no_other():
    boss, reader = "a-token-of-the-administrator", "a-token-that-may-read"
    with Wired() as d:
        with open(d.settings["serve"]["tokens"], encoding="ascii") as file:
            tokens = json.load(file)
        tokens += [{"name": name, "scopes": scopes, "sha256": hashlib.sha256(text.encode()).hexdigest()}
                   for name, scopes, text in (("boss", ["admin"], boss), ("reader", ["read"], reader))]
        with open(d.settings["serve"]["tokens"], "w", encoding="ascii") as file:
            json.dump(tokens, file)
        d.process.send_signal(signal.SIGHUP)
        own = submit(d, "print(1)")[1]["token"]

        def ask(path, method="GET", **headers):
            return d.call(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()}, token=None)[0]
        assert wait_until(lambda: ask("/authorize", "POST", X_Auth_Token=TOKEN, X_Auth_User=boss) == 200)
        for second, status in ((boss, 200), (reader, 403), (TOKEN, 403), ("an-unknown-token-of-length", 403)):
            assert ask("/system_info", X_Auth_Token=TOKEN, X_Auth_User=second) == status
            # Whose submissions are seen is the first one's affair.
            assert ask("/submissions/" + own, X_Auth_Token=TOKEN, X_Auth_User=second) == 200
        assert ask("/system_info", X_Auth_User=boss) == 200
        assert ask("/submissions/" + own, X_Auth_User=boss) == 403  # it may not run
        assert ask("/submissions/" + own, X_Auth_Token="unknown-token-as-well", X_Auth_User=boss) == 401
        # Vial's own routes know nothing of it.
        assert ask("/v1/config", X_Auth_User=boss) == 401
        assert ask("/v1/config", Authorization="Bearer " + TOKEN, X_Auth_User=boss) == 403


def test_refusals_have_its_form(daemon):
    assert daemon.call("GET", "/submissions/nothing") == (404, {"status": 404,
                                                               "error": "Not Found"})
    assert daemon.call("GET", "/submissions/nothing?fields=x") == (
        400, {"error": "invalid fields: [x]"})
    assert daemon.call("POST", "/submissions", {}, token=None) == (401, b"")
    assert daemon.call("GET", "/system_info") == (403, b"")
    token = submit(daemon, "print(1)", query="")[1]["token"]
    assert daemon.call("DELETE", "/submissions/" + token) == (
        400, {"error": "delete not allowed"})
    assert daemon.call("POST", "/authenticate", token=None,
                       headers={"X-Auth-Token": TOKEN}) == (200, b"")


def test_others_submissions_are_not_seen(daemon):
    token = submit(daemon, "print(1)", query="")[1]["token"]
    connection = daemon.connect()  # over the unix socket, as another caller
    connection.request("GET", "/judge0/submissions/" + token)
    assert connection.getresponse().status == 404


def test_what_it_tells_of_itself_fits_its_own_client(daemon):
    assert daemon.call("GET", "/about")[1]["version"] == "1.13.1"
    assert daemon.call("GET", "/judge0/version") == (200, b"1.13.1")
    assert len(daemon.call("GET", "/statuses")[1]) == 14
    languages = {l["id"]: l["name"] for l in daemon.call("GET", "/languages")[1]}
    assert {46, 50, 54, 63, 71}.issubset(languages) and 70 not in languages
    told = daemon.call("GET", "/languages/71")[1]
    assert (told["name"], told["source_file"]) == (languages[71], "main.py")
    printed = submit(daemon, "print $0", 85)[1]["stdout"]
    assert printed.endswith("/" + daemon.call("GET", "/languages/85")[1]["source_file"])
    config = daemon.call("GET", "/config_info")[1]
    assert config["max_wall_time_limit"] == 20.0 and config["enable_callbacks"] is False and config["enable_additional_files"] is True
    for name in ("max_processes_and_or_threads", "max_max_processes_and_or_threads",
                 "max_file_size", "max_max_file_size", "number_of_runs", "max_number_of_runs"):
        assert isinstance(config[name], int)


def test_finished_submissions_are_listed_by_pages(daemon):
    submit(daemon, "print(1)")
    _, answer = daemon.call("GET", "/submissions?page=1&per_page=1")
    assert len(answer["submissions"]) == 1
    assert answer["meta"]["current_page"] == 1 and answer["meta"]["total_count"] > 1


def test_a_slash_at_the_end_makes_no_difference(daemon):
    status, _ = daemon.call("POST", "/submissions/?wait=true",
                            {"source_code": "print(1)", "language_id": 71})
    assert status == 201
