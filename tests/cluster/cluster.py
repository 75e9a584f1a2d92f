# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster of one node, of its own processes, network, mounts and cgroups. Nothing
else of the machine is touched: process 1 of it holds everything, and its end ends everything."""
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time

from settings import Settings

HERE = os.path.dirname(os.path.abspath(__file__))
CGROUP = "/sys/fs/cgroup"
NAMESPACES = ["--mount", "--propagation", "slave", "--net", "--pid", "--ipc", "--uts", "--cgroup"]
CLONE_NEWNET = 0x40000000
# The names of who starts what a cluster consists of: containers, HAProxy in its pod, and the rest.
STARTERS = ("containerd-shim", "sh", "python3")


def missing():
    """Why no cluster can be had here, or None."""
    if os.geteuid() != 0:
        return "only root can make a cluster"
    if os.uname().machine != "x86_64":
        return "the cluster is tried on x86_64 alone"
    for program in ("go", "containerd", "ctr", "runc", "iptables", "dnsmasq", "openssl", "nsenter",
                    "mmdebstrap", "cc"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            return "no program '%s' for a cluster; 'tools/deps test cluster' installs it" % program
    if not os.path.exists("/usr/lib/cni/bridge"):
        return "no network plugins for a cluster; 'tools/deps test cluster' installs them"
    probe = subprocess.run(["unshare", *NAMESPACES, "--fork", "--mount-proc", "sh", "-c",
                            "ip link add node0 type veth peer name node1 && mount -t tmpfs t /run && "
                            "iptables -t nat -L"], capture_output=True, text=True, check=False)
    return "no namespaces for a cluster: " + probe.stderr.strip() if probe.returncode else None


def hierarchies():
    """The mounted hierarchies of cgroup v1 by name, or [""] where there is v2 alone."""
    with open("/proc/self/mounts", encoding="ascii") as file:
        mounts = [line.split()[1:3] for line in file]
    found = [at[len(CGROUP) + 1:] for at, kind in mounts if kind == "cgroup" and at.startswith(CGROUP)]
    return found or [""]


def wait_for(what, check, seconds=600):
    """Polls, with an end: what the cluster does, it does in its own time."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError("no %s after %d s" % (what, seconds))
        time.sleep(0.3)


