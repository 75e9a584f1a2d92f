# SPDX-License-Identifier: Apache-2.0
"""What the five documents promise in milliseconds and megabytes is measured, on both
drivers; how much it is depends on the machine, and nothing here asserts it. The table
goes to the results, where `make requirements` finds it."""
import json
import os
import subprocess

from conftest import VIAL

DURATIONS = {"K-02", "K-03", "A-11", *("NFR-020-%02d" % n for n in
                                       (1, 2, 3, 5, 6, 7, 8, 9, 11, 12))}
ENGINE_ONLY = {"NFR-020-09", "NFR-020-12"}


def test_every_duration_that_a_document_promises_is_measured(api, env, tmp_path):
    api.tag("python:3.11-slim", "klaw-sandbox:latest")
    where = os.path.join(os.environ.get("VIAL_BUILD", str(tmp_path)), "test")
    os.makedirs(where, exist_ok=True)
    table = os.path.join(where, "durations.json")
    done = subprocess.run([VIAL, "bench", "--requirements", "--rounds", "5", "--output", table],
                          env=env, cwd="/", capture_output=True, text=True, timeout=600)
    print(done.stdout + done.stderr)
    assert done.returncode == 0 and "not measured" not in done.stderr
    with open(table, encoding="utf-8") as file:
        rows = json.load(file)["promises"]
    assert {r["id"] for r in rows} == DURATIONS
    assert all(r["p50"] >= 0 and r["worst"] >= r["p50"] and r["most"] > 0 for r in rows)
    for driver in "native", "docker":
        missing = ENGINE_ONLY if driver == "native" else set()
        assert {r["id"] for r in rows if r["driver"] == driver} == DURATIONS - missing
