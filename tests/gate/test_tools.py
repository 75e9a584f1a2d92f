# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of a gate work by name with an allow list, and fail without."""

import os
import subprocess

import pytest

import clients
from conftest import VIAL, told


def shell(world, script, *args, **more):
    """SCRIPT with the servers' authority in ca.pem."""
    put = "cat > ca.pem <<'END'\n%sEND\n" % world.ca
    return world.run(*args, "--timeout", "100s", "--pids", "64", "sh", put + script, **more)


SCRIPTS = {
    "curl": clients.CURL_RUN,
    "node": clients.NODE_RUN,
    "python": "SSL_CERT_FILE=ca.pem /usr/bin/python3 -c '"
              "import urllib.request as u; print(u.urlopen(\"https://web.test/hello\").read().decode(), end=\"\")'",
}


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_program_works_by_name_and_fails_without(world, name):
    r = shell(world, SCRIPTS[name], "--allow", "web.test")
    assert (r.exit_code, r.stdout) == (0, "hello from web.test\n"), r.stderr
    assert told(r) == [("web.test", 443, "ok")]
    r = shell(world, SCRIPTS[name], "--allow", "other.test")
    assert r.exit_code != 0 and r.stdout == ""
    assert told(r) == [("web.test", 0, "denied")]


def test_pip_installs_from_an_index(world, index):
    script = clients.pip(index)
    r = shell(world, script, "--allow", "pages.test:443")
    assert (r.exit_code, r.stdout) == (0, "from a package\n"), r.stderr
    assert {c.verdict for c in r.network.connections} == {"ok"}
    r = shell(world, script, "--allow", "other.test")
    assert r.exit_code != 0
    assert told(r) == [("pages.test", 0, "denied")]


def test_git_clones_over_https(world, index):
    script = clients.git_over_https(index)
    r = shell(world, script, "--allow", "pages.test:443")
    assert (r.exit_code, r.stdout) == (0, "cloned\n"), r.stderr
    r = shell(world, script, "--allow", "other.test")
    assert r.exit_code != 0 and "Could not resolve host" in r.stderr


def test_npm_installs_from_a_registry(world, registry):
    script = clients.NPM_RUN
    r = shell(world, script, "--memory", "1g", "--allow", "pages.test:443")
    assert (r.exit_code, r.stdout.splitlines()[-1:]) == (0, ["from npm"]), r.stdout + r.stderr
    r = shell(world, script, "--memory", "1g", "--allow", "other.test")
    assert r.exit_code != 0 and "from npm" not in r.stdout
    assert {verdict for _, _, verdict in told(r)} == {"denied"}


def test_a_large_transfer_is_whole_both_ways(world):
    size = 64 << 20
    script = (f"curl -sS --cacert ca.pem https://web.test/size/{size} | wc -c\n"
              f"head -c {size} /dev/zero | curl -sS -X POST -H 'Expect:' -H 'Content-Length: {size}' "
              "-T - http://web.test/up\n")
    r = shell(world, script, "--allow", "web.test")
    assert r.stdout.splitlines() == [str(size), f"{size} bytes"], r.stderr
    assert r.network.bytes_in > size < r.network.bytes_out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_has_gates_too(world):
    as_user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--"]
    if subprocess.run([*as_user, "test", "-x", VIAL], check=False).returncode:
        pytest.skip("an ordinary user cannot reach this build")
    r = shell(world, SCRIPTS["curl"], "--allow", "web.test", prefix=as_user)
    assert (r.exit_code, r.stdout) == (0, "hello from web.test\n"), (r.stderr, r.error)
    assert told(r) == [("web.test", 443, "ok")]
