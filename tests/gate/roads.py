#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""unshare --net roads NAMES: a network of its own and, by a cable, another one, in which the
addresses below answer on PORT with their own text, by UDP too; at HEARS, only once they were told
something. NAMES (JSON) is what its name server says; of a list of lists each in turn. No packet can
leave either. Prints the name server's address, and stays until its input ends."""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import threading

import servers

PORT = 7000
HEARS = [80, 443, 7001]
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


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def greet(address):
    server = socket.create_server((address, PORT), family=family_of(address))
    while True:
        peer, _ = server.accept()
        with peer:
            peer.sendall(address.encode())


def greet_packets(address):
    server = socket.socket(family_of(address), socket.SOCK_DGRAM)
    server.bind((address, PORT))
    while True:
        _, peer = server.recvfrom(4096)
        server.sendto(address.encode(), peer)


def hear(address, port):
    server = socket.create_server((address, port), family=family_of(address))
    while True:
        peer, _ = server.accept()
        threading.Thread(target=answer_once, args=(peer, address), daemon=True).start()


def answer_once(peer, address):
    with peer, contextlib.suppress(OSError):
        if peer.recv(4096):
            peer.sendall(b"heard at " + address.encode())


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
        threading.Thread(target=greet_packets, args=(address,), daemon=True).start()
        for port in HEARS:
            threading.Thread(target=hear, args=(address, port), daemon=True).start()
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
    # Vessels without a network of their own, which tests make, have their guest's name server here.
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w", encoding="ascii") as low:
        low.write("0")
    for address in OWN:
        v6 = ":" in address
        ip("addr", "add", address + ("/64" if v6 else "/24"), "dev", "near", *(["nodad"] if v6 else []))
        threading.Thread(target=greet, args=(address,), daemon=True).start()
    threading.Thread(target=greet, args=("127.0.0.1",), daemon=True).start()
    for address in FAR + OWN + ["127.0.0.1"]:
        servers.wait_until(lambda at=address: answers(at))
    for address, port in itertools.product(FAR, HEARS):
        servers.wait_until(lambda at=address, port=port: answers(at, port, b"x"))
    names = {name: in_turn(found) for name, found in json.loads(sys.argv[1]).items()}
    print(servers.Names(names).address, flush=True)
    sys.stdin.readline()


def in_turn(found):
    if not isinstance(found[0], list):
        return found
    turns = itertools.cycle(found)
    return lambda: next(turns)


def has_other_network(pid):
    with open("/proc/self/ns/net") as mine, open("/proc/%d/ns/net" % pid) as theirs:
        return not os.path.sameopenfile(mine.fileno(), theirs.fileno())


def answers(address, port=PORT, say=b""):
    try:
        with socket.create_connection((address, port), timeout=5) as s:
            s.sendall(say)
            return s.recv(100).endswith(address.encode())
    except OSError:
        return False


if __name__ == "__main__":
    far() if sys.argv[1] == "far" else near()
