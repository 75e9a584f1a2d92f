# SPDX-License-Identifier: Apache-2.0
"""vial batch: rows in, judged rows out; nothing runs twice, and nothing is lost."""

import base64
import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import random
import re
import signal
import struct
import subprocess
import termios
import threading
import time

import notes
import pytest
import truth

from conftest import call, start, start_measured

ADD_ONE = ('#include <stdio.h>\nint main(void) { int x; scanf("%d", &x); '
           'printf("%d\\n", x + 1); }')
CHECKER = """import sys
given, printed, answer = [open(path).read() for path in sys.argv[1:]]
sys.exit(0 if sorted(printed.split()) == sorted(answer.split()) else 1)"""


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def batch(driver, rows, *flags, **kwargs):
    """The status, rows by their index, and what was said."""
    done = call("batch", "--driver", driver, *flags, stdin=rows if isinstance(rows, bytes)
                else lines(rows), **kwargs)
    out = [json.loads(line) for line in done.text.splitlines()]
    return done, {row["index"]: row for row in out}


def test_each_row_has_its_verdict_and_whether_it_passed(driver):
    done, out = batch(driver, [
        {"id": "right", "language": "python", "code": "print(6 * 7)", "expected": "42\n", "mine": [1]},
        {"id": "wrong", "language": "python", "code": "print(41)", "expected": "42\n"},
        {"id": "unjudged", "language": "sh", "code": "echo hi"},
        {"task_id": "T/5", "language": "sh", "code": "exit 3", "expected": ""},
        {"language": "sh", "code": "sleep 60", "timeout": "300ms"},
    ])
    assert done.status == 0, done.errors
    assert [(out[i]["id"], out[i]["verdict"], out[i]["passed"]) for i in range(5)] == [
        ("right", "ok", True), ("wrong", "ok", False), ("unjudged", "ok", True),
        ("T/5", "nonzero", False), (5, "timeout", False)]
    assert out[0]["mine"] == [1] and out[0]["stdout"] == "42\n"
    assert out[3]["exit_code"] == 3 and out[3]["task_id"] == "T/5"
    assert out[0]["driver"] == driver and "layers" in out[0]["isolation"]
    assert "5 rows, 2 passed" in done.errors and "timeout" in done.errors


def test_a_program_with_many_tests_is_compiled_once(driver):
    tests = [{"stdin": str(i), "expected": "%d" % (i + 1 if i != 3 else 0)} for i in range(5)]
    row = {"language": "c", "code": ADD_ONE, "tests": tests, "compare": "tokens"}
    done, out = batch(driver, [row])
    assert done.status == 0, done.errors
    assert [t["passed"] for t in out[0]["tests"]] == [True, True, True, False, True]
    assert (out[0]["verdict"], out[0]["passed"]) == ("ok", False)
    _, out = batch(driver, [row], "--stop", "first")
    assert [t["passed"] for t in out[0]["tests"]] == [True, True, True, False]
    _, out = batch(driver, [dict(row, code="int main( {")])
    assert out[0]["verdict"] == "nonzero" and out[0]["tests"][0]["stage"] == "compile"


def test_a_checker_judges_in_a_vessel_of_its_own(driver):
    checker = {"language": "python", "code": CHECKER}
    row = {"language": "sh", "code": "cat", "tests": [
        {"stdin": "1 2 3", "expected": "3 2 1"}, {"stdin": "1 2", "expected": "1 3"}],
        "checker": checker}
    broken = dict(row, checker={"language": "sh", "code": "exit 3"})
    done, out = batch(driver, [row, broken], "--retries", "0")
    assert [t["passed"] for t in out[0]["tests"]] == [True, False]
    assert out[0]["tests"][1]["checker"] == {"verdict": "nonzero", "exit_code": 1}
    assert out[1]["verdict"] == "failed" and "checker" in out[1]["tests"][0]["error"]["message"]
    assert done.status == 125


def coded(data):
    return base64.b64encode(data).decode()


def test_bytes_that_are_no_text_come_as_they_were(driver):
    every = bytes(range(256))
    says = "import sys\nsys.stdout.buffer.write(bytes(range(256)))\nsys.stderr.buffer.write(b'\\xff')"
    row = {"language": "python", "code": says}
    both = "import sys\nsys.exit(open('output.txt', 'rb').read() != open(sys.argv[3], 'rb').read())"
    done, out = batch(driver, [
        row, dict(row, expected_base64=coded(every)), dict(row, expected_base64=coded(every[:-1] + b"\0")),
        {"language": "sh", "code": "cat", "stdin_base64": coded(every), "expected_base64": coded(every)},
        {"language": "sh", "code": "cat", "stdin_base64": coded(b"\xfe"), "tests": [
            {"expected_base64": coded(b"\xfe")}, {"stdin": "text", "expected_base64": coded(b"text")},
            {"stdin_base64": coded(every), "expected_base64": coded(every)}],
         "checker": {"language": "python", "code": both}},
        {"language": "sh", "code": "echo text"}])
    assert done.status == 0, done.errors
    assert [out[i]["passed"] for i in range(6)] == [True, True, False, True, True, True], out
    assert (out[0]["stdout_base64"], out[0]["stderr_base64"]) == (coded(every), coded(b"\xff"))
    assert out[0]["stdout"] == every.decode(errors="replace")
    assert out[4]["tests"][2]["stdout_base64"] == coded(every)
    assert "stdout_base64" not in out[5] and "stdout_base64" not in out[4]["tests"][1]
    _, out = batch(driver, [row], "--fields", "stdout")
    assert set(out[0]) == {"index", "id", "verdict", "passed", "hash", "stdout", "stdout_base64"}


