# SPDX-License-Identifier: Apache-2.0
"""The part of a zygote that is easier said in Python. It runs in the interpreter that
children are forked from, and in each child before its program begins; it must leave
no trace there: no name in __main__, no module that a started python would not have."""
import io
import os
import sys


def prepare(names):
    """In the zygote: imports what there is, and says what there is not."""
    missing = []
    for name in names.decode().split():
        try:
            __import__(name)
        except Exception:
            missing.append(name)
    if os.environ.get("HOME") == "/nonexistent":
        os.environ["HOME"] = "/work"
        import site
        site.USER_BASE = site.USER_SITE = None
        site.getusersitepackages()
    rehearse()
    import gc
    gc.collect()
    gc.freeze()
    if "gc" not in kept:
        sys.modules.pop("gc", None)
    return " ".join(missing).encode()


kept = set(sys.modules)


def rehearse():
    """What every program does: its pages are then in memory, and are ours."""
    exec(compile("import sys\nx = [str(i) for i in range(9)]\n", "<rehearsal>", "exec"), {})


def reseed():
    """What was drawn before the fork is the same in every child."""
    modules = sys.modules
    if "random" in modules:
        modules["random"].seed()
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    if "uuid" in modules:
        modules["uuid"]._node = modules["uuid"]._last_timestamp = None
    if "ssl" in modules:
        modules["ssl"].RAND_add(os.urandom(32), 32.0)
    if "multiprocessing.process" in modules:
        modules["multiprocessing.process"].current_process().authkey = os.urandom(32)


def hatched():
    """In the child, confined, before it waits."""
    reseed()
    rehearse()


def reopen_stdin():
    """As python makes it for a pipe; the one it made was for the null device."""
    old = sys.stdin
    buffer = open(0, "rb", closefd=False)
    buffer.raw.name = "<stdin>"
    new = io.TextIOWrapper(buffer, encoding=old.encoding, errors=old.errors)
    new.mode = "r"
    sys.stdin = sys.__stdin__ = new


def set_environ(entries):
    data = os.environ._data
    data.clear()
    for entry in entries:
        name, _, value = entry.partition(b"=")
        data[name] = value


def begin(argv, env, piped):
    """The program is next."""
    set_environ(env)
    if len(argv) > 2:
        words = [os.fsdecode(word) for word in argv]
        sys.argv[1:] = words[2:]
        sys.orig_argv[2:] = words[2:]
    if piped:
        reopen_stdin()
