# SPDX-License-Identifier: Apache-2.0
"""Rows whose programs note each time that they run, for batches that are stopped and gone on with:
plain ones, ones with several tests, compiled ones, and ones with a checker."""
import collections
import json
import random
import signal
import subprocess

C = """#include <stdio.h>
int main(void) { int x = 0; scanf("%%d", &x); FILE *f = fopen("/notes/%d", "a");
if (!f) return 1; fputs("ran\\n", f); fclose(f); printf("%%d\\n", x + 1); return 0; }"""
NOTE = "echo ran >> /notes/%d || exit 1; "
CHECKER = "echo ran >> /notes/%d-checked; cmp -s output.txt answer.txt || exit 1"


class Notes:
    """COUNT rows, and what their programs noted in PLACE."""

    def __init__(self, place, count):
        self.dir = place / "notes"
        self.dir.mkdir()
        self.dir.chmod(0o777)  # programs are another user's in vessels of a daemon of root's
        self.rows = [self.row(i) for i in range(count)]
        self.input = place / "in"
        self.input.write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        self.flags = ["--mount", "%s:/notes:rw" % self.dir, "--timeout", "60s", "--no-times", "-q"]

    @staticmethod
    def row(i):
        row = {"id": i, "language": "sh", "code": NOTE % i + "cat"}
        if i % 20 == 7:
            return dict(row, language="c", code=C % i, compile_timeout="60s",
                        tests=[{"stdin": "%d" % n, "expected": "%d\n" % (n + 1)} for n in range(3)])
        if i % 10 == 3:
            return dict(row, tests=[{"stdin": "%d\n" % n, "expected": "%d\n" % (n % 2)} for n in range(3)])
        if i % 10 == 5:
            return dict(row, stdin="%d\n" % i, tests=[{"expected": "%d\n" % i}, {"expected": "no\n"}],
                        checker={"language": "sh", "code": CHECKER % i})
        return dict(row, stdin="%d\n" % i, expected="%d\n" % (i % 50))

    def counts(self):
        """How often each program ran, and each row's checker."""
        return {p.name: p.read_bytes().count(b"\n") for p in self.dir.iterdir()}

    def once(self):
        """The same for a batch that was never stopped."""
        count = collections.Counter()
        for row in self.rows:
            tests = len(row.get("tests", [0]))
            count[str(row["id"])] += tests
            if "checker" in row:
                count["%d-checked" % row["id"]] += tests
        return dict(count)


def whole_lines(path):
    data = path.read_bytes() if path.exists() else b""
    return data[:data.rfind(b"\n") + 1]


def ids(data):
    return {json.loads(line)["id"] for line in data.splitlines()}


def stop_and_go_on(start, notes, out, stops, how=signal.SIGKILL, settled=lambda: None):
    """Stops the batch at random points, and goes on with it until it ends. What was written before a
    stop is there in the end, and none of its programs ran after it. Says how often it was stopped.
    SETTLED waits until nothing runs of what was under way."""
    chance, stopped, frozen, before = random.Random(7), 0, {}, b""
    while True:
        running = start("batch", str(notes.input), *notes.flags, "-o", str(out),
                        *(["--resume"] if out.exists() else []))
        try:
            assert running.wait(chance.uniform(0.03, 0.6) if stopped < stops else 600) == 0
            break
        except subprocess.TimeoutExpired:
            running.send_signal(how)
            running.wait(120)
            stopped += 1
            settled()
        had = whole_lines(out)
        assert had.startswith(before)
        before, counts = had, notes.counts()
        for name, count in counts.items():
            if int(name.split("-")[0]) in ids(had):
                assert frozen.setdefault(name, count) == count, name
    counts = notes.counts()
    assert {name: counts[name] for name in frozen} == frozen
    assert ids(whole_lines(out)) == {row["id"] for row in notes.rows} and out.read_bytes() == whole_lines(out)
    assert whole_lines(out).startswith(before)
    assert set(counts) == set(notes.once()) and all(counts[n] >= c for n, c in notes.once().items())
    return stopped


def judged(path):
    """Its lines, by row."""
    return sorted((json.loads(line) for line in path.read_bytes().splitlines()), key=lambda row: row["index"])
