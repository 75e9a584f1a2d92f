# SPDX-License-Identifier: Apache-2.0
"""The same clients, in one vessel after the other: of an ordinary user, warm, in a session of the
keeper's, in a container."""

import os
import shutil
import subprocess
import sys

import pytest

import clients
from conftest import DRIVER, PATIENCE, ROOT, VIAL
from servers import wait_until

sys.path.insert(0, str(ROOT / "tests" / "serve"))

from daemon import Daemon  # noqa: E402

ALLOW = ["web.test", "pages.test:443",
         *(f"raw.test:{port}" for port in (clients.SSH, clients.HTTP2, clients.CHAT))]
EXPECTED = {
    "https": "cloned", "ssh": "cloned", "go": "hello from web.test", "java": "hello from web.test",
    "http2": "hello by 2.0", "websocket": "HTTP/1.1 101 Switching Protocols True one two",
    "curl": "hello from web.test", "pip": "from a package",
    "other": "6",  # curl's word for a name that is not known
    **({"node": "hello from web.test", "npm": "from npm"} if DRIVER == "native" else {}),
}
on_native = pytest.mark.skipif(DRIVER != "native", reason="it is native's")


@pytest.fixture(scope="module")
def script(world, index, registry, ssh_server, go_program, http2_server, chat_server):
    """Says of each client, a line each, what it got. A vessel that waits has no mounts: the program
    in Go comes through the gate, too."""
    shutil.copy(go_program, world.files / "fetch")
    put = {"ca.pem": world.ca, "chat.py": clients.chat("raw.test")}
    runs = {"https": clients.git_over_https(index), "ssh": clients.git_over_ssh(world),
            "go": "curl -sS --cacert ca.pem -o fetch https://pages.test/fetch && chmod +x fetch && "
                  "./fetch | tail -n 1", "java": clients.JAVA_RUN, "http2": clients.HTTP2_RUN,
            "websocket": "/usr/bin/python3 chat.py", "curl": clients.CURL_RUN, "pip": clients.pip(index),
            "other": "curl -s http://other.test/hello; echo $?"}
    if DRIVER == "native":  # a container finds neither's libraries
        runs |= {"node": clients.NODE_RUN, "npm": clients.NPM_RUN + " | tail -n 1"}
    text = "".join(f"cat > {name} <<'END'\n{text}END\n" for name, text in put.items())
    text += clients.key_of(ssh_server)
    for name, run in runs.items():
        text += f"by_{name}() {{\n{run}\n}}\n"
    return text + "".join(f"echo {name}: $(by_{name} 2>&1)\n" for name in runs)


@pytest.fixture
def daemon(world):
    started = []

    def start(**serve):
        started.append(Daemon(serve=serve, policy={
            "gate_resolvers": [world.names.address], "allow_private": ["127.77.0.0/16"],
            "allow": ALLOW}))
        return started[-1].start()

    yield start
    for d in started:
        d.close()


LIMITS = {"network": "gate", "allow": ALLOW, "memory": "2g", "pids": 64, "timeout": "280s"}


def check(said):
    assert dict(line.split(": ", 1) for line in said.splitlines()) == EXPECTED


def run(world, *args, script, **more):
    allow = [word for entry in ALLOW for word in ("--allow", entry)]
    r = world.run(*allow, "--memory", "2g", "--pids", "64", "--timeout", "280s", *args, "sh", script, **more)
    assert not r.error, r.error
    check(r.stdout)


@on_native
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_clients_of_an_ordinary_user(world, script):
    as_user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--"]
    if subprocess.run([*as_user, "test", "-x", VIAL], check=False).returncode:
        pytest.skip("an ordinary user cannot reach this build")
    run(world, script=script, prefix=as_user)


@on_native
def test_clients_in_a_warm_vessel(script, daemon):
    d = daemon(warm="auto")
    quick = {"language": "sh", "code": "true", **LIMITS}

    def warm():
        return d.ask("POST", "/v1/run", quick).json["start"] == "warm"

    for _ in range(5):  # on a busy machine none may wait just then
        wait_until(warm)
        r = d.ask("POST", "/v1/run", {**quick, "code": script}, connection=d.connect(PATIENCE)).json
        assert not r["error"], r
        check(r["stdout"])
        if r["start"] == "warm":
            break
    assert r["start"] == "warm"


@on_native
def test_clients_in_a_session_of_the_keepers(script, daemon):
    d = daemon()
    session = d.ask("POST", "/v1/sessions", LIMITS).json
    path = "/v1/sessions/" + session["id"]
    r = d.ask("POST", path + "/exec?wait=true", {"argv": ["sh", "-c", script]},
              connection=d.connect(PATIENCE)).json
    check(r["stdout"])


@pytest.fixture(scope="module")
def java(world):
    """One that needs no file outside its own directory; TLS wants jdk.crypto.ec."""
    where = world.where / "java"
    subprocess.run(["jlink", "--add-modules", "java.base,jdk.compiler,jdk.crypto.ec", "--output",
                    str(where)], check=True)
    return where


@pytest.mark.skipif(DRIVER != "docker", reason="the lane engine has one")
def test_clients_in_a_container(world, script, java):
    """With the programs of this host, of which the image has few."""
    paths = ("export PATH=/opt/java/bin:$PATH:/opt/usr/bin GIT_EXEC_PATH=/opt/usr/lib/git-core "
             "GIT_TEMPLATE_DIR=/opt/usr/share/git-core/templates "
             "LD_LIBRARY_PATH=/opt/usr/lib/x86_64-linux-gnu "
             "PYTHONPATH=/opt/usr/lib/python3/dist-packages\n")
    # ssh wants a user who has a name.
    run(world, "--user", "nobody", "--mount", "/usr:/opt/usr", "--mount", f"{java}:/opt/java", script=paths + script)
