# SPDX-License-Identifier: Apache-2.0
"""Bad input: exit 125, one line with object and remedy, `denied` in JSON, and
nothing started."""

import json
import os
import subprocess

import jsonschema
import pytest
from conftest import PATIENCE, VIAL, call, environment

# What is wrong, the flags and operands, the code, and what the line must name.
COMMAND_LINES = {
    "unknown language": (["pyhton", "1"], "VIAL-LANGUAGE", ["'pyhton'", "python"]),
    "unknown flag": (["--timout", "5", "python", "1"], "VIAL-FIELD",
                     ["'--timout'", "'--timeout'"]),
    "unknown preset": (["--preset", "klow", "python", "1"], "VIAL-PRESET", ["'klow'"]),
    "unknown driver": (["--driver", "dokcer", "python", "1"], "VIAL-VALUE", ["dokcer"]),
    "timeout 0": (["--timeout", "0", "python", "1"], "VIAL-VALUE", ["timeout"]),
    "timeout -1": (["--timeout", "-1", "python", "1"], "VIAL-VALUE", ["timeout", "-1"]),
    "timeout 1e99": (["--timeout", "1e99", "python", "1"], "VIAL-VALUE",
                     ["timeout", "1e99"]),
    "timeout 5x": (["--timeout", "5x", "python", "1"], "VIAL-VALUE", ["timeout", "5x"]),
    "timeout nan": (["--timeout", "nan", "python", "1"], "VIAL-VALUE", ["timeout"]),
    "timeout above the cap": (["--timeout", "2h", "python", "1"], "VIAL-CAP",
                              ["timeout", "max_timeout"]),
    "missing file": (["--in", "/nonexistent/data.csv", "python", "1"], "VIAL-FILE",
                     ["/nonexistent/data.csv"]),
    "code file that is a directory": (["python", "@/etc"], "VIAL-FILE", ["/etc"]),
    "missing code file": (["python", "@/nonexistent.py"], "VIAL-FILE",
                          ["/nonexistent.py"]),
    "missing mount": (["--mount", "/nonexistent:/data", "python", "1"], "VIAL-MOUNT",
                      ["/nonexistent"]),
    "mount without target": (["--mount", "/usr", "python", "1"], "VIAL-VALUE", ["mounts"]),
    "output outside": (["--out", "../x", "python", "1"], "VIAL-PATH", ["../x"]),
    "file target outside": (["--in", "/etc/hostname:../x", "python", "1"], "VIAL-PATH",
                            ["../x"]),
    "env without name": (["-e", "=x", "python", "1"], "VIAL-VALUE", ["env"]),
    "impossible requirement": (["--require", "unicorns", "python", "1"], None,
                               ["unicorns"]),
    "process driver below the required level": (
        ["--driver", "process", "--require", "namespaces", "python", "1"],
        "VIAL-ISOLATION", ["namespaces"]),
    "language without code": (["python"], "VIAL-USAGE", ["code"]),
    "nothing at all": ([], "VIAL-USAGE", ["language"]),
    "flag without value": (["--timeout"], "VIAL-USAGE", ["--timeout"]),
    "a socket without the daemon": (["--socket", "/nonexistent", "python", "1"],
                                    "VIAL-USAGE", ["--socket", "--daemon"]),
    "switch with a value": (["--quiet=1", "python", "1"], "VIAL-USAGE", ["--quiet"]),
}


# covers: C-03, C-04
@pytest.mark.parametrize("case", COMMAND_LINES)
def test_a_bad_command_line_is_refused_in_one_line(vial, case):
    args, code, names = COMMAND_LINES[case]
    done = vial("run", *args)
    assert done.status == 125
    assert done.out == b""
    assert done.errors.startswith("vial: error: ") and done.errors.count("\n") == 1
    assert code is None or f"[{code}]" in done.errors
    for name in names:
        assert name in done.errors


@pytest.mark.parametrize("case", COMMAND_LINES)
def test_a_bad_command_line_is_denied_in_json(vial, case, result_schema):
    args, code, _ = COMMAND_LINES[case]
    if args == ["--timeout"]:
        args = ["--json", "--timeout"]
    done = vial("run", "--json", *args)
    jsonschema.validate(done.json, result_schema)
    assert done.status == 125
    assert done.json["verdict"] == "denied"
    assert code is None or done.json["error"]["code"] == code
    assert done.json["error"]["remedy"], "no remedy"
    assert not done.json["vessel_id"]


