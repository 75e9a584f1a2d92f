# SPDX-License-Identifier: Apache-2.0
"""A container engine of our own: dockerd and a registry, with sockets, data, cgroup
parent and network namespace of their own, all below one directory. One that was there
before is never touched.

    engine.py DIR COMMAND...    runs COMMAND with DOCKER_HOST set, then stops it all
"""
import contextlib
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse

import certs

PACKAGES = "python3,bash,gcc,libc6-dev,procps"
IMAGES = ["debian:12-slim", "python:3.11-slim", "gcc:12"]
SMALL = "vial-test-small:1"
TLS_PORT = 2376
PORT = 5000  # in a network namespace of its own
TOGETHER = ["setpriv", "--pdeathsig", "TERM"]  # they end when we do


def libraries(program):
    """What the loader of PROGRAM will open, itself included."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {word for word in out.split() if word.startswith("/")}


def pack_programs(file, programs):
    """Writes a root file system with PROGRAMS and their libraries as a tar archive."""
    with tarfile.open(fileobj=file, mode="w", dereference=True) as tar:
        places = {os.path.realpath(os.path.dirname(p)) + "/" + os.path.basename(p)
                  for p in programs + [lib for p in programs for lib in libraries(p)]}
        for path in sorted(places):
            tar.add(path)
        for name, target in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")]:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    file.seek(0)


def is_own_user(uid):
    """Whether UID is one of those that vial gives to one container alone."""
    return 20000 <= int(uid) < 60000


def state_of(pid):
    """The letter in /proc/PID/stat; X for one that is gone."""
    try:
        with open("/proc/%s/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def mounted():
    """Mount points, and their file systems' types."""
    with open("/proc/self/mounts") as f:
        return {line.split()[1]: line.split()[2] for line in f}


def removed(directory):
    try:
        os.rmdir(directory)
        return True
    except OSError:
        return False


