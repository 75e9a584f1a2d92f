# SPDX-License-Identifier: Apache-2.0
"""A zygote works without any of its shortcuts (src/zygote/shortcuts.h), asked to or by itself;
and nothing of its own is ever taken for its program's."""
import os
import re
import shutil

import pytest

import binding

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "../../src/zygote/shortcuts.h")
with open(HEADER, encoding="utf-8") as file:
    SHORTCUTS = re.findall(r"^ *SHORTCUT\((\w+),", file.read(), re.M)
PROGRAM = {"language": "python", "args": ["a", "b"], "stdin": "in", "env": {"A": "b"},
           "code": "import atexit, os, random, sys\n"
                   "class Late:\n    def __del__(self): print('gone')\nlate = Late()\n"
                   "atexit.register(print, 'bye')\n"
                   "print(sys.argv, sys.stdin.read(), os.environ['A'], sorted(sys.modules))\n"
                   "print('err', file=sys.stderr)\nsys.exit(7)\n"}
COMPARED = ("verdict", "exit_code", "signal", "stdout", "stderr", "error")


def shown(result):
    return {key: result[key] for key in COMPARED}


@pytest.fixture(scope="module")
def cold():
    with binding.Engine() as engine:
        yield shown(engine.run(PROGRAM))


def warm_run(engine, request):
    """With an interpreter that waited."""
    engine.ready(request)
    shape = engine.report()["shapes"][0]
    result = engine.run(request)
    assert result["start"] == "warm", result
    return shape, result


@pytest.mark.parametrize("without", ["", *SHORTCUTS, ",".join(SHORTCUTS[::2]), "all"])
def test_each_can_be_left_out(monkeypatch, cold, without):
    monkeypatch.setenv("VIAL_ZYGOTE_WITHOUT", without)
    with binding.Engine({"target": 1}) as engine:
        shape, result = warm_run(engine, PROGRAM)
        assert shape["zygote"] and shape["error"] is None
        assert shown(result) == cold


def test_there_are_some():
    assert SHORTCUTS


def test_the_switch_is_the_operators_alone():
    """A program's own variable of that name is like any other."""
    code = "import os\nprint(os.environ.get('VIAL_ZYGOTE_WITHOUT'))"
    with binding.Engine({"target": 1}) as engine:
        shape, result = warm_run(engine, {"language": "python", "code": code,
                                          "env": {"VIAL_ZYGOTE_WITHOUT": "no such"}})
        assert shape["zygote"] and result["stdout"] == "no such\n"
    with binding.Engine({"target": 1}) as engine:
        assert warm_run(engine, {"language": "python", "code": code})[1]["stdout"] == "None\n"


def test_a_name_that_is_none_is_said(monkeypatch):
    monkeypatch.setenv("VIAL_ZYGOTE_WITHOUT", "no_such_shortcut")
    with binding.Engine({"target": 1}) as engine:
        shape, result = warm_run(engine, {"language": "python", "code": "print(5)"})
        assert not shape["zygote"] and "VIAL_ZYGOTE_WITHOUT" in shape["error"]
        assert result["stdout"] == "5\n"


def with_harness(tmp_path, monkeypatch, change):
    """A build whose runtimes/zygote.py is changed."""
    for name in os.listdir(binding.BUILD):
        os.symlink(os.path.join(binding.BUILD, name), tmp_path / name)
    os.unlink(tmp_path / "runtimes")
    shutil.copytree(os.path.join(binding.BUILD, "runtimes"), tmp_path / "runtimes")
    harness = tmp_path / "runtimes" / "zygote.py"
    before = harness.read_text()
    harness.write_text(change(before))
    assert harness.read_text() != before
    monkeypatch.setattr(binding, "BUILD", str(tmp_path))


@pytest.mark.parametrize("line", ["raise RuntimeError", "os.kill(os.getpid(), 11)",
                                  "os._exit(0)", "print('mine')"])
def test_a_python_that_fails_its_rehearsal_has_no_zygote(tmp_path, monkeypatch, cold, line):
    with_harness(tmp_path, monkeypatch, lambda text: text.replace(
        "def set_argv(argv):\n", "def set_argv(argv):\n    %s\n" % line))
    with binding.Engine({"target": 1}) as engine:
        shape, result = warm_run(engine, PROGRAM)
        assert not shape["zygote"] and "start a zygote" in shape["error"]
        assert shown(result) == cold


@pytest.mark.parametrize("function, request_of", [
    ("set_argv(argv)", {"args": ["break"]}),
    ("add_environ(entries)", {"env": {"BREAK": "break"}})])
def test_a_child_that_cannot_begin_begins_again(tmp_path, monkeypatch, function, request_of):
    """As python itself would have, so that nobody sees that it waited."""
    name, argument = function.rstrip(")").split("(")
    with_harness(tmp_path, monkeypatch, lambda text: text.replace(
        "def %s:\n" % function, "def %s:\n    assert b'break' not in %s[-1]\n"
        % (function, argument)))
    request = {"language": "python", "code": "import os, sys\n"
               "print(sys.argv, os.environ.get('BREAK'))\nsys.exit(9)"} | request_of
    with binding.Engine() as engine:
        expected = shown(engine.run(request))
    with binding.Engine({"target": 1}) as engine:
        shape, result = warm_run(engine, request)
        assert shape["zygote"] and shape["error"] is None
        assert shown(result) == expected
        assert name in open(tmp_path / "runtimes" / "zygote.py").read()


def test_a_zygote_that_a_shortcut_ends_starts_again_without_any(tmp_path, monkeypatch, cold):
    with_harness(tmp_path, monkeypatch, lambda text: text.replace("freeze=gc.freeze",
                                                                  "freeze=os.abort"))
    with binding.Engine({"target": 1}) as engine:
        shape, result = warm_run(engine, PROGRAM)
        assert shape["zygote"] and shape["error"] is None
        assert shown(result) == cold
