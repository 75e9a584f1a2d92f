# SPDX-License-Identifier: Apache-2.0
"""The docker driver against a real engine. covers: NFR-020-46"""
import base64
import json
import os
import signal
import socket
import subprocess
import threading

import pytest
from conftest import PATIENCE, VIAL
from engine import PORT, is_own_user, wait_for

UP = "echo up; sleep 60"


def one_of(api, session):
    found = [c for c in api.ours() if c["Labels"].get("vial.session") == session]
    assert len(found) == 1, found
    return found[0]


def gone(api):
    return wait_for(lambda: not api.ours())


# Life of a container.

def test_a_run_gives_back_output_and_status(run, api):
    """covers: FR-020-03 FR-020-11 FR-020-12 FR-020-13 FR-020-14 FR-020-15 FR-020-16
    covers: FR-020-21 FR-020-22 FR-020-23 FR-020-24 FR-020-96 FR-020-97 FR-020-98"""
    r = run("bash", "echo out; echo err >&2; exit 7")
    assert (r["verdict"], r["exit_code"]) == ("nonzero", 7)
    assert (r["stdout"], r["stderr"]) == ("out\n", "err\n")
    assert r["driver"] == "docker" and r["image"] == "debian:12-slim"
    assert r["vessel_id"] and r["duration_ms"] > 0
    assert r["isolation"]["level"] == "container"
    assert gone(api)


def test_output_is_cut_and_marked_and_bytes_stay_bytes(run):
    """covers: FR-020-100 FR-020-101 FR-020-102 FR-020-103 FR-020-104"""
    r = run("--output-limit", "100", "bash", "seq 1 9999; printf '\\303\\251' >&2")
    assert r["stdout_truncated"] and r["stdout_bytes"] == 48888 and r["stderr"] == "\u00e9"
    r = run("--raw", "python", "import sys; sys.stdout.buffer.write(bytes(range(256)))")
    assert base64.b64decode(r["stdout_base64"]) == bytes(range(256))


def test_output_comes_while_the_program_runs(start):
    """covers: FR-020-99"""
    assert start("bash", UP).poll() is None


def test_a_run_can_be_cancelled(api, start):
    """covers: FR-020-08"""
    p = start("bash", UP)
    p.send_signal(signal.SIGINT)
    assert p.wait(PATIENCE) == 130
    assert gone(api)


def test_the_environment_is_only_what_was_given(run):
    """covers: NFR-020-34"""
    r = run("--env", "GIVEN=1", "bash", "env", MY_SECRET="hunter2")
    assert "GIVEN=1\n" in r["stdout"] and "hunter2" not in r["stdout"]


def test_nothing_of_one_run_is_left_for_the_next(run):
    """covers: FR-020-24"""
    assert run("bash", "echo x > /tmp/left; echo x > /work/left")["verdict"] == "ok"
    r = run("bash", "ls /tmp/left /work/left 2>/dev/null | wc -l")
    assert r["stdout"] == "0\n"


def test_dk_01_a_container_has_what_was_promised(api, start):
    """DK-01; covers: FR-020-28 FR-020-29 FR-020-30 FR-020-31 FR-020-51 FR-020-53
    covers: NFR-020-25 NFR-020-26 NFR-020-27 NFR-020-28 NFR-020-33 NFR-020-36"""
    start("--session", "dk01", "--task", "t 1", "bash", UP)
    found = one_of(api, "dk01")
    full = api.inspect(found)
    host, config = full["HostConfig"], full["Config"]
    assert full["Name"] == "/vial-dk01-t_1"
    assert found["Labels"]["vial.managed"] == "true"
    assert found["Labels"]["vial.task"] == "t 1"
    assert host["ReadonlyRootfs"] and not host["Privileged"] and host["AutoRemove"]
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    options = host["SecurityOpt"]
    assert "no-new-privileges" in options
    profile = json.loads([o for o in options if o.startswith("seccomp=")][0][8:])
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert all(is_own_user(id) for id in config["User"].split(":"))
    assert host["PidsLimit"] == 129 and host["NanoCpus"] == 10 ** 9
    assert host["Memory"] == host["MemorySwap"] == 512 << 20
    assert host["NetworkMode"] == "none" and host["IpcMode"] == "private"
    assert "host" not in (host["PidMode"], host["UTSMode"], host["UsernsMode"],
                          host["CgroupnsMode"])
    assert not host["Binds"] and not host["Devices"] and not host["PortBindings"]
    assert [m["Target"] for m in host["Mounts"]] == ["/.vial-init", "/.vial-line"]
    assert all(m["ReadOnly"] for m in host["Mounts"])
    assert not os.path.exists(host["Mounts"][1]["Source"])  # nobody listens any more
    assert host["LogConfig"]["Type"] == "none"


