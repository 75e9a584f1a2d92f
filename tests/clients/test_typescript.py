# SPDX-License-Identifier: Apache-2.0
"""The TypeScript client, compiled and packed as `make dist` does it, in Node against a real
daemon. scenarios.mjs has what each test does."""
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest
from conftest import HERE, ROOT, TOKEN, Weak, tsc
from daemon import Daemon, clean_env, free_port

SCENARIOS = re.findall(r"^  async (\w+)\(\)", open(os.path.join(HERE, "scenarios.mjs")).read(), re.M)
# Where connections break, in bytes of their answers.
CUTS = {"a_connection_that_breaks_runs_nothing_twice": (0, 20, 300),
        "a_batch_that_breaks_goes_on_with_what_did_not_come": (0, 3000, 6000),
        "output_is_read_on_from_its_offsets": (0, 100, 5000, 90000, 70001, 123457)}


@pytest.fixture(scope="session")
def place(project):
    """That project, with the examples compiled in it."""
    where = project
    shutil.copy(os.path.join(HERE, "scenarios.mjs"), where)
    shutil.copytree(os.path.join(ROOT, "clients/typescript/examples"), where / "source")
    out = tsc("--target", "es2022", "--module", "nodenext", "--strict", "--noUncheckedIndexedAccess",
              "--outDir", "examples", *map(str, (where / "source").glob("*.ts")), cwd=where)
    assert out.returncode == 0, out.stdout
    return where


@pytest.fixture(scope="session")
def few():
    """A daemon that has room for one run."""
    with Daemon(serve={"concurrency": 1, "queue": 0, "caller_concurrency": 1}) as d:
        way = Weak(d.socket, [])
        yield way.url
        way.close()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_in_node(scenario, place, daemon, weak, few):
    given = {"url": daemon.url, "token": TOKEN, "socket": daemon.socket, "few": few,
             "weak": weak(*CUTS.get(scenario, ()), to=daemon.port).url, "closed": free_port()}
    out = subprocess.run(["node", "scenarios.mjs", scenario, json.dumps(given)], cwd=place,
                         capture_output=True, text=True, timeout=120, env=clean_env())
    assert out.returncode == 0, out.stderr


def test_the_package_has_no_dependencies_and_no_sources(made):
    with tarfile.open(next(made.glob("vial-client-*.tgz"))) as archive:
        names = sorted(archive.getnames())
        about = json.load(archive.extractfile("package/package.json"))
    assert "dependencies" not in about and about["type"] == "module"
    assert names == sorted("package/" + name for name in [
        "README.md", "package.json", "dist/index.js", "dist/index.d.ts", "dist/node.js",
        "dist/node.d.ts", "dist/schema.js", "dist/schema.d.ts"])


def test_browsers_can_load_it(made):
    """What a browser loads imports nothing of Node's."""
    with tarfile.open(next(made.glob("vial-client-*.tgz"))) as archive:
        for name in ("index", "schema"):
            text = archive.extractfile("package/dist/%s.js" % name).read().decode()
            assert re.findall(r"^(?:import|export) .*from \"(.*)\"", text, re.M) in (
                [["./schema.js"], ["./schema.js", "./schema.js"]] if name == "index" else [[]])
            assert not re.search(r"\b(?:Buffer|process)\.\w|\brequire\(", text)
