# SPDX-License-Identifier: Apache-2.0
"""Images in the daemon: its keeper finds them in the operator's store, which its front cannot
enter."""
import http.client
import importlib.util
import json
import os
import sys

import pytest
import worlds

os.environ.setdefault("VIAL_BUILD", os.path.dirname(worlds.VIAL))
sys.path.insert(0, str(worlds.ROOT / "tests" / "serve"))
from daemon import Daemon  # noqa: E402


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = worlds.World(tmp_path_factory.mktemp("daemon") / "home", 0)
    made.digest = made.debian()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def daemon(world):
    with Daemon(env={"VIAL_IMAGES": str(world.store)}) as d:
        yield d


def sh(daemon, script, **more):
    return daemon.ask("POST", "/v1/run", {"language": "sh", "code": script, "image": "debian",
                                          **more})


def test_a_run_of_the_daemon_has_the_image_as_its_root(daemon, world):
    r = sh(daemon, "cat /etc/marked; id -u").json
    assert r["stdout"] == "here\n1000\n", r
    assert r["image_digest"] == world.digest and r["image_owners"] == "image"


def test_root_inside_is_given_by_the_keeper_as_by_the_command(daemon):
    r = sh(daemon, "useradd joe && id -un joe", root_mode="rw", user="root").json
    assert r["stdout"] == "joe\n", r
    assert "caps" not in r["isolation"]["layers"]


def test_sudo_is_refused_where_the_daemon_itself_can_get_no_privileges(world):
    d = Daemon(env={"VIAL_IMAGES": str(world.store)})
    d.command = ["setpriv", "--no-new-privs", *d.command]
    with d:
        r = sh(d, "id", root_mode="rw", sudo="nopasswd").json
    assert r["error"]["message"] == ("sudo cannot work here: vial itself runs without new "
                                     "privileges"), r["error"]


def test_an_image_that_the_store_has_not_is_told(daemon):
    r = daemon.ask("POST", "/v1/run", {"language": "sh", "code": "id", "image": "nosuch",
                                       "pull": "never"}).json
    assert r["error"]["message"] == "there is no image 'nosuch' here", r["error"]


def test_a_session_of_the_daemon_keeps_what_root_changed(daemon):
    answer = daemon.ask("POST", "/v1/sessions", {"image": "debian", "root_mode": "rw",
                                                 "user": "root"})
    assert answer.status in (200, 201), answer.body
    at = "/v1/sessions/" + answer.json["id"]
    for line, out in (("echo x > /etc/kept", ""), ("cat /etc/kept", "x\n")):
        r = daemon.ask("POST", at + "/exec?wait=1", {"shell": line}).json
        assert r.get("stdout", "") == out, r
    daemon.ask("DELETE", at)


def test_the_keeper_holds_the_policy_against_what_the_front_asks(world):
    with Daemon(env={"VIAL_IMAGES": str(world.store)}, policy={"privileges": ["rw"]}) as d:
        r = sh(d, "id", root_mode="rw", user="root").json
        assert r["error"]["message"] == "privilege 'root' is not allowed by the policy", r


def speaking_e2b(**settings):
    """A daemon that E2B's clients speak to."""
    where = worlds.ROOT / "tests" / "e2b" / "conftest.py"
    spec = importlib.util.spec_from_file_location("e2b_conftest", where)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.E2b(**settings)


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_a_template_of_an_image_gives_sandboxes_with_a_home(world, mode):
    with speaking_e2b(env={"VIAL_IMAGES": str(world.store)}, defaults={"root_mode": mode},
                      serve={"e2b_templates": ["py=debian"]}) as d:
        def ask(method, path, body, **headers):
            c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=worlds.PATIENCE)
            c.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            r = c.getresponse()
            return r.status, r.read()

        status, made = ask("POST", "/sandboxes", json.dumps({"templateID": "py"}), X_API_Key=d.key)
        assert status == 201, made
        box = json.loads(made)
        headers = {"E2b_Sandbox_Id": box["sandboxID"], "E2b_Sandbox_Port": "49983",
                   "X_Access_Token": box["envdAccessToken"],
                   "Content_Type": "application/octet-stream"}
        assert ask("POST", "/files?path=kept", b"mine", **headers)[0] == 200
        assert ask("GET", "/files?path=/home/user/kept", None, **headers) == (200, b"mine")
        assert ask("GET", "/files?path=/etc/marked", None, **headers) == (200, b"here\n")
