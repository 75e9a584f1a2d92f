# SPDX-License-Identifier: Apache-2.0
"""Memory of the kernel's that a program fills through sockets of its own: it must
not be a way round the memory limit."""
import json
import os
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_attacks import DRIVER, VIAL, as_user  # noqa: E402

# Whoever is refused, or dies of the limit, is contained too.
TCP = """
import socket, time
print("began", flush=True)
keep, sent = [], 0
server = socket.create_server(("127.0.0.1", 0))
for _ in range(150):
    c = socket.create_connection(server.getsockname())
    keep += [c, server.accept()[0]]
    for s in keep[-2:]:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        s.setblocking(False)
    try:
        while sent < 1 << 30: sent += c.send(b"x" * 65536)
    except OSError: pass
time.sleep(1)
"""
UDP = """
import socket, time
print("began", flush=True)
keep = []
for _ in range(900):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 0))
    keep.append(s)
    try:
        for _ in range(14): s.sendto(b"x" * 20000, s.getsockname())
    except OSError: pass
time.sleep(1)
"""


def taken_mib():
    """Of the whole host."""
    with open("/proc/meminfo") as f:
        return -next(int(l.split()[1]) for l in f if l.startswith("MemAvailable")) >> 10


def udp_mib():
    """Of the whole host's UDP sockets."""
    with open("/proc/net/sockstat") as f:
        words = next(l.split() for l in f if l.startswith("UDP:"))
    return int(words[words.index("mem") + 1]) * os.sysconf("SC_PAGESIZE") >> 20


def growth(code, measure):
    """By how much MEASURE grows while CODE runs; ends the run when it is too much."""
    command = [VIAL, "run", "--driver", DRIVER, "--memory", "64m", "--timeout", "6s",
               "python", code]
    before = high = measure()
    process = subprocess.Popen(as_user(command), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, cwd="/",
                               env={"PATH": os.environ["PATH"], "HOME": "/tmp"})
    try:
        while process.poll() is None and high - before < 1200:
            high = max(high, measure())
            time.sleep(0.02)
    finally:
        process.terminate()
        out = process.communicate(timeout=60)[0]
    assert b"began" in out, out
    return high - before


def least_growth(code, measure, enough):
    """Others fill the same counters, so the smallest growth of a few counts."""
    seen = []
    while len(seen) < 5 and (not seen or min(seen) >= enough):
        seen.append(growth(code, measure))
    return min(seen)


def test_full_connections_do_not_take_the_hosts_memory():
    assert least_growth(TCP, taken_mib, 400) < 400


def test_full_udp_sockets_are_held_by_the_memory_limit():
    out = subprocess.run(as_user([VIAL, "run", "--json", "--driver", DRIVER, "sh", ":"]),
                         capture_output=True, cwd="/").stdout
    if not json.loads(out)["isolation"]["limits_by"].startswith("cgroup"):
        pytest.skip("no writable cgroup for this user: the limit is an rlimit here")
    assert least_growth(UDP, udp_mib, 100) < 100
