# SPDX-License-Identifier: Apache-2.0
"""Sessions over HTTP, and `vial session` over the same daemon."""
import contextlib
import fcntl
import http.client
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import tarfile
import tempfile
import termios
import time

import pytest

from daemon import VIAL, Daemon, clean_env, processes, wait_until
from soak import descendants
from test_auth import secret, write_tokens


@pytest.fixture
def session(daemon):
    answer = daemon.ask("POST", "/v1/sessions", {})
    assert answer.status == 201
    path = "/v1/sessions/" + answer.json["id"]
    yield path
    daemon.ask("DELETE", path)


def test_a_session_keeps_its_files_between_programs(daemon, session):
    daemon.ask("POST", session + "/exec?wait=1", {"shell": "echo kept > file"})
    answer = daemon.ask("POST", session + "/exec?wait=1", {"argv": ["cat", "file"]})
    assert (answer.json["stdout"], answer.json["exit_code"]) == ("kept\n", 0)


def test_a_session_is_listed_shown_renewed_and_ended(daemon):
    made = daemon.ask("POST", "/v1/sessions", {"memory": "64m", "idle": "5m", "lease": "10m"})
    path = "/v1/sessions/" + made.json["id"]
    assert made.json["outcome"] == "open" and made.json["driver"] == "native"
    assert made.json["id"] in [s["id"] for s in daemon.ask("GET", "/v1/sessions").json]
    assert daemon.ask("POST", path + "/renew", {"lease": "20m"}).status == 200
    assert daemon.ask("DELETE", path).status == 204
    assert daemon.ask("GET", path).json["outcome"] == "completed"
    answer = daemon.ask("POST", path + "/exec", {"shell": "true"})
    assert (answer.status, answer.code) == (404, "VIAL-SESSION")


@pytest.mark.parametrize("body,status", [
    ({"idle": "soon"}, 400), ({"lease": -1}, 400), ({"memroy": "1g"}, 400),
    ({"lease": "99h"}, 400), ({"driver": "nonsense"}, 400),
])
def test_a_session_that_makes_no_sense_is_refused(daemon, body, status):
    assert daemon.ask("POST", "/v1/sessions", body).status == status


def test_a_program_is_started_waited_for_and_listed(daemon, session):
    made = daemon.ask("POST", session + "/exec", {"shell": "echo out; echo err >&2; exit 4"})
    assert made.status == 201
    number = made.json["exec"]
    done = daemon.ask("GET", "%s/exec/%d?wait=1" % (session, number)).json
    assert (done["verdict"], done["exit_code"]) == ("nonzero", 4)
    assert (done["stdout"], done["stderr"]) == ("out\n", "err\n")
    assert [e["exec"] for e in daemon.ask("GET", session + "/exec").json] == [number]
    assert daemon.ask("GET", session + "/exec/99").status == 404
    assert daemon.ask("GET", session + "/exec/x").status == 404


def test_a_programs_pid_inside_is_told_from_its_start_on(daemon, session):
    made = daemon.ask("POST", session + "/exec", {"shell": "echo $$; exec sleep 600"}).json
    path = "%s/exec/%d" % (session, made["exec"])
    assert made["running"] and made["pid"] > 1
    assert daemon.ask("GET", path).json["pid"] == made["pid"]
    assert daemon.ask("GET", session + "/exec").json[0]["pid"] == made["pid"]
    ended = daemon.ask("POST", session + "/exec?stream=ndjson", {"shell": "kill %d" % made["pid"]})
    assert ended.events[0]["pid"] == ended.events[-1]["pid"] > made["pid"]
    done = daemon.ask("GET", path + "?wait=1").json
    assert (done["signal"], done["stdout"], done["pid"]) == (
        "TERM", "%d\n" % made["pid"], made["pid"])
    lost = daemon.ask("POST", session + "/exec", {"argv": ["no-such-program"]}).json
    assert (lost["pid"], lost["running"]) == (None, False)


def test_a_kill_for_memory_is_no_later_programs(daemon):
    path = "/v1/sessions/" + daemon.ask("POST", "/v1/sessions", {"memory": "64m"}).json["id"]
    lines = ["python3 -c 'bytearray(200 << 20)'; exit 0", "kill -9 $$"]
    assert [daemon.ask("POST", path + "/exec?wait=1", {"shell": line}).json["verdict"]
            for line in lines] == ["ok", "signal"]
    daemon.ask("DELETE", path)


def test_attempts_at_the_network_are_told_of_each_program(daemon, session):
    def refused(line):
        done = daemon.ask("POST", session + "/exec?wait=1", {"shell": line}).json
        return done.get("network_refused", 0)
    tries = "(exec 3<>/dev/tcp/10.20.30.40/80) 2>/dev/null; "
    assert refused("exec bash -c '%s'" % tries) == 1
    assert refused("true") == 0
    assert refused("exec bash -c '%s'" % (tries * 2)) == 2