def test_what_was_asked_for_is_what_the_engine_made(api, start, place):
    """covers: FR-020-17 FR-020-18 FR-020-19 FR-020-20 FR-020-42 FR-020-43 FR-020-47 FR-020-48
    covers: FR-020-52 FR-020-55"""
    start("--session", "made", "--image", "python:3.11-slim", "--mount", "%s:/data" % place,
          "--memory", "96m", "--cpus", "0.25", "--pids", "40", "--disk", "5m", "--tmp", "3m",
          "bash", "echo up; exec >/dev/null; sleep 60")
    full = api.inspect(one_of(api, "made"))
    host = full["HostConfig"]
    assert full["Config"]["Image"] == "python:3.11-slim"
    [data] = [m for m in full["Mounts"] if m["Destination"] == "/data"]
    assert (data["Type"], data["Source"], data["RW"], data["Propagation"]) == \
        ("bind", str(place), False, "rprivate")
    assert all(m["Propagation"] == "rprivate" for m in full["Mounts"] if m["Type"] == "bind")
    assert host["Memory"] == host["MemorySwap"] == 96 << 20
    assert host["NanoCpus"] == 250000000 and host["PidsLimit"] == 41
    assert host["NetworkMode"] == "none"
    assert {"size=%d" % (5 << 20)} <= set(host["Tmpfs"]["/work"].split(","))
    assert {"size=%d" % (3 << 20)} <= set(host["Tmpfs"]["/tmp"].split(","))


def test_the_sizes_hold_inside(run):
    """covers: FR-020-47 FR-020-48"""
    r = run("--disk", "5m", "--tmp", "3m", "bash",
            "df -B1 --output=fstype,size /work /tmp | tail -2")
    assert [line.split() for line in r["stdout"].splitlines()] == \
        [["tmpfs", str(5 << 20)], ["tmpfs", str(3 << 20)]], r


def test_the_program_is_nobody_and_can_become_nobody_else(run):
    """covers: NFR-020-25 NFR-020-27"""
    r = run("bash", "id -u; grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; "
            "touch /x 2>/dev/null && echo written")
    lines = r["stdout"].split("\n")
    assert is_own_user(lines[0]) and "written" not in lines
    assert "NoNewPrivs:\t1" in lines and "Seccomp:\t2" in lines
    assert all(line.endswith("\t" + "0" * 16) for line in lines if line.startswith("Cap"))


def image_of(api, name, config, command=("/bin/true",)):
    """An image NAME with that config, after COMMAND ran in it as root."""
    made = api.call("POST", "/containers/create", {"Image": "debian:12-slim",
                                                   "Cmd": list(command)})
    try:
        api.call("POST", "/containers/%s/start" % made["Id"])
        assert api.call("POST", "/containers/%s/wait" % made["Id"])["StatusCode"] == 0
        repo, _, tag = name.partition(":")
        api.call("POST", "/commit?repo=%s&tag=%s&container=%s" % (repo, tag, made["Id"]), config)
    finally:
        api.call("DELETE", "/containers/" + made["Id"])
    return name


