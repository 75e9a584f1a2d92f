# SPDX-License-Identifier: Apache-2.0
"""The image with the daemon, made of our packages, on a real engine: what it can do with
which rights, as docs/guide/operating.md tells."""
import json
import os
import subprocess
import sys

import pytest
from test_packages import PLACE, ROOT, SUITES, Packages

sys.path.insert(0, os.path.join(ROOT, "tests/docker"))
import engine as engine_module  # noqa: E402

with open(os.path.join(ROOT, "contrib/container/seccomp.json"), encoding="utf-8") as _file:
    OURS = "seccomp=" + _file.read()
NONE = "seccomp=unconfined"
ALL_OF_PROC = {"MaskedPaths": [], "ReadonlyPaths": []}
LEAST = {"CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges", OURS], **ALL_OF_PROC}
# The user, what the engine is told, and the level. An engine that has not every capability
# itself can start no privileged container, so that row is not tried.
RIGHTS = {
    "none said": ("0", {}, "landlock"),
    "no filter": ("0", {"SecurityOpt": [NONE]}, "landlock"),
    "SYS_ADMIN": ("0", {"CapAdd": ["SYS_ADMIN"]}, "landlock"),
    "all of /proc": ("0", ALL_OF_PROC, "landlock"),
    "root without capabilities": (
        "0", {"CapDrop": ["ALL"], "SecurityOpt": [OURS], **ALL_OF_PROC}, "landlock"),
    "with SETFCAP": ("0", {"CapDrop": ["ALL"], "CapAdd": ["SETFCAP"], "SecurityOpt": [OURS],
                           **ALL_OF_PROC}, "namespaces"),
    "root": ("0", {"SecurityOpt": [OURS], **ALL_OF_PROC}, "namespaces"),
    "the least": ("1000", LEAST, "namespaces"),
}

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="roots need root"),
              pytest.mark.skipif("bookworm" not in SUITES, reason="the image is of Debian 12")]


@pytest.fixture(scope="module")
def api():
    """An engine that has the image."""
    archive = os.path.join(PLACE, "vial-image.tar")
    subprocess.run([os.path.join(ROOT, "images/build"), "vial"], check=True, timeout=1800,
                   env={**os.environ, "DEBS": Packages("bookworm").where, "ARCHIVE": archive})
    engine = engine_module.Engine(os.path.join(os.path.dirname(PLACE), "docker"))
    engine.start()
    with open(archive, "rb") as file:
        engine.api.call("POST", "/images/load?quiet=1", file,
                        {"Content-Type": "application/x-tar"}, timeout=300)
    yield engine.api
    engine.api.untag("vial:latest")
    engine.stop()


@pytest.fixture
def start(api):
    made = []

    def start_(user, rights, **more):
        made.append(api.call("POST", "/containers/create", {
            "Image": "vial", "User": user, "HostConfig": {**rights, **more.pop("host", {})},
            **more})["Id"])
        api.call("POST", "/containers/%s/start" % made[-1])
        return made[-1]

    yield start_
    for one in made:
        api.call("DELETE", "/containers/%s?force=1&v=1" % one)


def said(api, container):
    connection = engine_module.Connection(api.path, 60)
    connection.request("GET", "/containers/%s/logs?stdout=1" % container)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


@pytest.mark.parametrize("rights", RIGHTS)
def test_a_containers_rights_give_the_level_that_the_guide_tells(api, start, rights):
    user, host, level = RIGHTS[rights]
    one = start(user, host, Tty=True, Entrypoint=["vial", "run", "--json", "python", "print(6 * 7)"])
    api.call("POST", "/containers/%s/wait" % one)
    result = json.loads(said(api, one))
    assert (result["verdict"], result["stdout"]) == ("ok", "42\n"), result
    assert result["isolation"]["level"] == level, result


def test_the_daemon_serves_with_the_least_rights(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    os.chown(tmp_path, 1000, 1000)
    start("", LEAST, host={"Binds": ["%s:/run/vial" % tmp_path]})
    path = str(tmp_path / "vial.sock")
    assert engine_module.wait_for(lambda: os.path.exists(path))
    connection = engine_module.Connection(path, 60)
    connection.request("POST", "/v1/run", json.dumps({"language": "python", "code": "print(6 * 7)"}),
                       {"Content-Type": "application/json"})
    result = json.loads(connection.getresponse().read())
    connection.close()
    assert (result["stdout"], result["isolation"]["level"]) == ("42\n", "namespaces"), result
