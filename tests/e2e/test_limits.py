# SPDX-License-Identifier: Apache-2.0
"""Each limit has its own verdict and exit status."""

import pytest
from conftest import call, why_absent


@pytest.fixture
def native():
    reason = why_absent("native")
    if reason:
        pytest.skip(f"driver native: {reason}")

    def run(*args):
        return call("run", "--driver", "native", *args)

    return run


# covers: K-04, K-12
def test_memory_beyond_the_limit_gives_137_and_oom(native):
    done = native("--json", "--memory", "64m", "python", "x = b'x' * (1 << 30); print(len(x))")
    assert (done.status, done.json["verdict"]) == (137, "oom")
    assert done.json["limits_hit"] == ["memory"]
    assert done.json["usage"]["memory_peak_bytes"] <= 64 * 1024 * 1024


def test_the_smallest_vessel_does_not_take_vial_with_it(native):
    """Whatever fits in there: vial itself lives on, and says how it went."""
    for memory in ("4m", "16m"):
        done = native("--json", "--memory", memory, "python", "x = b'x' * (1 << 30)")
        assert done.status in (125, 137), done.err
        assert done.json["verdict"] in ("oom", "failed")


def test_out_of_memory_is_said_on_stderr(native):
    done = native("--memory", "64m", "python", "x = b'x' * (1 << 30)")
    assert done.status == 137
    assert done.errors == "vial: out of memory: the memory limit was reached\n"


def test_quiet_says_nothing_about_limits(native):
    done = native("-q", "--memory", "64m", "python", "x = b'x' * (1 << 30)")
    assert (done.status, done.err) == (137, b"")


def test_cpu_time_beyond_the_limit_gives_124(run):
    done = run("--json", "--cpu-time", "1", "--timeout", "150", "python", "while 1: pass")
    assert (done.status, done.json["verdict"]) == (124, "cpu_timeout")


def test_a_fork_bomb_meets_the_pids_limit(native):
    code = "for i in $(seq 50); do sleep 5 & done; echo survived"
    done = native("--json", "--pids", "16", "--timeout", "5", "bash", code)
    assert "pids" in done.json["limits_hit"]


def test_touching_the_pids_limit_can_end_the_run(native):
    code = "for i in $(seq 50); do sleep 5 & done; sleep 20"
    done = native("--json", "--pids", "16", "--end-on", "pids", "bash", code)
    assert (done.status, done.json["verdict"]) == (125, "pids")


def test_a_full_disk_is_the_programs_to_handle(native):
    """Fullness is sampled, so the program stays a moment where it is full."""
    done = native("--json", "--disk", "1m", "sh",
                  "head -c 2000000 /dev/zero > big || { sleep 2; rm big; echo ok; }")
    assert (done.status, done.json["verdict"], done.json["stdout"]) == (0, "ok", "ok\n")
    assert done.json["limits_hit"] == ["disk"]


def test_a_full_disk_can_end_the_run(native):
    done = native("--json", "--disk", "1m", "--end-on", "disk", "sh",
                  "head -c 2000000 /dev/zero > big; sleep 20")
    assert (done.status, done.json["verdict"]) == (125, "disk")


# covers: K-07, C-07
def test_an_end_on_a_full_disk_does_not_wait_for_the_program(native):
    code = ("import time\ntry: open('/work/f', 'wb').write(b'x' * (20 << 20))\n"
            "except OSError: pass\ntime.sleep(60)")
    done = native("--json", "--disk", "8m", "--end-on", "disk", "python", code)
    assert (done.status, done.json["verdict"], done.json["signal"]) == (125, "disk", None)
    assert done.json["duration_ms"] < 30000


def test_an_out_of_memory_kill_of_a_child_is_told_though_the_program_goes_on(native):
    code = ("import subprocess, sys\n"
            "subprocess.run([sys.executable, '-c', 'x = bytearray(1 << 30)'])\nprint('on')")
    done = native("--json", "--memory", "64m", "python", code)
    assert (done.status, done.json["verdict"], done.json["stdout"]) == (0, "ok", "on\n")
    assert done.json["limits_hit"] == ["memory"]


def test_the_program_has_no_network_no_capability_and_no_host_file(native, tmp_path):
    (tmp_path / "secret").write_text("x")
    done = native("sh", f"grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; "
                  f"ls {tmp_path} /root 2>/dev/null; tail -n +3 /proc/net/dev | grep -v lo: ")
    words = dict(line.split(":\t") for line in done.text.splitlines())
    assert {v.strip() for k, v in words.items() if k.startswith("Cap")} == {"0" * 16}
    assert (words["NoNewPrivs"], words["Seccomp"]) == ("1", "2")
    assert len(words) == 7


# covers: C-07
def test_the_root_is_read_only(native):
    done = native("sh", "touch /usr/x /etc/x /x 2>&1 | grep -c 'Read-only\\|denied'")
    assert done.out == b"3\n"


# A child of the program, a program that ignores SIGXFSZ, one that dies of it.
TOO_LARGE = {
    "sh": "mkdir -p a/b; head -c 2m /dev/zero > a/b/x; exit 0",
    "python": "open('/tmp/x', 'wb').write(b'x' * (2 << 20))",
    "bash": "exec truncate -s 1T x",
}


@pytest.mark.parametrize("language", TOO_LARGE)
def test_a_file_that_would_be_too_large_is_told(native, language):
    done = native("--json", "--file-size", "1m", language, TOO_LARGE[language])
    assert done.json["limits_hit"] == ["fsize"]


def test_a_file_below_the_limit_is_not_told(native):
    done = native("--json", "--file-size", "1m", "sh", "head -c 1048575 /dev/zero > x")
    assert (done.status, done.json["limits_hit"]) == (0, [])


def test_one_file_that_fills_the_disk_finds_it_full(native):
    code = "cd /tmp; cat /dev/zero > x"
    done = native("--json", "--disk", "1m", "--tmp", "1m", "sh", code)
    assert "No space left" in done.json["stderr"] and done.json["limits_hit"] == ["disk"]


MEMORY_FILE = """
import mmap, os
fd = os.memfd_create("jit")
os.ftruncate(fd, 2 << 30)
print(mmap.mmap(fd, 2 << 30)[-1])
"""


def test_a_file_in_memory_may_be_larger_than_the_disk(native):
    """As JITs and databases map them, with next to nothing in them."""
    assert native("--disk", "4m", "--tmp", "4m", "python", MEMORY_FILE).out == b"0\n"


def test_no_file_is_larger_than_any_program_needs(native):
    """Holes count."""
    code = "truncate -s 3M fits && echo fits; (truncate -s 1T big) && echo large"
    done = native("--disk", "4m", "--tmp", "4m", "sh", code)
    assert done.out == b"fits\n"


def test_a_file_with_some_holes_comes_back(native):
    code = "truncate -s 100M x"
    done = native("--json", "--disk", "200m", "--artifacts", ".", "sh", code)
    assert [(a["path"], a["bytes"]) for a in done.json["artifacts"]] == [("x", 100 << 20)]
