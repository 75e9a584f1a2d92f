# SPDX-License-Identifier: Apache-2.0
"""soak.py SECONDS [CLIENTS]: the daemon under load while things go wrong. Clients want
runs of every verdict, on vessels of our own and on those of a container engine; every
second one of them is killed; the engine is restarted twice, the keepers are killed once.
Then: each run that was accepted has one result and one audit record which say the same,
and nothing is left: no process, mount, cgroup, container, descriptor, file, or memory.

It runs in a mount namespace with a /tmp of its own, and is the parent of all that lost
theirs: so whatever is found there is the daemon's doing.
"""
import ctypes
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PR_SET_CHILD_SUBREAPER = 36
GRACE = 5  # seconds in which a fault may still be felt by runs that begin
IMAGE = {"driver": "docker", "image": "vial-test-small:1"}
NATIVE = [("true", {}, "ok"), ("echo $((6*7))", {}, "ok"), ("exit 2", {}, "nonzero"),
          ("kill -11 $$", {}, "signal"), ("sleep 30", {"timeout": "0.1s"}, "timeout"),
          ("head -c 100000 /dev/zero", {"output_max": "10k"}, "output_limit"),
          ("x=0123456789; while :; do x=$x$x; done", {"memory": "16m"}, "oom"),
          ("true", {"memory": "100g"}, "denied")]
DOCKER = [("true", {}, "ok"), ("exit 3", {}, "nonzero"), ("kill -11 $$", {}, "signal"),
          ("while :; do :; done", {"timeout": "0.3s"}, "timeout"),
          ("while :; do echo 0123456789012345; done", {"output_max": "10k"}, "output_limit"),
          ("true", {"memory": "100g"}, "denied")]
LONG = {"native": "sleep 20", "docker": "coproc cat; read -u ${COPROC[0]}"}  # no sleep there


def private(seconds, clients):
    """The same program with a /tmp of its own; what lies there now is seen below /mnt."""
    build = os.path.dirname(os.path.realpath(os.environ.get("VIAL", ROOT + "/build/vial")))
    script = ('mount --bind "$1" /mnt && mount --bind "$2" /media && '
              'mount -t tmpfs -o mode=1777 tmpfs /tmp && cd /mnt && '
              'exec env VIAL=/media/vial SOAK_PRIVATE=1 /usr/bin/python3 '
              '/mnt/tests/serve/soak.py "$3" "$4"')
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", script, "sh", ROOT, build,
                          str(seconds), str(clients)])


def stat_of(pid):
    """Parent, state, start time and name."""
    try:
        with open("/proc/%s/stat" % pid, encoding="utf-8", errors="replace") as file:
            name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
    except OSError:
        return None
    words = rest.split()
    return int(words[1]), words[0], words[19], name


def descendants(root):
    """Living ones, with their names."""
    parents = defaultdict(list)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        found = stat_of(pid)
        if found:
            parents[found[0]].append((int(pid), found[1], found[3]))
    family, todo = {}, [root]
    while todo:
        for pid, state, name in parents[todo.pop()]:
            todo.append(pid)
            if state not in "ZX":
                family[pid] = name
    return family


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return {line.split()[4] for line in file}


def dead_groups():
    """Cgroups of vessels whose owner is gone; of owners whose numbers are ours to judge."""
    found, space = set(), os.stat("/proc/self/ns/pid").st_ino
    for where, dirs, _files in os.walk("/sys/fs/cgroup"):
        for name in dirs:
            owner = re.match(r"vial-%d-(\d+)-(\d+)" % space, name)
            now = stat_of(owner[1]) if owner else None
            if owner and (not now or now[2] != owner[2]):
                found.add(os.path.join(where, name))
    return found


def memory(pid):
    try:
        with open("/proc/%d/status" % pid, encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file
                        if line.startswith("VmRSS"))
    except (OSError, StopIteration):
        return None


