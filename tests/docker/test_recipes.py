# SPDX-License-Identifier: Apache-2.0
"""The recipes in images/, made from Debian packages and used through vial."""
import os
import subprocess

import pytest
from conftest import ROOT
from engine import wait_for

TRY = {
    "klaw-sandbox": ("bash", "python3 -c 'print(6*7)'; curl --version | head -c 4; id -un; pwd",
                     "42\ncurlsandbox\n/work\n"),
    "antigravity-sandbox": ("python", "import numpy, pandas, requests, matplotlib, scipy, os\n"
                            "print(numpy.arange(9).sum(), os.getcwd(), os.getuid())",
                            "36 /work 1000\n"),
}


def try_recipe(engine, env, run, api, recipe):
    done = subprocess.run([str(ROOT / "images" / "build"), recipe], text=True,
                          env={**env, "TAR": os.path.join(engine.dir, recipe + ".tar")},
                          capture_output=True, timeout=900, check=False)
    assert done.stdout == recipe + ":latest\n", done.stderr
    language, code, want = TRY[recipe]
    r = run("--no-pull", "--image", recipe + ":latest", language, code)
    assert r["stdout"] == want, r
    config = api.call("GET", "/images/%s/json" % recipe)["Config"]
    assert config["User"] == "1000:1000" and config["WorkingDir"] == "/work"
    first = (config["Entrypoint"] or []) + config["Cmd"]
    assert not first[0].endswith("sh")
    assert wait_for(lambda: not api.ours())


def test_klaws_recipe_becomes_an_image_that_runs(engine, env, run, api):
    """covers: K-10"""
    try_recipe(engine, env, run, api, "klaw-sandbox")


@pytest.mark.skipif(not os.environ.get("VIAL_SOAK"),
                    reason="half a gigabyte of packages: make soak")
def test_antigravitys_recipe_becomes_an_image_that_runs(engine, env, run, api):
    """covers: A-09"""
    try_recipe(engine, env, run, api, "antigravity-sandbox")


def test_a_recipe_that_is_not_there_is_told(env):
    done = subprocess.run([str(ROOT / "images" / "build"), "nothing"], text=True, env=env,
                          capture_output=True, check=False)
    assert done.returncode == 1 and "no recipe 'nothing'" in done.stderr
