# SPDX-License-Identifier: Apache-2.0
"""Sessions that another daemon has: the one that clients reach comes and goes."""
import contextlib
import hashlib
import http.client
import os
import random
import signal
import socket
import tempfile

import pytest

from daemon import Daemon, processes, wait_until
from test_auth import PAGE, PREFLIGHT, ask, cors, secret, write_tokens

# Root's daemon becomes this user, an ordinary user's stays who it is.
FRONT = "nobody" if os.geteuid() == 0 else str(os.geteuid())
KILLS = int(os.environ.get("FRONT_KILLS", "5"))  # make soak: hundreds
EACH = 5  # of one program: its output has a bound
COUNT = "i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i; done"


class Pair:
    """`front` is what clients reach; `home` has the sessions."""

    def __init__(self, serve=None, home=None):
        self.where = tempfile.TemporaryDirectory(prefix="pair-", dir="/tmp")
        self.tokens = write_tokens(self.where.name + "/tokens")
        both = {"tokens": self.tokens, "warm": ["none"]}
        self.home = Daemon(serve={**both, "sessions_for": [FRONT], **(home or {})}, tcp=True)
        self.front = Daemon(serve={**both, "sessions_at": "unix:" + self.home.socket,
                                   "drain": "1s", **(serve or {})}, tcp=True)

    def __enter__(self):
        self.home.start()
        try:
            self.front.start()
        except Exception:
            self.home.close()
            raise
        return self

    def __exit__(self, *_):
        self.front.close()
        self.home.close()
        self.where.cleanup()

    def again(self, sig):
        """The front ends by SIG, and there is a new one."""
        self.front.stop(sig)
        self.front.start()


@pytest.fixture(scope="module")
def pair():
    with Pair(serve={"origins": [PAGE]}, home={"origins": [PAGE]}) as p:
        yield p


def begin(d, name="sessions", **request):
    answer = ask(d, "POST", "/v1/sessions", name, request)
    assert answer.status == 201, answer.body
    return "/v1/sessions/" + answer.json["id"]


def shell(d, at, line, name="sessions"):
    answer = ask(d, "POST", at + "/exec?wait=1", name, {"shell": line})
    assert answer.status == 200, answer.body
    return answer.json["stdout"]


def read_some(d, path, offset, most):
    """Up to MOST bytes of output as they come; None: all of it, to the end."""
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
    c.request("GET", "%s/output?offset=%d&follow=1" % (path, offset),
              headers={"Authorization": "Bearer " + secret("sessions")})
    r = c.getresponse()
    assert (r.status, r.headers.get("Vial-Gap", "0")) == (200, "0"), r.read()
    got = r.read() if most is None else r.read(most)
    return c, got


def test_kill_9_while_output_flows_loses_no_byte(pair):
    for done in range(0, KILLS, EACH):
        count_through_kills(pair, min(EACH, KILLS - done))
    print("front killed %d times, no byte lost" % KILLS)


def count_through_kills(pair, kills):
    at = begin(pair.front, output_limit="256m", timeout="10m", lease="10m")
    made = ask(pair.front, "POST", at + "/exec", "sessions", {"shell": COUNT}).json
    path, got = "%s/exec/%d" % (at, made["exec"]), b""
    for _ in range(kills):
        connection, some = read_some(pair.front, path, len(got), random.randrange(1, 300000))
        got += some
        pair.front.process.kill()  # with what it has read, and not yet passed on
        connection.close()
        pair.again(signal.SIGKILL)
        now = ask(pair.front, "GET", path, "sessions").json
        assert now["running"] and now["pid"] == made["pid"]
    assert ask(pair.front, "PUT", at + "/files/stop", "sessions").status < 300
    connection, rest = read_some(pair.front, path, len(got), None)
    connection.close()
    got += rest
    last = got.count(b"\n")
    assert last > 1000
    assert hashlib.sha256(got).digest() == hashlib.sha256(
        b"".join(b"%d\n" % i for i in range(1, last + 1))).digest()
    assert ask(pair.front, "GET", path, "sessions").json["exit_code"] == 0
    ask(pair.front, "DELETE", at, "sessions")


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_a_new_front_finds_all_that_a_session_has(pair, sig):
    at = begin(pair.front, memory="200m", idle="7m", lease="9m", timeout="10m")
    before = ask(pair.front, "GET", at, "sessions").json
    shell(pair.front, at, "echo kept > file")
    cat = ask(pair.front, "POST", at + "/exec", "sessions",
              {"argv": ["cat"], "stdin_live": True}).json
    path = "%s/exec/%d" % (at, cat["exec"])
    ask(pair.front, "POST", path + "/stdin", "sessions", "one ")
    context = ask(pair.front, "POST", at + "/contexts", "sessions", {"language": "python"}).json
    cells = "%s/contexts/%s/run" % (at, context["context"])
    assert ask(pair.front, "POST", cells, "sessions", {"code": "x = 6"}).status == 200

    pair.again(sig)

    after = ask(pair.front, "GET", at, "sessions").json
    for name in ("id", "outcome", "vessel_id", "level", "limits_by"):
        assert after[name] == before[name]
    assert after["duration_ms"] > before["duration_ms"]
    assert before["id"] in [s["id"] for s in
                            ask(pair.front, "GET", "/v1/sessions", "sessions").json]
    assert shell(pair.front, at, "cat file") == "kept\n"
    assert ask(pair.front, "POST", cells, "sessions",
               {"code": "x * 7"}).json["value"]["text/plain"] == "42"
    ask(pair.front, "POST", path + "/stdin?close=1", "sessions", "two")
    done = ask(pair.front, "GET", path + "?wait=1", "sessions").json
    assert (done["pid"], done["stdout"]) == (cat["pid"], '"one ""two"')
    assert ask(pair.front, "DELETE", at, "sessions").status == 204


