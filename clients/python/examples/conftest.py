# SPDX-License-Identifier: Apache-2.0
"""pytest fixtures: put them into your conftest.py. `sandbox` runs a function of yours, or a
piece of code, where it can do no harm; test_sandbox.py shows how.

    def test_the_plugin_adds(sandbox):
        assert sandbox.call("plugin.py", "add", 1, 2) == 3
"""
from __future__ import annotations

import json
import pathlib
from typing import Any, Iterator

import pytest

import vial


class Sandbox:
    """A session for one test."""

    def __init__(self, session: vial.Session) -> None:
        self.session = session

    def run(self, code: str, **options: Any) -> vial.ExecResult:
        """Runs Python to its end; fails the test if it does not end well."""
        return self.session.exec(["python3", "-c", code], **options).check()

    def call(self, path: str, function: str, *arguments: Any) -> Any:
        """What FUNCTION of the module at PATH gives for ARGUMENTS; all as JSON."""
        self.session.write("module_under_test.py", pathlib.Path(path).read_bytes())
        done = self.run("import json, module_under_test as m\n"
                        "print(json.dumps(getattr(m, %r)(*json.loads(%r))))" % (
                            function, json.dumps(arguments)))
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def vial_client() -> Iterator[vial.Client]:
    with vial.Client() as client:
        yield client


@pytest.fixture
def sandbox(vial_client: vial.Client) -> Iterator[Sandbox]:
    with vial_client.session(timeout="1m", memory="256m") as session:
        yield Sandbox(session)
