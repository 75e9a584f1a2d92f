# SPDX-License-Identifier: Apache-2.0
"""Secrets in HTTP/2: real clients and a real server, and frames that nobody should send."""

import json
import subprocess
import threading
from types import SimpleNamespace

import pytest

from clients import go_built
from conftest import told
from servers import HOST, wait_until
from test_secrets import BEARER, VALUE, own_authority, run

PORT = 8543
URL = "https://two.test:%d" % PORT
KEY = "Authorization: Bearer "

SERVER = r"""
const fs = require('fs'), http2 = require('http2')
const [host, port, key, cert] = process.argv.slice(1)
const answers = {
  '/echo': (s, said) => { s.respond({':status': 200, 'x-said': said}); s.end('you said ' + said + '\n') },
  '/bytes': (s, said) => {
    s.respond({':status': 200})
    const next = i => i < said.length ? s.write(said[i], () => next(i + 1)) : s.end('\n')
    next(0)
  },
  '/trailers': (s, said) => {
    s.respond({':status': 200}, {waitForTrailers: true})
    s.on('wantTrailers', () => s.sendTrailers({'grpc-status': '0', 'x-said': said}))
    s.end('fine\n')
  },
  '/both': s => { s.respond({':status': 200}); s.pipe(s) },
  '/early': s => { s.respond({':status': 103, link: '</a>'}); answers['/']() },
  '/large': s => { s.respond({':status': 200, 'content-length': 100000}); s.end('x'.repeat(100000)) },
  '/endless': s => { s.respond({':status': 200}); s.end('x'.repeat(100000)) },
  '/gzip': (s, said) => { s.respond({':status': 200, 'content-encoding': 'gzip'}); s.end(said) },
  '/grpc-gzip': (s, said) => { s.respond({':status': 200, 'grpc-encoding': 'gzip'}); s.end(said) },
  '/push': s => { s.respond({':status': 200}); s.end('push ' + s.pushAllowed + '\n') },
  '/reset': s => s.close(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM),
  '/leave': s => { s.session.destroy() },
}
const server = http2.createSecureServer({key: fs.readFileSync(key), cert: fs.readFileSync(cert)})
server.on('stream', (stream, headers) => {
  stream.on('error', () => {})
  const path = headers[':path'].split('?')[0], chunks = []
  let whole = false
  stream.on('end', () => whole = true)
  stream.on('close', () => console.log(JSON.stringify(
    {...headers, whole: whole && stream.rstCode == 0, body: Buffer.concat(chunks).toString('latin1')})))
  if (path != '/both') stream.on('data', c => chunks.push(c))
  const answer = answers[path] || (s => { s.respond({':status': 200}); s.end('fine\n') })
  answer(stream, headers.authorization || '')
})
server.on('sessionError', () => {})
server.listen(port, host, () => console.log('listens'))
"""