def test_a_page_that_the_settings_name_hears_it_once_from_whoever_answers(pair):
    """The front answers who asks first, and who is refused; the other daemon the rest."""
    assert ask(pair.front, "OPTIONS", "/v1/sessions", Origin=PAGE, **PREFLIGHT).status == 204
    for name, status in (("sessions", 200), (None, 401)):
        answer = ask(pair.front, "GET", "/v1/sessions", name, Origin=PAGE)
        assert answer.status == status
        assert answer.headers.get_all("Access-Control-Allow-Origin") == [PAGE]
    for name in ("sessions", None):
        assert cors(ask(pair.front, "GET", "/v1/sessions", name, Origin="https://evil.test")) == {}


def test_nobody_else_can_take_a_session_up_again(pair):
    at = begin(pair.front)
    pair.again(signal.SIGKILL)
    assert ask(pair.front, "GET", at, "sessions").json["outcome"] == "open"
    for name, status in (("boss", 404), ("reader", 403), (None, 401)):
        assert ask(pair.front, "POST", at + "/exec", name, {"shell": "true"}).status == status
        assert ask(pair.front, "DELETE", at, name).status == status
    assert pair.front.ask("GET", at).status == 404  # this user, over the front's own socket
    assert ask(pair.front, "GET", "/v1/sessions", "boss").json == []
    assert ask(pair.front, "DELETE", at, "sessions").status == 204


def test_a_client_cannot_say_whose_request_it_passes_on(pair):
    made = ask(pair.front, "POST", "/v1/sessions", "sessions", {}, Vial_For="token:boss")
    at = "/v1/sessions/" + made.json["id"]
    assert ask(pair.front, "GET", at, "sessions").status == 200
    assert ask(pair.front, "GET", at, "boss").status == 404
    assert ask(pair.front, "GET", at, "boss", Vial_For="token:sessions").status == 404
    passed = "/passed/1" + at
    # Not through the front, not over TCP, not by who is nobody's front, not without a name.
    assert ask(pair.front, "GET", passed, "boss", Vial_For="token:sessions").status == 404
    assert ask(pair.home, "GET", passed, "boss", Vial_For="token:sessions").status == 404
    assert ask(pair.home, "GET", at, "boss", Vial_For="token:sessions").status == 404
    if os.geteuid() == 0:
        answer = pair.home.ask("GET", passed, headers={"Vial-For": "token:sessions"})
        assert (answer.status, answer.code) == (401, "VIAL-AUTH")
        assert "may not pass on" in answer.json["error"]["message"]
        for name, status in (("token:sessions", 200), ("token:boss", 404), ("token:x", 401),
                             ("uid:12345", 401), ("root", 401), (None, 401)):
            assert as_nobody(pair.home.socket, passed, name) == status, name
        assert as_nobody(pair.home.socket, at, "token:sessions") == 401
    assert ask(pair.front, "DELETE", at, "sessions").status == 204


def as_nobody(path, target, name):
    """The status that the user `nobody` gets, who says that NAME asks."""
    import pwd
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(pwd.getpwnam("nobody").pw_gid)
            os.setuid(pwd.getpwnam("nobody").pw_uid)
            s = socket.socket(socket.AF_UNIX)
            s.connect(path)
            head = "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" % target
            s.sendall((head + ("Vial-For: %s\r\n" % name if name else "") + "\r\n").encode())
            theirs.sendall(s.recv(12))
        os._exit(0)
    theirs.close()
    os.waitpid(pid, 0)
    with ours:
        return int(ours.recv(12).split()[1])


