# SPDX-License-Identifier: Apache-2.0
"""Small things that the command says, and must not say."""


def test_only_what_runs_a_program_explains_its_exit_status(vial):
    assert "Exit status:" in vial("run", "--help").text
    assert "Exit status:" in vial("exec", "--help").text
    assert "Exit status:" not in vial("plan", "--help").text


def test_a_driver_for_tests_is_no_choice(vial):
    assert "auto|native|docker|process." in vial("run", "--help").text
    assert "fake" not in vial("run", "--help").text + vial("completion", "bash").text
    assert "fake" not in vial("schema", "request").text + vial("schema", "config").text
    done = vial("run", "--driver", "nope", "bash", "true")
    assert done.status == 125 and "fake" not in done.errors
    assert vial("run", "--driver", "", "bash", "true").status == 125


def test_a_file_that_was_not_made_is_a_warning(vial, tmp_path):
    done = vial("run", "--out", "nope.txt", "bash", "true", cwd=tmp_path)
    assert done.status == 0 and "vial: warning: " in done.errors
    assert "vial: error: " not in done.errors


def test_a_requirement_that_is_no_word_is_a_bad_value_with_a_suggestion(vial):
    done = vial("run", "--require", "secomp", "bash", "true")
    assert done.status == 125
    assert "[VIAL-VALUE]; did you mean 'seccomp'?" in done.errors


def test_a_default_above_a_cap_is_found_by_config_check(vial, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("defaults: {memory: 2g}\npolicy: {max_memory: 1g}\n")
    done = vial("config", "check", str(file))
    assert done.status == 125 and "the defaults do not fit the policy" in done.errors
    file.write_text("defaults: {memory: 1g}\npolicy: {max_memory: 1g}\n")
    assert vial("config", "check", str(file)).status == 0


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
    assert done.status == 125 and "unknown command 'sandbox'" in done.errors