def test_dk_02_a_hostile_images_metadata_gets_nowhere(run, api, start):
    """DK-02; covers: NFR-020-32"""
    image_of(api, "hostile:1", {
        "User": "root", "Entrypoint": ["/evil"], "Cmd": ["/evil"], "WorkingDir": "/nowhere",
        "Env": ["LD_PRELOAD=/evil.so", "GLIBC_TUNABLES=evil", "HOME=/evil", "TMPDIR=/evil"],
        "Volumes": {"/etc": {}},
        "Healthcheck": {"Test": ["CMD", "touch", "/tmp/checked"], "Interval": 10 ** 9},
        "StopSignal": "0", "OnBuild": ["RUN /evil"],
        "Labels": {"vial.owner": "somebody", "bomb": "x" * 100000}})
    before = api.call("GET", "/volumes")["Volumes"] or []
    r = run("--image", "hostile:1", "bash",
            "id -u; pwd; echo $HOME $TMPDIR; sleep 2.5; ls /tmp; echo $0")
    assert r["verdict"] == "ok", r
    uid, *where = r["stdout"].split("\n")[:3]
    assert is_own_user(uid) and where == ["/work", "/work /tmp"]
    assert "checked" not in r["stdout"]
    # Its programs have its variables; the guest, which is not its, has none of them.
    assert run("--image", "hostile:1", "bash", "echo $LD_PRELOAD")["stdout"] == "/evil.so\n"
    start("--session", "hostile", "--image", "hostile:1", "bash", UP)
    pid = api.inspect(one_of(api, "hostile"))["State"]["Pid"]
    with open("/proc/%d/environ" % pid, "rb") as f:
        assert b"evil" not in f.read()
    api.call("DELETE", "/containers/" + one_of(api, "hostile")["Id"] +
             "?force=true&v=true")
    assert gone(api)
    assert wait_for(lambda: (api.call("GET", "/volumes")["Volumes"] or []) == before)


@pytest.mark.parametrize("config,what", [
    ({"WorkingDir": "/proc/self/fd/8"}, "a WORKDIR below /proc, /sys or /dev"),
    ({"WorkingDir": "/a/../../b"}, "a WORKDIR that is not a clean absolute path"),
    ({"WorkingDir": "relative"}, "a WORKDIR that is not a clean absolute path"),
    ({"Env": ["A" + str(i) + "=" for i in range(300)]}, "more ENV than vial takes"),
    ({"Env": ["HUGE=" + "x" * 40000]}, "more ENV than vial takes"),
    ({"Env": ["no value"]}, "an ENV that is not NAME=VALUE")])
def test_an_images_config_beyond_the_bounds_is_refused_by_name(run, api, config, what):
    """covers: NFR-020-32"""
    r = run("--image", image_of(api, "beyond:1", config), "bash", "echo never")
    assert r["error"]["code"] == "VIAL-IMAGE-CONFIG" and not r["stdout"]
    assert r["error"]["message"].startswith("image 'beyond:1' has " + what)
    assert gone(api)


@pytest.fixture
def command(tmp_path):
    """Flags of a run of a command, without a workspace."""
    def flags(*argv):
        path = tmp_path / "request.json"
        path.write_text(json.dumps({"command": argv}))
        return "--request", str(path)
    return flags


def test_a_python_is_found_where_the_images_path_says(run, api, command):
    image_of(api, "py:1", {"Env": ["PATH=/opt/py/bin:/usr/bin:/bin"]},
             ["sh", "-c", "mkdir -p /opt/py/bin && mv /usr/bin/python3* /opt/py/bin/"])
    r = run("--image", "py:1", "python", "import sys; print(sys.executable)")
    assert r["stdout"] == "/opt/py/bin/python3\n", r
    r = run("--image", "py:1", *command("python3", "-c", "import sys; print(sys.executable)"))
    assert r["stdout"] == "/opt/py/bin/python3\n", r
    r = run("--image", "py:1", *command("sh", "-c", "command -v python3"))
    assert r["stdout"] == "/opt/py/bin/python3\n", r


def test_an_images_env_holds_and_the_request_wins(run, api, command):
    image_of(api, "own:1", {"Env": ["PATH=/opt/own/bin:/usr/bin:/bin", "LANG=C", "A=image",
                                    "B=image", "odd.name=1", "PYTHONDONTWRITEBYTECODE=0"]},
             ["sh", "-c", "mkdir -p /opt/own/bin && "
              "printf '#!/bin/sh\\necho own\\n' > /opt/own/bin/mine && "
              "chmod +x /opt/own/bin/mine"])
    r = run("--image", "own:1", "--env", "B=request", "bash",
            "mine; echo $A $B $LANG $PATH; env | grep -c odd.name")
    assert r["stdout"] == "own\nimage request C /opt/own/bin:/usr/bin:/bin\n0\n", r
    r = run("--image", "own:1", "--env", "PATH=/usr/bin:/bin", "bash", "mine || echo none")
    assert r["stdout"] == "none\n", r
    r = run("--image", "own:1", "python", "import os; print(os.environ['PYTHONDONTWRITEBYTECODE'])")
    assert r["stdout"] == "1\n", r  # what a language needs
    assert run("--image", "own:1", *command("mine"))["stdout"] == "own\n"


