# SPDX-License-Identifier: Apache-2.0
"""Runs that come from one zygote share nothing, one after the other or at once."""
import os
import shutil
import threading

import pytest

import binding

PYTHON = {"language": "python"}


@pytest.fixture(scope="module")
def engine():
    with binding.Engine({"target": 6, "ceiling": 12, "imports": ["random", "uuid", "ssl",
                                                                 "numpy"]}) as e:
        e.ready(dict(PYTHON, code=""), 6)
        yield e
        shape = e.report()["shapes"][0]
        assert shape["zygotes"] == 1 and shape["zygote"], shape # all had one mother


def run(engine, code, **fields):
    for _ in range(200):
        r = engine.run(dict(PYTHON, code=code) | fields)
        assert r["verdict"] == "ok", r
        if r["start"] == "warm":
            return r["stdout"]
    raise AssertionError("none is warm")


@pytest.mark.parametrize("draw", [
    "import random; print(random.random(), random.getrandbits(99))",
    "import uuid; print(uuid.uuid4(), uuid.uuid1())",
    "import ssl; print(ssl.RAND_bytes(16))",
    "import os, secrets; print(os.urandom(9), secrets.token_hex())",
    "import tempfile; print(next(tempfile._get_candidate_names()))",
    "import multiprocessing as m; print(bytes(m.current_process().authkey))",
    "try:\n    import numpy as n\nexcept ImportError:\n    import os\n    print(os.urandom(8))\n"
    "else:\n    print(n.random.rand(3), n.random.default_rng().random())",
])
def test_no_two_runs_draw_the_same_numbers(engine, draw):
    drawn = [run(engine, draw) for _ in range(4)]
    assert len(set(drawn)) == len(drawn)


LEAVE = """
import ctypes, json, os, socket, sys
libc = ctypes.CDLL(None)
for place in ("/tmp", "/work", "/dev/shm"):
    open(place + "/left", "w").write("left")
os.environ["LEFT"] = "left"
os.getcwd = lambda: "left"
import decimal
sys.left = json.left = "left"
libc.shmget(77, 4096, 0o1666)
libc.msgget(77, 0o1666)
libc.semget(77, 1, 0o1666)
libc.mq_open(b"/left", os.O_CREAT | os.O_RDWR, 0o666, None)
s = socket.socket(socket.AF_UNIX)
s.bind("\\0left")
s.listen()
t = socket.create_server(("127.0.0.1", 7777))
"""

FIND = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None)
found = [place for place in ("/tmp", "/work", "/dev/shm") if os.path.exists(place + "/left")]
found += ["env"] * ("LEFT" in os.environ) + ["function"] * (os.getcwd() == "left")
found += ["module"] * (hasattr(sys, "left") or "decimal" in sys.modules)
found += ["shm"] * (libc.shmget(77, 4096, 0) >= 0) + ["msg"] * (libc.msgget(77, 0) >= 0)
found += ["sem"] * (libc.semget(77, 1, 0) >= 0) + ["mq"] * (libc.mq_open(b"/left", 0) >= 0)
for where in ("\\0left", ("127.0.0.1", 7777)):
    s = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
    found += ["socket"] * (s.connect_ex(where) == 0)
found += ["pid"] * (len([p for p in os.listdir("/proc") if p.isdigit()]) != 2)
print(found)
"""


def test_a_run_finds_nothing_of_the_one_before(engine):
    run(engine, LEAVE)
    assert run(engine, FIND) == "[]\n"


def test_a_run_that_leaves_things_finds_them_itself(engine):
    """The search above can find what it looks for."""
    found = run(engine, LEAVE + FIND)
    for word in ("/tmp", "/work", "/dev/shm", "env", "function", "module", "shm", "socket"):
        assert word in found


def test_two_runs_at_once_do_not_find_each_other(engine):
    seen = {}
    first = threading.Thread(target=lambda: seen.update(
        first=run(engine, LEAVE + "import time; time.sleep(1.5); print('stayed')")))
    first.start()
    seen["second"] = [run(engine, FIND) for _ in range(3)]
    first.join()
    assert seen == {"first": "stayed\n", "second": ["[]\n"] * 3}


def test_no_memory_is_shared_for_writing(engine):
    assert run(engine, "print([l for l in open('/proc/self/maps') if 'rw-s' in l or 'rwxs' in l])") == "[]\n"


def test_no_descriptor_leads_to_the_zygote(engine):
    out = run(engine, "import os\nprint([os.readlink('/proc/self/fd/%d' % n)[:4] for n in "
                      "range(3)], [n for n in range(3, 200) if os.path.exists("
                      "'/proc/self/fd/%d' % n)])")
    assert out == "['/dev', 'pipe', 'pipe'] []\n"


def test_what_a_child_was_forked_from_cannot_be_opened_again(engine):
    """An inode that all children share would be a way from one to the other."""
    out = run(engine, "import os\nfor how in (os.O_RDONLY, os.O_PATH):\n    try:\n"
                      "        fd = os.open('/proc/self/exe', how)\n"
                      "        print(os.read(os.open('/proc/self/fd/%d' % fd, 0), 4))\n"
                      "    except OSError as e:\n        print(e.errno)\n")
    assert out == "13\n13\n"


WATCH = """
import ctypes, os, select
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(os.O_NONBLOCK)
everything = 0xfff
assert fd >= 0 and libc.inotify_add_watch(fd, %r, everything) > 0
print(bool(select.select([fd], [], [], 1)[0]))
"""


def seen_of_others(engine, path):
    """Whether a run that watches PATH sees that the host uses its python."""
    over = threading.Event()

    def use():
        while not over.wait(0.02):
            open(os.path.realpath(shutil.which("python3", path="/usr/bin")), "rb").close()
    user = threading.Thread(target=use)
    user.start()
    try:
        return run(engine, WATCH % path)
    finally:
        over.set()
        user.join()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can enter a vessel before it runs")
def test_a_run_does_not_see_who_else_starts_python(engine):
    """Landlock has no say in what is watched."""
    assert seen_of_others(engine, b"/proc/self/exe") == "False\n"


def test_a_file_of_the_programs_own_stands_before_a_module_that_is_there(engine):
    """As it does in a python that has just been started."""
    code = ("import os, random, sys, uuid\nprint(random.mine, uuid.mine, sys.argv, "
            "sys.stdin.read(), os.environ['A'], os.getpid())\n"
            "import signal\nprint(signal.getsignal(signal.SIGPIPE))")
    request = dict(PYTHON, code=code, args=["x"], env={"A": "b"}, stdin="in",
                   files=[{"path": "random.py", "content": "mine = 1"},
                          {"path": "uuid/__init__.py", "content": "mine = 2"}])
    with binding.Engine() as cold:
        assert cold.run(request)["stdout"] == run(engine, **request)


def test_a_module_that_is_missing_is_left_out():
    with binding.Engine({"imports": ["json", "no_such_module"]}) as e:
        e.ready(dict(PYTHON, code=""))
        assert run(e, "import sys; print('json' in sys.modules, 'no_such_module' in "
                      "sys.modules)") == "True False\n"


def test_a_lower_limit_is_the_runs_own(engine):
    r = engine.run(dict(PYTHON, code="x = bytearray(200 << 20)", memory="64m"))
    assert (r["verdict"], r["limits_hit"]) == ("oom", ["memory"]) or \
        r["isolation"]["limits_by"] == "rlimit"
