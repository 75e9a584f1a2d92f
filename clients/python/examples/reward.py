# SPDX-License-Identifier: Apache-2.0
"""A reward function: the share of a problem's tests that a model's program passes. Each
program is compiled once and run on all its tests; many are judged at once.

    rewards(["```python\\nprint(int(input()) * 2)\\n```"], [[("3", "6"), ("5", "10")]])
    [1.0]
"""
from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import List, Optional, Sequence, Tuple

import vial

Tests = Sequence[Tuple[str, str]]  # what the program reads, what it should print


def program_of(completion: str) -> str:
    """The last fenced block, or all of it."""
    blocks = re.findall(r"```\w*\n(.*?)```", completion, re.S)
    return str(blocks[-1]) if blocks else completion


def reward(client: vial.Client, completion: str, tests: Tests,
           language: str = "python") -> Optional[float]:
    """None: vial could not tell. That is no fault of the program, so leave it out."""
    request: vial.Request = {"language": language, "code": program_of(completion),
                             "timeout": "5s", "memory": "256m"}
    passed = 0
    for item in client.batch(request=request, inputs=[{"stdin": given} for given, _ in tests]):
        if item.error or item.result is None or item.result.verdict == "failed":
            return None
        wanted = tests[item.index][1]
        passed += item.result.ok and item.result.stdout.split() == wanted.split()
    return passed / len(tests)


def rewards(completions: Sequence[str], tests: Sequence[Tests],
            client: Optional[vial.Client] = None, parallel: int = 16) -> List[Optional[float]]:
    judge = client or vial.Client()
    with ThreadPoolExecutor(parallel) as threads:
        return list(threads.map(lambda pair: reward(judge, *pair), zip(completions, tests)))


if __name__ == "__main__":
    print(rewards(["```python\nprint(int(input()) * 2)\n```", "print(6)", "import sys; sys.exit(1)"],
                  [[("3", "6"), ("5", "10")]] * 3))
