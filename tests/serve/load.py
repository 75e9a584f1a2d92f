# SPDX-License-Identifier: Apache-2.0
"""load.py [--help]: what many callers feel of one who means no good. Others hold connections
and sessions, and send runs at a steady rate, first alone, then beside one hostile caller who
does all attacks of load_hostile.py at once. Told are: the others' times with and without it,
memory, descriptors and kept files of front and keeper at the start and at the end, and how
long /healthz and /readyz took at most. It fails when an answer was wrong or missing; times
are told and, with --judge, judged. Root only.

A rate that this machine cannot give beside all else is lowered to half of what it can, and
that is said: who waits for a core of the clients' measures the clients.

Clients have machines of their own, and take no processor of the daemon's. Here they share one.
So that the daemon is measured, and not this: the daemon has a session of its own, as it has
under an init system; those who measure come before it; and the hostile client has only what
nobody else wants. The kernel weighs sessions before it weighs processes (autogroups), so that
niceness alone would say little. Both phases have the same connections, sessions and rate."""
import argparse
import asyncio
import collections
import contextlib
import hashlib
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from daemon import Daemon, wait_until  # noqa: E402
from soak import descendants  # noqa: E402

RATIO, HEALTH_MS, GROWTH = 3.0, 50.0, 1.25  # what is wanted
RUN = {"language": "bash", "code": "echo $((6*7))"}


def secret(name):
    return "load-token-of-%s-0123456789abcdef" % name


def setting(text):
    """NAME=VALUE, a number if it is one."""
    name, _, value = text.partition("=")
    return name, int(value) if value.isdigit() else value


