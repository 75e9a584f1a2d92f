# SPDX-License-Identifier: Apache-2.0
"""What is planted on the host before the attacks, and what must still be true of
it after each of them (the corpus calls this H0).

Only what this run could have touched is looked at, so that others may use the machine
meanwhile. The tests have mounts, cgroups and a directory for temporary files of their own
(`Own`); what vial makes and what it starts is in there."""
import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import re
import secrets
import shutil
import socket
import tempfile
import threading
import time

PLACES = ["/", "/root", "/home", "/tmp", "/var/tmp", "/dev/shm"]
GROUPS = {"memory", "pids", "cpu", "cpuacct"}  # the hierarchies in which vial has groups
CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_SHARED = 0x20000, 0x4000, 1 << 18, 1 << 20
MNT_DETACH = 2
# Of container engines beside us: they go when a container does.
PASSING = re.compile(r"/(overlay2|containers|netns)/")
SYSCTLS = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
           "/proc/sys/vm/overcommit_memory", "/proc/sys/net/ipv4/ip_forward"]


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return None


def changed(before, now):
    """Lists may shrink (what another test left goes away), nothing may be added."""
    if isinstance(now, list):
        return not set(now) <= set(before)
    if isinstance(now, dict):
        return any(changed(before.get(k), v) for k, v in now.items())
    return before != now


def difference(before, now):
    """What tells most, on few lines."""
    if isinstance(now, list):
        return sorted(set(now) - set(before))
    return before, now


def owner_lives(text):
    """Whether the vial named in a cgroup's name still runs (another test's, say)."""
    m = re.search(r"vial-\d+-(\d+)-(\d+)-", text)
    stat = (read("/proc/%s/stat" % m[1]) or b"").decode() if m else ""
    return bool(stat) and stat.rsplit(")", 1)[1].split()[19] == m[2]


def makes_vessels(pid, name):
    """By its name, or by the library that it uses."""
    if name != "vial-init" and name.startswith(("vial", "test_", "mcp-fixture")):
        return True
    return b"/libvial.so" in (read("/proc/%s/maps" % pid) or b"")


def is_orphan(pid):
    while pid != "1":
        stat = read("/proc/%s/stat" % pid)
        if not stat:
            return False  # ended just now
        name, rest = stat.decode(errors="replace").split("(", 1)[1].rsplit(")", 1)
        if makes_vessels(pid, name):
            return False
        pid = rest.split()[1]
    return True


class Own:
    """What a process of tests and all that it starts have apart from the rest of the machine.
    Made once for a process, which must be root for it. For others, and where there are no
    hierarchies of cgroups but the unified one, the whole machine is looked at."""

    def __init__(self):
        self.name = "tests-of-%d" % os.getpid()
        self.groups, self.libc = [], ctypes.CDLL(None, use_errno=True)
        self.outside = os.open("/proc/self/ns/mnt", os.O_RDONLY)  # the machine's mounts
        if os.geteuid() == 0:
            self.enter_mounts()
            self.enter_groups()
            atexit.register(self.leave_groups)

    def enter_mounts(self):
        """None of others' comes in any more, and none of ours goes out; nor does what we see
        change when they take theirs away. Shared again, so that a vessel which does not make
        its own private is found out."""
        if self.libc.unshare(CLONE_NEWNS) == 0:
            for how in (MS_PRIVATE, MS_SHARED):
                self.libc.mount(None, b"/", None, ctypes.c_ulong(how | MS_REC), None)
            for line in reversed(mountinfo()):
                point = line.split(" ")[4]
                if PASSING.search(point):
                    self.libc.umount2(point.encode(), MNT_DETACH)

    def enter_groups(self):
        for base in group_directories():
            path = os.path.join(base, self.name)
            try:
                os.mkdir(path)
                put(path, os.getpid())
            except OSError:
                continue
            self.groups.append(path)

    def leave_groups(self):
        for path in self.groups:
            put(os.path.dirname(path), os.getpid())
            with contextlib.suppress(OSError):
                os.rmdir(path)

    def has_process(self, pid):
        """Those of a container are not below us, but below an engine of the tests."""
        if not self.groups:
            return True
        names = [self.name]
        engine = re.search(r"/vial-engine-(\w+)/", os.environ.get("DOCKER_HOST", ""))
        if engine:
            names.append("engine-of-tests-" + engine[1])
        text = (read("/proc/%s/cgroup" % pid) or b"").decode()
        return any("/%s" % name in text for name in names)


def look(line):
    """A mount as a vessel could change it. Not its parent's number, which is another one when
    somebody mounts below it; nor its file system's own settings, which are one for all of the
    machine, but for whether it can be written to."""
    mine, _, rest = line.partition(" - ")
    kind, source, settings = rest.split(" ")
    return " ".join([*mine.split(" ")[2:], kind, source, settings.split(",")[0]])


def mountinfo():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return file.read().splitlines()


def group_directories():
    """This process's group in each hierarchy (v1) that vial uses."""
    tops = {}
    for line in mountinfo():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup "):
            for word in GROUPS & set(rest.split(" ")[2].split(",")):
                tops[word] = (fields.split(" ")[4], fields.split(" ")[3])
    found = set()
    for line in read("/proc/self/cgroup").decode().splitlines():
        _, names, path = line.split(":", 2)
        for word in set(names.split(",")) & set(tops):
            top, root = tops[word]
            found.add(os.path.normpath(os.path.join(top, os.path.relpath(path, root))))
    return sorted(found)


def put(group, pid):
    with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
        file.write(str(pid))


@functools.cache
def own():
    return Own()


