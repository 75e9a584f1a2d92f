# SPDX-License-Identifier: Apache-2.0
"""Networks, name servers, ports, caches and runtimes of a real engine."""
import json
import socket
import subprocess
import threading
import time

import pytest
from conftest import PATIENCE, VIAL
from engine import PORT, wait_for

BRIDGE = ["--network", "bridge"]
SERVE = ("import http.server, sys\nprint('up', flush=True)\n"
         "http.server.HTTPServer(('0.0.0.0', 8000), http.server.BaseHTTPRequestHandler)"
         ".handle_request()\nprint('served')")
GET = ("import socket, sys\ns = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)\n"
       "s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(s.recv(12).decode())")


@pytest.fixture
def network(api):
    """Makes networks, and removes them."""
    made = []

    def make(name, driver="bridge", **options):
        api.call("POST", "/networks/create", {"Name": name, "Driver": driver,
                                              "CheckDuplicate": True, **options})
        made.append(name)
        return name
    yield make
    for name in made:
        assert wait_for(lambda: removed(api, name))


def removed(api, name):
    try:
        api.call("DELETE", "/networks/" + name)
        return True
    except RuntimeError as e:
        return " 404 " in str(e)


def mine(api, session):
    return [c for c in api.ours() if c["Labels"].get("vial.session") == session][0]


def test_a_joined_network_leads_to_what_is_on_it(api, run, start, network):
    """covers: FR-020-75 FR-020-76"""
    name = network("vial-backend")
    start(*BRIDGE, "--network-name", name, "--session", "served", "python", SERVE)
    address = api.inspect(mine(api, "served"))["NetworkSettings"]["Networks"][name]["IPAddress"]
    get = ["python", GET, address, "8000"]
    # Not on the same network: not reachable. It must be asked for.
    r = run("--network", "none", *get)
    assert r["verdict"] == "nonzero", r
    r = run(*BRIDGE, "--timeout", "20s", *get)
    assert r["verdict"] == "nonzero", r
    r = run(*BRIDGE, "--network-name", name, *get)
    assert r["stdout"].startswith("HTTP/1."), r


def test_a_network_that_is_not_there_or_leads_to_the_host_is_refused(api, run):
    """covers: FR-020-49 NFR-020-30"""
    r = run(*BRIDGE, "--network-name", "vial-nowhere", "bash", "true")
    assert r["error"]["code"] == "VIAL-ENGINE-NETWORK", r
    assert r["error"]["remedy"] == "make it with 'docker network create vial-nowhere'"
    host = [n for n in api.call("GET", "/networks") if n["Name"] == "host"][0]
    for name in [host["Id"], host["Id"][:12]]:
        r = run(*BRIDGE, "--network-name", name, "bash", "true")
        assert r["error"]["code"] == "VIAL-ENGINE-NETWORK", r


