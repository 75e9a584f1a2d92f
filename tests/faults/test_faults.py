# SPDX-License-Identifier: Apache-2.0
"""Faults: kill -9 at random points, missing or broken parts, too few descriptors,
every set-up system call failing in turn. After each: nothing left behind, and never
a program that ran without its walls.

VIAL         the command under test
FAULT_RUNS   how many runs the random-kill test makes (60); FAULT_KILLS of them (12)
             are killed
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../attacks"))
import host as host_module  # noqa: E402

VIAL = os.path.abspath(os.environ.get("VIAL", os.path.join(HERE, "../../build/vial")))
RUNS = int(os.environ.get("FAULT_RUNS", "60"))
KILLS = int(os.environ.get("FAULT_KILLS", "12"))
QUICK = ["run", "--json", "--driver", "native", "sh", "echo fine"]


@pytest.fixture(scope="module")
def host():
    h = host_module.Host()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", h.tmp)
        yield h
    h.remove()


def call(*command, **more):
    p = subprocess.run(command, capture_output=True, timeout=180, stdin=subprocess.DEVNULL,
                       **more)
    return p.returncode, p.stdout, p.stderr


def full_layers():
    return json.loads(call(VIAL, *QUICK)[1])["isolation"]["layers"]


def is_honest(out, layers):
    """A run either had every wall, or says that it failed."""
    r = json.loads(out)
    if r["verdict"] == "ok":
        assert r["stdout"] == "fine\n"
        assert r["isolation"]["layers"] == layers, r["isolation"]
    else:
        assert r["verdict"] in ("failed", "denied"), r
        assert r["error"]["code"].startswith("VIAL-"), r
        assert r["stdout"] == "", r
    return r


def test_runs_killed_at_random_points_leave_nothing(host):
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    doomed = set(dice.sample(range(RUNS), KILLS))
    for i in range(RUNS):
        p = subprocess.Popen([VIAL, "run", "--driver", "native", "bash",
                              "(setsid sleep 30 &) ; echo fine; exit 3"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             stdin=subprocess.DEVNULL)
        if i in doomed:
            try:
                p.wait(dice.uniform(0, 0.03))
            except subprocess.TimeoutExpired:
                p.kill()
            p.communicate()
        else:
            assert (p.communicate(timeout=180)[0], p.returncode) == (b"fine\n", 3)
    # What a killed owner could not remove is removed by the next run, not by time.
    assert call(VIAL, *QUICK)[0] == 0
    assert host.check(30) == []


def test_sixty_four_at_once_do_not_mix(host):
    ps = [subprocess.Popen([VIAL, "run", "--driver", "native", "--timeout", "5m", "sh",
                            "echo %d; echo %d > /tmp/x; sleep 0.2; cat /tmp/x /work/x "
                            "2>/dev/null" % (i, i)],
                           stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
          for i in range(64)]
    for i, p in enumerate(ps):
        assert p.communicate(timeout=300)[0] == b"%d\n%d\n" % (i, i)
    assert host.check(30) == []


def kib(pid, name, file="status"):
    text = open("/proc/%s/%s" % (pid, file)).read()
    return int(re.search(r"^%s:\s+(\d+) kB" % name, text, re.M)[1])


def guests_of(pid):
    """Its children but for the janitor, who lives in its memory, and who has no name of
    his own before he has been run."""
    kids = open("/proc/%d/task/%d/children" % (pid, pid)).read().split()
    return [k for k in kids if open("/proc/%s/comm" % k).read() in ("vial-init\n", "guest\n")]


def test_sixty_four_at_once_stay_small(host):
    """Each vial below 4 MiB at its peak; vial and guest of all 64, with what they share
    counted once, below 64 MiB."""
    ps = [subprocess.Popen([VIAL, "run", "--driver", "native", "--timeout", "5m", "sh",
                            "echo up; read x; echo $x"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(64)]
    assert [p.stdout.readline() for p in ps] == [b"up\n"] * 64
    peaks = [kib(p.pid, "VmHWM") for p in ps]
    guests = [g for p in ps for g in guests_of(p.pid)]
    total = sum(kib(pid, "Pss", "smaps_rollup") for pid in [p.pid for p in ps] + guests)
    outs = [p.communicate(b"%d\n" % i, timeout=300)[0] for i, p in enumerate(ps)]
    assert outs == [b"%d\n" % i for i in range(64)]
    assert len(guests) == 64
    assert 0 < max(peaks) <= 4 << 10, max(peaks)
    assert 64 * 64 < total <= 64 << 10, total
    assert host.check(30) == []


def copied(tmp_path):
    """A copy of the build whose parts can be broken."""
    source = os.path.dirname(os.path.abspath(VIAL))
    for part in ("vial", "vial-init"):
        shutil.copy2(os.path.join(source, part), tmp_path)
    for part in ("runtimes", "presets", "seccomp"):
        shutil.copytree(os.path.join(source, part), tmp_path / part,
                        ignore=shutil.ignore_patterns("*.p"))
    return str(tmp_path / "vial")


def blobs(tmp_path):
    return [tmp_path / "seccomp" / n for n in os.listdir(tmp_path / "seccomp")
            if n.startswith("default") and n.endswith(".bpf")]


@pytest.mark.parametrize("how", ["empty", "cut", "garbage", "half", "other lengths"])
def test_a_broken_seccomp_profile_means_no_run(host, tmp_path, how):
    vial = copied(tmp_path)
    assert len(blobs(tmp_path)) == 1
    for blob in blobs(tmp_path):
        data = blob.read_bytes()
        blob.unlink()
        blob.write_bytes({"empty": b"", "cut": data[:len(data) - 3],
                          "garbage": b"\xff" * len(data), "half": data[:len(data) // 16 * 8],
                          "other lengths": data[4:8] + data[:4] + data[8:]}[how])
        code, out, _ = call(vial, *QUICK)
        assert code == 125
        assert json.loads(out)["verdict"] in ("denied", "failed")
        assert json.loads(out)["stdout"] == ""
        blob.write_bytes(data)
    assert call(vial, *QUICK)[0] == 0
    assert host.check(30) == []


@pytest.mark.parametrize("guest", ["missing", "not a program", "exits at once"])
def test_a_broken_guest_is_vials_failure_not_the_programs(host, tmp_path, guest):
    vial = copied(tmp_path)
    os.unlink(tmp_path / "vial-init")
    if guest == "not a program":
        (tmp_path / "vial-init").write_text("nonsense")
        os.chmod(tmp_path / "vial-init", 0o755)
    elif guest == "exits at once":
        shutil.copy2("/bin/true", tmp_path / "vial-init")
    code, out, _ = call(vial, *QUICK, env={"VIAL_SHARE": str(tmp_path), "PATH": "/usr/bin"})
    r = json.loads(out)
    assert code == 125
    assert r["verdict"] in ("failed", "denied")
    assert r["error"]["code"] in ("VIAL-GUEST", "VIAL-OPEN")
    assert host.check(30) == []


@pytest.mark.parametrize("limit", range(4, 26))
def test_too_few_descriptors_never_weaken_a_run(host, limit):
    layers = full_layers()
    code, out, err = call("prlimit", "--nofile=%d" % limit, VIAL, *QUICK)
    if out:
        is_honest(out, layers)
    else:
        assert code not in (0,), err
    assert host.check(30) == []


SETUP_CALLS = ["clone3", "socketpair", "memfd_create", "mount", "open_tree", "move_mount",
               "mount_setattr", "fsopen", "fsconfig", "fsmount", "pivot_root", "umount2",
               "sethostname", "mkdirat", "mkdir", "symlinkat", "symlink", "openat2",
               "execveat", "setresuid", "setresgid", "setgroups", "capset", "prctl",
               "seccomp", "landlock_create_ruleset", "landlock_add_rule",
               "landlock_restrict_self", "setrlimit", "prlimit64", "close_range", "ioctl",
               "unshare", "setsid", "chdir", "fchdir", "dup2", "dup3", "pipe2", "pidfd_open",
               "epoll_create1", "signalfd4", "setns", "futex"]


@pytest.mark.parametrize("name", SETUP_CALLS)
def test_a_failing_set_up_call_never_weakens_a_run(host, name):
    """Fails the n-th call of this name anywhere in vial, its child or the guest."""
    layers = full_layers()
    for n in range(1, int(os.environ.get("FAULT_DEPTH", "5")) + 1):
        code, out, err = call("strace", "-f", "-qq", "-o", "/dev/null", "-e",
                              "trace=" + name, "-e",
                              "inject=%s:error=ENOMEM:when=%d" % (name, n), VIAL, *QUICK)
        if out:
            is_honest(out, layers)
        else:
            assert code != 0, err
    call(VIAL, *QUICK)
    assert host.check(30) == []


@pytest.mark.parametrize("name", ["sendmsg", "sendto", "recvmsg"])
def test_a_call_that_is_interrupted_for_ever_ends_all_the_same(host, name):
    """By its deadline, or because it is given up."""
    run = [VIAL, "run", "--json", "--driver", "native", "--timeout", "1s", "sh", "echo fine"]
    p = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + name,
                          "-e", "inject=%s:error=EINTR" % name, *run], start_new_session=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        out = p.communicate(timeout=60)[0]
    finally:
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
    r = json.loads(out)
    assert r["verdict"] in ("timeout", "failed"), r
    assert json.loads(call(VIAL, *QUICK)[1])["verdict"] == "ok"
    assert host.check(30) == []


# Steps that some hosts do not allow at all. Where this one does, a failure is a fault, and
# no reason for a weaker vessel. Without -f it is vial's own call, not one of a child's.
ALLOWED_HERE = [(["-f"], "clone3"), (["-f"], "unshare"), (["-f"], "mount"),
                (["-f"], "move_mount"), ([], "fsconfig"), ([], "fsmount"), ([], "mkdirat")]


def walls_of(r):
    return {k: r["isolation"][k] for k in ("level", "layers", "limits_by")}


def as_caller(user, tmp_path):
    """The command, for root or from where an ordinary user can reach it."""
    if user == "root":
        return [VIAL]
    vial = copied(tmp_path)
    subprocess.run(["chmod", "-R", "a+rX", tmp_path], check=True)
    while tmp_path != tmp_path.parent:
        if not os.stat(tmp_path).st_mode & 0o1:
            os.chmod(tmp_path, 0o755)
        tmp_path = tmp_path.parent
    return ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--", vial]


@pytest.mark.parametrize("user", ["root", "user"])
def test_one_refusal_in_the_middle_is_no_lower_tier(host, tmp_path, user):
    """The n-th call of each kind is refused once with EPERM, as by a host that does not
    allow it at all: the run has all that it has without, or none is made."""
    command = [*as_caller(user, tmp_path), *QUICK]
    whole = walls_of(json.loads(call(*command)[1]))
    refusals = 0
    for follow, name in ALLOWED_HERE:
        for n in range(1, int(os.environ.get("FAULT_DEPTH", "4")) + 1):
            code, out, err = call("strace", *follow, "-qq", "-o", "/dev/null", "-e",
                                  "trace=" + name, "-e",
                                  "inject=%s:error=EPERM:when=%d" % (name, n), *command)
            if not out:
                assert code != 0, err
                continue
            r = is_honest(out, whole["layers"])
            assert r["verdict"] != "ok" or walls_of(r) == whole, (name, n, r["isolation"])
            refusals += r["verdict"] != "ok"
    assert refusals >= 5
    assert json.loads(call(*command)[1])["verdict"] == "ok"
    assert host.check(30) == []