def vessel_processes():
    """The guest by its name, programs by the uids that vessels use."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        comm = read("/proc/%s/comm" % pid)
        try:
            uid = os.stat("/proc/" + pid).st_uid
        except OSError:
            continue
        if (uid >= 0x70000000 or (comm or b"").strip() in (b"vial-init", b"guest")) \
                and own().has_process(pid):
            found.append(pid)
    return found


class Listener:
    """Accepts on the host's loopback and an abstract unix socket; counts callers."""

    def __init__(self, canary):
        self.seen = 0
        tcp = socket.create_server(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        self.sockets = [tcp]
        try:
            self.sockets.append(socket.create_server(("::1", self.port),
                                                     family=socket.AF_INET6))
        except OSError:
            pass
        unix = socket.socket(socket.AF_UNIX)
        unix.bind("\0" + canary)
        unix.listen(8)
        self.sockets.append(unix)
        for s in self.sockets:
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        while True:
            try:
                s.accept()[0].close()
            except OSError:
                return
            self.seen += 1


class Host:
    def __init__(self):
        self.canary = "canary" + secrets.token_hex(8)
        self.secret = "secret" + secrets.token_hex(8)
        self.state = "/var/lib/" + self.canary + ".state"
        self.own = own()
        # vial's TMPDIR: short, since sockets are made there, and for users as well.
        self.tmp = tempfile.mkdtemp(prefix="t", dir="/tmp")
        os.chmod(self.tmp, 0o1777)
        self.planted = []
        self.plant()
        self.listener = Listener(self.canary)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.shm = self.libc.shmget(0x5B5B5B, 4096, 0o1666)
        self.msg = self.libc.msgget(0x5B5B5B, 0o1666)
        self.mqueue = ctypes.create_string_buffer(b"/" + self.canary.encode())
        small = (ctypes.c_long * 8)(0, 1, 1)  # a user's queues have few bytes in all
        mask = os.umask(0)  # anyone may open it who can find it
        queue = self.libc.mq_open(self.mqueue, os.O_CREAT | os.O_RDWR, 0o666, small)
        os.umask(mask)
        assert queue >= 0, os.strerror(ctypes.get_errno())
        self.before = self.picture()

    def plant(self):
        for place in PLACES + [self.state]:
            path = os.path.join(place, self.canary)
            try:
                os.makedirs(place, exist_ok=True)
                with open(path, "w") as f:
                    f.write(self.canary)
                os.chmod(path, 0o600)
                self.planted.append(path)
            except OSError:
                continue
        self.directory = "/var/tmp/" + self.canary + ".d"
        os.makedirs(self.directory)
        for i in range(3):
            path = os.path.join(self.directory, str(i))
            open(path, "w").write(self.canary)
            self.planted.append(path)

    def values(self):
        return {"CANARY": self.canary, "SECRET": self.secret, "STATE": self.state,
                "DAEMON": self.first_process(), "HPORT": self.listener.port}

    @staticmethod
    def first_process():
        """What the host's own first process is called, for attacks to look for."""
        line = (read("/proc/1/cmdline") or b"").replace(b"\0", b" ").decode().strip()
        line = line if re.fullmatch(r"[\w./ :=-]+", line) else line.split(" ")[0]
        return line if re.fullmatch(r"[\w./ :=-]{6,}", line) else "vial-keeper"

    def picture(self):
        """Everything that a run must leave as it was."""
        return {
            "mounts": sorted(map(look, mountinfo())),
            "cgroups": self.cgroups(),
            "processes": self.processes(),
            "canaries": {p: self.describe(p) for p in self.planted},
            "tmp": self.temporary(),
            "written": [d for d in ("/", "/etc", "/usr", "/bin", "/var", "/opt", "/srv")
                        if os.path.exists(os.path.join(d, ".w" + self.canary))],
            "foreign": [n for n in os.listdir("/var/tmp")
                        if self.canary in n and n not in (self.canary,
                                                          self.canary + ".d")],
            "sysctls": {s: read(s) for s in SYSCTLS},
            "connections": self.listener.seen,
        }

    @staticmethod
    def describe(path):
        try:
            s = os.stat(path)
        except OSError:
            return "missing"
        return (s.st_uid, s.st_mode, s.st_mtime_ns,
                hashlib.sha256(read(path) or b"").hexdigest())

    def cgroups(self):
        return sorted(os.path.join(top, name)
                      for group in self.own.groups or ["/sys/fs/cgroup"]
                      for top, names, _ in os.walk(group) for name in names
                      if name.startswith("vial-") and not owner_lives(name))

    def temporary(self):
        return sorted(os.path.join(top, name) for top, directories, names in os.walk(self.tmp)
                      for name in directories + names)

    @staticmethod
    def processes():
        """Processes of vessels whose owner is gone: they, or who started them, were
        left to the machine's init."""
        return [pid for pid in vessel_processes() if is_orphan(pid)]

    def check(self, within_s=30.0, besides=()):
        """The list of what has come or is not as before, BESIDES some, after at most WITHIN_S
        seconds:
        how long a busy machine takes over it is no matter."""
        deadline = time.monotonic() + within_s
        while True:
            now = self.picture()
            bad = [(k, difference(self.before[k], now[k])) for k in now
                   if k not in besides and changed(self.before[k], now[k])]
            if not bad or time.monotonic() > deadline:
                return bad
            time.sleep(0.02)

    def remove(self):
        for s in self.listener.sockets:
            s.close()
        self.libc.shmctl(self.shm, 0, None)
        self.libc.msgctl(self.msg, 0, None)
        self.libc.mq_unlink(self.mqueue)
        for path in self.planted:
            try:
                os.unlink(path)
            except OSError:
                pass
        shutil.rmtree(self.tmp, ignore_errors=True)
        for directory in (self.directory, self.state):
            try:
                os.rmdir(directory)
            except OSError:
                pass
