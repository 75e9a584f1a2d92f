# SPDX-License-Identifier: Apache-2.0
"""tests/attacks/roots.md, in vessels whose programs are root inside: at once, and by sudo; of root, and of
an ordinary user who has a range of ids, and is himself root inside. VIAL_WEAK names a build with -Dweaken=true,
where each case must show that it can fail."""
import os
import re
import sys

import pytest
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ATTACKS = os.path.join(HERE, "../attacks")
sys.path[:0] = [HERE, ATTACKS]
import corpus  # noqa: E402
import test_attacks as attacks  # noqa: E402
import worlds  # noqa: E402

CASES = [corpus.Case(m) for m in corpus.CASE.finditer(
    open(os.path.join(ATTACKS, "roots.md"), encoding="utf-8").read())]
CONTROLS = yaml.safe_load(open(os.path.join(ATTACKS, "controls_roots.yaml")))
host = attacks.host


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = worlds.World(tmp_path_factory.mktemp("roots") / "home", 0)
    made.debian()
    yield made
    made.remove()


def by_sudo(program):
    """A shell's line that has root inside run it."""
    return "cat > /tmp/case.py <<'EOF'\n%s\nEOF\nsudo python3 /tmp/case.py\n" % program


def run(host, world, case, how, **more):
    os.environ["VIAL_IMAGES"] = str(world.store)
    if world.ids:
        more["below"] = [worlds.RANGED, *worlds.BECOME]
    flags = ["--image", "debian", "--root-mode", "rw"]
    code = case.program(attacks.PREAMBLE, host.values())
    if how == "sudo":
        shell = next(c for c in attacks.CASES if c.lang == "sh")
        flags += ["--sudo", "nopasswd", *case.flags()]
        return attacks.run(host, shell, *flags, code=by_sudo(code), **more)
    return attacks.run(host, case, *flags, "--user", "root", code=code, **more)


@pytest.mark.parametrize("how", ["root", "sudo"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
@pytest.mark.parametrize("whose", ["world", "ranged"])
def test_root_inside_gets_no_further(host, request, whose, case, how):
    r = run(host, request.getfixturevalue(whose), case, how)
    assert attacks.expect_ok(r), r
    assert case.id != "RT-13" or "ENOSPC" in r["text"], r
    assert host.check() == []


@pytest.mark.skipif(not attacks.WEAK, reason="no weakened build given (VIAL_WEAK)")
@pytest.mark.parametrize("case", [c for c in CASES if isinstance(CONTROLS[c.id], str)],
                         ids=lambda c: c.id)
def test_without_its_layers_the_case_says_breach(host, world, case):
    r = run(host, world, case, "root", vial=attacks.WEAK, weaken=CONTROLS[case.id])
    if case.id == "RT-09" and (r["error"] or {}).get("code") == "VIAL-LOST":
        return  # it has ended the guest, and with it itself
    assert re.search(r"^BREACH", r["text"], re.M), r


def test_every_case_has_a_control_or_a_reason():
    assert set(CONTROLS) == {c.id for c in CASES}
