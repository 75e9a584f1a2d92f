# SPDX-License-Identifier: Apache-2.0
"""vial inside containers: which rights give which level. Each row is a real container; what
`vial doctor` promises there is what a run gets."""
import json
import os
import shutil

import pytest
from conftest import PATIENCE, ROOT, VIAL

OPEN = {"SecurityOpt": ["seccomp=unconfined"]}
SHOWN = {"MaskedPaths": [], "ReadonlyPaths": []}  # what systempaths=unconfined asks for
LEAST = {"User": "1000:1000", "CapDrop": ["ALL"], **SHOWN}


def ours():
    """The profile that we ship."""
    return (ROOT / "contrib/container/seccomp.json").read_text()


# The rows of the table in docs/guide/operating.md, and what vial says of each.
ROWS = {
    "nothing said": ({}, "landlock", "user namespaces are refused"),
    "no filter": (OPEN, "landlock", "/proc cannot be mounted"),
    "a user, no filter": ({**OPEN, "User": "1000:1000"}, "landlock", "/proc cannot be mounted"),
    "all of /proc": (SHOWN, "landlock", "user namespaces are refused"),
    "SYS_ADMIN": ({"CapAdd": ["SYS_ADMIN"]}, "landlock", "/proc cannot be mounted"),
    "no SETPCAP": ({"CapDrop": ["SETPCAP"]}, "landlock", "user namespaces are refused"),
    "no SETPCAP, no filter": ({**OPEN, "CapDrop": ["SETPCAP"]}, "landlock",
                              "/proc cannot be mounted"),
    "root, no capability": ({**OPEN, **SHOWN, "CapDrop": ["ALL"]}, "landlock",
                            "ids of a user namespace cannot be mapped"),
    "root, SETFCAP": ({**OPEN, **SHOWN, "CapDrop": ["ALL"], "CapAdd": ["SETFCAP"]},
                      "namespaces", ""),
    "root, no filter, all of /proc": ({**OPEN, **SHOWN}, "namespaces", ""),
    "root, our filter": ({"SecurityOpt": ["seccomp=" + ours()], **SHOWN}, "namespaces", ""),
    "a user, no filter, all of /proc": (
        {**LEAST, "SecurityOpt": ["seccomp=unconfined", "no-new-privileges"]}, "namespaces", ""),
    "a user, our filter": ({**LEAST, "SecurityOpt": ["seccomp=" + ours(), "no-new-privileges"]},
                           "namespaces", ""),
}
BOTH = """cd /tmp
/vial/vial run --json python 'print(6)' && /vial/vial doctor --json"""


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """A copy of the build that every user can reach."""
    where = tmp_path_factory.mktemp("build")
    for part in ("vial", "vial-init", "runtimes", "presets", "seccomp"):
        source = os.path.join(os.path.dirname(VIAL), part)
        (shutil.copytree if os.path.isdir(source) else shutil.copy2)(source, where / part)
    for path in [where, *where.parents][:4]:
        if str(path).startswith("/tmp/"):
            path.chmod(0o755)
    return where


def documents(text):
    """One JSON document after the other."""
    found, text = [], text.strip()
    while text:
        document, end = json.JSONDecoder().raw_decode(text)
        found, text = found + [document], text[end:].strip()
    return found


@pytest.fixture
def inside(api, staged):
    """The documents that a script prints in a container with such rights."""
    def inside_(rights, script, env=()):
        rights = dict(rights)
        made = api.call("POST", "/containers/create", {
            "Image": "debian:12-slim", "Cmd": ["sh", "-c", "echo begin; " + script], "Tty": True,
            "User": rights.pop("User", ""), "Env": ["HOME=/tmp", "TERM=dumb", *env],
            "HostConfig": {"Binds": ["%s:/vial:ro" % staged], "NetworkMode": "none", **rights}})
        try:
            api.call("POST", "/containers/%s/start" % made["Id"])
            api.call("POST", "/containers/%s/wait" % made["Id"], timeout=PATIENCE)
            told = api.call("GET", "/containers/%s/logs?stdout=1&stderr=1" % made["Id"])
            return documents(told.partition("begin")[2])
        finally:
            api.call("DELETE", "/containers/%s?force=true&v=true" % made["Id"])
    return inside_


def native(doctor):
    return next(d for d in doctor["drivers"] if d["name"] == "native")


@pytest.mark.parametrize("row", ROWS)
def test_doctor_promises_what_a_run_gets(inside, row):
    rights, level, reason = ROWS[row]
    result, doctor = inside(rights, BOTH)
    doctor = native(doctor)
    assert (result["verdict"], result["stdout"]) == ("ok", "6\n"), result
    assert result["isolation"]["level"] == doctor["level"] == level
    there = {layer["name"] for layer in doctor["layers"] if layer["available"]} - {"limits"}
    assert set(result["isolation"]["layers"]) == there
    assert result["isolation"]["limits_by"] == doctor["limits_by"]
    user = next(layer for layer in doctor["layers"] if layer["name"] == "user")
    assert reason in user["reason"] and bool(user["fix"]) == (level == "landlock")
    assert all(layer["available"] or layer["reason"] for layer in doctor["layers"])


def fix_in(inside, rights, **more):
    doctor = native(inside(rights, "/vial/vial doctor --json", **more)[0])
    return next(layer for layer in doctor["layers"] if layer["name"] == "user")["fix"]


def test_the_fix_is_the_containers_or_the_pods_own(inside):
    docker = fix_in(inside, {})
    assert "--security-opt seccomp=contrib/container/seccomp.json" in docker
    assert "systempaths=unconfined" in docker
    assert "SETFCAP" in fix_in(inside, {**OPEN, **SHOWN, "CapDrop": ["ALL"]})
    pod = fix_in(inside, {}, env=["KUBERNETES_SERVICE_HOST=10.0.0.1"])
    assert "hostUsers: false" in pod and "procMount: Unmasked" in pod
    assert "localhostProfile: vial.json" in pod and "--security-opt" not in pod


def test_with_our_filter_and_no_capability_every_wall_holds(inside):
    [told] = inside(ROWS["a user, our filter"][0], "cd /tmp; /vial/vial verify --json")
    assert told["held"] and len(told["probes"]) > 10, told
