# SPDX-License-Identifier: Apache-2.0
"""Protocols and clients that know nothing of a gate: git over ssh, Go with a resolver of its own,
Java, HTTP/2, WebSocket, a name that has only an IPv6 address."""

import base64
import hashlib
import http.server
import os
import shutil
import socket
import subprocess
import threading

import pytest

from conftest import told
from servers import HOST, Handler, Raw, wait_until
from test_tools import shell

SSHD = "/usr/sbin/sshd"
SSH = 7022  # a host may have its own at 22


@pytest.fixture(scope="module")
def ssh_server(world, index):
    """sshd on a port of our own address, in a mount namespace where it finds /run/sshd."""
    if os.geteuid():
        pytest.skip("sshd needs root")
    where = world.where / "ssh"
    where.mkdir(mode=0o755)
    for name in ["host", "user"]:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(where / name)],
                       check=True)
    options = {"ListenAddress": HOST, "Port": SSH, "HostKey": where / "host", "UsePAM": "no",
               "AuthorizedKeysFile": where / "user.pub", "StrictModes": "no", "PidFile": "none"}
    start = ["sh", "-c", 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"', "sh",
             SSHD, "-D", "-e", "-f", "/dev/null"]
    p = subprocess.Popen(["unshare", "-m", *start,
                          *[f"-o{key}={value}" for key, value in options.items()]],
                         stderr=subprocess.DEVNULL)

    def listens():
        with socket.socket() as s:
            return s.connect_ex((HOST, SSH)) == 0

    wait_until(lambda: listens() or p.poll() is not None)
    assert p.poll() is None
    yield where
    p.kill()
    p.wait()


def test_git_clones_over_ssh(world, ssh_server):
    script = ("cat > key <<'END'\n%sEND\nchmod 600 key\n" % (ssh_server / "user").read_text() +
              "export GIT_SSH_COMMAND='ssh -F /dev/null -i key -o StrictHostKeyChecking=no "
              "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'\n"
              f"git clone -q ssh://root@raw.test:{SSH}{world.files}/r.git copy && cat copy/README")
    r = shell(world, script, "--allow", f"raw.test:{SSH}")
    assert (r.exit_code, r.stdout) == (0, "cloned\n"), r.stderr
    assert ("raw.test", SSH, "ok") in told(r)  # it asks for its own host's name, too
    r = shell(world, script, "--allow", "raw.test")
    assert r.exit_code != 0 and "Connection refused" in r.stderr


GO = r"""package main
import ("fmt"; "io"; "net"; "os")
func main() {
    c, err := net.Dial("tcp", "web.test:80")
    if err != nil { fmt.Fprintln(os.Stderr, err); os.Exit(1) }
    fmt.Fprintf(c, "GET /hello HTTP/1.0\r\nHost: web.test\r\n\r\n")
    io.Copy(os.Stdout, c)
}
"""


def test_a_static_go_program_resolves_by_itself(world, tmp_path):
    (tmp_path / "main.go").write_text(GO)
    subprocess.run(["go", "build", "-o", "fetch", "main.go"], cwd=tmp_path, check=True,
                   env={**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off",
                        "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": ""})
    program = world.files / "fetch"
    shutil.copy(tmp_path / "fetch", program)
    program.chmod(0o755)
    shutil.rmtree(tmp_path / "cache")
    script = "/opt/fetch"
    mount = ("--mount", f"{program}:/opt/fetch")
    r = shell(world, script, *mount, "--allow", "web.test")
    assert r.exit_code == 0 and r.stdout.endswith("\r\n\r\nhello from web.test\n"), r.stderr
    assert told(r) == [("web.test", 80, "ok")]
    r = shell(world, script, *mount, "--allow", "other.test")
    assert r.exit_code == 1 and "no such host" in r.stderr


JAVA = """
import java.net.URL;
public class Main {
    public static void main(String[] args) throws Exception {
        System.out.print(new String(new URL("https://web.test/hello").openStream().readAllBytes()));
    }
}
"""


