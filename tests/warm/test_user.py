# SPDX-License-Identifier: Apache-2.0
"""An ordinary user's interpreters wait as root's do."""
import json
import os
import shutil
import subprocess
import sys

import pytest

import binding

PARTS = ["libvial.so", "vial-init", "vial-zygote.so", "runtimes", "presets", "seccomp"]
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = """
import json, binding
with binding.Engine({"target": 2}) as engine:
    request = {"language": "python", "code": "import os\\nprint(os.getuid(), os.getpid())"}
    engine.ready(request, 2)
    print(json.dumps([engine.run(request) for _ in range(3)] + [engine.report()]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_an_ordinary_user_has_interpreters_that_wait(tmp_path):
    stage = str(tmp_path / "stage")
    os.mkdir(stage)
    for part in PARTS:
        source = os.path.join(binding.BUILD, part)
        if os.path.isdir(source):
            shutil.copytree(source, os.path.join(stage, part),
                            ignore=shutil.ignore_patterns("meson*", "*.p"))
        else:
            shutil.copy2(source, stage)
    shutil.copy2(os.path.join(HERE, "binding.py"), stage)
    subprocess.run(["chmod", "-R", "a+rX", stage], check=True)
    for above in (tmp_path, *tmp_path.parents):
        if not os.stat(above).st_mode & 0o001:
            os.chmod(above, 0o711)
    done = subprocess.run(
        ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--",
         sys.executable, "-c", PROGRAM], cwd=stage, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "VIAL_BUILD": stage}, check=False, timeout=120)
    if "namespaces" in done.stderr:
        pytest.skip("this host lets only root make namespaces")
    assert done.returncode == 0, done.stderr
    *runs, report = json.loads(done.stdout)
    shape = report["shapes"][0]
    assert shape["zygote"] and shape["error"] is None and shape["failures"] == 0
    for run in runs:
        assert (run["verdict"], run["start"], run["stdout"]) == ("ok", "warm", "1000 2\n")
