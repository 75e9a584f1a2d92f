# SPDX-License-Identifier: Apache-2.0
"""Languages of cells that need something installed, and what is said where it is not."""
import pytest

from test_saved import daemon, make
from test_wire import PYTHON, envd


def test_cells_of_typescript_are_javascript_without_types(node, e2b):
    told, = node.run("typescript.mjs", e2b)
    assert told == {
        "hello": ["Hello World!\n"], "value": "{ a: 1 }", "kept": "function", "awaited": "5",
        "cwd": "/home/user", "error": "SyntaxError", "thrown": "no", "env": "x", "after": "undefined",
        "contexts": ["python", "javascript", "typescript"]}


def test_cells_of_java_remember_and_have_variables_as_properties(node, e2b):
    told, = node.run("java.mjs", e2b)
    assert told == {
        "box": "box", "cell": "cell", "after": "box", "cwd": "/home/user", "defined": None,
        "said": ["42", "é\n", "bad\n"], "wrong": "incompatible types",
        "thrown": "java.lang.IllegalStateException: no", "goes": "7"}


@pytest.mark.parametrize("language, remedy", [("java", "have a JDK of 11 or later there"),
                                              ("r", "install R"),
                                              ("ts", "have Node 22.13 or later there")])
def test_a_language_that_is_not_installed_is_an_error_with_a_remedy(world, language, remedy):
    with daemon(world) as d:
        box = make(d)
        for _ in range(2):
            answer = envd(d, box, "POST", "/execute", {"code": "1", "language": language}, PYTHON)
            assert answer.status == 500
            assert remedy in answer.body.decode(), answer.body
        answer = envd(d, box, "POST", "/execute", {"code": "1 + 1"}, PYTHON)
        assert b'"text":"2"' in answer.body.replace(b" ", b"")