def test_java_works_by_name(world):
    script = ("cat > Main.java <<'END'\n%sEND\n" % JAVA +
              "keytool -importcert -noprompt -alias t -file ca.pem -keystore k -storepass changeit 2>/dev/null\n"
              "java -Djavax.net.ssl.trustStore=k -Djavax.net.ssl.trustStorePassword=changeit Main.java")
    r = shell(world, script, "--memory", "2g", "--allow", "web.test")
    assert (r.exit_code, r.stdout) == (0, "hello from web.test\n"), r.stderr
    r = shell(world, script, "--memory", "2g", "--allow", "other.test")
    assert r.exit_code != 0 and "UnknownHostException: web.test" in r.stderr


H2 = """
const fs = require('fs'), [host, key, cert] = process.argv.slice(1)
require('http2').createSecureServer({key: fs.readFileSync(key), cert: fs.readFileSync(cert)},
    (ask, answer) => answer.end('hello by ' + ask.httpVersion + '\\n'))
    .listen(7944, host, () => console.log('listens'))
"""


def test_http2_passes(world):
    p = subprocess.Popen(["node", "-e", H2, HOST, str(world.where / "server.key"),
                          str(world.where / "server.pem")], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "listens\n"
        r = shell(world, "curl -sS --http2 --cacert ca.pem https://raw.test:7944/",
                  "--allow", "raw.test:7944")
        assert (r.exit_code, r.stdout) == (0, "hello by 2.0\n"), r.stderr
    finally:
        p.kill()
        p.wait()


def echo_frames(peer):
    """A WebSocket server that sends each short text frame back."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += peer.recv(1)
    key = [line.split(b": ")[1] for line in head.split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key")][0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    while first := peer.recv(2, socket.MSG_WAITALL):
        mask = peer.recv(4, socket.MSG_WAITALL)
        text = peer.recv(first[1] & 127, socket.MSG_WAITALL)
        peer.sendall(bytes([0x81, len(text)]) + bytes(b ^ mask[i % 4] for i, b in enumerate(text)))


SOCKET = r"""
import socket
s = socket.create_connection(("raw.test", 7200))
s.sendall(b"GET /chat HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
try:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += s.recv(1) or exit("cut off")
    print(head.decode().splitlines()[0], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head.decode())
    for word in (b"one", b"two"):
        s.sendall(bytes([0x81, 0x80 | len(word)]) + b"\0\0\0\0" + word)
        print(s.recv(5, socket.MSG_WAITALL)[2:].decode())
except OSError as e:
    print(type(e).__name__)
"""


def test_a_websocket_passes_and_must_say_its_name(world):
    Raw(7200, echo_frames)
    r = world.python(SOCKET % "raw.test:7200", "--allow", "raw.test:7200")
    assert r.stdout.splitlines() == ["HTTP/1.1 101 Switching Protocols True", "one", "two"], r.stderr
    r = world.python(SOCKET % "other.test:7200", "--allow", "raw.test:7200")
    assert r.stdout == "ConnectionResetError\n"
    assert told(r) == [("raw.test", 7200, "other_name")]


class Six(http.server.HTTPServer):
    address_family = socket.AF_INET6


def test_a_name_with_only_an_ipv6_address_is_reached(world):
    try:
        server = Six(("::1", 0), lambda *a: Handler(*a, directory=str(world.files)))
    except OSError:
        pytest.skip("this host has no IPv6")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    world.names.names["six.test/6"] = ["::1"]
    url = f"http://six.test:{port}/hello"
    r = shell(world, f"curl -sS {url}", "--allow", f"six.test:{port}",
              policy={"allow_private": ["::1/128"]})
    assert r.stdout == f"hello from six.test:{port}\n", r.stderr
    assert told(r) == [("six.test", port, "ok")]
    server.shutdown()
