# SPDX-License-Identifier: Apache-2.0
"""The daemon as two programs: what its front has given up, and what is left when either
of them is killed."""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from daemon import VIAL, VIALD, Daemon, clean_env, wait_until

ROOT = os.geteuid() == 0
AS = [None, 1000] if ROOT else [None]


def status(pid):
    with open("/proc/%d/status" % pid, encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def children(pid):
    """All descendants of PID, with their names."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            s = status(int(entry))
        except (OSError, ValueError):
            continue
        parents.setdefault(int(s["PPid"]), []).append(int(entry))
        names[int(entry)] = s["Name"]
    found, look = {}, [pid]
    while look:
        for child in parents.get(look.pop(), []):
            found[child] = names[child]
            look.append(child)
    return found


def alive(pids):
    def is_alive(pid):
        try:
            return status(pid)["State"][0] not in "ZX"
        except (OSError, KeyError):
            return False
    return [pid for pid in pids if is_alive(pid)]


def cgroups(pids):
    """Cgroup directories that are named after one of PIDS."""
    found = []
    for where, dirs, _files in os.walk("/sys/fs/cgroup"):
        if where.count("/") > 6:
            dirs[:] = []
        found += [os.path.join(where, d) for d in dirs
                  if d.startswith("vial-") and any("-%d-" % pid in d for pid in pids)]
    return found


@pytest.fixture(params=AS, ids=["as-is" if uid is None else "user" for uid in AS])
def daemon(request):
    d = Daemon(serve={"keeper": "on", "warm": ["python"]}, uid=request.param)
    os.chmod(d.dir, 0o755)
    with d:
        yield d


def in_background(daemon, code):
    answers = []

    def run():
        try:
            answers.append(daemon.run(code, timeout="120s"))
        except OSError:  # the daemon was killed
            pass
    thread = threading.Thread(target=run)
    thread.start()
    return thread, answers


def names_of(daemon):
    return children(daemon.process.pid)


def keeper_of(daemon):
    """The keeper proper is the child of its starter."""
    found = names_of(daemon)
    return next(pid for pid, name in found.items()
                if name == "vial-keeper" and found.get(int(status(pid)["PPid"])) == name)


def test_the_front_has_no_privilege_at_all(daemon):
    s = status(daemon.process.pid)
    assert daemon.run("echo up").json["stdout"] == "up\n"
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(s[name], 16) == 0
    assert s["NoNewPrivs"] == "1" and s["Seccomp"] == "2"
    assert "0" not in s["Uid"].split() and s["Groups"].strip() in ("", "1000")


def test_a_run_goes_through_a_warden_and_leaves_none(daemon):
    thread, answers = in_background(daemon, "sleep 3; echo done")
    assert wait_until(lambda: "vial-warden" in names_of(daemon).values())
    thread.join()
    assert answers[0].json["stdout"] == "done\n" and answers[0].json["driver"] == "native"


def nice_of(pids):
    """Of those that are still there: vessels that waited come and go."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
                found.add(int(file.read().rpartition(")")[2].split()[16]))
    return found


def test_who_accepts_and_tells_of_health_comes_before_what_callers_run(daemon):
    """Threads have a nice each. Without root's rights, or where root may not, all have one."""
    usual, front = os.nice(0), daemon.process.pid
    said = daemon.run("import os; print(os.nice(0))", language="python").json["stdout"]
    nices = nice_of(map(int, os.listdir("/proc/%d/task" % front)))
    assert said == "%d\n" % usual
    assert nice_of(names_of(daemon)) == {usual}
    may = subprocess.call([sys.executable, "-c", "import os; os.nice(-10)"],
                          stderr=subprocess.DEVNULL) == 0
    if daemon.uid is None and ROOT and may and usual > -10:
        assert nice_of([front]) == {-10} and usual in nices  # the latter's served our run
    else:
        assert nices == {usual}


def session_of(pid):
    with open("/proc/%d/autogroup" % pid, encoding="ascii") as file:
        return file.read().split()  # ['/autogroup-12', 'nice', '0']


def may_weigh_sessions():
    try:
        with open("/proc/sys/kernel/sched_autogroup_enabled", encoding="ascii") as file:
            on = file.read() == "1\n"
    except OSError:
        return False
    weigh = 'open("/proc/self/autogroup", "w").write("-10")'
    return ROOT and on and subprocess.call([sys.executable, "-c", weigh], start_new_session=True,
                                           stderr=subprocess.DEVNULL) == 0


@pytest.mark.skipif(not may_weigh_sessions(), reason="sessions are no groups, or not ours to weigh")
def test_front_and_keeper_come_before_what_callers_run_where_sessions_are_weighed():
    """The kernel weighs sessions first: of a front with nice -10 nothing was seen there."""
    own = session_of(os.getpid())
    d = Daemon(serve={"keeper": "on", "warm": "none"})
    d.command = ["setsid", *d.command]
    with d:
        front = session_of(d.process.pid)
        assert front != own and front[1:] == ["nice", "-10"]
        assert session_of(keeper_of(d))[1:] == ["nice", "-5"]
        said = d.run("cat /proc/self/autogroup").json["stdout"].split()
        assert said[1:] == ["nice", "0"]
    with Daemon(serve={"keeper": "on", "warm": "none"}) as d:
        assert session_of(d.process.pid) == own  # which is not the daemon's to weigh


def test_who_writes_a_large_answer_stands_back(daemon):
    """And its thread does not serve the next caller."""
    usual, front, c = os.nice(0), daemon.process.pid, daemon.connect()

    def threads():
        return nice_of(map(int, os.listdir("/proc/%d/task" % front)))
    c.request("POST", "/v1/run", json.dumps({"language": "bash", "code": "head -c 8m /dev/zero",
                                            "output_limit": "8m"}))
    assert wait_until(lambda: max(threads()) > usual)  # it waits for its reader
    assert len(json.loads(c.getresponse().read())["stdout"]) == 8 << 20
    assert wait_until(lambda: max(threads()) == usual)


def shares(group):
    with open(group + "/cpu.shares", encoding="ascii") as file:
        return int(file.read())


@pytest.mark.skipif(not os.path.isdir("/sys/fs/cgroup/cpu"), reason="cgroups are not of version 1")
def test_a_vessel_that_uses_a_processor_for_long_has_a_small_share_until_it_is_idle(daemon):
    if daemon.uid is not None:
        return  # who may make no cgroup has none
    at = "/v1/sessions/%s/exec" % daemon.ask("POST", "/v1/sessions", {"timeout": "60s"}).json["id"]
    daemon.ask("POST", at, {"shell": "while :; do :; done"})

    def seen():
        found = [g for g in cgroups([keeper_of(daemon)]) if "/cpu/" in g or "/cpu," in g]
        with contextlib.suppress(OSError):
            return {shares(group) for group in found}
        return set()
    assert wait_until(lambda: min(seen(), default=512) == 51)
    assert daemon.ask("POST", at + "/1/signal", {"signal": "KILL"}).status == 204
    assert wait_until(lambda: seen() == {512})


@pytest.mark.skipif(not os.path.isdir("/sys/fs/cgroup/cpu"), reason="cgroups are not of version 1")
def test_vessels_of_a_daemon_yield_and_a_killed_warden_leaves_no_group(daemon):
    if daemon.uid is not None:
        return  # who may make no cgroup has none
    keeper = keeper_of(daemon)
    session = daemon.ask("POST", "/v1/sessions", {}).json["id"]
    groups = [g for g in cgroups([keeper]) if "/cpu/" in g or "/cpu," in g]
    for group in groups:
        assert shares(group) == 512
    warden = next(int(g.rpartition("-held-")[2].split("-")[0]) for g in groups
                  if status(int(g.rpartition("-held-")[2].split("-")[0]))["Name"] == "vial-warden")
    os.kill(warden, signal.SIGKILL)
    assert wait_until(lambda: not cgroups([warden]))
    assert daemon.run("echo up").json["stdout"] == "up\n" and session


def test_a_killed_keeper_ends_its_runs_and_is_replaced(daemon):
    thread, answers = in_background(daemon, "sleep 100")
    # Not its guest: vessels of the pool, in which nothing runs, have one as well.
    assert wait_until(lambda: "sleep" in names_of(daemon).values())
    before = keeper_of(daemon)
    os.kill(before, signal.SIGKILL)
    thread.join()
    assert answers[0].json["verdict"] == "failed", answers[0].body
    assert daemon.run("echo again").json["stdout"] == "again\n"
    assert keeper_of(daemon) != before

    def told():  # what was seen last, which may be a moment ago
        keeper = daemon.ask("GET", "/readyz").json["keeper"]
        return keeper and keeper["restarts"] == 1 and keeper["pid"] == keeper_of(daemon)
    assert wait_until(told)
    assert b"vial_keeper_restarts_total 1" in daemon.ask("GET", "/metrics").body
    assert daemon.process.poll() is None


def test_a_killed_front_takes_everything_with_it(daemon):
    thread, _answers = in_background(daemon, "sleep 100")
    assert wait_until(lambda: "sleep" in names_of(daemon).values())
    # What has no parent left among them is found by who it was before.
    family = list(names_of(daemon))
    os.kill(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait()
    thread.join()
    assert wait_until(lambda: not alive(family)), [status(p)["Name"] for p in alive(family)]
    assert wait_until(lambda: not cgroups(family)), cgroups(family)


def test_a_stopped_daemon_leaves_no_process(daemon):
    assert daemon.run("echo up").json["verdict"] == "ok"
    family = list(names_of(daemon))
    daemon.stop()
    assert wait_until(lambda: not alive(family)), [status(p)["Name"] for p in alive(family)]


@pytest.mark.skipif(not ROOT, reason="a user's daemon may mount what its user may")
def test_roots_daemon_mounts_nothing_unless_the_policy_names_it():
    d = Daemon(serve={"keeper": "on"})
    os.chmod(d.dir, 0o755)
    with d:
        answer = d.run("ls /data", mounts=[{"source": "/usr/share", "target": "/data"}])
        assert answer.json["error"]["code"] == "VIAL-MOUNT-OUTSIDE", answer.body


CACHED = """
cached:
  file: main.sh
  run: [sh, "{file}"]
  version: [sh, -c, "echo 1"]
  cache_env: CACHED
"""


@pytest.mark.parametrize("keeper", ["on", "off"])
def test_an_environment_or_cache_of_whoever_started_the_daemon_is_not_shown(tmp_path, keeper):
    root, cache = tmp_path / "env", tmp_path / "vial" / "cached"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(root)], check=True)
    cache.mkdir(parents=True)
    (cache / ".vial-whole").write_text("")
    (tmp_path / "languages.yaml").write_text(CACHED)
    env = {"VIRTUAL_ENV": str(root), "XDG_CACHE_HOME": str(tmp_path),
           "VIAL_LANGUAGES": str(tmp_path / "languages.yaml")}
    own = subprocess.run([VIAL, "run", "cached", "echo [$CACHED]"], check=True, text=True,
                         env=clean_env(HOME=str(tmp_path), **env), stdout=subprocess.PIPE)
    assert own.stdout == "[/opt/cache]\n"
    with Daemon(serve={"keeper": keeper}, env=env) as d:
        answer = d.run("import sys; print(sys.prefix)", "python").json
        assert (answer["verdict"], answer["stdout"]) == ("ok", "/usr\n")
        assert d.run("echo [$CACHED]", "cached").json["stdout"] == "[]\n"


