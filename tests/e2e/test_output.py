# SPDX-License-Identifier: Apache-2.0
"""Output: bounded, exact, and harmless for terminals."""

import base64
import json
import os
import pty
import select
import subprocess

import pytest
from conftest import PATIENCE, VIAL, environment, start, start_measured

MIB = 1024 * 1024
FLOOD = 'import sys; [sys.stdout.write("x"*65536) for _ in range(4800)]'
FLOOD_BYTES = 4800 * 65536


# covers: K-08
def test_a_flood_is_counted_exactly_at_constant_memory(driver, tmp_path):
    report = tmp_path / "report"
    with open(tmp_path / "out", "wb") as out:
        process = start_measured(report, "run", "--driver", driver, "--json", "python",
                                 FLOOD, stdout=out)
        assert process.wait(PATIENCE) == 0
    result = json.loads((tmp_path / "out").read_bytes())
    status, peak_kib = map(int, report.read_text().split())
    assert status == 0
    assert result["stdout_bytes"] == FLOOD_BYTES
    assert result["stdout_truncated"] is True
    assert peak_kib < 32 * 1024


def test_a_live_flood_arrives_whole_at_constant_memory(driver, tmp_path):
    report = tmp_path / "report"
    process = start_measured(report, "run", "--driver", driver, "python", FLOOD,
                             stdout=subprocess.PIPE)
    total = 0
    while chunk := os.read(process.stdout.fileno(), MIB):
        total += len(chunk)
    assert process.wait(PATIENCE) == 0
    process.stdout.close()
    status, peak_kib = map(int, report.read_text().split())
    assert (status, total) == (0, FLOOD_BYTES)
    assert peak_kib < 32 * 1024


# covers: K-08
def test_truncation_keeps_head_and_tail_and_says_what_is_missing(run):
    code = 'print("begin"); print("x"*100000); print("end")'
    result = run("--json", "--output-limit", "1k", "python", code).json
    assert result["stdout"].startswith("begin\n") and result["stdout"].endswith("end\n")
    assert result["stdout_truncated"] and result["stdout_bytes"] == 100011
    assert "bytes left out" in result["stdout"]
    assert "output" in result["limits_hit"]


def test_the_head_or_the_tail_alone_can_be_kept(run):
    code = 'print("begin"); print("x"*100000); print("end")'
    flags = ["--json", "--output-limit", "1k", "--output-keep"]
    head = run(*flags, "head", "python", code).json["stdout"]
    tail = run(*flags, "tail", "python", code).json["stdout"]
    assert head.startswith("begin\n") and "end" not in head[-20:]
    assert tail.endswith("end\n") and not tail.startswith("begin")


def test_output_max_ends_the_run(run):
    done = run("--json", "--output-max", "1m", "sh", "yes")
    assert done.status == 125
    assert done.json["verdict"] == "output_limit"


def test_nuls_and_any_byte_pass_live_untouched(run):
    done = run("python", "import sys; sys.stdout.buffer.write(bytes(range(256))*100)")
    assert done.out == bytes(range(256)) * 100


def test_invalid_utf8_is_repaired_in_json_and_exact_as_base64(run):
    code = 'import sys; sys.stdout.buffer.write(b"a\\xff\\x00\\xc3(b")'
    result = run("--json", "python", code).json
    assert result["stdout"] == "a\ufffd\x00\ufffd(b"
    assert base64.b64decode(result["stdout_base64"]) == b"a\xff\x00\xc3(b"


def test_raw_adds_base64_even_where_nothing_was_repaired(run):
    result = run("--json", "--raw", "sh", "printf plain").json
    assert base64.b64decode(result["stdout_base64"]) == b"plain"


def test_a_line_of_a_megabyte_without_a_newline_survives(run):
    done = run("python", 'import sys; sys.stdout.write("y"*1048577)')
    assert done.out == b"y" * 1048577


def test_no_final_newline_is_added(run):
    assert run("sh", "printf abc").out == b"abc"


