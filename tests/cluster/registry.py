# SPDX-License-Identifier: Apache-2.0
"""A registry in the cluster's network, with one image: the machine's shell, and a mark. It speaks
TLS by an authority of its own, and answers nobody who has not its login."""
import base64
import json
import os
import re
import ssl
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../images"))
from registries import Handmade, Image, entry, folder, tar  # noqa: E402 pylint: disable=wrong-import-position
from settings import ADDRESS, Keys, write  # noqa: E402 pylint: disable=wrong-import-position

LOGIN = base64.b64encode(b"fleet:of nodes").decode()


def shell(*more):
    """A root with /bin/sh, further programs, and what those are linked with."""
    files = {path[1:]: path for path in ("/bin/sh", "/bin/cat", *more)}
    linked = subprocess.run(["ldd", *files.values()], capture_output=True, text=True, check=True).stdout
    files.update((path[1:], path) for path in re.findall(r"(/\S+) \(0x", linked))
    folders = {os.path.dirname(name) for name in files} | {"etc", "tmp", "work", "proc", "dev"}
    folders |= {os.path.dirname(name) for name in folders if "/" in name}
    parts = [folder(name) for name in sorted(folders)]
    for name, path in files.items():
        with open(path, "rb") as file:
            parts.append(entry(name, file.read(), mode=0o755))
    return tar(*parts, entry("etc/marked", b"here\n", mode=0o644))


class Registry(Handmade):
    def __init__(self, directory):
        keys = Keys(directory)
        keys.sign("registry", "/CN=registry", "subjectAltName=IP:" + ADDRESS)
        super().__init__(Image(shell()), self.judge, ADDRESS)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys.path("registry.crt"), keys.path("registry.key"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.name = "%s/marked@%s" % (self.host, self.image.digest)
        write(keys.path(".dockerconfigjson"), json.dumps({"auths": {self.host: {"auth": LOGIN}}}))

    @staticmethod
    def judge(handler, _):
        if handler.headers.get("Authorization") == "Basic " + LOGIN:
            return False
        handler.send(401, WWW_Authenticate='Basic realm="fleet"')
        return True
