# SPDX-License-Identifier: Apache-2.0
"""The recipes in images/, made from Debian packages and used through vial."""
import json
import os
import re
import subprocess

from conftest import ROOT, VIAL
from engine import wait_for


class Tool:
    """klaw's tool over MCP, in the image that its preset names."""

    def __init__(self, env):
        self.process = subprocess.Popen(
            [os.environ.get("VIAL", str(ROOT / "build/vial")), "mcp", "--preset", "klaw"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd="/")
        self.number = 0
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                "clientInfo": {"name": "tests", "version": "1"}})

    def ask(self, method, params):
        self.number += 1
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": self.number,
                                             "method": method, "params": params}) + "\n")
        self.process.stdin.flush()
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.number:
                return answer["result"]

    def execute(self, code, language="bash"):
        result = self.ask("tools/call", {"name": "code_execute", "arguments": {
            "language": language, "code": code}})
        return result["content"][0]["text"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


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
                          capture_output=True, timeout=1800, check=False)
    assert done.stdout == recipe + ":latest\n", done.stderr
    language, code, want = TRY[recipe]
    r = run("--no-pull", "--image", recipe + ":latest", language, code)
    assert r["stdout"] == want, r
    config = api.call("GET", "/images/%s/json" % recipe)["Config"]
    assert config["User"] == "1000:1000" and config["WorkingDir"] == "/work"
    first = (config["Entrypoint"] or []) + config["Cmd"]
    assert not first[0].endswith("sh")
    assert wait_for(lambda: not api.ours())


WHEEL = """
import subprocess, sys, zipfile
with zipfile.ZipFile('/tmp/mine-1-py3-none-any.whl', 'w') as z:
    z.writestr('mine.py', 'answer = 42')
    z.writestr('mine-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n')
    z.writestr('mine-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n'
               'Tag: py3-none-any\\n')
    z.writestr('mine-1.dist-info/RECORD', '')
subprocess.run(['pip', 'install', '-q', '--no-index', '--target', '/tmp/site',
                '/tmp/mine-1-py3-none-any.whl'], check=True)
sys.path.insert(0, "/tmp/site")
import mine
print(mine.answer)
"""


def test_klaws_recipe_becomes_the_image_that_its_page_tells_of(engine, env, run, api):
    """covers: K-10"""
    try_recipe(engine, env, run, api, "klaw-sandbox")
    page = (ROOT / "docs/tools/code_execute.md").read_text()
    told = re.search(r"Python (3\.\d+) \(`python3`, with `pip`\), bash and curl", page)[1]
    client = Tool(env)
    try:
        execute = client.execute
        assert execute("import sys; print('%d.%d' % sys.version_info[:2])", "python") == told + "\n"
        assert execute("echo $BASH_VERSION").startswith("5.")
        assert execute("curl --version").startswith("curl ")
        assert execute("pip --version").startswith("pip ")
        assert execute(WHEEL, "python") == "42\n"
        assert execute("readlink /proc/1/exe; cat /proc/1/comm").splitlines()[-1] not in (
            "sh", "bash", "dash")
        assert "Read-only" in execute("touch /usr/x")
    finally:
        client.close()


# The document's second example, and a figure.
ANALYSE = ("import pandas as pd\nimport matplotlib\nmatplotlib.use('Agg')\n"
           "import matplotlib.pyplot as plt\ndata = pd.read_csv('data.csv')\n"
           "print(data.mean())\ndata.plot()\nplt.savefig('plot.png')")


def test_antigravitys_recipe_becomes_an_image_that_runs(engine, env, run, api, tmp_path):
    """Half a gigabyte of packages, which are kept: the first time takes minutes.
    covers: A-09"""
    try_recipe(engine, env, run, api, "antigravity-sandbox")
    (tmp_path / "data.csv").write_text("value\n1\n2\n6\n")
    done = subprocess.run(
        [VIAL, "run", "--preset", "antigravity", "--in", "data.csv", "--out", "plot.png",
         "python", ANALYSE], cwd=tmp_path, text=True, capture_output=True, check=False,
        env={**env, "SANDBOX_TYPE": "docker", "DOCKER_IMAGE": "antigravity-sandbox:latest"})
    assert done.stdout == "value    3.0\ndtype: float64\n", done.stderr
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_recipe_that_is_not_there_is_told(env):
    done = subprocess.run([str(ROOT / "images" / "build"), "nothing"], text=True, env=env,
                          capture_output=True, check=False)
    assert done.returncode == 1 and "no recipe 'nothing'" in done.stderr
