# SPDX-License-Identifier: Apache-2.0
"""What the guide says of the daemon, run as it is printed."""
import json
import os
import re
import subprocess

from daemon import VIAL, clean_env, free_port

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def text_of(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def test_the_guides_curl_examples_work_as_printed():
    example = re.search(r"<!-- tested: daemon -->\n```sh\n(.*?)```",
                        text_of("docs/guide/daemon.md"), re.S).group(1)
    subprocess.run(["rm", "-rf", "/tmp/vial-demo"], check=True)
    path = os.path.dirname(VIAL) + ":" + os.environ["PATH"]
    out = subprocess.run(["bash", "-e", "-m", "-c", example], cwd=ROOT, capture_output=True,
                         text=True, timeout=120, env=clean_env(PATH=path, HOME="/nonexistent"))
    assert out.returncode == 0, out.stdout + out.stderr
    said = out.stdout
    assert '"stdout": "42\\n"' in said
    assert '{"event":"stdout","data":"2\\n"}' in said
    assert '"stdout":"9\\n"' in said
    lines = len(text_of("README.md").splitlines())
    assert '"stdout":"%d hello.txt\\n"' % lines in said
    assert '"text/plain":"42"' in said
    assert '{"openapi":"3.1.0"' in said
    assert 'vial_runs_total{verdict="ok"} 4' in said


def blocks(page, mark):
    return re.findall(r"<!-- tested: %s -->\n```\w+\n(.*?)```" % mark, text_of(page), re.S)


def test_the_http_guide_works_as_printed(tmp_path):
    """In one shell, with its Python and JavaScript before the daemon is ended."""
    page, port = "docs/guide/http.md", str(free_port())
    shell, (python,), (script,) = (blocks(page, "http"), blocks(page, "http python"),
                                   blocks(page, "http javascript"))
    (tmp_path / "client.py").write_text(python)
    (tmp_path / "client.mjs").write_text(script)
    shell[-1:] = ["python3 %s/client.py\nnode %s/client.mjs\n" % (tmp_path, tmp_path), shell[-1]]
    text = "".join(shell).replace("8123", port).replace("/tmp/vial-http", str(tmp_path / "d"))
    path = os.path.dirname(VIAL) + ":" + os.environ["PATH"]
    out = subprocess.run(["bash", "-e", "-m", "-c", text], cwd=tmp_path, capture_output=True,
                         text=True, timeout=120, env=clean_env(PATH=path, HOME="/nonexistent"))
    assert out.returncode == 0, out.stdout + out.stderr
    assert '"stdout": "42\\n"' in out.stdout
    assert '{"event":"stdout","data":"one\\n' in out.stdout
    assert '"stdout":"hello from a file\\n"' in out.stdout
    assert "did you mean 'language'?" in out.stdout
    said = out.stdout.splitlines()
    for line in ("ok 42", "2", "printed one", "ended ok"):
        assert any(line in one for one in said), line
    assert any(line.startswith("VIAL-LANGUAGE did you mean") for line in said), out.stdout


def test_the_settings_that_the_guide_shows_are_valid(tmp_path):
    text = re.search(r"```yaml\n(serve:.*?)```", text_of("docs/guide/daemon.md"), re.S).group(1)
    config = tmp_path / "vial.yaml"
    config.write_text(text)
    out = subprocess.run([VIAL, "config", "show", "--json", "--config", str(config)],
                         capture_output=True, text=True, env=clean_env(HOME="/nonexistent"))
    assert json.loads(out.stdout)["serve"]["warm"] == ["python"]