def test_a_lease_that_ends_without_a_front_leaves_nothing_behind():
    mark = "vial-left-%d" % os.getpid()
    with Pair() as pair:
        at = "/v1/sessions/" + pair.front.ask("POST", "/v1/sessions", {"timeout": "10m"}).json["id"]
        pair.front.ask("POST", at + "/exec", {"argv": ["bash", "-c",
                                                      "exec -a %s sleep 600" % mark]})
        assert wait_until(lambda: processes(mark))
        groups = set(cgroups(pair.home))
        assert pair.front.ask("POST", at + "/renew", {"lease": "2s"}).status == 200
        pair.front.stop(signal.SIGKILL)
        assert wait_until(lambda: not processes(mark))
        assert wait_until(lambda: not pair.home.vessels())
        assert wait_until(lambda: not any(map(os.path.exists, groups)))
        assert pair.home.ask("GET", at).json["outcome"] == "expired"
        pair.front.start()
        assert pair.front.ask("GET", at).json["outcome"] == "expired"


def cgroups(d):
    """The directories of the vessels' cgroups, where there are any."""
    found = []
    for pid in d.vessels():
        with contextlib.suppress(OSError), open("/proc/%d/cgroup" % pid, encoding="ascii") as file:
            for line in file:
                _, names, path = line.rstrip("\n").split(":", 2)
                at = "/sys/fs/cgroup/" + names.replace("name=", "") + path
                if "vial" in path and os.path.isdir(at):
                    found.append(at)
    return found


def says_ready(pair):
    told = pair.front.ask("GET", "/readyz").json
    assert told["sessions"]["at"] == pair.home.socket
    return told["status"], told["sessions"]["answers"]


def test_without_the_daemon_of_the_sessions_code_still_runs():
    with Pair() as pair:
        at = begin(pair.front)
        pair.home.stop(signal.SIGKILL)
        answer = ask(pair.front, "GET", at, "sessions")
        assert (answer.status, answer.code) == (503, "VIAL-DAEMON")
        assert pair.home.socket in answer.json["error"]["message"]
        assert pair.front.run("echo ran").json["stdout"] == "ran\n"
        assert wait_until(lambda: says_ready(pair) == ("ready", False))
        pair.home.start()
        assert wait_until(lambda: says_ready(pair) == ("ready", True))
        answer = ask(pair.front, "GET", at, "sessions")
        assert (answer.status, answer.code) == (404, "VIAL-SESSION")
        begin(pair.front)


def test_a_daemon_that_is_nobodys_is_asked_for_nothing(pair):
    """What is not a daemon for our sessions gets no session, whoever it takes us for."""
    with Daemon(serve={"uids": [FRONT]}) as plain:
        with Daemon(serve={"sessions_at": "unix:" + plain.socket}) as front:
            answer = front.ask("POST", "/v1/sessions", {})
            assert (answer.status, answer.code) == (503, "VIAL-DAEMON")
            assert "Vial-Passed" in answer.json["error"]["cause"]
        assert plain.ask("GET", "/v1/sessions?all=1").json == []
    # Nor is another number of the protocol.
    assert pair.home.ask("GET", "/passed/2/v1/sessions").status == 404


def test_the_protocol_for_models_goes_on_with_a_new_front(pair):
    def rpc(method, number=None, session=None, **params):
        headers = {"Content_Type": "application/json",
                   "Accept": "application/json, text/event-stream"}
        if session:
            headers["Mcp_Session_Id"] = session
        said = {"jsonrpc": "2.0", "method": method, "params": params}
        return ask(pair.front, "POST", "/mcp", "boss",
                   dict(said, id=number) if number else said, **headers)
    begun = rpc("initialize", 1, protocolVersion="2025-06-18", capabilities={},
                clientInfo={"name": "t", "version": "1"})
    session = begun.headers["Mcp-Session-Id"]
    assert rpc("notifications/initialized", session=session).status == 202
    pair.again(signal.SIGKILL)
    assert b"tools" in rpc("tools/list", 2, session).body


def test_an_address_that_is_none_is_refused():
    with pytest.raises(RuntimeError) as told:
        Daemon(serve={"sessions_at": "tcp:127.0.0.1:1"}).start()
    assert "sessions_at 'tcp:127.0.0.1:1' is not unix:PATH" in str(told.value)


def test_what_the_daemon_of_the_sessions_refuses_is_its_own_answer():
    """A body that the front takes and the other does not: not as if nobody were there."""
    with Pair(home={"body": "64k"}) as pair:
        at = begin(pair.front)
        answer = ask(pair.front, "PUT", at + "/files/big", "sessions", "x" * (1 << 20))
        assert answer.status == 413, answer.body
        assert shell(pair.front, at, "echo there") == "there\n"
