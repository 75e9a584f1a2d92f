# SPDX-License-Identifier: Apache-2.0
"""units.py LIST RESULTS: runs the unit tests that LIST (JSON) names, two at a time, and
leaves what each says as junit."""
import concurrent.futures
import json
import os
import subprocess
import sys
from xml.sax.saxutils import escape

LIMIT_S = 1800
LOST = """<testsuites><testsuite name="%s"><testcase name="the program itself"><failure>%s
</failure></testcase></testsuite></testsuites>"""


def run(row, results):
    path = os.path.join(results, "unit_%s.xml" % row["name"])
    try:
        done = subprocess.run(row["command"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=LIMIT_S,
                              env={**os.environ, **row["env"], "CMOCKA_MESSAGE_OUTPUT": "XML",
                                   "CMOCKA_XML_FILE": path})
        status, said = done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        status, said = "none after %d s" % LIMIT_S, ""
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(LOST % (row["name"], escape("status %s\n%s" % (status, said[-2000:]))))
    with open(os.path.join(results, "unit_%s.log" % row["name"]), "w", encoding="utf-8") as file:
        file.write("status %s\n%s" % (status, said))


def main(listed, results):
    with open(listed, encoding="utf-8") as file:
        rows = json.load(file)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda row: run(row, results), rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
