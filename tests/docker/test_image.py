# SPDX-License-Identifier: Apache-2.0
"""What an image says of itself that would reach beyond its container, and what the kernel
counts by user over all containers."""
import json
import os

import pytest
from test_docker import gone, image_of, one_of
from engine import is_own_user, wait_for

TAKE_ALL = """import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
taken = 0
while taken < 1000 and libc.inotify_init1(0) >= 0:
    taken += 1
print('up', flush=True)
time.sleep(60)"""
TAKE_ONE = "import ctypes; print(ctypes.CDLL(None).inotify_init1(0) >= 0)"


def test_one_container_does_not_take_the_inotify_instances_of_another(run, start):
    start("--open-files", "1024", "python", TAKE_ALL)
    assert run("python", TAKE_ONE)["stdout"] == "True\n"


def test_containers_have_users_of_their_own_unless_somebody_names_one(run, api):
    ids = "id -u; id -g; touch /work/x /tmp/x && echo ok"
    seen = [run("bash", ids)["stdout"].split() for _ in range(2)]
    assert all(u == g and is_own_user(u) and ok == "ok" for u, g, ok in seen)
    assert seen[0] != seen[1]
    # A name may be that of the usual user; a cache is used by the next container, too.
    image_of(api, "named:1", {"User": "somebody"})
    assert run("--image", "named:1", "bash", ids)["stdout"] == "1000\n1000\nok\n"
    assert run("--cache", "pip", "bash", ids)["stdout"] == "1000\n1000\nok\n"
    assert run("--user", "77:88", "bash", ids)["stdout"] == "77\n88\nok\n"


def volumes(api):
    return [v["Name"] for v in api.call("GET", "/volumes")["Volumes"] or []]


def test_an_image_gets_no_volume_on_the_engines_disk(run, start, api):
    image_of(api, "bound:1", {"Volumes": {"/data": {}, "/tmp": {}, "/work": {}, "/srv/a/": {},
                                          "/srv": {}}},
             ["sh", "-c", "mkdir -m 777 /data && head -c 100000 /dev/zero > /data/big"])
    before = volumes(api)
    start("--session", "bound", "--image", "bound:1", "bash", "echo up; sleep 60")
    mounts = api.inspect(one_of(api, "bound"))["Mounts"]
    assert [m for m in mounts if m["Type"] == "volume" and
            m["Destination"] not in ("/tmp", "/work")] == []
    r = run("--image", "bound:1", "--disk", "1m", "bash",
            "for d in /data /srv /srv/a /tmp /work; do stat -f -c %T $d; done; "
            "touch /data/x /srv/x /srv/a/x && echo written; ls -A /data; "
            "head -c 2m /dev/zero > /work/x || echo full; touch /tmp/x && echo ok")
    assert r["stdout"].split() == ["tmpfs"] * 5 + ["full", "ok"], r
    api.call("DELETE", "/containers/" + one_of(api, "bound")["Id"] + "?force=true&v=true")
    assert gone(api) and wait_for(lambda: volumes(api) == before)


@pytest.mark.parametrize("paths,what", [
    (["/"], "a VOLUME that is not a clean absolute path"),
    (["/a/../etc"], "a VOLUME that is not a clean absolute path"),
    (["/proc/self"], "a VOLUME below /proc, /sys or /dev"),
    (["/dev/shm"], "a VOLUME below /proc, /sys or /dev"),
    (["/v%d" % i for i in range(65)], "more VOLUMEs than vial takes: 64")])
def test_volumes_beyond_the_bounds_are_refused_by_name(run, api, paths, what):
    image_of(api, "beyond:2", {"Volumes": {path: {} for path in paths}})
    r = run("--image", "beyond:2", "bash", "echo never")
    assert r["error"]["code"] == "VIAL-IMAGE-CONFIG" and not r["stdout"], r
    assert r["error"]["message"] == "image 'beyond:2' has " + what


def test_an_images_labels_do_not_pose_as_ours(start, vial, api):
    image_of(api, "posing:1", {"Labels": {
        "vial.session": "theirs", "vial.task": "theirs", "vial.odd": "theirs",
        "acode.managed": "true", "acode.session": "theirs", "org.plain": "kept"}})
    start("--image", "posing:1", "bash", "echo up; sleep 60")
    [found] = api.ours()
    posed = {k: v for k, v in found["Labels"].items() if v == "theirs" or k == "acode.managed"}
    assert set(posed.values()) <= {""} and found["Labels"]["org.plain"] == "kept"
    [listed] = [v for v in json.loads(vial("ps", "--json").stdout) if v["driver"] == "docker"]
    assert listed["session"] is None and listed["task"] is None


def test_an_entrypoint_runs_where_it_is_asked_for(vial, api, tmp_path):
    os.chown(tmp_path, 1000, 1000)  # its programs are who the workspace belongs to
    image_of(api, "entry:1", {"Entrypoint": ["echo", "entered"], "Cmd": ["by", "itself"]})
    for words, out in (([], "entered by itself"), (["mine"], "entered mine"),
                       (["--entrypoint", "none", "--", "echo", "mine"], "mine")):
        done = vial("exec", "--driver", "docker", "--workspace", str(tmp_path), "--image", "entry:1",
                    *words)
        assert done.stdout == out + "\n", done.stderr


def test_no_program_but_the_one_asked_for_runs(start, api):
    """ENTRYPOINT, CMD, HEALTHCHECK, STOPSIGNAL, ONBUILD and SHELL are the image's words."""
    image_of(api, "busy:1", {
        "Entrypoint": ["/bin/sh", "-c", "touch /tmp/entry; sleep 99"], "Cmd": ["x"],
        "Healthcheck": {"Test": ["CMD-SHELL", "touch /tmp/health; sleep 99"],
                        "Interval": 10 ** 9},
        "Shell": ["/bin/evil"], "OnBuild": ["RUN /evil"], "StopSignal": "SIGCONT",
        "ExposedPorts": {"80/tcp": {}}})
    start("--session", "busy", "--image", "busy:1", "bash", "echo up; sleep 60")
    full = api.inspect(one_of(api, "busy"))
    assert full["Config"]["Healthcheck"]["Test"] == ["NONE"] and "Health" not in full["State"]
    assert not full["HostConfig"]["PortBindings"] and not full["HostConfig"]["PublishAllPorts"]
    top = api.call("GET", "/containers/%s/top" % full["Id"])["Processes"]
    assert [row[-1].split()[0].split("/")[-1] for row in top][0] == ".vial-init"
    assert not [row for row in top if "sleep 99" in row[-1]]
