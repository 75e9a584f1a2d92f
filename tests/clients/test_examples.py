# SPDX-License-Identifier: Apache-2.0
"""The examples do what they say."""
import os
import re
import subprocess

from conftest import ROOT, TOKEN
from daemon import clean_env

EXAMPLES = os.path.join(ROOT, "clients/python/examples")


def example(daemon, *argv):
    return subprocess.run(["/usr/bin/python3", "-B", *argv], capture_output=True, text=True, timeout=120,
                          cwd="/", env=clean_env(PYTHONPATH=os.path.join(ROOT, "clients/python"),
                                                 VIAL_URL="unix:" + daemon.socket))


def readme(client, language):
    """The program that its README begins with."""
    with open(os.path.join(ROOT, "clients", client, "README.md"), encoding="utf-8") as file:
        return re.search(r"```%s\n(.*?)```" % language, file.read(), re.S)[1]


def test_the_wheel_is_installed_by_pip_and_does_what_its_readme_says(made, tmp_path, daemon):
    subprocess.run(["/usr/bin/python3", "-m", "pip", "install", "-q", "--no-index", "--target", str(tmp_path),
                    str(next(made.glob("*.whl")))], check=True, timeout=120, env=clean_env(HOME=str(tmp_path)))
    done = subprocess.run(["/usr/bin/python3", "-c", readme("python", "python")], cwd=tmp_path,
                          capture_output=True, text=True, timeout=120,
                          env=clean_env(VIAL_URL="unix:" + daemon.socket))
    assert done.stdout == "ok 42\n\n", done.stderr


def test_the_archive_is_installed_by_npm_and_does_what_its_readme_says(made, tmp_path, daemon):
    (tmp_path / "package.json").write_text('{"type": "module"}')
    subprocess.run(["npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error",
                    str(next(made.glob("*.tgz")))], cwd=tmp_path, check=True, timeout=300,
                   env=clean_env(HOME=str(tmp_path)))
    text = readme("typescript", "ts").replace("http://127.0.0.1:8123", daemon.url)
    (tmp_path / "main.js").write_text(text)
    done = subprocess.run(["node", "main.js"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          env=clean_env(VIAL_TOKEN=TOKEN))
    assert done.stdout == "ok 42\n\n", done.stderr


def test_a_reward_is_the_share_of_tests_that_pass(daemon):
    done = example(daemon, os.path.join(EXAMPLES, "reward.py"))
    assert done.stdout == "[1.0, 0.5, 0.0]\n", done.stderr


def test_what_vial_cannot_tell_is_no_reward(daemon):
    done = example(daemon, "-c", "import sys; sys.path.insert(0, %r)\nimport reward, vial\n"
                   "print(reward.reward(vial.Client(), 'x', [('1', '1')], 'klingon'))" % EXAMPLES)
    assert done.stdout == "None\n", done.stderr


def test_a_notebook_remembers_and_shows_errors(daemon):
    done = example(daemon, os.path.join(EXAMPLES, "notebook.py"))
    lines = done.stdout.splitlines()
    assert "NameError" in done.stdout and lines[-1] == "notebook> 42", done.stdout + done.stderr


def test_a_pytest_fixture_gives_each_test_a_sandbox(daemon):
    done = example(daemon, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLES)
    assert "3 passed" in done.stdout, done.stdout


def test_the_guide_works_as_printed(daemon):
    with open(os.path.join(ROOT, "docs/guide/clients.md"), encoding="utf-8") as file:
        text = re.search(r"<!-- tested: clients python -->\n```python\n(.*?)```", file.read(), re.S)[1]
    done = example(daemon, "-c", text)
    said = done.stdout.splitlines()
    assert said[0] == "ok 42" and "stdout b'one\\n'" in said and "stderr b'two\\n'" in said, done.stderr
    assert sorted(said[3:5]) == ["0 ok", "1 ok"] and said[5:7] == ["2", "2"]
    assert said[7].startswith("VIAL-LANGUAGE -> ")