def test_attaching_starts_at_any_offset_as_often_as_one_likes(daemon, session):
    n = daemon.ask("POST", session + "/exec", {"shell": "printf abcdef; printf XYZ >&2"}).json["exec"]
    daemon.ask("GET", "%s/exec/%d?wait=1" % (session, n))
    for _ in range(2):
        events = daemon.ask("GET", "%s/exec/%d/attach?stdout=2&stderr=1" % (session, n)).events
        assert {(e["event"], e["offset"], e["data"]) for e in events[1:-1]} == {
            ("stdout", 2, "cdef"), ("stderr", 1, "YZ")}
        assert events[-1]["event"] == "exit" and events[-1]["exit_code"] == 0
    raw = daemon.ask("GET", "%s/exec/%d/output?offset=4" % (session, n))
    assert raw.body == b"ef"
    raw = daemon.ask("GET", "%s/exec/%d/output?of=stderr&follow=1" % (session, n))
    assert raw.body == b"XYZ"
    assert daemon.ask("GET", "%s/exec/%d/output?offset=99" % (session, n)).status == 416


def test_live_input_reaches_the_program_and_output_comes_back(daemon, session):
    n = daemon.ask("POST", session + "/exec", {"argv": ["cat"], "stdin_live": True}).json["exec"]
    path = "%s/exec/%d" % (session, n)
    assert daemon.ask("POST", path + "/stdin", b"one ").json["taken"] == 4
    assert daemon.ask("POST", path + "/stdin?close=1", b"two").json["taken"] == 3
    assert daemon.ask("GET", path + "?wait=1").json["stdout"] == "one two"
    assert daemon.ask("POST", path + "/stdin", b"x").status >= 400


def test_a_signal_ends_a_program(daemon, session):
    n = daemon.ask("POST", session + "/exec", {"argv": ["sleep", "600"]}).json["exec"]
    path = "%s/exec/%d" % (session, n)
    assert daemon.ask("POST", path + "/signal", {"signal": "NONSENSE"}).status == 400
    assert wait_until(lambda: daemon.ask("POST", path + "/signal",
                                         {"signal": "SIGTERM", "tree": True}).status == 204)
    done = daemon.ask("GET", path + "?wait=1").json
    assert (done["verdict"], done["signal"]) == ("signal", "TERM")


def test_a_terminal_has_the_size_it_was_given(daemon, session):
    n = daemon.ask("POST", session + "/exec",
                   {"shell": "read _; stty size", "rows": 10, "columns": 20,
                    "stdin_live": True}).json["exec"]
    path = "%s/exec/%d" % (session, n)
    assert daemon.ask("POST", path + "/resize", {"rows": 33, "columns": 44}).status == 204
    assert daemon.ask("POST", path + "/resize", {"rows": 0, "columns": 44}).status == 400
    daemon.ask("POST", path + "/stdin", b"\n")
    assert "33 44" in daemon.ask("GET", path + "?wait=1").json["stdout"]


def test_a_waiting_client_that_goes_away_takes_its_program_with_it(daemon, session):
    body = json.dumps({"shell": "sleep 600"}).encode()
    s = daemon.raw()
    s.sendall(b"POST %s/exec?wait=1 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
              % (session.encode(), len(body), body))
    assert wait_until(lambda: daemon.ask("GET", session + "/exec").json)
    s.close()
    assert wait_until(lambda: not daemon.ask("GET", session + "/exec/1").json["running"])


@pytest.mark.parametrize("body", [
    {}, {"argv": []}, {"argv": ["a"], "shell": "b"}, {"argv": "ls"}, {"argv": [1]},
    {"shell": "true", "env": {"A": 1}}, {"shell": "true", "rows": 99999, "columns": 1},
    {"shell": "true", "timout": "1s"}, {"shell": "a\u0000b"},
])
def test_a_program_that_makes_no_sense_is_refused(daemon, session, body):
    assert daemon.ask("POST", session + "/exec", body).status == 400


def test_files_go_in_come_out_move_and_vanish(daemon, session):
    data = bytes(range(256)) * 9000
    assert daemon.ask("PUT", session + "/files/a/b%20c.bin?mode=0600", data).status == 204
    back = daemon.ask("GET", session + "/files/a/b%20c.bin")
    assert back.body == data and back.headers["X-Content-Type-Options"] == "nosniff"
    part = daemon.ask("GET", session + "/files/a/b%20c.bin?offset=256&length=10")
    assert part.body == data[256:266]
    stat = daemon.ask("GET", session + "/stat?path=a/b%20c.bin").json
    assert (stat["type"], stat["size"], stat["mode"]) == ("file", len(data), "0600")
    assert daemon.ask("POST", session + "/mkdir", {"path": "d/e"}).status == 204
    assert daemon.ask("POST", session + "/move",
                      {"from": "a/b c.bin", "to": "d/e/f"}).status == 204
    names = [e["path"] for e in daemon.ask("GET", session + "/list?deep=1").json]
    assert names == ["a", "d", "d/e", "d/e/f"]
    assert daemon.ask("DELETE", session + "/files/d").status >= 400
    assert daemon.ask("DELETE", session + "/files/d?deep=1").status == 204
    assert daemon.ask("GET", session + "/files/d/e/f").status == 404


def test_no_path_leads_out_of_the_session(daemon, session):
    daemon.ask("POST", session + "/exec?wait=1", {"shell": "ln -s /etc link; ln -s /etc/passwd p"})
    for path in ("link/passwd", "p"):
        answer = daemon.ask("GET", session + "/files/" + path)
        assert answer.status == 400 and b"root:" not in answer.body
    assert daemon.ask("GET", session + "/files/..%2f..%2fetc/passwd").status == 400
    assert daemon.ask("GET", session + "/stat?path=../etc").status == 400


