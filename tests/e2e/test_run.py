# SPDX-License-Identifier: Apache-2.0
"""One run: what goes in comes out, and the exit status is the program's."""

import hashlib

import jsonschema
import pytest


#
def test_the_default_driver_runs_python_with_nothing_set(vial):
    done = vial("run", "python", "print(2+2)")
    assert (done.status, done.out, done.err) == (0, b"4\n", b"")


#
def test_stdout_and_stderr_stay_apart(run):
    done = run("bash", "echo out; echo err >&2")
    assert (done.status, done.out, done.err) == (0, b"out\n", b"err\n")


#
@pytest.mark.parametrize("status", [1, 3, 124, 125, 255])
def test_the_exit_status_is_the_programs_own(run, status):
    done = run("bash", f"exit {status}")
    assert (done.status, done.out, done.err) == (status, b"", b"")


def test_a_signal_gives_128_plus_its_number(run):
    done = run("bash", "kill -SEGV $$")
    assert done.status == 128 + 11
    assert "SIGSEGV" in done.errors


def test_a_program_that_kills_itself_is_not_called_out_of_memory(run):
    done = run("--json", "bash", "kill -KILL $$")
    assert done.status == 137
    assert (done.json["verdict"], done.json["signal"]) == ("signal", "KILL")


# covers: A-07, K-01
def test_an_endless_loop_is_ended_by_the_timeout(run):
    done = run("--timeout", "1", "python", "while 1: pass")
    assert done.status == 124
    assert done.errors.startswith("vial: timeout after 1")


# covers: C-05
def test_stdin_is_piped_to_the_program(run):
    done = run("python", "print(input())", stdin=b"hi\n")
    assert (done.status, done.out) == (0, b"hi\n")


# covers: C-05
def test_a_megabyte_of_stdin_arrives_whole(run):
    code = "import sys,hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    data = bytes(range(256)) * 4096
    done = run("python", code, stdin=data)
    assert done.text.strip() == hashlib.sha256(data).hexdigest()


def test_a_program_that_reads_no_stdin_is_not_held_up_by_it(run):
    done = run("bash", "echo done", stdin=b"x" * 4_000_000)
    assert (done.status, done.out) == (0, b"done\n")


def test_the_stdin_flag_wins_over_the_pipe(run):
    done = run("--stdin", "flag", "python", "print(input())", stdin=b"pipe\n")
    assert done.out == b"flag\n"


def test_a_dash_reads_the_code_from_stdin(run):
    done = run("python", "-", stdin=b"print(6*7)\n")
    assert done.out == b"42\n"


def test_an_at_sign_reads_the_code_from_a_file(run, tmp_path):
    job = tmp_path / "job.py"
    job.write_text("import sys; print(sys.argv[1:], input())")
    done = run("python", f"@{job}", "a", "--json", stdin=b"live\n")
    assert done.out == b"['a', '--json'] live\n"


def test_what_follows_the_code_belongs_to_the_program(run):
    done = run("python", "import sys; print(sys.argv[1:])", "--timeout", "0", "-q", "--")
    assert done.out == b"['--timeout', '0', '-q', '--']\n"


@pytest.mark.parametrize("flags", [["--timeout", "1"], ["--timeout=1"], ["-t", "1"],
                                   ["-t1"], ["--timeout", "1000ms"]])
def test_every_spelling_of_a_flag_means_the_same(vial, flags):
    plan = vial("plan", "--driver", "process", *flags, "python", "1").json
    assert plan["limits"]["wall_ms"] == 1000


def test_an_environment_variable_reaches_the_program_and_ours_do_not(run):
    done = run("-e", "GREETING=hello world", "bash", "env")
    lines = done.text.splitlines()
    names = {line.split("=")[0] for line in lines}
    assert "GREETING=hello world" in lines
    assert names <= {"GREETING", "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TERM",
                     "TMPDIR", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "HOSTNAME",
                     "SHLVL", "_"}


