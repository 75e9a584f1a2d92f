# SPDX-License-Identifier: Apache-2.0
"""inside PROGRAMS DIR HIERARCHY...: process 1 of the cluster. Makes its mounts and network, starts
its programs, starts again whichever ends, and tells the cluster's DNS where pods are."""
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time

from settings import ADDRESS, DOMAIN, NODE, Settings, write

NAMES, PID = "/run/names", "/run/dnsmasq.pid"


def call(*args):
    subprocess.run(args, check=True)


def make_mounts(hierarchies):
    call("mount", "--make-rshared", "/")
    call("mount", "-t", "sysfs", "sysfs", "/sys")
    for at in ("/run", "/var/log"):
        call("mount", "-t", "tmpfs", "tmpfs", at)
    if hierarchies == [""]:
        call("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
        with open("/sys/fs/cgroup/cgroup.controllers", encoding="ascii") as file:
            write("/sys/fs/cgroup/cgroup.subtree_control",
                  " ".join("+" + name for name in file.read().split()))
        return
    call("mount", "-t", "tmpfs", "tmpfs", "/sys/fs/cgroup")
    for h in hierarchies:
        os.mkdir("/sys/fs/cgroup/" + h)
        call("mount", "-t", "cgroup", "-o", "none,name=systemd" if h == "systemd" else h, "cgroup",
             "/sys/fs/cgroup/" + h)


def make_network():
    call("hostname", NODE)
    write("/proc/sys/net/ipv4/ip_forward", "1")
    call("ip", "link", "add", "node0", "type", "veth", "peer", "name", "node0peer")
    for name in ("lo", "node0peer", "node0"):
        call("ip", "link", "set", name, "up")
    call("ip", "address", "add", ADDRESS + "/24", "dev", "node0")
    call("ip", "route", "add", "default", "dev", "node0")


def keep(args, log):
    """Starts a program again whenever it ends, as the machines' own service manager would."""
    while True:
        with open(log, "ab") as file:
            subprocess.run(args, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False)
        time.sleep(0.5)


class Names(threading.Thread):
    """What a cluster's DNS does for headless Services: a name for each pod, from the watched API."""

    def __init__(self, settings):
        super().__init__(daemon=True)
        self.tls = ssl.create_default_context(cafile=settings.path("keys/ca.crt"))
        self.tls.load_cert_chain(settings.path("keys/admin.crt"), settings.path("keys/admin.key"))
        self.services = {}

    def take(self, kind, one):
        at = one["metadata"]
        self.services[at["namespace"], at["name"]] = [] if kind == "DELETED" else [
            "%s %s.%s.%s.svc.%s" % (a["ip"], a["hostname"], at["name"], at["namespace"], DOMAIN)
            for part in one.get("subsets") or []
            for a in part.get("addresses", []) + part.get("notReadyAddresses", []) if "hostname" in a]
        write(NAMES, "".join(line + "\n" for lines in self.services.values() for line in lines))
        with open(PID, encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGHUP)

    def watch(self):
        c = http.client.HTTPSConnection("127.0.0.1", 6443, context=self.tls, timeout=3600)
        c.request("GET", "/api/v1/endpoints?watch=1")
        for line in c.getresponse():
            event = json.loads(line)
            self.take(event["type"], event["object"])

    def run(self):
        while True:
            try:
                self.watch()
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                pass  # the API server is not there yet, or is started again
            time.sleep(0.5)


def main(programs, directory, *hierarchies):
    settings = Settings(programs, directory)
    os.environ.update(pair.split("=", 1) for pair in settings.environment())
    make_mounts(list(hierarchies))
    make_network()
    write(NAMES, "")
    for args in settings.commands():
        threading.Thread(target=keep, args=(args, settings.path("log/" + args[0])), daemon=True).start()
    Names(settings).start()
    while True:  # whoever has lost its parent; `keep` bears that its own is waited for here
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:])
