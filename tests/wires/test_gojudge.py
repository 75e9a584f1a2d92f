# SPDX-License-Identifier: Apache-2.0
"""go-judge's wire, played as Hydro plays it."""
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from wire import Wired, wait_until

PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
S, M = 10 ** 9, 1 << 20


def cmd(*args, stdin="", most=10240, **more):
    return {"args": list(args), "env": [PATH], "cpuLimit": 5 * S, "clockLimit": 10 * S,
            "memoryLimit": 256 * M, "procLimit": 50,
            "files": [{"content": stdin}, {"name": "stdout", "max": most},
                      {"name": "stderr", "max": most}], **more}


def run(daemon, *cmds, path="/run", **more):
    return daemon.call("POST", path, {"cmd": list(cmds), **more})


def python(code, **more):
    return cmd("python3", "-c", code, **more)


FILL = ("import time\ntry:\n    open('x', 'wb').write(bytes(9 << 20))\n"
        "except OSError:\n    time.sleep(20)\n")


@pytest.mark.parametrize("code,fields,status,code_or_signal", [
    ("pass", {}, "Accepted", 0),
    ("exit(7)", {}, "Nonzero Exit Status", 7),
    ("import os; os.kill(os.getpid(), 11)", {}, "Signalled", 11),
    ("import os, signal; signal.signal(25, 0); os.kill(os.getpid(), 25)", {},
     "Output Limit Exceeded", 25),
    ("import os; os.kill(os.getpid(), 31)", {}, "Dangerous Syscall", 31),
    ("import time; time.sleep(9)", {"clockLimit": S // 2}, "Time Limit Exceeded", 9),
    ("while True: pass", {"cpuLimit": S // 3}, "Time Limit Exceeded", 9),
    ("x = bytearray(1 << 30)", {"memoryLimit": 64 * M}, "Memory Limit Exceeded", 9),
    ("print('x' * 20000)", {}, "Output Limit Exceeded", 9),
    ("import os\nfor _ in range(99):\n    os.fork()\n", {"procLimit": 20}, "Signalled", 9),
    (FILL, {}, "Output Limit Exceeded", 9),
])
def test_every_verdict_has_its_words(strict, code, fields, status, code_or_signal):
    answered, results = run(strict, python(code, **fields))
    assert answered == 200
    assert [(r["status"], r["exitStatus"]) for r in results] == [(status, code_or_signal)]


def test_a_result_has_its_figures_and_the_collected_streams(daemon):
    _, [result] = run(daemon, python("import sys; print(input()); print(2, file=sys.stderr)",
                                     stdin="hi"))
    assert result["files"] == {"stdout": "hi\n", "stderr": "2\n"}
    assert result["time"] > 10 ** 6 and result["runTime"] > 10 ** 6
    assert result["memory"] > M
    assert "fileIds" not in result and "fileError" not in result


def test_the_null_device_is_an_empty_input(daemon):
    one = python("import sys; print(len(sys.stdin.read()), open('a').read())",
                 copyIn={"a": {"src": "/dev/null"}})
    one["files"][0] = {"src": "/dev/null"}
    assert run(daemon, one)[1][0]["files"]["stdout"] == "0 \n"
    for name in ("/dev/null/", "/dev/../dev/null", "/dev/zero", "/etc/hostname", ""):
        one["files"][0] = {"src": name}
        assert run(daemon, one) == (400, "src: files of the host are not given"), name


def test_a_collector_is_cut_behind_its_most(daemon):
    _, [result] = run(daemon, python("print('x' * 5000)", most=100))
    assert result["files"]["stdout"] == "x" * 101
    assert result["status"] == "Output Limit Exceeded" and "error" not in result
    assert [(e["name"], e["type"]) for e in result["fileError"]] == [("stdout", "CollectSizeExceeded")]


def test_a_program_is_compiled_kept_and_run_as_hydro_does_it(daemon):
    source = '#include <cstdio>\nint main(){int a, b; scanf("%d%d", &a, &b); printf("%d", a + b);}'
    _, [made] = run(daemon, cmd("/usr/bin/g++", "a.cc", "-o", "a",
                                copyIn={"a.cc": {"content": source}},
                                copyOut=["stdout", "stderr"], copyOutCached=["a"]))
    assert made["status"] == "Accepted", made
    file_id = made["fileIds"]["a"]
    _, [ran] = run(daemon, cmd("a", stdin="1 2", copyIn={"a": {"fileId": file_id}}))
    assert ran["files"]["stdout"] == "3"
    assert daemon.call("GET", "/file")[1][file_id] == "a"
    assert daemon.call("DELETE", "/file/" + file_id)[0] == 200
    assert daemon.call("DELETE", "/file/" + file_id)[0] == 404
    assert run(daemon, cmd("a", copyIn={"a": {"fileId": file_id}})) == (
        400, "file not exists with id " + file_id)


def test_files_that_are_missing_are_told_unless_they_are_optional(daemon):
    _, [result] = run(daemon, cmd("true", copyOut=["a", "b?"]))
    assert result["status"] == "File Error"
    assert [(e["name"], e["type"]) for e in result["fileError"]] == [("a", "CopyOutOpen")]
    _, [failed] = run(daemon, cmd("false", copyOut=["a"]))
    assert failed["status"] == "Nonzero Exit Status"
    _, [large] = run(daemon, python("open('a', 'w').write('x' * 99)", copyOut=["a"], copyOutMax=9))
    assert [e["type"] for e in large["fileError"]] == ["CopyOutSizeExceeded"]
    _, [cut] = run(daemon, python("open('a', 'w').write('x' * 99)", copyOut=["a"], copyOutMax=9,
                                  copyOutTruncate=True))
    assert cut["files"]["a"] == "x" * 9 and cut["status"] == "File Error"
    assert [e["type"] for e in cut["fileError"]] == ["CopyOutSizeExceeded"]


def test_what_is_no_plain_file_is_not_copied_out(daemon):
    _, [result] = run(daemon, cmd("sh", "-c", "mkdir d; mkfifo f; ln -s /etc/passwd l",
                                  copyOut=["d", "f?", "l", "none?"]))
    assert {e["name"]: e["type"] for e in result["fileError"]} == {
        "d": "CopyOutNotRegularFile", "f": "CopyOutNotRegularFile", "l": "CopyOutOpen"}
    assert result["status"] == "File Error" and result["error"] == "it is not a regular file"
    assert set(result["files"]) == {"stdout", "stderr"}


ASKER = """import sys
secret = 37
for n in range(20):
    guess = int(input())
    print('=' if guess == secret else '<' if secret < guess else '>', flush=True)
    if guess == secret:
        print('found in', n + 1, file=sys.stderr)
        sys.exit(0)
sys.exit(1)
"""
READER = "import sys; print(len(sys.stdin.read()))"
GUESSER = """low, high = 0, 100
while True:
    guess = (low + high) // 2
    print(guess, flush=True)
    said = input()
    if said == '=':
        break
    low, high = (low, guess) if said == '<' else (guess + 1, high)
"""


def test_two_programs_talk_to_each_other(daemon):
    mapping = [{"in": {"index": 0, "fd": 1}, "out": {"index": 1, "fd": 0}},
               {"in": {"index": 1, "fd": 1}, "out": {"index": 0, "fd": 0}, "proxy": True,
                "name": "talk", "max": 1000}]
    asker = python(ASKER)
    guesser = python(GUESSER)
    for one in (asker, guesser):
        one["files"] = [None, None, {"name": "stderr", "max": 1000}]
    status, results = run(daemon, asker, guesser, pipeMapping=mapping)
    assert status == 200
    assert [r["status"] for r in results] == ["Accepted", "Accepted"], results
    assert results[0]["files"]["stderr"].startswith("found in")
    assert results[1]["files"]["talk"].startswith("50\n25\n")


def test_a_copy_of_a_pipe_without_a_most_has_the_usual_one(strict):
    mapping = [{"in": {"index": 0, "fd": 1}, "out": {"index": 1, "fd": 0}, "proxy": True,
                "name": "talk", "max": -1}]
    loud, reader = python("print('x' * 100000)", memoryLimit=1e300), python(READER)
    loud["files"] = [None, None, None]
    reader["files"] = [None, {"name": "stdout", "max": 1e300}, None]
    assert run(strict, loud, reader, pipeMapping=mapping)[0] == 400
    loud["memoryLimit"] = -1e300
    _, results = run(strict, loud, reader, pipeMapping=mapping)
    assert results[1]["files"]["stdout"] == "100001\n"
    assert results[0]["files"]["talk"] == "x" * (64 << 10)


def test_programs_that_wait_for_each_other_end_in_time(daemon):
    mapping = [{"in": {"index": 0, "fd": 1}, "out": {"index": 1, "fd": 0}},
               {"in": {"index": 1, "fd": 1}, "out": {"index": 0, "fd": 0}}]
    one = python("input()", clockLimit=S)
    one["files"] = [None, None, None]
    _, results = run(daemon, one, one, pipeMapping=mapping)
    assert {r["status"] for r in results} <= {"Time Limit Exceeded", "Nonzero Exit Status"}
    assert "Time Limit Exceeded" in {r["status"] for r in results}


def test_programs_that_flood_each_other_end_in_time(daemon):
    mapping = [{"in": {"index": 0, "fd": 1}, "out": {"index": 1, "fd": 0}},
               {"in": {"index": 1, "fd": 1}, "out": {"index": 0, "fd": 0}}]
    one = python("while True: print('x' * 1000)", clockLimit=S)
    one["files"] = [None, None, None]
    _, results = run(daemon, one, one, pipeMapping=mapping)
    assert [r["status"] for r in results] == ["Time Limit Exceeded"] * 2


def test_a_stack_that_was_asked_for_is_there(daemon):
    code = ("import resource; print(resource.getrlimit(resource.RLIMIT_STACK)[0])")
    _, [result] = run(daemon, python(code, stackLimit=64 * M))
    assert result["files"]["stdout"] == "%d\n" % (64 * M)


def test_a_link_is_made_before_the_program_starts(daemon):
    """In a directory that only it is in, beside a file of copyIn, with a stack; and to what is not there."""
    links = {"in.txt": {"content": "linked"}, "d/e/l": {"symlink": "../../in.txt"}, "-x y": {"symlink": "/w/none"}}
    code = "import os; print(open('d/e/l').read(), os.readlink('-x y'), os.path.lexists('in.txt'))"
    for more in ({}, {"stackLimit": 64 * M}, {"env": ["PATH=/usr/bin:/bin", "n=5"]}):
        _, [result] = run(daemon, python(code, copyIn=links, **more))
        assert (result["status"], result["files"]["stdout"]) == ("Accepted", "linked /work/none True\n"), result
    _, [ran] = run(daemon, cmd("prog", copyIn={"real": {"content": "#!/bin/sh\necho ran \"$@\""}, "prog": {
        "symlink": "real"}}))
    assert ran["files"]["stdout"] == "ran\n", ran
    _, [told] = run(daemon, cmd("sh", "-c", "echo $n", copyIn=links, env=["PATH=/usr/bin:/bin", "n=5"]))
    assert told["files"]["stdout"] == "5\n", told
    _, [most] = run(daemon, cmd("sh", "-c", "ls | wc -l", copyIn={str(i): {"symlink": "a"} for i in range(256)}))
    assert most["files"]["stdout"].strip() == "256", most


def test_a_program_that_is_not_there_is_an_internal_error(daemon):
    _, [result] = run(daemon, cmd("/nothing/here"))
    assert result["status"] == "Internal Error" and result["error"]


@pytest.mark.parametrize("body,text", [
    ({"cmd": []}, "no cmd provided"),
    ({"cmd": [{}]}, "no args provided"),
    ({"cmd": [cmd("true", copyIn={"a": {"src": "/etc/passwd"}})]},
     "src: files of the host are not given"),
    ({"cmd": [cmd("true", cpuSetLimit="0")]}, "cpuSetLimit is not supported"),
    ({"cmd": [cmd("true", tty=True)]}, "tty is not supported"),
    ({"cmd": [cmd("true", copyIn={"../a": {"content": ""}})]}, "copyIn: '../a' lies outside /w"),
    ({"cmd": [cmd("true", copyIn={"../a": {"symlink": "b"}})]}, "copyIn: '../a' lies outside /w"),
    ({"cmd": [cmd("true", copyIn={"a": {"symlink": 7}})]}, "copyIn: symlink of 'a' is no text"),
    ({"cmd": [cmd("true", copyIn={str(n): {"symlink": "a"} for n in range(257)})]}, "copyIn: more than 256 symlinks"),
    ({"cmd": [cmd("true")], "pipeMapping": [{"in": {"index": 0, "fd": 1},
                                            "out": {"index": 9, "fd": 0}}]},
     "pipeMapping: no such command"),
])
def test_a_bad_request_is_400_and_a_text(daemon, body, text):
    assert daemon.call("POST", "/run", body) == (400, text)


def test_a_limit_above_the_policy_is_refused(strict):
    status, text = run(strict, cmd("true", clockLimit=100 * S))
    assert status == 400 and "exceeds the policy" in text


def test_files_are_left_and_fetched(daemon):
    body = (b'--xyz\r\nContent-Disposition: form-data; name="other"\r\n\r\nno\r\n--xyz\r\n'
            b'Content-Disposition: form-data; name="file"; filename="in.txt"\r\n'
            b'Content-Type: text/plain\r\n\r\nline\r\n\xff\r\n--xyz--\r\n')
    status, file_id = daemon.call("POST", "/file", body,
                                  {"Content-Type": "multipart/form-data; boundary=xyz"})
    assert status == 200
    assert daemon.call("GET", "/file/" + file_id) == (200, b"line\r\n\xff")
    assert daemon.call("GET", "/file")[1][file_id] == "in.txt"
    one = cmd("wc", "-c")
    one["files"][0] = {"fileId": file_id}
    assert run(daemon, one)[1][0]["files"]["stdout"] == "7\n"
    # Another caller has none of it.
    connection = daemon.connect()
    connection.request("GET", "/file/" + file_id)
    assert connection.getresponse().status == 404


@pytest.mark.parametrize("content", [b"a --xyz b", b"--xyz", b"a\r\n--xyzw\r\nb", b""])
@pytest.mark.parametrize("name", [b'"file"', b"file"])
def test_a_file_that_has_the_form_s_boundary_in_it_is_left_whole(daemon, name, content):
    body = (b"--xyz\r\nContent-Disposition: form-data; filename=in.txt; name=" + name +
            b"\r\n\r\n" + content + b"\r\n--xyz--\r\n")
    status, file_id = daemon.call("POST", "/file", body,
                                  {"Content-Type": "multipart/form-data; boundary=xyz"})
    assert status == 200
    assert daemon.call("GET", "/file/" + file_id) == (200, content)


@pytest.mark.parametrize("body", [
    b'--xyz\r\nContent-Disposition: form-data; name="other"\r\n\r\nno\r\n--xyz--\r\n',
    b'--xyz\r\nContent-Disposition: form-data; name="file"\r\n\r\ncut', b""])
def test_a_form_without_a_whole_file_is_refused(daemon, body):
    assert daemon.call("POST", "/file", body, {"Content-Type": "multipart/form-data; boundary=xyz"}) == \
        (400, "http: no such file")


def leave(daemon, content):
    form = (b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            + content + b'\r\n--xyz--\r\n')
    status, file_id = daemon.call("POST", "/file", form,
                                  {"Content-Type": "multipart/form-data; boundary=xyz"})
    assert status == 200
    return file_id


def test_a_file_that_nobody_uses_goes():
    """With the next that is left, once it was not used for so long."""
    with Wired(serve={"wire_files_age": "1s"}) as d:
        old = leave(d, b"old")
        assert d.call("GET", "/file/" + old) == (200, b"old")

        def is_forgotten():
            leave(d, b"new")
            return old not in d.call("GET", "/file")[1]
        assert wait_until(is_forgotten)
        assert d.call("GET", "/file/" + old)[0] == 404


def test_copies_of_a_file_count_for_their_callers_share(daemon):
    file_id = leave(daemon, bytes(32 << 20))
    many = {"f%d" % n: {"fileId": file_id} for n in range(9)}  # of 256 MiB for one caller
    assert run(daemon, cmd("true", copyIn=many)) == (
        503, "there is no room for copies of files, %d bytes in all" % (9 * (32 << 20)))
    one = cmd("wc", "-c", "f", copyIn={"f": {"fileId": file_id}})
    for _ in range(9):  # what was taken is given back
        assert run(daemon, one)[1][0]["files"]["stdout"] == "%d f\n" % (32 << 20)
    assert daemon.call("DELETE", "/file/" + file_id)[0] == 200


def test_answers_cost_no_more_than_was_printed():
    """Four outputs of 40 MiB of zeros took 2 GiB: a tree, its text, and both in one."""
    loud = python("import sys; sys.stdout.buffer.write(bytes(40 << 20))", most=64 * M)
    with Wired(serve={"concurrency": 8}) as daemon:
        run(daemon, python("print(1)"))
        with ThreadPoolExecutor(4) as pool:
            said = list(pool.map(lambda _: run(daemon, loud), range(4)))
        assert [(status, len(told[0]["files"]["stdout"])) for status, told in said] == \
            [(200, 40 * M)] * 4
        assert daemon.peak() < 400 * M


@pytest.mark.parametrize("quota, text", [
    ({"caller_concurrency": 2}, "'token:grader' may have 2 runs and programs at once"),
    ({"caller_runs_per_minute": 2}, "'token:grader' may start 2 runs in a minute")])
def test_each_command_counts_for_its_callers_quotas(quota, text):
    """Sixteen at once were one run."""
    with Wired(serve=quota) as daemon:
        assert run(daemon, *[python("pass")] * 3) == (503, text)
    with Wired(serve=quota) as daemon:
        status, told = run(daemon, *[python("pass")] * 2)
        assert (status, [one["status"] for one in told]) == (200, ["Accepted"] * 2)


def test_one_name_can_be_asked_for_twice_and_kept_as_well(daemon):
    status, told = run(daemon, python("open('a', 'w').write('x')", copyOut=["a", "a", "stdout"],
                                      copyOutCached=["stderr", "stderr"]))
    assert (status, told[0]["files"]) == (200, {"stdout": "", "a": "x"})
    assert list(told[0]["fileIds"]) == ["stderr"]
    status, text = run(daemon, python("pass", copyOut=["a"] * 1025))
    assert (status, text) == (400, "copyOut: more than 1024 names")


def test_what_it_tells_of_itself_is_open(daemon):
    status, told = daemon.call("GET", "/version", token=None)
    assert (status, told["buildVersion"], told["fixSymlinkEscape"]) == (200, "v1.12.2", True)
    assert told["platform"] == {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    told = daemon.call("GET", "/config", token=None)[1]["runnerConfig"]
    there, kind = os.listdir("/sys/fs/cgroup"), 1
    if "cgroup.controllers" in there:
        with open("/sys/fs/cgroup/cgroup.controllers", encoding="ascii") as file:
            there, kind = file.read().split(), 2
    assert told == {"cgroupType": kind, "cgroupControllers": [
        name for name in ("cpu", "cpuset", "cpuacct", "memory", "pids") if name in there]}
    assert daemon.call("POST", "/run", {}, token=None) == (401, b"")


def test_on_the_root_the_version_is_gojudges_where_both_are_on(daemon):
    assert daemon.call("GET", "/version")[1]["buildVersion"] == "v1.12.2"
    assert daemon.call("GET", "/judge0/version") == (200, b"1.13.1")
    with Wired(wires=["judge0"]) as d:
        assert d.call("GET", "/version") == (200, b"1.13.1")
        assert d.call("GET", "/gojudge/version")[0] == 404


def test_the_prefix_makes_no_difference(daemon):
    assert run(daemon, cmd("echo", "hi"), path="/gojudge/run")[1][0]["files"]["stdout"] == "hi\n"


def test_superagent_and_axios_are_satisfied(daemon, node):
    said = json.loads(node("gojudge.mjs", daemon.url_with_token))
    assert said == {"uploaded": True, "ran": "7\n", "submission": "7\n", "fusion": "7\n"}
