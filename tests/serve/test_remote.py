# SPDX-License-Identifier: Apache-2.0
"""`vial run --daemon`: the same as without, done by the daemon."""
import json
import os
import signal
import subprocess
import tempfile

import pytest

from daemon import VIAL, Daemon, clean_env


def vial(d, *args, **more):
    return subprocess.run([VIAL, *args[:1], "--daemon", "--socket", d.socket, *args[1:]],
                          capture_output=True, timeout=60, env=clean_env(HOME=d.dir), **more)


@pytest.mark.parametrize("args,status,out,err", [
    (("run", "bash", "echo hi; echo ho >&2"), 0, b"hi\n", b"ho\n"),
    (("run", "bash", "exit 7"), 7, b"", b""),
    (("run", "bash", "kill -9 $$"), 137, b"", b"vial: killed by signal 9 (SIGKILL)\n"),
    (("run", "bash", "echo $1 $A", "x"), 0, b"x\n", b""),
    (("run", "-e", "A=b", "bash", "echo $A"), 0, b"b\n", b""),
    (("run", "bash", r"printf '\xff\x00\xfe'"), 0, b"\xff\x00\xfe", b""),
])
def test_status_and_output_are_the_programs(daemon, args, status, out, err):
    done = vial(daemon, *args, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (status, out, err)
    here = subprocess.run([VIAL, *args], capture_output=True, stdin=subprocess.DEVNULL,
                          env=clean_env(HOME=daemon.dir), timeout=60)
    assert (here.returncode, here.stdout, here.stderr) == (status, out, err)


def test_time_and_policy_are_told_as_without_the_daemon(daemon):
    done = vial(daemon, "run", "--timeout", "0.2", "bash", "sleep 9", stdin=subprocess.DEVNULL)
    assert done.returncode == 124 and b"timeout" in done.stderr
    done = vial(daemon, "run", "--memory", "100g", "bash", "true", stdin=subprocess.DEVNULL)
    assert done.returncode == 125 and b"VIAL-CAP" in done.stderr


def test_standard_input_and_files_travel(daemon, tmp_path):
    (tmp_path / "in.bin").write_bytes(bytes(range(256)))
    done = vial(daemon, "run", "--in", "in.bin", "--out", "out.bin", "bash",
                "cat; cat in.bin in.bin > out.bin", input=b"from here\n", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"from here\n"), done.stderr
    assert (tmp_path / "out.bin").read_bytes() == bytes(range(256)) * 2


def test_a_path_means_what_it_means_here():
    with Daemon() as d, tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)  # the daemon's own user must reach it
        d.stop()
        d.settings["policy"] = {"mount_roots": [place]}
        d.start()
        with open(os.path.join(place, "here"), "w", encoding="ascii") as f:
            f.write("mine")
        done = vial(d, "run", "--mount", ".:/data", "bash", "cat /data/here", cwd=place,
                    stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (0, b"mine"), done.stderr


def test_the_result_is_the_same_object(daemon):
    done = vial(daemon, "run", "--json", "bash", "echo hi; exit 3", stdin=subprocess.DEVNULL)
    result = json.loads(done.stdout)
    assert done.returncode == 3
    assert (result["stdout"], result["verdict"], result["exit_code"]) == ("hi\n", "nonzero", 3)
    kept = daemon.ask("GET", "/v1/runs/" + result["id"]).json["result"]
    for name in ("usage", "isolation", "driver", "vessel_id", "timing", "limits_hit"):
        assert result[name] == kept[name], name


def test_an_interrupt_ends_the_run(daemon):
    p = subprocess.Popen([VIAL, "run", "--daemon", "--socket", daemon.socket, "bash",
                          "echo go; sleep 600"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                         env=clean_env(HOME=daemon.dir))
    assert p.stdout.readline() == b"go\n"
    p.send_signal(signal.SIGINT)
    assert p.wait(60) == 130


def test_without_a_daemon_it_says_so(tmp_path):
    done = subprocess.run([VIAL, "run", "--daemon", "--socket", str(tmp_path / "no"), "bash", "true"],
                          capture_output=True, env=clean_env(HOME=str(tmp_path)))
    assert done.returncode == 125 and b"VIAL-DAEMON" in done.stderr


def test_a_program_that_is_not_there_has_the_status_of_a_shell(daemon):
    sid = subprocess.run([VIAL, "session", "start", "--socket", daemon.socket],
                         capture_output=True, text=True, env=clean_env(HOME=daemon.dir),
                         timeout=60, check=True).stdout.strip()
    for program, status, cause in (("nosuch", 127, b"No such file or directory"),
                                   ("/etc", 126, b"Permission denied")):
        done = subprocess.run([VIAL, "session", "exec", "--socket", daemon.socket, sid, "--",
                               program], capture_output=True, stdin=subprocess.DEVNULL,
                              env=clean_env(HOME=daemon.dir), timeout=60)
        assert (done.returncode, done.stdout) == (status, b"")
        assert b"VIAL-EXEC" in done.stderr and cause in done.stderr
