# SPDX-License-Identifier: Apache-2.0
"""Reads corpus.md: the cases, their limits, and the Python preamble."""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
CASE = re.compile(r"^### (\S+) \| (.+?) \| (py|sh|api|host)\n(.*?)(?=^### |^---$|^## |\Z)",
                  re.M | re.S)
FLAGS = {"timeout_s": ("--timeout", "%ss"), "mem_mb": ("--memory", "%sm"),
         "pids": ("--pids", "%s"), "cpus": ("--cpus", "%s"), "tmp_mb": ("--tmp", "%sm"),
         "workspace_mb": ("--disk", "%sm"), "output_kb": ("--output-limit", "%sk")}
# What these print before their time is over is judged too: they get as far on a busy machine.
SPEAKS = {"RS-09", "LD-05"}


class Case:
    def __init__(self, match):
        self.id, self.title, self.lang, body = match.groups()
        self.code = re.search(r"^```\w*\n(.*?)^```", body, re.M | re.S)[1]
        self.code = re.sub(r"^# api>.*\n", "", self.code, flags=re.M)
        line = re.search(r"^limits: (.+)$", body, re.M)
        self.limits = dict(w.split("=") for w in line[1].split()) if line else {}

    def flags(self):
        out = []
        for name, value in self.limits.items():
            if name == "timeout_s" and value == "1":
                value = "3" if self.id in SPEAKS else value
                value = os.environ.get("ATTACK_SHORT_S", value)  # emulated machines are slow
            flag, form = FLAGS[name]
            out += [flag, form % value]
        return out

    def program(self, preamble, values):
        code = (preamble if self.lang == "py" else "") + self.code
        for name, value in values.items():
            code = code.replace("@%s@" % name, str(value))
        return code


def load():
    text = open(os.path.join(HERE, "corpus.md"), encoding="utf-8").read()
    preamble = re.search(r"^```python\n(.*?)^```", text, re.M | re.S)[1]
    return [Case(m) for m in CASE.finditer(text)], preamble
