#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""unshare --net ownnet COMMAND…: runs it in a network of its own, in which the addresses that the
attacks try belong to a loopback interface and answer. No packet can leave it."""
import os
import socket
import subprocess
import sys
import threading

ADDRESSES = ["1.1.1.1", "8.8.8.8", "169.254.169.254", "169.254.170.2", "100.100.100.200",
             "2606:4700:4700::1111", "fd00:ec2::254"]


def accept(port):
    server = socket.create_server(("::", port), family=socket.AF_INET6,
                                  dualstack_ipv6=True)
    while True:
        server.accept()[0].close()


def answer_names():
    """One address for every name, in as few bytes as DNS allows."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    while True:
        query, who = server.recvfrom(512)
        record = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\1\1\1\1"
        is_a = query[-4:-2] == b"\0\1" or b"\0\1\0\1" in query[12:]
        server.sendto(query[:2] + b"\x81\x80\0\1\0" + (b"\1" if is_a else b"\0") + b"\0\0\0\0"
                      + query[12:query.index(b"\0", 12) + 5] + (record if is_a else b""), who)


def main():
    """Started below `unshare --net`; anything but a lone loopback is the wrong place."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    assert len(links) == 1 and " lo: " in links[0], links
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in ADDRESSES:
        subprocess.run(["ip", "addr", "add", address, "dev", "lo"], check=True)
    for port in (53, 80, 443):
        threading.Thread(target=accept, args=(port,), daemon=True).start()
    threading.Thread(target=answer_names, daemon=True).start()
    sys.exit(subprocess.run(sys.argv[1:]).returncode)


main()