class Cluster:
    def __init__(self, programs, directory):
        self.settings = Settings(programs, directory)
        self.dir = directory
        self.group = "vial-cluster-%d" % os.getpid()
        self.outer = None
        self.first = None

    # Its life.

    def start(self):
        self.settings.write()
        self.make_cgroups()
        log = open(os.path.join(self.dir, "log/inside"), "ab")
        join = "".join("echo $$ >%s/cgroup.procs\n" % self.group_path(h, "init" if not h else "")
                       for h in hierarchies())
        self.outer = subprocess.Popen(
            ["sh", "-ec", join + 'exec "$@"', "sh", "unshare", *NAMESPACES, "--fork",
             "--kill-child", "--mount-proc", "/usr/bin/python3", os.path.join(HERE, "inside.py"),
             self.settings.programs, self.dir, *hierarchies()],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.first = wait_for("first process", self.find_first)
        wait_for("containerd", lambda: self.ok("ctr", "version"))
        self.load(self.settings.pause())
        wait_for("API server", lambda: self.ok("kubectl", "get", "--raw", "/readyz"))
        wait_for("node", lambda: self.ok("kubectl", "wait", "--for=condition=Ready", "--timeout=5s",
                                         "node/node1"))
        wait_for("account", lambda: self.ok("kubectl", "get", "serviceaccount", "default"))

    def stop(self):
        if self.outer:
            os.kill(self.first or self.outer.pid, signal.SIGKILL)
            self.outer.wait()
        for h in hierarchies():
            wait_for("end of its cgroups", lambda at=self.group_path(h): self.removed(at))
        assert not [line for line in open("/proc/self/mounts", encoding="utf-8") if self.dir in line]

    def find_first(self):
        if self.outer.poll() is not None:
            raise RuntimeError("the cluster did not begin: see %s/log/inside" % self.dir)
        with open("/proc/%d/task/%d/children" % (self.outer.pid, self.outer.pid),
                  encoding="ascii") as file:
            return int((file.read().split() or [0])[0])

    def group_path(self, hierarchy, leaf=""):
        return os.path.join(CGROUP, hierarchy, self.group, leaf)

    def make_cgroups(self):
        for h in hierarchies():
            os.mkdir(self.group_path(h))
            if not h:
                os.mkdir(self.group_path(h, "init"))
            for name in ("cpuset.cpus", "cpuset.mems") if h == "cpuset" else ():
                with open(os.path.join(CGROUP, h, name), encoding="ascii") as whole, \
                        open(self.group_path(h, name), "w", encoding="ascii") as ours:
                    ours.write(whole.read())

    @staticmethod
    def removed(top):
        for at, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(at)
            except OSError:  # the kernel ends processes in its own time
                return False
        return not os.path.exists(top)

    # What is done in it.

    def enter_network(self):
        """From here on this thread and those it starts speak in the cluster's network."""
        with open("/proc/%d/ns/net" % self.first, encoding="ascii") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")

    def command(self, *args):
        return ["nsenter", "--all", "--target", str(self.first), "env", *self.settings.environment(), *args]

    def ok(self, *args):
        return subprocess.run(self.command(*args), stdin=subprocess.DEVNULL, capture_output=True,
                              check=False).returncode == 0

    def run(self, *args, given=None):
        done = subprocess.run(self.command(*args), input=given, capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise RuntimeError("%s: %s" % (" ".join(args[:6]), done.stderr.strip() or done.stdout))
        return done.stdout

    def kubectl(self, *args, given=None):
        return self.run("kubectl", *args, given=given)

    @contextlib.contextmanager
    def ballast(self, size):
        """As much memory of the machine is used, by no pod."""
        group = self.group_path("memory") if "memory" in hierarchies() else self.group_path("", "init")
        with subprocess.Popen(
                ["sh", "-ec", 'echo $$ >"$0/cgroup.procs"; exec /usr/bin/python3 -c "$1" "$2"', group,
                 "import sys; some = b'x' * int(sys.argv[1]); print(flush=True); sys.stdin.read()",
                 str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            yield

    def load(self, archive):
        self.run("ctr", "images", "import", archive)

    def processes(self, *words):
        """Ids, as seen from outside, of its processes that have these words in their command line."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cgroup" % pid, encoding="ascii") as file:
                    ours = "/%s" % self.group in file.read()
                with open("/proc/%s/cmdline" % pid, encoding="utf-8", errors="replace") as file:
                    line = file.read().split("\0")
            except OSError:
                continue
            if ours and all(word in line for word in words):
                found.append(int(pid))
        return found

    def kill(self, *words):
        victims = self.processes(*words)
        assert victims, "no process with " + " ".join(words)
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # one ended with another

    def leaders(self, *words):
        """Those of them that the cluster itself started: a vessel has its node's command line, too,
        before it begins."""
        return {pid for pid in self.processes(*words) if self.name(self.parent(pid)) in STARTERS}

    @staticmethod
    def stat(pid):
        """The name, and what follows it, of a process; nothing of one that has ended."""
        try:
            with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
                head, _, rest = file.read().rpartition(")")
        except OSError:
            return "", ["", "0"]
        return head.partition("(")[2], rest.split()

    def name(self, pid):
        return self.stat(pid)[0]

    def parent(self, pid):
        return int(self.stat(pid)[1][1])

    @contextlib.contextmanager
    def kept(self, *words):
        """What ends no process, and starts none."""
        before = self.leaders(*words)
        yield
        assert self.leaders(*words) == before

    @contextlib.contextmanager
    def replaced(self, *words):
        """An accident that ends processes: it is over when all of them have gone, and as many others
        are there. What the API says of them can be ahead of what is, or behind it."""
        before = self.leaders(*words)
        assert before, "no process with " + " ".join(words)
        yield
        wait_for("end of " + words[-1], lambda: not before & set(self.processes(*words)))
        wait_for("new " + words[-1], lambda: len(self.leaders(*words)) >= len(before))


if __name__ == "__main__":
    print(missing() or "")
