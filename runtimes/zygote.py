# SPDX-License-Identifier: Apache-2.0
"""The part of a zygote that is easier said in Python. It runs in the interpreter that
children are forked from, and in each child around its program; it must leave no trace
there: no name in __main__, no module that a started python would not have."""
import os
import sys

MAIN = "/work/main.py"
started_with = set(sys.modules)
ahead = set()
unintroduced = sys.modules["__main__"].__loader__
loader = sys.modules["_frozen_importlib_external"].SourceFileLoader


def hold(thing):
    """Until python forgets what to do around forks, which is late in its end."""
    os.register_at_fork(after_in_parent=thing)


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
    ahead.update(name.partition(".")[0] for name in set(sys.modules) - started_with)
    if not ahead:
        del globals()["is_shadowed"]
    if SEEDED.isdisjoint(sys.modules):
        del globals()["in_child"]
    for _ in range(9):
        warm_up()
    import gc
    find_kept(gc)
    gc.collect()
    globals().update(freeze=gc.freeze, unfreeze=gc.unfreeze)
    if not names and "gc" not in started_with:
        del sys.modules["gc"]
    return " ".join(missing).encode()


def is_shadowed():
    """In the child, whose files are there: whether one of them has the name of a module
    that was imported ahead, which the program would get in its place."""
    return any(name.partition(".")[0] in ahead for name in os.listdir("/work"))


def find_kept(gc):
    """What python has kept of builtins, to restore them from at its end."""
    now = sys.modules["builtins"].__dict__
    found = [it for it in gc.get_objects() if type(it) is dict and it is not now
             and it.get("print") is print and "BaseException" in it]
    if len(found) == 1:
        globals()["kept"] = found[0]


def warm_up():
    """What every program does: python then knows by heart what it had to look for."""
    main = {}
    introduce(main)
    exec(compile("import sys\nx = [str(i) for i in range(9)]\n", MAIN, "exec"), main)
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()


SEEDED = {"random", "numpy.random", "uuid", "ssl", "multiprocessing.process"}


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


def in_child():
    """In the child, confined, before it waits."""
    reseed()


def reopen_stdin():
    """As python makes it for a pipe; the one it made was for the null device."""
    old = sys.stdin
    buffer = open(0, "rb", closefd=False)
    buffer.raw.name = "<stdin>"
    new = type(old)(buffer, encoding=old.encoding, errors=old.errors, newline="\n")
    new.mode = "r"
    sys.stdin = sys.__stdin__ = new


def clear_environ():
    os.environ._data.clear()


def add_environ(entries):
    data = os.environ._data
    for entry in entries:
        name, _, value = entry.partition(b"=")
        data[name] = value


def set_argv(argv):
    words = [os.fsdecode(word) for word in argv]
    sys.argv[1:] = words[2:]
    if hasattr(sys, "orig_argv"):  # since 3.10
        sys.orig_argv[2:] = words[2:]


def introduce(main):
    """What python tells __main__ about its file."""
    main["__file__"] = MAIN
    main["__cached__"] = None
    main["__loader__"] = loader("__main__", MAIN)
