# SPDX-License-Identifier: Apache-2.0
"""An agent with a notebook: a model writes cells, an interpreter runs them and remembers,
and the model sees what came of each. `model` is any function from the talk so far to the
next cell, or to None when it is done; put yours in the place of `Script`.
"""
from __future__ import annotations

from typing import Callable, List, Optional, Tuple

import vial

Talk = List[Tuple[str, str]]  # (who, what)
MOST = 4000  # characters of a cell's output that the model sees


def seen(cell: vial.Cell) -> str:
    """What a model is told of a cell."""
    text = cell.stdout + cell.stderr
    if cell.value:
        text += str(cell.value.get("text/plain", ""))
    if cell.error:
        text += "\n%s: %s" % (cell.error.get("name"), cell.error.get("value"))
    if cell.status == "timeout":
        text += "\n(the cell took too long and was ended)"
    return text if len(text) <= MOST else text[:MOST // 2] + "\n…\n" + text[-MOST // 2:]


def converse(client: vial.Client, model: Callable[[Talk], Optional[str]], task: str,
             turns: int = 20) -> Talk:
    talk: Talk = [("user", task)]
    with client.session(timeout="10m", memory="512m", lease="30m") as session:
        notebook = session.context("python")
        for _ in range(turns):
            code = model(talk)
            if code is None:
                break
            talk.append(("model", code))
            try:
                talk.append(("notebook", seen(notebook.run(code, timeout="30s"))))
            except vial.VialError as error:  # the interpreter died; begin with a new one
                notebook.restart()
                talk.append(("notebook", "%s: %s; all variables are gone" % (
                    error.code, error.message)))
    return talk


class Script:
    """A model that knows what it wants."""

    def __init__(self, *cells: str) -> None:
        self.cells = list(cells)

    def __call__(self, talk: Talk) -> Optional[str]:
        return self.cells.pop(0) if self.cells else None


if __name__ == "__main__":
    with vial.Client() as client:
        for who, what in converse(client, Script("x = 6", "x * y", "y = 7\nx * y"), "multiply"):
            print("%s> %s" % (who, what))