def test_an_environment_that_the_operators_settings_name_is_shown(tmp_path):
    root = tmp_path / "env"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(root)], check=True)
    with Daemon(serve={"keeper": "off"}, defaults={"venv": str(root)}) as d:
        answer = d.run("import sys; print(sys.prefix)", "python").json
        assert (answer["verdict"], answer["stdout"]) == ("ok", "%s\n" % root)


def test_a_warm_run_comes_from_a_vessel_of_the_keepers(daemon):
    wait_until(lambda: any(s["idle"] for s in daemon.ask("GET", "/v1/pool").json["shapes"]))
    result = daemon.run("print(6 * 7)", language="python").json
    assert result["stdout"] == "42\n"
    assert wait_until(lambda: daemon.run("print(1)", language="python").json["start"] == "warm")


def test_a_keeper_that_is_not_installed_is_named_with_what_to_do(tmp_path):
    """Its end is waited for: it lets go of its socket before it has a status."""
    build = os.path.dirname(VIALD)
    for name in ("vial-init", "runtimes", "seccomp", "presets"):
        os.symlink(os.path.join(build, name), tmp_path / name)
    d = Daemon(serve={"keeper": "on"}, env={"VIAL_SHARE": str(tmp_path)})
    with pytest.raises(RuntimeError, match="vial-keeper': status 127.*; install it"):
        d.start()
    d.close()