def test_an_image_without_the_program_is_named(run, engine, command):
    r = run("--image", engine.small(), "python", "print(1)")
    assert r["error"]["code"] == "VIAL-INTERPRETER"
    assert r["error"]["remedy"] == (
        "image '%s' has no 'python3' along its PATH: name another with '--image', or build one "
        "that has it" % engine.small())
    r = run("--image", engine.small(), *command("nonesuch"))
    assert r["error"]["remedy"].startswith("image '%s' has no 'nonesuch'" % engine.small())


def test_an_images_workdir_is_where_a_bare_command_starts(run, api, place, command):
    image_of(api, "placed:1", {"WorkingDir": "/srv/app"}, ["mkdir", "-p", "/srv/app"])

    def where(*flags):
        return run("--image", "placed:1", *flags, *command("pwd"))["stdout"]
    assert where() == "/srv/app\n"
    assert where("--cwd", "/tmp") == "/tmp\n"
    assert where("--workspace", str(place), "--workspace-mode", "ro") == "/workspace\n"
    assert run("--image", "placed:1", "bash", "pwd")["stdout"] == "/work\n"
    image_of(api, "misplaced:1", {"WorkingDir": "/not/there"})
    r = run("--image", "misplaced:1", *command("pwd"))
    assert r["error"]["code"] == "VIAL-CWD"
    assert "WORKDIR of image 'misplaced:1'" in r["error"]["remedy"]


def test_an_images_user_holds_unless_it_is_root(run, api):
    """covers: NFR-020-25"""
    for user, want in [("4321", ["4321", "4321"]), ("4321:55", ["4321", "55"]), ("root", None),
                       ("0", None), ("7:0", None), ("sneaky", ["1000", "1000"])]:
        image_of(api, "user:1", {"User": user},
                 ["sh", "-c", "echo sneaky:x:0:0::/:/bin/sh >> /etc/passwd"])
        r = run("--image", "user:1", "bash", "id -u; id -g; touch /work/x /tmp/x && echo ok")
        *ids, ok = r["stdout"].split()
        assert ok == "ok" and (ids == want if want else all(map(is_own_user, ids))), (user, r)
    r = run("--image", "user:1", "--user", "77:88", "bash", "id -u; id -g")
    assert r["stdout"] == "77\n88\n"


def test_two_runs_with_the_same_labels_both_run(start, run):
    """covers: FR-020-32"""
    start("--session", "twin", "--task", "t", "bash", UP)
    r = run("--session", "twin", "--task", "t", "bash", "echo second")
    assert r["stdout"] == "second\n", r


def test_several_runs_at_once(run):
    """covers: FR-020-32 NFR-020-10"""
    results = []

    def work(i):
        results.append((i, run("bash", "sleep 0.2; echo %d" % i)["stdout"]))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [(i, "%d\n" % i) for i in range(4)]


# Limits.

def test_memory_is_a_hard_limit_and_the_result_says_so(run):
    """covers: FR-020-54 FR-020-62 FR-020-63 NFR-020-37"""
    r = run("--memory", "64m", "python", "b = bytearray(200 << 20)\nprint(len(b))")
    assert r["verdict"] == "oom" and r["limits_hit"] == ["memory"], r


def test_processes_are_limited(run):
    """covers: FR-020-56"""
    r = run("--pids", "20", "--timeout", "10s", "python",
            "import os, time\nn = 0\ntry:\n  while n < 100:\n    if os.fork() == 0:\n"
            "      time.sleep(20); os._exit(0)\n    n += 1\nexcept OSError: pass\nprint(n)")
    assert r["verdict"] == "ok" and int(r["stdout"]) < 20 and "pids" in r["limits_hit"], r


def test_the_work_directory_has_a_size(run):
    """covers: FR-020-58"""
    r = run("--disk", "1m", "bash", "head -c 2000000 /dev/zero > f; stat -c %s f")
    assert int(r["stdout"]) <= 1 << 20 and "disk" in r["limits_hit"], r


