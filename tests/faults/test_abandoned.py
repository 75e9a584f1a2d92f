# SPDX-License-Identifier: Apache-2.0
"""An owner killed with SIGKILL at any one of its system calls, from the one that makes the
first cgroup to its last: whoever tidies up was there before what is to be tidied.
And a whole pid namespace that is killed, its janitors with it.

VIAL           the command under test; libvial.so lies beside it
FAULT_STRIDE   at every so manieth call (1)
FAULT_CALLS    of so many (all)"""
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from stepper import MKDIRAT, Stepper, text_at  # noqa: E402

VIAL = os.path.abspath(os.environ.get("VIAL", os.path.join(HERE, "../../build/vial")))
STRIDE = int(os.environ.get("FAULT_STRIDE", "1"))
CALLS = int(os.environ.get("FAULT_CALLS", "1000"))
LONG_S = 30  # no test waits so long unless it fails


def groups_of(pid):
    return [os.path.join(top, name) for top, names, _ in os.walk("/sys/fs/cgroup")
            for name in names if name.startswith("vial-") and "-%d-" % pid in name]


def left_by(pid):
    """What is left of the owner PID, once it has had time to go."""
    end = time.monotonic() + LONG_S
    while groups_of(pid) and time.monotonic() < end:
        time.sleep(0.002)
    return groups_of(pid)


def makes_group(owner, enters, number, arguments):
    return (enters and number == MKDIRAT
            and text_at(owner.pid, arguments[1]).startswith(b"vial-"))


def killed_at(number, command, **env):
    """Runs COMMAND until the system call that is the NUMBER-th after the one that makes
    the first group has been made. Whether it came so far, and what it left."""
    owner, count = Stepper(command, **env), -1
    for call in owner.calls():
        if count >= 0 and not call[0]:
            count += 1
        elif count < 0 and makes_group(owner, *call):
            count = 0
        if count > number:
            owner.kill()
            return True, left_by(owner.pid)
    return False, left_by(owner.pid)


def first_left(most, command, **env):
    """The first call at which a kill leaves something, or None; and how many there were."""
    for number in range(0, most, STRIDE):
        killed, left = killed_at(number, command, **env)
        if left:
            return (number, left), number
        if not killed:
            return None, number
    return None, most


def test_an_owner_killed_at_any_system_call_leaves_no_group():
    left, count = first_left(CALLS, [VIAL, "run", "--driver", "native", "sh", "true"])
    assert left is None
    assert count >= min(CALLS, 50)


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(n) for n in f.read().split()]
    except OSError:
        return []


def called(name, pids):
    found = []
    for pid in pids:
        try:
            with open("/proc/%d/comm" % pid) as f:
                found += [pid] if f.read() == name + "\n" else []
        except OSError:
            continue
    return found


def named(ids):
    return [os.path.join(top, name) for top, names, _ in os.walk("/sys/fs/cgroup")
            for name in names if name.startswith("vial-%d-1-" % ids)]


def test_what_a_pid_namespace_left_as_a_whole_is_removed_from_outside():
    """Its janitor is stopped first, as one is that the kernel kills before it ran."""
    clean = {"PATH": os.environ["PATH"]}
    outer = subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", VIAL, "run",
                              "--driver", "native", "sh", "echo up; sleep 60"],
                             stdout=subprocess.PIPE, env=clean)
    assert outer.stdout.readline() == b"up\n"
    owner, = children(outer.pid)
    space = os.stat("/proc/%d/ns/pid" % owner).st_ino
    janitor, = called("vial-janitor", children(owner))
    assert subprocess.run([VIAL, "cleanup"], stdout=subprocess.DEVNULL,
                          env=clean).returncode == 0
    assert children(owner) and named(space)
    os.kill(janitor, signal.SIGSTOP)
    os.kill(owner, signal.SIGKILL)
    outer.wait()
    # What is left now may be removed by anybody's next run on this machine.
    assert subprocess.run([VIAL, "cleanup"], stdout=subprocess.DEVNULL,
                          env=clean).returncode == 0
    assert not named(space)
