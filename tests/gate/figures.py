#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""figures [ROUNDS [MIB]]: how fast bytes come through a gate and leave by it, beside the same over a
vessel's own loopback, in turn; and what of the processor a MiB costs vial, the vessel and what runs in
it (the server by the gate is not in it, that by loopback is). VIAL names the command, OTHER a second
one to be compared. By hand, on a quiet machine."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import servers

ROOT = Path(__file__).resolve().parents[2]
PORT = 7090
# Whoever pours waits until the other side has taken all, and closed.
BOTH = """
import os, socket, sys, time
def pour(peer):
    piece = memoryview(bytes(1 << 18))
    for _ in range(%(mib)d * 4): peer.sendall(piece)
    peer.shutdown(socket.SHUT_WR)
    while peer.recv(1): pass
    peer.close()
def drink(peer):
    room, whole = memoryview(bytearray(1 << 18)), 0
    while n := peer.recv_into(room): whole += n
    assert whole == %(mib)d << 20, whole
    peer.close()
"""
INSIDE = BOTH + """
ours, theirs = (drink, pour) if "%(way)s" == "down" else (pour, drink)
if "%(place)s" == "loopback":
    server = socket.create_server(("127.0.0.1", %(port)d))
    if not os.fork():
        theirs(server.accept()[0])
        os._exit(0)
s = socket.create_connection(("127.0.0.1" if "%(place)s" == "loopback" else "bulk.test", %(port)d))
began = time.monotonic()
ours(s)
print(time.monotonic() - began)
"""
SERVER = BOTH + """
server = socket.create_server((%(host)r, %(port)d))
print("there", flush=True)
while True: (pour if "%(way)s" == "down" else drink)(server.accept()[0])
"""


def measure(vial, settings, **what):
    """MiB a second, and µs of processor for a MiB."""
    command = [vial, "run", "--json", "--timeout", "300s", "--network", "gate", "--allow",
               "bulk.test:%d-%d" % (PORT, PORT + 1), "python", INSIDE % what]
    before = os.times()
    done = subprocess.run(command, env={**os.environ, "VIAL_CONFIG": settings}, capture_output=True,
                          check=False)
    after = os.times()
    r = json.loads(done.stdout)
    assert r["verdict"] == "ok", r
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return what["mib"] / float(r["stdout"]), spent * 1e6 / what["mib"]


def main():
    rounds, mib = (int(n) for n in (sys.argv[1:] + ["5", "512"][len(sys.argv) - 1:]))
    names = servers.Names({"bulk.test": [servers.HOST]})
    vials = [os.path.abspath(os.environ.get("VIAL", ROOT / "build" / "vial"))]
    vials += [os.path.abspath(os.environ["OTHER"])] if "OTHER" in os.environ else []
    with tempfile.NamedTemporaryFile("w", suffix=".json") as settings:
        json.dump({"policy": {"gate_resolvers": [names.address], "allow_private": ["127.77.0.0/16"]}},
                  settings)
        settings.flush()
        seen = {}
        for port, way in [(PORT, "down"), (PORT + 1, "up")]:
            what = {"mib": mib, "way": way, "port": port, "host": servers.HOST}
            server = subprocess.Popen([sys.executable, "-c", SERVER % what], stdout=subprocess.PIPE)
            server.stdout.readline()
            for _ in range(rounds):
                for vial in vials:
                    for place in ("loopback", "gate"):
                        seen.setdefault((way, vial, place), []).append(
                            measure(vial, settings.name, place=place, **what))
            server.kill()
            server.wait()
    for (way, vial, place), found in seen.items():
        fast, spent = (statistics.median(f) for f in zip(*found))
        beside = statistics.median(f for f, _ in seen[way, vial, "loopback"])
        print("%-4s %-8s %6.0f MiB/s, %.2f of loopback; %4.0f us of processor a MiB  %s"
              % (way, place, fast, fast / beside, spent, vial))


if __name__ == "__main__":
    main()