@pytest.fixture(scope="module")
def two(world):
    """two.test, in HTTP/2 alone; what it was asked, as it tells it; its authority."""
    world.names.names["two.test"] = [HOST]
    ca, _ = own_authority(world, "two", "two.test")
    where = world.where / "two"
    p = subprocess.Popen(["node", "-e", SERVER, HOST, str(PORT), str(where / "server.key"),
                          str(where / "server.pem")], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "listens\n"
    asked = []

    def listen():
        for line in p.stdout:
            asked.append(json.loads(line))

    threading.Thread(target=listen, daemon=True).start()
    yield SimpleNamespace(ca=ca, all=asked, round=0)
    p.kill()
    p.wait()


def ask(world, two, language, code, *args, ca=True, headers=(), **more):
    two.round += 1
    definition = {"from": "env:REAL_KEY", "hosts": ["two.test:%d" % PORT], **({"ca": two.ca} if ca else {}),
                  "headers": {"X-Round": str(two.round), **dict(headers)}, **more}
    return run(world, "--secrets", "API_KEY", "--memory", "1g", *args, language, code, secrets={"API_KEY": definition})


def asked(two, count):
    """The COUNT requests that reached the host whole in this round, and no other."""
    def so_far():
        return [a for a in list(two.all) if a["x-round"] == str(two.round) and a["whole"]]

    wait_until(lambda: len(so_far()) >= count)
    return so_far()


def sent(two, count):
    """What each had for credentials."""
    return [a.get("authorization") for a in asked(two, count)]


NODE = """
const session = require('http2').connect('%s')
session.on('error', e => { console.log('session', e.code); process.exit(1) })
const ask = (headers, body) => new Promise((resolve, reject) => {
  const s = session.request({authorization: 'Bearer ' + process.env.API_KEY, ...headers}), got = {text: ''}
  s.setEncoding('utf8')
  s.on('response', h => got.head = h).on('trailers', h => got.trailers = h)
  s.on('data', d => got.text += d).on('end', () => resolve(got)).on('error', e => resolve({text: e.code}))
  s.end(body)
});
""" % URL

GO = r"""package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
    ask, _ := http.NewRequest("GET", "%s/v1", nil)
    ask.Header.Set("Authorization", "Bearer " + os.Getenv("API_KEY"))
    got, err := http.DefaultClient.Do(ask)
    if err != nil { fmt.Println(err); os.Exit(1) }
    text, _ := io.ReadAll(got.Body)
    fmt.Print(got.Proto, " ", string(text))
}
""" % URL


@pytest.fixture(scope="module")
def go_client(world):
    return go_built(world.where / "go2", GO)


def test_curls_request_carries_the_value(world, two):
    r = ask(world, two, "sh", f"curl -sS --http2 {BEARER} -w '%{{http_version}}\\n' {URL}/v1")
    assert (r.exit_code, r.stdout) == (0, "fine\n2\n"), (r.stderr, r.error)
    assert told(r) == [("two.test", PORT, "ok")] and sent(two, 1) == ["Bearer " + VALUE]
    head = asked(two, 1)[0]
    assert head[":authority"] == "two.test:%d" % PORT and head["accept-encoding"] == "identity"


def test_gos_and_nodes_requests_carry_the_value(world, two, go_client):
    r = ask(world, two, "sh", "/opt/ask", "--mount", f"{go_client}:/opt/ask")
    assert r.stdout == "HTTP/2.0 fine\n" and sent(two, 1) == ["Bearer " + VALUE], (r.stderr, r.error)
    r = ask(world, two, "javascript", NODE + "ask({}).then(a => { console.log(a.text); session.close() })")
    assert r.stdout == "fine\n\n" and sent(two, 1) == ["Bearer " + VALUE], (r.stderr, r.error)


def test_what_a_server_says_back_has_no_value(world, two):
    r = ask(world, two, "javascript", NODE + """
    (async () => {
      for (const path of ['/echo', '/bytes', '/trailers', '/gzip', '/grpc-gzip']) {
        const a = await ask({':path': path})
        console.log(path, a.head[':status'], a.text, JSON.stringify(a.head), JSON.stringify(a.trailers))
      }
      session.close()
    })()""")
    assert r.exit_code == 0 and VALUE not in r.stdout, (r.stderr, r.stdout)
    assert sent(two, 5) == ["Bearer " + VALUE] * 5
    lines = r.stdout
    assert lines.count("Bearer ") == 4 and '"x-said":"Bearer ' in lines and '"grpc-status":"0"' in lines, lines
    assert lines.count("502 vial: the host's answer is compressed, though nobody asked") == 2


def test_many_requests_share_a_connection(world, two):
    r = ask(world, two, "javascript", NODE + """
    Promise.all(Array.from({length: 200}, (_, i) => ask({':path': '/n' + i}))).then(all => {
      console.log(all.filter(a => a.text == 'fine\\n').length); session.close() })""")
    assert r.stdout == "200\n", (r.stderr, r.error)
    assert sorted(a[":path"] for a in asked(two, 200)) == sorted("/n%d" % i for i in range(200))
    assert set(sent(two, 200)) == {"Bearer " + VALUE} and told(r) == [("two.test", PORT, "ok")]


def test_bodies_go_whole_both_ways_and_in_turns(world, two):
    r = ask(world, two, "sh", f"head -c 3000000 /dev/urandom > f; curl -sS --http2 --data-binary @f -o a {URL}/both; "
                              f"cmp a f && curl -sS --http2 {URL}/large | wc -c")
    assert r.stdout == "100000\n", (r.stderr, r.error)
    r = ask(world, two, "javascript", NODE + """
    const s = session.request({':path': '/both', ':method': 'POST'}), said = []
    s.setEncoding('utf8')
    s.on('data', d => { said.push(d); if (said.length < 5) s.write('turn ' + said.length); else s.end() })
    s.on('end', () => { console.log(said.join()); session.close() })
    s.write('turn 0')""")
    assert r.stdout == "turn 0,turn 1,turn 2,turn 3,turn 4\n", (r.stderr, r.error)


def test_an_answer_that_nobody_reads_holds_up_no_other(world, two):
    r = ask(world, two, "javascript", NODE + """
    const unread = session.request({':path': '/both', ':method': 'POST'})
    unread.write(Buffer.alloc(3000000))
    unread.on('response', async () => {
      for (let i = 0; i < 5; i++) console.log((await ask({':path': '/large'})).text.length)
      unread.close(8)
      session.close()
    })""")
    assert r.stdout == "100000\n" * 5, (r.stderr, r.error)


def test_rules_and_sizes_are_those_of_http1(world, two):
    tries = ["-X GET /v1/models", "-X POST /v1/models", "-X GET /v1/../admin", "-X GET /admin",
             "-X GET -H X-HTTP-Method-Override:DELETE /v1/models", "-X GET -H Host:other.test /v1/models",
             "-X GET /v1/models?large", "--data-binary @f -X GET /v1/models"]
    script = "head -c 2000 /dev/zero > f\n" + "".join(
        "curl -sS --http2 --path-as-is -o /dev/null -w '%%{http_code} ' %s %s%s\n" % (BEARER, t.rpartition(" ")[0] + " " + URL, t.rpartition(" ")[2])
        for t in tries)
    r = ask(world, two, "sh", script, only=["GET /v1/*"], max_request=1000, headers={"X-Team": "agents"})
    assert r.stdout == "200 403 403 403 403 421 200 413 ", r.stderr
    assert [(a[":path"], a["x-team"]) for a in asked(two, 2)] == [("/v1/models", "agents"), ("/v1/models?large", "agents")]
    assert sorted({c.verdict for c in r.network.connections}) == ["ok", "request"]
    r = ask(world, two, "sh", "".join(f"curl -sS --http2 {URL}/{p} | wc -c\n" for p in ["large", "endless"]),
            max_response=50000)
    large, endless = (int(n) for n in r.stdout.split())
    assert large < 100 and endless <= 50000, r.stderr
    assert {c.verdict for c in r.network.connections} == {"response"}


def test_a_hosts_resets_and_its_leaving_are_passed_on(world, two):
    r = ask(world, two, "javascript", NODE + """
    (async () => {
      const of = (s) => new Promise(r => s.on('error', e => r(e.message)).on('close', () => r('closed')))
      console.log(await of(session.request({':path': '/reset'})))
      console.log((await ask({':path': '/push'})).text)
      session.on('goaway', code => console.log('goaway', code))
      session.on('close', () => console.log('over'))
      of(session.request({':path': '/leave'}))
    })()""")
    lines = r.stdout.split("\n")
    assert "NGHTTP2_ENHANCE_YOUR_CALM" in lines[0] and lines[1] == "push false", (r.stdout, r.stderr)
    assert "goaway 0" in lines and "over" in lines


def test_a_host_that_is_not_believed_is_said_in_http2_too(world, two):
    r = ask(world, two, "javascript", NODE + "ask({}).then(a => { console.log(a.text); session.close() })", ca=False)
    assert r.stdout.startswith("vial: the host's certificate is from nobody that is trusted"), (r.stdout, r.stderr)
    assert told(r) == [("two.test", PORT, "certificate")] and asked(two, 0) == []


FRAMES = r"""
import os, socket, ssl, struct, sys
HEADERS, DATA, RST, SETTINGS, PING, GOAWAY, CONTINUATION = 1, 0, 3, 4, 6, 7, 9
def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body
def field(name, value):
    def text(t):
        n = len(t)
        if n < 127: return bytes([n]) + t
        n -= 127
        out = bytes([127])
        while n > 127:
            out += bytes([n & 127 | 128])
            n >>= 7
        return out + bytes([n]) + t
    return b"\0" + text(name) + text(value)
def head(*fields):
    return b"".join(field(n.encode("latin1"), v.encode("latin1")) for n, v in fields)
def start():
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    s = context.wrap_socket(socket.create_connection(("two.test", %d)), server_hostname="two.test")
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
    return s
def frames(s):
    # Until it ends, what comes; a server that says no more is a failure of the test.
    data = b""
    s.settimeout(60)
    while True:
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
            n = int.from_bytes(data[:3], "big")
            yield data[3], data[4], int.from_bytes(data[5:9], "big"), data[9:9 + n]
            data = data[9 + n:]
        try:
            more = s.recv(65536)
        except ConnectionError:
            return
        if not more:
            return
        data += more
""" % PORT

SMUGGLE = FRAMES + r"""
key = ("authorization", "Bearer " + os.environ["API_KEY"])
line = [(":method", "POST"), (":scheme", "https"), (":path", "/got"), (":authority", "two.test:8543")]
def outcome(fields, *bodies, ends=False):
    s = start()
    # STATUS, as one field of the static table, or its name and three digits
    s.sendall(frame(HEADERS, 4 | (1 if ends else 0), 1, head(*fields)) + b"".join(bodies))
    text = b""
    for kind, flags, stream, body in frames(s):
        if kind == RST and stream == 1 and not text: return "reset"
        if kind == GOAWAY and int.from_bytes(body[4:8], "big"): return "goaway"
        if kind == DATA and stream == 1:
            text += body
            if flags & 1: return text.decode().strip()
    return "end"
def put(name, value):
    return [f if f[0] != name else (name, value) for f in line]
def drop(name):
    return [f for f in line if f[0] != name]
end = frame(DATA, 1, 1)
print("good:", outcome(line + [key], ends=True))
print("body:", outcome(line + [("content-length", "4")], frame(DATA, 1, 1, b"abcd")))
print("crlf:", outcome(line + [("x-a", "b\r\nx-b: c")], ends=True))
print("lf:", outcome(line + [("x-a", "b\nx-b: c")], ends=True))
print("nul:", outcome(line + [("x-a", "b\0c")], ends=True))
print("name:", outcome(line + [("x-a: b\r\nx-b", "c")], ends=True))
print("colon:", outcome(line + [("x-a:", "c")], ends=True))
print("upper:", outcome(line + [("X-A", "c")], ends=True))
print("path crlf:", outcome(put(":path", "/a HTTP/1.1\r\nx-b: c\r\n"), ends=True))
print("path space:", outcome(put(":path", "/a b"), ends=True))
print("absolute:", outcome(put(":path", "https://other.test/"), ends=True))
print("method:", outcome(put(":method", "GET /x HTTP/1.1\r\n"), ends=True))
print("connect:", outcome(put(":method", "CONNECT"), ends=True))
print("trace:", outcome(put(":method", "TRACE"), ends=True))
print("scheme:", outcome(put(":scheme", "http"), ends=True))
print("authority:", outcome(put(":authority", "other.test"), ends=True))
print("user:", outcome(put(":authority", "me@two.test:8543"), ends=True))
print("no authority:", outcome(drop(":authority"), ends=True))
print("host:", outcome(line + [("host", "other.test")], ends=True))
print("twice:", outcome([(":path", "/other")] + line, ends=True))
print("late:", outcome(drop(":path") + [("x-a", "b"), (":path", "/got")], ends=True))
print("status:", outcome(line + [(":status", "200")], ends=True))
print("coding:", outcome(line + [("transfer-encoding", "chunked")], frame(DATA, 1, 1, b"0\r\n\r\n")))
print("connection:", outcome(line + [("connection", "x-a")], ends=True))
print("te:", outcome(line + [("te", "gzip")], ends=True))
print("longer:", outcome(line + [("content-length", "2")], frame(DATA, 1, 1, b"abcd")))
print("shorter:", outcome(line + [("content-length", "9")], frame(DATA, 1, 1, b"abcd")))
print("none:", outcome(line + [("content-length", "9")], ends=True))
print("lengths:", outcome(line + [("content-length", "4"), ("content-length", "5")], frame(DATA, 1, 1, b"abcd")))
print("sign:", outcome(line + [("content-length", "+4")], frame(DATA, 1, 1, b"abcd")))
print("trailers:", outcome(line, frame(DATA, 0, 1, b"abcd"), frame(HEADERS, 5, 1, head(("x-a", "b")))))
print("many:", outcome(line + [("x-%%d" %% i, "b") for i in range(200)], ends=True))
print("large:", outcome(line + [("x-a", "b" * 16000)], ends=True))
""".replace("%%", "%")


def test_nothing_is_smuggled(world, two):
    r = ask(world, two, "python", SMUGGLE)
    got = dict(line.split(": ", 1) for line in r.stdout.splitlines())
    words = {"good": "fine", "body": "fine", "large": "fine"}
    for name, said in got.items():
        assert (said == words[name]) if name in words else (said in ("reset", "goaway") or said.startswith("vial: ")), r.stdout
    names = [line.split('"')[1].rstrip(":") for line in SMUGGLE.splitlines() if line.startswith("print(")]
    assert list(got) == names, r.stderr
    # Those with a body may have begun before it was seen to be wrong; none of them ended.
    assert [(a[":path"], a["body"]) for a in asked(two, 3)] == [("/got", ""), ("/got", "abcd"), ("/got", "")]
    assert sent(two, 3)[0] == "Bearer " + VALUE and "request" in {c.verdict for c in r.network.connections}


FLOODS = FRAMES + r"""
line = head((":method", "GET"), (":scheme", "https"), (":path", "/got"), (":authority", "two.test:8543"))
def flood(name, pieces):
    s = start()
    try:
        for i in range(100000):
            s.sendall(pieces(i))
        print(name + ": taken")
        return
    except OSError:
        pass
    print(name + ": ended")
# A field of the table that is 4,000 bytes long, and then nothing but its number.
def bomb(i):
    long = b"\x40" + field(b"x-a", b"b" * 3900)[1:]
    more = line + (long if i == 0 else b"") + b"\xbe" * 15000
    return frame(HEADERS, 5, 2 * i + 1, more[:16384])
flood("bomb", bomb)
flood("continuation", lambda i: frame(HEADERS, 1, 1, line) if i == 0 else frame(CONTINUATION, 0, 1, b"\0\1a\1b" * 4000))
flood("empty continuation", lambda i: frame(HEADERS, 1, 1, line) if i == 0 else frame(CONTINUATION, 0, 1) * 100)
flood("reset", lambda i: frame(HEADERS, 5, 2 * i + 1, line) + frame(RST, 0, 2 * i + 1, b"\0\0\0\x08"))
flood("ping", lambda i: frame(PING, 0, 0, b"12345678") * 100)
flood("settings", lambda i: frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff") * 100)
flood("empty data", lambda i: frame(HEADERS, 4, 1, line) if i == 0 else frame(DATA, 0, 1) * 100)
flood("windows", lambda i: frame(8, 0, 0, b"\0\0\0\1") * 100)
flood("priority", lambda i: frame(2, 0, 3, b"\0\0\0\0\1") * 100)
flood("unknown", lambda i: frame(77, 0, 0, b"x" * 100) * 100)
flood("streams", lambda i: frame(HEADERS, 4, 2 * i + 1, line))
"""


def test_floods_end_their_connection_and_no_other(world, two):
    r = ask(world, two, "sh", "cat > flood.py <<'END'\n" + FLOODS + "END\n/usr/bin/python3 flood.py; "
                              f"curl -sS --http2 {BEARER} {URL}/after")
    lines = r.stdout.splitlines()
    names = [line.split('"')[1] for line in FLOODS.splitlines() if line.startswith("flood(")]
    assert lines == [n + ": ended" for n in names] + ["fine"], (r.stdout, r.stderr)
    last = [a for a in asked(two, 1) if a[":path"] == "/after"]
    assert [a["authorization"] for a in last] == ["Bearer " + VALUE]
