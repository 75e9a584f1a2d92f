# SPDX-License-Identifier: Apache-2.0
"""The engine over TCP, and over TLS; and the guest where it cannot be bound."""
import json
import os
import socket
import subprocess
import threading

import certs
import pytest
from conftest import PATIENCE, VIAL
from engine import PORT, TLS_PORT, wait_for


@pytest.fixture
def tls(engine, env, tmp_path):
    """vial with DOCKER_HOST over TLS, in the daemon's network; the result."""
    def run(*args, host="127.0.0.1", port=TLS_PORT, path=None):
        path = path or engine.certs.client_dir(str(tmp_path / "client"))
        done = subprocess.run(
            engine.inside + [VIAL, "run", "--json", "--driver", "docker", *args],
            capture_output=True, text=True, cwd="/", timeout=PATIENCE, check=False,
            env={**env, "DOCKER_HOST": "tcp://%s:%d" % (host, port),
                 "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": path})
        assert done.stdout, done.stderr
        return json.loads(done.stdout)
    return run


def test_a_run_over_tls_is_a_run_as_any_other(tls, api, tmp_path):
    r = tls("--in", "/etc/hostname:name", "--out", "back:%s/back" % tmp_path, "--stdin", "given",
            "bash", "cat name >back; seq 1 20000 | tail -1; cat >&2; exit 3")
    assert (r["verdict"], r["exit_code"]) == ("nonzero", 3), r
    assert r["stdout"] == "20000\n" and r["stderr"] == "given"
    assert (tmp_path / "back").read_text() == open("/etc/hostname").read()
    assert r["isolation"]["level"] == "container" and "seccomp" in r["isolation"]["layers"]
    assert r["usage"]["cpu_user_ms"] + r["usage"]["cpu_system_ms"] > 0
    assert wait_for(lambda: not api.ours())


def test_over_tls_limits_and_time_outs_hold(tls, api):
    assert tls("--timeout", "1s", "bash", "sleep 60")["verdict"] == "timeout"
    r = tls("--memory", "64m", "python", "b = bytearray(200 << 20)")
    assert r["verdict"] == "oom", r
    assert wait_for(lambda: not api.ours())


def test_a_certificate_of_another_authority_is_refused(tls, engine, tmp_path):
    other = certs.Authority(str(tmp_path / "other"))
    r = tls("bash", "true", path=engine.certs.client_dir(str(tmp_path / "mixed"), other))
    assert r["error"]["code"] == "VIAL-ENGINE-TLS" and "ca.pem" in r["error"]["remedy"], r
    assert "issuer" in r["error"]["message"]


def test_a_certificate_for_another_name_is_refused(tls):
    r = tls("bash", "true", host="127.0.0.2")
    assert r["error"]["code"] == "VIAL-ENGINE-TLS", r
    assert "name in the certificate" in r["error"]["message"]


