# SPDX-License-Identifier: Apache-2.0
"""Pools under load: whatever is killed, answers stay right and nothing is left; and many
runs leave the process as few did.

VIAL_SOAK   1: the long versions"""
import contextlib
import os
import random
import resource
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

import binding

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../attacks"))
import host  # noqa: E402

SOAK = binding.SOAK
CODE = "import sys\nprint(sum(range(int(sys.argv[1]))))"


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def children(pid):
    found = []
    try:
        threads = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return found
    for thread in threads:
        found += [int(n) for n in read("/proc/%d/task/%s/children" % (pid, thread)).split()]
    return found


def descendants(pid):
    for child in children(pid):
        yield child
        yield from descendants(child)


def of_kind(kind):
    """Processes of this engine: its zygotes, guests, or waiting interpreters."""
    mine = children(os.getpid())
    words = {p: read("/proc/%d/cmdline" % p) for p in mine}
    guests = [p for p, text in words.items() if text == "guest\0"]
    if kind == "guest":
        return guests
    if kind == "zygote":
        return [p for p, text in words.items() if "/work/main.py" in text]
    return [c for g in guests for c in children(g)]


def cgroups():
    found = []
    for top, dirs, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(top, d) for d in dirs if d.startswith("vial-")]
    return found


def owned_by(pid):
    return [c for c in cgroups() if "-%d-" % pid in c]


def wait_until(what, seconds=90):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


def ask(engine, n):
    return engine.run({"language": "python", "code": CODE, "args": [str(n)]})


class Load:
    """Threads that ask, and judge each answer."""

    def __init__(self, engine, threads=3):
        self.engine, self.stop, self.count = engine, False, 0
        self.wrong, self.failed, self.started = [], [], {"warm": 0, "cold": 0, None: 0}
        self.threads = [threading.Thread(target=self.work) for _ in range(threads)]
        for t in self.threads:
            t.start()

    def work(self):
        while not self.stop:
            n = random.randrange(1000)
            r = ask(self.engine, n)
            self.count += 1
            self.started[r["start"]] += 1
            if r["verdict"] == "failed" and r["error"]["code"] in ("VIAL-GUEST", "VIAL-LOST", "VIAL-OPEN",
                                                                   "VIAL-SYSTEM"):
                self.failed.append(r["error"])
            elif r["verdict"] == "signal" and r["signal"] == "KILL":
                self.failed.append(r) # its own interpreter was hit, and it says so
            elif r["stdout"] != "%d\n" % sum(range(n)) or r["verdict"] != "ok":
                self.wrong.append(r)

    def end(self):
        self.stop = True
        for t in self.threads:
            t.join()


@pytest.mark.parametrize("kind", ["zygote", "guest", "interpreter"])
def test_a_kill_brings_no_wrong_answer_and_is_repaired(kind):
    with binding.Engine({"target": 4}) as engine:
        engine.ready({"language": "python", "code": ""}, 4)
        load = Load(engine)
        end = time.monotonic() + (60 if SOAK else 3)
        hits = 0
        while time.monotonic() < end or load.count <= 20 and time.monotonic() < end + 60:
            victims = of_kind(kind)
            if victims:
                try:
                    os.kill(random.choice(victims), signal.SIGKILL)
                    hits += 1
                except ProcessLookupError:
                    pass
            time.sleep(random.random() * 0.1)
        load.end()
        assert hits >= 1 and load.count > 20
        assert load.wrong == []
        wait_until(lambda: ask(engine, 3)["start"] == "warm"
                   and engine.report()["shapes"][0]["zygote"])
        if kind == "zygote":
            assert engine.report()["shapes"][0]["zygotes"] > 1
    wait_until(lambda: not owned_by(os.getpid()))
    assert of_kind("guest") == [] and of_kind("zygote") == []


