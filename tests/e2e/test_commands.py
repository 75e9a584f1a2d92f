# SPDX-License-Identifier: Apache-2.0
"""The other commands, help, completion, and the README."""

import json
import os
import re
import shutil
import subprocess

import jsonschema
import pytest
from conftest import PATIENCE, ROOT, VIAL, call, environment

COMMANDS = re.findall(r"^COMMAND\((\w+)\)", (ROOT / "src/cli/commands.def").read_text(),
                      re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(vial, command):
    by_flag, by_word = vial(command, "--help"), vial("help", command)
    assert by_flag.status == 0 and by_flag.err == b""
    assert by_flag.out == by_word.out
    assert by_flag.text.startswith(f"vial {command}: ")


def test_every_field_is_a_flag_with_its_default_in_the_help(vial):
    text = vial("run", "--help").text
    for flag in ("--timeout", "--memory", "--network", "--in", "--out", "--driver"):
        assert flag in text
    assert "Default: 30s." in text and "One of none|bridge|gate." in text
    assert "Exit status:" in text


def test_the_list_of_commands_names_them_all(vial):
    done = vial("--help")
    assert done.status == 0
    for command in COMMANDS:
        assert f"\n  {command} " in done.text


def test_help_is_at_most_90_columns_wide(vial):
    for command in COMMANDS:
        assert max(map(len, vial(command, "--help").text.splitlines())) <= 90


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_valid(vial, shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    script = tmp_path / f"vial.{shell}"
    script.write_bytes(vial("completion", shell).out)
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def complete_in_bash(line):
    script = (f'source <("{VIAL}" completion bash); COMP_LINE="{line}"; '
              f'read -ra COMP_WORDS <<< "{line}"; '
              f'[[ "{line}" == *" " ]] && COMP_WORDS+=(""); '
              'COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); _vial; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", script], capture_output=True, cwd="/", check=True,
                          env=environment())
    return done.stdout.decode().split()


def test_bash_completes_commands_flags_and_choices():
    assert "run" in complete_in_bash("vial r")
    assert complete_in_bash("vial run --time") == ["--timeout"]
    assert complete_in_bash("vial run --network ") == ["none", "bridge", "gate"]
    assert complete_in_bash("vial config s") == ["show"]


def test_languages_are_completed(vial, tmp_path):
    """`vial run py<TAB>`: also behind flags, and not once there is one."""
    os.symlink(VIAL, tmp_path / "vial")
    assert complete_in_bash(f"{VIAL} run pyth")[:2] == ["python", "python3"]
    assert "ruby" in complete_in_bash(f"{VIAL} run --memory 256m ru")
    assert "python" not in complete_in_bash(f"{VIAL} run ruby py")
    names = vial("completion", "languages").text.split()
    assert {"python", "py", "bash", "node"} <= set(names)
    assert "completion languages" in vial("completion", "zsh").text
    if shutil.which("fish"):
        (tmp_path / "vial.fish").write_bytes(vial("completion", "fish").out)
        done = subprocess.run(["fish", "--no-config", "-c", f"source {tmp_path}/vial.fish; "
                               "complete -C 'vial run pyth'"], capture_output=True, text=True,
                              env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)})
        assert "python3" in done.stdout.split(), done.stdout + done.stderr


def test_a_shortened_flag_is_understood_as_what_it_begins(vial):
    for given, meant in (("--net", "--network"), ("--mem", "--memory"), ("--work", "--workdir")):
        done = vial("run", given, "x", "bash", "true")
        assert done.status == 125 and f"did you mean '{meant}'?" in done.errors, done.errors


