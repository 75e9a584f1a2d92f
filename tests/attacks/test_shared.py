# SPDX-License-Identifier: Apache-2.0
"""What a vessel shares with the host or with its guest, and must not use up or
change: device nodes, terminals, inotify, the guest's limits and priority."""
import json
import os
import resource
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_attacks import AS_UID, DRIVER, IN_MACHINE, VIAL, WEAK, as_user, needs_weak  # noqa: E402

HEAD = """
import ctypes, os, resource
libc = ctypes.CDLL(None)
def tell(*acts):
    for act in acts:
        try: act(); print("BREACH")
        except OSError: print("CONTAINED")
"""
DEVICES = HEAD + """
for name in ("null", "zero", "full", "random", "urandom"):
    path = "/dev/" + name
    tell(lambda: os.utime(path), lambda: os.utime(os.open(path, os.O_RDWR)))
open("/dev/null", "w").write("still writable")
assert open("/dev/zero", "rb").read(3) == bytes(3)
"""
TABLES = HEAD + """
terminals = instances = 0
try:
    while terminals < 200: os.open("/dev/ptmx", os.O_RDWR); terminals += 1
except OSError: pass
while instances < 100 and libc.inotify_init() >= 0: instances += 1
print("CONTAINED" if terminals == 64 and instances in (15, 16) else "BREACH", terminals, instances)
"""
GUEST = HEAD + """
tell(lambda: resource.prlimit(1, resource.RLIMIT_NOFILE),
     lambda: os.sched_setaffinity(1, {0}),
     lambda: os.sched_setscheduler(1, os.SCHED_BATCH, os.sched_param(0)),
     lambda: os.sched_setparam(1, os.sched_param(0)),
     lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
     lambda: os.setpriority(os.PRIO_PGRP, 1, 19),
     lambda: os.setpriority(os.PRIO_USER, 0, 19))
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.sched_setaffinity(0, os.sched_getaffinity(0))
"""


def contained(code):
    done = subprocess.run(as_user([VIAL, "run", "--driver", DRIVER, "python", code]),
                          capture_output=True, text=True, cwd="/",
                          env={"PATH": os.environ["PATH"], "HOME": "/tmp"})
    assert done.returncode == 0, done.stderr
    assert "CONTAINED" in done.stdout and "BREACH" not in done.stdout, done.stdout


def test_device_nodes_keep_their_times():
    before = os.stat("/dev/null").st_mtime_ns
    contained(DEVICES)
    assert os.stat("/dev/null").st_mtime_ns == before


def test_terminals_and_inotify_are_few():
    contained(TABLES)


def test_the_guests_limits_and_priority_are_its_own():
    contained(GUEST)


# Of each, what it answers where nothing holds it is told apart from the refusal.
TAKES = HEAD + """
import errno, fcntl, socket, struct
def call(number, *args):
    result = libc.syscall(number, *args)
    if result < 0: raise OSError(ctypes.get_errno(), "")
    return result
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def huge_pages():
    try: call(9, None, 0, 3, 0x40022, -1, 0)
    except OSError as e:
        if e.errno == errno.ENOMEM: raise
body = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(body))
unix = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
inet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
inet.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
mine = open("/tmp/mine", "w+")
tell(huge_pages, lambda: call(319, b"", 4), # memfd_create, MFD_HUGETLB
     lambda: unix.setsockopt(socket.SOL_SOCKET, 26, program), # SO_ATTACH_FILTER
     lambda: inet.setsockopt(socket.SOL_SOCKET, 51, program), # SO_ATTACH_REUSEPORT_CBPF
     lambda: call(317, 1, 8, program), # seccomp, with a descriptor that holds the filter
     lambda: fcntl.ioctl(os.openpty()[1], 0x5423, struct.pack("i", 0)), # TIOCSETD, N_TTY
     lambda: fcntl.fcntl(mine, fcntl.F_SETLEASE, fcntl.F_WRLCK),
     lambda: call(56, 0x8000 | 17, 0, 0, 0, 0) or os._exit(0)) # clone, CLONE_PARENT
call(317, 1, 0, program) # a filter of one's own can be had
os.close(call(319, b"", 0))
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the calls' numbers differ")
def test_what_the_whole_host_shares_is_not_to_be_had():
    """Huge pages, room for compiled filters, a file that others wait to open."""
    contained(TAKES)


@pytest.mark.skipif(not IN_MACHINE, reason="runs in the test machine only: it changes it")
def test_a_crash_starts_no_program_of_the_host(tmp_path):
    """RS-12: a limit of 0 does not keep a pipe in core_pattern from being served."""
    helper, told = tmp_path / "helper", tmp_path / "told"
    helper.write_text("#!/bin/sh\necho $1 >> %s\n" % told)
    helper.chmod(0o755)
    told.write_text("")
    before = open("/proc/sys/kernel/core_pattern").read()
    open("/proc/sys/kernel/core_pattern", "w").write("|%s %%e" % helper)
    try:
        done = subprocess.run(as_user([VIAL, "run", "--json", "--driver", DRIVER, "sh",
                                       "kill -SEGV $$"]), capture_output=True, cwd="/",
                              env={"PATH": os.environ["PATH"], "HOME": "/tmp"})
        assert json.loads(done.stdout)["signal"] == "SEGV"
        # One of the host's own is told of, and came later.
        subprocess.run([sys.executable, "-c", "import os; os.abort()"], check=False,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        deadline = time.monotonic() + 60
        while not told.read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        open("/proc/sys/kernel/core_pattern", "w").write(before)
    assert [name[:6] for name in told.read_text().split()] == ["python"]


QUEUE = HEAD + """
import signal
def waiting():
    return int(next(l for l in open("/proc/self/status") if l[:5] == "SigQ:").split()[1].split("/")[0])