@pytest.mark.parametrize("line, code", [
    (b'{"language": "sh", "code": "true"', "VIAL-JSON"),
    (b"[1]", "VIAL-VALUE"),
    (b'{"language": "sh", "code": "true", "tests": []}', "VIAL-VALUE"),
    (b'{"language": "sh", "code": "true", "tests": [{"stdn": "x"}]}', "VIAL-FIELD"),
    (b'{"language": "sh", "code": "true", "compare": "roughly"}', "VIAL-VALUE"),
    (b'{"language": "sh", "code": "true", "memory": "much"}', "VIAL-VALUE"),
    (b'{"language": "klingon", "code": "true"}', "VIAL-LANGUAGE"),
    (b'{"language": "sh", "code": "true", "memory": "100g"}', "VIAL-CAP"),
    (b'{"language": "sh", "code": "true", "checker": "x"}', "VIAL-VALUE"),
    (b'{"language": "sh", "code": "true", "expected_base64": "%"}', "VIAL-VALUE"),
    (b'{"language": "sh", "code": "true", "stdin": "a", "stdin_base64": "YQ=="}', "VIAL-VALUE"),
    (b'{"language": "sh", "code": "true", "tests": [{"stdin": 1}]}', "VIAL-VALUE"),
    (b'{"language": "sh", "code": "true", "tests": [{"expected": "", "expected_base64": ""}]}', "VIAL-VALUE"),
    (b"\xff\xfe", "VIAL-JSON"),
])
def test_a_broken_row_is_a_row_with_an_error(driver, line, code, tmp_path):
    good = b'{"language": "sh", "code": "echo good"}\n'
    rows = good + b"\n" + line + b"\n" + good
    done, out = batch(driver, rows)
    assert done.status == 0 and len(out) == 3
    assert (out[1]["verdict"], out[1]["passed"]) == ("denied", False)
    assert out[1]["error"]["code"] == code and out[0]["passed"] and out[2]["passed"]
    (tmp_path / "in").write_bytes(rows)
    done = call("batch", "--strict", str(tmp_path / "in"))
    assert done.status == 125 and done.out == b"" and "line 3" in done.errors


def test_flags_hold_for_rows_that_say_nothing(driver):
    _, out = batch(driver, [{"language": "sh", "code": "sleep 60"},
                            {"language": "sh", "code": "sleep 0.4", "timeout": "60s"}],
                   "--timeout", "200ms")
    assert [out[i]["verdict"] for i in range(2)] == ["timeout", "ok"]


def test_the_same_bytes_come_out_again(driver):
    code = "import os, time\nprint(hash('x'), {str(i) for i in range(9)}, time.tzname, os.environ['LANG'])"
    keys = "print join(',', keys %{{map {$_ => 1} 1 .. 20}}), ' ', scalar localtime(0)"
    rows = [{"id": i, "language": "python", "code": code} for i in range(4)]
    if driver != "docker":  # the tests' engine has no image with perl
        rows += [{"id": "perl", "language": "perl", "code": keys}]
    flags = ("--deterministic", "--no-times", "--order", "input", "--jobs", "3")
    first, _ = batch(driver, rows, *flags)
    again, out = batch(driver, rows, *flags)
    assert first.out == again.out
    assert len({out[i]["stdout"] for i in range(4)}) == 1
    assert [out[i]["verdict"] for i in range(len(rows))] == ["ok"] * len(rows)


ADDRESSES = """#include <stdio.h>
#include <stdlib.h>
int main(void) { int here; printf("%p %p %p\\n", (void *)main, (void *)&here, malloc(10)); return 0; }"""


def test_a_deterministic_program_is_at_the_same_addresses(driver):
    """Ten runs each, by two batches: cold ones, and ones in vessels that waited."""
    rows = [{"id": "python", "language": "python", "code": "print(object(), id([]))"}]
    if driver != "docker":  # the tests' engine has no image with a compiler
        rows += [{"id": "c", "language": "c", "code": ADDRESSES, "compile_timeout": "60s"}]
    seen = {row["id"]: set() for row in rows}
    for _ in range(2):
        done, out = batch(driver, [row for row in rows for _ in range(5)], "--deterministic", "--jobs", "2")
        assert done.status == 0, done.errors
        for row in out.values():
            assert row["verdict"] == "ok", row
            seen[row["id"]].add(row["stdout"])
    assert {name: len(outputs) for name, outputs in seen.items()} == {name: 1 for name in seen}
    _, out = batch(driver, rows[:1] * 5)
    assert len({row["stdout"] for row in out.values()}) > 1  # usually they are anywhere