def test_piped_code_is_run_without_a_dash(vial):
    assert vial("run", "python", stdin=b"print(6 * 7)").text == "42\n"
    assert vial("run", "python", "-", stdin=b"print(6 * 7)").text == "42\n"
    assert vial("run", "bash", "cat", stdin=b"for the program").text == "for the program"
    done = subprocess.run([VIAL, "run", "python"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, env=environment())
    assert done.returncode == 125 and "code is missing" in done.stderr
    assert "read from standard input where that is piped" in done.stderr


def test_a_file_is_judged_by_what_it_is_meant_as(vial, tmp_path):
    def kind(path):
        done = vial("config", "check", "--json", str(path))
        return done.json["kind"] if done.status == 0 else done.json["error"]["message"]
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    project = repository / "vial.yaml"
    project.write_text("defaults: {timeout: 5s}\n")
    assert kind(project) == "project"
    project.write_text("serve: {queue: 3}\n")
    assert kind(project) == "a project file may not set 'serve'"
    settings = tmp_path / "server.yaml"
    settings.write_text("serve: {queue: 3}\n")
    assert kind(settings) == "settings"
    for preset in sorted((ROOT / "presets").glob("*.yaml")):
        assert kind(preset) == "preset", preset
    bad = tmp_path / "mine.yaml"
    bad.write_text("preset: {no_such_key: 1}\n")
    assert "unknown key 'no_such_key'" in kind(bad)
    assert kind(ROOT / "runtimes/languages.yaml") == "languages"
    table = tmp_path / "languages.yaml"
    table.write_text("mine: {like: python, run: [python3, -I, '{file}']}\n")
    assert kind(table) == "languages"
    table.write_text("mine: {like: python, rum: [python3]}\n")
    assert "unknown key 'rum'" in kind(table)


def test_bash_completes_presets_and_what_follows_them():
    names = sorted(p.stem for p in (ROOT / "presets").glob("*.yaml"))
    assert complete_in_bash("vial run --preset ") == names
    assert complete_in_bash("vial --preset ") == names
    assert complete_in_bash("vial --preset klaw ver") == ["verify", "version"]
    assert complete_in_bash("vial --preset klaw config s") == ["show"]
    assert complete_in_bash("vial --preset klaw run --time") == ["--timeout"]


def test_zsh_can_load_its_completion(vial, tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("no zsh here")
    (tmp_path / "_vial").write_bytes(vial("completion", "zsh").out)
    script = f"fpath=({tmp_path} $fpath); autoload -U compinit; compinit -D; " \
             "autoload +X _vial; print ${+functions[_vial]}"
    done = subprocess.run(["zsh", "-fc", script], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"1\n", b"")


def test_the_man_pages_are_clean(vial, tmp_path):
    if not shutil.which("man"):
        pytest.skip("no man here")
    names = ["vial"] + ["vial-" + command for command in COMMANDS]
    for name in names:
        page = tmp_path / (name + ".1")
        page.write_bytes(vial("help", "--man", *name.split("-")[1:]).out)
        done = subprocess.run(["man", "--warnings", "-l", str(page)], capture_output=True,
                              env=environment(MANPAGER="cat", LC_ALL="C.UTF-8"), check=True)
        assert done.stderr == b"", name
        wanted = "--timeout" if name == "vial-run" else "vial-run(1)" if name == "vial" else name
        assert wanted.encode() in done.stdout, name


def test_the_version_is_printed_either_way(vial):
    assert vial("--version").out == vial("version").out
    assert vial("version").text.startswith("vial ")
    assert vial("version", "--json").json["version"]


@pytest.mark.parametrize("kind", ["request", "result", "settings"])
def test_the_schemas_are_schemas(vial, kind):
    schema = vial("schema", kind).json
    jsonschema.Draft202012Validator.check_schema(schema)


def test_an_unknown_schema_is_refused(vial):
    done = vial("schema", "reslt")
    assert done.status == 125 and "reslt" in done.errors


def test_every_error_code_has_a_meaning(vial):
    rows = vial("errors", "--json").json
    assert {"VIAL-CAP", "VIAL-LANGUAGE"} <= {row["code"] for row in rows}
    assert all(row["meaning"] for row in rows)
    assert len(vial("errors").text.splitlines()) == len(rows)


def test_one_code_can_be_looked_up(vial):
    want = "VIAL-CAP  A value exceeds what the policy allows; nothing is clipped.\n"
    assert vial("errors", "VIAL-CAP").text == vial("errors", "cap").text == want
    assert [row["code"] for row in vial("errors", "--json", "CAP").json] == ["VIAL-CAP"]
    done = vial("errors", "VIAL-CAPP")
    assert done.status == 125 and "did you mean 'VIAL-CAP'?" in done.errors


# covers: C-02
def test_languages_are_listed_with_their_version(vial):
    rows = {row["name"]: row for row in vial("languages", "--json").json}
    assert {"python", "bash", "sh", "node", "typescript", "perl", "ruby", "lua", "php", "c",
            "go", "rust", "java"} <= set(rows)
    assert rows["python"]["usable"] is True
    assert "Python 3" in rows["python"]["version"]
    table = vial("languages").text
    assert re.search(r"^python +yes +Python 3", table, re.M)


# covers: C-02
def test_a_users_language_file_adds_a_language(vial, tmp_path):
    (tmp_path / "l.json").write_text(json.dumps(
        {"upper": {"file": "main.sh", "run": ["sh", "{file}"]}}))
    (tmp_path / "vial.yaml").write_text(f"languages: {tmp_path}/l.json\n")
    done = vial("run", "--config", str(tmp_path / "vial.yaml"), "upper", "echo mine")
    assert done.out == b"mine\n"


def test_config_show_names_the_origin_of_each_value(vial, tmp_path):
    file = tmp_path / "vial.yaml"
    file.write_text("defaults:\n  timeout: 7s\n")
    done = call("config", "show", "--config", str(file),
                env=environment(VIAL_MEMORY="99m"))
    assert done.status == 0
    assert re.search(rf"^timeout +7\S* +{re.escape(str(file))}$", done.text, re.M)
    assert re.search(r"^memory +99m +environment$", done.text, re.M)
    assert re.search(r"^cpus +1 +built-in$", done.text, re.M)


def test_config_shows_the_daemons_settings_too(vial, tmp_path):
    file = tmp_path / "vial.yaml"
    file.write_text("serve: {concurrency: 3}\naudit: {path: /var/log/x/audit}\n"
                    "cleanup: {interval: 9m}\n")
    text = vial("config", "show", "--config", str(file)).text
    assert re.search(r"^serve\.concurrency +3 ", text, re.M)
    assert re.search(r"^audit\.path +/var/log/x/audit +%s$" % re.escape(str(file)), text, re.M)
    assert re.search(r"^cleanup\.interval +9m ", text, re.M)


def test_config_check_judges_a_file(vial, tmp_path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("defaults:\n  timeout: 7s\n")
    bad.write_text("defaults:\n  timeout: 7x\n")
    assert vial("config", "check", str(good)).status == 0
    done = vial("config", "check", str(bad))
    assert done.status == 125 and "timeout" in done.errors and str(bad) in done.errors
    assert vial("config", "check", str(tmp_path / "none.yaml")).status == 125


def test_config_wants_a_known_word(vial):
    assert vial("config", "shwo").status == 125


def test_doctor_names_each_layer_and_the_fix_for_what_is_missing(vial):
    report = vial("doctor", "--json").json
    names = {driver["name"] for driver in report["drivers"]}
    assert {"native", "process"} <= names
    for driver in report["drivers"]:
        for layer in driver["layers"]:
            assert layer["available"] or layer["reason"], layer
    assert "native" in vial("doctor").text


def test_a_plan_is_json_and_starts_nothing(vial):
    plan = vial("plan", "--timeout", "5", "--memory", "64m", "python", "print(1)").json
    assert plan["limits"]["wall_ms"] == 5000
    assert plan["limits"]["memory_bytes"] == 64 * 1024 * 1024
    assert plan["driver"] not in ("auto", "process")
    assert "print(1)" not in json.dumps(plan)


# covers: K-07
def test_no_flag_can_ask_for_privilege(vial):
    for flag in ("--privileged", "--pid", "--host-network", "--cap-add"):
        assert vial("run", flag, "sh", "true").status == 125
    assert vial("run", "--network", "host", "sh", "true").status == 125


def test_exec_puts_the_repository_at_workspace(vial, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "top").write_text("top\n")
    done = vial("exec", "--", "sh", "-c", "pwd; cat ../top; echo made > made",
                cwd=tmp_path / "sub")
    assert (done.status, done.err) == (0, b"")
    assert done.text == "/workspace/sub\ntop\n"
    assert (tmp_path / "sub" / "made").read_text() == "made\n"


def test_exec_gives_one_line_to_a_shell(vial, tmp_path):
    done = vial("exec", "echo one | cat; exit 5", cwd=tmp_path)
    assert (done.status, done.out) == (5, b"one\n")


def test_exec_passes_arguments_as_they_are(vial, tmp_path):
    done = vial("exec", "--timeout", "60", "printf", "%s|", "a b", "--timeout", "",
                cwd=tmp_path)
    assert done.out == b"a b|--timeout||"


def test_exec_of_a_missing_command_gives_127(vial, tmp_path):
    done = vial("exec", "--", "no-such-command", cwd=tmp_path)
    assert done.status == 127
    assert "no-such-command" in done.errors


PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md"))]
         if page.exists()]
EXAMPLES = [pytest.param(example, id=page.stem + "-" + re.sub(r"\W+", "-", example[2:30]))
            for page in PAGES for example in
            re.findall(r"<!-- tested -->\n```sh\n(.*?)```", page.read_text(), re.S)]


@pytest.mark.parametrize("example", EXAMPLES or [None])
def test_the_readme_and_the_guide_work_as_printed(example, tmp_path):
    """Lines '$ command' are run in one shell; what follows is their output."""
    assert example, "there is no tested example"
    expected, script = [], []
    for line in example.splitlines():
        if line.startswith("$ "):
            script.append(line[2:])
        elif line:
            expected.append(line)
    env = environment(PATH=f"{os.path.dirname(VIAL)}:{os.environ['PATH']}")
    done = subprocess.run(["bash", "-c", "\n".join(script)], capture_output=True,
                          cwd=tmp_path, env=env, timeout=PATIENCE, check=False)
    got = (done.stdout + done.stderr).decode().splitlines()
    assert [line for line in got if line] == expected


def test_every_link_of_the_readme_and_the_guide_leads_somewhere():
    pages = PAGES + [ROOT / "docs/README.md", ROOT / "docs/tools/README.md"]
    links = [(page, link) for page in pages
             for link in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text())]
    assert links
    assert [link for page, link in links if not (page.parent / link).exists()] == []


def test_the_index_of_the_guide_names_every_page():
    index = (ROOT / "docs/README.md").read_text()
    assert [p.name for p in PAGES[1:] if f"guide/{p.name}" not in index] == []


def test_the_readme_is_read_in_minutes():
    assert len(PAGES[0].read_text().splitlines()) <= 150