class Dns(threading.Thread):
    """Answers every question for an address with 10.9.8.7."""

    def __init__(self, engine):
        super().__init__(daemon=True)
        self.process = subprocess.Popen(
            engine.inside + ["python3", "-c", (
                "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                "s.bind(('172.31.254.1', 53)); print('up', flush=True)\n"
                "while True:\n"
                "  q, who = s.recvfrom(512)\n"
                "  end = q.index(0, 12) + 5\n"
                "  v6 = q[end - 3] == 28\n"
                "  head = q[:2] + b'\\x81\\x80\\0\\1' + (b'\\0\\0' if v6 else b'\\0\\1') + b'\\0' * 4\n"
                "  s.sendto(head + q[12:end] + (b'' if v6 else b'\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1"
                "\\0\\4\\x0a\\x09\\x08\\x07'), who)\n")],
            stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"up\n"

    def stop(self):
        self.process.kill()
        self.process.communicate()


def test_the_name_server_is_the_one_that_was_named(engine, run):
    """covers: FR-020-71 FR-020-72 FR-020-73"""
    ask = "import socket\nprint(socket.gethostbyname('vial.test'))"
    dns = Dns(engine)
    try:
        r = run(*BRIDGE, "--dns", "172.31.254.1", "python", ask)
        assert r["stdout"] == "10.9.8.7\n", r
        r = run("python", ask)
        assert r["verdict"] == "nonzero" and "gaierror" in r["stderr"], r
    finally:
        dns.stop()


def test_a_published_port_leads_inside_on_loopback_alone(engine, api, start):
    """covers: FR-020-77"""
    start(*BRIDGE, "--publish", "18080:8000", "--session", "open", "python", SERVE)
    bound = api.inspect(mine(api, "open"))["NetworkSettings"]["Ports"]["8000/tcp"]
    assert bound == [{"HostIp": "127.0.0.1", "HostPort": "18080"}]


def test_ports_are_listed_and_a_free_one_can_be_had(api, start, vial):
    """covers: FR-020-77 FR-020-06"""
    start(*BRIDGE, "-p", "0:8000", "--session", "any", "bash", "echo up; sleep 60")
    listed = [v for v in json.loads(vial("ps", "--json").stdout) if v.get("session") == "any"]
    assert len(listed) == 1 and listed[0]["ports"][0].startswith("127.0.0.1:"), listed
    assert listed[0]["ports"][0].endswith(":8000/tcp")


def test_a_port_that_is_taken_is_told(run, start):
    """covers: FR-020-78"""
    start(*BRIDGE, "--publish", "18081:80", "bash", "echo up; sleep 60")
    r = run(*BRIDGE, "--publish", "18081:80", "bash", "true")
    assert r["error"]["code"] == "VIAL-ENGINE-PORT", r
    assert "18081" in r["error"]["message"] and "port 0" in r["error"]["remedy"]


def test_a_port_for_everybody_needs_the_operators_word(vial, run, tmp_path):
    r = run(*BRIDGE, "--publish", "0.0.0.0:18082:80", "bash", "true")
    assert r["verdict"] == "denied" and r["error"]["code"] == "VIAL-POLICY", r
    config = tmp_path / "vial.yaml"
    config.write_text("policy: { publish: ['0.0.0.0:18082'] }\n")
    done = vial("--config", str(config), "run", "--driver", "docker", *BRIDGE, "-p",
                "0.0.0.0:18082:80", "bash", "echo hi")
    assert done.stdout == "hi\n", done.stderr


def test_waiting_for_the_network_does_not_outlast_the_time_out(run):
    r = run(*BRIDGE, "--timeout", "1s", "python", "import socket\ns = socket.socket()\n"
            "s.connect(('172.31.254.1', %d))\ns.recv(1)" % PORT)
    assert r["verdict"] == "timeout", r


# Caches.

@pytest.fixture
def caches(api):
    yield
    for volume in api.call("GET", "/volumes")["Volumes"] or []:
        if "-cache-" in volume["Name"]:
            assert wait_for(lambda: gone_volume(api, volume["Name"]))


def gone_volume(api, name):
    try:
        api.call("DELETE", "/volumes/" + name)
        return True
    except RuntimeError as e:
        return " 404 " in str(e)


def test_a_cache_outlives_its_vessels(run, api, caches):
    """covers: FR-020-44 FR-020-45 FR-020-46"""
    acode = ["--prefix", "acode", "--cache", "pip"]
    assert run(*acode, "bash", "echo kept >$PIP_CACHE_DIR/x")["verdict"] == "ok"
    assert wait_for(lambda: not api.ours())
    assert "acode-cache-pip" in [v["Name"] for v in api.call("GET", "/volumes")["Volumes"]]
    r = run(*acode, "bash", "cat /cache/pip/x; rm /cache/pip/.vial-cache || echo stays")
    assert r["stdout"] == "kept\nstays\n", r


def test_a_cache_is_used_by_several_at_once(run, caches):
    """covers: FR-020-32"""
    results = []

    def work(i):
        results.append(run("--cache", "new", "bash", "echo %d >/cache/new/%d" % (i, i)))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [r["verdict"] for r in results] == ["ok"] * 3, results
    assert run("--cache", "new", "bash", "cat /cache/new/*")["stdout"] == "0\n1\n2\n"


def test_caches_are_listed_and_removed_on_demand(run, vial, caches):
    run("--cache", "a", "--cache", "b", "bash", "true")
    names = [v["name"] for v in json.loads(vial("cache", "list", "--json").stdout)]
    assert {"vial-cache-a", "vial-cache-b"} <= set(names)
    assert wait_for(lambda: json.loads(vial("cache", "prune", "--json").stdout) is not None
                    and not json.loads(vial("cache", "list", "--json").stdout))


# Runtimes and names.

def test_a_runtime_is_the_one_that_was_named(api, run, start):
    start("--runtime", "second", "--session", "rt", "bash", "echo up; sleep 60")
    assert api.inspect(mine(api, "rt"))["HostConfig"]["Runtime"] == "second"
    r = run("--runtime", "runsc", "bash", "true")
    assert r["error"]["code"] == "VIAL-ENGINE-RUNTIME", r
    assert r["verdict"] == "denied"


def test_names_and_labels_have_the_prefix(api, start, vial):
    """covers: FR-020-28 FR-020-29 FR-020-30 FR-020-31"""
    start("--prefix", "acode", "--session", "s1", "--task", "t1", "bash", "echo up; sleep 60")
    found = mine(api, "s1")
    assert found["Names"] == ["/acode-s1-t1"]
    labels = found["Labels"]
    assert (labels["acode.managed"], labels["acode.session"], labels["acode.task"]) == \
        ("true", "s1", "t1")
    assert labels["vial.managed"] == "true"


def test_how_patient_to_be_is_the_callers_choice(run, engine):
    """covers: FR-020-34 FR-020-35"""
    seen = []
    path = engine.run + "/busy.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()

        def serve():
            while True:
                try:
                    client, _ = s.accept()
                except OSError:
                    return
                client.recv(65536)
                seen.append(time.monotonic())
                client.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}")
                client.close()
        threading.Thread(target=serve, daemon=True).start()
        r = run("--retries", "3", "--retry-wait", "40ms", "bash", "true",
                DOCKER_HOST="unix://" + path)
        assert r["error"]["code"] == "VIAL-ENGINE-API", r
        assert len(seen) == 4
        gaps = [b - a for a, b in zip(seen, seen[1:])]
        assert all(gap >= wait for gap, wait in zip(gaps, [0.04, 0.08, 0.16])), gaps
        s.shutdown(socket.SHUT_RDWR)


def test_an_open_that_takes_too_long_is_given_up(run, engine):
    """covers: FR-020-35"""
    path = engine.run + "/slow.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()
        r = run("--open-timeout", "300ms", "bash", "true", DOCKER_HOST="unix://" + path)
        assert r["error"]["code"] == "VIAL-ENGINE-TIMEOUT", r
