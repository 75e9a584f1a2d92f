# SPDX-License-Identifier: Apache-2.0
"""The daemon's other half, and the rooms it brings together: keeper, audit, workspaces,
the Model Context Protocol, interpreters that wait."""
import contextlib
import json
import os
import signal
import subprocess
import threading

import pytest

from daemon import VIAL, VIALD, Daemon, clean_env, wait_until

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="controls run as root only")


def status_of(pid):
    with open("/proc/%d/status" % pid, encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def children(pid, name):
    out = subprocess.run(["pgrep", "-P", str(pid), "-a"], capture_output=True, text=True)
    return {int(line.split()[0]) for line in out.stdout.splitlines() if name in line}


def keepers(d):
    """Those that the daemon started; each has a child that does the work."""
    return children(d.process.pid, "vial-keeper")


def workers(d):
    return {pid for keeper in keepers(d) for pid in children(keeper, "vial-keeper")}


@ROOT_ONLY
def test_the_part_that_speaks_with_clients_has_no_privilege():
    with Daemon() as d:
        assert d.run("true").json["verdict"] == "ok"
        s = status_of(d.process.pid)
        assert set(s["Uid"].split()) == {"65534"} and "0" not in s["Gid"].split()
        assert int(s["CapEff"], 16) == int(s["CapPrm"], 16) == int(s["CapBnd"], 16) == 0
        assert (s["NoNewPrivs"], s["Seccomp"]) == ("1", "2")
        seen = 0
        for task in os.listdir("/proc/%d/task" % d.process.pid):
            with contextlib.suppress(OSError):  # the one that served us ends about now
                assert status_of(int(task))["Seccomp"] == "2"
                seen += 1
        assert seen and keepers(d)


@ROOT_ONLY
def test_a_keeper_that_dies_is_replaced_and_every_run_has_its_result():
    with Daemon(serve={"warm": "none"}) as d:
        results = []
        threads = [threading.Thread(target=lambda: results.append(d.run("sleep 600").json))
                   for _ in range(4)]
        for t in threads:
            t.start()
        assert wait_until(lambda: len(d.vessels()) >= 4)
        for pid in workers(d):
            os.kill(pid, signal.SIGKILL)
        for t in threads:
            t.join(60)
        assert len(results) == 4
        assert {r["verdict"] for r in results} == {"failed"}
        assert wait_until(lambda: d.run("true").json["verdict"] == "ok")
        assert wait_until(lambda: not d.vessels())


@ROOT_ONLY
def test_a_front_without_any_keeper_ends_and_says_so():
    with Daemon() as d:
        before = keepers(d) | workers(d)
        for pid in keepers(d):
            os.kill(pid, signal.SIGKILL)
        assert d.process.wait(60) == 125
        assert "VIAL-KEEPER" in d.log()
        assert wait_until(lambda: not any(alive(pid) for pid in before))


def alive(pid):
    """A zombie that nobody fetches is not."""
    try:
        return status_of(pid)["State"][0] != "Z"
    except OSError:
        return False


@ROOT_ONLY
def test_nothing_outlives_a_front_that_is_killed():
    with Daemon() as d:
        sid = d.ask("POST", "/v1/sessions", {}).json["id"]
        mark = "97%d" % os.getpid()
        d.ask("POST", "/v1/sessions/%s/exec" % sid, {"argv": ["sleep", mark]})
        assert wait_until(d.vessels)
        pids = keepers(d) | workers(d) | set(d.vessels())
        d.process.kill()
        d.process.wait()
        assert wait_until(lambda: not any(alive(pid) for pid in pids))
        assert not subprocess.run(["pgrep", "-f", "^sleep %s$" % mark], capture_output=True).stdout


def test_every_run_has_exactly_one_audit_record():
    with Daemon() as d:
        path = d.dir + "/audit/log"
        d.stop()
        d.settings["audit"] = {"path": path, "sync": "lazy"}
        d.start()
        ids = [d.run("exit %d" % n, headers={"X-Request-Id": "audit-%d" % n}).json["id"]
               for n in range(3)]
        ids.append(d.run("true", memory="100g").json["id"])
        d.stop()
        with open(path, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        runs = [r for r in records if r.get("event") == "run"]
        assert sorted(r["id"] if "id" in r else r["run"] for r in runs) == sorted(ids)
        assert all(("uid:%d" % os.getuid()) in json.dumps(r) for r in runs)
        assert any("audit-2" in json.dumps(r) for r in runs)
        out = subprocess.run([VIAL, "audit", "verify", path], capture_output=True, text=True,
                             env=clean_env(HOME=d.dir))
        assert out.returncode == 0, out.stdout + out.stderr


@ROOT_ONLY
@pytest.mark.parametrize("second_name", [False, True])
def test_only_the_log_itself_is_handed_to_the_daemons_user(second_name):
    """A directory that others use too, like /var/log, stays whose it was; so does a file
    that was linked into the log's place."""
    with Daemon() as d:
        d.stop()
        place = d.dir + "/logs"
        os.mkdir(place, 0o755)
        other = (d.dir if second_name else place) + "/other"
        with open(other, "w", encoding="utf-8"):
            pass
        if second_name:
            os.link(other, place + "/audit")
        d.settings["audit"] = {"path": place + "/audit"}
        d.write_settings()
        out = subprocess.run([VIALD, "--config", d.config], capture_output=True, text=True,
                             env=clean_env(HOME=d.dir), cwd="/", timeout=60)
        assert out.returncode != 0 and "VIAL-AUDIT" in out.stderr, out.stderr
        assert os.stat(place).st_uid == 0 and os.stat(other).st_uid == 0


def test_a_workspace_is_changed_looked_at_and_committed(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("old\n")
    d = Daemon(serve={"keeper": "off"}, env={"VIAL_STATE": str(tmp_path / "state")})
    audit = d.settings["audit"] = {"path": d.dir + "/trail", "sync": "lazy"}
    with d:
        made = d.ask("POST", "/v1/sessions", {"workspace": str(tree),
                                              "workspace_mode": "overlay"})
        assert made.status == 201, made.body
        path = "/v1/sessions/" + made.json["id"]
        sh = lambda line: d.ask("POST", path + "/exec?wait=1", {"shell": line})  # noqa: E731
        sh("cd /workspace; echo new > a.txt; echo made > b.txt")
        assert (tree / "a.txt").read_text() == "old\n"
        changes = d.ask("GET", path + "/workspace").json
        assert [(c["path"], c["kind"]) for c in changes] == [("a.txt", "modified"),
                                                             ("b.txt", "added")]
        text = d.ask("GET", path + "/workspace?format=text").body.decode()
        assert "-old" in text and "+new" in text
        assert d.ask("POST", path + "/workspace/checkpoints/one").status == 204
        sh("rm /workspace/b.txt")
        assert d.ask("GET", path + "/workspace/checkpoints").json == ["one"]
        assert d.ask("POST", path + "/workspace/rollback/one").status == 204
        report = d.ask("POST", path + "/workspace/commit", {"paths": ["b.txt"]}).json
        assert report == {"added": 1, "modified": 0, "deleted": 0}
        assert (tree / "b.txt").read_text() == "made\n"
        with open(audit["path"], encoding="utf-8") as file:
            told = [r for r in map(json.loads, file) if r["event"] == "workspace.commit"]
        assert [(r["changes"], r["outcome"]) for r in told] == [(report, "completed")]
        assert d.ask("POST", path + "/workspace/discard").status == 204
        assert d.ask("GET", path + "/workspace?names=1").json == []
        assert d.ask("POST", path + "/workspace/rollback/none").status >= 400


@ROOT_ONLY
def test_a_front_mounts_a_workspace_though_its_users_records_are_out_of_reach(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / "vial").mkdir()
    d = Daemon(serve={"keeper": "on"}, env={"XDG_STATE_HOME": str(tmp_path)})
    tree = d.dir + "/tree"  # where whom the front becomes can look at it
    os.mkdir(tree)
    d.settings["policy"]["mount_roots"] = [tree]
    with d:
        said = d.run("echo new > /workspace/a.txt", workspace=tree).json
        assert said["verdict"] == "ok", said["error"]
        with open(tree + "/a.txt", encoding="utf-8") as file:
            assert file.read() == "new\n"
        overlay = d.run("true", workspace=tree, workspace_mode="overlay").json
        assert overlay["error"]["code"] == "VIAL-UNSUPPORTED"
        assert "serve.keeper" in overlay["error"]["remedy"]


def test_a_workspace_is_committed_from_the_command_line(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("old\n")
    with Daemon(serve={"keeper": "off"}, env={"VIAL_STATE": str(tmp_path / "state")}) as d:
        def vial(*args):
            out = subprocess.run([VIAL, "session", args[0], "--socket", d.socket, *args[1:]],
                                 capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                 env=clean_env(HOME=d.dir), timeout=60)
            assert out.returncode == 0, out.stderr
            return out.stdout
        sid = vial("start", "--workspace", str(tree), "--workspace-mode", "overlay").strip()
        vial("checkpoint", sid, "begin")
        vial("exec", sid, "--", "sh", "-c", "echo new > /workspace/a.txt")
        assert "+new" in vial("diff", sid)
        vial("rollback", sid, "begin")
        assert vial("diff", sid) == ""
        vial("exec", sid, "--", "sh", "-c", "echo newer > /workspace/a.txt; echo x > /workspace/b")
        assert vial("commit", sid, "a.txt") == "0 added, 1 modified, 0 deleted\n"
        assert (tree / "a.txt").read_text() == "newer\n" and not (tree / "b").exists()
        vial("discard", sid)
        assert json.loads(vial("diff", "--json", sid)) == []
        vial("stop", sid)


def test_the_model_context_protocol_is_spoken_at_mcp(daemon):
    def rpc(method, params, number=1, session=None):
        headers = {"Content-Type": "application/json",
                   "Accept": "application/json, text/event-stream"}
        if session:
            headers["Mcp-Session-Id"] = session
        return daemon.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": number, "method": method,
                                           "params": params}, headers)
    first = rpc("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                               "clientInfo": {"name": "test", "version": "1"}})
    assert first.json["result"]["serverInfo"]["name"] == "vial"
    session = first.headers.get("Mcp-Session-Id")
    tools = rpc("tools/list", {}, 2, session)
    assert b"run" in tools.body and tools.status == 200


def test_what_is_asked_for_often_waits_unless_the_operator_says_none():
    with Daemon(serve={"keeper": "off"}) as d:
        assert d.ask("GET", "/v1/config").json["serve"]["warm"] == ["auto"]
        assert d.ask("GET", "/v1/pool").json["shapes"] == []  # nobody has asked yet
        for language, code in (("python", "print(1)"), ("bash", "echo 1")):
            assert wait_until(lambda: d.run(code, language).json["start"] == "warm")
    with Daemon(serve={"keeper": "off", "warm": "none"}) as d:
        assert {d.run("print(1)", "python").json["start"] for _ in range(6)} == {"cold"}
    with Daemon(serve={"keeper": "off"}, args=["--warm", "bash", "--warm", "auto"]) as d:
        assert wait_until(lambda: [s["idle"] for s in d.ask("GET", "/v1/pool").json["shapes"]
                                   if s["idle"]])


def test_interpreters_wait_where_they_are_told_to():
    with Daemon(serve={"keeper": "off", "warm": ["python"]}) as d:
        assert wait_until(lambda: d.run("print(1)", "python").json["start"] == "warm")
        assert wait_until(lambda: b"vial_vessels_pooled 0" not in d.ask("GET", "/metrics").body)
        a = d.run("import os; print(os.getpid())", "python").json
        b = d.run("import os; print(os.getpid())", "python").json
        assert a["verdict"] == b["verdict"] == "ok"
        assert a["vessel_id"] != b["vessel_id"]


@ROOT_ONLY
def test_an_ordinary_user_can_serve():
    with Daemon(uid=1000) as d:
        answer = d.run("id -u; echo hi")
        assert answer.status == 200 and answer.json["verdict"] == "ok", answer.body
        assert d.ask("GET", "/v1/version").json["caller"] == "uid:0"