def test_a_background_process_that_holds_the_pipe_does_not_hang_the_run(run):
    done = run("--timeout", "60", "bash", "sleep 300 & echo started")
    assert (done.status, done.out) == (0, b"started\n")


def test_output_arrives_while_the_program_still_runs(driver):
    process = start("run", "--driver", driver, "bash", "echo now; read line; echo $line",
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"now\n"
    process.stdin.write(b"later\n")
    process.stdin.close()
    assert process.stdout.read() == b"later\n"
    assert process.wait(PATIENCE) == 0
    process.stdout.close()


def through_terminal(*args):
    """What a terminal would get."""
    master, slave = pty.openpty()
    process = start(*args, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    while select.select([master], [], [], PATIENCE)[0]:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # EIO: the last writer is gone
            break
        if not chunk:
            break
        seen += chunk
    os.close(master)
    process.wait(PATIENCE)
    return seen


EVIL = "printf '\\033]0;title\\007red\\033[31m\\302\\233x'"


def test_escape_sequences_are_neutralised_on_a_terminal(driver):
    seen = through_terminal("run", "--driver", driver, "sh", EVIL)
    assert b"\x1b" not in seen and b"\x07" not in seen and b"\xc2\x9b" not in seen
    assert b"\\x1b]0;title" in seen and b"red" in seen


def test_raw_lets_escape_sequences_through(driver):
    assert b"\x1b[31m" in through_terminal("run", "--driver", driver, "--raw", "sh", EVIL)


def test_a_pipe_gets_escape_sequences_untouched(run):
    assert b"\x1b[31m" in run("sh", EVIL).out


def test_what_vial_says_about_hostile_names_is_harmless(vial):
    done = vial("run", "py\x1b[31mthon", "1")
    assert done.status == 125
    assert b"\x1b" not in done.err


def test_a_closed_stdout_ends_the_run_quietly(driver):
    process = start("run", "--driver", driver, "--timeout", "30", "sh", "yes",
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.read(4) == b"y\ny\n"
    process.stdout.close()
    assert process.wait(PATIENCE) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


#
def test_a_reader_that_stopped_reading_does_not_defeat_the_deadline(driver):
    process = start("run", "--driver", driver, "--timeout", "1", "sh", "yes",
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.wait(PATIENCE) == 124
    assert b"timeout" in process.stderr.read()
    process.stdout.close()
    process.stderr.close()


def test_the_callers_descriptors_stay_in_blocking_mode(driver):
    reader, writer = os.pipe()
    process = start("run", "--driver", driver, "sh", "echo x", stdout=writer,
                    stdin=subprocess.DEVNULL)
    assert process.wait(PATIENCE) == 0
    assert os.get_blocking(writer)
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("code,status", [("pass", 0), ("exit(3)", 3), ("print(1)", 125),
                                         ("import sys; sys.stderr.write('x')", 0)])
def test_closed_standard_descriptors_do_no_harm(code, status):
    """Only what is printed to a stdout that is not there is lost, and that is told."""
    done = subprocess.run(["sh", "-c", '"$VIAL" run python "$CODE" <&- >&- 2>&-'],
                          env=environment(VIAL=VIAL, CODE=code),
                          timeout=PATIENCE, check=False)
    assert done.returncode == status


@pytest.mark.parametrize("args", [["run", "bash", "echo x"], ["run", "--json", "bash", "true"],
                                  ["version"], ["help"], ["languages"], ["schema", "request"],
                                  ["completion", "bash"], ["config", "show"], ["ps"]])
def test_a_full_disk_is_told_and_is_no_success(args):
    with open("/dev/full", "w") as full:
        done = subprocess.run([VIAL, *args], stdout=full, stderr=subprocess.PIPE,
                              env=environment(), timeout=PATIENCE, check=False)
    assert done.returncode == 125
    assert b"No space left on device" in done.stderr and done.stderr.count(b"\n") == 1
