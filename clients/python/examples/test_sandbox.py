# SPDX-License-Identifier: Apache-2.0
"""How conftest.py's fixture is used."""
import pathlib

import pytest
import vial


def test_a_function_is_called_where_it_can_do_no_harm(sandbox, tmp_path):
    plugin = tmp_path / "plugin.py"
    plugin.write_text("def add(a, b):\n    return a + b\n")
    assert sandbox.call(str(plugin), "add", 1, 2) == 3


def test_what_it_writes_stays_inside(sandbox, tmp_path):
    mark = pathlib.Path("/tmp") / tmp_path.name
    sandbox.run("open(%r, 'w').write('x')" % str(mark))
    assert not mark.exists()


def test_a_crash_is_an_exception(sandbox):
    with pytest.raises(vial.RunFailed) as failed:
        sandbox.run("raise SystemExit(3)")
    assert failed.value.result["exit_code"] == 3
