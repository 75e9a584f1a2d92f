# SPDX-License-Identifier: Apache-2.0
"""The same for Node, which waits in its vessel, started, for its program."""
import os
import shutil
import signal

import pytest

import binding
import test_lasting
import test_same

CASES = {name: dict(request, language="node")
         for name, request in test_same.written("programs_node.txt")}
# What no node that has started already could still become.
COLD = {"working_directory_elsewhere"}


@pytest.fixture(scope="module")
def results(request):
    chosen = [item.callspec.params["name"] for item in request.session.items
              if item.function is test_a_node_program_does_the_same_warm_as_cold]
    with binding.Engine() as cold, binding.Engine({"target": 3, "ceiling": 6}) as warm:
        warm.ready({"language": "node", "code": ""}, 3)
        report = warm.report()["shapes"][0]
        assert report["prestarts"], report
        yield test_same.both_of_all(CASES, COLD, chosen, cold, warm)


def test_there_are_some_fifty_of_them():
    assert len(CASES) >= 50


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_node_program_does_the_same_warm_as_cold(results, name):
    cold, warm = results[name]
    assert cold["start"] == "cold"
    assert warm["start"] == ("cold" if name in COLD else "warm")
    assert test_same.shown(warm) == test_same.shown(cold)


def test_a_node_that_died_waiting_is_not_used():
    with binding.Engine({"target": 2}) as engine:
        engine.ready({"language": "node", "code": ""}, 2)
        waiting = test_lasting.of_kind("interpreter")
        assert waiting
        for pid in waiting:
            os.kill(pid, signal.SIGKILL)
        test_lasting.wait_until(lambda: not set(waiting) & set(
            test_lasting.of_kind("interpreter")) and engine.report()["shapes"][0]["lost"])
        for n in range(3):
            r = engine.run({"language": "node", "code": "console.log(process.argv[2] * 2)",
                            "args": [str(n)]})
            assert (r["verdict"], r["stdout"]) == ("ok", "%d\n" % (2 * n))


def test_where_no_node_can_wait_its_vessel_does(tmp_path, monkeypatch):
    for name in os.listdir(binding.BUILD):
        os.symlink(os.path.join(binding.BUILD, name), tmp_path / name)
    os.unlink(tmp_path / "runtimes")
    shutil.copytree(os.path.join(binding.BUILD, "runtimes"), tmp_path / "runtimes")
    (tmp_path / "runtimes" / "waiting.cjs").write_text("process.exit(9)\n")
    monkeypatch.setattr(binding, "BUILD", str(tmp_path))
    with binding.Engine({"target": 1}) as engine:
        engine.ready({"language": "node", "code": ""}, 1)
        assert engine.report()["shapes"][0]["error"] == (
            "start an interpreter ahead: it ended (9)")
        r = engine.run({"language": "node", "code": "console.log(5)"})
        assert (r["start"], r["verdict"], r["stdout"]) == ("warm", "ok", "5\n")
