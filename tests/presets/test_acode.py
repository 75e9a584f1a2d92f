# SPDX-License-Identifier: Apache-2.0
"""acode, Task 020: the Docker sandbox mode, as its user manual and acceptance criteria
have it. What its tables demand of containers in detail is tested in tests/docker."""
import json
import os
import subprocess

import pytest
from conftest import DOCKER, VIAL, environment, wait_for

CONFIG = """# .agent/config.yml
sandbox:
  enabled: true

  defaults:
    cpu_limit: 1
    memory_mb: 512
    network: false

  images:
    dotnet: mcr.microsoft.com/dotnet/sdk:8.0
    node: node:20-alpine
"""


@pytest.fixture
def repo(place):
    (place / ".git").mkdir()
    (place / ".agent").mkdir()
    (place / ".agent" / "config.yml").write_text(CONFIG)
    (place / "in.txt").write_text("given\n")
    if DOCKER:
        os.chown(place, 4242, 4242)
    return place


@pytest.fixture
def acode(vial, repo):
    def call(*args, **more):
        return vial("--preset", "acode", *args, cwd=str(repo), **more)
    return call


def test_a_command_runs_with_the_repository_mounted(acode, repo):
    """AC-001 AC-003 AC-006 AC-007; covers: FR-020-01 FR-020-02 FR-020-03 FR-020-36
    covers: FR-020-37"""
    done = acode("sandbox", "exec", "pwd; cat in.txt; echo made > out.txt; exit 7")
    assert (done.out, done.status) == ("/workspace\ngiven\n", 7)
    assert (repo / "out.txt").read_text() == "made\n"


def test_containers_are_listed_and_are_gone_after_use(acode, repo, containers):
    """AC-001 AC-002; covers: FR-020-28 FR-020-29 FR-020-30 FR-020-31"""
    p = subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec", "--session", "s1",
                          "--task", "t1", "echo up; sleep 60"], cwd=repo,
                         env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "up\n"
        listed = json.loads(acode("sandbox", "list", "--json").out)
        mine = [v for v in listed
                if v.get("owner") == p.pid or v.get("name") == "acode-s1-t1"]
        assert len(mine) == 1
        assert "SESSION" in acode("sandbox", "list").out
        for c in containers("acode-s1-t1"):
            labels = c["Config"]["Labels"]
            assert labels["acode.managed"] == "true"
            assert (labels["acode.session"], labels["acode.task"]) == ("s1", "t1")
    finally:
        p.terminate()
        p.communicate()
    assert wait_for(lambda: not containers("acode-s1-t1"))
    assert acode("sandbox", "cleanup").status == 0


def test_the_defaults_are_the_documents(acode):
    """AC-004 AC-005; covers: FR-020-51 FR-020-53 FR-020-56 FR-020-59 FR-020-60 FR-020-66"""
    plan = json.loads(acode("plan", "--driver", "docker", "python", "1").out)
    limits = plan["limits"]
    assert limits["milli_cpus"] == 1000 and limits["memory_bytes"] == 512 << 20
    assert limits["pids"] == 256 and limits["open_files"] == 1024
    assert plan["network"] == "none" and plan["container"]["prefix"] == "acode"
    assert plan["container"]["nproc"] == "pids"


def test_caches_are_named_with_the_documents_prefix(acode):
    """covers: FR-020-44 FR-020-45"""
    plan = json.loads(acode("plan", "--driver", "docker", "--caches", "nuget", "python",
                            "1").out)
    assert plan["container"]["caches"][0]["volume"] == "acode-cache-nuget"


def test_images_are_chosen_by_the_command(acode, repo):
    """covers: FR-020-81 FR-020-82 FR-020-83 FR-020-84"""
    def image(line, *flags):
        r = acode("sandbox", "exec", "--json", "--no-pull", "--driver", "docker", *flags, line,
                  DOCKER_HOST="unix:///nonexistent/sock")
        return json.loads(r.out)["image"]
    assert image("dotnet build") == "mcr.microsoft.com/dotnet/sdk:8.0"
    assert image("npm test now") == "node:20-alpine"
    mine = repo / "mine.yml"
    mine.write_text(CONFIG.replace("node:20-alpine", "node:22-alpine"))
    assert image("npm test now", "--config", str(mine)) == "node:22-alpine"


