# SPDX-License-Identifier: Apache-2.0
"""Judge0's callbacks: who asked for one hears of the end, and nobody else is called."""
import base64
import contextlib
import http.server
import json
import queue
import socket
import ssl
import subprocess
import threading
import time

import pytest

from wire import Wired

PYTHON = 71


class Listener:
    """A server that tells what it was sent: `heard` has (method, path, body), one each."""

    def __init__(self, status=200, headers=(), drop=0, tls=None, host="127.0.0.1"):
        self.heard = queue.Queue()
        outer = self
        self.drop = drop

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.heard.put((self.command, self.path, dict(self.headers), body))
                if outer.drop > 0:  # hangs up without a word
                    outer.drop -= 1
                    self.close_connection = True
                    return
                self.send_response(status)
                for pair in headers:
                    self.send_header(*pair)
                self.send_header("Content-Length", "0")
                self.end_headers()
            do_GET = do_POST = do_PUT

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((host, 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def called(*hosts, keeper=None, **listener):
    """A listener, and a daemon that may call HOSTS, in which %d is the listener's port."""
    with Listener(**listener) as heard:
        serve = {"callbacks": [h % heard.port if "%d" in h else h for h in hosts]}
        if keeper:
            serve["keeper"] = keeper
        with Wired(serve=serve) as daemon:
            yield daemon, heard


def submit(daemon, url, query="", code="print('hé')"):
    return daemon.call("POST", "/submissions?" + query,
                       {"source_code": code, "language_id": PYTHON, "callback_url": url})


def failure(daemon):
    """The log's line about a callback that was given up."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        lines = daemon.lines("callback")
        if lines:
            return lines[0]
        time.sleep(0.05)
    raise AssertionError("no callback was given up: " + daemon.log())


@pytest.mark.parametrize("keeper", ["auto", "off"])
@pytest.mark.parametrize("query", ["", "wait=true"])
def test_the_end_is_put_to_the_url_in_base64(keeper, query):
    with called("127.0.0.1:%d", keeper=keeper) as (daemon, heard):
        status, answer = submit(daemon, "http://127.0.0.1:%d/hook?x=1" % heard.port, query)
        assert status == 201, answer
        method, path, headers, body = heard.heard.get(timeout=60)
        told = json.loads(body)
        assert (method, path) == ("PUT", "/hook?x=1")
        assert headers["Content-Type"] == "application/json"
        assert headers["Host"] == "127.0.0.1:%d" % heard.port
        assert set(told) == {"token", "time", "memory", "stdout", "stderr", "compile_output",
                             "message", "status"}
        assert told["token"] == answer["token"] and told["status"]["id"] == 3
        assert base64.b64decode(told["stdout"]).decode() == "hé\n"


def test_each_of_a_batch_is_told_once():
    with called("127.0.0.1:%d") as (daemon, heard):
        url = "http://127.0.0.1:%d/" % heard.port
        status, tokens = daemon.call("POST", "/submissions/batch", {"submissions": [
            {"source_code": "exit(%d)" % n, "language_id": PYTHON, "callback_url": url + str(n)}
            for n in range(8)]})
        assert status == 201
        told = [heard.heard.get(timeout=60) for _ in range(8)]
        assert sorted(path for _, path, _, _ in told) == ["/%d" % n for n in range(8)]
        assert {json.loads(body)["token"] for *_, body in told} == {t["token"] for t in tokens}
        _, shown = daemon.call("GET", "/submissions/%s?fields=callback_url" % tokens[3]["token"])
        assert shown == {"callback_url": url + "3"}


def test_a_connection_that_fails_is_tried_again_and_a_refusal_is_not():
    with called("127.0.0.1:%d", drop=2, status=500) as (daemon, heard):
        assert submit(daemon, "http://127.0.0.1:%d/" % heard.port)[0] == 201
        bodies = {heard.heard.get(timeout=60)[3] for _ in range(3)}
        assert len(bodies) == 1  # two hang-ups, and one answer, which is an answer
        _, config = daemon.call("GET", "/config_info")
        assert (config["enable_callbacks"], config["callbacks_max_tries"]) == (True, 3)
        assert config["callbacks_timeout"] == 5.0
        # The next one comes after the pause between two tries: a fourth would have come before.
        assert submit(daemon, "http://127.0.0.1:%d/next" % heard.port,
                      code="import time; time.sleep(3)")[0] == 201
        assert heard.heard.get(timeout=60)[1] == "/next"


def test_a_redirection_is_not_followed():
    with Listener() as other:
        away = ("Location", "http://127.0.0.1:%d/inner" % other.port)
        with called("127.0.0.1:%d", "127.0.0.1:%d" % other.port, status=307,
                    headers=[away]) as (daemon, heard):
            assert submit(daemon, "http://127.0.0.1:%d/" % heard.port)[0] == 201
            heard.heard.get(timeout=60)
            assert submit(daemon, "http://127.0.0.1:%d/own" % other.port)[0] == 201
            assert other.heard.get(timeout=60)[1] == "/own"


def test_a_server_that_is_gone_is_told_of_in_the_log():
    taken = socket.socket()  # held for the whole test, and nobody listens on it
    taken.bind(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with taken, Wired(serve={"callbacks": ["127.0.0.1:%d" % port]}) as daemon:
        _, answer = submit(daemon, "http://127.0.0.1:%d/a-secret" % port)
        line = failure(daemon)
        assert line["submission"] == answer["token"] and line["port"] == str(port)
        assert "refused" in line["error"]
        assert "a-secret" not in daemon.log()


WRONG = ["http://127.0.0.1:%d/", "http://127.0.0.2:9/", "http://127.1/", "http://2130706433/",
         "http://0x7f.0.0.1/", "http://[::1]:80/", "http://[::ffff:127.0.0.1]/",
         "http://169.254.169.254/latest", "http://hooks.example.com:8080/",
         "http://hooks.example.com.evil.net/", "http://evil.net@hooks.example.com/",
         "http://hooks.example.com@evil.net/", "http://hooks.example.com:80:80/",
         "http://hooks.example.com/a b", "http://hooks.example.com/\r\nX: y",
         "http://hooks.example.com#@evil.net/", "ftp://hooks.example.com/",
         "file:///etc/passwd", "hooks.example.com", "http://", "http:///x",
         "http://hooks.example.com/" + "x" * 3000, "http://hooks.example.com./",
         "http://hooks.example.com\\@evil.net/", "http://example.com/"]


def test_only_named_hosts_may_be_asked_for():
    with called("hooks.example.com", "*.hooks.example.com:8443", "10.9.8.7:99") as (daemon, heard):
        for url in WRONG:
            url = url % heard.port if "%d" in url else url
            status, answer = submit(daemon, url)
            assert (status, answer) == (422, {"callback_url": [
                "its host is not among those that may be called back"]}), url
        assert heard.heard.empty()


def test_a_name_does_not_lead_to_this_host():
    """As one would that answers with 127.0.0.1, or with an address of the own network."""
    with called("localhost:%d") as (daemon, heard):
        assert submit(daemon, "http://LOCALHOST:%d/" % heard.port)[0] == 201
        assert "neither public nor named" in failure(daemon)["error"]
        assert heard.heard.empty()


def test_a_name_leads_to_addresses_that_are_named():
    with called("localhost:%d", "127.0.0.0/8:%d") as (daemon, heard):
        assert submit(daemon, "http://localhost:%d/" % heard.port)[0] == 201
        assert heard.heard.get(timeout=60)[2]["Host"] == "localhost:%d" % heard.port


def test_a_certificate_that_nobody_signed_is_not_spoken_to(tmp_path):
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert,
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    with called("127.0.0.1:%d", tls=tls) as (daemon, heard):
        assert submit(daemon, "https://127.0.0.1:%d/" % heard.port)[0] == 201
        assert "certificate" in failure(daemon)["error"]
        assert heard.heard.empty()


def test_an_entry_that_is_none_keeps_the_daemon_from_starting():
    with pytest.raises(RuntimeError, match="serve: callbacks: 'http://x': its port is not a number"):
        with Wired(serve={"callbacks": ["http://x"]}):
            pass


def test_a_daemon_that_ends_does_not_wait_for_a_server_that_is_silent():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with Wired(serve={"callbacks": ["127.0.0.1:%d" % port]}) as daemon:
            assert submit(daemon, "http://127.0.0.1:%d/" % port)[0] == 201
            taken, _ = silent.accept()
            with taken:
                assert taken.recv(3) == b"PUT"
                assert daemon.stop() == 0


def test_who_connects_has_no_rights():
    with called("127.0.0.1:%d") as (daemon, heard):
        out = subprocess.run(["pgrep", "-f", "vial-tls calls 127.0.0.1:%d" % heard.port],
                             capture_output=True, text=True, check=True)
        words = dict(line.split(":", 1) for line in open("/proc/%d/status" % int(out.stdout)))
        assert words["Uid"].split() != ["0"] * 4
        assert int(words["CapEff"], 16) == int(words["CapPrm"], 16) == 0
        assert words["NoNewPrivs"].strip() == "1"
