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
# The cases say the numbers of x86_64, in which those from 424 on are everybody's. Here are
# arm64's, and -1 for calls that it has not got.
ON_ARM64 = """_own=sc
_arm64={16: 29, 56: 220, 101: 117, 103: 116, 126: 91, 134: -1, 135: 92, 136: -1, 139: -1,
    141: 140, 144: 119, 153: 58, 154: -1, 155: 41, 156: -1, 157: 167, 161: 51, 163: 89, 164: 170,
    165: 40, 166: 39, 167: 224, 168: 225, 169: 142, 170: 161, 171: 162, 172: -1, 173: -1, 175: 105,
    176: 106, 177: -1, 178: -1, 179: 60, 180: 42, 203: 122, 212: 18, 216: 234, 227: 112, 237: 235,
    240: 180, 246: 104, 248: 217, 249: 218, 250: 219, 251: 30, 256: 238, 272: 97, 279: 239,
    298: 241, 300: 262, 302: 261, 303: 264, 304: 265, 305: 266, 308: 268, 310: 270, 311: 271,
    312: 272, 313: 273, 320: 294, 321: 280, 323: 282}
def sc(nr,*a): return _own(nr if nr>=424 else _arm64[nr],*a)
"""


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
    if os.uname().machine == "aarch64":
        preamble += ON_ARM64
    return [Case(m) for m in CASE.finditer(text)], preamble
