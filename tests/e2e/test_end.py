# SPDX-License-Identifier: Apache-2.0
"""Every run ends, whole, and leaves nothing behind."""

import ctypes
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PATIENCE, call, environment, start


def processes_with(mark):
    """Pids whose command line holds MARK."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return [pid for pid in found if pid != os.getpid()]


def gone(mark):
    """True once no process with MARK is left."""
    until = time.monotonic() + PATIENCE
    while processes_with(mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def appears(mark):
    """True once a process with MARK is there."""
    until = time.monotonic() + PATIENCE
    while not processes_with(mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def called(name):
    """True once a process goes by NAME, which is more than to have it as an argument."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for pid in processes_with(name):
            try:
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(name.encode()):
                    return True
            except OSError:
                pass
        time.sleep(0.01)
    return False


# Each keeps a process alive that does not want to die. $M makes it findable.
STUBBORN = {
    "double fork": "(bash -c 'sleep 0.1; exec -a $M sleep 300' &)",
    "setsid": "setsid bash -c 'exec -a $M sleep 300' &",
    "ignored signals": "bash -c 'trap \"\" TERM INT HUP; exec -a $M sleep 300' &",
    "stopped": "bash -c 'kill -STOP $$; exec -a $M sleep 300' &",
}


# covers: A-07, K-12
@pytest.mark.parametrize("kind", STUBBORN)
def test_the_timeout_ends_the_whole_tree(driver, kind):
    mark = f"vialmark{os.getpid()}{driver}{kind.replace(' ', '')}"
    code = STUBBORN[kind].replace("$M", mark) + "\nsleep 300"
    process = start("run", "--driver", driver, "--timeout", "2", "bash", code,
                    stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert appears(mark)
    assert process.wait(PATIENCE) == 124
    assert gone(mark)


@pytest.mark.parametrize("kind", STUBBORN)
def test_the_end_of_the_program_ends_what_it_left_running(driver, kind):
    mark = f"vialleft{os.getpid()}{driver}{kind.replace(' ', '')}"
    code = STUBBORN[kind].replace("$M", mark) + "\nread line; exit 7"
    process = start("run", "--driver", driver, "bash", code, stdin=subprocess.PIPE)
    assert appears(mark)
    process.communicate(b"go\n", PATIENCE)
    assert process.returncode == 7
    assert gone(mark)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_vial_cancels_the_run(driver, number):
    mark = f"vialsig{os.getpid()}{driver}{int(number)}"
    process = start("run", "--driver", driver, "bash", f"echo up; exec -a {mark} sleep 300",
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    assert process.wait(PATIENCE) == 128 + number
    assert gone(mark)
    process.stdout.close()
    process.stderr.close()


def test_control_c_gives_the_verdict_cancelled(driver, tmp_path):
    fifo = tmp_path / "out"
    mark = f"vialint{os.getpid()}{driver}"
    with open(fifo, "wb") as out:
        process = start("run", "--driver", driver, "--json", "--timeout", "5m", "bash",
                        f"exec -a {mark} sleep 300", stdin=subprocess.DEVNULL, stdout=out)
        assert called(mark)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert json.loads(fifo.read_bytes())["verdict"] == "cancelled"


def test_a_signal_that_the_caller_ignores_stays_ignored(driver):
    process = start("run", "--driver", driver, "bash", "echo up; sleep 1; echo done",
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGHUP)
    assert process.stdout.read() == b"done\n"
    assert process.wait(PATIENCE) == 0
    process.stdout.close()


# covers: A-07, C-06
def test_killing_vial_ends_the_program_too(driver):
    mark = f"vialkill{os.getpid()}{driver}"
    process = start("run", "--driver", driver, "bash", f"echo up; exec -a {mark} sleep 300",
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    process.kill()
    process.wait(PATIENCE)
    process.stdout.close()
    assert gone(mark)


def groups_of(pids):
    """Cgroups of the vessels that PIDS have opened: their names say whose they are."""
    return [os.path.join(path, name) for path, names, _ in os.walk("/sys/fs/cgroup") for name in names
            if name.startswith("vial-") and any(f"-{pid}-" in name for pid in pids)]


def traces_of(pids):
    """What those of PIDS have left outside of processes, cgroups, files and mounts: a name of vial's
    that has one of these numbers."""
    numbers = {str(pid) for pid in pids}
    files = [str(path) for place in ("/tmp", "/run", "/run/vial", "/var/tmp", "/dev/shm")
             for path in Path(place).glob("*vial*" if place != "/run/vial" else "*")]
    mounts = [line.split()[4] for line in open("/proc/self/mountinfo") if "vial" in line]
    return groups_of(pids) + [text for text in files + mounts
                              if numbers & set(re.findall(r"\b\d+\b", text))]


@pytest.fixture
def orphanage():
    """Processes that vial leaves behind become our children."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
    yield
    prctl(36, 0, 0, 0, 0)


def living_children():
    """Those that init would have reaped by now do not count."""
    living = set()
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
            living.add(pid)
        elif int(pid) not in {p.pid for p in subprocess._active}:
            os.waitpid(int(pid), 0)
    return living


# covers: C-06, A-07
def test_thirty_runs_leave_nothing_behind(driver, orphanage, tmp_path):
    """No process, no cgroup, no mount, no file: looked for among what is our own, since others use
    vial on this machine too."""
    env = environment(TMPDIR=str(tmp_path))
    codes = ["true", "exit 3", "kill -9 $$", "sleep 30", "setsid sleep 30 & echo up"]

    def run(code):
        process = start("run", "--driver", driver, "--timeout", "0.2", "sh", code, env=env,
                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        process.wait(PATIENCE)
        return process.pid
    run("true")
    before, young = sorted(tmp_path.rglob("*")), living_children()
    pids = [run(codes[i % 5]) for i in range(30)]
    assert living_children() == young
    until = time.monotonic() + 30
    while traces_of(pids) and time.monotonic() < until:
        time.sleep(0.1)
    assert traces_of(pids) == [] and sorted(tmp_path.rglob("*")) == before