def test_fixed_addresses_are_told_refused_by_a_policy_and_not_a_rows_to_ask_for(tmp_path):
    plan = json.loads(call("plan", "--addresses", "fixed", "python", "1").out)
    assert plan["addresses"] == "fixed" and "addresses" not in json.loads(call("plan", "python", "1").out)
    strict = tmp_path / "strict.yaml"
    strict.write_text("policy: {privileges: [none]}")
    refused = call("run", "--config", str(strict), "--addresses", "fixed", "python", "1")
    assert refused.status == 125 and "privilege 'addresses' is not allowed" in refused.errors
    done, out = batch("native", [{"language": "python", "code": "1", "addresses": "fixed"}])
    assert "a row cannot set 'addresses'" in out[0]["error"]["message"]


def test_a_directory_is_its_programs(tmp_path):
    (tmp_path / "b.py").write_text("print('python')")
    (tmp_path / "a.sh").write_text("echo shell")
    (tmp_path / "notes.unknown").write_text("no program")
    done, out = batch("native", b"", str(tmp_path), "--order", "input")
    assert done.status == 0, done.errors
    assert [(out[i]["id"], out[i]["stdout"]) for i in range(2)] == [
        ("a.sh", "shell\n"), ("b.py", "python\n")] and len(out) == 2


def test_pass_at_k_counts_samples_of_a_task(tmp_path):
    rows = [{"task_id": "t", "language": "sh", "code": "exit %d" % (i % 2)} for i in range(10)]
    done, _ = batch("native", rows, "--summary", str(tmp_path / "s.json"), "--quiet")
    summary = json.loads((tmp_path / "s.json").read_text())
    assert done.errors == "" and (summary["rows"], summary["passed"]) == (10, 5)
    assert summary["pass_at"] == {"pass@1": 0.5, "pass@10": 1.0}
    done, _ = batch("native", rows, "--fail-on-wrong", "-q")
    assert done.status == 1


def test_a_strict_batch_looks_at_checkers_too(tmp_path):
    row = {"language": "sh", "code": "true", "checker": {"language": "klingon", "code": "true"}}
    (tmp_path / "in").write_bytes(lines([row]))
    done = call("batch", "--strict", str(tmp_path / "in"))
    assert done.status == 125 and done.out == b"" and "line 1: the checker: " in done.errors


