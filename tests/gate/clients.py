# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of a gate, and the servers that they ask: git over https and ssh, Go
with a resolver of its own, Java, HTTP/2, WebSocket. A client is a script for a shell that finds the
authority in ca.pem, the key of ssh in `key` and the Go program at /opt/fetch."""

import base64
import hashlib
import os
import socket
import subprocess

import pytest

from servers import HOST, Raw, wait_until

SSHD = "/usr/sbin/sshd"
SSH = 7022  # a host may have its own at 22
HTTP2 = 7944
CHAT = 7200


@pytest.fixture(scope="session")
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


GO = r"""package main
import ("fmt"; "io"; "net"; "os")
func main() {
    c, err := net.Dial("tcp", "web.test:80")
    if err != nil { fmt.Fprintln(os.Stderr, err); os.Exit(1) }
    fmt.Fprintf(c, "GET /hello HTTP/1.0\r\nHost: web.test\r\n\r\n")
    io.Copy(os.Stdout, c)
}
"""


def go_built(where, text):
    """The program that TEXT is, without a line of C."""
    where.mkdir(mode=0o755)
    (where / "main.go").write_text(text)
    subprocess.run(["go", "build", "-o", "fetch", "main.go"], cwd=where, check=True,
                   env={**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off",
                        "GOCACHE": str(where / "cache"), "GOFLAGS": ""})
    (where / "fetch").chmod(0o755)
    return where / "fetch"


@pytest.fixture(scope="session")
def go_program(world):
    """As it is mounted."""
    return go_built(world.where / "go", GO)


H2 = """
const fs = require('fs'), [host, key, cert] = process.argv.slice(1)
require('http2').createSecureServer({key: fs.readFileSync(key), cert: fs.readFileSync(cert)},
    (ask, answer) => answer.end('hello by ' + ask.httpVersion + '\\n'))
    .listen(%d, host, () => console.log('listens'))
""" % HTTP2


@pytest.fixture(scope="session")
def http2_server(world):
    p = subprocess.Popen(["node", "-e", H2, HOST, str(world.where / "server.key"),
                          str(world.where / "server.pem")], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "listens\n"
    yield
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


@pytest.fixture(scope="session")
def chat_server(world):
    Raw(CHAT, echo_frames)


SOCKET = r"""
import socket
s = socket.create_connection(("raw.test", %d))
s.sendall(b"GET /chat HTTP/1.1\r\nHost: %s:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
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


JAVA = """
import java.net.URL;
public class Main {
    public static void main(String[] args) throws Exception {
        System.out.print(new String(new URL("https://web.test/hello").openStream().readAllBytes()));
    }
}
"""

JAVA_RUN = ("cat > Main.java <<'END'\n%sEND\n" % JAVA +
            "keytool -importcert -noprompt -alias t -file ca.pem -keystore k -storepass changeit "
            "2>/dev/null\n"
            "java -Djavax.net.ssl.trustStore=k -Djavax.net.ssl.trustStorePassword=changeit Main.java\n")
SSH_COMMAND = ("export GIT_SSH_COMMAND='ssh -F /dev/null -i key -o StrictHostKeyChecking=no "
               "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'\n")


def key_of(ssh_server):
    return "cat > key <<'END'\n%sEND\nchmod 600 key\n" % (ssh_server / "user").read_text()


def git_over_ssh(world):
    return (SSH_COMMAND + f"git clone -q ssh://root@raw.test:{SSH}{world.files}/r.git by-ssh && "
            "cat by-ssh/README")


def git_over_https(index):
    return f"git -c http.sslCAInfo=$PWD/ca.pem clone -q {index}/r.git copy && cat copy/README"


HTTP2_RUN = f"curl -sS --http2 --cacert ca.pem https://raw.test:{HTTP2}/"


def chat(name):
    """A WebSocket's client, in Python, that says NAME."""
    return SOCKET % (CHAT, name, CHAT)


CURL_RUN = "curl -sS --cacert ca.pem https://web.test/hello"
NODE_RUN = ("NODE_EXTRA_CA_CERTS=ca.pem node -e '"
            "fetch(\"https://web.test/hello\").then(r => r.text()).then(t => console.log(t.trim()),"
            "e => { console.error(e.cause); process.exit(1) })'")
NPM_RUN = ("HOME=$PWD npm install --silent --no-audit --no-fund --cafile ca.pem --fetch-retries 0 "
           "--registry https://pages.test hi && node -p 'require(\"hi\")'")


def pip(index):
    return (f"/usr/bin/python3 -m pip install -q --cert ca.pem --index-url {index}/simple "
            "--retries 0 --disable-pip-version-check --no-cache-dir --target t greeting && "
            "PYTHONPATH=t /usr/bin/python3 -c 'import greeting; print(greeting.hello())'")
