# SPDX-License-Identifier: Apache-2.0
"""A way to the registry that fails as it is told to by the image's name. Of HOST/KIND-N/NAME
the first N requests for a manifest fail:

    busy    429, as a registry says that one asks too often
    broken  503
    cut     the connection ends in the middle of the answer
    stall   no answer, until the other side has had enough

and all else is what the registry has under NAME. Run in the network of the engine:

    faulty.py PORT REGISTRY_PORT    prints "up", then what was asked for, a line each
"""
import http.client
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUSY = b'{"errors": [{"code": "TOOMANYREQUESTS", "message": "too many requests"}]}'
left = {}


class Way(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if "Content-Length" not in dict(headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def fail(self, kind):
        self.close_connection = True
        if kind == "busy":
            self.answer(429, BUSY, [("Content-Type", "application/json")])
        elif kind == "broken":
            self.answer(503, b"down for a moment")
        elif kind == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n"
                             b"Content-Type: application/json\r\n\r\n{")
        else:
            self.rfile.read(1)  # ends with the connection

    def do_GET(self):
        found = re.fullmatch(r"/v2/([a-z]+)-(\d+)/(.*)", self.path)
        kind, rest = (found[1], found[3]) if found else ("", "")
        key = self.path.partition("/manifests/")[0]
        if found and "/manifests/" in self.path:
            print(self.command, self.path, flush=True)
            if left.setdefault(key, int(found[2])) > 0:
                left[key] -= 1
                self.fail(kind)
                return
        to = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=60)
        wanted = {k: ", ".join(self.headers.get_all(k)) for k in ("Accept", "Range")
                  if k in self.headers}
        to.request(self.command, "/v2/" + rest if found else self.path, headers=wanted)
        got = to.getresponse()
        kept = [(k, v) for k, v in got.getheaders()
                if k in ("Content-Type", "Content-Length", "Docker-Content-Digest",
                         "Docker-Distribution-Api-Version")]
        self.answer(got.status, got.read(), kept)
        to.close()

    do_HEAD = do_GET


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Way)
print("up", flush=True)
server.serve_forever()