before = waiting()
try:
    for _ in range(3000): os.kill(1, 40)
except PermissionError: pass
print("CONTAINED" if waiting() - before < 1100 else "BREACH", waiting())
child = os.fork()
if child == 0:
    signal.pthread_sigmask(signal.SIG_BLOCK, {40})
    for _ in range(5): os.kill(os.getpid(), 40)
    print("CONTAINED" if waiting() >= before + 5 else "BREACH: a program has no signals", flush=True)
    os._exit(0)
os.wait()
"""


def test_signals_that_wait_for_the_guest_do_not_use_up_its_users():
    contained(QUEUE)


NAMED = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, b"vial-init", 0, 0, 0)
print("named", flush=True)
sys.stdin.read()
"""


def test_a_program_that_is_called_like_a_guest_is_not_listed():
    env = {"PATH": os.environ["PATH"], "HOME": "/tmp"}
    process = subprocess.Popen(as_user([VIAL, "run", "--driver", DRIVER, "python", NAMED]),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               cwd="/", env=env)
    assert process.stdout.readline() == "named\n"
    listed = json.loads(subprocess.run([VIAL, "ps", "--json"], capture_output=True, cwd="/",
                                       env=env, check=True).stdout)
    process.stdin.close()
    assert process.wait(60) == 0
    guests = [v["pid"] for v in listed if v["owner"] == process.pid]
    assert len(guests) == 1, listed
    assert not [v for v in listed if v["owner"] in guests], listed


# An ordinary user's vessels have the host's device nodes (SECURITY.md).
OWN_NODES = [] if AS_UID else ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]
LOCK = f"""
import fcntl, os, sys
more = [p for p in ("/etc/ld.so.cache", "/etc/services") if os.path.exists(p)]
kept = [open(p) for p in ["/usr/bin/env", *more, *{OWN_NODES}]]
try:
    for f in kept: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("CONTAINED", flush=True)
except BlockingIOError:
    print("BREACH", flush=True)
sys.stdin.read()
"""


def lock_in_two_vessels(vial, env):
    """What the second one sees of the first one's locks."""
    first, second = (subprocess.Popen(as_user([vial, "run", "--driver", DRIVER, "python", LOCK]),
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      cwd="/", env={"PATH": os.environ["PATH"], **env})
                     for _ in range(2))
    seen = []
    for process in (first, second):
        seen.append(process.stdout.readline())
    for process in (first, second):
        process.stdin.close()
        assert process.wait(60) == 0
    return sorted(seen)


def test_two_vessels_share_no_inode_that_can_be_locked():
    assert lock_in_two_vessels(VIAL, {}) == ["CONTAINED\n"] * 2


def test_two_vessels_on_one_bind_see_each_others_locks():
    """The control of the test before."""
    needs_weak()
    seen = lock_in_two_vessels(WEAK, {"VIAL_TEST_WEAKEN": "overlay"})
    assert seen == ["BREACH\n", "CONTAINED\n"]


# Watches the device nodes while others use theirs. Its own use shows that it would have seen.
WATCH = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(os.O_NONBLOCK)
assert fd >= 0
names = ["null", "zero", "full", "random", "urandom"]
watched = {libc.inotify_add_watch(fd, b"/dev/" + n.encode(), 0xfff): n for n in names}
watched.pop(-1, None)
print("ready", flush=True)
sys.stdin.readline()
def events():
    try: data = os.read(fd, 1 << 20)
    except BlockingIOError: return set()
    found, at = set(), 0
    while at < len(data):
        wd, _, _, length = struct.unpack_from("iIII", data, at)
        found.add(watched[wd])
        at += 16 + length
    return found
seen = events()
for n in watched.values(): os.close(os.open("/dev/" + n, os.O_RDONLY))
assert events() == set(watched.values())
print("BREACH" if seen else "CONTAINED", sorted(seen), sorted(watched.values()))
os.mkdir("/tmp/mine")
wd = libc.inotify_add_watch(fd, b"/tmp/mine", 0xfff)
assert wd > 0, os.strerror(ctypes.get_errno())
watched = {wd: "mine"}
open("/tmp/mine/x", "w").close()
assert events() == {"mine"}
"""
USE = """
import os
for n in ("null", "zero", "full", "random", "urandom"): os.close(os.open("/dev/" + n, os.O_RDONLY))
"""


def what_a_watcher_sees(vial, env):
    """Of another vessel's, and the host's, use of the device nodes."""
    env = {"PATH": os.environ["PATH"], "HOME": "/tmp", **env}
    command = [vial, "run", "--driver", DRIVER, "python"]
    watcher = subprocess.Popen(as_user([*command, WATCH]), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, cwd="/", env=env)
    assert watcher.stdout.readline() == "ready\n"
    subprocess.run(as_user([*command, USE]), check=True, cwd="/", env=env)
    exec(USE)
    told = watcher.communicate("\n", timeout=300)[0]
    assert watcher.returncode == 0, told
    return told


def test_device_nodes_tell_nothing_of_other_vessels_and_the_host():
    if AS_UID:
        pytest.skip("an ordinary user's vessels have the host's device nodes")
    assert what_a_watcher_sees(VIAL, {}).startswith("CONTAINED")


def test_the_hosts_device_nodes_would_tell():
    """The control of the test before."""
    needs_weak()
    seen = what_a_watcher_sees(WEAK, {"VIAL_TEST_WEAKEN": "dev"})
    assert seen.startswith("BREACH ['full', 'null', 'random', 'urandom', 'zero']"), seen
