# SPDX-License-Identifier: Apache-2.0
"""Who may ask for what: peers on the unix socket, tokens on TCP."""
import hashlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import tempfile

import pytest

from daemon import VIAL, VIALD, Answer, Daemon, clean_env, free_port, wait_until

TOKENS = {"reader": ["read"], "runner": ["run", "read"], "sessions": ["session"],
          "images": ["image"], "boss": ["all"]}


def secret(name):
    return "secret-token-of-%s-0123456789" % name


def write_tokens(path, **more):
    entries = [{"name": name, "scopes": scopes,
                "sha256": hashlib.sha256(secret(name).encode()).hexdigest()}
               for name, scopes in TOKENS.items()]
    entries += more.get("entries", [])
    with open(path, "w", encoding="utf-8") as file:
        json.dump(entries, file)
    os.chmod(path, 0o600)
    return path


@pytest.fixture(scope="module")
def tcp():
    with tempfile.TemporaryDirectory() as where:
        with Daemon(serve={"tokens": write_tokens(where + "/tokens"), "hosts": ["vial.test"],
                           "origins": ["https://good.test"]}, tcp=True) as d:
            yield d


def ask(d, method, path, name=None, body=None, token=None, **headers):
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    if name or token is not None:
        headers["Authorization"] = "Bearer " + (secret(name) if name else token)
    c.request(method, path, body=json.dumps(body) if body is not None else None, headers=headers)
    r = c.getresponse()
    answer = Answer(r.status, r.headers, r.read())
    c.close()
    return answer


RUN = {"language": "bash", "code": "true"}


@pytest.mark.parametrize("name,method,path,body,status", [
    ("reader", "GET", "/v1/languages", None, 200),
    ("reader", "GET", "/metrics", None, 200),
    ("reader", "POST", "/v1/run", RUN, 403),
    ("reader", "POST", "/v1/sessions", {}, 403),
    ("reader", "POST", "/v1/images/prune", {}, 403),
    ("reader", "GET", "/v1/config", None, 403),
    ("runner", "POST", "/v1/run", RUN, 200),
    ("runner", "POST", "/v1/batch", {"requests": [RUN]}, 200),
    ("runner", "POST", "/v1/sessions", {}, 403),
    ("runner", "GET", "/v1/vessels", None, 403),
    ("sessions", "POST", "/v1/sessions", {}, 201),
    ("sessions", "POST", "/v1/run", RUN, 403),
    ("images", "GET", "/v1/languages", None, 403),
    ("boss", "GET", "/v1/config", None, 200),
    ("boss", "POST", "/v1/run", RUN, 200),
    (None, "POST", "/v1/run", RUN, 401),
    (None, "GET", "/metrics", None, 401),
    (None, "GET", "/v1/nothing", None, 401),
    (None, "GET", "/healthz", None, 200),
    (None, "GET", "/readyz", None, 200),
])
def test_a_token_opens_what_its_scopes_say(tcp, name, method, path, body, status):
    answer = ask(tcp, method, path, name, body)
    assert answer.status == status
    if status == 401:
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert answer.code == "VIAL-AUTH"
    if status == 403:
        assert answer.code == "VIAL-SCOPE"


@pytest.mark.parametrize("token", ["", "x", secret("reader") + "x", secret("reader")[:-1],
                                   hashlib.sha256(secret("boss").encode()).hexdigest(),
                                   secret("boss").upper()])
def test_a_wrong_token_opens_nothing(tcp, token):
    answer = ask(tcp, "GET", "/v1/version", token=token)
    assert answer.status == 401 and "--new-token" in answer.json["error"]["remedy"]


def test_readiness_tells_strangers_no_more_than_yes_or_no(tcp):
    assert set(ask(tcp, "GET", "/readyz").json) == {"status"}
    assert "engine" in ask(tcp, "GET", "/readyz", "reader").json