def test_the_program_starts_with_no_signal_blocked_or_ignored(run):
    done = run("sh", "grep -E '^Sig(Blk|Ign)' /proc/self/status")
    assert [line.split()[1].strip("0") for line in done.text.splitlines()] == ["", ""]


def test_the_program_inherits_no_descriptor_but_the_three(run):
    done = run("sh", "ls /proc/self/fd")
    # ls itself opens the directory, and gets the first free number.
    assert done.text.split() == ["0", "1", "2", "3"]


#
def test_json_validates_against_the_published_schema(run, result_schema):
    for code, verdict in (("print(1)", "ok"), ("exit(3)", "nonzero"),
                          ("import os; os.abort()", "signal")):
        done = run("--json", "python", code)
        jsonschema.validate(done.json, result_schema)
        assert done.json["verdict"] == verdict
        assert done.err == b""


#
def test_the_json_of_a_timeout_says_so(run, result_schema):
    done = run("--json", "--timeout", "3", "bash", "echo before; sleep 30")
    jsonschema.validate(done.json, result_schema)
    assert done.status == 124
    assert done.json["verdict"] == "timeout"
    assert done.json["stdout"] == "before\n"
    assert "time" in done.json["limits_hit"]


def test_the_report_is_one_line_on_stderr(run, driver):
    done = run("--report", "python", "print(1)")
    assert done.out == b"1\n"
    assert done.errors.startswith("vial: ok, exit 0, ")
    assert f"{driver} (" in done.errors and done.errors.count("\n") == 1


def test_the_process_driver_says_that_it_isolates_nothing(vial):
    done = vial("run", "--driver", "process", "--json", "sh", "true").json
    assert done["isolation"]["level"] == "none"


def test_the_default_is_never_the_process_driver(vial):
    done = vial("run", "--json", "sh", "true").json
    assert done["driver"] != "process"


# covers: C-06, A-07
def test_two_runs_share_no_file(run):
    assert run("bash", "echo x > kept; echo y > /tmp/vial-kept-file; ls").text
    try:
        assert "kept" not in run("bash", "ls").text
    finally:
        run("bash", "rm -f /tmp/vial-kept-file")


def test_a_compile_error_is_the_runs_own_failure(run, vial):
    usable = {x["name"]: x["usable"] for x in vial("languages", "--json").json}
    if not usable.get("c"):
        pytest.skip("no C compiler here")
    done = run("--json", "c", "int main(void) { return oops; }")
    assert done.status == 1
    assert (done.json["verdict"], done.json["stage"]) == ("nonzero", "compile")
    assert "oops" in done.json["stderr"]


def test_compiled_code_runs(run, vial):
    usable = {x["name"]: x["usable"] for x in vial("languages", "--json").json}
    if not usable.get("c"):
        pytest.skip("no C compiler here")
    done = run("c", '#include <stdio.h>\nint main(void) { puts("built"); return 4; }')
    assert (done.status, done.out) == (4, b"built\n")


def test_files_go_in_and_come_back(run, tmp_path):
    (tmp_path / "data.csv").write_bytes(b"1,2\n\x00\xff")
    done = run("--in", "data.csv", "--out", "copy.bin", "--out", "copy.bin:other.bin",
               "sh", "cat data.csv data.csv > copy.bin", cwd=tmp_path)
    assert (done.status, done.err) == (0, b"")
    assert (tmp_path / "other.bin").read_bytes() == b"1,2\n\x00\xff" * 2


def test_a_file_comes_back_under_its_own_name(run, tmp_path):
    (tmp_path / "out.txt").write_text("old")
    done = run("--out", "sub/out.txt", "sh", "mkdir sub; echo new > sub/out.txt",
               cwd=tmp_path)
    assert (done.status, done.err) == (0, b"")
    assert (tmp_path / "out.txt").read_text() == "new\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_a_missing_output_is_reported_and_no_failure(run, tmp_path):
    done = run("--out", "plot.png", "sh", "echo hi", cwd=tmp_path)
    assert (done.status, done.out) == (0, b"hi\n")
    assert "plot.png" in done.errors and "VIAL-NO-FILE" in done.errors
    assert not list(tmp_path.iterdir())


