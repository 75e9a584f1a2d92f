# SPDX-License-Identifier: Apache-2.0
"""What is nobody's program's fault, in each wire's own words: no turn in time, a request that is
refused, a fault of vial's own, a client that has gone."""
import contextlib
import http.client
import json
import os

import pytest

from wire import TOKEN, Wired, wait_until

SLOW = "echo on; exec sleep 600"
CODE = {"run_code": {"code": "print(1)", "language": "python"},
        "submit": {"dataset": "mine", "id": 1, "completion": "```python\nprint(1)\n```", "config": {
            "dataset_type": "CommonOJDataset", "language": "python",
            "provided_data": {"test": [{"input": {"stdin": ""}, "output": {"stdout": "1"}}]}}},
        "run_jupyter": {"cells": ["1"]},
        "execute": {"language": "python", "version": "*", "files": [{"content": "print(1)"}]},
        "submissions": {"source_code": "print(1)", "language_id": 71},
        "run": {"cmd": [{"args": ["true"], "env": ["PATH=/usr/bin:/bin"]}]}}


def working(daemon):
    return daemon.call("GET", "/workers")[1][0]["working"]


@contextlib.contextmanager
def started(daemon, path, body):
    """A request that goes on until its client hangs up."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=120)
    connection.request("POST", path, json.dumps(body), {"Authorization": "Bearer " + TOKEN})
    assert wait_until(lambda: working(daemon) == 1)
    yield
    connection.close()
    assert wait_until(lambda: working(daemon) == 0)


@pytest.fixture(scope="module")
def full():
    """A daemon whose only turn another program has."""
    with Wired(serve={"concurrency": 1, "queue_timeout": "300ms", "warm": ["none"]}) as d:
        with started(d, "/v1/run", {"language": "bash", "code": SLOW, "timeout": "10m"}):
            yield d


@pytest.mark.parametrize("path,status", [
    ("/run_code", 504), ("/submit", 504), ("/run_jupyter", 504), ("/api/v2/execute", 503),
    ("/submissions?wait=true", 503), ("/run", 503)])
def test_what_has_no_turn_in_time_is_told_so_that_it_is_tried_again(full, path, status):
    name = path.partition("?")[0].rpartition("/")[2]
    got, body, headers = full.answer("POST", path, CODE[name])
    assert got == status, body
    if status == 503:
        assert int(headers["Retry-After"]) >= 1
    if path == "/run":
        assert body == "it waited too long for its turn"
    elif name == "submissions":
        assert body == {"error": "queue is full"}
    else:
        assert list(body) == ["message" if name == "execute" else "detail"]


def test_a_submission_that_nobody_waits_for_ends_as_an_internal_error(full):
    token = full.call("POST", "/submissions", CODE["submissions"])[1]["token"]

    def look():
        return full.call("GET", "/submissions/%s?fields=status_id,message" % token)[1]
    assert wait_until(lambda: look()["status_id"] > 2)
    assert look() == {"status_id": 13, "message": "it waited too long for its turn"}


def test_a_grader_hears_504_while_it_still_listens():
    """verl gives up 10 s after what it gives compiler and program, however long a turn may be
    waited for by the settings; and it tries again what it was told of."""
    with Wired(serve={"concurrency": 1, "queue_timeout": "10m", "warm": ["none"]}) as d:
        with started(d, "/v1/run", {"language": "bash", "code": SLOW, "timeout": "10m"}):
            connection = http.client.HTTPConnection("127.0.0.1", d.port, timeout=120)
            body = dict(CODE["run_code"], compile_timeout=1, run_timeout=1)
            connection.request("POST", "/run_code", json.dumps(body), {"Authorization": "Bearer " + TOKEN})
            answer = connection.getresponse()
            assert (answer.status, list(json.load(answer))) == (504, ["detail"])


@pytest.fixture(scope="module")
def alone():
    """A daemon that nobody else asks. Its number of turns is named: what lasts keeps its own."""
    with Wired(serve={"concurrency": 2}) as d:
        yield d


@pytest.mark.parametrize("path", ["/run_code", "/api/v2/execute", "/run"])
def test_a_client_that_hangs_up_ends_its_program(alone, path):
    """Verdict cancelled, which nobody hears. A submission goes on: its token may be asked for."""
    name = path.rpartition("/")[2]
    slow = {"run_code": dict(CODE["run_code"], code=SLOW, language="bash", run_timeout=600),
            "execute": dict(CODE["execute"], language="bash", files=[{"content": SLOW}], run_timeout=600000),
            "run": {"cmd": [{"args": ["sleep", "600"], "env": ["PATH=/usr/bin:/bin"],
                             "clockLimit": 600 * 10 ** 9}]}}[name]
    with started(alone, path, slow):
        pass


def refused(daemon, name, **fields):
    """What of a request that the policy does not allow."""
    path = {"execute": "/api/v2/execute"}.get(name, "/" + name)
    return daemon.call("POST", path, dict(CODE[name], **fields))


def test_a_request_that_the_policy_refuses_is_the_clients_fault(strict):
    """Verdict denied."""
    status, answer = refused(strict, "run_code", memory_limit_MB=1 << 19)
    assert status == 422 and "exceeds" in answer["detail"][0]["msg"]
    status, answer = refused(strict, "execute", run_memory_limit=1 << 39)
    assert status == 400 and list(answer) == ["message"]
    status, answer = refused(strict, "submissions", wall_time_limit=40)
    assert (status, answer) == (422, {"wall_time_limit": ["must be less than or equal to 20.0"]})
    command = dict(CODE["run"]["cmd"][0], memoryLimit=1 << 39)
    status, answer = refused(strict, "run", cmd=[command])
    assert status == 400 and "exceeds" in answer


@pytest.fixture(scope="module")
def broken():
    """A daemon whose settings have a compiler that makes nothing, and says that it is well."""
    d = Wired(serve={"warm": ["none"]})
    path = os.path.join(d.dir, "languages.yaml")
    with open(path, "w", encoding="ascii") as file:
        json.dump({"bash": {"file": "main.bash", "compile": ["true"], "run": ["{dir}/nothing"],
                            "version": ["bash", "--version"]}}, file)
    d.settings["languages"] = path
    with d:
        yield d


def test_a_fault_of_vials_own_is_never_the_programs(broken):
    """Verdict failed."""
    command = {"args": ["/nothing/here"], "env": ["PATH=/usr/bin:/bin"]}
    status, answer = broken.call("POST", "/run_code", dict(CODE["run_code"], language="bash"))
    assert (status, answer["status"]) == (200, "SandboxError") and "nothing" in answer["message"], answer
    status, answer = broken.call("POST", "/run", {"cmd": [command]})
    assert (status, answer[0]["status"]) == (200, "Internal Error") and answer[0]["error"]
    status, answer = broken.call("POST", "/api/v2/execute", dict(CODE["execute"], language="bash"))
    assert status == 500 and "nothing" in answer["message"], answer
    status, answer = broken.call("POST", "/submissions?wait=true&fields=status_id,message,exit_code",
                                 dict(CODE["submissions"], language_id=46))
    assert (status, answer["status_id"], answer["exit_code"]) == (201, 13, None)
    assert "nothing" in answer["message"]
