# SPDX-License-Identifier: Apache-2.0
"""The program that an image names itself, as container engines start it."""
import os
import subprocess
import sys

import pytest
import worlds

os.environ.setdefault("VIAL_BUILD", os.path.dirname(worlds.VIAL))
sys.path.insert(1, str(worlds.ROOT / "tests" / "serve"))
from daemon import Daemon  # noqa: E402


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = worlds.World(tmp_path_factory.mktemp("entry") / "home", 0)
    made.debian()
    configs = {"both": {"entrypoint": ["echo", "entered"], "cmd": ["by", "itself"]},
               "cmd": {"cmd": ["echo", "cmd alone"]}, "neither": {},
               "lost": {"entrypoint": ["nosuch"]},
               "placed": {"cmd": ["./tell"], "cwd": "/app"}}
    for name, config in configs.items():
        (made.home / name).mkdir()
    (made.home / "placed" / "app").mkdir()
    tell = made.home / "placed" / "app" / "tell"
    tell.write_text("#!/bin/sh\npwd\n")
    tell.chmod(0o755)
    for name, config in configs.items():
        made.put(name, [made.home / name], **config)
        made.stand_on_debian(name)
    yield made
    made.remove()


@pytest.mark.parametrize("image, words, out", [
    ("both", [], "entered by itself"),
    ("both", ["{dir}", "{image}"], "entered {dir} {image}"),
    ("cmd", [], "cmd alone"),
    ("cmd", ["echo", "mine"], "mine"),
    ("placed", [], "/app"),
    ("neither", ["echo", "mine"], "mine")])
def test_exec_does_what_container_engines_do(world, image, words, out):
    done = world.vial("exec", "--image", image, "--", *words)
    assert (done.returncode, done.stdout) == (0, out + "\n"), done.stderr


def test_an_entrypoint_is_left_out_if_asked(world):
    done = world.vial("exec", "--image", "both", "--entrypoint", "none", "--", "echo", "mine")
    assert done.stdout == "mine\n", done.stderr
    done = world.vial("exec", "--image", "both", "--entrypoint", "none")
    assert "nothing to run: neither code nor a command" in done.stderr


def test_an_image_without_a_program_of_its_own_says_so(world):
    done = world.vial("exec", "--image", "neither")
    assert "image 'neither' has no program of its own" in done.stderr
    assert "give a command" in done.stderr


def test_an_entrypoint_that_is_not_there_is_called_by_its_name(world):
    done = world.vial("exec", "--image", "lost", "--", "x")
    assert "start 'nosuch'" in done.stderr and "image 'lost' has no 'nosuch'" in done.stderr


def test_an_entrypoint_needs_an_image_and_no_code(world):
    done = world.vial("exec", "--entrypoint", "image")
    assert "the entrypoint of an image is to run, and there is no image" in done.stderr
    r = world.run("--image", "both", "--entrypoint", "image", "sh", "id")
    assert r["error"]["message"] == "code is given, and the image's entrypoint"


def test_code_and_commands_of_requests_have_no_entrypoint_unless_asked(world):
    assert world.sh("echo plain", image="both")["stdout"] == "plain\n"
    with Daemon(env={"VIAL_IMAGES": str(world.store)}) as d:
        asked = {"image": "both", "command": ["echo", "plain"]}
        assert d.ask("POST", "/v1/run", asked).json["stdout"] == "plain\n"
        asked["entrypoint"] = "image"
        assert d.ask("POST", "/v1/run", asked).json["stdout"] == "entered echo plain\n"
        del asked["command"]
        assert d.ask("POST", "/v1/run", asked).json["stdout"] == "entered by itself\n"


def test_a_session_starts_it_where_no_command_is_given(world):
    with Daemon(env={"VIAL_IMAGES": str(world.store)}) as d:
        def vial(verb, *args):
            return subprocess.run([worlds.VIAL, "session", verb, "--socket", d.socket, *args],
                                  capture_output=True, text=True, check=False,
                                  stdin=subprocess.DEVNULL)
        both, placed, none = (vial("start", "--image", i).stdout.strip()
                              for i in ("both", "placed", "neither"))
        first = vial("exec", both)
        assert first.stdout == "entered by itself\n", first.stderr
        assert vial("exec", both, "--", "echo", "mine").stdout == "mine\n"
        assert vial("exec", placed).stdout == "/app\n"
        assert "no image with a program of its own" in vial("exec", none).stderr


def test_inspect_shows_both(world):
    shown = world.vial("image", "inspect", "both").stdout
    assert '"entrypoint": [' in shown and '"itself"' in shown