def test_an_absolute_path_names_what_programs_find_there(daemon, session):
    assert daemon.ask("PUT", session + "/files//tmp/d/f?mode=0640", b"there").status == 204
    made = daemon.ask("POST", session + "/exec?wait=1",
                      {"shell": "cat /tmp/d/f; ln -s d/f /tmp/l; ln -s /etc/shadow /tmp/s"})
    assert made.json["stdout"] == "there"
    assert daemon.ask("GET", session + "/files//tmp/l").body == b"there"
    link = daemon.ask("GET", session + "/stat?path=/tmp/l").json
    assert (link["type"], link["target"], link["uid"]) == ("link", "d/f", 1000)
    file = daemon.ask("GET", session + "/stat?path=/tmp/d/f").json
    assert (file["mode"], file["size"], file["uid"], file["gid"], file["target"]) == (
        "0640", 5, 1000, 1000, None)
    assert [e["path"] for e in daemon.ask("GET", session + "/list?path=/tmp").json] == ["d", "l", "s"]
    assert daemon.ask("GET", session + "/files//tmp/s").status in (400, 404)
    assert daemon.ask("PUT", session + "/files//usr/x", b"x").status >= 400
    assert daemon.ask("POST", session + "/move", {"from": "/tmp/d/f", "to": "mine"}).status == 204
    assert daemon.ask("DELETE", session + "/files//tmp/d?deep=1").status == 204
    assert [e["path"] for e in daemon.ask("GET", session + "/list").json] == ["mine"]
    answer = daemon.ask("GET", session + "/stat?path=/tmp/../etc/passwd")
    assert (answer.status, answer.code) == (400, "VIAL-PATH")


def test_what_happens_to_files_is_told_as_it_happens(daemon, session):
    told = []
    c = daemon.connect()
    c.request("GET", session + "/watch?path=/tmp&deep=1&attributes=1&stream=ndjson")
    stream = c.getresponse()
    assert json.loads(stream.readline()) == {"event": "start", "path": "/tmp"}

    def until(event, path):
        told.append(json.loads(stream.readline()))
        while (told[-1]["event"], told[-1]["path"]) != (event, path):
            told.append(json.loads(stream.readline()))

    def sh(line):
        assert daemon.ask("POST", session + "/exec?wait=1", {"shell": line}).json["verdict"] == "ok"
    # What is in a new directory may be told twice, until it is watched and has been read.
    sh("mkdir /tmp/d; echo > /tmp/d/first")
    until("created", "d/first")
    sh("rm /tmp/d/first")
    until("removed", "d/first")
    assert (told[0]["event"], told[0]["path"]) == ("created", "d")
    told.clear()
    sh("echo x > /tmp/d/f; chmod 600 /tmp/d/f; mv /tmp/d/f /tmp/g; rm /tmp/g")
    until("removed", "g")
    c.close()
    kinds = [(e["event"], e["path"], e.get("from")) for e in told]
    assert kinds == [("created", "d/f", None), ("written", "d/f", None), ("attributes", "d/f", None),
                     ("moved", "g", "d/f"), ("removed", "g", None)]
    gone = daemon.ask("GET", session + "/watch?path=/nowhere")
    assert (gone.status, gone.code) == (404, "VIAL-NO-FILE")


def test_a_paused_session_is_shown_refuses_uses_and_goes_on(daemon, session):
    shown = daemon.ask("POST", session + "/pause", {"reclaim": True})
    assert shown.status == 200 and shown.json["paused"] and shown.json["outcome"] == "open"
    listed = [s for s in daemon.ask("GET", "/v1/sessions").json if session.endswith(s["id"])]
    assert listed[0]["paused"]
    if shown.json["limits_by"].startswith("cgroup"):
        assert "paused" in [v["state"] for v in daemon.ask("GET", "/v1/vessels").json]
    used = daemon.ask("POST", session + "/exec", {"shell": "true"})
    assert (used.status, used.code) == (409, "VIAL-PAUSED")
    assert not daemon.ask("POST", session + "/resume").json["paused"]
    assert daemon.ask("POST", session + "/exec?wait=1", {"shell": "echo on"}).json["stdout"] == "on\n"
    assert daemon.ask("POST", session + "/pause", {"resume": "auto"}).json["paused"]
    assert daemon.ask("PUT", session + "/files/f", b"x").status == 204
    assert not daemon.ask("GET", session).json["paused"]
    assert daemon.ask("POST", session + "/pause", {"resume": "soon"}).status == 400
    assert daemon.ask("POST", session + "/pause", {"most": "99h"}).status == 400
    daemon.ask("POST", session + "/pause")
    assert daemon.ask("DELETE", session).status == 204
    assert daemon.ask("GET", session).json["outcome"] == "completed"


@pytest.mark.parametrize("keeper", ["off", "auto"])
def test_a_killed_daemon_leaves_nothing_frozen(keeper):
    mark = "vial-frozen-%d" % os.getpid()
    with Daemon(serve={"keeper": keeper}) as d:
        path = "/v1/sessions/" + d.ask("POST", "/v1/sessions", {}).json["id"]
        d.ask("POST", path + "/exec", {"argv": ["bash", "-c", "exec -a %s sleep 600" % mark]})
        assert wait_until(lambda: processes(mark))
        assert d.ask("POST", path + "/pause").json["paused"]
        os.kill(d.process.pid, signal.SIGKILL)
        d.process.wait()
        assert wait_until(lambda: not processes(mark))


