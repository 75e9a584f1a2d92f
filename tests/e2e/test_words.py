# SPDX-License-Identifier: Apache-2.0
"""Small things that the command says, and must not say."""

import pytest
from conftest import environment


def test_only_what_runs_a_program_explains_its_exit_status(vial):
    assert "Exit status:" in vial("run", "--help").text
    assert "Exit status:" in vial("exec", "--help").text
    assert "Exit status:" not in vial("plan", "--help").text


def test_a_driver_for_tests_is_no_choice(vial):
    assert "auto|native|docker|kubernetes|e2b|process." in vial("run", "--help").text
    assert "fake" not in vial("run", "--help").text + vial("completion", "bash").text
    assert "fake" not in vial("schema", "request").text + vial("schema", "settings").text
    done = vial("run", "--driver", "nope", "bash", "true")
    assert done.status == 125 and "fake" not in done.errors
    assert vial("run", "--driver", "", "bash", "true").status == 125


def test_the_variables_that_the_guide_names_are_known(vial):
    env = environment(VIAL_KUBERNETES_CONTEXT="c", VIAL_KUBERNETES_NAMESPACE="n", VIAL_KUBERNETES_POD="p",
                      VIAL_VOLUME_STORE="/nowhere", E2B_API_KEY="e2b_0", E2B_API_URL="http://127.0.0.1:1")
    assert vial("run", "bash", "echo ran", env=env).text == "ran\n"
    assert vial("ps", env=env).status == 0  # who is not usual is not asked
    done = vial("run", "bash", "echo ran", env=environment(VIAL_KUBERNETES_CONTEXTS="c"))
    assert done.status == 125 and "VIAL_KUBERNETES_CONTEXTS" in done.errors


@pytest.mark.parametrize("driver, limit", [("kubernetes", "inodes"), ("e2b", "disk"), ("e2b", "tmp")])
def test_a_limit_that_a_driver_does_not_hold_is_refused(vial, driver, limit):
    args = ["plan", "--driver", driver, "bash", "true"]
    if driver == "kubernetes":
        args[1:1] = ["--image", "x"]
    assert vial(*args).status == 0
    done = vial(*args[:-2], "--" + limit, "100000", *args[-2:])
    assert done.status == 125 and "does not hold '%s'" % limit in done.errors


def test_a_file_that_was_not_made_is_a_warning(vial, tmp_path):
    done = vial("run", "--out", "nope.txt", "bash", "true", cwd=tmp_path)
    assert done.status == 0 and "vial: warning: " in done.errors
    assert "vial: error: " not in done.errors


def test_a_requirement_that_is_no_word_is_a_bad_value_with_a_suggestion(vial):
    done = vial("run", "--require", "secomp", "bash", "true")
    assert done.status == 125
    assert "[VIAL-VALUE]; did you mean 'seccomp'?" in done.errors


