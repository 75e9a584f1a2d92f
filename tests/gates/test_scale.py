# SPDX-License-Identifier: Apache-2.0
"""tools/scale: the simulation agrees with theory where there is one, with the node that was
measured, loses nobody, and is what docs/scale.md prints."""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


@pytest.fixture(scope="module")
def scale():
    path = os.path.join(ROOT, "tools/scale")
    loader = importlib.machinery.SourceFileLoader("scale", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("scale", loader))
    sys.modules["scale"] = module  # dataclasses look there
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = written
    return module


@pytest.mark.parametrize("use", [0.5, 0.8])
def test_one_core_waits_as_long_as_theory_says(scale, use):
    """Poisson arrivals, one server, a fixed time: the mean wait is known (Pollaczek, Khinchine)."""
    fleet = scale.Fleet(nodes=1, cores=1, program=0, warm=0.01, refill=0, at_once=1, queue=10 ** 6)
    out = scale.simulate(fleet, scale.Load(use=use, seconds=600))
    mean = sum(out.times) / len(out.times)
    assert mean == pytest.approx(0.01 + use * 0.01 / (2 * (1 - use)), rel=0.05)


def test_one_node_does_what_was_measured(scale):
    """Two cores and 16 callers, as in docs/guide/speed.md: 290 to 352 runs a second, 68 to 78 cold."""
    with open(os.path.join(ROOT, "docs/guide/speed.md"), encoding="utf-8") as file:
        cells = re.search(r"\| (\d+)–(\d+) \| (\d+)–(\d+) \|\n\nThat is", file.read())
    cold_least, cold_most, warm_least, warm_most = map(int, cells.groups())
    node = dict(nodes=1, cores=2, program=0)
    assert warm_least <= scale.closed(scale.Fleet(**node), 16) <= warm_most
    assert cold_least <= scale.closed(scale.Fleet(stock=0, **node), 16) <= cold_most


def test_the_same_question_has_the_same_answer(scale):
    def ask(seed):
        return scale.simulate(scale.Fleet(), scale.Load(seconds=2, burst=3, dead=0.2), seed)
    assert ask(1) == ask(1) != ask(2)


def test_nobody_is_lost_when_nodes_die(scale):
    fleet = scale.Fleet(nodes=20)
    calm = scale.simulate(fleet, scale.Load(use=0.6, seconds=8))
    out = scale.simulate(fleet, scale.Load(use=0.6, seconds=8, dead=0.1))
    assert len(out.times) + out.refused == len(calm.times) + calm.refused
    assert out.again > 0 and calm.again == 0
    assert out.times[-1] >= fleet.refused > calm.times[-1]


def test_what_is_too_much_is_refused_and_not_kept(scale):
    fleet = scale.Fleet(nodes=2, program=0, queue=8)
    out = scale.simulate(fleet, scale.Load(use=2.0, seconds=4))
    assert out.refused > len(out.times) / 2
    line = fleet.queue + fleet.at_once * fleet.cores
    assert out.times[-1] <= (line + 2 * fleet.cores) * (fleet.warm + fleet.refill) / fleet.cores * 2


def test_more_that_wait_means_fewer_cold_runs(scale):
    load = scale.Load(use=0.7, burst=3, seconds=3)
    cold = [scale.simulate(scale.Fleet(nodes=1, program=0, stock=n), load).cold for n in (0, 16, 64)]
    assert cold[0] > cold[1] > cold[2] == 0


def test_the_page_has_what_the_tool_prints():
    said = subprocess.check_output([os.path.join(ROOT, "tools/scale"), "--nodes", "10"], text=True)
    with open(os.path.join(ROOT, "docs/scale.md"), encoding="utf-8") as file:
        page = file.read()
    rows = [line for line in said.splitlines() if line.startswith("| ")]
    assert len(rows) > 10 and [line for line in rows if line not in page] == []
