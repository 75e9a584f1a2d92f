# SPDX-License-Identifier: Apache-2.0
"""Host names: clients that know a domain alone, and a reverse proxy before the daemon that ends TLS
for all names below it."""
import os
import subprocess

import pytest

from conftest import E2b
from daemon import free_port, wait_until
from test_wire import send

HAPROXY = "/usr/sbin/haproxy"
CONFIG = """\
global
    maxconn 500
defaults
    mode http
    timeout connect 10s
    timeout client 1h
    timeout server 1h
frontend names
    bind 127.0.0.1:%(port)d ssl crt %(pem)s alpn %(alpn)s
    http-request set-header X-Forwarded-Proto https
    default_backend vial
backend vial
    server vial 127.0.0.1:%(daemon)d
"""
pytestmark = pytest.mark.skipif(not os.path.exists(HAPROXY), reason="no haproxy here")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Of an authority of our own, for all names below the domain."""
    at = tmp_path_factory.mktemp("tls")
    key, crt, pem = (str(at / name) for name in ("key", "crt", "pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=box.test", "-addext",
                    "subjectAltName=DNS:*.box.test", "-keyout", key, "-out", crt],
                   check=True, capture_output=True)
    with open(pem, "w", encoding="ascii") as out:
        out.write(open(crt, encoding="ascii").read() + open(key, encoding="ascii").read())
    return pem, crt


class Proxied:
    def __init__(self, tmp_path, certificate, alpn):
        self.port = free_port()
        self.domain = "box.test:%d" % self.port
        self.pem, self.crt = certificate
        self.e2b = E2b(serve={"e2b_domain": self.domain})
        self.config = tmp_path / "haproxy.cfg"
        self.alpn = alpn

    def __enter__(self):
        self.e2b.__enter__()
        self.config.write_text(CONFIG % {"port": self.port, "pem": self.pem, "alpn": self.alpn,
                                         "daemon": self.e2b.port})
        self.proxy = subprocess.Popen([HAPROXY, "-db", "-f", str(self.config)],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *more):
        self.proxy.terminate()
        self.proxy.wait(30)
        self.e2b.__exit__(*more)


@pytest.mark.parametrize("alpn", ["h2,http/1.1", "http/1.1"])
def test_a_domain_is_all_that_a_client_has_to_know(node, tmp_path, certificate, alpn):
    with Proxied(tmp_path, certificate, alpn) as p:
        wait_until(lambda: subprocess.run(
            ["openssl", "s_client", "-connect", "127.0.0.1:%d" % p.port], stdin=subprocess.DEVNULL,
            capture_output=True).returncode == 0)
        told = {row["what"]: row["value"] for row in node.run(
            "hosts.mjs", p.e2b, env={"E2B_API_URL": None, "E2B_SANDBOX_URL": None,
                                     "E2B_DOMAIN": p.domain, "NODE_EXTRA_CA_CERTS": p.crt})}
    assert told == {
        "host": True, "file": "by name", "big": True, "command": ["one\nby name", "two\n", True],
        "stdin": "<sent>\n", "signed": [True, 200, "by name"], "site": [200, "a page"], "shut": 502,
        "nobody": 502, "cell": "42", "killed": [True, told["killed"][1]]}
    # Of HTTP/2 the packages see a stream that was reset, whatever the reason.
    assert told["killed"][1] == "TimeoutError" or (alpn.startswith("h2") and told["killed"][1] == "SandboxError")


def test_files_of_a_template_are_brought_by_the_way_that_the_client_came(e2b):
    asked = {"X_API_Key": e2b.key}
    made = send(e2b, "POST", "/e2b/v3/templates", {"name": "t"}, **asked).json
    at = "/templates/%s/files/%s" % (made["templateID"], "0" * 64)
    for prefix, more, begin in [
            ("", {"Host": "api.box.test"}, "http://api.box.test/uploads?"),
            ("/e2b", {"Host": "api.box.test:8443", "X_Forwarded_Proto": "https"},
             "https://api.box.test:8443/e2b/uploads?")]:
        url = send(e2b, "GET", prefix + at, None, **asked, **more).json["url"]
        assert url.startswith(begin)