def test_an_output_never_goes_through_a_symbolic_link(run, tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "out.txt").symlink_to(tmp_path / "precious")
    done = run("--out", "out.txt", "sh", "echo theirs > out.txt", cwd=tmp_path)
    assert done.status == 125
    assert "not a regular file" in done.errors
    assert (tmp_path / "precious").read_text() == "mine"


def test_an_output_that_is_a_link_out_of_the_workdir_does_not_come_back(run, tmp_path):
    done = run("--out", "out.txt", "sh", "ln -s /etc/passwd out.txt", cwd=tmp_path)
    assert done.status == 0
    assert not (tmp_path / "out.txt").exists()
    assert "out.txt" in done.errors


def test_a_request_as_json_runs(ask):
    done = ask({"language": "python", "code": "import sys; print(sys.argv[1], input())",
                "args": ["x"], "stdin": "y", "timeout": 60})
    assert done.json["stdout"] == "x y\n"


def test_flags_win_over_the_request(ask):
    done = ask({"language": "sh", "code": "sleep 30", "timeout": 60}, "--timeout", "0.3")
    assert done.json["verdict"] == "timeout"


def test_a_command_runs_instead_of_code(ask):
    done = ask({"command": ["sh", "-c", "echo \"$1\"", "x", "a b"]})
    assert done.json["stdout"] == "a b\n"
    assert done.status == 0


def test_a_command_that_does_not_exist_gives_127(ask):
    done = ask({"command": ["no-such-program-here"]})
    assert done.status == 127
    assert done.json["verdict"] == "failed"
    assert done.json["error"]["code"] == "VIAL-EXEC"


def test_a_command_that_cannot_be_executed_gives_126(ask):
    done = ask({"command": ["/etc/passwd"]})
    assert done.status == 126
    assert done.json["error"]["code"] == "VIAL-EXEC"


def test_a_program_can_have_terminals_of_its_own(run):
    done = run("python", "import os, pty\na, b = os.openpty()\nos.write(b, b'hi')\n"
               "assert os.read(a, 2) == b'hi'\npty.spawn(['/bin/echo', 'there'])")
    assert (done.status, done.out.strip()) == (0, b"there")


def test_artifacts_are_what_the_program_made_or_changed(run, tmp_path):
    (tmp_path / "same.txt").write_text("same")
    (tmp_path / "changed.txt").write_text("old")
    code = """import os
os.makedirs("out/deep")
os.rename("same.txt", "out/same.txt")
open("out/deep/p.png", "wb").write(b"\\x89PNG")
open("out/t.csv", "w").write("a,b")
os.symlink("/etc/passwd", "out/link")
open("elsewhere", "w").write("x")
"""
    found = run("--json", "--in", "same.txt", "--artifacts", "out", "python", code,
                cwd=tmp_path).json
    assert [(a["path"], a["type"], a["bytes"]) for a in found["artifacts"]] == [
        ("deep/p.png", "image/png", 4), ("same.txt", "text/plain", 4),
        ("t.csv", "text/csv", 3)]
    assert found["artifacts"][0]["content_base64"] == "iVBORw=="
    assert "content_base64" not in found["artifacts"][1]
    assert found["artifacts"][2]["content_base64"] == "YSxi"
    assert found["artifacts"][2]["sha256"] == hashlib.sha256(b"a,b").hexdigest()
    found = run("--json", "--in", "same.txt", "--in", "changed.txt", "--artifacts", ".",
                "python", 'open("changed.txt", "a").write("!")', cwd=tmp_path).json
    assert [a["path"] for a in found["artifacts"]] == ["changed.txt"]
    assert run("--json", "--artifacts", "none", "sh", "true").json["artifacts"] == []


def test_too_many_artifacts_are_cut_and_marked(run):
    found = run("--json", "--artifacts", ".", "python",
                "for i in range(300): open('f%03d' % i, 'w').write('x')").json
    assert len(found["artifacts"]) == 256 and found["artifacts_truncated"]