def test_runs_and_sessions_are_seen_by_their_owner_alone(tcp):
    run = ask(tcp, "POST", "/v1/run", "runner", {"language": "bash", "code": "echo mine"}).json["id"]
    assert ask(tcp, "GET", "/v1/runs/" + run, "runner").json["stdout"] == "mine\n"
    assert ask(tcp, "GET", "/v1/runs/" + run, "reader").status == 404
    assert ask(tcp, "GET", "/v1/runs/" + run, "boss").status == 200
    sid = ask(tcp, "POST", "/v1/sessions", "sessions", {}).json["id"]
    assert ask(tcp, "GET", "/v1/sessions/" + sid, "sessions").status == 200
    assert ask(tcp, "GET", "/v1/sessions/" + sid, "boss").status == 404
    assert tcp.ask("GET", "/v1/sessions/" + sid).status == 404
    assert sid in [s["id"] for s in ask(tcp, "GET", "/v1/sessions?all=1", "boss").json]
    assert ask(tcp, "GET", "/v1/sessions?all=1", "sessions").json[0]["id"]


@pytest.mark.parametrize("host,status", [
    ("localhost", 200), ("127.0.0.1:1", 200), ("[::1]:80", 200), ("VIAL.test:99", 200),
    ("evil.test", 403), ("localhost:80@evil.test", 403), ("127.0.0.1.evil.test", 403), ("localhost.evil", 403),
])
def test_a_host_that_is_not_ours_is_refused(tcp, host, status):
    """A browser led here under another name (DNS rebinding) gets nowhere."""
    answer = ask(tcp, "GET", "/v1/version", "reader", Host=host)
    assert answer.status == status
    assert status == 200 or answer.code == "VIAL-HOST"


@pytest.mark.parametrize("origin,status", [
    ("https://good.test", 200), ("http://localhost:5", 403), ("https://evil.test", 403),
    ("null", 403),
])
def test_an_origin_that_is_not_allowed_is_refused(tcp, origin, status):
    assert ask(tcp, "GET", "/v1/version", "reader", Origin=origin).status == status


def test_the_servers_own_page_may_ask(tcp):
    own = "127.0.0.1:%d" % tcp.port
    assert ask(tcp, "GET", "/v1/version", "reader", Host=own, Origin="http://" + own).status == 200


PAGE = "https://good.test"
PREFLIGHT = {"Access_Control_Request_Method": "POST",
             "Access_Control_Request_Headers": "authorization,content-type"}


def cors(answer):
    """What it says to browsers of pages of other origins."""
    return {k.lower(): v for k, v in answer.headers.items()
            if k.lower().startswith("access-control-")}


@pytest.mark.parametrize("path", ["/v1/run", "/v1/sessions/s-1/files/a", "/mcp", "/v1/nothing", "/healthz"])
def test_a_browser_may_ask_first_for_a_page_that_the_settings_name(tcp, path):
    """Before anybody is known: it costs no caller, and tells nothing of paths or tokens."""
    answer = ask(tcp, "OPTIONS", path, Origin=PAGE, **PREFLIGHT)
    said = cors(answer)
    assert (answer.status, answer.body) == (204, b"")
    assert said["access-control-allow-origin"] == PAGE and answer.headers["Vary"] == "Origin"
    assert "Authorization" in said["access-control-allow-headers"]
    assert {"PUT", "DELETE"} <= set(said["access-control-allow-methods"].split(", "))
    assert "access-control-allow-credentials" not in said and "*" not in said.values()


@pytest.mark.parametrize("origin", [
    "https://evil.test", "null", "*", "http://good.test", "https://good.test:8443",
    "https://good.test.evil.test", "https://good.test/", "https://evilgood.test", ""])
