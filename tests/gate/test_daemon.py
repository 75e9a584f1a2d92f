# SPDX-License-Identifier: Apache-2.0
"""Gates of the daemon's vessels: started by its keeper, apart from the front."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, VIAL
from servers import wait_until

sys.path.insert(0, str(ROOT / "tests" / "serve"))

from daemon import Daemon, clean_env  # noqa: E402

CODE = """
import urllib.request
print(urllib.request.urlopen("http://web.test/hello", timeout=60).read().decode().strip())
"""


def policy(world, **more):
    return {"gate_resolvers": [world.names.address], "allow_private": ["127.77.0.0/16"], **more}


@pytest.fixture(scope="module")
def daemon(world):
    with Daemon(policy=policy(world, allow=["web.test", "*.wild.test"], networks=["none", "gate"])) as d:
        yield d


def request(**more):
    return {"language": "python", "code": CODE, "network": "gate", "allow": ["web.test"], **more}


def test_a_run_of_the_daemon_reaches_what_is_allowed(daemon):
    r = daemon.ask("POST", "/v1/run", request()).json
    assert r["stdout"] == "hello from web.test\n", r
    told = [(c["name"], c["port"], c["verdict"]) for c in r["network"]["connections"]]
    assert told == [("web.test", 80, "ok")]
    assert "\nvial_gate_connections_total " in daemon.ask("GET", "/metrics").body.decode()


def test_the_daemons_policy_binds_its_callers(daemon):
    answer = daemon.ask("POST", "/v1/run", request(allow=["other.test"]))
    assert answer.json["error"]["message"] == "allow 'other.test' is not allowed by the policy"


def test_callers_of_a_daemon_whose_policy_says_nothing_have_no_gate(world):
    with Daemon(policy=policy(world)) as d:
        answer = d.ask("POST", "/v1/run", request())
        assert answer.json["error"]["code"] == "VIAL-POLICY"
        assert answer.json["error"]["message"] == \
            "a daemon's callers have a gate only if the policy says so"


def test_a_sessions_programs_tell_what_each_reached(daemon):
    session = daemon.ask("POST", "/v1/sessions", {"network": "gate", "allow": ["web.test"]}).json
    path = "/v1/sessions/%s" % session["id"]
    for _ in range(2):
        done = daemon.ask("POST", path + "/exec?wait=true",
                          {"argv": ["python3", "-c", CODE]}).json
        assert done["stdout"] == "hello from web.test\n", done
        assert [c["name"] for c in done["network"]["connections"]] == ["web.test"]
    daemon.ask("DELETE", path)


def gates():
    """Those that live: pid -> parent."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            status = dict(line.split(":\t", 1) for line in path.read_text().splitlines()
                          if ":\t" in line)
        except OSError:
            continue
        if status["Name"] == "vial-gate" and not status["State"].startswith("Z"):
            found[int(path.parent.name)] = int(status["PPid"])
    return found


def is_below(pid, ancestor):
    """False also for one that has just gone: others run on this machine."""
    try:
        while pid > 1 and pid != ancestor:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return False
    return pid == ancestor


def is_keeper(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("vial-keeper")
    except OSError:
        return False


def test_the_front_is_no_gates_parent_and_none_is_left(daemon):
    session = daemon.ask("POST", "/v1/sessions", {"network": "gate", "allow": ["web.test"]}).json
    path = "/v1/sessions/%s" % session["id"]
    daemon.ask("POST", path + "/exec?wait=true", {"argv": ["true"]})
    front = daemon.process.pid
    keepers = [int(p.name) for p in Path("/proc").glob("[0-9]*") if is_keeper(p.name)
               and is_below(int(p.name), front)]
    mine = {pid: parent for pid, parent in gates().items() if is_below(pid, front)}
    assert mine and keepers
    assert front not in mine.values()
    daemon.ask("DELETE", path)
    wait_until(lambda: not gates().keys() & mine.keys())


def test_a_vessel_that_waited_has_its_gate(world):
    with Daemon(serve={"warm": "auto"}, policy=policy(world, allow=["web.test"])) as d:
        def warm():
            r = d.ask("POST", "/v1/run", request()).json
            assert r["stdout"] == "hello from web.test\n", r
            return r["start"] == "warm" and r["network"]["made"] == 1
        wait_until(warm)


def test_the_command_asks_the_daemon_and_tells_the_same(daemon):
    done = subprocess.run([VIAL, "run", "--daemon", "--socket", daemon.socket, "--json", "--network",
                           "gate", "--allow", "web.test", "python", CODE], capture_output=True,
                          timeout=60, check=False, stdin=subprocess.DEVNULL,
                          env=clean_env(HOME=daemon.dir))
    r = json.loads(done.stdout)
    assert r["stdout"] == "hello from web.test\n", r
    assert r["network"]["connections"][0]["verdict"] == "ok" and r["network"]["whole"] is True