def test_service_is_warm_again_by_itself_after_its_zygote_was_killed():
    """Whoever waited for a child of the dead one is served meanwhile, cold."""
    with binding.Engine({"target": 4}) as engine:
        engine.ready({"language": "python", "code": ""}, 4)
        load = Load(engine, 8) # more than there are vessels: some wait for the next
        took = []
        for _ in range(5 if SOAK else 2):
            wait_until(lambda: of_kind("zygote"))
            old = of_kind("zygote")[0]
            os.kill(old, signal.SIGKILL)
            killed = time.monotonic()
            wait_until(lambda: [z for z in of_kind("zygote") if z != old])
            made = engine.report()["shapes"][0]["refills"]
            wait_until(lambda made=made: engine.report()["shapes"][0]["refills"] > made
                       and ask(engine, 3)["start"] == "warm")
            took.append(time.monotonic() - killed)
        load.end()
        assert load.wrong == [] and load.failed == []
        assert load.started["warm"] > 0
        assert engine.report()["shapes"][0]["zygotes"] > len(took)
        print("warm again after", ["%.0f ms" % (t * 1000) for t in took])


def caught_learning(end):
    """A zygote that has a child of its own, and that child."""
    while time.monotonic() < end:
        for zygote in of_kind("zygote"):
            for child in children(zygote):
                return zygote, child
    return None, None


def test_a_zygote_killed_while_it_learns_leaves_no_child():
    with binding.Engine({"target": 1}) as engine:
        engine.ready({"language": "python", "code": ""}, 1)
        os.kill(of_kind("zygote")[0], signal.SIGKILL)
        asking = Load(engine, 1) # or nobody would want another
        try:
            zygote, child = caught_learning(time.monotonic() + 90)
            assert zygote
            os.kill(zygote, signal.SIGKILL)
            wait_until(lambda: "main.py" not in read("/proc/%d/cmdline" % child))
        finally:
            asking.end()


def test_a_killed_owner_leaves_nothing():
    program = ("import sys; sys.path.insert(0, %r)\nimport binding, test_lasting\n"
               "e = binding.Engine({'target': 4})\n"
               "e.ready({'language': 'python', 'code': ''}, 4)\n"
               "load = test_lasting.Load(e)\nprint('up', flush=True)\nload.threads[0].join()\n"
               % HERE)
    env = {"PATH": os.environ["PATH"], "VIAL": os.path.join(binding.BUILD, "vial")}
    for _ in range(10 if SOAK else 2):
        owner = subprocess.Popen([sys.executable, "-c", program], env=env,
                                 stdout=subprocess.PIPE)
        assert owner.stdout.readline() == b"up\n"
        time.sleep(random.random())
        family = list(descendants(owner.pid))
        assert family
        owner.kill()
        owner.wait()
        # A number may be another's by now; ours were pythons, guests and janitors.
        wait_until(lambda: not [p for p in family if "main.py" in read("/proc/%d/cmdline" % p)
                                or read("/proc/%d/cmdline" % p) == "guest\0"
                                or "janitor" in read("/proc/%d/comm" % p)])
        wait_until(lambda: not owned_by(owner.pid))


def zygote_of(owner, end):
    """Its first, as soon as it is there; by a descriptor, since numbers come again."""
    while time.monotonic() < end:
        for child in children(owner):
            if "/work/main.py" in read("/proc/%d/cmdline" % child):
                return os.pidfd_open(child)
    return None


@pytest.mark.parametrize("stage", ["starting", "waiting"])
def test_a_zygote_that_hears_nothing_ends_with_its_owner(stage):
    """As one does whose import hangs: it is stopped, so that only a kill reaches it."""
    program = ("import sys, threading; sys.path.insert(0, %r)\nimport binding\n"
               "e = binding.Engine({'target': 1, 'ceiling': 1})\n"
               "ready = lambda: e.ready({'language': 'python', 'code': ''}, 1)\n"
               "t = threading.Thread(target=ready)\nt.start()\n"
               "%s\nprint('up', flush=True)\nthreading.Event().wait()\n"
               % (HERE, "t.join()" if stage == "waiting" else ""))
    env = {"PATH": os.environ["PATH"], "VIAL": os.path.join(binding.BUILD, "vial")}
    owner = subprocess.Popen([sys.executable, "-c", program], env=env,
                             stdout=subprocess.PIPE)
    try:
        assert owner.stdout.readline() == b"up\n"
        zygote = zygote_of(owner.pid, time.monotonic() + 60)
        assert zygote
        signal.pidfd_send_signal(zygote, signal.SIGSTOP)
    finally:
        owner.kill()
        owner.wait()
    gone = select.select([zygote], [], [], 20)[0]
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(zygote, signal.SIGKILL)
    os.close(zygote)
    assert gone