def fds(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


class Soak:
    def __init__(self, daemon, engine, seconds, clients):
        self.d, self.engine, self.seconds, self.clients = daemon, engine, seconds, clients
        self.begin = time.monotonic()
        self.stop = self.begin + seconds
        self.lock = threading.Lock()
        self.answers = {}            # request id: (driver, wanted, got, code, run, from, to)
        self.killed, self.bad = [], []
        self.faults = []             # (what, from, to)
        self.sizes = defaultdict(list)

    def roles(self):
        """Front and keepers by role: process numbers."""
        found = {"front": self.d.process.pid}
        family = descendants(self.d.process.pid)
        for pid, name in family.items():
            if name.startswith("vial-keeper"):
                parent = stat_of(pid)
                with open("/proc/%d/cmdline" % pid, "rb") as file:
                    program = os.path.basename(file.read().split(b"\0")[0].decode())
                inner = parent and parent[0] in family
                found[program + ("" if inner else " (starter)")] = pid
        return found

    def client(self, n):
        driver = "docker" if n % 8 == 0 else "native"
        cases = DOCKER if driver == "docker" else NATIVE
        image = IMAGE if driver == "docker" else {}
        turn = n
        connection = None
        while time.monotonic() < self.stop:
            code, fields, wanted = cases[turn % len(cases)]
            turn += 1
            name = "soak-%d-%d" % (n, turn)
            begun = time.monotonic()
            try:
                connection = connection or self.d.connect(timeout=120)
                connection.request("POST", "/v1/run", headers={"X-Request-Id": name},
                                   body=json.dumps({"language": "bash", "code": code,
                                                    **image, **fields}))
                answer = connection.getresponse()
                status, result = answer.status, json.loads(answer.read())
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.bad.append((name, repr(error)))
                connection = None
                continue
            if "verdict" not in result:
                self.bad.append((name, status, result))
                continue
            error = result.get("error") or {}
            with self.lock:
                self.answers[name] = (driver, wanted, result["verdict"], error.get("code"),
                                      result["id"], begun, time.monotonic())
            if error.get("code") in ("VIAL-ENGINE-DOWN", "VIAL-ENGINE-MISSING"):
                time.sleep(0.2)  # as a client would
        if connection:
            connection.close()

    def killer(self):
        """A program that asks, and is killed before it has its answer."""
        turn = 0
        while time.monotonic() < self.stop:
            turn += 1
            driver = "docker" if turn % 4 == 0 else "native"
            body = {"language": "bash", "code": LONG[driver], "timeout": "60s",
                    **(IMAGE if driver == "docker" else {})}
            name = "killed-%d" % turn
            client = subprocess.Popen(
                ["curl", "-s", "--unix-socket", self.d.socket, "-H", "X-Request-Id: " + name,
                 "-d", json.dumps(body), "http://localhost/v1/run"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1)
            client.kill()
            client.wait()
            self.killed.append(name)

    def restart_engine(self):
        begun = time.monotonic()
        how = signal.SIGKILL if self.faults else signal.SIGTERM
        self.engine.stop_daemon(how)
        self.engine.start_daemon()
        self.faults.append(("engine", begun, time.monotonic() + GRACE))

    def kill_keepers(self):
        begun = time.monotonic()
        for role, pid in self.roles().items():
            if role.startswith("vial-keeper") and not role.endswith("(starter)"):
                os.kill(pid, signal.SIGKILL)
        self.faults.append(("keeper", begun, begun + GRACE))

    def watch(self):
        """Things go wrong at a quarter, a half and three quarters of the time."""
        plan = [(0.25, self.restart_engine), (0.5, self.kill_keepers),
                (0.7, self.restart_engine)]
        while time.monotonic() < self.stop:
            if plan and time.monotonic() > self.begin + plan[0][0] * self.seconds:
                plan.pop(0)[1]()
            for role, pid in self.roles().items():
                size = memory(pid)
                if size:
                    self.sizes[role].append((time.monotonic(), size))
            time.sleep(min(1, self.seconds / 100))

    def run(self):
        threads = [threading.Thread(target=self.client, args=(n,)) for n in range(self.clients)]
        threads.append(threading.Thread(target=self.killer))
        for t in threads:
            t.start()
        self.watch()
        for t in threads:
            t.join(180)
        if any(t.is_alive() for t in threads):
            self.bad.append("a client has no answer 180 s after the end")

    # What must be true afterwards.

    def excused(self, answer):
        """Lost with a keeper or an engine that was ended while the run went on."""
        driver, _wanted, _got, _code, _run, begun, ended = answer
        return any(begun < to and ended > since for what, since, to in self.faults
                   if what == "keeper" or driver == "docker")

    def judge_answers(self):
        lost = Counter()
        for name, answer in self.answers.items():
            if answer[1] == answer[2]:
                continue
            if self.excused(answer) and (answer[2] == "failed" or answer[3]):
                lost["%s %s %s" % (answer[0], answer[2], answer[3])] += 1
            else:
                self.bad.append((name, answer))
        runs = Counter(a[4] for a in self.answers.values())
        self.bad += [("answered twice", run) for run, n in runs.items() if n > 1]
        return lost

    def judge_records(self, path):
        """Two records for what was begun, one for a refusal; and they say the same."""
        begun, ended = Counter(), defaultdict(list)
        with open(path, encoding="utf-8") as file:
            for record in map(json.loads, file):
                name = (record.get("caller") or {}).get("correlation")
                if record["event"] == "begin":
                    begun[name] += 1
                elif record["event"] == "run":
                    ended[name].append(record)
        for name, answer in self.answers.items():
            records = ended.get(name, [])
            if len(records) != 1 or records[0]["verdict"] != answer[2] or \
                    records[0]["run"] != answer[4] or begun[name] > 1:
                self.bad.append(("records", name, answer, [r["verdict"] for r in records]))
        for name in set(begun) | set(ended):
            if begun[name] > 1 or len(ended.get(name, [])) != 1:
                self.bad.append(("records", name, begun[name], len(ended.get(name, []))))
            if name not in self.answers and not (name or "").startswith("killed-"):
                self.bad.append(("recorded, not answered", name))
        return sum(map(len, ended.values()))

    def judge_memory(self):
        """Flat: the last quarter against the second, of the same process if it lived."""
        told = []
        for role, seen in sorted(self.sizes.items()):
            late = self.begin + self.seconds * 0.75
            early = self.begin + self.seconds * (0.55 if role != "front" else 0.25)
            first = [s for at, s in seen if early <= at < early + self.seconds * 0.15]
            last = [s for at, s in seen if at >= late]
            if not first or not last:
                continue
            a, b = statistics.median(first), statistics.median(last)
            told.append("%s %.1f -> %.1f MB" % (role, a / 1e6, b / 1e6))
            if b > a * 1.15 + 2e6:
                self.bad.append(("memory grew", told[-1]))
        return told


    def settle(self, what, left):
        """LEFT() becomes empty, or is told."""
        end = time.monotonic() + 90
        while left() and time.monotonic() < end:
            time.sleep(0.1)
        self.bad += [(what, one) for one in left()]

    def fds(self):
        return {role: fds(pid) for role, pid in self.roles().items()}

    def judge_rest(self, before):
        """Nobody asks any more, and the daemon still runs."""
        self.settle("vessel", self.d.vessels)
        self.settle("warden", lambda: [pid for pid, name in
                                       descendants(self.d.process.pid).items()
                                       if name == "vial-warden"])
        self.settle("container", lambda: [c["Id"][:12] for c in self.engine.api.ours()])
        self.settle("descriptors", lambda: [(role, n, before[role])
                                            for role, n in self.fds().items()
                                            if n > before.get(role, 0) + 2])
        text = self.d.ask("GET", "/metrics").body.decode()
        return sum(float(line.split()[1]) for line in text.splitlines()
                   if line.startswith("vial_runs_total{"))

    def judge_end(self, before):
        """The daemon has ended."""
        if self.d.stop() != 0:
            self.bad.append(("status", self.d.process.returncode, self.d.log()[-500:]))
        engine = self.engine.daemon.pid

        def processes():
            rest = set(descendants(os.getpid())) - set(descendants(engine)) - {engine}
            # A killed engine's own helpers stay; their containers were looked for above.
            return [(pid, stat_of(pid)) for pid in rest - before["processes"]
                    if not (stat_of(pid) or (0, 0, 0, ""))[3].startswith("containerd")]
        self.settle("process", processes)
        self.settle("cgroup", lambda: dead_groups() - before["groups"])
        self.bad += [("file", name) for name in set(os.listdir("/tmp")) - before["files"]]
        # What a killed engine was in the middle of mounting is its own.
        self.bad += [("mount", name) for name in mounts() - before["mounts"]
                     if not name.startswith(self.engine.dir)]

    def report(self, count, before, after, lost):
        kinds = Counter(fault[0] for fault in self.faults)
        print("%d clients, %.0f s, %d clients killed, engine restarted %d times, keepers "
              "killed %d times" % (self.clients, self.seconds, len(self.killed),
                                   kinds["engine"], kinds["keeper"]))
        print("%d answers: %s" % (len(self.answers), dict(sorted(Counter(
            "%s %s" % (a[0], a[2]) for a in self.answers.values()).items()))))
        print("told as lost with a keeper or engine:", dict(lost) or "none")
        print("%d audit records of ends, as many counted by /metrics" % count)
        print("resident:", "; ".join(self.judge_memory()))
        print("descriptors before and after:", before, after)
        for problem in self.bad[:20]:
            print("BAD", problem)
        print("%d problems" % len(self.bad))


def soak(d, engine, seconds, clients):
    from daemon import VIAL, clean_env
    path = d.dir + "/audit/log"
    d.settings["audit"] = {"path": path, "sync": "lazy", "rotate": "1g"}
    # What an engine was making when it was killed nobody has a name for; it is swept.
    d.settings["cleanup"] = {"interval": "20s"}
    groups = dead_groups()
    d.start()
    for number, fields in enumerate(({}, IMAGE)):
        answer = d.run("echo up", headers={"X-Request-Id": "killed-0%d" % number}, **fields)
        assert answer.json.get("stdout") == "up\n", answer.body
    s = Soak(d, engine, seconds, clients)
    ours = set(descendants(d.process.pid)) | {d.process.pid}
    before = {"processes": set(descendants(os.getpid())) - ours, "groups": groups,
              "files": set(os.listdir("/tmp")), "mounts": mounts()}
    at_first = s.fds()
    s.run()
    lost = s.judge_answers()
    counted = s.judge_rest(at_first)
    at_last = s.fds()
    s.judge_end(before)
    count = s.judge_records(path)
    if counted != count:
        s.bad.append(("counted", counted, "recorded", count))
    verified = subprocess.run([VIAL, "audit", "verify", path], capture_output=True,
                              text=True, env=clean_env(HOME=d.dir), check=False)
    if verified.returncode:
        s.bad.append(("audit", verified.stdout + verified.stderr))
    print(verified.stdout.strip())
    s.report(count, at_first, at_last, lost)
    return 1 if s.bad else 0


def main():
    seconds = float(sys.argv[1])
    clients = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    if not os.environ.pop("SOAK_PRIVATE", None):
        private(seconds, clients)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sys.path[:0] = [HERE, os.path.join(ROOT, "tests/docker")]
    from daemon import VIAL, Daemon
    from engine import Engine

    engine = Engine(os.path.join(os.path.dirname(VIAL), "docker"))
    d = Daemon(serve={"queue": 300, "queue_timeout": "10m", "history": 100, "slow": "120s"},
               env={"DOCKER_HOST": engine.address})
    try:
        engine.start_bare()
        engine.small()
        return soak(d, engine, seconds, clients)
    finally:
        d.close()
        engine.stop()


if __name__ == "__main__":
    sys.exit(main())