DEEP = "[" * 10000 + "]" * 10000
REQUESTS = {
    "unknown field": ('{"language":"sh","code":"","timout":5}', "VIAL-FIELD", "timout"),
    "duplicate key": ('{"language":"sh","language":"sh","code":""}', "VIAL-JSON",
                      "language"),
    "depth 10,000": ('{"language":"sh","code":"","args":' + DEEP + "}", "VIAL-JSON", ""),
    "not JSON": ("{", "VIAL-JSON", ""),
    "empty": ("", "VIAL-JSON", ""),
    "an array": ("[]", None, ""),
    "text after the value": ('{"language":"sh","code":""} x', "VIAL-JSON", ""),
    "wrong type": ('{"language":"sh","code":"","timeout":[]}', "VIAL-VALUE", "timeout"),
    "boolean timeout": ('{"language":"sh","code":"","timeout":true}', "VIAL-VALUE",
                        "timeout"),
    "huge timeout": ('{"language":"sh","code":"","timeout":1e99}', None, "timeout"),
    "negative timeout": ('{"language":"sh","code":"","timeout":-1}', "VIAL-VALUE",
                         "timeout"),
    "NUL in argv": ('{"command":["sh","a\\u0000b"]}', "VIAL-VALUE", "command"),
    "NUL in args": ('{"language":"sh","code":"","args":["a\\u0000b"]}', "VIAL-VALUE",
                    "args"),
    "NUL in env": ('{"language":"sh","code":"","env":{"A":"a\\u0000b"}}', "VIAL-VALUE",
                   "env"),
    "NUL in an env name": ('{"language":"sh","code":"","env":{"A\\u0000":"b"}}', None, ""),
    "equals in an env name": ('{"language":"sh","code":"","env":{"A=B":"b"}}',
                              "VIAL-VALUE", "env"),
    "code and command": ('{"language":"sh","code":"","command":["sh"]}', None, "command"),
    "neither": ("{}", None, ""),
    "empty command": ('{"command":[]}', None, ""),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_bad_request_is_denied(ask, case, result_schema):
    text, code, name = REQUESTS[case]
    done = ask(None, text=text)
    jsonschema.validate(done.json, result_schema)
    assert done.status == 125
    assert done.json["verdict"] == "denied"
    assert code is None or done.json["error"]["code"] == code
    assert name in done.json["error"]["message"]


# covers: C-04
def test_code_over_the_cap_is_refused_not_cut(vial, tmp_path):
    big = tmp_path / "big.sh"
    big.write_bytes(b"#" * (16 * 1024 * 1024 + 1))
    done = vial("run", "--json", "sh", f"@{big}")
    assert (done.status, done.json["verdict"]) == (125, "denied")
    assert done.json["error"]["code"] == "VIAL-CAP"


def test_an_unreadable_file_is_named(vial, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    done = vial("run", "--in", str(secret), "sh", "true")
    assert done.status == 125
    assert str(secret) in done.errors


def test_a_missing_interpreter_is_named_with_its_language(vial, tmp_path):
    (tmp_path / "languages.yaml").write_text(
        "nonsense:\n  file: main.x\n  run: [no-such-interpreter, '{file}']\n")
    settings = tmp_path / "vial.yaml"
    settings.write_text(f"languages: {tmp_path / 'languages.yaml'}\n")
    done = vial("run", "--json", "--config", str(settings), "nonsense", "1")
    assert done.status == 125
    assert done.json["error"]["code"] == "VIAL-INTERPRETER", done.json["error"]
    assert "no-such-interpreter" in done.json["error"]["message"]


def test_an_unknown_command_is_refused_with_a_suggestion(vial):
    done = vial("rnu", "python", "1")
    assert done.status == 125
    assert "'rnu'" in done.errors and "'run'" in done.errors


def test_vial_alone_explains_itself(vial):
    done = vial()
    assert done.status == 125
    assert "Usage: vial" in done.errors


# covers: C-04
def test_a_settings_file_with_an_unknown_key_is_refused(vial, tmp_path):
    bad = tmp_path / "vial.yaml"
    bad.write_text("defaults:\n  timout: 5\n")
    done = vial("run", "--config", str(bad), "sh", "true")
    assert done.status == 125
    assert "timout" in done.errors and "'timeout'" in done.errors


def test_a_project_file_may_not_choose_the_driver(vial, tmp_path):
    (tmp_path / "vial.yaml").write_text("defaults:\n  driver: process\n")
    done = vial("run", "sh", "true", cwd=tmp_path)
    assert done.status == 125
    assert "VIAL-TRUST" in done.errors and "driver" in done.errors


# covers: C-04
def test_a_policy_cap_refuses_and_names_where_to_raise_it(vial, tmp_path):
    capped = tmp_path / "vial.yaml"
    capped.write_text("policy:\n  max_timeout: 5s\n")
    done = vial("run", "--json", "--config", str(capped), "--timeout", "6", "sh", "true")
    assert done.json["error"]["code"] == "VIAL-CAP"
    assert "max_timeout" in json.dumps(done.json["error"])


def test_a_bad_variable_is_refused_by_name():
    done = call("run", "sh", "true", env=environment(VIAL_TIMEOUT="soon"))
    assert done.status == 125
    assert "VIAL_TIMEOUT" in done.errors


def test_input_that_cannot_be_read_is_not_taken_for_its_end():
    fd = os.open("/", os.O_RDONLY)
    try:
        done = subprocess.run([VIAL, "run", "--json", "sh", "cat; echo after"], stdin=fd,
                              capture_output=True, env=environment(), timeout=PATIENCE,
                              check=False)
    finally:
        os.close(fd)
    result = json.loads(done.stdout)
    assert (done.returncode, result["verdict"]) == (125, "failed")
    assert result["error"]["code"] == "VIAL-FILE"
    assert "standard input" in result["error"]["message"]


def test_a_descriptor_that_can_only_be_written_is_no_input():
    """As nohup leaves it."""
    with open("/dev/null", "wb") as unreadable:
        done = subprocess.run([VIAL, "run", "sh", "cat; echo after"], stdin=unreadable,
                              capture_output=True, env=environment(), timeout=PATIENCE,
                              check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"after\n", b"")


@pytest.mark.parametrize("flag", ["--output", "--plot"])
def test_a_bench_that_cannot_be_written_is_refused_before_it_begins(vial, flag, tmp_path):
    done = vial("bench", "--rounds", "10000", flag, str(tmp_path))
    assert done.status == 125
    assert str(tmp_path) in done.errors and "VIAL-FILE" in done.errors


def test_a_bench_that_is_refused_leaves_files_as_they_were(vial, tmp_path):
    old = tmp_path / "old.json"
    old.write_text("figures")
    done = vial("bench", "--output", str(old), "--plot", str(tmp_path))
    assert done.status == 125
    assert [p.name for p in tmp_path.iterdir()] == ["old.json"]
    assert old.read_text() == "figures"
