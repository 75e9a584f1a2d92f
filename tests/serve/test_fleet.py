# SPDX-License-Identifier: Apache-2.0
"""Several daemons behind one proxy: ids that carry their node, daemons that go without losing
anything, and a real HAProxy with the configuration that the chart has."""
import json
import os
import re
import signal
import socket
import subprocess

import pytest

from daemon import VIALD, Daemon, free_port, wait_until
from fleet import COUNT, Fleet, Load, finds_a_sandbox, finds_an_mcp_session

proxied = pytest.mark.skipif(not os.path.exists("/usr/sbin/haproxy"), reason="no haproxy here")


def hear(port):
    with socket.create_connection(("127.0.0.1", port), 30) as s:
        return s.makefile().read()


@pytest.mark.parametrize("node, tag", [("vial-12", "12"), ("n1", "n1")])
def test_ids_carry_the_node(node, tag):
    with Daemon(serve={"node": node}) as d:
        assert re.fullmatch("s-%s-[0-9a-f]{16}" % tag, d.ask("POST", "/v1/sessions", {}).json["id"])
        done = d.run("true")
        assert re.fullmatch("r-%s-[0-9a-f]{16}" % tag, done.json["id"])
        assert re.fullmatch("q-%s-[0-9a-f]{16}" % tag, done.headers["X-Request-Id"])
        assert d.ask("GET", "/v1/runs/" + done.json["id"]).json["id"] == done.json["id"]
        assert d.ask("GET", "/readyz").json["capacity"]["node"] == tag


def test_ids_are_as_ever_without_a_node(daemon):
    assert re.fullmatch("s-[0-9a-f]{16}", daemon.ask("POST", "/v1/sessions", {}).json["id"])
    assert re.fullmatch("r-[0-9a-f]{16}", daemon.run("true").json["id"])


@pytest.mark.parametrize("node", ["vial-", "vial-12345", "N1", "a b", "x/y"])
def test_a_node_that_no_id_could_carry_is_refused(node, tmp_path):
    (tmp_path / "v.yaml").write_text(json.dumps({"serve": {"node": node}}))
    out = subprocess.run([VIALD, "--config", str(tmp_path / "v.yaml")], capture_output=True,
                         text=True, check=False)
    assert out.returncode == 125
    assert "node '%s' does not end in 1 to 4 small letters and digits" % node in out.stderr


def test_mcp_sessions_carry_the_node():
    with Daemon(serve={"node": "n7"}) as d:
        a = d.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}}},
            {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"})
        assert re.fullmatch("n7-[0-9a-f]{32}", a.headers["Mcp-Session-Id"])


def test_the_agent_says_how_much_is_free_and_then_that_it_goes():
    port = free_port()
    with Daemon(serve={"agent": "tcp:127.0.0.1:%d" % port, "notice": "60s"}) as d:
        assert hear(port) == "ready 100%\n"
        d.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: hear(port) == "drain\n")
        d.process.send_signal(signal.SIGTERM)  # a second one ends the wait
        assert d.process.wait(60) == 0


def test_a_daemon_that_goes_says_so_and_takes_what_comes_for_its_notice():
    with Daemon(serve={"notice": "60s"}) as d:
        assert d.ask("GET", "/readyz").headers["Vial-Ends-In"] is None
        d.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: d.ask("GET", "/readyz").status == 503)
        assert d.ask("GET", "/readyz").json["status"] == "draining"
        done = d.run("echo late")
        assert (done.status, done.json["stdout"]) == (200, "late\n")
        assert 0 <= int(done.headers["Vial-Ends-In"]) <= 60
        d.process.send_signal(signal.SIGTERM)
        assert d.process.wait(60) == 0


def test_sessions_go_on_while_a_daemon_drains_and_nothing_new_comes():
    with Daemon(serve={"drain_sessions": "120s"}) as d:
        sid = d.ask("POST", "/v1/sessions", {}).json["id"]
        d.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: d.ask("GET", "/readyz").status == 503)
        assert wait_until(lambda: d.run("true").status == 503)
        refused = d.ask("POST", "/v1/sessions", {})
        assert (refused.status, refused.code) == (503, "VIAL-BUSY")
        done = d.ask("POST", "/v1/sessions/%s/exec?wait=1" % sid, {"shell": "echo on"})
        assert done.json["stdout"] == "on\n"
        assert 0 < int(done.headers["Vial-Ends-In"]) <= 120
        assert d.ask("DELETE", "/v1/sessions/" + sid).status == 204
        assert d.process.wait(60) == 0  # as soon as there is none


@pytest.fixture
def fleet(tmp_path):
    with Fleet(tmp_path) as f:
        yield f


