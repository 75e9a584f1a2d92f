# SPDX-License-Identifier: Apache-2.0
"""Bodies that no client means: every wire refuses them in its own form, and goes on."""
import json

import pytest

DEEP = b'{"a":' * 500 + b"1" + b"}" * 500
HUGE = 1 << 20
WRONG = [None, True, 1e308, -1, "", "x" * HUGE, [], [[]], {}, {"a": {}}, [None], "\u0000", "\ud83d\ude00"]
BROKEN = [b"", b"{", b"[1,", b"\xff\xfe{}", b"null", b"[]", b'"text"', b"1", b'{"a":1,"a":2}', DEEP, b"{}{}",
          b'{"code":"\\ud800"}', b'{"x":1e999}', b"\x00" * 100]

RUN = {"args": ["/bin/true"], "env": [], "files": [{"content": ""}]}
# path, what would do, and whether an answer has the wire's form for a refusal
FACES = {
    "sandboxfusion": ("/run_code", {"code": "print(1)", "language": "python", "stdin": "", "compile_timeout": 1,
                                    "run_timeout": 1, "memory_limit_MB": 64, "files": {}, "fetch_files": []},
                      lambda a: isinstance(a["detail"], (list, str))),
    "jupyter": ("/run_jupyter", {"cells": ["1"], "cell_timeout": 1, "total_timeout": 5, "memory_limit_MB": -1,
                                 "kernel": "python3", "files": {}, "fetch_files": []},
                lambda a: isinstance(a["detail"], (list, str))),
    "submit": ("/submit", {"dataset": "x", "id": 1, "completion": "x",
                           "config": {"dataset_type": "CommonOJDataset", "language": "python",
                                      "provided_data": {"test": []}}},
               lambda a: isinstance(a["detail"], (list, str))),
    "piston": ("/api/v2/execute", {"language": "python", "version": "*", "files": [{"content": "print(1)"}],
                                   "stdin": "", "args": [], "run_timeout": 1000, "compile_timeout": 1000,
                                   "run_memory_limit": -1},
               lambda a: list(a) == ["message"] and isinstance(a["message"], str)),
    "judge0": ("/submissions?wait=true", {"source_code": "print(1)", "language_id": 71, "stdin": "",
                                          "expected_output": "1", "cpu_time_limit": 1, "number_of_runs": 1,
                                          "command_line_arguments": "", "compiler_options": "",
                                          "additional_files": "", "callback_url": ""},
               lambda a: isinstance(a, dict) and all(isinstance(v, (list, str)) for v in a.values())),
    "judge0_batch": ("/submissions/batch", {"submissions": []}, lambda a: isinstance(a, list) or list(a) == ["error"]),
    "gojudge": ("/run", {"cmd": [RUN], "pipeMapping": []}, lambda a: isinstance(a, str)),
}


def is_fit(status, answer, refusal):
    """An answer of the wire's: it ran, or was refused in the right form. Never a fault of ours."""
    return status in (200, 201) or (400 <= status < 500 and refusal(answer))


@pytest.mark.parametrize("face", FACES)
def test_what_is_no_request_is_refused_in_the_wires_form(daemon, face):
    path, _, refusal = FACES[face]
    for body in BROKEN:
        status, answer = daemon.call("POST", path, body)
        assert 400 <= status < 500 and refusal(answer), (body[:60], status, answer)
    assert daemon.call("GET", "/v1/ping")[0] == 200


@pytest.mark.parametrize("face", FACES)
def test_members_of_a_wrong_type_are_refused_in_the_wires_form(daemon, face):
    path, good, refusal = FACES[face]
    for name in good:
        for value in WRONG:
            status, answer = daemon.call("POST", path, {**good, name: value})
            assert is_fit(status, answer, refusal), (name, str(value)[:60], status, str(answer)[:300])
    assert daemon.call("GET", "/v1/ping")[0] == 200


@pytest.mark.parametrize("change", [
    {"args": [1]}, {"args": []}, {"env": [5]}, {"env": ["no equals"]}, {"files": [{}]}, {"files": [{"src": "/etc/shadow"}]},
    {"files": [{"content": 5}]}, {"files": [{"fileId": "none"}]}, {"cpuLimit": -1}, {"cpuLimit": 1e300},
    {"memoryLimit": "x"}, {"procLimit": 10 ** 12}, {"copyIn": {"../x": {"content": ""}}}, {"copyIn": {"x": 1}},
    {"copyIn": []}, {"copyOut": ["../../etc/passwd"]}, {"copyOut": {}}, {"copyOutMax": -5}, {"cpuSetLimit": "0"}])
def test_a_command_that_makes_no_sense(daemon, change):
    status, answer = daemon.call("POST", "/run", {"cmd": [{**RUN, **change}]})
    assert status == 400 and isinstance(answer, str) or (
        status == 200 and answer[0]["status"] in ("File Error", "Internal Error", "Accepted")), (status, answer)
    assert "root:" not in json.dumps(answer)


@pytest.mark.parametrize("pipe", [
    {}, 5, {"in": {"index": 0, "fd": 1}}, {"in": {"index": 9, "fd": 1}, "out": {"index": 0, "fd": 0}},
    {"in": {"index": -1, "fd": 1}, "out": {"index": 0, "fd": 0}},
    {"in": {"index": 0, "fd": 99999}, "out": {"index": 0, "fd": 0}}])
def test_a_pipe_from_nowhere_is_refused(daemon, pipe):
    status, answer = daemon.call("POST", "/run", {"cmd": [RUN], "pipeMapping": [pipe]})
    assert status == 400 and isinstance(answer, str)
