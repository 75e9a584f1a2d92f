# SPDX-License-Identifier: Apache-2.0
"""A warm program says its end before the kernel has taken it down (wire/message.h)."""
import pytest

import binding

# A child sees the name that its parent ends with; what is fetched gives it the time.
WATCHED = """
import os
me = os.getpid()
r, w = os.pipe()
if os.fork() == 0:
    file = os.open("/proc/" + str(me) + "/comm", os.O_RDONLY)
    seen = open("seen", "wb", buffering=0)
    os.write(w, b"x")
    try:
        while True:
            name = os.pread(file, 64, 0)
            if not name.startswith(b"python"):
                seen.write(name)
                os._exit(0)
    except OSError:
        os._exit(0)
open("big", "wb").write(bytes(1 << 20))
os.read(r, 1)
raise SystemExit(%d)
"""


@pytest.fixture(scope="module")
def engine():
    with binding.Engine({"target": 2, "ceiling": 4}) as e:
        e.ready({"language": "python", "code": ""}, 2)
        yield e


def last_name(engine, code):
    """What a program was called at its end, if somebody saw it."""
    r = engine.run({"language": "python", "code": WATCHED.replace("(%d)", "(%d)" % code),
                    "outputs": ["big", "seen"]})
    assert r["exit_code"] == code, r
    if not r["isolation"]["limits_by"].startswith("cgroup"):
        pytest.skip("no cgroup counts")
    return next(f for f in r["files"] if f["path"] == "seen")["content"].strip()


@pytest.mark.parametrize("code", [0, 42, 255])
def test_a_program_ends_with_a_name_that_holds_its_exit_code(engine, code):
    """Once in a while, that is: it is called so for less than a millisecond."""
    for _ in range(100):
        name = last_name(engine, code)
        if name:
            break
    assert name == "vial:over:%03d" % code