def test_a_page_of_another_origin_gets_nothing(tcp, origin):
    answer = ask(tcp, "OPTIONS", "/v1/run", Origin=origin, **PREFLIGHT)
    assert answer.status in (401, 403) and cors(answer) == {}
    answer = ask(tcp, "GET", "/v1/version", "reader", Origin=origin)
    assert answer.status == 403 and cors(answer) == {}
    assert cors(ask(tcp, "GET", "/healthz", Origin=origin)) == {}


def test_who_has_no_origin_is_told_nothing_of_pages(tcp):
    answer = ask(tcp, "OPTIONS", "/v1/run", **PREFLIGHT)
    assert answer.status == 401 and cors(answer) == {}
    answer = ask(tcp, "GET", "/v1/version", "reader")
    assert answer.status == 200 and cors(answer) == {} and answer.headers["Vary"] == "Origin"


@pytest.mark.parametrize("method,path,name,body,status", [
    ("GET", "/v1/version", "reader", None, 200), ("POST", "/v1/run", "runner", RUN, 200),
    ("GET", "/v1/version", None, None, 401), ("POST", "/v1/run", "reader", RUN, 403),
    ("GET", "/v1/nothing", "reader", None, 404), ("PUT", "/v1/run", "reader", None, 405)])
def test_every_answer_can_be_read_by_a_page_that_the_settings_name(tcp, method, path, name, body, status):
    answer = ask(tcp, method, path, name, body, Origin=PAGE)
    assert answer.status == status
    assert answer.headers.get_all("Access-Control-Allow-Origin") == [PAGE]
    assert "Retry-After" in cors(answer)["access-control-expose-headers"]


def test_a_body_that_nobody_takes_is_refused_so_that_the_page_hears_it(tcp):
    answer = ask(tcp, "POST", "/v1/run", Origin=PAGE, Expect="100-continue", Content_Length="9999999")
    assert answer.status == 401 and cors(answer)["access-control-allow-origin"] == PAGE
    answer = ask(tcp, "POST", "/v1/run", Origin="https://evil.test", Expect="100-continue",
                 Content_Length="9999999")
    assert answer.status == 403 and cors(answer) == {}


def test_what_listens_in_a_vessel_speaks_for_itself(tcp):
    """The daemon's word is for its own answers."""
    answer = ask(tcp, "OPTIONS", "/v1/sessions/s-1/ports/80/x", Origin=PAGE, **PREFLIGHT)
    assert answer.status != 204 and cors(answer) == {}
    assert cors(ask(tcp, "GET", "/v1/sessions/s-1/ports/80/x", "sessions", Origin=PAGE)) == {}


@pytest.mark.parametrize("origin", ["*", "null", "good.test", "https://", "https://good.test/",
                                    "https://*.good.test", "https://a@good.test", "://x"])
def test_an_origin_that_would_mean_others_is_refused_at_the_start(origin):
    d = Daemon(serve={"origins": [origin]})
    with pytest.raises(RuntimeError, match="is no origin"):
        d.start()
    d.close()


def test_a_web_page_cannot_use_the_unix_socket_through_a_proxy(tcp):
    assert tcp.ask("GET", "/v1/version", headers={"Origin": "https://evil.test"}).status == 403


def test_callers_over_tcp_cannot_name_paths_of_the_host(tcp):
    for field, value in (("mounts", ["/usr:/mnt"]), ("workspace", "/usr"), ("rootfs", "/")):
        answer = ask(tcp, "POST", "/v1/run", "runner", {**RUN, field: value})
        assert (answer.status, answer.code) == (403, "VIAL-POLICY"), field
        answer = ask(tcp, "POST", "/v1/sessions", "sessions", {field: value})
        assert (answer.status, answer.code) == (403, "VIAL-POLICY"), field


