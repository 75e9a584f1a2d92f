#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""unshare --net roads NAMES: a network of its own and, by a cable, another one, in which the
addresses below answer on PORT with their own text. NAMES (JSON) is what its name server says. No
packet can leave either. Prints the name server's address, and stays until its input ends."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading

import servers

PORT = 7000
FAR = ["1.1.1.1", "1.1.1.2", "10.77.0.1", "10.77.1.1", "169.254.169.254", "2606:4700:4700::1111",
       "fd77::1"]


@contextlib.contextmanager
def opened(names):
    """What starts a command there, and the name server's address."""
    p = subprocess.Popen(["unshare", "--net", sys.executable, __file__, json.dumps(names)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    server = p.stdout.readline().strip()
    assert server, "no networks"
    yield ["nsenter", "--net=/proc/%d/ns/net" % p.pid, "--"], server
    p.stdin.close()
    p.wait(60)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def greet(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.create_server((address, PORT), family=family)
    while True:
        peer, _ = server.accept()
        with peer:
            peer.sendall(address.encode())


def cable(end, mine, theirs):
    ip("link", "set", "lo", "up")
    for family, at, bits in [("-4", 0, "/30"), ("-6", 1, "/126")]:
        more = ["nodad"] if at else []
        ip(family, "addr", "add", mine[at] + bits, "dev", end, *more)
    ip("link", "set", end, "up")
    for family, at in [("-4", 0), ("-6", 1)]:
        ip(family, "route", "add", "default", "via", theirs[at])


# Of the host that the gate is on, by one interface.
OWN = ["9.9.9.1", "9.9.9.2", "2620:fe::1", "2620:fe::2"]
NEAR_END, FAR_END = ("198.18.0.1", "fc00::1"), ("198.18.0.2", "fc00::2")


def far():
    sys.stdin.readline()
    cable("far", FAR_END, NEAR_END)
    for address in FAR:
        ip("addr", "add", address, "dev", "lo", *(["nodad"] if ":" in address else []))
    for address in FAR:
        threading.Thread(target=greet, args=(address,), daemon=True).start()
    print("there", flush=True)
    sys.stdin.readline()


def near():
    other = subprocess.Popen(["unshare", "--net", sys.executable, __file__, "far"], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    servers.wait_until(lambda: has_other_network(other.pid))
    ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(other.pid))
    other.stdin.write("\n")
    other.stdin.flush()
    cable("near", NEAR_END, FAR_END)
    assert other.stdout.readline() == "there\n"
    for address in OWN:
        v6 = ":" in address
        ip("addr", "add", address + ("/64" if v6 else "/24"), "dev", "near", *(["nodad"] if v6 else []))
        threading.Thread(target=greet, args=(address,), daemon=True).start()
    for address in FAR + OWN:
        servers.wait_until(lambda at=address: answers(at))
    print(servers.Names(json.loads(sys.argv[1])).address, flush=True)
    sys.stdin.readline()


def has_other_network(pid):
    with open("/proc/self/ns/net") as mine, open("/proc/%d/ns/net" % pid) as theirs:
        return not os.path.sameopenfile(mine.fileno(), theirs.fileno())


def answers(address):
    try:
        with socket.create_connection((address, PORT), timeout=5) as s:
            return s.recv(100) == address.encode()
    except OSError:
        return False


if __name__ == "__main__":
    far() if sys.argv[1] == "far" else near()
