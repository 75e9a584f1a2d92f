# SPDX-License-Identifier: Apache-2.0
"""Which ways to a registry are taken: HTTPS, HTTP, redirects, proxies; and runs that pull."""
import json
import ssl
import subprocess
from pathlib import Path

import pytest
from conftest import PATIENCE, VIAL
from registries import Debian, Handmade, Image, entry, folder, link, tar


@pytest.fixture
def secure(tmp_path):
    """Puts a registry behind TLS: (the variables that trust it, its host)."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
                   cwd=tmp_path, check=True, capture_output=True)

    def wrap(registry):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
        registry.server.socket = context.wrap_socket(registry.server.socket, server_side=True)
        return ({"SSL_CERT_FILE": str(tmp_path / "cert.pem"), "VIAL_RETRIES": "0"},
                registry.host.replace("127.0.0.1", "localhost"))
    return wrap


def test_a_registry_is_asked_by_https_if_it_speaks_that(secure, image):
    made = Image(tar(entry("x", b"1")))
    registry = Handmade(made)
    settings, host = secure(registry)
    assert image("pull", host + "/tls:1", **settings)["digest"] == made.digest
    registry.stop()


def test_a_certificate_of_nobody_we_know_is_not_trusted(secure, vial, store):
    registry = Handmade(Image(tar(entry("x", b"1"))))
    _, host = secure(registry)
    done = vial("image", "pull", host + "/tls:1", VIAL_RETRIES="0")
    assert "ertificate" in done.stderr and done.returncode == 125
    assert not any("/manifests/" in path for path, _ in registry.seen)
    assert not list((store / "images").iterdir())
    registry.stop()


def test_https_is_not_led_to_http(secure, vial, store):
    made = Image(tar(entry("x", b"1")))
    other = Handmade(made)

    def bend(handler, path):
        if "/blobs/" not in path:
            return False
        handler.send(307, Location="http://%s%s" % (other.host, path))
        return True
    registry = Handmade(made, bend)
    settings, host = secure(registry)
    done = vial("image", "pull", host + "/down:1", **settings)
    assert "the registry leads to plain HTTP, at '127.0.0.1'" in done.stderr
    assert other.seen == [] and not list((store / "images").iterdir())
    registry.stop()
    other.stop()


ELSEWHERE = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from registries import Handmade, Image, entry, tar
made = Image(tar(entry("x", b"1")))
inner = Handmade(made)
def bend(handler, path):
    if "/blobs/" not in path:
        return False
    handler.send(307, Location="http://%s%s" % (inner.host, path))
    return True
outer = Handmade(made, bend, address="203.0.113.5")
open(sys.argv[3], "w").write("images: {plain: ['%s']}\\n" % outer.host)
done = subprocess.run([sys.argv[2], "image", "pull", outer.host + "/x:1"], capture_output=True,
                      text=True)
print(json.dumps([done.returncode, done.stderr, len(inner.seen), len(outer.seen)]))
"""


def test_a_registry_elsewhere_does_not_lead_to_loopback(env, tmp_path, store):
    """In a network of its own, where a public address is ours."""
    script = "ip link set lo up && ip addr add 203.0.113.5/32 dev lo && exec \"$@\""
    file = tmp_path / "vial.yaml"
    done = subprocess.run(["unshare", "-n", "sh", "-c", script, "sh", "/usr/bin/python3", "-c", ELSEWHERE,
                           str(Path(__file__).parent), VIAL, str(file)], capture_output=True, text=True,
                          env={**env, "VIAL_CONFIG": str(file), "VIAL_RETRIES": "0"}, timeout=PATIENCE,
                          check=False)
    assert done.returncode == 0, done.stderr
    status, told, inside, outside = json.loads(done.stdout)
    assert status == 125 and outside > 0 and inside == 0
    assert "the registry leads to a private address, and has none itself" in told
    assert not list((store / "images").iterdir())


def test_a_proxy_of_the_environment_is_used(image):
    made = Image(tar(entry("x", b"1")))
    proxy = Handmade(made)  # what is asked of a proxy is a whole address
    got = image("pull", "127.0.0.2:9/proxied:1", http_proxy="http://" + proxy.host, VIAL_RETRIES="0")
    assert got["digest"] == made.digest
    assert all(path.startswith("http://127.0.0.2:9/v2/proxied/") for path, _ in proxy.seen)
    proxy.stop()


def box():
    """A root with busybox in it, found along a PATH of its own."""
    return tar(folder("opt"), folder("opt/own"), entry("opt/own/busybox",
               Path("/usr/bin/busybox").read_bytes(), mode=0o755), link("opt/own/sh", "busybox"),
               link("opt/own/cat", "busybox"), folder("etc"), entry("etc/which", b"lower\n"),
               folder("tmp", mode=0o1777), folder("proc"), folder("dev"), folder("work"))


def test_a_run_pulls_what_it_needs_and_says_its_digest(tmp_path, vial, image):
    registry = Debian(tmp_path / "registry")
    place = tmp_path / "place"
    place.mkdir()
    made = Image(box(), tar(entry("etc/which", b"upper\n")), packed="zstd",
                 config={"Env": ["PATH=/opt/own", "SAID=by the image"]})
    name = registry.push("box", made, "1")
    done = vial("exec", "--json", "--driver", "native", "--image", name, "--", "sh", "-c",
                "cat /etc/which; echo $SAID", cwd=place)
    registry.stop()
    result = json.loads(done.stdout)
    assert (result["error"], result["stdout"]) == (None, "upper\nby the image\n")
    assert result["image_digest"] == made.digest
    # It is here now, and needs no registry.
    again = json.loads(vial("exec", "--json", "--driver", "native", "--image", name, "--", "sh", "-c",
                            "echo again", cwd=place).stdout)
    assert again["stdout"] == "again\n"
