# SPDX-License-Identifier: Apache-2.0
"""The clients cannot drift from the API: what they know of it is made of the daemon's own
document, compilers hold what they do against that, and every route is used or left out by
name."""
import ast
import base64
import copy
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile

import pytest
from conftest import BUILD, ROOT, tsc
from daemon import VIAL, VIALD, clean_env

PYTHON = os.path.join(ROOT, "clients/python/vial/__init__.py")
TYPESCRIPT = os.path.join(ROOT, "clients/typescript/src/index.ts")
# Other protocols, which have clients of their own, and the page.
LEFT_OUT = re.compile(r"/mcp|/|/page/.*|/(?!v1/|healthz|readyz|metrics).*|/v1/ping")
MYPY = ["mypy", "--strict", "--python-version", "3.9", "--enable-incomplete-feature=Unpack"]


@pytest.fixture(scope="module")
def document():
    return json.loads(subprocess.run([VIALD, "--openapi"], capture_output=True, check=True).stdout)


def hand_written(path):
    """What people wrote of it: without what was made, and without comments."""
    with open(path, encoding="utf-8") as file:
        return re.sub(r"# --- made by.*?# --- end of what was made", "", file.read(), flags=re.S)


@pytest.mark.parametrize("path", [PYTHON, TYPESCRIPT])
def test_every_route_is_used_or_left_out(path, document):
    text = hand_written(path)
    for route, item in document["paths"].items():
        for what in item.values():
            used = '"%s"' % what["operationId"] in text
            assert used != bool(LEFT_OUT.fullmatch(route)), route


def test_what_was_made_of_the_document_is_up_to_date():
    out = subprocess.run([os.path.join(ROOT, "tools/gen-clients"), os.path.dirname(VIALD), "--check"],
                         capture_output=True, text=True)
    assert (out.returncode, out.stdout) == (0, ""), out.stderr


def drifted(document, tmp_path, change):
    """A copy of the clients' tree, made of another document."""
    document = copy.deepcopy(document)
    change(document)
    for part in ("tools/gen-clients", "clients"):
        source, target = os.path.join(ROOT, part), tmp_path / part
        target.parent.mkdir(exist_ok=True)
        if os.path.isdir(source):
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("node_modules", "dist"))
        else:
            shutil.copy(source, target)
    fake = tmp_path / "viald"
    fake.write_text("#!/bin/sh\ncat %s/document\n" % tmp_path)
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "document").write_text(json.dumps(document))
    gen = [str(tmp_path / "tools/gen-clients"), str(tmp_path)]
    told = subprocess.run([*gen, "--check"], capture_output=True, text=True, check=True).stdout
    assert "__init__.py is not up to date" in told and "schema.ts is not up to date" in told
    subprocess.run(gen, check=True)
    (tmp_path / "clients/typescript/node_modules").symlink_to(os.path.join(BUILD, "clients/node_modules"))
    return tmp_path / "clients"


CHANGES = {
    "a member that they send is gone":
        lambda d: d["components"]["schemas"]["exec_body"]["properties"].pop("shell"),
    "a member that they read is gone":
        lambda d: d["components"]["schemas"]["gap"]["properties"].pop("bytes"),
    "a route has another name": lambda d: d["paths"]["/v1/run"]["post"].update(operationId="run_it"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_client_that_drifts_does_not_compile(what, document, tmp_path, made):
    """The other way round: these checks can fail."""
    clients = drifted(document, tmp_path, CHANGES[what])
    assert tsc("-p", ".", "--noEmit", cwd=clients / "typescript").returncode != 0
    if what == "a member that they read is gone":
        return  # events are records of any kind for Python, and have the test after this
    out = subprocess.run([*MYPY, "--cache-dir", str(tmp_path / "cache"), str(clients / "python/vial")],
                         capture_output=True, text=True, env=clean_env())
    assert out.returncode != 0


def test_events_of_python_have_what_the_document_says(document):
    """Their class is written by hand, as it stands for all of them."""
    import vial
    schemas = document["components"]["schemas"]
    events = [s for s in schemas.values() if "event" in s.get("properties", {})]
    known = set().union(*(s["properties"] for s in events))
    assert set(vial.Event.__annotations__) <= known


def test_the_python_client_is_typed(tmp_path):
    out = subprocess.run([*MYPY, "--cache-dir", str(tmp_path), os.path.dirname(PYTHON),
                          os.path.join(ROOT, "clients/python/examples/reward.py"),
                          os.path.join(ROOT, "clients/python/examples/notebook.py")],
                         capture_output=True, text=True, env=clean_env())
    assert out.returncode == 0, out.stdout


def test_the_python_client_is_for_python_3_9_and_its_library():
    with open(PYTHON, encoding="utf-8") as file:
        tree = ast.parse(file.read(), feature_version=(3, 9))
    names = {n.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import)
             for n in node.names} | {node.module.split(".")[0] for node in ast.walk(tree)
                                     if isinstance(node, ast.ImportFrom)}
    assert names - {"typing_extensions"} <= set(sys.stdlib_module_names) | {"__future__"}


def test_versions_are_those_of_vial():
    said = subprocess.run([VIAL, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\d+\.\d+\.\d+", said)[0]
    import vial
    assert vial.__version__ == version
    for path in ("clients/python/pyproject.toml", "clients/typescript/package.json"):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            assert re.search(r'"?version"?\s*[=:] "(.*?)"', file.read())[1] == version


def test_the_wheel_is_used_by_putting_it_on_the_path(made, tmp_path, daemon):
    wheel = next(made.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == sorted(
            ["vial/__init__.py", "vial/py.typed"] + [
                wheel.name.rsplit("-", 3)[0] + ".dist-info/" + n for n in ("METADATA", "RECORD", "WHEEL")])
        archive.extractall(tmp_path)
    out = subprocess.run(["/usr/bin/python3", "-I", "-c",
                          "import sys; sys.path.insert(0, %r)\nimport vial\n"
                          "print(vial.__file__, vial.Client(%r).run('bash', 'echo ran').stdout)"
                          % (str(tmp_path), "unix:" + daemon.socket)],
                         capture_output=True, text=True, timeout=60)
    assert out.stdout == "%s/vial/__init__.py ran\n\n" % tmp_path, out.stderr
    found = list(importlib.metadata.distributions(path=[str(tmp_path)]))
    assert [(d.metadata["Name"], bool(d.files)) for d in found] == [("vial-client", True)]
    for file in found[0].files:
        if file.hash:
            with open(file.locate(), "rb") as inside:
                digest = hashlib.sha256(inside.read()).digest()
            assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == file.hash.value


def test_the_same_tree_gives_the_same_packages(made, tmp_path):
    subprocess.run([os.path.join(ROOT, "tools/dist-clients"), "--tree", BUILD, str(tmp_path)], check=True,
                   capture_output=True, env=clean_env(), timeout=600)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (made / path.name).read_bytes(), path.name