def picture():
    return {"fds": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")),
            "cgroups": len(owned_by(os.getpid())),
            "mounts": len(host.mountinfo()),
            "children": len(children(os.getpid())),
            "rss": int(read("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGESIZE")}


COUNTED = ("fds", "threads", "cgroups", "mounts", "children")


def settled(engine, request, most=None):
    """What there is when four wait and the last that were used have been destroyed: no
    more than MOST; or what has been the same for a second."""
    engine.ready(request, 4)
    seen, since, end = picture(), time.monotonic(), time.monotonic() + 90
    while any(seen[k] > most[k] for k in COUNTED) if most else time.monotonic() < since + 1:
        assert time.monotonic() < end, (most, seen)
        time.sleep(0.02)
        now = picture()
        since = since if all(now[k] == seen[k] for k in COUNTED) else time.monotonic()
        seen = now
    return seen


def test_many_runs_leave_what_few_did():
    """Memory, descriptors, cgroups, mounts and processes are flat."""
    total = 10000 if SOAK else 300
    host.own()  # before there are threads, which would keep the machine's mounts
    with binding.Engine({"target": 4, "ceiling": 4}) as engine:
        request = {"language": "python", "code": ""}
        engine.ready(request, 4)
        for n in range(total // 3):
            assert ask(engine, n % 50)["verdict"] == "ok"
        before = settled(engine, request)
        for n in range(total * 2 // 3):
            assert ask(engine, n % 50)["verdict"] == "ok"
        after = settled(engine, request, before)
        assert after["rss"] < before["rss"] + (4 << 20), (before, after)
        print("before", before, "after", after)
    assert children(os.getpid()) == []


@contextlib.contextmanager
def descriptors(soft):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft or before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def open_now():
    return len(os.listdir("/proc/self/fd")) - 1 # the list itself


def test_a_pool_that_wants_more_than_there_are_leaves_the_program_its_descriptors():
    """Of 256, sixty-four vessels would hold more than twice as many."""
    request = {"language": "python", "code": ""}
    most, before = 0, open_now()
    with descriptors(256):
        with binding.Engine({"target": 64, "ceiling": 64}) as engine:
            with pytest.raises(RuntimeError, match="of this process's 256 descriptors"):
                engine.ready(request, 64)
            report = engine.report()
            assert report["descriptors_limit"] == 256
            assert report["descriptors"] <= 128 and open_now() <= 128
            assert 3 <= report["shapes"][0]["idle"] < 64
            assert report["shapes"][0]["wanted"] == 64
            assert report["shapes"][0]["lacks"] == "descriptors"
            load = Load(engine, 6)
            while load.count < 200:
                most = max(most, open_now())
                time.sleep(0.001)
            load.end()
            assert load.wrong == [] and load.failed == []
            assert load.started["warm"] > 0
            print("runs", load.started, "descriptors, at most", most)
            assert most < 256
            # It fills up again, as far as it may.
            wait_until(lambda: engine.report()["shapes"][0]["idle"] >= 3)
        assert open_now() <= before and children(os.getpid()) == []


@pytest.mark.skipif(not SOAK, reason="long: run by make soak")
def test_five_hundred_wait_at_once():
    with descriptors(0): # as many as may be: each holds eight
        five_hundred()


def five_hundred():
    with binding.Engine({"target": 2, "ceiling": 500, "memory_bytes": 4 << 30}) as engine:
        engine.ready({"language": "python", "code": ""}, 500, 300000)
        shape = engine.report()["shapes"][0]
        print(shape)
        assert shape["idle"] == 500 and shape["pss_bytes"] <= 3 << 20
        assert ask(engine, 10)["stdout"] == "45\n"