@pytest.mark.skipif(os.getuid() != 0, reason="asks as another user")
def test_a_unix_socket_knows_its_callers():
    script = ("import sys; sys.path.insert(0, %r); from daemon import UnixConnection;"
              "c = UnixConnection(sys.argv[1]); c.request(*sys.argv[2:4], sys.argv[4] or None);"
              "a = c.getresponse(); print(a.status, a.read().decode())"
              % os.path.dirname(os.path.abspath(__file__)))

    def as_user(uid, d, method, path, body=""):
        out = subprocess.run(["/usr/bin/python3", "-c", script, d.socket, method, path, body],
                             user=uid, group=uid, extra_groups=[], capture_output=True, text=True,
                             env=clean_env(HOME="/"), cwd="/")
        return out.stdout or out.stderr

    with Daemon() as d:
        os.chmod(d.dir, 0o755)
        assert "PermissionError" in as_user(1234, d, "GET", "/v1/version")
        os.chmod(d.dir + "/run", 0o755)
        os.chmod(d.socket, 0o666)  # whoever gets that far is still looked at
        assert as_user(1234, d, "GET", "/v1/version").startswith("401")
    with Daemon(serve={"uids": ["1234"]}) as d:
        os.chmod(d.dir, 0o755)
        assert '"caller":"uid:1234"' in as_user(1234, d, "GET", "/v1/version")
        assert as_user(1234, d, "POST", "/v1/run", json.dumps(RUN)).startswith("200")
        assert as_user(1234, d, "GET", "/v1/config").startswith("403")
        assert as_user(1235, d, "GET", "/v1/version").startswith("401")
        body = json.dumps({**RUN, "mounts": ["/usr:/mnt"]})
        assert "VIAL-POLICY" in as_user(1234, d, "POST", "/v1/run", body)


def refused(*args, **settings):
    """How viald ends that must not start."""
    with tempfile.TemporaryDirectory() as where:
        config = where + "/vial.yaml"
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"serve": settings}, file)
        out = subprocess.run([VIALD, "--config", config, *args], capture_output=True, text=True,
                             timeout=30, env=clean_env(HOME=where))
        assert out.returncode == 125 and out.stderr.startswith("vial serve: ")
        return out.stderr


def test_no_tcp_without_tokens_and_none_from_outside_without_tls(tmp_path):
    tokens = write_tokens(str(tmp_path / "tokens"))
    assert "VIAL-AUTH" in refused("--listen", "tcp:127.0.0.1:%d" % free_port())
    assert "VIAL-AUTH" in refused("--listen", "tcp:0.0.0.0:%d" % free_port(), "--token-file",
                                  tokens)
    assert "VIAL-AUTH" in refused("--listen", "tcp:[::]:%d" % free_port(), "--token-file", tokens)
    assert "TLS" in refused("--listen", "tcp::%d" % free_port(), "--token-file", tokens)


def test_a_daemon_that_cannot_start_says_why(tmp_path):
    assert "VIAL-VALUE" in refused("--listen", "udp:1")
    assert "VIAL-VALUE" in refused("--listen", "unix:relative")
    assert "VIAL-FIELD" in refused(quue=3)
    assert "did you mean 'queue'" in refused(quue=3)
    assert "VIAL-USAGE" in refused("--lisen", "unix:/x")
    loose = tmp_path / "tokens"
    write_tokens(str(loose))
    os.chmod(loose, 0o666)
    assert "chmod 600" in refused("--listen", "tcp:127.0.0.1:1", "--token-file", str(loose))
    short = tmp_path / "short"
    short.write_text('- {name: a, sha256: "12", scopes: [run]}\n')
    assert "--new-token" in refused("--listen", "tcp:127.0.0.1:1", "--token-file", str(short))


def test_a_second_daemon_does_not_take_the_firsts_socket():
    with Daemon(serve={"keeper": "off"}) as d:  # a keeper would tidy up after the kill
        assert "another daemon" in refused("--listen", "unix:" + d.socket)
        assert d.ask("GET", "/healthz").status == 200
        d.process.kill()
        d.process.wait()
        assert os.path.exists(d.socket)
        again = subprocess.run([VIALD, "--listen", "unix:" + d.socket, "--idle-exit", "1s"],
                               capture_output=True, text=True, env=clean_env(HOME="/"), timeout=60)
        assert again.returncode == 0, again.stderr