def weigh(nice):
    """How this process counts for the scheduler, and its session, where that is a group."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as file:
        file.write(str(nice))


@contextlib.contextmanager
def before_others():
    weigh(-20)
    try:
        yield
    finally:
        weigh(0)


class Failed(Exception):
    """An answer that is none of the expected ones."""


class Client:
    """One connection that is kept; asyncio, HTTP/1.1."""

    def __init__(self, port, caller):
        self.port, self.reader, self.writer = port, None, None
        self.head = "Host: localhost\r\nAuthorization: Bearer %s\r\n" % secret(caller)
        self.busy = asyncio.Lock()

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port,
                                                                 limit=1 << 16)

    async def body(self, headers):
        if "chunked" in headers.get("transfer-encoding", ""):
            parts = []
            while True:
                size = int((await self.reader.readline()).split(b";")[0], 16)
                parts.append((await self.reader.readexactly(size + 2))[:-2])
                if size == 0:
                    return b"".join(parts)
        return await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def ask(self, method, path, body=None):
        async with self.busy:
            if not self.writer:
                await self.open()
            data = json.dumps(body).encode() if body is not None else b""
            try:
                self.writer.write(("%s %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n" % (
                    method, path, self.head, len(data))).encode() + data)
                status = int((await self.reader.readline()).split()[1])
                headers = {}
                while (line := (await self.reader.readline()).strip()):
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                answer = await self.body(headers)
            except (OSError, IndexError, ValueError, asyncio.IncompleteReadError) as error:
                self.close()
                raise Failed("lost: %s" % type(error).__name__) from error
            if headers.get("connection") == "close":
                self.close()
            return status, answer

    def close(self):
        if self.writer:
            self.writer.close()
        self.writer = None


class Others:
    """The callers who mean well."""

    def __init__(self, options, port):
        self.o, self.port = options, port
        self.callers = ["caller%d" % i for i in range(options.callers)]
        self.clients, self.sessions = [], []
        self.turn, self.wrong = 0, collections.Counter()
        self.parts = collections.defaultdict(list)  # of runs, as the daemon says
        self.starts = collections.Counter()

    async def each(self, count, width, act):
        """COUNT times, WIDTH of them at once."""
        gate = asyncio.Semaphore(width)

        async def one(i):
            async with gate:
                return await act(i)
        return await asyncio.gather(*(one(i) for i in range(count)))

    async def connect(self):
        async def one(i):
            client = Client(self.port, self.callers[i % len(self.callers)])
            status, _ = await client.ask("GET", "/v1/version")
            if status != 200:
                raise Failed("connect: %d" % status)
            self.clients.append(client)
        await self.each(self.o.connections, 64, one)

    async def open_sessions(self):
        async def one(i):
            client = self.clients[i % len(self.clients)]
            status, answer = await client.ask("POST", "/v1/sessions", {"lease": "24h", "idle": "24h"})
            if status not in (200, 201):
                raise Failed("session: %d %r" % (status, answer[:200]))
            self.sessions.append((client, json.loads(answer)["id"]))
        await self.each(self.o.sessions, 8, one)

    def next_client(self):
        """The next that has nothing to do: all of them get their turn."""
        for _ in self.clients:
            self.turn = (self.turn + 1) % len(self.clients)
            if not self.clients[self.turn].busy.locked():
                break
        return self.clients[self.turn]

    async def run(self):
        status, answer = await self.next_client().ask("POST", "/v1/run", RUN)
        if status != 200 or json.loads(answer).get("stdout") != "42\n":
            raise Failed("run: %d %s" % (status, code_of(answer)))
        for name, ms in json.loads(answer)["timing"].items():
            self.parts[name].append(ms / 1000)
        self.starts[json.loads(answer)["start"]] += 1

    async def use_session(self, i):
        client, sid = self.sessions[i % len(self.sessions)]
        status, answer = await client.ask("POST", "/v1/sessions/%s/exec?wait=1" % sid,
                                          {"shell": "echo $((6*7))"})
        if status != 200 or json.loads(answer).get("stdout") != "42\n":
            raise Failed("exec: %d %s" % (status, code_of(answer)))

    async def timed(self, act, begun, times):
        try:
            await act
            times.append(time.monotonic() - begun)
        except Failed as error:
            self.wrong[str(error)] += 1

    async def steady(self, rate, seconds):
        """Sent by the clock, whatever has come back; a run's time begins when it was due."""
        runs, execs, tasks = [], [], set()
        self.parts.clear()
        self.starts.clear()
        begun = time.monotonic()
        for n in range(max(1, int(rate * seconds))):
            due = begun + n / rate
            await asyncio.sleep(max(0, due - time.monotonic()))
            todo = [self.timed(self.run(), due, runs)]
            if self.sessions and n % 10 == 0:
                todo.append(self.timed(self.use_session(n // 10), due, execs))
            for act in todo:
                task = asyncio.create_task(act)
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        return runs, execs, {name: [percentile(times, share) for share in (0.5, 0.99)]
                             for name, times in self.parts.items()}

    async def capacity(self, seconds):
        """Runs a second, when the next is sent as soon as one has ended."""
        end, times = time.monotonic() + seconds, []

        async def worker():
            while time.monotonic() < end:
                await self.timed(self.run(), time.monotonic(), times)
        await asyncio.gather(*(worker() for _ in range(8)))
        return len(times) / seconds


def code_of(answer):
    with contextlib.suppress(ValueError, AttributeError):
        value = json.loads(answer)
        error = value.get("error") or {}
        return "%s (%s)" % (error.get("code") or value.get("verdict"), error.get("message"))
    return repr(answer[:80])


def probe(port, phase, pipe):
    """In a process of its own, before others: health as a stranger sees it."""
    import http.client
    os.setsid()
    weigh(-20)
    worst, bad, count = {}, collections.Counter(), 0
    while phase.value >= 0:
        for path in ("/healthz", "/readyz"):
            begun = time.monotonic()
            try:
                # From elsewhere than where too many strangers come from.
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=30,
                                               source_address=("127.0.0.2", 0))
                c.request("GET", path)
                status = c.getresponse().status
                c.close()
                if status != 200:
                    bad["%s: %d" % (path, status)] += 1
            except (OSError, http.client.HTTPException) as error:
                bad["%s: %s" % (path, type(error).__name__)] += 1
            key = (phase.value, path)
            worst[key] = max(worst.get(key, 0), 1000 * (time.monotonic() - begun))
            count += 1
        time.sleep(0.1)
    pipe.send((worst, bad, count))


def kept_bytes(pid):
    """Of files that have no name any more."""
    total = 0
    for fd in os.listdir("/proc/%d/fd" % pid):
        path = "/proc/%d/fd/%s" % (pid, fd)
        with contextlib.suppress(OSError):
            if os.readlink(path).endswith(" (deleted)"):
                total += os.stat(path).st_blocks * 512
    return total


def sample(d):
    """Memory, descriptors and kept files of front and keepers."""
    found = {}
    family = {d.process.pid: "front"}
    family.update({pid: name for pid, name in descendants(d.process.pid).items()
                   if name.startswith("vial-keeper")})
    for pid, name in sorted(family.items()):
        with contextlib.suppress(OSError, StopIteration):
            with open("/proc/%d/status" % pid, encoding="ascii") as file:
                rss = next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))
            before = found.get(name, (0, 0, 0))
            found[name] = (before[0] + rss, before[1] + len(os.listdir("/proc/%d/fd" % pid)),
                           before[2] + kept_bytes(pid) / (1 << 20))
    return found