def test_a_default_above_a_cap_is_lowered_and_shown_so(vial, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("defaults: {memory: 2g}\npolicy: {max_memory: 1g}\n")
    assert vial("config", "check", str(file)).status == 0
    shown = vial("config", "show", "--config", str(file)).text
    line = [row for row in shown.splitlines() if row.startswith("memory ")]
    assert len(line) == 1 and "1g" in line[0] and "lowered to the policy's cap" in line[0]


def test_a_default_that_the_policy_forbids_is_found_by_config_check(vial, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("defaults: {network: bridge}\npolicy: {networks: [none]}\n")
    done = vial("config", "check", str(file))
    assert done.status == 125 and "the defaults do not fit the policy" in done.errors


def test_a_language_of_another_version_is_not_passed_off(vial):
    rows = {row["name"]: row for row in vial("languages", "--json").json}
    node = rows["nodejs18"]
    if node["usable"]:
        assert node["version"].startswith("v18.")
    elif node["version"]:
        done = vial("run", "nodejs18", "console.log(1)")
        assert done.status == 127 and node["version"] in done.errors and not done.text


def test_a_presets_words_are_commands_only_under_it(vial):
    done = vial("--preset", "acode", "sandbox", "cleanup")
    assert done.status == 0
    assert "sandbox exec" in vial("--preset", "acode", "--help").text
    done = vial("sandbox", "cleanup")
    assert done.status == 125 and "unknown command 'sandbox'" in done.errors
    done = vial("--preset", "acode", "sandbox", "format-disk")
    assert done.status == 125 and "unknown command 'sandbox format-disk'" in done.errors


def test_a_file_that_is_taken_for_code_is_a_warning(vial, tmp_path):
    (tmp_path / "main.py").write_text("print('file')")
    done = vial("run", "python", "main.py", cwd=tmp_path)
    assert done.status == 1
    assert done.errors.startswith("vial: warning: 'main.py' is taken for code, not for the "
                                  "file of that name; write '@main.py' to run the file\n")
    assert vial("run", "python", "@main.py", cwd=tmp_path).text == "file\n"
    assert "warning" not in vial("run", "-q", "python", "main.py", cwd=tmp_path).errors
    for words in (["main.py"], ["main.py", "1"], ["./main.py"]):
        done = vial("run", *words, cwd=tmp_path)
        assert (done.status, done.text) == (125, "")
        assert "'%s' is a file, where a language belongs [VIAL-USAGE]; vial run LANG @%s" % (
            words[0], words[0]) in done.errors
    assert "unknown language 'other.py'" in vial("run", "other.py", "1", cwd=tmp_path).errors
    (tmp_path / "true").write_text("")
    assert vial("run", "bash", "true", cwd=tmp_path).errors == ""


def test_several_words_can_be_required_at_once(vial):
    done = vial("run", "--json", "--require", "no_new_privs,seccomp", "bash", "true")
    assert done.json["verdict"] == "ok"
    assert {"no_new_privs", "seccomp"} <= set(done.json["isolation"]["layers"])
    plan = vial("plan", "--require", "seccomp,no_new_privs", "--require", "pid", "--end-on",
                "pids,disk", "bash", "true").json
    assert plan["require"] == ["seccomp", "no_new_privs", "pid"]
    assert plan["end_on"] == ["pids", "disk"]
    done = vial("run", "--require", "seccomp,unicorns", "bash", "true")
    assert done.status == 125 and "require 'unicorns'" in done.errors
    assert vial("run", "--require", "seccomp,", "bash", "true").status == 125
    # What only a request has is taken as it is.
    assert vial("run", "bash", "echo $1", "a,b").text == "a,b\n"


@pytest.mark.parametrize("args,said,remedy", [
    (["image", "pull"], "the image's name is missing", "usage: vial image pull NAME"),
    (["image", "pull", "--timeout", "soon", "x"], "timeout 'soon' is not a duration",
     "give seconds, or a number with a unit"),
    (["bench", "--rounds", "0"], "rounds '0' is not a number from 1 to", "try --rounds"),
    (["bench", "--seconds", "-1"], "seconds '-1' is not a number from 0 to", "try --seconds"),
    (["audit", "verify", "/nope"], "there is no audit log '/nope'", "name the one"),
    (["audit", "show", "/nope"], "there is no audit log '/nope'", "name the one"),
    (["exec", ""], "command names no program", "begin it with a program's name"),
    (["run", "--seccomp", "../x", "bash", "true"], "seccomp '../x' is not a profile's name",
     "'default' is one"),
    (["--config", "/nope", "run", "bash", "true"], "settings file '/nope' does not exist",
     "without --config the usual files are read"),
    (["--config", "/tmp", "run", "bash", "true"], "read '/tmp': Is a directory",
     "'vial schema settings' has the form"),
    (["--config", "/dev/zero", "run", "bash", "true"], "more than", "'vial schema settings'"),
])
def test_a_refusal_says_what_to_do_instead(vial, args, said, remedy):
    done = vial(*args)
    assert done.status == 125 and done.errors.count("\n") == 1
    assert said in done.errors and remedy in done.errors.split("]; ")[1]


@pytest.mark.parametrize("text", [b"\0\0", b"\xff: 1\n", b"a: [", b"- 1\n", b"just words"])
def test_settings_that_are_none_say_where_the_form_is(vial, tmp_path, text):
    (tmp_path / "c.yaml").write_bytes(text)
    done = vial("--config", str(tmp_path / "c.yaml"), "run", "bash", "true")
    assert done.status == 125 and "c.yaml" in done.errors
    assert done.errors.endswith("'vial schema settings' has the form\n")
