# SPDX-License-Identifier: Apache-2.0
"""Podman's service with a store, settings and socket of its own, all below one directory.
What others have of Podman's is never touched."""
import http.client
import os
import shutil
import signal
import subprocess
import tempfile

from engine import TOGETHER, Api, pack_programs, wait_for

IMAGE = "localhost/vial-test-shell:1"
PROGRAMS = ["/bin/bash", "/bin/sh", "/bin/cat", "/bin/chmod", "/bin/sleep", "/bin/head", "/bin/wc"]
RESOURCE = 24  # CAP_SYS_RESOURCE

# It asks for a limit on processes by itself, above the one it has. That takes a right
# which root of some machines lacks.
RUNTIME = """#!/usr/bin/python3
import json, os, sys
args = sys.argv[1:]
def without_limit(path):
    with open(path) as f:
        config = json.load(f)
    process = config.get("process", config)
    process["rlimits"] = [r for r in process.get("rlimits", []) if r["type"] != "RLIMIT_NPROC"]
    with open(path, "w") as f:
        json.dump(config, f)
if "create" in args and "--bundle" in args:
    without_limit(os.path.join(args[args.index("--bundle") + 1], "config.json"))
if "exec" in args and "--process" in args:
    without_limit(args[args.index("--process") + 1])
os.execv("%s", ["runc", *args])
"""

SETTINGS = """[containers]
log_driver = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
[engine.runtimes]
runc = ["%s"]
"""

STORAGE = """[storage]
driver = "overlay"
graphroot = "%s"
runroot = "%s"
"""


def may_raise_limits():
    with open("/proc/self/status") as f:
        caps = [line.split()[1] for line in f if line.startswith("CapEff")][0]
    return int(caps, 16) >> RESOURCE & 1


def missing():
    """Why there can be no Podman here, or None."""
    for program in ["podman", "conmon", "runc"]:
        if not shutil.which(program):
            return "there is no program '%s'" % program
    return None if os.geteuid() == 0 else "podman of our own needs root"


class Podman:
    def __init__(self, directory):
        self.dir = os.path.abspath(directory)
        self.run = tempfile.mkdtemp(prefix="vial-podman-", dir="/tmp")
        self.socket = os.path.join(self.run, "podman.sock")
        self.api = Api(self.socket)
        self.service = None
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("VIAL", "CONTAINER"))}

    @property
    def address(self):
        return "unix://" + self.socket

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.run, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def configure(self):
        runc = shutil.which("runc")
        if not may_raise_limits():
            runc = self.write("runc", RUNTIME % runc, 0o755)
        store, state = os.path.join(self.dir, "store"), os.path.join(self.run, "state")
        self.forget()  # a store remembers where its state was
        os.makedirs(store)
        self.env["CONTAINERS_CONF"] = self.write("containers.conf", SETTINGS % runc)
        self.env["CONTAINERS_STORAGE_CONF"] = self.write("storage.conf", STORAGE % (store, state))
        self.command = ["podman", "--root", store, "--runroot", state]

    def call(self, *args):
        return subprocess.run([*self.command, *args], env=self.env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)

    def answers(self):
        try:
            return self.api.call("GET", "/_ping", timeout=2) == "OK"
        except (OSError, RuntimeError, http.client.HTTPException):
            return False

    def start(self):
        """Why it cannot be used here, or None."""
        self.configure()
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            pack_programs(file, PROGRAMS)
            made = self.call("import", file.name, IMAGE)
        if made.returncode:
            return "podman cannot keep images here: " + made.stderr.strip()[-200:]
        tried = self.call("run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", IMAGE,
                          "/bin/sh", "-c", "echo up")
        if tried.stdout != "up\n":
            return "podman cannot start containers here: " + tried.stderr.strip()[-200:]
        with open(os.path.join(self.dir, "service.log"), "ab") as log:
            self.service = subprocess.Popen(
                [*TOGETHER, *self.command, "system", "service", "--time=0", self.address],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.run, start_new_session=True)  # where conmon notes what it killed
        return None if wait_for(self.answers) else "podman's service does not answer"

    def stop(self):
        if self.service:
            self.service.send_signal(signal.SIGTERM)
            self.service.wait(30)
        self.call("rm", "--all", "--force", "--time", "0")
        self.forget()
        shutil.rmtree(self.run, ignore_errors=True)

    def forget(self):
        store = os.path.join(self.dir, "store")
        # Podman binds it to itself.
        subprocess.run(["umount", os.path.join(store, "overlay")], check=False,
                       stderr=subprocess.DEVNULL)
        shutil.rmtree(store, ignore_errors=True)