@proxied
def test_the_configuration_is_one_that_haproxy_takes_without_a_warning(tmp_path):
    out = subprocess.run(["/usr/sbin/haproxy", "-c", "-f", Fleet(tmp_path).write_config()],
                         capture_output=True, text=True, check=False)
    assert (out.returncode, out.stdout + out.stderr) == (0, "Configuration file is valid\n")


@proxied
def test_what_has_a_node_goes_there_and_the_rest_to_all(fleet):
    sids = [fleet.session_on(i) for i in range(COUNT)]
    for i, sid in enumerate(sids):
        done = fleet.exec(sid, "echo on %d" % i)
        assert done.json["stdout"] == "on %d\n" % i
        assert fleet.nodes[i].lines("http")[-1]["session"] == sid
    ran = fleet.run("echo 1").json["id"]
    assert fleet.ask("GET", "/v1/runs/" + ran).json["id"] == ran
    lost = fleet.ask("GET", "/v1/sessions/s-zz-%016x" % 0)
    assert (lost.status, lost.code) == (404, "VIAL-SESSION")


@proxied
def test_sandboxes_are_found_by_path_header_and_name(tmp_path):
    """Their ids stay letters and digits, as E2B's clients take them."""
    with Fleet(tmp_path, e2b="on") as fleet:
        for _ in range(COUNT):
            finds_a_sandbox(fleet)


@proxied
def test_an_mcp_session_stays_on_its_node(fleet):
    for _ in range(2 * COUNT):
        finds_an_mcp_session(fleet)


@proxied
def test_one_key_has_one_answer_whoever_is_asked(fleet):
    first = fleet.run("echo $RANDOM$RANDOM", {"Idempotency-Key": "once"})
    for _ in range(2 * COUNT):
        again = fleet.run("echo $RANDOM$RANDOM", {"Idempotency-Key": "once"})
        assert again.json["stdout"] == first.json["stdout"]
        assert again.headers["Idempotency-Replayed"] == "true"


@proxied
def test_a_killed_node_loses_its_own_sessions_and_no_idempotent_run(fleet):
    sids = [fleet.session_on(i) for i in range(COUNT)]
    with Load(fleet, keyed=True) as load:
        fleet.nodes[1].stop(signal.SIGKILL)
        load.passed(20)
    assert (load.lost, load.wrong) == ([], [])
    assert fleet.exec(sids[0], "echo on").json["stdout"] == "on\n"
    assert fleet.exec(sids[2], "echo on").json["stdout"] == "on\n"
    gone = fleet.exec(sids[1], "echo on")
    assert (gone.status, gone.code) == (503, "VIAL-DAEMON")
    fleet.nodes[1].start()
    assert wait_until(lambda: fleet.exec(sids[1], "echo on").status == 404)
    assert fleet.exec(sids[1], "echo on").code == "VIAL-SESSION"


@proxied
def test_a_rolling_restart_loses_no_run_at_all(fleet):
    with Load(fleet, keyed=False, clients=2) as plain, Load(fleet, keyed=True, clients=2) as keyed:
        for node in fleet.nodes:
            assert node.stop() == 0
            node.start()
            assert wait_until(fleet.all_serve)
            plain.passed(4)
            keyed.passed(4)
    assert (plain.lost, plain.wrong, keyed.lost, keyed.wrong) == ([], [], [], [])


@proxied
def test_a_proxy_that_was_killed_loses_no_session_and_no_run_that_is_asked_for_again(fleet):
    sids = [fleet.session_on(i) for i in range(COUNT)]
    with Load(fleet, keyed=True, again=True) as load:
        fleet.proxy.kill()
        fleet.proxy.wait()
        fleet.start_proxy()
        load.passed(12)
    assert (load.lost, load.wrong) == ([], [])
    for sid in sids:
        assert fleet.exec(sid, "echo on").json["stdout"] == "on\n"


@proxied
def test_a_node_that_drains_keeps_its_sessions_and_gets_no_runs(tmp_path):
    with Fleet(tmp_path, notice="1s", drain_sessions="120s") as fleet:
        sid = fleet.session_on(0)
        node = fleet.nodes[0]
        node.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: node.lines("drain"))
        with Load(fleet, keyed=False) as load:
            load.passed(12)
            done = fleet.exec(sid, "echo on")
            assert done.json["stdout"] == "on\n"
            assert 0 <= int(done.headers["Vial-Ends-In"]) <= 121
        assert (load.lost, load.wrong) == ([], [])
        assert fleet.ask("DELETE", "/v1/sessions/" + sid).status == 204
        assert node.process.wait(60) == 0
