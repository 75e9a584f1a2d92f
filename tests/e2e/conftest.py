# SPDX-License-Identifier: Apache-2.0
"""Drives the real command. VIAL names it; VIAL_E2E_DRIVERS the drivers to try."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VIAL = os.path.abspath(os.environ.get("VIAL", ROOT / "build" / "vial"))
DRIVERS = os.environ.get("VIAL_E2E_DRIVERS", "native,process").split(",")

# A run that takes longer than this has hung; nothing is timed more tightly.
PATIENCE = 180


class Done:
    """How a command ended."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err

    @property
    def text(self):
        return self.out.decode()

    @property
    def errors(self):
        return self.err.decode()

    @property
    def json(self):
        return json.loads(self.out)


def environment(**more):
    """The caller's, without settings that would change what is tested."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("VIAL_")}
    env["HOME"] = "/nonexistent"
    env.update(more)
    return env


def call(*args, stdin=b"", cwd=None, env=None, patience=PATIENCE):
    done = subprocess.run([VIAL, *args], input=stdin, capture_output=True, cwd=cwd,
                          env=env or environment(), timeout=patience, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def start(*args, **kwargs):
    kwargs.setdefault("env", environment())
    return subprocess.Popen([VIAL, *args], **kwargs)


# A process begins with the peak memory of the one that started it, so a small
# one has to stand between us and what is measured.
MEASURE = """
import os, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as report:
    report.write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}")
"""


def start_measured(report, *args, **kwargs):
    """Starts vial; once it has ended, REPORT says "STATUS PEAK_KIB"."""
    return subprocess.Popen([sys.executable, "-ISc", MEASURE, str(report), VIAL, *args],
                            env=environment(), **kwargs)


def why_absent(name):
    """None when driver NAME works here, else the doctor's reason."""
    for driver in call("doctor", "--json").json["drivers"]:
        if driver["name"] == name:
            if driver["usable"]:
                return None
            error = driver.get("error") or {}
            return error.get("message", "not usable here")
    return f"no driver '{name}' in this build"


@pytest.fixture(scope="session", autouse=True)
def built():
    if not os.access(VIAL, os.X_OK):
        pytest.exit(f"{VIAL} does not exist; run 'make build'", 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.fixture(scope="session", params=DRIVERS)
def driver(request):
    reason = why_absent(request.param)
    if reason:
        pytest.skip(f"driver {request.param}: {reason}")
    return request.param


@pytest.fixture
def vial():
    """vial(*args, stdin=b"", cwd=None) -> Done, with the default driver."""
    return call


@pytest.fixture
def run(driver):
    """The same for `vial run --driver DRIVER …`."""

    def run_(*args, **kwargs):
        return call("run", "--driver", driver, *args, **kwargs)

    return run_


@pytest.fixture
def ask(driver):
    """A request as JSON through `vial run --json --request -`."""

    def ask_(request, *flags, text=None):
        body = text if text is not None else json.dumps({"driver": driver, **request})
        if isinstance(body, str):
            body = body.encode()
        return call("run", "--json", *flags, "--request", "-", stdin=body)

    return ask_


@pytest.fixture(scope="session")
def result_schema():
    return json.loads(call("schema", "result").out)


def pytest_report_header(config):
    return f"vial: {VIAL}, drivers: {', '.join(DRIVERS)}, python: {sys.executable}"
