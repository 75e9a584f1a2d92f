# SPDX-License-Identifier: Apache-2.0
"""Certificates for engines over TLS, made by openssl for the test that needs them."""
import os
import subprocess


def openssl(*args, given=None):
    subprocess.run(["openssl", *args], input=given, text=True, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Authority:
    def __init__(self, directory):
        self.dir = directory
        os.makedirs(directory, exist_ok=True)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-days", "2", "-subj", "/CN=an authority", "-keyout",
                self.path("ca-key.pem"), "-out", self.path("ca.pem"),
                "-addext", "keyUsage=critical,keyCertSign")

    def path(self, name):
        return os.path.join(self.dir, name)

    def issue(self, name, usage, names="", days=2):
        """NAME.pem and NAME-key.pem."""
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", "/CN=" + name, "-keyout", self.path(name + "-key.pem"),
                "-out", self.path(name + ".csr"))
        with open(self.path(name + ".ext"), "w") as f:
            f.write("extendedKeyUsage=%s\n" % usage)
            if names:
                f.write("subjectAltName=%s\n" % names)
        openssl("x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path("ca.pem"),
                "-CAkey", self.path("ca-key.pem"), "-CAcreateserial", "-days", str(days),
                "-extfile", self.path(name + ".ext"), "-out", self.path(name + ".pem"))

    def client_dir(self, where, authority=None):
        """A DOCKER_CERT_PATH: who is trusted (AUTHORITY, or this), and who one is."""
        os.makedirs(where, exist_ok=True)
        for source, target in [((authority or self).path("ca.pem"), "ca.pem"),
                               (self.path("client.pem"), "cert.pem"),
                               (self.path("client-key.pem"), "key.pem")]:
            with open(source) as f, open(os.path.join(where, target), "w") as out:
                out.write(f.read())
        return where


def make(directory):
    """An authority with an engine's certificate, an expired one, and a client's."""
    authority = Authority(directory)
    authority.issue("engine", "serverAuth", "IP:127.0.0.1,DNS:engine.test")
    authority.issue("expired", "serverAuth", "IP:127.0.0.1", days=-1)
    authority.issue("client", "clientAuth")
    return authority
