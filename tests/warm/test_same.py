# SPDX-License-Identifier: Apache-2.0
"""A program cannot tell a warm vessel from a cold one: each of programs.txt, and of the
families below, is run in both, and all but time is compared."""
import concurrent.futures
import importlib.util
import marshal
import os
import re
import sys
import time

import pytest

import binding

HERE = os.path.dirname(os.path.abspath(__file__))
COMPARED = ["verdict", "stage", "exit_code", "signal", "stdout", "stderr", "stdout_bytes",
            "stderr_bytes", "limits_hit", "driver", "image", "isolation", "files", "error"]
# What differs between any two runs, or what a module does when it is merely imported.
NOT_IMPORTED = {"antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter",
                "lib2to3", "test", "msilib", "winreg", "winsound", "nt", "msvcrt", "ensurepip"}

# What python looks at before its program: no interpreter that waits can have seen it.
COLD = {"user_site"}
# Their last words are said in one sweep of the collector, which has its own order: but for
# 3.10 and 3.11 it differs between one cold python and another.
UNORDERED = set() if (3, 10) <= sys.version_info < (3, 12) else {"del_on_several_modules"}


def written(name="programs.txt"):
    """The programs of the file: "### name [key=value…]", then the program."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        for part in file.read().split("\n### ")[1:]:
            head, code = part.split("\n", 1)
            name, *fields = re.split(" (?=(?:args|env|cwd|stdin|files|outputs|code|memory|pids|file_size|disk|output_limit|output_max|timeout|cpu_time)=)", head)
            request = {"language": "python", "code": code}
            for field in fields:
                key, value = field.split("=", 1)
                request[key] = eval(value)  # pylint: disable=eval-used
            yield name, request


def families():
    for code in list(range(0, 6)) + [63, 127, 128, 137, 255, 256, -1, 2 ** 40, 2 ** 70]:
        yield "exit_%d" % code, "import sys; print('x'); sys.exit(%d)" % code
    for text in ["None", "'words'", "''", "1.5", "[1, 2]", "True", "(3,)"]:
        yield "exit_with_%s" % text, "import sys; sys.exit(%s)" % text
    for number in [1, 2, 3, 6, 8, 9, 10, 11, 13, 14, 15, 24, 25, 31, 34, 64]:
        yield "signal_%d" % number, "import os; os.kill(os.getpid(), %d); print('alive')" % number
    for name in ["ZeroDivisionError", "KeyError", "SystemError", "MemoryError", "RecursionError",
                 "KeyboardInterrupt", "GeneratorExit", "BaseException", "UnicodeError",
                 "SyntaxError", "StopIteration", "Warning", "OSError"]:
        yield "raise_%s" % name, "def f():\n    raise %s('why')\n\nf()\n" % name
    modules = [n for n in sorted(getattr(sys, "stdlib_module_names", sys.builtin_module_names))
               if n not in NOT_IMPORTED and not n.startswith("_")]
    if not binding.SOAK: # each takes its time, and half of them will do
        modules = modules[::2]
    for name in modules:
        yield ("import_%s" % name, "import sys\nbefore = set(sys.modules)\n"
               "try:\n    import %s as m\nexcept ImportError as e:\n    print(e)\nelse:\n"
               "    print(sorted(n for n in dir(m)))\n"
               "print(sorted(before), sorted(sys.modules))\n" % name)


MAGIC = importlib.util.MAGIC_NUMBER
HEAD = MAGIC + bytes(12) # flags, and what its source was


def compiled():
    """main.py may be what python made of a source, or nearly."""
    programs = {
        "names": "import sys\nprint(sys.argv, __name__, __file__, __cached__, __spec__)\n"
                 "print(type(__loader__).__name__, sorted(globals()), sys.path)\n",
        "traceback": "def f():\n    1 / 0\n\nf()\n",
        "end": "import atexit\natexit.register(print, 'bye', __name__)\n"
               "class A:\n    def __del__(self): print('gone', '__file__' in globals())\n"
               "a = A()\nraise SystemExit(3)\n",
        "end_of_itself": "class A:\n    def __del__(self): print(sorted(globals()))\na = A()\n",
        "source": "import inspect\ndef f(): pass\ntry:\n    inspect.getsource(f)\n"
                  "except OSError as e:\n    print(e)\n",
        "spawn": "import multiprocessing\ndef f(): print('child')\n"
                 "if __name__ == '__main__':\n"
                 "    p = multiprocessing.get_context('spawn').Process(target=f)\n"
                 "    p.start()\n    p.join()\n    print(p.exitcode)\n",
    }
    for name, code in programs.items():
        yield name, HEAD + marshal.dumps(compile(code, "/work/main.py", "exec"))
    whole = marshal.dumps(compile("print(1)", "/work/main.py", "exec"))
    yield "cut", HEAD + whole[:-1]
    yield "no_program", HEAD + marshal.dumps([1, 2])
    yield "garbage", HEAD + b"xyzzy"
    yield "of_another_version", MAGIC[:2] + b"zz" + HEAD[4:] + whole
    yield "of_python_3_8", b"\x55\x0d\x0d\x0a" + HEAD[4:] + whole
    for length in (1, 2, 3, 4, 16):
        yield "first_%d" % length, HEAD[:length]


def cases():
    found = dict(written())
    found.update((name, {"language": "python", "code": code}) for name, code in families())
    found.update(("compiled_" + name, {"language": "python", "code": code, "args": ["a"]})
                 for name, code in compiled())
    return found


CASES = cases()


def both_of_all(programs, only_cold, chosen, cold, warm):
    """Both results of every program: some at a time, as there are so many."""
    def both(name):
        request = dict(programs[name], timeout=programs[name].get("timeout", 60))
        for _ in range(1 if name in only_cold else 100): # the pool may be empty just now
            warmed = warm.run(request)
            if warmed["start"] == "warm":
                break
            time.sleep(0.05)
        return name, cold.run(request), warmed

    with concurrent.futures.ThreadPoolExecutor(3) as some:
        return {name: (c, w) for name, c, w in some.map(both, chosen)}


@pytest.fixture(scope="module")
def results(request):
    chosen = [item.callspec.params["name"] for item in request.session.items
              if item.function is test_a_program_does_the_same_warm_as_cold]
    with binding.Engine() as cold, binding.Engine({"target": 4, "ceiling": 12}) as warm:
        warm.ready({"language": "python", "code": ""}, 4)
        yield both_of_all(CASES, COLD, chosen, cold, warm)


def shown(result):
    """Without addresses, which differ between any two runs."""
    return {k: re.sub("0x[0-9a-f]{6,}|started [0-9]+", "…", v) if isinstance(v, str) else v
            for k, v in result.items() if k in COMPARED}


def test_there_are_a_few_hundred_of_them():
    assert len(CASES) >= 300


def test_a_compiled_program_is_run_at_all():
    """With this python's bytes, which are of the same one."""
    with binding.Engine() as cold:
        result = cold.run(CASES["compiled_names"])
        assert result["stdout"].startswith("['/work/main.py', 'a'] __main__ /work/main.py None")
        assert "SourcelessFileLoader" in result["stdout"]


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_program_does_the_same_warm_as_cold(results, name):
    cold, warm = results[name]
    assert cold["start"] == "cold"
    assert warm["start"] == ("cold" if name in COLD else "warm")
    if name in UNORDERED:
        for result in cold, warm:
            result["stdout"] = sorted(result["stdout"].splitlines())
    assert shown(warm) == shown(cold)