def test_cpu_time_and_throttling_are_told(run):
    """A fiftieth of a cpu, which a program that spins exceeds on a busy machine too.
    covers: FR-020-51 FR-020-64 FR-020-65"""
    r = run("--cpus", "0.02", "--timeout", "3s", "bash", "while :; do :; done")
    assert r["verdict"] == "timeout"
    used = r["usage"]["cpu_user_ms"] + r["usage"]["cpu_system_ms"]
    assert 0 < used < max(3000, r["timing"]["run_ms"]) / 10 + 600, r
    assert r["usage"]["throttled_ms"] > 0, r["usage"]
    assert r["usage"]["memory_peak_bytes"] > 0 and r["usage"]["pids_peak"] > 0


def test_open_files_are_limited(run):
    """covers: FR-020-59 FR-020-61"""
    r = run("--open-files", "64", "bash", "ulimit -n; ulimit -Hn")
    assert r["stdout"] == "64\n64\n"


def test_processes_are_limited_by_ulimit_where_that_is_asked_for(run):
    r = run("--nproc", "pids", "--pids", "70", "bash",
            "ulimit -u; ulimit -Hu; cat /sys/fs/cgroup/pids*/pids.max")
    limits = r["stdout"].split()
    assert len(limits) == 3 and set(limits) == {"70"}, r
    assert run("--pids", "70", "bash", "ulimit -u")["stdout"] != "70\n"


@pytest.mark.parametrize("place", ["bind", "copy", "exec"])
def test_the_cgroup_refuses_before_the_ulimit_does(run, place):
    """However the guest gets in: what the ulimit refuses, nobody would hear of."""
    r = run("--nproc", "pids", "--pids", "20", "python",
            "import os, time\nn = 0\ntry:\n  while n < 100:\n    if os.fork() == 0:\n"
            "      time.sleep(20); os._exit(0)\n    n += 1\nexcept OSError: pass\nprint(n)",
            VIAL_TEST_PLACE=place)
    assert 15 < int(r["stdout"]) < 20 and r["limits_hit"] == ["pids"], r


def test_a_program_with_a_ulimit_has_no_more_power_than_others(run):
    """Its user namespace gives it nothing: no capability, and no way to another one."""
    r = run("--nproc", "pids", "bash",
            "grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; id -u; id -g; "
            "unshare -U true || echo refused; echo '0 0 1' >/proc/self/uid_map || echo refused")
    lines = r["stdout"].split("\n")
    assert "NoNewPrivs:\t1" in lines and "Seccomp:\t2" in lines and "0" not in lines
    assert all(line.endswith("\t" + "0" * 16) for line in lines if line.startswith("Cap"))
    assert lines.count("refused") == 2, r


def test_a_time_out_kills_what_is_inside(run, api):
    """covers: FR-020-22 FR-020-25"""
    mark = "97%d" % os.getpid()
    r = run("--timeout", "500ms", "bash", "trap '' TERM; setsid sleep %s & sleep %s"
            % (mark, mark))
    assert r["verdict"] == "timeout"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                assert mark.encode() not in f.read()
        except OSError:
            pass
    assert gone(api)


# Mounts.

@pytest.fixture
def place(tmp_path):
    for parent in list(tmp_path.parents)[:2]:
        os.chmod(parent, os.stat(parent).st_mode | 0o055)
    (tmp_path / "in.txt").write_text("given")
    os.chown(tmp_path, 4242, 4242)
    os.chmod(tmp_path, 0o755)
    return tmp_path


def test_a_workspace_is_written_to_as_its_owner(vial, place):
    """covers: FR-020-37"""
    done = vial("exec", "--driver", "docker", "--workspace", str(place), "--", "sh", "-c",
                "pwd; cat in.txt; echo made > out.txt")
    assert done.stdout == "/workspace\ngiven", done.stderr
    assert (place / "out.txt").read_text() == "made\n"
    assert (place / "out.txt").stat().st_uid == 4242


def test_a_read_only_mount_is_read_only(run, place):
    """covers: FR-020-39"""
    r = run("--mount", "%s:/data" % place, "bash",
            "cat /data/in.txt; echo x > /data/y && echo written")
    assert r["stdout"] == "given" and not (place / "y").exists()


def test_a_mount_that_the_program_could_not_write_to_is_refused(run, place):
    """covers: FR-020-49"""
    os.chown(place, 0, 0)
    r = run("--mount", "%s:/data:rw" % place, "bash", "true")
    assert r["error"]["code"] == "VIAL-MOUNT" and "chown" in r["error"]["remedy"]


