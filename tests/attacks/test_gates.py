# SPDX-License-Identifier: Apache-2.0
"""tests/attacks/gates.md: what code can make of a gate, and of a secret. VIAL_WEAK names a build with
-Dweaken=true, where each case must show that it can fail. In networks of their own; see test_attacks.py
for what else the environment says."""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../gate")]
import corpus  # noqa: E402
import roads  # noqa: E402
import servers  # noqa: E402
import test_attacks as attacks  # noqa: E402

TEXT = open(os.path.join(HERE, "gates.md"), encoding="utf-8").read()
CASES = [corpus.Case(m) for m in corpus.CASE.finditer(TEXT)]
PREAMBLE = attacks.PREAMBLE + re.search(r"^```python\n(.*?)^```", TEXT, re.M | re.S)[1]
CONTROLS = yaml.safe_load(open(os.path.join(HERE, "controls_gates.yaml")))
NAMES = {"far.test": ["1.1.1.1"], "other.test": ["1.1.1.1"], "wild.test": ["1.1.1.1"],
         "private.test": ["10.77.0.1"], "deep.in.test": ["10.77.0.1"],
         "private6.test/6": ["fd77::1"], "mapped.test/6": ["::ffff:10.77.0.1"],
         "metadata.test": ["169.254.169.254"], "both.test": ["10.77.0.1", "1.1.1.1"],
         "turns.test": [["1.1.1.1"], ["10.77.0.1"]], "home.test": ["9.9.9.1"],
         "loop.test": ["127.0.0.1"], "api.test": ["127.88.0.1"], "wrong.test": ["127.88.0.1"]}
HOSTS = ["api.test:8443", "wrong.test:8443"]
VALUE = "sk-real-" + os.urandom(20).hex()
host = attacks.host


def line_of(case, word):
    """What stands behind WORD in a case's own lines."""
    whole = re.search(r"^### %s .*?^```" % case.id, TEXT, re.M | re.S)[0]
    found = re.search(r"^%s: (.+)$" % word, whole, re.M)
    return found[1] if found else ""


@pytest.fixture(scope="module")
def world():
    """Networks, a name server, and the server of the secret's host."""
    if attacks.IN_MACHINE or attacks.DRIVER != "native":
        pytest.skip("a duty of vial's own, on any kernel: shown on the host")
    with tempfile.TemporaryDirectory(prefix="gates-") as where, roads.opened(NAMES) as (way, server):
        os.chmod(where, 0o755)
        servers.authority(Path(where), "api.test")
        api = subprocess.Popen([*way, sys.executable, os.path.join(HERE, "api_server.py"), where],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert api.stdout.readline() == "there\n"
        yield SimpleNamespace(where=where, way=way, server=server)
        api.stdin.close()
        api.wait(60)


def settings(world, case):
    """With the case's secret, if it has one."""
    secret = {"from": "env:REAL_KEY", "hosts": HOSTS, "ca": world.where + "/ca.pem"}
    only = line_of(case, "only")
    secret.update({"only": [only]} if only else {})
    path = os.path.join(world.where, case.id + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"secrets": {"API_KEY": secret} if case.id.startswith("GS") else {},
                   "policy": {"gate_resolvers": [world.server],
                              "allow_private": ["127.88.0.0/16"]}}, file)
    os.chmod(path, 0o644)
    return path


def run(host, world, case, vial=attacks.VIAL, weaken=None):
    """The result; its text and what the server was asked."""
    asked = os.path.join(world.where, "asked")
    open(asked, "wb").close()
    env = {**attacks.environment(host, weaken), "VIAL_CONFIG": settings(world, case), "REAL_KEY": VALUE}
    flags = line_of(case, "flags").split()
    flags += ["--secrets", "API_KEY"] if case.id.startswith("GS") else []
    values = {**host.values(), "HASH": hashlib.sha256(VALUE.encode()).hexdigest()}
    command = [vial, "run", "--json", "--raw", "--driver", "native", "--network", "gate", "--timeout",
               "300s", *flags, "python", case.program(PREAMBLE, values)]
    done = subprocess.run([*world.way, *attacks.as_user(command)], capture_output=True, env=env, cwd="/",
                          check=False)
    assert done.stdout, done.stderr
    r = json.loads(done.stdout)
    assert r["error"] is None, r
    r["text"] = r["stdout"]
    with open(asked, encoding="utf-8") as file:
        return r, file.read(), done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_attack_is_contained(host, world, case):
    r, asked, said = run(host, world, case)
    assert attacks.expect_ok(r), (r["text"], r["stderr"])
    assert case.id != "GT-12" or r["limits_hit"] == ["network"]
    assert VALUE not in said and "/inner" not in asked
    assert case.id != "GS-01" or asked.count(VALUE) == 3
    assert host.check() == []


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_positive_control_breaches_without_its_layer(host, world, case):
    """With the layer switched off the same case must fail, or it proves nothing."""
    attacks.needs_weak()
    r, _, _ = run(host, world, case, vial=attacks.WEAK, weaken=CONTROLS[case.id])
    assert re.search(r"^BREACH", r["text"], re.M), (r["text"], r["stderr"])
    assert host.check() == []


def test_every_case_has_a_control():
    assert sorted(CONTROLS) == sorted(c.id for c in CASES)
