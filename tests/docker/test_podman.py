# SPDX-License-Identifier: Apache-2.0
"""The same driver on Podman's socket."""
import json
import os
import signal

import podman as podman_module
import pytest
from conftest import BUILD, PATIENCE
from engine import is_own_user, wait_for
from podman import IMAGE

ANY_FILES = "100000000"  # Podman cannot limit their number


@pytest.fixture(scope="module")
def podman():
    reason = podman_module.missing()
    if reason:
        pytest.skip(reason)
    p = podman_module.Podman(os.path.join(BUILD, "podman"))
    try:
        reason = p.start()
        if reason:
            pytest.skip(reason)
        yield p
    finally:
        p.stop()


@pytest.fixture
def env(podman):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("VIAL_")}
    return {**kept, "HOME": "/nonexistent", "DOCKER_HOST": podman.address,
            "VIAL_INODES": ANY_FILES, "VIAL_IMAGE": IMAGE}


def gone(podman):
    return wait_for(lambda: not podman.api.ours())


@pytest.mark.parametrize("place", ["bind", "copy", "exec"])
def test_a_program_runs_whichever_way_the_guest_got_in(run, podman, place):
    r = run("--stdin", "word", "bash", "cat; echo err >&2; exit 3", VIAL_TEST_PLACE=place)
    assert (r["verdict"], r["exit_code"], r["stdout"], r["stderr"]) == \
        ("nonzero", 3, "word", "err\n"), r
    assert r["isolation"]["limits_by"].startswith("cgroup")
    assert gone(podman)


def test_a_container_has_what_was_promised(start, podman):
    start("--session", "pm01", "bash", "echo up; sleep 60")
    found = [c for c in podman.api.ours() if c["Labels"]["vial.session"] == "pm01"][0]
    full = podman.api.inspect(found)
    host, config = full["HostConfig"], full["Config"]
    assert full["Name"] == "/vial-pm01" and is_own_user(config["User"].split(":")[0])
    assert host["ReadonlyRootfs"] and not host["Privileged"] and not host["CapAdd"]
    assert host["Memory"] == 512 << 20 and host["PidsLimit"] == 129
    assert host["NetworkMode"] == "none" and not host["Devices"] and not host["PortBindings"]


def test_a_deadline_ends_it(run, podman):
    r = run("--timeout", "4s", "bash", "echo begun; sleep 60")
    assert (r["verdict"], r["stdout"]) == ("timeout", "begun\n"), r
    assert gone(podman)


def test_memory_beyond_the_limit_is_oom(run):
    r = run("--memory", "48m", "bash", "x=x; while :; do x=$x$x; done")
    assert (r["verdict"], r["limits_hit"]) == ("oom", ["memory"]), r


def test_processes_beyond_the_limit_are_refused(run):
    r = run("--pids", "8", "bash", "for i in {1..20}; do sleep 5 & done; wait")
    assert r["limits_hit"] == ["pids"], r


def test_files_go_in_and_come_out(run, tmp_path):
    (tmp_path / "in.txt").write_text("given")
    r = run("--in", str(tmp_path / "in.txt"), "--out", "out.txt:%s/out.txt" % tmp_path, "bash",
            "cat in.txt in.txt > out.txt")
    assert r["verdict"] == "ok", r
    assert (tmp_path / "out.txt").read_text() == "givengiven"


def test_a_number_of_files_that_cannot_be_limited_is_refused(run):
    r = run("--inodes", "100", "bash", "true")
    assert (r["verdict"], r["error"]["code"]) == ("denied", "VIAL-LIMITS")
    assert "--inodes " + ANY_FILES in r["error"]["remedy"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_caller_that_dies_leaves_nothing(podman, start, how):
    p = start("--session", "abandoned", "bash", "echo up; sleep 60")
    p.send_signal(how)
    p.wait(PATIENCE)
    assert gone(podman)


def test_orphans_go_and_the_living_stay(podman, vial, start):
    with open("/proc/self/ns/pid") as f:
        space = os.fstat(f.fileno()).st_ino
    start("--session", "alive", "bash", "echo up; sleep 60")
    for i in range(3):
        podman.api.call("POST", "/containers/create?name=orphan-%d" % i, {
            "Image": IMAGE, "Entrypoint": ["/bin/sleep"], "Cmd": ["60"], "Labels": {
                "vial.managed": "true",
                "vial.owner": "vial-%d-%d-1-v-%d" % (space, os.getpid(), i)}})
    assert json.loads(vial("cleanup", "--json").stdout) == {"removed": 3}
    assert [c["Labels"]["vial.session"] for c in podman.api.ours()] == ["alive"]
