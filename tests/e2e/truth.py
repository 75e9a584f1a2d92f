#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of which the truth is known: what `vial batch` must say of each, however busy the
host is. As a program: truth.py --rows 10000 [--seed N] [--jobs N] [--plain] runs so many and
prints what was judged wrongly, the rate and the peak of memory; status 1 if one was wrong.
--plain: tiny programs alone, to see that memory stays flat."""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

PATIENT = "120s"  # for what must not run out of time, whatever else runs
SORTS = """import sys
given, printed, answer = [open(path).read() for path in sys.argv[1:]]
sys.exit(0 if sorted(printed.split()) == sorted(answer.split()) else 1)"""


def sh(code, **more):
    return {"language": "sh", "code": code, "timeout": PATIENT, **more}


def py(code, **more):
    return {"language": "python", "code": code, "timeout": PATIENT, **more}


# Each gives a row, its verdict, whether it passed, and what else its line must say.


def right(r):
    a, b = r.randrange(1000), r.randrange(1000)
    return r.choice([
        (py("print(%d + %d)" % (a, b), expected="%d\n" % (a + b)), "ok", True, {}),
        (sh("read x; echo $((x + %d))" % b, stdin="%d\n" % a, expected="%d\n" % (a + b)), "ok", True, {}),
        (py("print('A b  ', %d)" % a, expected="a b %d" % a, compare="tokens"), "ok", False, {}),
        (py("print(%d / 3)" % a, expected=repr(a / 3 + 1e-9), compare="float:1e-6"), "ok", True, {})])


def wrong(r):
    a = r.randrange(1000)
    return py("print(%d)" % a, expected="%d\n" % (a + 1)), "ok", False, {"stdout": "%d\n" % a}


def silent(r):
    return sh("true"), "ok", True, {"stdout": "", "exit_code": 0}


def status(r):
    n = r.randrange(1, 126)
    return sh("echo done; exit %d" % n, expected="done\n"), "nonzero", False, {"exit_code": n}


def crash(r):
    return py("print('before')\n1 / 0"), "nonzero", False, {"exit_code": 1, "stdout": "before\n"}


def signal(r):
    name, number = r.choice([("SEGV", 11), ("ABRT", 6), ("FPE", 8), ("KILL", 9)])
    return (r.choice([sh("kill -%d $$" % number),
                      py("import os\nos.kill(os.getpid(), %d)" % number)]),
            "signal", False, {"signal": name})


def sleeper(r):
    return sh("echo begun; sleep 600", timeout="700ms"), "timeout", False, {"limits_hit": ["time"]}


def spinner(r):
    return py("while True: pass", cpu_time="300ms"), "cpu_timeout", False, {}


def hog(r):
    return py("x = [b'x' * (1 << 20) for i in range(4096)]", memory="48m"), "oom", False, {}


def flood(r):
    return sh("yes", output_max="256k"), "output_limit", False, {}


def cut(r):
    """More than is kept is no right answer, even if what is kept were."""
    return (sh("head -c 300000 /dev/zero | tr '\\0' x", output_limit="1k", expected="x" * 1024), "ok", False,
            {"stdout_truncated": True})


def forks(r):
    return (py("import os, time\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(600)\n"
               "except OSError:\n    print('full', flush=True)\n    os._exit(0)", pids=24, expected="full\n"),
            "ok", True, {"limits_hit": ["pids"]})


def orphans(r):
    """What it leaves behind does not hold it up."""
    return sh("sleep 600 & echo gone", expected="gone\n"), "ok", True, {}


def disk(r):
    return (sh("dd if=/dev/zero of=big bs=1M count=64 2>/dev/null || echo full", disk="2m", expected="full\n"),
            "ok", True, {"limits_hit": ["disk"]})


def tests(r):
    bad = r.randrange(4)
    rows = [{"stdin": "%d\n" % i, "expected": "%d\n" % (i * i + (i == bad))} for i in range(4)]
    return sh("read x; echo $((x * x))", tests=rows), "ok", False, {}


def compiled(r):
    code = '#include <stdio.h>\nint main(void) { int x; scanf("%d", &x); printf("%d\\n", 2 * x); }'
    rows = [{"stdin": str(i), "expected": "%d\n" % (2 * i)} for i in range(3)]
    return dict(sh(code, tests=rows), language="c", compile_timeout=PATIENT), "ok", True, {}


def unfit(r):
    return dict(sh("int main( {"), language="c", compile_timeout=PATIENT), "nonzero", False, {"stage": "compile"}


def checked(r):
    good = r.random() < 0.5
    return (sh("cat", stdin="3 1 2", expected="1 2 %d" % (3 if good else 4),
               checker=py(SORTS)), "ok", good, {})


def broken(r):
    return sh("true", memory="much"), "denied", False, {}


KINDS = {right: 40, wrong: 12, silent: 6, status: 8, crash: 5, signal: 6, sleeper: 2, spinner: 2, hog: 2,
         flood: 3, cut: 3, forks: 2, orphans: 2, disk: 2, tests: 3, compiled: 1, unfit: 1, checked: 2,
         broken: 2}


def programs(count, seed, plain=False):
    """(row, verdict, passed, more) of COUNT programs, the same for the same SEED. Each kind is
    there, if there is room."""
    r = random.Random(seed)
    kinds = list(KINDS) if not plain else []
    for number in range(count):
        if plain:
            made = py("print(%d)" % number, expected="%d\n" % number), "ok", True, {}
        else:
            kind = kinds[number] if number < len(kinds) else r.choices(kinds, KINDS.values())[0]
            made = kind(r)
        yield (dict(made[0], id=number), *made[1:])


def lies(truth, line):
    """What the line says that is not so, or None."""
    row, verdict, passed, more = truth
    said = {name: line.get(name) for name in more}
    if isinstance(more.get("limits_hit"), list):
        said["limits_hit"] = [n for n in more["limits_hit"] if n in line.get("limits_hit", [])]
    if line.get("id") == row["id"] and (line["verdict"], line["passed"]) == (verdict, passed) and said == more:
        return None
    return "%s\n  should be %s %s %s\n  and was %s" % (json.dumps(row)[:400], verdict, passed, more,
                                                     json.dumps(line)[:600])


def judged(truths, lines):
    """All that is wrong with LINES, which are in any order."""
    found = {}
    for line in lines:
        if line["index"] in found:
            yield "row %d came twice" % line["index"]
        found[line["index"]] = line
    for index, truth in enumerate(truths):
        lie = lies(truth, found[index]) if index in found else "row %d did not come" % index
        if lie:
            yield lie


def peak(pid, before):
    """The most memory that the process has had, in KiB; BEFORE if it is gone."""
    try:
        with open("/proc/%d/status" % pid, encoding="ascii") as file:
            return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])
    except (OSError, TypeError):
        return before


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", default=str(2 * (os.cpu_count() or 1)))
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    vial = os.environ.get("VIAL", "build/vial")
    truths = list(programs(given.rows, given.seed, given.plain))
    with tempfile.TemporaryDirectory() as where:
        path, out = os.path.join(where, "in.jsonl"), os.path.join(where, "out.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(truth[0]) + "\n" for truth in truths)
        started, high, early = time.monotonic(), 0, 0
        running = subprocess.Popen([vial, "batch", path, "-o", out, "--jobs", given.jobs])
        while running.poll() is None:
            high = peak(running.pid, high)
            if not early and os.path.exists(out) and os.path.getsize(out) > 0 and time.monotonic() - started > 20:
                early = high
            time.sleep(0.2)
        seconds = time.monotonic() - started
        with open(out, encoding="utf-8") as file:
            wrong = list(judged(truths, map(json.loads, file)))
    print("seed %d: %d rows in %.0f s, %.1f a second; peak of memory %.1f MiB, after 20 s %.1f MiB" % (
        given.seed, given.rows, seconds, given.rows / seconds, high / 1024, early / 1024))
    print("\n".join(wrong[:20]) or "each verdict is right")
    sys.exit(bool(wrong) or running.returncode != 0)


if __name__ == "__main__":
    main()