def test_a_mount_source_must_exist_and_be_allowed(run):
    """covers: FR-020-50 NFR-020-33"""
    for source in ["/nonexistent", "/etc", "/var/run", "/proc", "/"]:
        r = run("--mount", "%s:/data:rw" % source, "bash", "true")
        assert r["verdict"] == "denied", (source, r)


def test_no_way_of_writing_a_path_leads_out_of_what_is_allowed(run, place, vial):
    """covers: NFR-020-33"""
    (place / "etc").symlink_to("/etc")
    (place / "up").symlink_to("../../../../../../../../etc")
    (place / "far").symlink_to("etc")
    for source in ["etc", "up", "far", "etc/ssl", "../../../../../../etc", "./etc/."]:
        r = run("--mount", "%s/%s:/data" % (place, source), "bash", "ls /data")
        assert (r["verdict"], r["error"]["code"]) == ("denied", "VIAL-MOUNT"), (source, r)
        assert r["stdout"] == ""
    done = vial("exec", "--driver", "docker", "--workspace", str(place / "etc"), "--", "ls")
    assert done.returncode == 125 and "VIAL-MOUNT" in done.stderr


# Network.

PROBE = ("import socket\ntry:\n  s = socket.create_connection(('172.31.254.1', %d), 20)\n"
         "  s.sendall(b'GET /v2/ HTTP/1.0\\r\\n\\r\\n')\n  print(s.recv(12))\n"
         "except OSError as e: print('no', e.errno)\n" % PORT)


def test_there_is_no_network_unless_asked_for(run):
    """covers: FR-020-66 FR-020-72 NFR-020-30"""
    r = run("python", PROBE + "import os\nprint(os.listdir('/sys/class/net'))\n"
            "try: socket.getaddrinfo('example.com', 80); print('resolved')\n"
            "except OSError: print('blocked')")
    assert r["stdout"].startswith("no ") and r["stdout"].endswith("['lo']\nblocked\n"), r
    assert r["usage"]["net_rx_bytes"] == 0


def test_a_bridge_is_a_network_and_is_counted(run):
    """covers: FR-020-67 FR-020-68 FR-020-80"""
    r = run("--network", "bridge", "python", PROBE)
    assert r["stdout"] == "b'HTTP/1.0 200'\n", r
    assert r["usage"]["net_rx_bytes"] > 0 and r["usage"]["net_tx_bytes"] > 0


def test_a_policy_without_networks_wins(vial, tmp_path):
    """covers: FR-020-69 FR-020-70"""
    config = tmp_path / "vial.yaml"
    config.write_text("policy: { networks: [none] }\n")
    done = vial("--config", str(config), "run", "--driver", "docker", "--network", "bridge",
                "bash", "true")
    assert done.returncode == 125 and "VIAL-POLICY" in done.stderr


def test_under_such_a_policy_the_container_itself_has_no_network(api, start, tmp_path):
    """covers: FR-020-69 NFR-020-31"""
    config = tmp_path / "vial.yaml"
    config.write_text("policy: { networks: [none] }\n")
    start("--config", str(config), "--session", "apart", "bash", UP)
    full = api.inspect(one_of(api, "apart"))
    assert full["HostConfig"]["NetworkMode"] == "none"
    assert set(full["NetworkSettings"]["Networks"]) <= {"none"}
    assert not full["NetworkSettings"]["IPAddress"] and not full["HostConfig"]["PortBindings"]
    with open("/proc/%d/net/dev" % full["State"]["Pid"]) as f:
        assert [line.split(":")[0].strip() for line in f if ":" in line] == ["lo"]


# The log.

def test_the_log_has_the_container_and_how_it_ended(vial, api, tmp_path):
    """covers: NFR-020-35 NFR-020-48 NFR-020-49 NFR-020-58"""
    (tmp_path / "c.yaml").write_text("audit: {path: %s/log}\n" % tmp_path)
    done = vial("--config", str(tmp_path / "c.yaml"), "run", "--json", "--driver", "docker",
                "--session", "s 1", "bash", "exit 9")
    result = json.loads(done.stdout)
    begun, ended = [json.loads(line) for line in open(tmp_path / "log")]
    assert (begun["event"], ended["event"]) == ("begin", "run")
    assert (begun["driver"], begun["image"], begun["session"]) == \
        ("docker", "debian:12-slim", "s 1")
    assert ended["vessel_id"] == result["vessel_id"] and ended["exit_code"] == 9
    assert ended["isolation"]["level"] == "container"
    assert gone(api)


