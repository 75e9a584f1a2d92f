# SPDX-License-Identifier: Apache-2.0
"""The page at / in a real Chromium, against a real daemon over TCP. One visit, made once,
sees everything; each test judges one thing of it. The screenshots stay in the build
directory."""
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../serve"))

from browser import install  # noqa: E402
from daemon import Daemon, clean_env  # noqa: E402

BUILD = os.path.abspath(os.environ.get("VIAL_BUILD", "build"))
WHERE = os.path.join(BUILD, "page")
TOKEN = "vial_" + "5" * 40


def keep_busy(daemon, over):
    """Runs of every kind, so that there is something to plot; a batch that has ended, and one
    that goes on until nobody looks any more."""
    rows = [{"language": "bash", "code": "exit %d" % (i % 3 == 0), "timeout": "20s"} for i in range(9)]
    vial = os.path.abspath(os.environ.get("VIAL", os.path.join(BUILD, "vial")))
    subprocess.run([vial, "batch", "--socket", daemon.socket, "--name", "evening set", "-q"], text=True,
                   input="".join(json.dumps(row) + "\n" for row in rows), env=clean_env(),
                   stdout=subprocess.DEVNULL, check=True, timeout=300)
    number = 0
    with subprocess.Popen([vial, "batch", "--socket", daemon.socket, "--name", "day set", "-q"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=clean_env()) as going:
        while not over.wait(0.5):
            number += 1
            daemon.run("echo %d; exit %d" % (number, number % 5 == 0), timeout="5s")
            going.stdin.write(json.dumps({"language": "bash", "code": "exit %d" % (number % 2),
                                          "timeout": "20s"}) + "\n")
            going.stdin.flush()
        going.stdin.close()
        assert going.wait(300) == 0


def elsewhere(way, text, where):
    """What the program prints when it is run as the page says."""
    vial = os.path.abspath(os.environ.get("VIAL", os.path.join(BUILD, "vial")))
    env = clean_env(TOKEN=TOKEN, HOME=where,
                    PATH=os.path.dirname(vial) + ":" + os.environ["PATH"])
    argv = ["/usr/bin/python3", "-c", text] if way == "python" else ["bash", "-c", text]
    out = subprocess.run(argv, cwd=where, env=env, capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)["stdout"].strip() if way == "curl" else out.stdout.strip()


@pytest.fixture(scope="module")
def saw():
    install(WHERE, os.path.join(HERE, "visit.mjs"))
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
        seen["elsewhere"] = {way: elsewhere(way, seen["ways"][way], profile)
                             for way in ("curl", "command", "python")}
    os.unlink(tokens.name)
    return seen


def test_the_page_asks_nobody_but_its_own_server(saw):
    assert saw["origins"] == [saw["server"]]
    policy = saw["headers"]["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert saw["headers"]["x-content-type-options"] == "nosniff"


def test_a_batch_is_seen_with_its_pace_and_verdicts(saw):
    assert "evening-set" in saw["batches"] and "9 runs" in saw["batches"]
    assert "ok 6, nonzero 3" in saw["batches"]


def test_a_batch_that_runs_is_seen_growing_with_its_rate(saw):
    first, later = (re.search(r"([\d,]+) runs, ([\d.]+) a second: ok (\d+), nonzero (\d+)", text)
                    for text in saw["running"])
    assert first and later, saw["running"]
    assert int(later[1]) > int(first[1]) and float(later[2]) > 0
    assert int(later[3]) + int(later[4]) == int(later[1])


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
                               "oom": "oom", "refused": "denied", "stopped": "cancelled",
                               "keyboard": "ok", "long": "ok", "made": "ok"}


def test_a_refusal_says_why(saw):
    assert "memory" in saw["refusal"]


def test_a_limit_that_ended_a_program_is_named_where_its_output_would_be(saw):
    assert "more memory than allowed" in saw["why"] and "'Memory'" in saw["why"]


def test_output_is_text_and_never_markup(saw):
    assert saw["pwned"] is None
    assert '<img src=x onerror="window.pwned=1">' in saw["markup"]
    assert any("sad" in line for line in saw["stderr"])


def test_what_runs_now_is_listed_and_can_be_stopped(saw):
    assert "running" in saw["listed"] and "python" in saw["listed"]
    assert saw["verdicts"]["stopped"] == "cancelled"


def test_the_editor_is_one_that_people_expect(saw):
    assert saw["editor"]["text"].split("\n")[:2] == ["def f(x):", "    return x"]
    assert saw["editor"]["lines"].split()[-1] == "2"
    assert saw["editor"]["coloured"] > 0


def test_all_of_a_long_output_can_be_had(saw):
    assert "million" in saw["long"]["told"]
    assert saw["long"]["length"] == 50 * 100000 + 8 and saw["long"]["end"] == "the end\n"


def test_pictures_and_tables_are_shown(saw):
    assert saw["table"].split("\n") == ["name\tage", 'Doe, "J"\t42', "Roe\t7"]
    assert "dot.png" in saw["made"]


def test_what_a_library_keeps_for_itself_is_not_shown_and_pictures_come_first(saw):
    names = [name for name in ("ages.csv", "dot.png", "a-note.txt") if name in saw["made"]]
    assert sorted(names, key=saw["made"].index) == ["ages.csv", "dot.png", "a-note.txt"]
    assert "kept" not in saw["made"]


def test_a_program_goes_elsewhere_as_it_is(saw):
    """The command and the Python program are run: they print what the page did."""
    assert "ages.csv" in saw["linked"]
    assert saw["ways"]["curl"].startswith("curl -s " + saw["server"] + "/v1/run")
    assert saw["elsewhere"] == {"curl": "made", "command": "made", "python": "made"}


def test_a_strangers_link_is_data(saw):
    """Its words are quoted, and its language is one that the daemon has."""
    words = shlex.split(saw["evil"])
    assert "touch" not in saw["evil"] and words[-2:] == ["python", "-"]
    assert words[:3] == ["printf", "%s", "print('`it`')"] and "1s'; false #" in words


def test_runs_are_found_again(saw):
    assert saw["only"] and set(saw["only"]) == {"oom"}


def test_a_run_is_shown_in_full(saw):
    for fact in ("ok", "native", "seccomp", "256m", "10s", "token:page"):
        assert fact in saw["detail"]["facts"], fact
    assert "squared" in saw["detail"]["code"] and "squared" in saw["detail"]["out"]
    assert saw["again"].rstrip() == saw["detail"]["code"].rstrip()


def test_a_session_has_a_terminal_files_and_an_interpreter(saw):
    assert "a-terminal" in saw["terminal"]
    six_times_seven, columns, end = saw["file"].split("-")
    assert six_times_seven == "42" and int(columns) > 40 and end == "made\n"
    assert "so: from the browser" in saw["cell"] and saw["cell"].split()[-1] == "16"
    assert not saw["ended"] and "ended" in saw["ended_row"]
    assert not {"Open", "Pause", "End"} & set(saw["ended_row"].split())


def test_a_checker_of_accessibility_finds_nothing(saw):
    assert saw["axe"] == []


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
    assert set(saw["overflow"].values()) == {0}
    for name in ("play", "runs", "run", "terminal", "files", "cells", "light", "dark",
                 "dark-play", "narrow-playground", "narrow-overview"):
        assert os.path.getsize(os.path.join(WHERE, name + ".png")) > 20000