def test_an_archive_goes_in_and_out(daemon, session):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("x/y.txt")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"hello"))
    assert daemon.ask("PUT", session + "/tar?path=in", packed.getvalue()).status == 204
    out = daemon.ask("GET", session + "/tar?path=in")
    with tarfile.open(fileobj=io.BytesIO(out.body)) as tar:
        assert tar.extractfile("x/y.txt").read() == b"hello"
    bad = daemon.ask("PUT", session + "/tar", b"no archive" * 200)
    assert (bad.status, bad.code) == (400, "VIAL-TAR")
    assert daemon.ask("GET", session + "/tar?path=nothing").status == 404


# What a program makes of next to nothing: holes, and many names of one file.
GROWN = {
    "a hole in the session's disk": ("truncate -s 1T big", {}),
    "a hole that a file may have": ("truncate -s 3G big", {}),
    "a hole in a mount": ("truncate -s 1T big", {"workspace_mode": "rw"}),
    "one file by many names": ("head -c 1m /dev/urandom > a; "
                               "for i in $(seq 400); do ln a $i; done", {}),
}


@pytest.mark.parametrize("how", GROWN)
def test_what_comes_out_of_a_session_is_not_more_than_it_can_hold(how):
    shell, more = GROWN[how]
    place = tempfile.mkdtemp(dir="/tmp")
    os.chmod(place, 0o777)
    if more:
        more = {**more, "workspace": place}
    with Daemon(policy={"mount_roots": [place]}) as daemon:
        made = daemon.ask("POST", "/v1/sessions", {"disk": "4m", "tmp": "4m", **more})
        assert made.status == 201, made.json
        path = "/v1/sessions/" + made.json["id"]
        daemon.ask("POST", path + "/exec?wait=1", {"shell": shell})
        for url in (path + "/files/big", path + "/tar"):
            got, status = daemon.first_bytes(url, 96 << 20)
            assert got < 96 << 20, (url, status, got)
        # A part of it can be had.
        daemon.ask("POST", path + "/exec?wait=1", {"shell": "truncate -s 3M part"})
        part = daemon.ask("GET", path + "/files/part?offset=1048576&length=10")
        assert (part.status, part.body) == (200, bytes(10))
    shutil.rmtree(place)


def test_an_interpreter_remembers_between_cells(daemon, session):
    assert daemon.ask("POST", session + "/contexts", {"language": "python"}).status == 201
    run = session + "/contexts/python/run"
    daemon.ask("POST", run, {"code": "x = 41"})
    assert daemon.ask("POST", run, {"code": "x + 1"}).json["value"]["text/plain"] == "42"
    other = session + "/contexts/python:other/run"
    assert daemon.ask("POST", other, {"code": "x"}).json["error"]["name"] == "NameError"
    assert daemon.ask("POST", session + "/contexts/python/restart").status == 204
    assert daemon.ask("POST", run, {"code": "x"}).json["status"] == "error"
    none = daemon.ask("POST", session + "/contexts/python:none/interrupt")
    assert (none.status, none.code) == (409, "VIAL-CONTEXT")  # and none was started


def test_a_cell_tells_in_which_order_things_came(daemon, session):
    cell = daemon.ask("POST", session + "/contexts/python/run",
                      {"code": "print('a')\ndisplay(1)\n!echo b\n%pwd"}).json
    assert (cell["status"], cell["stdout"]) == ("ok", "a\nb\n")
    assert cell["order"] == [{"kind": "stdout", "length": 2}, {"kind": "display", "length": 1},
                             {"kind": "stdout", "length": 2}]


def test_a_cell_can_be_interrupted(daemon, session):
    c = daemon.connect()
    daemon.ask("POST", session + "/contexts", {"language": "python"})
    c.request("POST", session + "/contexts/python/run",
              json.dumps({"code": "import time\nopen('here','w')\ntime.sleep(600)",
                          "timeout": "25s"}))
    assert wait_until(lambda: daemon.ask("GET", session + "/stat?path=here").status == 200)
    assert daemon.ask("POST", session + "/contexts/python/interrupt").status == 204
    assert json.loads(c.getresponse().read())["status"] == "interrupted"


def test_too_many_sessions_are_refused_with_a_time_to_try_again():
    with Daemon(serve={"sessions": 2}) as d:
        for _ in range(2):
            assert d.ask("POST", "/v1/sessions", {}).status == 201
        answer = d.ask("POST", "/v1/sessions", {})
        assert (answer.status, answer.code) == (503, "VIAL-BUSY")
        assert int(answer.headers["Retry-After"]) >= 1


def test_sessions_end_with_their_daemon():
    with Daemon() as d:
        path = "/v1/sessions/" + d.ask("POST", "/v1/sessions", {}).json["id"]
        n = d.ask("POST", path + "/exec", {"argv": ["sleep", "98765"]}).json["exec"]
        assert wait_until(lambda: d.ask("GET", "%s/exec/%d" % (path, n)).json["running"])
        d.process.kill()
        d.process.wait()

        def left():
            return subprocess.run(["pgrep", "-f", "^sleep 98765$"],
                                  capture_output=True).stdout.strip()
        assert wait_until(lambda: not left())


# The command line.

def vial(*args, home, **more):
    return subprocess.run([VIAL, "session", *args], capture_output=True, timeout=60,
                          env=clean_env(HOME=home, XDG_RUNTIME_DIR=home), **more)