# Images.

def test_a_missing_image_is_told_and_can_be_pulled(engine, api, vial, run):
    """covers: FR-020-84 FR-020-87 FR-020-88 FR-020-90 FR-020-91 FR-020-92 FR-020-95
    covers: NFR-020-04 NFR-020-56"""
    engine.publish(engine.small(), "library/pulled:7")
    if engine.has("pulled:7"):  # of a run that was cut
        api.untag("pulled:7")
    r = run("--no-pull", "--image", "pulled:7", "bash", "true")
    assert r["error"]["code"] == "VIAL-IMAGE"
    assert r["error"]["remedy"] == "run 'vial image pull pulled:7'"
    done = vial("image", "pull", "--driver", "docker", "--json", "pulled:7")
    assert done.returncode == 0, done.stderr
    image = json.loads(done.stdout)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert any(e["status"].startswith("Pull") for e in events)
    assert image["size"] > 0 and "pulled:7" in image["tags"]
    assert run("--image", "pulled:7", "bash", "echo hi")["stdout"] == "hi\n"
    [pinned] = [d for d in image["digests"] if d.startswith("pulled@")]
    assert vial("image", "pull", "--driver", "docker", pinned).returncode == 0
    assert run("--image", pinned, "bash", "echo pinned")["stdout"] == "pinned\n"
    wrong = "pulled@sha256:" + "0" * 64
    assert "VIAL-PULL" in vial("image", "pull", "--driver", "docker", wrong).stderr
    api.untag("pulled:7")


def test_a_run_pulls_what_is_missing(engine, vial, run):
    """covers: FR-020-85 FR-020-87 FR-020-89"""
    engine.publish(engine.small(), "library/fresh:1")
    assert run("--no-pull", "--image", "fresh:1", "bash", "true")["error"]["code"] == \
        "VIAL-IMAGE"
    done = vial("run", "--driver", "docker", "--image", "fresh:1", "bash", "echo pulled")
    assert done.stdout == "pulled\n"
    assert "vial: Pull" in done.stderr
    engine.api.untag("fresh:1")
    r = run("--image", "no-such:1", "bash", "true")
    assert r["error"]["code"] == "VIAL-PULL" and r["error"]["remedy"]


def test_a_pull_that_cannot_reach_the_registry_is_an_error_and_can_be_repeated(engine, vial):
    """covers: FR-020-88 NFR-020-18"""
    engine.publish(engine.small(), "library/later:1")
    engine.stop_registry()
    try:
        done = vial("image", "pull", "--driver", "docker", "--timeout", "30s", "later:1")
        assert done.returncode == 125 and "VIAL-PULL" in done.stderr
    finally:
        engine.start_registry()
    assert wait_for(lambda: vial("image", "pull", "--driver", "docker", "later:1").returncode == 0)
    engine.api.untag("later:1")


