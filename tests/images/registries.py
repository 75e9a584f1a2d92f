# SPDX-License-Identifier: Apache-2.0
"""Images made by hand, and registries that serve them: Debian's, and one that lies."""
import gzip
import hashlib
import http.server
import io
import json
import os
import socket
import subprocess
import tarfile
import threading
import time
import urllib.request

OCI = "application/vnd.oci.image."
MANIFEST, INDEX, CONFIG = OCI + "manifest.v1+json", OCI + "index.v1+json", OCI + "config.v1+json"
LAYER = {"": OCI + "layer.v1.tar", "gzip": OCI + "layer.v1.tar+gzip",
         "zstd": OCI + "layer.v1.tar+zstd"}


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(name, data=b"", **more):
    """One member of a tar: (TarInfo, content)."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1700000000
    pax = more.pop("pax", None)
    for key, value in more.items():
        setattr(info, key, value)
    if pax:
        info.pax_headers = pax
    return info, data


def folder(name, **more):
    return entry(name, type=tarfile.DIRTYPE, **{"mode": 0o755, **more})


def link(name, target, **more):
    return entry(name, type=tarfile.SYMTYPE, linkname=target, **more)


def hard(name, target, **more):
    return entry(name, type=tarfile.LNKTYPE, linkname=target, **more)


def tar(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


PACKED = {"": lambda d: d, "gzip": lambda d: gzip.compress(d, mtime=0), "zstd": zstd}


class Image:
    """Blobs and a manifest. `layers` are tars, or (tar, compressed bytes)."""

    def __init__(self, *layers, packed="gzip", arch="amd64", config=None):
        self.blobs, self.layers = {}, []
        diff_ids = []
        for layer in layers:
            plain, data = layer if isinstance(layer, tuple) else (layer, PACKED[packed](layer))
            diff_ids.append(sha(plain))
            self.layers.append({"mediaType": LAYER[packed], **self.blob(data)})
        self.config = json.dumps({"os": "linux", "architecture": arch, "config": config or {},
                                  "rootfs": {"type": "layers", "diff_ids": diff_ids}}).encode()
        self.manifest = json.dumps(
            {"schemaVersion": 2, "mediaType": MANIFEST, "layers": self.layers,
             "config": {"mediaType": CONFIG, **self.blob(self.config)}}).encode()

    def blob(self, data):
        self.blobs[sha(data)] = data
        return {"digest": sha(data), "size": len(data)}

    @property
    def digest(self):
        return sha(self.manifest)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Debian:
    """Debian's docker-registry, on loopback."""

    def __init__(self, where, users=None):
        self.port = free_port()
        self.host = "127.0.0.1:%d" % self.port
        config = {"version": 0.1, "log": {"level": "error"},
                  "storage": {"filesystem": {"rootdirectory": str(where / "data")}},
                  "http": {"addr": self.host, "secret": "x"}}
        if users:
            config["auth"] = {"htpasswd": {"realm": "test", "path": str(users)}}
        where.mkdir(parents=True, exist_ok=True)
        (where / "config.yml").write_text(json.dumps(config))
        self.log = open(where / "log", "wb")
        self.process = subprocess.Popen(["docker-registry", "serve", str(where / "config.yml")],
                                        stdout=self.log, stderr=self.log)
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < end and self.process.poll() is None
                time.sleep(0.02)

    def call(self, method, path, data=None, **headers):
        if not path.startswith("http"):
            path = "http://%s%s" % (self.host, path)
        request = urllib.request.Request(path, data=data, method=method, headers=headers)
        return urllib.request.urlopen(request, timeout=30)

    def push(self, name, image, tag="latest"):
        for digest, data in image.blobs.items():
            place = self.call("POST", "/v2/%s/blobs/uploads/" % name).headers["Location"]
            self.call("PUT", place + ("&" if "?" in place else "?") + "digest=" + digest, data,
                      **{"Content-Type": "application/octet-stream"})
        for reference in (tag, image.digest):
            self.put(name, reference, image.manifest, MANIFEST)
        return "%s/%s:%s" % (self.host, name, tag)

    def put(self, name, reference, manifest, kind):
        self.call("PUT", "/v2/%s/manifests/%s" % (name, reference), manifest,
                  **{"Content-Type": kind})

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


class Handmade:
    """A registry whose every answer can be bent: `bend(handler, path)` returns True when it
    has answered. `seen` has the path and headers of each request."""

    def __init__(self, image, bend=None, address="127.0.0.1"):
        self.image, self.bend, self.seen = image, bend, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send(self, status, data=b"", **headers):
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key.replace("_", "-"), value)
                if "Content_Length" not in headers:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                outer.seen.append((self.path, dict(self.headers)))
                try:
                    if not (outer.bend and outer.bend(self, self.path)):
                        outer.serve(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.server.daemon_threads = True
        self.host = "%s:%d" % (address, self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def serve(self, handler):
        what, _, which = handler.path.rpartition("/")
        if what.endswith("/manifests"):
            return handler.send(200, self.image.manifest, Content_Type=MANIFEST)
        data = self.image.blobs.get(which)
        return handler.send(200, data) if data is not None else handler.send(404)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