def test_a_name_is_one_line_of_a_list(daemon):
    home, at = daemon.dir, ["--socket", daemon.socket]
    sid = vial("start", *at, home=home).stdout.decode().strip()
    out = vial("exec", *at, sid, "--", "touch", "a\n0644  file  0  b", home=home,
               stdin=subprocess.DEVNULL)
    assert out.returncode == 0, out.stderr
    out = vial("ls", *at, sid, home=home)
    assert out.stdout == b'0644  file  0  "a\\n0644  file  0  b"\n', out
    assert vial("stop", *at, sid, home=home).returncode == 0


def test_the_command_line_uses_the_daemon(daemon):
    home = daemon.dir
    at = ["--socket", daemon.socket]
    sid = vial("start", *at, "--memory", "128m", home=home).stdout.decode().strip()
    assert sid.startswith("s-")
    assert vial("write", *at, sid, "d/job.py", home=home,
                input=b"import sys; print(sys.stdin.read().upper())").returncode == 0
    out = vial("exec", *at, sid, "--", "python3", "d/job.py", home=home, input=b"live")
    assert (out.returncode, out.stdout) == (0, b"LIVE\n")
    out = vial("exec", *at, "-e", "A=b", sid, "--", "sh", "-c", "echo $A >&2; exit 9", home=home,
               stdin=subprocess.DEVNULL)
    assert (out.returncode, out.stderr) == (9, b"b\n")
    assert b"job.py" in vial("ls", *at, sid, "d", home=home).stdout
    assert b"upper" in vial("read", *at, sid, "d/job.py", home=home).stdout
    number = vial("exec", *at, "--detach", sid, "--", "echo", "later", home=home).stdout.strip()
    assert vial("attach", *at, sid, number.decode(), home=home).stdout == b"later\n"
    told = json.loads(vial("exec", *at, "--detach", "--json", sid, "--", "sleep", "600",
                           home=home).stdout)
    lines = vial("ps", *at, sid, home=home).stdout.decode().splitlines()
    assert lines[0].split() == ["PROGRAM", "PID", "STATE", "EXIT"]
    assert [str(told["exec"]), str(told["pid"]), "running", "-"] in [x.split() for x in lines]
    assert sid.encode() in vial("list", *at, home=home).stdout
    assert json.loads(vial("show", *at, "--json", sid, home=home).stdout)["id"] == sid
    assert vial("rm", *at, sid, "d", "--deep", home=home).returncode == 0
    out = vial("exec", *at, "--timeout", "0.2", sid, "--", "sleep", "50", home=home,
               stdin=subprocess.DEVNULL)
    assert out.returncode == 124
    out = vial("exec", *at, sid, "--", "no-such-program", home=home, stdin=subprocess.DEVNULL)
    assert out.returncode in (125, 126, 127) and b"VIAL-EXEC" in out.stderr
    assert vial("stop", *at, sid, home=home).returncode == 0
    out = vial("exec", *at, sid, "--", "true", home=home, stdin=subprocess.DEVNULL)
    assert out.returncode == 125 and b"VIAL-SESSION" in out.stderr


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, subprocess.PIPE])
def test_an_interrupted_command_ends_its_program(daemon, stdin):
    at = ["--socket", daemon.socket]
    sid = vial("start", *at, home=daemon.dir).stdout.decode().strip()
    p = subprocess.Popen([VIAL, "session", "exec", *at, sid, "--", "sh", "-c",
                          "echo go; sleep 600"], env=clean_env(HOME=daemon.dir),
                         stdin=stdin, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"go\n"
    p.send_signal(signal.SIGINT)
    assert p.wait(60) == 130
    p.communicate()
    path = "/v1/sessions/%s/exec/1" % sid
    assert wait_until(lambda: not daemon.ask("GET", path).json["running"])
    vial("stop", *at, sid, home=daemon.dir)


def resize(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def test_a_programs_terminal_follows_the_window(daemon):
    at = ["--socket", daemon.socket]
    sid = vial("start", *at, home=daemon.dir).stdout.decode().strip()
    ours, theirs = os.openpty()
    resize(ours, 11, 22)
    # A session of its own, whose terminal tells it when it has another size.
    p = subprocess.Popen(["setsid", "--ctty", "--wait", VIAL, "session", "exec", *at, "--tty", sid,
                          "--", "sh", "-c",
                          "stty size; trap 'stty size; exit 7' WINCH; echo set; "
                          "while :; do sleep 0.1; done"],
                         env=clean_env(HOME=daemon.dir), stdin=theirs, stdout=theirs)
    os.close(theirs)
    with open(ours, "rb", buffering=0) as terminal:
        said = b""
        while b"set\r\n" not in said:
            said += terminal.read(1024)
        assert said.startswith(b"11 22\r\n")
        resize(ours, 33, 44)
        said = b""
        while b"\n" not in said:
            said += terminal.read(1024)
        assert said == b"33 44\r\n"
        assert p.wait(60) == 7
    vial("stop", *at, sid, home=daemon.dir)


# Only where it cannot see anybody but programs of its own session.
STOPS_ALL = """import os, signal
assert 'vial' in open('/proc/1/comm').read()
print('up', flush=True)
while True:
    try: os.kill(-1, signal.SIGSTOP)
    except OSError: pass"""
FILLS_UP = """import os, time
try:
    while os.fork(): pass
except OSError: print('up', flush=True)
time.sleep(1000)"""


def start_hostile(d, code, **request):
    made = d.ask("POST", "/v1/sessions", {"driver": "native", **request}).json
    path = "/v1/sessions/" + made["id"]
    if d.ask("GET", path).json["level"] != "namespaces":
        pytest.skip("native: there are no namespaces")
    d.ask("POST", path + "/exec", {"argv": ["python3", "-c", code]})
    assert wait_until(lambda: d.ask("GET", path + "/exec/1/output?of=stdout").body == b"up\n")
    return path


def test_a_program_that_stops_all_new_processes_does_not_end_the_session(daemon):
    path = start_hostile(daemon, STOPS_ALL)
    met = 0
    for _ in range(100):  # it must be met at the right moment
        told = daemon.ask("POST", path + "/exec?wait=1", {"shell": "echo hi", "timeout": "500ms"})
        told = told.json
        assert told["verdict"] in ("ok", "timeout", "failed"), told
        assert told["verdict"] != "failed" or \
            told["error"]["message"] == "start '/bin/sh': it was stopped before it began", told
        met += told["verdict"] != "ok"
        if met == 4:
            break
    assert daemon.ask("GET", path).json["outcome"] == "open"
    assert daemon.ask("POST", path + "/exec/1/signal", {"signal": "KILL", "tree": True}).status < 300
    assert wait_until(lambda: not daemon.ask("GET", path + "/exec/1").json["running"])
    told = daemon.ask("POST", path + "/exec?wait=1", {"shell": "echo hi"}).json
    assert (told["verdict"], told["stdout"]) == ("ok", "hi\n")
    daemon.ask("DELETE", path)


def test_who_finds_no_process_left_is_told_so(daemon):
    path = start_hostile(daemon, FILLS_UP, pids=8)
    told = daemon.ask("POST", path + "/exec?wait=1", {"shell": "echo hi"}).json
    assert (told["verdict"], told["error"]["code"]) == ("failed", "VIAL-EXEC")
    assert told["error"]["message"] == "start '/bin/sh': no process is left"
    assert "more than 8 'pids'" in told["error"]["remedy"]
    daemon.ask("DELETE", path)


def on_a_terminal(d, *args):
    """What a terminal would get of a command's stdout and stderr."""
    ours, theirs = os.openpty()
    p = subprocess.Popen([VIAL, *args], env=clean_env(HOME=d.dir), stdin=subprocess.DEVNULL,
                         stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    with open(ours, "rb", buffering=0) as terminal:
        while True:
            try:
                part = terminal.read(65536)
            except OSError:  # EIO: the last writer is gone
                break
            said += part
    p.wait(60)
    return said


EVIL = "\x1b]0;t\x07\x1b[31mred\u009b1m\u202eend"


def test_nothing_that_a_program_made_reaches_a_terminal_raw(daemon):
    at = ["--socket", daemon.socket]
    sid = vial("start", *at, home=daemon.dir).stdout.decode().strip()
    octal = "".join("\\%03o" % byte for byte in EVIL.encode())
    made = "printf '%s' > f; : > \"$(printf 'n%s')\"; printf '%s' >&2" % (octal, octal, octal)
    vial("exec", *at, sid, "--", "sh", "-c", made, home=daemon.dir)
    run = daemon.run("printf '%s'" % octal, headers={"X-Request-Id": "evil-1"})
    assert run.json["stdout"] == EVIL
    # As they are to a pipe, and to who asks for it.
    assert vial("read", *at, sid, "f", home=daemon.dir).stdout == EVIL.encode()
    assert EVIL.encode() in on_a_terminal(daemon, "session", "read", "--raw", *at, sid, "f")
    for command in (["session", "read", *at, sid, "f"], ["session", "ls", *at, sid],
                    ["session", "ls", "--json", *at, sid],
                    ["session", "exec", *at, sid, "--", "cat", "f"],
                    ["session", "read", *at, sid, "n" + EVIL + "/x"],
                    ["session", "rm", *at, sid, EVIL],
                    ["session", "exec", *at, sid, "--", EVIL],
                    ["logs", *at], ["logs", *at, "evil-1"], ["logs", *at, "--json"]):
        said = on_a_terminal(daemon, *command)
        assert said, command
        for raw in (b"\x1b", b"\x07", "\u009b".encode(), "\u202e".encode()):
            assert raw not in said, (command, said)
    vial("stop", *at, sid, home=daemon.dir)


@pytest.mark.parametrize("flags", [["--config", "/dev/null"], ["--preset", "klaw"]])
def test_settings_that_would_not_hold_are_refused(daemon, flags):
    for command in (["run", "--daemon"], ["logs"], ["session", "start"]):
        operands = ["bash", "true"] if command[0] == "run" else []
        done = subprocess.run([VIAL, *command, "--socket", daemon.socket, *flags, *operands],
                              capture_output=True, text=True, env=clean_env(HOME=daemon.dir))
        assert done.returncode == 125
        assert "'%s' has no effect on a daemon" % flags[0] in done.stderr
        assert "leave it out, or give it to 'vial serve'" in done.stderr


def test_a_run_that_is_not_there_says_where_to_look(daemon):
    for run in ("r-0", "", "../x"):
        done = subprocess.run([VIAL, "logs", "--socket", daemon.socket, run], text=True,
                              capture_output=True, env=clean_env(HOME=daemon.dir))
        assert done.returncode == 125 and "'vial logs'" in done.stderr, done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="starts the daemon as another user")
def test_without_a_daemon_a_private_one_is_started_and_ends_by_itself():
    """As an ordinary user, whose socket nobody else can reach."""
    home = tempfile.mkdtemp(dir="/tmp")
    os.chown(home, 1000, 1000)
    who = {"user": 1000, "group": 1000, "extra_groups": [], "home": home, "cwd": "/"}
    try:
        out = vial("list", **who)
        assert out.returncode == 125 and b"vial serve" in out.stderr
        started = vial("start", "--driver", "process", **who)
        assert started.returncode == 0, started.stderr
        sid = started.stdout.decode().strip()
        assert oct(os.stat(home + "/vial").st_mode)[-3:] == "700"
        assert oct(os.stat(home + "/vial/private.sock").st_mode)[-3:] == "600"
        out = vial("exec", sid, "--", "id", "-u", stdin=subprocess.DEVNULL, **who)
        assert out.stdout == b"1000\n"
        again = vial("start", "--driver", "process", **who)
        assert again.returncode == 0
        found = subprocess.run(["pgrep", "-f", "viald --listen unix:%s/" % home],
                               capture_output=True, text=True).stdout.split()
        parents = subprocess.run(["ps", "-o", "ppid=", "-p", ",".join(found)],
                                 capture_output=True, text=True).stdout.split()
        pids = [pid for pid, parent in zip(found, parents) if parent not in found]
        assert len(pids) == 1  # and a janitor of its own
        os.kill(int(pids[0]), signal.SIGTERM)
        assert wait_until(lambda: not os.path.exists("/proc/" + pids[0]))
    finally:
        subprocess.run(["rm", "-rf", home], check=False)


def test_a_daemon_with_idle_exit_stays_while_a_session_is_open():
    with Daemon(args=["--idle-exit", "3s"]) as d:
        path = "/v1/sessions/" + d.ask("POST", "/v1/sessions", {}).json["id"]
        try:
            d.process.wait(6)
        except subprocess.TimeoutExpired:
            pass
        assert d.process.poll() is None
        d.ask("DELETE", path)
        assert d.process.wait(60) == 0


def wardens(d):
    """The processes that hold this daemon's vessels."""
    return {pid for pid, name in descendants(d.process.pid).items() if name == "vial-warden"}


def test_a_session_that_answers_nobody_holds_up_its_owner_alone():
    """What a session uses is asked of its vessel; no other caller waits for that."""
    with tempfile.TemporaryDirectory() as where:
        path = write_tokens(where + "/tokens")
        with Daemon(serve={"tokens": path, "keeper": "on"}, tcp=True) as d:
            def ask(name, method, where, body):
                c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=20)
                with contextlib.closing(c):
                    c.request(method, where, json.dumps(body),
                              {"Authorization": "Bearer " + secret(name)})
                    return json.loads(c.getresponse().read())
            before = wardens(d)
            for _ in range(6):  # each would be waited for, for seconds
                ask("boss", "POST", "/v1/sessions", {})
            stuck = wardens(d) - before
            mine = d.ask("POST", "/v1/sessions", {}).json["id"]
            for pid in stuck:
                os.kill(pid, signal.SIGSTOP)
            try:
                end = time.monotonic() + 3  # longer than a look is remembered
                while time.monotonic() < end:
                    answer = d.ask("POST", "/v1/sessions/%s/exec?wait=1" % mine,
                                   {"shell": "echo here"}, connection=d.connect(15))
                    assert answer.json["stdout"] == "here\n"
                    listed = d.ask("GET", "/v1/sessions", connection=d.connect(15)).json
                    assert [s["id"] for s in listed] == [mine]
            finally:
                for pid in stuck:
                    os.kill(pid, signal.SIGCONT)
            assert len(stuck) == 6


def test_a_session_has_no_language_and_says_so(daemon):
    for body in ({"language": "python"}, {"language": "python", "timeout": "5s"}):
        refused = daemon.ask("POST", "/v1/sessions", body)
        assert refused.status == 400
        assert refused.json["error"]["message"] == "a session has no 'language'"
        assert "each program, cell or interpreter" in refused.json["error"]["remedy"]
    before = open_sessions(daemon)
    told = subprocess.run([VIAL, "session", "start", "python", "--socket", daemon.socket],
                          capture_output=True, text=True, env=clean_env(), timeout=60)
    assert told.returncode and "'session start' has no use for 'python'" in told.stderr
    assert "vial context start LANG" in told.stderr and open_sessions(daemon) == before


def test_an_operand_too_many_is_refused_before_anything_is_done(daemon):
    for verb in (["list", "x"], ["stop", "s-1", "x"], ["read", "s-1", "a", "b"]):
        told = subprocess.run([VIAL, "session", *verb, "--socket", daemon.socket],
                              capture_output=True, text=True, env=clean_env(), timeout=60)
        assert told.returncode and "has no use for '%s'" % verb[-1] in told.stderr
        assert "usage: vial session %s" % verb[0] in told.stderr


def open_sessions(d):
    return {s["id"] for s in d.ask("GET", "/v1/sessions").json if s["outcome"] == "open"}


def context(d, *args, **more):
    return subprocess.run([VIAL, "context", *args, "--socket", d.socket], capture_output=True,
                          text=True, env=clean_env(), timeout=60, **more)


def test_interpreters_of_the_command_line_remember(daemon, tmp_path):
    name = context(daemon, "start", "python", "--memory", "256m").stdout.strip()
    assert context(daemon, "run", name, "x = 6").stdout == ""
    (tmp_path / "cell.py").write_text("import sys\nprint('a'); display(1)\nprint('b')\n"
                                      "print('c', file=sys.stderr)\nx * 7")
    told = context(daemon, "run", name, "@%s/cell.py" % tmp_path)
    assert (told.returncode, told.stdout, told.stderr) == (0, "a\n1\nb\n42\n", "c\n")
    assert context(daemon, "run", name, input="x + 1").stdout == "7\n"
    assert context(daemon, "run", name, "-", input="x + 2").stdout == "8\n"
    failed = context(daemon, "run", name, "1 / 0")
    assert failed.returncode == 1 and "ZeroDivisionError" in failed.stderr
    slow = context(daemon, "run", "--timeout", "300ms", name, "while True: pass")
    assert slow.returncode == 124 and slow.stderr.endswith("vial: timeout\n")
    cell = json.loads(context(daemon, "run", "--json", name, "x").stdout)
    assert (cell["status"], cell["value"]["text/plain"]) == ("ok", "6")
    assert name.split("/")[0] in context(daemon, "list").stdout
    assert context(daemon, "stop", name).returncode == 0
    assert "[VIAL-SESSION]" in context(daemon, "run", name, "x").stderr


def test_bash_and_r_remember(daemon):
    name = context(daemon, "start", "bash").stdout.strip()
    assert context(daemon, "run", name, "x=5; cd /tmp; echo a; echo b >&2").stderr == "b\n"
    assert context(daemon, "run", name, "echo $x $PWD").stdout == "5 /tmp\n"
    failed = context(daemon, "run", name, "(exit 3)")
    assert failed.returncode == 1 and "exit status 3" in failed.stderr
    slow = context(daemon, "run", "--timeout", "300ms", name, "while :; do sleep 1; done")
    assert slow.returncode == 124
    assert context(daemon, "run", name, "echo $x").stdout == "5\n"
    assert context(daemon, "stop", name).returncode == 0
    name = context(daemon, "start", "r").stdout.strip()
    assert context(daemon, "run", name, "y <- 6; cat('a\\n'); y * 7").stdout == "a\n[1] 42\n"
    assert "there is nothing" in context(daemon, "run", name, "stop('there is nothing')").stderr
    assert context(daemon, "stop", name).returncode == 0


def test_what_is_no_interpreter_is_refused(daemon):
    assert "use python, node, typescript, bash, r or java" in context(daemon, "start", "perl").stderr
    assert "does not name an interpreter" in context(daemon, "run", "s-1", "1").stderr
    assert "'context start' lacks an argument" in context(daemon, "start").stderr
    for verb, *rest in (("run", "s-1/python", "--memory=1g"), ("stop", "s-1/python", "--timeout=1s"),
                        ("list", "--cpus=1")):
        refused = context(daemon, verb, *rest)
        assert refused.returncode == 125 and "is set when the session starts" in refused.stderr
    left = open_sessions(daemon)
    assert context(daemon, "shell", "python", "1 + 1").stdout == "2\n"
    assert open_sessions(daemon) == left


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_the_interpreter_of_a_shell_ends_with_it(daemon, number):
    left = open_sessions(daemon)
    p = subprocess.Popen([VIAL, "context", "shell", "python", "print('here', flush=True)\n"
                          "open('here', 'w'); import time; time.sleep(600)", "--socket",
                          daemon.socket], stderr=subprocess.DEVNULL, env=clean_env())
    assert wait_until(lambda: any(
        daemon.ask("GET", "/v1/sessions/%s/stat?path=here" % s).status == 200
        for s in open_sessions(daemon) - left))
    p.send_signal(number)
    assert p.wait(timeout=60) == -number
    assert open_sessions(daemon) == left


def test_ctrl_c_interrupts_the_cell_and_keeps_the_interpreter(daemon):
    name = context(daemon, "start", "python").stdout.strip()
    p = subprocess.Popen([VIAL, "context", "run", "--timeout", "25s", name,
                          "x = 1; open('here', 'w'); import time; time.sleep(600)", "--socket",
                          daemon.socket], stderr=subprocess.PIPE, env=clean_env())
    there = "/v1/sessions/%s/stat?path=here" % name.split("/")[0]
    assert wait_until(lambda: daemon.ask("GET", there).status == 200)
    p.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in p.communicate(timeout=60)[1] and p.returncode == 130
    assert context(daemon, "run", name, "x").stdout == "1\n"
    assert context(daemon, "stop", name).returncode == 0


def typed(daemon, text):
    ours, theirs = os.openpty()
    p = subprocess.Popen([VIAL, "context", "shell", "python", "--socket", daemon.socket],
                         stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=clean_env())
    os.close(theirs)
    os.write(ours, text)
    told, errors = p.communicate(timeout=60)
    os.close(ours)
    assert p.returncode == 0
    return told, errors


def test_cells_are_read_from_a_terminal(daemon):
    told, errors = typed(
        daemon, b"x = 2\nfor i in range(2):\n    print(i)\n\n1 / 0\nx * 21\n\x04")
    assert told == b"0\n1\n42\n"
    assert b"> . . " in errors and b"ZeroDivisionError" in errors


def test_a_block_is_run_at_the_end_and_brackets_in_quotes_begin_none(daemon):
    told, errors = typed(daemon, b"""print("(", '\\'[')
2
@(lambda f: f())
def three():
    print(3)

s = '''a
b'''

len(s)
for i in range(4, 6):
    print(i)
\x04""")
    assert told == b"( '[\n2\n3\n3\n4\n5\n" and b"Error" not in errors
