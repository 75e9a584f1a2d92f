# SPDX-License-Identifier: Apache-2.0
"""The TypeScript package in a real Chromium: a page that is not the daemon's loads it as it is
published, and uses a real daemon whose settings name the page's origin. Beside it, a page of
an origin that they do not name."""
import contextlib
import functools
import http.server
import json
import os
import subprocess
import sys
import threading

import pytest
from conftest import BUILD, HERE, ROOT, TOKEN
from daemon import Daemon, clean_env

sys.path.insert(0, os.path.join(ROOT, "tests/page"))

from browser import install  # noqa: E402


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nobody reads it."""


@contextlib.contextmanager
def site(where):
    """The URL of a server that has the files of WHERE."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                         functools.partial(Files, directory=where)) as server:
        threading.Thread(target=server.serve_forever).start()
        yield "http://127.0.0.1:%d" % server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
def saw(project, tokens, tmp_path_factory):
    where = os.path.join(BUILD, "clients-browser")
    install(where, os.path.join(HERE, "browser.mjs"))
    (project / "index.html").write_text("<!doctype html><title>A page of somebody's</title>")
    profile = tmp_path_factory.mktemp("profile")
    with site(project) as page, site(project) as other, \
            Daemon(serve={"tokens": tokens, "origins": [page]}, tcp=True) as d:
        given = {"page": page, "other": other, "token": TOKEN,
                 "url": "http://127.0.0.1:%d" % d.port}
        out = subprocess.run(["node", "browser.mjs", profile, json.dumps(given)], cwd=where,
                             env=clean_env(HOME=str(profile)), capture_output=True, text=True,
                             timeout=300)
        assert out.returncode == 0, out.stderr[-3000:] + d.log()[-2000:]
        seen = json.loads(out.stdout)
        seen["given"] = given
        seen["paths"] = [(line["method"], line["path"], line["status"]) for line in d.lines("http")]
        seen["codes"] = d.ask("GET", "/v1/runs?all=1&limit=100").body.decode()
    return seen


def test_a_page_of_an_origin_that_is_named_runs_programs(saw):
    listed = saw["listed"]
    assert listed["origin"] == saw["given"]["page"]
    assert (listed["run"]["verdict"], listed["run"]["stdout"]) == ("ok", "42\n")
    assert listed["stream"] == "one\ntwo\n" and listed["batch"] == ["9\n", "16\n"]


def test_it_has_sessions_with_files_and_programs(saw):
    assert saw["listed"]["file"] == saw["listed"]["program"] == "from a page"
    assert saw["listed"]["closed"] == "nothing"


def test_it_hears_why_it_was_refused(saw):
    assert saw["listed"]["refusal"] == "Refused VIAL-LANGUAGE 422"
    assert saw["listed"]["stranger"] == "Unauthorized VIAL-AUTH 401"


def test_it_hears_the_request_s_id_and_cannot_use_cookies(saw):
    assert saw["listed"]["request"].startswith("q-")
    assert saw["listed"]["cookies"] == "TypeError"


def test_the_browser_asked_first(saw):
    assert ("OPTIONS", "/v1/run", 204) in saw["paths"]


def test_a_page_of_another_origin_learns_and_runs_nothing(saw):
    unlisted = saw["unlisted"]
    assert unlisted["origin"] == saw["given"]["other"] != saw["given"]["page"]
    assert unlisted["client"] == "Lost VIAL-DAEMON"
    assert unlisted["plain"] == "TypeError" and unlisted["simple"] == "opaque 0"
    assert "of another origin" not in saw["codes"] and "42" not in saw["unlisted"].values()
    assert [status for method, path, status in saw["paths"]
            if path == "/v1/run" and status in (401, 403)]