def test_a_new_token_is_shown_once_and_its_entry_works(tmp_path):
    made = subprocess.run([VIAL, "serve", "--new-token", "ci"], capture_output=True, text=True,
                          env=clean_env())
    token = made.stderr.split()[-1]
    assert token.startswith("vial_") and token not in made.stdout
    file = tmp_path / "tokens.yaml"
    file.write_text(made.stdout)
    os.chmod(file, 0o600)
    with Daemon(serve={"tokens": str(file)}, tcp=True) as d:
        assert ask(d, "GET", "/v1/version", token=token).json["caller"] == "token:ci"


def test_a_new_token_has_the_scopes_that_are_asked_for(tmp_path):
    def new(*args):
        return subprocess.run([VIAL, "serve", "--new-token", "ci", "--json", *args],
                              capture_output=True, text=True, env=clean_env())
    for given in ("read", "run,session", "read,run,session,image,admin", "all"):
        entry = json.loads(new("--scopes", given).stdout)
        assert ",".join(entry["scopes"]) == given
        del entry["token"]
        file = tmp_path / "tokens.yaml"
        file.write_text(json.dumps([entry]))
        os.chmod(file, 0o600)
        with Daemon(serve={"tokens": str(file)}, tcp=True):
            pass  # it is understood
    wrong = new("--scopes", "read,rum")
    assert wrong.returncode == 125 and "there is no scope 'rum'" in wrong.stdout


def make_certificate(where):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", where + "/key.pem", "-out", where + "/cert.pem"], check=True,
                   capture_output=True)


def test_tls_is_spoken_and_certificates_are_replaced_on_reload(tmp_path):
    where = str(tmp_path)
    make_certificate(where)
    with Daemon(serve={"tokens": write_tokens(where + "/t"), "tls_cert": where + "/cert.pem",
                       "tls_key": where + "/key.pem", "keeper": "off"}, tcp=True) as d:
        def talk(old=None):
            context = ssl.create_default_context(cafile=where + "/cert.pem")
            if old:
                context.maximum_version = old
            c = http.client.HTTPSConnection("127.0.0.1", d.port, timeout=60, context=context)
            c.request("POST", "/v1/run", json.dumps(RUN),
                      {"Authorization": "Bearer " + secret("runner")})
            return json.loads(c.getresponse().read())["verdict"]
        assert talk() == "ok"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            talk(ssl.TLSVersion.TLSv1_1)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            ask(d, "GET", "/healthz")
        make_certificate(where)
        with pytest.raises(ssl.SSLError):
            talk()
        d.process.send_signal(1)
        assert wait_until(lambda: d.lines("reload"))
        assert talk() == "ok"


def test_a_reload_refuses_nobody_who_is_connected(tmp_path):
    """What was connected to the server that a reload replaced is answered, and then closed."""
    head = {"Authorization": "Bearer " + secret("boss")}
    with Daemon(serve={"tokens": write_tokens(str(tmp_path / "t")), "keeper": "off"}, tcp=True) as d:
        c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
        c.request("GET", "/v1/version", headers=head)
        assert c.getresponse().read()
        d.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: d.lines("reload")) and "error" not in d.lines("reload")[0]
        c.request("POST", "/v1/run", json.dumps(RUN), head)
        r = c.getresponse()
        assert (r.status, r.headers["Connection"]) == (200, "close")
        assert json.loads(r.read())["verdict"] == "ok"
        c.close()