def test_the_summary_says_what_came_and_what_it_ran_on(tmp_path):
    rows = [{"id": i, "language": "sh", "code": "echo 1", "expected": "2\n"} for i in range(105)]
    rows += [{"id": "late", "language": "sh", "code": "sleep 60", "timeout": "300ms"},
             {"id": "broken", "language": "c", "code": "int main( {", "compile_timeout": "60s"},
             {"id": "crashed", "language": "python3", "code": "exit(1)", "timeout": "60s"},
             {"id": "x" * 300, "language": "sh", "code": "exit 1"}, {"id": 0, "code": "right", "language": "sh"}]
    (tmp_path / "in").write_bytes(lines(rows) + b"\n")
    flags = ("batch", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--timeout", "70s", "--jobs", "2", "--json")
    done = call(*flags, "--summary", str(tmp_path / "summary"))
    assert done.status == 0, done.errors
    told = done.json
    assert json.loads((tmp_path / "summary").read_text()) == told
    assert told["verdicts"] == {"ok": 105, "timeout": 1, "nonzero": 4}
    assert told["stages"] == {"compile": {"nonzero": 1}}
    assert len(told["ids"]["wrong"]) == 100 and set(told["ids"]["wrong"]) <= set(range(105))
    assert (told["ids"]["timeout"], sorted(map(str, told["ids"]["nonzero"]))) == (["late"], ["0", "broken", "crashed"])
    assert told["tasks"] == {"count": 109, "fewest": 1, "most": 2}
    assert told["input_sha256"] == hashlib.sha256((tmp_path / "in").read_bytes()).hexdigest()
    assert (told["jobs"], told["daemons"], told["limits"]["wall_ms"]) == (2, [], 70000)
    assert told["host"]["release"] == os.uname().release and told["host"]["cores"] == os.cpu_count()
    versions = {one["name"]: one["version"] for one in call("languages", "--json").json}
    assert told["languages"] == {"c": versions["c"], "sh": versions["sh"], "python3": versions["python"]}
    again = call(*flags, "--resume").json
    alike = ("rows", "verdicts", "stages", "tasks", "input_sha256", "limits")
    assert {name: again[name] for name in alike} == {name: told[name] for name in alike}
    assert again["ids"].keys() == told["ids"].keys()


def test_no_more_run_at_once_than_memory_allows(tmp_path):
    """Two rows whose limits are more than a half of all there is; who says --jobs, has what was said."""
    with open("/proc/meminfo", encoding="ascii") as file:
        half = str(int(re.search(r"MemTotal: +(\d+)", file.read())[1]) * 1024 * 6 // 10)
    (tmp_path / "vial.yaml").write_text("policy: {max_memory: 1024g}")
    row = lines([{"language": "sh", "code": "true"}])

    def jobs(*flags):
        done = call("batch", "-q", "--config", str(tmp_path / "vial.yaml"), "--summary", "/dev/stderr", *flags, stdin=row)
        return json.loads(done.errors)["jobs"]
    assert jobs("--memory", "8m") == min(os.cpu_count(), 256)
    assert jobs("--memory", half) == 1
    assert (jobs("--memory", half, "--jobs", "3"), jobs("--jobs", "0")) == (3, 1)


def test_what_is_flaky_is_named():
    varies = "import random, sys\nsys.exit(random.SystemRandom().randrange(2))"
    rows = [{"id": "v", "language": "python", "code": varies}, {"id": "s", "language": "sh", "code": "true"}]
    done = call("batch", "-q", "--repeat", "20", "--summary", "/dev/stderr", stdin=lines(rows))
    assert json.loads(done.errors)["ids"]["flaky"] == ["v"]


def test_a_summary_has_a_place_of_its_own():
    done = call("batch", "--json", stdin=lines([{"language": "sh", "code": "echo ran"}]))
    assert done.status == 125 and "ran" not in done.json
    assert "--output" in done.json["error"]["remedy"] and "--summary" in done.json["error"]["remedy"]


def peak_kib(out, count, had):
    """The peak of memory once all rows are written, while it waits for more."""
    running = start("batch", "-", "-q", "-o", str(out), *(["--resume"] if had else []), stdin=subprocess.PIPE)
    running.stdin.write(lines({"id": "task/%d" % i, "code": "true", "memory": "much"} for i in range(count)))
    running.stdin.flush()
    while not out.exists() or out.read_bytes().count(b"\n") < count:
        assert running.poll() is None
        time.sleep(0.05)
    with open("/proc/%d/status" % running.pid, encoding="ascii") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    running.stdin.close()
    assert running.wait(60) == 0
    return peak


def test_a_long_batch_needs_no_more_memory_than_a_short_one(tmp_path):
    """Each row is a task of its own, and ends before it is run; half of the long batch is resumed."""
    short = peak_kib(tmp_path / "short", 500, False)
    first = peak_kib(tmp_path / "long", 20000, False)
    again = peak_kib(tmp_path / "long", 40000, True)
    assert max(first, again) - short < 1500, (short, first, again)  # not 50 bytes a row


def peak_of_runs(tmp_path, count):
    """The same of programs that print 256 KiB, and are judged by what they print."""
    said = "x" * (1 << 18)
    (tmp_path / str(count)).write_bytes(lines({"id": i, "language": "sh", "code": "cat", "stdin": said,
                                               "expected": said, "timeout": "120s"} for i in range(count)))
    report, out = tmp_path / ("report%d" % count), tmp_path / ("out%d" % count)
    running = start_measured(report, "batch", str(tmp_path / str(count)), "-q", "--fields", "none", "-o", str(out))
    assert running.wait(600) == 0
    status, peak = map(int, report.read_text().split())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert status == 0 and len(rows) == count and all(row["passed"] for row in rows)
    return peak


def test_rows_that_run_leave_no_memory_behind(tmp_path):
    """Had each left one copy of its output, there were 20 MiB more."""
    assert peak_of_runs(tmp_path, 105) - peak_of_runs(tmp_path, 25) < 10 << 10


def test_pass_at_k_of_many_tasks(tmp_path):
    """More than are counted at once: what the tasks had is read from an output that is whole."""
    chance = random.Random(5)
    rows, out, tasks = [], [], {}
    for i in range(30000):
        task = "t%d" % (i % 9000 if i < 27000 else chance.randrange(9000))
        row = json.dumps({"task_id": task, "code": "true", "number": i}).encode()
        passed = chance.random() < 0.3
        tasks.setdefault(task, []).append(passed)
        rows.append(row + b"\n")
        out.append(json.dumps({"index": i, "id": task, "verdict": "ok", "passed": passed,
                           "hash": hashlib.sha256(row).hexdigest()[:16]}).encode() + b"\n")
    (tmp_path / "in").write_bytes(b"".join(rows))
    (tmp_path / "out").write_bytes(b"".join(out))
    done = call("batch", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--resume", "--json", "-q")
    assert done.status == 0, done.errors
    told = json.loads(done.text)
    assert (told["rows"], told["resumed"]) == (30000, 30000) and list(told["pass_at"]) == ["pass@1"]
    mean = sum(sum(t) / len(t) for t in tasks.values()) / len(tasks)
    assert told["pass_at"]["pass@1"] == pytest.approx(mean, rel=1e-9)
    assert (tmp_path / "out").read_bytes() == b"".join(out)


def test_an_output_is_never_written_over(tmp_path):
    (tmp_path / "out").write_text("precious")
    done = call("batch", "-", "-o", str(tmp_path / "out"), stdin=b"")
    assert done.status == 125 and "--resume" in done.errors
    for text in ("precious", "precious\n", '{"mine": 1}\n', '{"index": 0}\n'):
        (tmp_path / "out").write_text(text)
        done = call("batch", "-", "-o", str(tmp_path / "out"), "--resume", stdin=b"")
        assert done.status == 125 and (tmp_path / "out").read_text() == text
    (tmp_path / "out").write_text('{"index":0,"i')  # not finished: as if it had not begun
    done = call("batch", "-", "-o", str(tmp_path / "out"), "--resume", stdin=b"")
    assert done.status == 0 and (tmp_path / "out").read_text() == ""


def test_resuming_with_another_input_is_refused(tmp_path):
    out = str(tmp_path / "out")
    assert call("batch", "-o", out, stdin=lines([{"language": "sh", "code": "true"}])).status == 0
    done = call("batch", "-o", out, "--resume", stdin=lines([{"language": "sh", "code": "false"}]))
    assert done.status == 125 and "VIAL-CONFLICT" in done.errors


@pytest.mark.parametrize("order", ["input", "end"])
def test_killed_at_any_point_it_goes_on_without_a_trace(tmp_path, order):
    """Killed by SIGKILL again and again, the output is that of an undisturbed run; each
    program notes that it ran, and none of those that were written ran once more."""
    kills = int(os.environ.get("BATCH_KILLS", "10"))
    noted = notes.Notes(tmp_path, 8 * kills)
    noted.flags += ["--order", order]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert call("batch", str(noted.input), *noted.flags, "-o", str(whole)).status == 0
    assert noted.counts() == noted.once()
    for note in noted.dir.iterdir():
        note.unlink()
    assert notes.stop_and_go_on(start, noted, cut, kills) >= 2
    if order == "input":
        assert cut.read_bytes() == whole.read_bytes()
    assert notes.judged(cut) == notes.judged(whole)


def test_ctrl_c_and_resume_leave_no_trace_either(tmp_path):
    noted = notes.Notes(tmp_path, 60)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert call("batch", str(noted.input), *noted.flags, "-o", str(whole)).status == 0
    for note in noted.dir.iterdir():
        note.unlink()
    assert notes.stop_and_go_on(start, noted, cut, 6, signal.SIGINT) >= 2
    assert notes.judged(cut) == notes.judged(whole)


def test_ctrl_c_ends_it_with_whole_lines(tmp_path):
    out = tmp_path / "out"
    rows = [{"language": "sh", "code": "sleep 0.05; echo %d" % i} for i in range(500)]
    (tmp_path / "in").write_bytes(lines(rows))
    running = start("batch", str(tmp_path / "in"), "-o", str(out), stderr=subprocess.PIPE)
    while not out.exists() or out.stat().st_size == 0:
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130 and b"--resume" in errors
    done = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert out.read_bytes().endswith(b"\n") and 0 < len(done) < 500
    assert {row["verdict"] for row in done} == {"ok"}


def test_a_daemon_that_is_not_there_is_no_fault_of_the_programs(tmp_path):
    done, out = batch("native", [{"language": "sh", "code": "echo 1"}] * 3, "--retries", "0",
                      "--socket", str(tmp_path / "none.sock"))
    assert done.status == 125 and {row["verdict"] for row in out.values()} == {"failed"}


def test_a_checker_sees_the_input_that_was_run_and_no_output_that_was_cut(driver):
    checker = {"language": "python", "code": "import sys\nsys.exit(open('input.txt').read() != 'in')"}
    row = {"language": "sh", "code": "cat", "stdin": "in", "checker": checker}
    _, out = batch(driver, [row, dict(row, stdin="other"),
                            dict(row, code="yes | head -c 100000; cat", output_limit="1k")])
    assert [out[i]["passed"] for i in range(3)] == [True, False, False]
    assert out[2]["stdout_truncated"] and "checker" not in out[2]


def test_who_waits_for_a_line_holds_up_nobody(tmp_path):
    """A producer that reads answers before it writes on; and Ctrl-C while nothing comes."""
    running = start("batch", "-q", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for i in range(3):
        running.stdin.write(lines([{"id": i, "language": "sh", "code": "echo %d" % i}]))
        running.stdin.flush()
        assert json.loads(running.stdout.readline())["id"] == i
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
    running.stdin.close()
    running.stdout.close()


def test_ctrl_c_while_a_checker_runs_leaves_no_row(tmp_path):
    out = tmp_path / "out"
    slow = {"language": "sh", "code": "echo x", "checker": {"language": "sh", "code": "sleep 60"}}
    (tmp_path / "in").write_bytes(lines([{"language": "sh", "code": "true"}, slow]))
    running = start("batch", str(tmp_path / "in"), "-o", str(out), "-q", "--jobs", "1", "--timeout", "100s")
    while not out.exists() or out.stat().st_size == 0:
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
    assert [json.loads(line)["index"] for line in out.read_text().splitlines()] == [0]


def test_long_lines_and_a_last_one_without_an_end(driver):
    text = "x" * 300000
    rows = lines([{"language": "sh", "code": "wc -c", "stdin": text, "mine": text}] * 3)[:-1]
    done, out = batch(driver, rows)
    assert done.status == 0 and [out[i]["stdout"].strip() for i in range(3)] == ["300000"] * 3
    assert out[2]["mine"] == text


def test_a_line_that_is_too_long_is_a_row_with_an_error(tmp_path):
    good = b'{"language": "sh", "code": "echo good"}\n'
    with open(tmp_path / "in", "wb") as file:
        file.write(good + b"\0" * 1000)
        file.seek(300 << 20)  # a hole of zeros
        file.write(b"\n" + good)
    done = call("batch", str(tmp_path / "in"))
    out = [json.loads(line) for line in done.out.splitlines()]
    assert done.status == 0 and [row["passed"] for row in out] == [True, False, True], done.errors
    assert out[1]["error"]["message"] == "the line is longer than 256 MiB"
    assert [row["id"] for row in out] == [1, 2, 3]


@pytest.mark.parametrize("field, value", [
    ("driver", "process"), ("workspace", "/tmp"), ("mounts", [{"source": "/tmp", "target": "/x"}]),
    ("network", "bridge"), ("image", "debian"), ("rootfs", "/"), ("venv", "/usr"), ("seccomp", "none"),
    ("caches", ["x"]), ("user", "1")])
def test_a_row_does_not_choose_what_it_sees_of_the_host(field, value):
    """Rows come from whoever wrote the programs."""
    row = {"language": "sh", "code": "echo ran"}
    _, out = batch("native", [dict(row, **{field: value}), dict(row, checker=dict(row, **{field: value})),
                              dict(row, timeout="5s", memory="64m", env={"A": "1"})])
    for i in range(2):
        assert (out[i]["verdict"], out[i]["error"]["code"]) == ("denied", "VIAL-POLICY"), out[i]
        assert "--trust-rows" in out[i]["error"]["remedy"]
    assert out[2]["passed"]


def test_rows_that_are_trusted_choose():
    row = {"language": "sh", "code": "echo ran", "driver": "process"}
    _, out = batch("native", [row], "--trust-rows")
    assert out[0]["driver"] == "process" and out[0]["isolation"]["level"] == "none"


def test_verdicts_are_right_under_load():
    """A short form of `make bulk`: more at once than there are cores."""
    truths = list(truth.programs(200, 21))
    done, _ = batch("native", [t[0] for t in truths], "--jobs", "8")
    assert done.status == 0, done.errors
    assert list(truth.judged(truths, map(json.loads, done.text.splitlines()))) == []


def test_a_truth_that_is_not_told_is_found():
    """The judge of the judge can fail."""
    one = ({"id": 0}, "ok", True, {"stdout": "1\n"})
    good = {"index": 0, "id": 0, "verdict": "ok", "passed": True, "stdout": "1\n"}
    assert list(truth.judged([one], [good])) == []
    for bad in ({"verdict": "timeout"}, {"passed": False}, {"stdout": "2\n"}, {"id": 1}):
        assert len(list(truth.judged([one], [dict(good, **bad)]))) == 1
    assert list(truth.judged([one], [])) == ["row 0 did not come"]
    assert "row 0 came twice" in list(truth.judged([one], [good, good]))


def test_rows_that_vial_failed_on_are_run_again(tmp_path):
    out = tmp_path / "out"
    rows = [{"id": i, "language": "sh", "code": "echo %d" % i} for i in range(4)]
    flags = ("--retries", "0", "-q", "-o", str(out))
    assert call("batch", *flags, "--socket", str(tmp_path / "none"), stdin=lines(rows)).status == 125
    assert [json.loads(text)["verdict"] for text in out.read_text().splitlines()] == ["failed"] * 4
    kept = out.read_text().splitlines()[0].replace('"failed"', '"ok"')
    out.write_text(kept + "\n" + "\n".join(out.read_text().splitlines()[1:]) + "\n")
    done = call("batch", *flags, "--resume", stdin=lines(rows))
    assert done.status == 125 and len(out.read_text().splitlines()) == 4
    done = call("batch", *flags, "--resume", "--retry-failed", stdin=lines(rows))
    assert done.status == 0, done.errors
    got = [json.loads(text) for text in out.read_text().splitlines()]
    assert sorted((row["id"], row["verdict"]) for row in got) == [(i, "ok") for i in range(4)]
    assert out.read_text().splitlines()[0] == kept
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]
    done = call("batch", "--retry-failed", stdin=b"")
    assert done.status == 125 and "--retry-failed goes with --resume" in done.errors


def test_a_batch_that_fails_everywhere_ends_early(tmp_path):
    rows = [{"language": "sh", "code": "true"}] * 200
    flags = ("--retries", "0", "--jobs", "1", "--socket", str(tmp_path / "none"))
    done = call("batch", *flags, stdin=lines(rows))
    assert done.status == 125 and len(done.text.splitlines()) == 20
    assert "vial failed on 20 of 20 rows" in done.errors and "--retry-failed" in done.errors
    done = call("batch", *flags, "--max-infra", "100%", stdin=lines(rows))
    assert done.status == 125 and len(done.text.splitlines()) == 200
    assert "is not a share" in call("batch", "--max-infra", "some", stdin=b"").errors


def test_what_varies_is_flaky(driver):
    varies = "import random, sys\nsys.exit(random.SystemRandom().randrange(2))"
    _, out = batch(driver, [{"language": "python", "code": varies}, {"language": "sh", "code": "exit 2"},
                            {"language": "sh", "code": "true"}], "--repeat", "20")
    assert [out[i]["flaky"] for i in range(3)] == [True, False, False]


def test_a_timeout_can_count_cpu_time_alone(driver):
    """Who waits for the clock is not late; who uses the processor is."""
    waits = {"language": "sh", "code": "sleep 1; echo slept", "timeout": "500ms"}
    spins = {"language": "python", "code": "while True: pass", "timeout": "500ms"}
    _, out = batch(driver, [waits, spins], "--timeout-kind", "cpu")
    assert [out[i]["verdict"] for i in range(2)] == ["ok", "cpu_timeout"]
    _, out = batch(driver, [waits], "--timeout-kind", "wall")
    assert out[0]["verdict"] == "timeout"


def test_results_in_humanevals_words(driver):
    _, out = batch(driver, [
        {"task_id": "T/0", "language": "python", "code": "print(1)", "expected": "1\n", "completion": "x"},
        {"language": "python", "code": "print(2)", "expected": "1\n"},
        {"language": "sh", "code": "exit 1"}, {"language": "sh", "code": "sleep 60", "timeout": "300ms"}],
        "--result-format", "humaneval")
    assert [out[i]["result"] for i in range(4)] == [
        "passed", "failed: wrong answer", "failed: nonzero", "timed out"]
    assert out[0]["task_id"] == "T/0" and out[0]["completion"] == "x"


def test_a_line_has_the_members_that_were_asked_for(driver):
    _, out = batch(driver, [{"id": "a", "language": "sh", "code": "echo 1", "mine": 7}], "--fields", "stdout,mine")
    assert set(out[0]) == {"index", "id", "verdict", "passed", "hash", "stdout", "mine"}


def test_a_reference_that_does_not_pass_is_warned_of(driver):
    rows = [{"language": "sh", "code": "echo 1", "expected": "1\n", "reference": True},
            {"language": "sh", "code": "echo 1", "expected": "2\n", "reference": True},
            {"language": "sh", "code": "echo 1", "expected": "2\n"}]
    done, out = batch(driver, rows)
    assert "WARNING: 1 of 2 reference solutions did not pass" in done.errors and done.status == 0
    assert out[0]["reference"] is True


def test_names_that_end_in_gz_are_packed(tmp_path):
    rows = lines([{"id": i, "language": "sh", "code": "echo %d" % i} for i in range(5)])
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(rows))
    done = call("batch", str(tmp_path / "in.jsonl.gz"), "-o", str(tmp_path / "out.jsonl.gz"), "--order", "input")
    assert done.status == 0, done.errors
    out = [json.loads(line) for line in gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).splitlines()]
    assert [row["stdout"] for row in out] == ["%d\n" % i for i in range(5)]
    done = call("batch", str(tmp_path / "in.jsonl.gz"), "-o", str(tmp_path / "out.jsonl.gz"), "--resume")
    assert done.status == 125 and "--resume cannot go on with a file that is packed" in done.errors
    (tmp_path / "torn.gz").write_bytes(gzip.compress(rows)[:-9])
    done = call("batch", str(tmp_path / "torn.gz"))
    assert done.status == 125 and "gzip could not unpack the input" in done.errors


def test_a_file_of_windows_is_read_as_it_was_meant(driver):
    rows = [{"language": "sh", "code": "echo %d" % n, "expected": "%d\n" % n} for n in range(2)]
    text = b"\xef\xbb\xbf" + lines(rows).replace(b"\n", b"\r\n\r\n")
    done, out = batch(driver, text)
    assert [out[i]["passed"] for i in range(2)] == [True, True], done.errors


@pytest.mark.parametrize("text", [b"", b"\n \r\n"])
def test_a_batch_without_a_row_is_told_what_a_row_is(driver, text):
    done, out = batch(driver, text)
    assert (done.status, out) == (0, {})
    assert "there was no row: write one JSON object a line" in done.errors


def test_a_field_that_is_misspelt_is_told_once(driver):
    row = {"language": "sh", "code": "true", "output": "mine", "test": 1, "prompt": "x", "solution": "y"}
    done, _ = batch(driver, [row] * 2)
    assert "did you mean" not in done.errors
    done, out = batch(driver, [row, {**row, "timout": "1s"}, {**row, "memmory": "1m"}],
                      "--jobs", "1")  # of rows that run at once, any may be the first
    assert ("line 2: 'timout' is no field of a request, and comes back untouched; "
            "did you mean 'timeout'?") in done.errors
    assert done.errors.count("did you mean") == 1 and out[1]["timout"] == "1s"


@pytest.mark.parametrize("line,told,remedy", [
    (b"[1]", "the line is not a JSON object", "write one object a line"),
    (b'{"language": "sh", "code": "true", "expected": 3}', "'expected' is not a text", "as a string"),
    (b'{"language": "sh", "code": "true", "tests": {}}', "'tests' is not a list", "one object for each"),
    (b'{"language": "sh", "code": "true", "tests": [{"stdn": "1"}]}', "unknown member 'stdn'", "'stdin'"),
    (b'{"language": "sh", "code": "true", "checker": "x"}', "'checker' is not an object", "language and code")])
def test_a_broken_row_says_how_to_mend_it(driver, line, told, remedy):
    _, out = batch(driver, line)
    assert out[0]["verdict"] == "denied"
    assert told in out[0]["error"]["message"] and remedy in out[0]["error"]["remedy"]


def test_an_output_that_cannot_be_written_has_a_way_out(driver, tmp_path):
    rows = tmp_path / "rows"
    rows.write_bytes(lines([{"language": "sh", "code": "true"}]))
    done = call("batch", "--driver", driver, str(rows), "-o", str(tmp_path / "no" / "out"))
    assert done.status == 125 and "name a file in a directory that you can write to" in done.errors
    with open("/dev/full", "wb") as full:
        started = start("batch", "--driver", driver, str(rows), "-q", stdout=full,
                        stderr=subprocess.PIPE)
        said = started.communicate(timeout=120)[1].decode()
    assert started.returncode == 125
    assert "No space left on device" in said and "make room; --resume then goes on" in said


def test_progress_fits_into_a_narrow_terminal(driver):
    main, other = os.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
    started = start("batch", "--driver", driver, stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL, stderr=other)
    os.close(other)
    feed = threading.Thread(target=started.communicate, args=(
        lines({"language": "sh", "code": "sleep 0.3"} for _ in range(6)),))
    feed.start()
    said = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while piece := os.read(main, 4096):
            said += piece
    feed.join()
    os.close(main)
    shown = [part.split(b"\r")[0] for part in said.split(b"\r\x1b[K")[1:]]
    assert started.returncode == 0 and any(b"/s" in part for part in shown), said
    assert max(len(part) for part in shown if b"rows," not in part) < 20


def test_progress_tells_what_is_done_and_that_nothing_ends_any_more(tmp_path):
    """Where no terminal is: lines come by the clock, while one row waits for the test."""
    (tmp_path / "go").mkdir()
    rows = [{"language": "sh", "code": "exit %d" % (i == 1)} for i in range(4)]
    rows.append({"language": "sh", "code": "until [ -e /go/on ]; do sleep 0.02; done", "timeout": "120s"})
    (tmp_path / "in").write_bytes(lines(rows))
    running = start("batch", str(tmp_path / "in"), "--progress", "50ms", "--jobs", "2", "--mount",
                    "%s:/go" % (tmp_path / "go"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    seen = []
    for line in running.stderr:
        seen += re.findall(r"^vial: (\d+)/5 (\d+)%  [\d.]+/s  (\d+) s left  passed (\d+)  nonzero (\d+)$",
                           line.decode())
        if [s[:2] for s in seen].count(("4", "80")) >= 3:
            break
    assert seen[-1][0] == "4" and seen[-1][3:] == ("3", "1")
    (tmp_path / "go" / "on").touch()
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 0 and b"5 rows, 4 passed" in errors


@pytest.mark.parametrize("text", ["0", "-1s", "soon", "100h"])
def test_a_pause_that_is_none_is_refused(text):
    done = call("batch", "--progress", text, stdin=b"")
    assert done.status == 125 and "--progress '%s' is not a time" % text in done.errors


@pytest.mark.parametrize("code,verdict,status", [(0, "ok", 0), (1, "ok", 0), (2, "ok", 0), (7, "ok", 0),
                                                 (3, "failed", 125), (4, "failed", 125)])
def test_a_checkers_exit_code_means_what_testlib_says(driver, code, verdict, status):
    """0 right, 1 wrong, 2 badly presented, 7 a part of the points; the rest is its own fault."""
    row = {"language": "sh", "code": "echo 1", "checker": {"language": "sh", "code": "exit %d" % code}}
    done, out = batch(driver, [row])
    assert (done.status, out[0]["verdict"], out[0]["passed"]) == (status, verdict, code == 0)
    assert out[0]["checker"]["exit_code"] == code and out[0]["attempts"] == 1