PARTS = ("viald", "vial-keeper", "vial-keeper-docker", "vial-tls", "vial-init",
         "vial-zygote.so", "runtimes", "seccomp", "presets")


@pytest.fixture
def in_roots_home(tmp_path):
    """A build in a directory that its owner alone may enter, as a clone in /root is."""
    home, build = tmp_path / "home", tmp_path / "home" / "build"
    build.mkdir(parents=True)
    for part in PARTS:
        source = os.path.join(os.path.dirname(VIALD), part)
        (shutil.copytree if os.path.isdir(source) else shutil.copy2)(source, build / part)
    home.chmod(0o700)
    build.chmod(0o755)
    d = Daemon(serve={"keeper": "on", "warm": ["python"]})
    d.command = ["env", "HOME=%s" % home, str(build / "viald")]
    yield d
    d.close()


@pytest.mark.skipif(not ROOT, reason="a user's daemon can go where its user can")
def test_roots_daemon_serves_from_where_its_front_cannot_go(in_roots_home):
    d = in_roots_home
    with d:
        assert status(d.process.pid)["Uid"].split()[0] != "0"
        assert d.run("print(6 * 7)", language="python").json["stdout"] == "42\n"
        session = "/v1/sessions/" + d.ask("POST", "/v1/sessions", {}).json["id"]
        assert d.ask("POST", session + "/contexts", {"language": "python"}).status == 201
        d.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: d.lines("reload"))
        assert "error" not in d.lines("reload")[0], d.log()
        assert wait_until(lambda: d.run("print(1)", language="python").json["start"] == "warm")


