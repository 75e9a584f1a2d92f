# SPDX-License-Identifier: Apache-2.0
"""An image's own python waits, started, in a vessel of the image (docs/adr/0076): a program
cannot tell it from one that starts for it, and it is no more trusted than the program."""
import json
import os
import sys
from pathlib import Path

import pytest
from test_run_image import worlds  # noqa: F401, a fixture
from worlds import UID

WARM = Path(__file__).resolve().parents[1] / "warm"
sys.path.insert(0, str(WARM))
KEPT = dict(os.environ)
import binding  # noqa: E402
import test_same  # noqa: E402
os.environ.update(KEPT)  # binding takes what the library would read out of it

# Every seventh import of the standard library; all that is special to begins and ends.
IMPORTS = [name for name in sorted(test_same.CASES) if name.startswith("import_")]
CASES = {name: dict(request, image="debian") for name, request in test_same.CASES.items()
         if binding.SOAK or name not in IMPORTS or IMPORTS.index(name) % 7 == 0}
# What no python that has started already, where it stays, could still become.
COLD = test_same.COLD | {name for name, request in CASES.items() if "cwd" in request}


@pytest.fixture(scope="module")
def store(worlds):
    """The library reads settings from this process's environment."""
    kept = {name: os.environ.pop(name) for name in list(os.environ)
            if name.startswith("VIAL_")}
    os.environ["VIAL_IMAGES"] = str(worlds(0).store)
    yield
    del os.environ["VIAL_IMAGES"]
    os.environ.update(kept)


def ready(engine, **more):
    """Two that wait; what the pool says of them."""
    engine.ready({"language": "python", "code": "", "image": "debian", **more}, 2)
    return engine.report()["shapes"][0]


@pytest.fixture(scope="module")
def results(request, store):
    chosen = [item.callspec.params["name"] for item in request.session.items
              if item.function is test_a_program_of_an_image_does_the_same_warm_as_cold]
    with binding.Engine() as cold, binding.Engine({"target": 4, "ceiling": 6}) as warm:
        assert ready(warm)["error"] is None
        yield test_same.both_of_all(CASES, COLD, chosen, cold, warm)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_program_of_an_image_does_the_same_warm_as_cold(results, name):
    cold, warm = results[name]
    assert cold["start"] == "cold"
    assert warm["start"] == ("cold" if name in COLD else "warm")
    if name == "del_on_several_modules": # which is sorted in one sweep of the collector
        for result in cold, warm:
            result["stdout"] = sorted(result["stdout"].splitlines())
    assert test_same.shown(warm) == test_same.shown(cold)


USER_RUNS = """
import json, sys
sys.path.insert(0, %r)
import binding, os
os.environ["VIAL_IMAGES"] = sys.argv[1]
asked = {"language": "python", "image": "debian", "args": ["a", "é"], "stdin": "in",
         "code": "import os, sys; print(os.getuid(), sys.argv[1:], sys.stdin.read())"}
with binding.Engine({"target": 1}) as engine:
    engine.ready(asked)
    shape = engine.report()["shapes"][0]
    print(json.dumps([shape["error"], engine.run(asked)]))
"""


@pytest.mark.parametrize("uid", [0, UID], ids=["root", "user"])
def test_arguments_and_input_reach_a_python_that_waits(worlds, uid):
    world = worlds(uid)
    done = world.do("/usr/bin/python3", "-c", USER_RUNS % str(WARM), str(world.store))
    assert done.returncode == 0, done.stderr
    error, result = json.loads(done.stdout)
    assert error is None
    assert (result["start"], result["verdict"], result["stderr"]) == ("warm", "ok", "")
    assert result["stdout"] == "1000 ['a', 'é'] in\n"


def test_modules_can_be_imported_ahead_and_a_file_of_the_program_comes_before_them(store):
    code = "import sys; print('colorsys' in sys.modules)\nimport colorsys; print(colorsys.__file__)"
    asked = {"language": "python", "image": "debian", "code": code}
    with binding.Engine({"target": 2, "imports": ["colorsys", "nosuchmodule"]}) as engine:
        assert ready(engine)["error"] is None
        own = engine.run(asked)
        ready(engine)
        shadowed = engine.run(dict(asked, files=[{"path": "colorsys.py", "content": ""}]))
    assert (own["start"], own["stdout"]) == ("warm", "True\n/usr/lib/python3.11/colorsys.py\n")
    assert (shadowed["start"], shadowed["stdout"]) == ("warm", "False\n/work/colorsys.py\n")


def test_one_whose_root_is_writable_and_who_is_root_waits_too(store):
    asked = {"language": "python", "image": "debian", "root_mode": "rw", "user": "root",
             "code": "import os; os.mkdir('/usr/x'); print(os.getuid(), os.listdir('/work'))"}
    with binding.Engine({"target": 1}) as engine:
        engine.ready(asked)
        assert engine.report()["shapes"][0]["error"] is None
        result = engine.run(asked)
    assert (result["start"], result["stdout"]) == ("warm", "0 ['main.py']\n"), result


def test_nothing_of_the_library_is_left_where_a_program_could_see_it(store):
    code = ("import os\nprint(os.listdir('/work'), sorted(os.listdir('/proc/self/fd')))\n"
            "print([n for n in os.environ if 'LD_' in n], 'vial' in open('/proc/self/maps').read())\n"
            "print(b'LD_' in open('/proc/self/environ', 'rb').read())\n")
    with binding.Engine({"target": 1}) as engine:
        ready(engine)
        result = engine.run({"language": "python", "image": "debian", "code": code})
    assert (result["start"], result["stdout"]) == (
        "warm", "['main.py'] ['0', '1', '2', '3']\n[] False\nFalse\n")


@pytest.mark.parametrize("script,said", [
    ("echo hello", "start an interpreter ahead: it says 'hello\\x0a'"),
    ("exit 7", "start an interpreter ahead: it ended (7)"),
    (r"printf '\0now a lie'; cat", "start an interpreter ahead: it says '\\x00now a lie'"),
], ids=["speaks", "ends", "lies"])
def test_where_no_python_of_the_image_can_wait_its_vessel_does(store, worlds, script, said):
    world = worlds(0)
    name = "odd" + str(len(script))
    top = world.home / name
    (top / "usr/bin").mkdir(parents=True)
    odd = top / "usr/bin/python3"
    odd.write_text(f'#!/bin/sh\n[ -e "$1" ] && exec python3.11 "$@"\n{script}\n')
    odd.chmod(0o755)
    world.put(name, [top], env=["PATH=/usr/sbin:/usr/bin:/sbin:/bin"])
    world.stand_on_debian(name)
    asked = {"language": "python", "image": name, "code": "print(5)"}
    with binding.Engine({"target": 1}) as engine:
        engine.ready(asked)
        assert engine.report()["shapes"][0]["error"] == said
        result = engine.run(asked)
    assert (result["start"], result["verdict"], result["stdout"]) == ("warm", "ok", "5\n")