def test_an_expired_certificate_is_refused(tls, engine):
    server = subprocess.Popen(
        engine.inside + ["openssl", "s_server", "-accept", "127.0.0.1:2377", "-cert",
                         engine.certs.path("expired.pem"), "-key",
                         engine.certs.path("expired-key.pem"), "-quiet"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        answers = []

        def refused():
            answers.append(tls("bash", "true", port=2377)["error"])
            return answers[-1]["code"] != "VIAL-ENGINE-DOWN"
        assert wait_for(refused)
        assert answers[-1]["code"] == "VIAL-ENGINE-TLS", answers[-1]
        assert "expired" in answers[-1]["message"]
    finally:
        server.kill()
        server.wait()


def test_an_engine_that_does_not_know_us_says_so(tls, engine, tmp_path):
    other = certs.Authority(str(tmp_path / "other"))
    other.issue("client", "clientAuth")
    r = tls("bash", "true", path=other.client_dir(str(tmp_path / "stranger"), engine.certs))
    assert r["error"]["code"] == "VIAL-ENGINE-TLS", r
    assert "refuses our certificate" in r["error"]["message"]
    assert "cert.pem" in r["error"]["remedy"]


def test_without_certificates_nothing_is_sent(tls, tmp_path):
    r = tls("bash", "true", path=str(tmp_path))
    assert r["error"]["code"] == "VIAL-ENGINE-TLS", r
    assert "ca.pem" in r["error"]["message"] and "DOCKER_CERT_PATH" in r["error"]["remedy"]


def test_what_does_not_speak_tls_is_not_talked_to(tls, engine):
    r = tls("bash", "true", port=5000)  # the registry
    assert r["error"]["code"] == "VIAL-ENGINE-TLS", r
    assert tls("bash", "true", port=9)["error"]["code"] == "VIAL-ENGINE-DOWN"
    assert tls("bash", "true", host="no.such.name.invalid")["error"]["code"] == \
        "VIAL-ENGINE-MISSING"


@pytest.fixture
def relay(engine):
    """The engine's socket behind a port of this host's loopback."""
    def pass_on(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve(listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(engine.socket)
            for pair in [(client, server), (server, client)]:
                threading.Thread(target=pass_on, args=pair, daemon=True).start()
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    yield "tcp://127.0.0.1:%d" % listener.getsockname()[1]
    listener.close()


def test_plain_tcp_works_on_this_host_alone(run, relay):
    r = run("bash", "echo hi", DOCKER_HOST=relay)
    assert r["stdout"] == "hi\n", r
    r = run("bash", "true", DOCKER_HOST="tcp://192.0.2.1:2375")
    assert r["error"]["code"] == "VIAL-ENGINE-TLS", r
    assert "VIAL_ENGINE_PLAIN" in r["error"]["remedy"]


def test_a_remote_engine_gets_no_directory_of_this_host(run, relay, tmp_path):
    r = run("--mount", "%s:/data" % tmp_path, "bash", "true", DOCKER_HOST=relay)
    assert r["error"]["code"] == "VIAL-UNSUPPORTED" and "--in" in r["error"]["remedy"], r


FAR = {"VIAL_TEST_FAR": "1", "VIAL_TEST_PLACE": "copy"}


def test_of_an_engine_far_away_the_figures_are_the_engines(run, api):
    """covers: FR-020-64 FR-020-65 FR-020-80"""
    r = run("--cpus", "0.02", "--timeout", "2s", "bash", "while :; do :; done", **FAR)
    assert r["verdict"] == "timeout", r
    assert r["usage"]["throttled_ms"] > 0 and r["usage"]["cpu_user_ms"] > 0, r["usage"]
    assert r["usage"]["memory_peak_bytes"] > 0
    r = run("--memory", "64m", "python", "b = bytearray(200 << 20)", **FAR)
    assert r["usage"]["memory_peak_bytes"] == 64 << 20
    r = run("--network", "bridge", "python", "import socket\n"
            "s = socket.create_connection(('172.31.254.1', %d), 5)\n"
            "s.sendall(b'GET /v2/ HTTP/1.0\\r\\n\\r\\n'); s.recv(12)" % PORT, **FAR)
    assert r["usage"]["net_rx_bytes"] > 0 and r["usage"]["net_tx_bytes"] > 0, r
    assert wait_for(lambda: not api.ours())


@pytest.mark.parametrize("place", ["copy", "exec"])
def test_far_away_a_kill_for_memory_is_told_from_any_other(run, relay, place):
    """Each time, though the engine notes the reason later, if at all.
    covers: FR-020-63"""
    far = {**FAR, "VIAL_TEST_PLACE": place, "DOCKER_HOST": relay}
    for _ in range(4):
        r = run("--memory", "48m", "python", "b = bytearray(200 << 20)", **far)
        assert (r["verdict"], r["limits_hit"]) == ("oom", ["memory"]), r
    r = run("--memory", "48m", "bash", "kill -9 $$", **far)
    assert (r["verdict"], r["signal"], r["limits_hit"]) == ("signal", "KILL", []), r
    r = run("--memory", "48m", "bash", "python3 -c 'bytearray(200 << 20)'; exit 3", **far)
    assert (r["verdict"], r["limits_hit"]) == ("nonzero", ["memory"]), r


@pytest.mark.parametrize("place", ["copy", "exec"])
def test_a_guest_that_cannot_be_bound_is_brought(run, api, place):
    """covers: FR-020-24"""
    r = run("--cache", "brought", "bash", "touch /x /usr/x 2>/dev/null; ls /x /tmp/.vial-init "
            "2>/dev/null; echo >/tmp/ok; echo >/cache/brought/ok; "
            "grep NoNew /proc/self/status; id -u", VIAL_TEST_PLACE=place)
    assert r["stdout"] == "NoNewPrivs:\t1\n1000\n" and r["verdict"] == "ok", r
    assert wait_for(lambda: not api.ours())


def test_a_copied_guest_leaves_no_volume(run, api):
    before = api.call("GET", "/volumes")["Volumes"] or []
    assert run("bash", "true", VIAL_TEST_PLACE="copy")["verdict"] == "ok"
    assert wait_for(lambda: (api.call("GET", "/volumes")["Volumes"] or []) == before)


def test_a_brought_guest_goes_with_its_owner(api, env):
    p = subprocess.Popen([VIAL, "run", "--driver", "docker", "bash", "echo up; sleep 60"],
                         env={**env, "VIAL_TEST_PLACE": "exec"}, cwd="/",
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    p.kill()
    p.communicate()
    assert wait_for(lambda: not api.ours())
