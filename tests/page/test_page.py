# SPDX-License-Identifier: Apache-2.0
"""The page at / in a real Chromium, against a real daemon over TCP. One visit, made once,
sees everything; each test judges one thing of it. The screenshots stay in the build
directory."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../serve"))

from daemon import Daemon, clean_env  # noqa: E402

BUILD = os.path.abspath(os.environ.get("VIAL_BUILD", "build"))
WHERE = os.path.join(BUILD, "page")
TOKEN = "vial_" + "5" * 40


def installed():
    """The driver of the browser, once, at the version that package.json names."""
    wanted = open(os.path.join(HERE, "package.json"), encoding="utf-8").read()
    mark = os.path.join(WHERE, "installed.json")
    if not os.path.exists(mark) or open(mark, encoding="utf-8").read() != wanted:
        shutil.rmtree(WHERE, ignore_errors=True)
        os.makedirs(WHERE)
        shutil.copy(os.path.join(HERE, "package.json"), WHERE)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock",
                        "--ignore-scripts", "--loglevel=error"], cwd=WHERE, check=True,
                       timeout=300, env=clean_env())
        with open(mark, "w", encoding="utf-8") as file:
            file.write(wanted)
    shutil.copy(os.path.join(HERE, "visit.mjs"), WHERE)


def keep_busy(daemon, over):
    """Runs of every kind, so that there is something to plot."""
    number = 0
    while not over.wait(0.5):
        number += 1
        daemon.run("echo %d; exit %d" % (number, number % 5 == 0), timeout="5s")


@pytest.fixture(scope="module")
def saw():
    installed()
    tokens = tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False)
    json.dump([{"name": "page", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(),
                "scopes": ["read", "run", "session", "admin"]}], tokens)
    tokens.close()
    os.chmod(tokens.name, 0o644)
    over = threading.Event()
    d = Daemon(serve={"tokens": tokens.name, "warm": ["python", "bash"]}, tcp=True)
    os.chmod(d.dir, 0o755)  # root's daemon becomes another user
    with d, tempfile.TemporaryDirectory() as profile:
        busy = threading.Thread(target=keep_busy, args=(d, over))
        busy.start()
        try:
            out = subprocess.run(["node", "visit.mjs", "http://127.0.0.1:%d/" % d.port, TOKEN,
                                  WHERE, profile], cwd=WHERE, env=clean_env(HOME=profile),
                                 capture_output=True, text=True, timeout=600)
        finally:
            over.set()
            busy.join()
        assert out.returncode == 0, out.stderr[-3000:] + d.log()[-2000:]
        seen = json.loads(out.stdout)
        seen["server"] = "http://127.0.0.1:%d" % d.port
    os.unlink(tokens.name)
    return seen


def test_the_page_asks_nobody_but_its_own_server(saw):
    assert saw["origins"] == [saw["server"]]
    policy = saw["headers"]["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert saw["headers"]["x-content-type-options"] == "nosniff"


def test_nothing_goes_wrong_in_the_browser(saw):
    assert saw["errors"] == []


def test_a_wrong_token_is_refused_and_a_right_one_opens(saw):
    assert saw["wrong"] != ""
    assert {"python", "bash"} <= set(saw["languages"])


def test_output_is_shown_while_the_program_runs(saw):
    assert "first" in saw["while_running"]["output"]
    assert "last" not in saw["while_running"]["output"]
    assert saw["while_running"]["verdict"] == "running" and saw["while_running"]["stop"]
    assert saw["output"].split() == ["first", "last"]


def test_verdicts_are_the_daemons(saw):
    assert saw["verdicts"] == {"ok": "ok", "nonzero": "nonzero", "timeout": "timeout",
                               "oom": "oom", "refused": "failed", "stopped": "cancelled",
                               "keyboard": "ok"}


def test_a_refusal_says_why(saw):
    assert "memory" in saw["refusal"]


def test_output_is_text_and_never_markup(saw):
    assert saw["pwned"] is None
    assert '<img src=x onerror="window.pwned=1">' in saw["markup"]
    assert any("sad" in line for line in saw["stderr"])


def test_what_runs_now_is_listed_and_can_be_stopped(saw):
    assert "running" in saw["listed"] and "python" in saw["listed"]
    assert saw["verdicts"]["stopped"] == "cancelled"


def test_a_run_is_shown_in_full(saw):
    assert "ok" in saw["detail"]["facts"] and "native" in saw["detail"]["facts"]
    assert saw["detail"]["out"] != ""


def test_everything_has_a_name_for_those_who_hear_it(saw):
    assert saw["nameless"] == [] and saw["headings"] == 1
    assert len(saw["charts"]) == 2 and all("now" in name for name in saw["charts"])


def test_the_tiles_count_what_ran(saw):
    runs = next(t for t in saw["tiles"] if t.startswith("Runs"))
    assert int(runs.split("\n")[1].replace(" ", "").split(".")[0]) >= 7


def test_waiting_vessels_are_shown(saw):
    """The daemon keeps some ready, python among them."""
    waiting = next(t for t in saw["tiles"] if t.startswith("Waiting"))
    assert int(waiting.split("\n")[1]) >= 1
    assert "python" in saw["pool"]


def test_it_fits_dark_light_and_narrow_screens(saw):
    assert saw["toggled"] == "rgb(245, 247, 248)"
    assert saw["overflow"] <= 0
    for name in ("light", "dark", "narrow", "run"):
        assert os.path.getsize(os.path.join(WHERE, name + ".png")) > 20000