@pytest.mark.skipif(not ROOT, reason="a user's daemon can read what its user can")
def test_data_that_the_front_may_not_read_is_named_with_what_to_do(in_roots_home):
    runtimes = os.path.join(os.path.dirname(in_roots_home.command[-1]), "runtimes")
    os.chmod(runtimes, 0o700)
    with pytest.raises(RuntimeError, match="as user 'nobody'.*chmod -R a.rX"):
        in_roots_home.start()


@pytest.mark.skipif(not ROOT, reason="of root's daemon")
def test_a_root_without_cap_sys_admin_has_a_keeper():
    """As in most containers. A filter then takes the promise of no new privileges."""
    d = Daemon()
    d.command = ["setpriv", "--inh-caps=-sys_admin", "--bounding-set=-sys_admin", *d.command]
    with d:
        assert d.run("echo here", language="sh").json["stdout"] == "here\n"
        assert status(keeper_of(d))["NoNewPrivs"].strip() == "1"


def test_a_stopped_daemons_socket_is_gone_when_it_is(daemon):
    """The front of root's daemon has no right to remove it; its keeper has."""
    assert os.path.exists(daemon.socket)
    family = list(names_of(daemon))
    assert daemon.stop() == 0
    assert not os.path.exists(daemon.socket) and not alive(family)


def test_a_killed_front_leaves_no_socket_and_takes_none_from_its_successor(daemon):
    os.kill(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait()
    assert wait_until(lambda: not os.path.exists(daemon.socket))
    daemon.start()
    before = os.stat(daemon.socket)
    # Another daemon's socket under the same name is not the keeper's to remove.
    while True:
        os.unlink(daemon.socket)
        other = socket.socket(socket.AF_UNIX)
        other.bind(daemon.socket)
        if os.stat(daemon.socket).st_ctime_ns != before.st_ctime_ns:
            break
        other.close()  # made in the same tick of the clock
    family = list(names_of(daemon))
    os.kill(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait()
    assert wait_until(lambda: not alive(family))
    assert os.path.exists(daemon.socket)
    other.close()


def test_a_reload_that_changes_the_policy_says_what_the_keeper_holds_to(daemon):
    daemon.settings["policy"] = {"max_memory": "1g"}
    daemon.write_settings()
    daemon.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: daemon.lines("reload"))
    assert "restart" in daemon.lines("policy")[0]["note"]


@pytest.mark.skipif(not ROOT, reason="a user's daemon has its user's home")
@pytest.mark.parametrize("request_, code", [
    ({"image": "nothing.of/this:name", "pull": "never"}, "VIAL-IMAGE"),
    ({"volumes": ["nothing-of-this-name:/d"]}, "VIAL-VOLUME")])
def test_a_daemon_without_a_home_knows_its_stores(request_, code):
    """As an init system starts it."""
    d = Daemon(serve={"keeper": "on"}, policy={"volumes": ["*"]})
    d.command = ["env", "-u", "HOME", VIALD]
    with d:
        assert d.run("true", driver="native", **request_).json["error"]["code"] == code
    d.close()