def test_images_are_listed_with_sizes_and_pruned(api, vial):
    """covers: FR-020-93 FR-020-94 FR-020-95"""
    images = json.loads(vial("image", "list", "--driver", "docker", "--json").stdout)
    assert any("debian:12-slim" in (i["tags"] or []) and i["size"] > 10 ** 6 for i in images)
    made = api.call("POST", "/containers/create", {"Image": "debian:12-slim", "Cmd": ["x"]})
    nameless = api.call("POST", "/commit?container=%s&comment=old" % made["Id"], {})["Id"]
    api.call("DELETE", "/containers/" + made["Id"])
    done = vial("image", "prune", "--driver", "docker", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["removed"] >= 1, done.stderr
    left = {i["Id"]: i["RepoTags"] for i in api.call("GET", "/images/json?all=1")}
    assert nameless not in left
    assert any("debian:12-slim" in (tags or []) for tags in left.values())


def test_languages_have_their_images(vial):
    """covers: FR-020-81 FR-020-83"""
    plan = json.loads(vial("plan", "--json", "--driver", "docker", "node", "1").stdout)
    assert plan["image"] == "node:20-alpine"


# What is left behind.

def orphan(api, number):
    with open("/proc/self/ns/pid") as f:
        space = os.fstat(f.fileno()).st_ino
    made = api.call("POST", "/containers/create?name=vial-orphan-%d" % number, {
        "Image": "debian:12-slim", "Cmd": ["sleep", "60"],
        "Labels": {"vial.managed": "true",
                   "vial.owner": "vial-%d-%d-1-v-%d" % (space, os.getpid(), number)}})
    api.call("POST", "/containers/%s/start" % made["Id"])


def test_ten_orphans_go_and_the_living_stay(api, vial, start):
    """covers: FR-020-04 FR-020-06 FR-020-26 FR-020-27"""
    assert gone(api)
    start("--session", "alive", "bash", UP)
    for i in range(10):
        orphan(api, i)
    listed = json.loads(vial("ps", "--json").stdout)
    assert len([v for v in listed if v["driver"] == "docker" and v["orphan"]]) == 10
    assert json.loads(vial("cleanup", "--json").stdout) == {"removed": 10}
    assert [c["Labels"]["vial.session"] for c in api.ours()] == ["alive"]


def test_two_cleanups_do_not_fight(api, env):
    """covers: NFR-020-21"""
    for i in range(4):
        orphan(api, i)
    both = [subprocess.Popen([VIAL, "cleanup"], env=env, stdout=subprocess.DEVNULL)
            for _ in range(2)]
    assert [p.wait(PATIENCE) for p in both] == [0, 0]
    assert gone(api)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_caller_that_dies_leaves_nothing_running(api, start, how):
    """covers: NFR-020-19 NFR-020-24"""
    p = start("--session", "abandoned", "bash", UP)
    p.send_signal(how)
    p.wait(PATIENCE)
    assert gone(api)


# Trouble.

def test_a_container_killed_from_outside_is_a_failure(api, start):
    """covers: NFR-020-14 NFR-020-22"""
    p = start("--session", "shot", "bash", UP)
    api.call("POST", "/containers/%s/kill" % one_of(api, "shot")["Id"])
    _, err = p.communicate(timeout=PATIENCE)
    assert p.returncode == 125 and b"VIAL-LOST" in err
    assert gone(api)


def test_an_engine_that_restarts_ends_the_run_and_serves_the_next(engine, api, start, run):
    """covers: NFR-020-13"""
    p = start("bash", UP)
    engine.stop_registry()
    engine.stop_daemon()
    _, err = p.communicate(timeout=PATIENCE)
    assert p.returncode == 125 and b"VIAL-LOST" in err
    engine.start_daemon()
    engine.start_registry()
    assert run("bash", "echo again")["stdout"] == "again\n"
    assert gone(api)


def test_without_an_engine_the_error_says_what_to_do(run, engine):
    """covers: FR-020-05 NFR-020-59"""
    r = run("bash", "true", DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert r["error"]["code"] == "VIAL-ENGINE-DOWN"
    assert "--driver native" in r["error"]["remedy"]
    dead = os.path.join(engine.run, "dead.sock")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(dead)
        s.listen()
    r = run("bash", "true", DOCKER_HOST="unix://" + dead)
    assert r["error"]["code"] == "VIAL-ENGINE-DOWN"
    os.unlink(dead)


def test_an_engine_that_hangs_is_given_up(run, engine):
    """covers: FR-020-35 NFR-020-23"""
    path = os.path.join(engine.run, "deaf.sock")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()
        r = run("bash", "true", DOCKER_HOST="unix://" + path, DOCKER_CLIENT_TIMEOUT="1")
    os.unlink(path)
    assert r["error"]["code"] == "VIAL-ENGINE-TIMEOUT"


def test_a_user_without_rights_is_told(engine, tmp_path):
    """covers: FR-020-05"""
    if os.access(VIAL, os.X_OK) and subprocess.run(
            ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "test", "-x",
             VIAL]).returncode:
        pytest.skip("the command is out of an ordinary user's reach")
    done = subprocess.run(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", VIAL, "run",
         "--driver", "docker", "bash", "true"], capture_output=True, text=True, cwd="/",
        env={"PATH": os.environ["PATH"], "DOCKER_HOST": engine.address}, check=False)
    assert "VIAL-ENGINE-ACCESS" in done.stderr and "usermod -aG docker" in done.stderr


def test_the_doctor_reports_the_engine_and_auto_stays_native(vial):
    """covers: NFR-020-59"""
    report = json.loads(vial("doctor", "--json").stdout)
    docker = [d for d in report["drivers"] if d["name"] == "docker"][0]
    assert docker["usable"] and not docker["automatic"] and docker["level"] == "container"
    assert report["automatic"]["driver"] == "native"
