# SPDX-License-Identifier: Apache-2.0
"""figures.py [SESSIONS]: what the daemon costs, as one run tells it: memory at rest, a warm
run over the unix socket against a bare interpreter, and what open sessions take. Memory of
sessions is what the kernel charges a cgroup of our own: processes, page tables, page cache
and kernel objects of all of them together. Root only, cgroup v1 or v2."""
import json
import os
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import Daemon, wait_until  # noqa: E402

RUNS = 200


class Group:
    """A memory cgroup below our own, which we enter."""

    def __init__(self):
        with open("/proc/self/cgroup", encoding="ascii") as file:
            paths = {line.split(":")[1]: line.rstrip("\n").split(":", 2)[2] for line in file}
        self.old = "memory" not in paths
        top = "/sys/fs/cgroup" + ("" if self.old else "/memory") + paths["" if self.old else "memory"]
        self.top, self.path = top, os.path.join(top, "figures-%d" % os.getpid())
        self.usage = "memory.current" if self.old else "memory.usage_in_bytes"
        os.mkdir(self.path)

    def enter(self, path=None):
        with open(os.path.join(path or self.path, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))

    def used(self):
        with open(os.path.join(self.path, self.usage), encoding="ascii") as file:
            return int(file.read())

    def close(self):
        self.enter(self.top)
        wait_until(lambda: not [d for d in os.listdir(self.path)
                                if os.path.isdir(os.path.join(self.path, d))], 60)
        os.rmdir(self.path)


def lucky(values):
    """The fastest tenth's slowest: how it is on a machine that does nothing else."""
    return sorted(values)[len(values) // 10]


def percentiles(values):
    values = sorted(values)
    return "p10 %.2f ms, median %.2f ms, p95 %.2f ms" % tuple(
        1000 * v for v in (lucky(values), statistics.median(values), values[len(values) * 95 // 100]))


def measure_warm():
    """Bare and warm runs take turns, so that both meet the same machine."""
    with Daemon(serve={"warm": ["python"], "history": 10, "log": "none"}, args=["--log", "json"]) as d:
        body = json.dumps({"language": "python", "code": "pass"})
        wait_until(lambda: d.ask("GET", "/v1/pool").body.count(b'"idle":0') == 0)
        c = d.connect()
        warm, bare, starts = [], [], []
        for _ in range(RUNS):
            begun = time.monotonic()
            subprocess.run(["/usr/bin/python3", "-c", "pass"], check=True)
            bare.append(time.monotonic() - begun)
            time.sleep(0.05)  # a caller that thinks; the pool fills up meanwhile
            begun = time.monotonic()
            c.request("POST", "/v1/run", body)
            result = json.loads(c.getresponse().read())
            warm.append(time.monotonic() - begun)
            starts.append(result["start"])
        print("bare python3 -c pass: %s" % percentiles(bare))
        print("warm run over the unix socket: %s; %d of %d warm" % (
            percentiles(warm), starts.count("warm"), RUNS))
        print("ratio: %.3f of medians, %.3f of p10" % (
            statistics.median(warm) / statistics.median(bare), lucky(warm) / lucky(bare)))


def open_many(d, count, threads=8):
    made, lock = [], threading.Lock()

    def work():
        c = d.connect(300)
        while True:
            with lock:
                if len(made) >= count:
                    return
                made.append(None)
                place = len(made) - 1
            c.request("POST", "/v1/sessions", json.dumps({"lease": "1h", "idle": "1h"}))
            answer = c.getresponse()
            made[place] = json.loads(answer.read())["id"]
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    return made


def measure_sessions(count):
    group = Group()
    group.enter()
    try:
        with Daemon(serve={"sessions": count + 10}) as d:
            d.run("true")
            time.sleep(2)
            print("front at rest: %.1f MB resident" % (d.rss() / 1e6))
            before = group.used()
            begun = time.monotonic()
            made = open_many(d, count)
            took = time.monotonic() - begun
            each = (group.used() - before) / count
            print("%d sessions opened in %.0f s: %.2f MB each; front %.1f MB"
                  % (count, took, each / 1e6, d.rss() / 1e6))
            c = d.connect(300)
            for name in made:
                c.request("POST", "/v1/sessions/%s/exec" % name,
                          json.dumps({"argv": ["bash"], "stdin_live": True}))
                assert c.getresponse().read()
            time.sleep(3)
            print("with a live bash in each: %.2f MB each" % ((group.used() - before) / count / 1e6))
            assert d.ask("POST", "/v1/sessions/%s/exec?wait=1" % made[-1],
                         {"shell": "echo alive"}).json["stdout"] == "alive\n"
            for name in made:
                c.request("DELETE", "/v1/sessions/" + name)
                c.getresponse().read()
            assert wait_until(lambda: not d.vessels(), 120)
            assert d.stop() == 0
            return each
    finally:
        group.close()


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    measure_warm()
    measure_sessions(count)


if __name__ == "__main__":
    main()