def test_the_configuration_of_a_repository_cannot_loosen(acode, repo):
    """covers: NFR-020-43 FR-020-84"""
    for old, new in [("memory_mb: 512", "memory_mb: 4096"), ("network: false", "network: true"),
                     ("node:20-alpine", "evil.example/data"), ("enabled: true", "enabled: false")]:
        (repo / ".agent" / "config.yml").write_text(CONFIG.replace(old, new))
        done = acode("sandbox", "exec", "echo never here")
        assert done.status == 125 and not done.out, (new, done.err)
    (repo / ".agent" / "config.yml").write_text(CONFIG.replace("512", "64"))
    assert "64m" in acode("config", "show").out


def test_limits_are_enforced_and_named_by_the_documents_codes(acode):
    """AC-004; covers: FR-020-54 FR-020-63 NFR-020-17"""
    done = acode("run", "--memory", "64m", "python", "b = bytearray(300 << 20)")
    assert done.status == 137 and "[ACODE-SBX-004]" in done.err
    result = acode("run", "--json", "--memory", "64m", "python", "b = bytearray(300 << 20)")
    assert (result.json["verdict"], result.json["preset_code"]) == ("oom", "ACODE-SBX-004")


def test_errors_have_the_documents_codes(acode):
    """covers: FR-020-49 FR-020-88"""
    def code(*args, **env):
        return acode("run", "--json", *args, "bash", "true", **env).json["preset_code"]
    absent = {"DOCKER_HOST": "unix:///nonexistent/sock"}
    assert code("--driver", "docker", **absent) == "ACODE-SBX-001"
    assert code("--mount", "/etc:/x") == "ACODE-SBX-003"
    assert code("--memory", "100g") == "ACODE-SBX-004"
    done = acode("run", "--mount", "/etc:/x", "bash", "true")
    assert "[ACODE-SBX-003, VIAL-MOUNT]" in done.err


def test_a_failed_pull_has_its_code(needs_engine, acode):
    """covers: FR-020-88"""
    r = acode("run", "--json", "--image", "no-such:1", "bash", "true").json
    assert r["error"]["code"] == "VIAL-PULL" and r["preset_code"] == "ACODE-SBX-002"


def test_without_docker_it_falls_back_with_a_warning(acode):
    """The first row of the document's failure modes."""
    done = acode("sandbox", "exec", "echo local ok", DOCKER_HOST="unix:///nonexistent/sock")
    assert done.out == "local ok\n" and "warning: no container engine" in done.err
    r = acode("sandbox", "exec", "--json", "echo local ok",
              DOCKER_HOST="unix:///nonexistent/sock").json
    assert (r["driver"], r["wanted_driver"]) == ("native", "docker")


def test_what_was_asked_for_is_never_replaced(acode):
    done = acode("sandbox", "exec", "--driver", "docker", "echo never here",
                 DOCKER_HOST="unix:///nonexistent/sock")
    assert done.status == 125 and not done.out


def test_a_cancelled_command_ends(repo, containers):
    """covers: FR-020-07 FR-020-08"""
    p = subprocess.Popen([VIAL, "--preset", "acode", "sandbox", "exec", "echo up; sleep 60"],
                         cwd=repo, env=environment(), stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "up\n"
    p.send_signal(2)
    assert p.wait(60) == 130
    p.stdout.close()
    assert wait_for(lambda: not containers("acode-"))


def test_the_tools_are_the_commands(mcp, repo):
    """covers: FR-020-04 FR-020-06"""
    client = mcp("acode", cwd=str(repo))
    assert list(client.tools()) == ["sandbox_exec", "sandbox_list", "sandbox_cleanup"]
    answer = client("sandbox_exec", command="cat in.txt; exit 3")
    assert answer.text == "given\n[exit code: 3]" and answer.json["exit_code"] == 3
    assert answer.json["container_id"].startswith("v-")
    assert isinstance(client("sandbox_list").json["sandboxes"], list)
    assert client("sandbox_cleanup").json["removed"] >= 0


# Sandbox Interface (FR-020-01 to FR-020-15)


# Container Lifecycle (FR-020-16 to FR-020-35)


# Mount Configuration (FR-020-36 to FR-020-50)


# Resource Limits (FR-020-51 to FR-020-65)


# Network Policy (FR-020-66 to FR-020-80)


# Image Management (FR-020-81 to FR-020-95)


# Output Capture (FR-020-96 to FR-020-105)


# Performance (NFR-020-01 to NFR-020-12)


# Reliability (NFR-020-13 to NFR-020-24)


# Security (NFR-020-25 to NFR-020-38)


# Maintainability (NFR-020-39 to NFR-020-48)


# Observability (NFR-020-49 to NFR-020-60)


# User Manual: configuration and commands


# Failure Modes and Error Codes
