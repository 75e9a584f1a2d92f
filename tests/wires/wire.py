# SPDX-License-Identifier: Apache-2.0
"""A daemon with all wires, reached over TCP with a token, as their clients reach it."""
import base64
import hashlib
import json
import os
import shutil
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../serve"))
from daemon import Daemon, wait_until  # noqa: E402,F401

TOKEN = "a-token-for-the-wires"
WIRES = ["sandboxfusion", "piston", "judge0", "gojudge"]


class Wired(Daemon):
    def __init__(self, wires=WIRES, serve=None, **more):
        super().__init__(serve={"wires": wires, **(serve or {})}, tcp=True, **more)
        tokens = os.path.join(self.dir, "tokens.yaml")
        with open(tokens, "w", encoding="ascii") as file:
            json.dump([{"name": "grader", "scopes": ["run", "read", "session"],
                        "sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}], file)
        os.chmod(tokens, 0o644)
        self.settings["serve"]["tokens"] = tokens

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.port

    @property
    def url_with_token(self):
        return "http://any:%s@127.0.0.1:%d" % (TOKEN, self.port)

    def call(self, *args, **more):
        """The status and the answer: as JSON where it is some, else bytes."""
        return self.answer(*args, **more)[:2]

    def answer(self, method, path, body=None, headers=None, token=TOKEN):
        """The same, and the answer's headers."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        given = {"Content-Type": "application/json", **(headers or {})}
        if token:
            given.setdefault("Authorization", "Bearer " + token)
        request = urllib.request.Request(self.url + path, data, given, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                status, text, kind = answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            status, text, kind = error.code, error.read(), error.headers
        if (kind.get("Content-Type") or "").startswith("application/json"):
            return status, json.loads(text), kind
        return status, text, kind


def b64(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


# What prints "hi", by vial's own name of the language.
HELLO = {
    "python": "print('hi')", "node": "console.log('hi')", "bash": "echo hi", "perl": "print 'hi'",
    "ruby": "puts 'hi'", "php": "<?php echo 'hi';", "lua": "print('hi')", "r": "cat('hi')", "sqlite": "select 'hi';",
    "go": 'package main\nimport "fmt"\nfunc main(){fmt.Println("hi")}',
    "rust": 'fn main(){println!("hi");}', "typescript": "const a: string = 'hi'; console.log(a)",
    "java": 'class Main{public static void main(String[] a){System.out.println("hi");}}',
    "c": '#include <stdio.h>\nint main(){puts("hi");}',
    "c++": '#include <cstdio>\nint main(){puts("hi");}'}


def has_program(name):
    """Whether vessels find it."""
    return shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") is not None