class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("engine", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Api:
    """The engine as others see it: not through vial."""

    def __init__(self, path):
        self.path = path

    def call(self, method, target, body=None, headers=None, timeout=120):
        connection = Connection(self.path, timeout)
        try:
            if isinstance(body, dict):
                body, headers = json.dumps(body), {"Content-Type": "application/json"}
            connection.request(method, target, body=body, headers=headers or {})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise RuntimeError("%s %s: %d %s" % (method, target, answer.status, data))
        try:
            return json.loads(data) if data else None
        except ValueError:
            return data.decode()

    def ours(self):
        """Containers with our label, whatever their state."""
        query = urllib.parse.quote(json.dumps({"label": ["vial.managed=true"]}))
        return self.call("GET", "/containers/json?all=1&filters=" + query)

    def inspect(self, container):
        return self.call("GET", "/containers/%s/json" % container["Id"])

    def tag(self, image, name):
        repo, _, tag = name.rpartition(":")
        self.call("POST", "/images/%s/tag?repo=%s&tag=%s" % (image, repo, tag))

    def untag(self, name):
        self.call("DELETE", "/images/%s?noprune=true&force=true" % name)


def wait_for(what, seconds=90):
    """Waits until WHAT() is true; there is nothing to wait on from outside. How long an
    engine takes on a busy machine is no matter."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Engine:
    def __init__(self, directory, name=""):
        self.dir = os.path.realpath(directory)  # runc takes no links
        # A socket's path must be short, and users must be able to get there.
        self.run = "/tmp/vial-engine-%d%s" % (os.getpid(), name)
        self.socket = os.path.join(self.run, "docker.sock")
        self.group = "engine-of-tests-%d%s" % (os.getpid(), name)
        self.api = Api(self.socket)
        self.daemon = self.registry = self.certs = None

    @property
    def address(self):
        return "unix://" + self.socket

    @property
    def inside(self):
        """A command's beginning that puts it into the daemon's network."""
        return ["nsenter", "--net", "--target", str(self.daemon.pid)]

    def log(self, name):
        return open(os.path.join(self.dir, name + ".log"), "ab")

    def base(self):
        """A root file system with an interpreter and a compiler, made once."""
        path = os.path.join(self.dir, "base.tar")
        if not os.path.exists(path):
            sources = [p for p in ("/etc/apt/sources.list",
                                   "/etc/apt/sources.list.d/debian.sources")
                       if os.path.exists(p) and os.path.getsize(p)]
            with self.log("mmdebstrap") as log:
                subprocess.run(["mmdebstrap", "--format=tar", "--variant=essential",
                                "--include=" + PACKAGES, "bookworm", path + ".part",
                                *sources], stdout=log, stderr=log, check=True)
            os.rename(path + ".part", path)
        return path

    def start_daemon(self):
        command = ["dockerd", "--host", self.address, "--bip", "172.31.254.1/24",
                   "--data-root", os.path.join(self.dir, "data"),
                   "--exec-root", os.path.join(self.run, "exec"),
                   "--pidfile", os.path.join(self.run, "pid"), "--iptables=false",
                   "--ip-forward=false", "--ip-masq=false", "--userland-proxy=false",
                   "--cgroup-parent", "/" + self.group,
                   "--shutdown-timeout", "1", "--add-runtime", "second=" + shutil.which("runc"),
                   "--host", "tcp://0.0.0.0:%d" % TLS_PORT, "--tlsverify",
                   "--tlscacert", self.certs.path("ca.pem"),
                   "--tlscert", self.certs.path("engine.pem"),
                   "--tlskey", self.certs.path("engine-key.pem"),
                   "--registry-mirror", "http://127.0.0.1:%d" % PORT]
        inside = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        with self.log("dockerd") as log:
            self.daemon = subprocess.Popen(TOGETHER + ["unshare", "--net"] + inside + command,
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                           start_new_session=True)
        if not wait_for(self.answers):
            self.stop()
            raise RuntimeError("dockerd does not start: see %s/dockerd.log" % self.dir)

    def answers(self):
        if self.daemon.poll() is not None:
            raise RuntimeError("dockerd has ended: see %s/dockerd.log" % self.dir)
        try:
            return self.api.call("GET", "/_ping", timeout=2) == "OK"
        except (OSError, RuntimeError, http.client.HTTPException):
            return False

    def stop_daemon(self, how=signal.SIGTERM):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(how)
            self.daemon.wait(60)
        self.daemon = None
        if how == signal.SIGKILL:
            self.forget_containerd()

    def forget_containerd(self):
        """Its parent was killed, and it with that. Where nobody reaps the dead, the next
        daemon would take it for alive."""
        path = os.path.join(self.run, "exec", "containerd", "containerd.pid")
        try:
            with open(path) as f:
                pid = f.read().strip()
        except OSError:
            return
        assert wait_for(lambda: state_of(pid) in "ZX")
        os.unlink(path)

    def keeps_data(self, path):
        """A file system that was there before, as a test of full disks makes one."""
        return path.endswith("data") and mounted()[path] == "tmpfs"

    def end_containers(self):
        """What a daemon that was killed has left running."""
        for group in glob.glob("/sys/fs/cgroup/pids/%s/**/cgroup.procs" % self.group,
                               recursive=True):
            with open(group) as f:
                for pid in f.read().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)

    def start_registry(self, port=PORT):
        store = os.path.join(self.dir, "registry")
        config = os.path.join(self.run, "registry.yml")
        with open(config, "w") as f:
            f.write("version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\n"
                    "http: {addr: '0.0.0.0:%d'}\n" % (store, port))
        with self.log("registry") as log:
            self.registry = subprocess.Popen(
                TOGETHER + self.inside + ["docker-registry", "serve", config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        asked = self.inside + ["curl", "--silent", "--output", "/dev/null",
                               "http://127.0.0.1:%d/v2/" % port]
        if not wait_for(lambda: subprocess.run(asked, check=False).returncode == 0):
            raise RuntimeError("the registry does not answer: see %s/registry.log" % self.dir)

    def stop_registry(self):
        if self.registry and self.registry.poll() is None:
            self.registry.terminate()
            self.registry.wait(30)
        self.registry = None

    def load(self):
        """The images, under their usual names, here and in the registry."""
        if not self.has(IMAGES[0]):
            repo, tag = IMAGES[0].split(":")
            with open(self.base(), "rb") as tar:
                self.api.call("POST", "/images/create?fromSrc=-&repo=%s&tag=%s" % (repo, tag),
                              tar, {"Content-Type": "application/x-tar"}, timeout=300)
        for name in IMAGES:
            self.api.tag(IMAGES[0], name)

    def small(self):
        """An image of a shell and its libraries: real, and quick to push and pull."""
        if not self.has(SMALL):
            with tempfile.TemporaryFile() as file:
                pack_programs(file, ["/bin/bash", "/bin/sh", "/bin/cat"])
                repo, tag = SMALL.split(":")
                self.api.call("POST", "/images/create?fromSrc=-&repo=%s&tag=%s" % (repo, tag),
                              file, {"Content-Type": "application/x-tar"}, timeout=300)
        return SMALL

    def has(self, image):
        return image in {t for i in self.api.call("GET", "/images/json")
                         for t in i["RepoTags"] or []}

    def publish(self, name, mirrored):
        """Pushes local image NAME so that pulls of MIRRORED find it."""
        target = "127.0.0.1:%d/%s" % (PORT, mirrored)
        self.api.tag(name, target)
        repo, _, tag = target.rpartition(":")
        out = self.api.call("POST", "/images/%s/push?tag=%s" % (repo, tag),
                            headers={"X-Registry-Auth": "e30="}, timeout=300)
        self.api.untag(target)
        if "errorDetail" in str(out):
            raise RuntimeError(out)

    def start_bare(self):
        os.makedirs(self.dir, exist_ok=True)
        os.makedirs(self.run, mode=0o755, exist_ok=True)
        self.certs = certs.make(os.path.join(self.run, "certs"))
        self.start_daemon()

    def start(self):
        self.start_bare()
        self.start_registry()
        self.load()
        return self

    def stop(self):
        self.stop_registry()
        self.stop_daemon()
        self.end_containers()
        # What a daemon that was killed leaves mounted; "data" is bound to itself.
        for path in [os.path.join(self.run, "exec", "netns"), os.path.join(self.dir, "data")]:
            if path in mounted() and not self.keeps_data(path):
                subprocess.run(["umount", path], check=False)
        for parent in glob.glob("/sys/fs/cgroup/*/" + self.group) + \
                glob.glob("/sys/fs/cgroup/" + self.group):
            for path, _, _ in os.walk(parent, topdown=False):
                wait_for(lambda: removed(path), 30)
        shutil.rmtree(self.run, ignore_errors=True)


def missing():
    """Why there can be no engine here, or None."""
    for program in ["dockerd", "docker-registry", "mmdebstrap", "ip", "openssl", "runc", "curl"]:
        if not shutil.which(program):
            return "there is no program '%s'" % program
    return None if os.geteuid() == 0 else "an engine of our own needs root"


def main():
    engine = Engine(sys.argv[1])
    try:
        engine.start()
        code = subprocess.run(sys.argv[2:], env={**os.environ,
                                                 "DOCKER_HOST": engine.address}).returncode
    finally:
        engine.stop()
    sys.exit(code)


if __name__ == "__main__":
    main()