class Processors:
    """What part of all processors' time was used since it was made, and by these clients."""

    def __init__(self):
        self.then = self.look()

    @staticmethod
    def look():
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(t) for t in file.readline().split()[1:9]]
        own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF,
                                                          resource.RUSAGE_CHILDREN))
        idle = ticks[3] + ticks[4]
        return {"all": sum(ticks), "used": sum(ticks) - idle, **{
            name: (r.ru_utime + r.ru_stime) * os.sysconf("SC_CLK_TCK")
            for name, r in (("those who measure", own), ("the hostile client", ended))}}

    def told(self):
        now = self.look()
        spent = {name: now[name] - self.then[name] for name in now}
        return {name: round(ticks / max(1, spent["all"]), 2)
                for name, ticks in spent.items() if name != "all"}


def percentile(times, share):
    times = sorted(times)
    return 1000 * times[min(len(times) - 1, int(len(times) * share))] if times else float("nan")


class Load:
    def __init__(self, options):
        self.o = options
        self.dir = tempfile.TemporaryDirectory(prefix="vial-load-")
        names = ["caller%d" % i for i in range(options.callers)] + ["hostile"]
        path = self.dir.name + "/tokens"
        os.chmod(self.dir.name, 0o755)
        with open(path, "w", encoding="utf-8") as file:
            json.dump([{"name": n, "scopes": ["run", "session", "read"],
                        "sha256": hashlib.sha256(secret(n).encode()).hexdigest()}
                       for n in names], file)
        os.chmod(path, 0o644)
        share = options.sessions // options.callers
        self.serve = {"tokens": path, "connections": options.connections + 4000,
                      "sessions": options.sessions + 200, "caller_sessions": share + 50,
                      "caller_concurrency": 2 * (os.cpu_count() or 2), "idle": "1h",
                      "log": "none", **dict(setting(s) for s in options.set)}
        self.daemon = Daemon(serve=self.serve, tcp=True, args=["--log", "json"])
        self.daemon.command = ["setsid", *self.daemon.command]
        self.told = {"settings": {k: v for k, v in self.serve.items() if k != "tokens"}}
        self.bad = []

    def hostile(self):
        """Gives up what it has after its time."""
        if not self.o.attacks:
            return None
        return subprocess.Popen(
            [sys.executable, os.path.join(HERE, "load_hostile.py"), str(self.daemon.port),
             secret("hostile"), str(self.o.seconds), self.o.attacks],
            stdout=subprocess.PIPE, text=True, close_fds=True, start_new_session=True)

    async def clean_up(self):
        """What the hostile one still may have is no growth: its sessions end."""
        client = Client(self.daemon.port, "hostile")
        _, answer = await client.ask("GET", "/v1/sessions")
        for session in json.loads(answer):
            await client.ask("DELETE", "/v1/sessions/" + session["id"])
        client.close()

    async def phases(self, others, phase):
        await others.connect()
        await others.open_sessions()
        can = await others.capacity(min(5, self.o.seconds / 5))
        rate = min(self.o.rate, can / 2)
        self.told.update(capacity=round(can, 1), rate=round(rate, 1))
        if rate < self.o.rate:
            print("this machine gives %.0f runs a second beside all else; asked are %.0f in "
                  "place of %.0f" % (can, rate, self.o.rate), flush=True)
        processors = Processors()
        calm = await others.steady(rate, self.o.calm)
        self.told["processors"] = {"alone": processors.told()}
        self.told["start"] = sample(self.daemon)
        phase.value = 1
        processors = Processors()
        attacker = self.hostile()
        storm = await others.steady(rate, self.o.seconds)
        if attacker:
            said, _ = await asyncio.to_thread(attacker.communicate, None, 120)
            self.told["hostile"] = json.loads(said)
        self.told["processors"]["beside"] = processors.told()
        if attacker:
            await self.clean_up()
        await asyncio.sleep(self.o.rest)
        self.told["end"] = sample(self.daemon)
        await others.each(min(50, len(others.sessions)), 8,
                          lambda i: others.timed(others.use_session(i * 7), 0, []))
        return calm, storm

    def go(self):
        phase = multiprocessing.Value("i", 0)
        ours, theirs = multiprocessing.Pipe()
        with self.daemon as d, before_others():
            prober = multiprocessing.Process(target=probe, args=(d.port, phase, theirs))
            prober.start()
            others = Others(self.o, d.port)
            try:
                calm, storm = asyncio.run(self.phases(others, phase))
            finally:
                phase.value = -1
            worst, bad, count = ours.recv()
            prober.join()
            self.report(calm, storm, others, worst, bad, count)
            if not wait_until(lambda: d.stop(timeout=120) == 0, 1):
                self.bad.append("the daemon did not end well")
        self.dir.cleanup()

    def compare(self, name, calm, storm):
        p50 = [percentile(t, 0.5) for t in (calm, storm)]
        p99 = [percentile(t, 0.99) for t in (calm, storm)]
        ratio = p99[1] / p99[0] if p99[0] else float("nan")
        self.told[name] = {"p50_ms": p50, "p99_ms": p99, "ratio": ratio,
                           "count": [len(calm), len(storm)]}
        print("%-8s alone: p50 %.1f ms, p99 %.1f ms (%d); beside the hostile one: p50 %.1f ms, "
              "p99 %.1f ms (%d); p99 %.2f times" % (name, p50[0], p99[0], len(calm), p50[1],
                                                    p99[1], len(storm), ratio))
        return ratio

    def goal(self, what, held):
        self.told.setdefault("goals", {})[what] = held
        print("%-60s %s" % (what, "held" if held else "NOT held"))
        if self.o.judge and not held:
            self.bad.append(what)

    def report(self, calm, storm, others, worst, bad, count):
        ratio = self.compare("runs", calm[0], storm[0])
        self.compare("execs", calm[1], storm[1])
        self.told["parts_p50_p99_ms"] = {name: [calm[2][name], storm[2].get(name, [0, 0])]
                                         for name in calm[2]}
        print("runs, as the daemon says, p50 and p99 in ms, alone; beside: " + ", ".join(
            "%s %.1f %.1f; %.1f %.1f" % (n, *a, *b)
            for n, (a, b) in sorted(self.told["parts_p50_p99_ms"].items())))
        self.told["starts"] = dict(others.starts)
        print("beside the hostile one, vessels were " + ", ".join(
            "%s %d times" % each for each in sorted(others.starts.items())))
        for phase, parts in self.told["processors"].items():
            print("processors, %s: %s" % (phase, ", ".join(
                "%.0f %% %s" % (100 * part, "used" if name == "used" else "by " + name)
                for name, part in parts.items())))
        for name in self.told["start"]:
            a, b = self.told["start"][name], self.told["end"].get(name, (0, 0, 0))
            print("%-16s at the start: %.1f MiB, %d descriptors, %.1f MiB kept; at the end: "
                  "%.1f MiB, %d, %.1f MiB" % (name, *a, *b))
        health = {"%s %s" % ("storm" if k[0] else "calm", k[1]): round(v, 1)
                  for k, v in sorted(worst.items())}
        self.told["health_worst_ms"] = health
        print("health: %d asked, longest in ms: %s" % (count, health))
        print("hostile: %s" % json.dumps(self.told.get("hostile")))
        front, end = self.told["start"]["front"], self.told["end"]["front"]
        self.goal("others' p99 within %g times" % RATIO, ratio <= RATIO)
        self.goal("/healthz and /readyz within %g ms" % HEALTH_MS, max(worst.values()) <= HEALTH_MS)
        self.goal("the front's memory within %g times" % GROWTH, end[0] <= front[0] * GROWTH)
        self.goal("the front's descriptors as before", end[1] <= front[1] + 64)
        if others.wrong:
            self.bad.append("wrong answers: %s" % dict(others.wrong.most_common(8)))
        if bad:
            self.bad.append("health: %s" % dict(bad))


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    p.add_argument("--seconds", type=float, default=600, help="beside the hostile caller")
    p.add_argument("--calm", type=float, default=60, help="seconds before that")
    p.add_argument("--rest", type=float, default=15, help="seconds after it, before the end is measured")
    p.add_argument("--connections", type=int, default=10000)
    p.add_argument("--sessions", type=int, default=1000)
    p.add_argument("--rate", type=float, default=300, help="runs a second")
    p.add_argument("--callers", type=int, default=20)
    p.add_argument("--attacks", default="1,2,3,4,5,6,7,8", help='which; "": none')
    p.add_argument("--set", action="append", default=[], help="NAME=VALUE of the daemon's serve")
    p.add_argument("--judge", action="store_true", help="times that are not as wanted are a failure")
    p.add_argument("--json", help="a file for all figures")
    return p.parse_args()


def main():
    o = options()
    most = max(65536, 4 * o.connections)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    load = Load(o)
    load.go()
    if o.json:
        with open(o.json, "w", encoding="utf-8") as file:
            json.dump(load.told, file, indent=1)
    for line in load.bad:
        print("FAILED: " + line)
    return 1 if load.bad else 0


if __name__ == "__main__":
    sys.exit(main())
