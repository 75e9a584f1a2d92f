# SPDX-License-Identifier: Apache-2.0
"""What the guide says of the daemon, run as it is printed."""
import json
import os
import re
import subprocess

from daemon import VIAL, clean_env

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


def test_the_settings_that_the_guide_shows_are_valid(tmp_path):
    text = re.search(r"```yaml\n(serve:.*?)```", text_of("docs/guide/daemon.md"), re.S).group(1)
    config = tmp_path / "vial.yaml"
    config.write_text(text)
    out = subprocess.run([VIAL, "config", "show", "--json", "--config", str(config)],
                         capture_output=True, text=True, env=clean_env(HOME="/nonexistent"))
    assert json.loads(out.stdout)["serve"]["warm"] == ["python"]