def test_files_that_are_watched_count_as_soon_as_they_have_changed(tmp_path):
    """As a cluster replaces them: behind a link that leads elsewhere from one moment to the next."""
    first, second, shown = str(tmp_path / "1"), str(tmp_path / "2"), str(tmp_path / "shown")
    for where in (first, second):
        os.mkdir(where)
        make_certificate(where)
    write_tokens(first + "/t")
    write_tokens(second + "/t", entries=[{
        "name": "new", "scopes": ["all"],
        "sha256": hashlib.sha256(secret("new").encode()).hexdigest()}])
    os.symlink(first, shown)

    def status(where, name):
        context = ssl.create_default_context(cafile=where + "/cert.pem")
        c = http.client.HTTPSConnection("127.0.0.1", d.port, timeout=60, context=context)
        try:
            c.request("GET", "/v1/version", headers={"Authorization": "Bearer " + secret(name)})
            return c.getresponse().status
        except ssl.SSLError:
            return None
        finally:
            c.close()
    with Daemon(serve={"tokens": shown + "/t", "tls_cert": shown + "/cert.pem", "watch": "100ms",
                       "tls_key": shown + "/key.pem", "keeper": "off"}, tcp=True) as d:
        assert (status(first, "boss"), status(first, "new")) == (200, 401)
        assert not d.lines("reload")
        os.symlink(second, str(tmp_path / "next"))
        os.rename(str(tmp_path / "next"), shown)
        assert wait_until(lambda: d.lines("reload"))
        assert (status(first, "boss"), status(second, "new")) == (None, 200)
        os.unlink(shown)  # what is not there has not changed
        assert status(second, "new") == 200
        os.symlink(first, shown)
        assert wait_until(lambda: status(first, "new") == 401)
        assert not [line for line in d.lines("reload") if "error" in line]


def test_a_projects_file_has_no_say_in_the_daemon(tmp_path):
    """The program of an earlier run may have written it."""
    (tmp_path / "vial.yaml").write_text("serve: {uids: ['1000']}\n")
    out = subprocess.run([VIAL, "config", "check"], capture_output=True, text=True, cwd=tmp_path,
                         env=clean_env(HOME=str(tmp_path / "none")))
    assert out.returncode == 125 and "VIAL-POLICY" in out.stderr


def test_json_is_heard_by_serve_too():
    said = subprocess.run([VIAL, "serve", "--new-token", "ci", "--json"], capture_output=True,
                          text=True, env=clean_env(), timeout=60)
    entry = json.loads(said.stdout)
    assert (said.returncode, said.stderr) == (0, "")
    assert hashlib.sha256(entry["token"].encode()).hexdigest() == entry["sha256"]
    assert (entry["name"], entry["scopes"]) == ("ci", ["read", "run", "session"])
    d = Daemon(serve={"log": "logfmt"}, args=["--json"])
    d.command = [VIAL, "serve"]
    with d:
        assert d.lines("ready")


@pytest.mark.parametrize("keeper", ["on", "off"])
def test_nobody_from_outside_gets_a_program_that_nothing_isolates(tmp_path, keeper):
    """The driver `process` would make a caller the daemon's user."""
    bare = {"language": "bash", "code": "id -u", "driver": "process"}
    tokens = write_tokens(str(tmp_path / "tokens"))
    os.chmod(tmp_path, 0o755)
    os.chmod(tokens, 0o644)
    with Daemon(serve={"tokens": tokens, "keeper": keeper}, tcp=True) as d:
        for path, body in (("/v1/run", bare), ("/v1/plan", bare),
                           ("/v1/sessions", {"driver": "process"})):
            answer = ask(d, "POST", path, "boss", body)
            assert answer.status == 403 and answer.code == "VIAL-POLICY", (path, answer.body)
        told = ask(d, "POST", "/v1/batch", "boss", {"requests": [bare]}).events
        assert [e["error"]["code"] for e in told if e["event"] == "error"] == ["VIAL-POLICY"]
    if keeper == "off":
        with Daemon(serve={"tokens": tokens, "keeper": "off"}, policy={"drivers": ["native", "process"]},
                    tcp=True) as d:
            assert ask(d, "POST", "/v1/run", "boss", bare).json["driver"] == "process"
