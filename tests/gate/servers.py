# SPDX-License-Identifier: Apache-2.0
"""Servers for vessels with a gate to reach: names, HTTP, HTTPS with an authority of its
own. All of them listen on a loopback address of this test run's own."""

import http.server
import os
import socket
import socketserver
import ssl
import struct
import subprocess
import threading
import time

HOST = "127.77.%d.%d" % (os.getpid() >> 8 & 127, os.getpid() & 254 | 1)
A, AAAA = 1, 28


class Names(threading.Thread):
    """A name server. `names` maps a name to its IPv4 addresses; "name/6" to its IPv6 ones;
    or to a function that gives them, called for each question."""

    def __init__(self, names):
        super().__init__(daemon=True)
        self.names = names
        self.asked = []
        self.silent = False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOST, 0))
        self.address = "%s:%d" % self.socket.getsockname()
        self.start()

    def answer(self, message):
        at, labels = 12, []
        while message[at]:
            labels.append(message[at + 1:at + 1 + message[at]].decode())
            at += 1 + message[at]
        kind, _ = struct.unpack(">HH", message[at + 1:at + 5])
        name = ".".join(labels)
        self.asked.append((name, kind))
        found = self.names.get(name if kind == A else name + "/6" if kind == AAAA else "", [])
        found = found() if callable(found) else found
        known = name in self.names or name + "/6" in self.names
        family, size = (socket.AF_INET, 4) if kind == A else (socket.AF_INET6, 16)
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, size) +
                           socket.inet_pton(family, address) for address in found)
        return (message[:2] + struct.pack(">HHHHH", 0x8180 | (0 if known else 3), 1, len(found),
                                          0, 0) + message[12:at + 5] + records)

    def run(self):
        while True:
            message, peer = self.socket.recvfrom(4096)
            if not self.silent:
                self.socket.sendto(self.answer(message), peer)


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen = []  # the hosts that were asked for, in their order

    def do_GET(self):
        self.seen.append(self.headers["Host"])
        if self.path.startswith("/size/"):
            self.reply(b"x" * int(self.path[6:]))
        elif self.path.startswith("/to/"):
            self.reply(b"", 302, ("Location", self.path[4:]))
        elif self.path == "/hello":
            self.reply(b"hello from %s\n" % self.headers["Host"].encode())
        else:
            super().do_GET()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(b"%d bytes\n" % len(body))

    def reply(self, body, status=200, *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        pass  # clients that a gate cuts off


def serve(port, directory, context=None):
    server = Server((HOST, port), lambda *a: Handler(*a, directory=directory))
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def authority(where, *names):
    """ca.pem, and a server's certificate for NAMES: its ssl context."""
    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=where, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
    (where / "names").write_text("subjectAltName=" + ",".join("DNS:" + n for n in names))
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", "server.pem", "-days", "2", "-extfile", "names")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(where / "server.pem", where / "server.key")
    return context


class Raw(threading.Thread):
    """A TCP server that calls HANDLE(connection) for each client, in a thread of its own."""

    def __init__(self, port, handle):
        super().__init__(daemon=True)
        self.handle = handle
        self.accepted = 0
        self.socket = socket.create_server((HOST, port), backlog=512)
        self.start()

    def run(self):
        while True:
            peer, _ = self.socket.accept()
            self.accepted += 1
            threading.Thread(target=self.handle, args=(peer,), daemon=True).start()


def wait_until(condition, patience=60):
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)
