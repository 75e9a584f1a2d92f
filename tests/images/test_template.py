# SPDX-License-Identifier: Apache-2.0
"""vial template: images made step by step in vessels, of a Debian and without any network."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import worlds

sys.path.insert(0, str(worlds.ROOT / "tests" / "warm"))
KEPT = dict(os.environ)
import binding  # noqa: E402
os.environ.update(KEPT)  # binding takes what the library would read out of it

CHEAP = ["--memory", "1g", "--disk", "256m"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with worlds.imported(tmp_path_factory.mktemp("template") / "home") as made:
        yield made


@pytest.fixture
def app(world, tmp_path):
    """A context, and what builds it."""
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "src/run.sh").write_text("#!/bin/sh\necho ran in $PWD as $(id -u), $GREETING\n")
    (tmp_path / "src/run.sh").chmod(0o755)
    (tmp_path / "src/deep/data").write_text("data\n")
    (tmp_path / "src/link").symlink_to("deep/data")
    return App(world, tmp_path)


class App:
    def __init__(self, world, path):
        self.world = world
        self.path = path
        self.name = "app-" + path.name.replace("_", "-").lower()

    def write(self, text, name="Dockerfile"):
        (self.path / name).write_text(text)

    def start(self, *args):
        return self.world.vial("template", "build", "-t", self.name, *CHEAP, *args, str(self.path))

    def build(self, *args):
        """What was made, with the words of each step."""
        done = self.start("--json", *args)
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    def fails(self, *args):
        done = self.start("--json", *args)
        assert done.returncode == 125, done.stderr + done.stdout
        return json.loads(done.stdout)["error"], done.stderr

    def run(self, script, *args):
        return self.world.sh(script, *args, image=self.name)


def cached(made):
    return [s["cached"] for s in made["steps"] if s["instruction"] in ("RUN", "COPY", "WORKDIR")]


def is_whole(app):
    """Nothing is left over; what is made is as it came."""
    assert os.listdir(app.world.store / "tmp") == []
    if app.name + ":latest" in app.world.names():
        done = app.world.vial("image", "verify", app.name)
        assert done.returncode == 0, done.stdout + done.stderr


DOCKERFILE = """\
FROM debian
ENV GREETING="good day" PATH=/opt/bin:$PATH
RUN useradd -u 1234 -m joe && \\
    echo made > /etc/made
WORKDIR /app
COPY src/ .
COPY src/deep/data /etc/data
USER joe
RUN id -u > /tmp/lost; touch mine 2>/dev/null || echo not mine
EXPOSE 8000
LABEL org.example.what=test
CMD ["/app/run.sh"]
"""


def test_a_dockerfile_makes_an_image_that_runs_as_it_says(app):
    app.write(DOCKERFILE)
    made = app.build()
    assert made["digest"].startswith("sha256:") and len(made["steps"]) == 10
    seen = app.run("cd /app; ./run.sh; cat /etc/made /etc/data link; stat -c %U:%a run.sh; echo $PATH; "
                   "ls /tmp")
    assert seen["stdout"] == (
        "ran in /app as 1234, good day\nmade\ndata\ndata\nroot:755\n"
        "/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"), seen
    assert seen["image_digest"] == made["digest"]
    image = json.loads(app.world.vial("template", "inspect", app.name).stdout)
    assert (image["cwd"], image["user"], image["cmd"]) == ("/app", "1234:1234", ["/app/run.sh"])
    assert "GREETING=good day" in image["env"]


YAML = """\
from: debian
env:
  GREETING: hello
workdir: /app
copy:
  - src/ .
run:
  - echo made > /etc/made
  - [sh, -c, "echo \\"$GREETING\\" >> /etc/made"]
cmd: [/app/run.sh]
imports: [json]
pool: 3
"""


def test_the_yaml_makes_the_same(app):
    app.write(YAML, "template.yaml")
    made = app.build()
    assert [s["line"] for s in made["steps"]] == [3, 4, 6, 8, 9, 10]
    assert app.run("cd /app; ./run.sh; cat /etc/made")["stdout"] == (
        "ran in /app as 1000, hello\nmade\nhello\n")
    listed = json.loads(app.world.vial("template", "list", "--json").stdout)
    mine = [t for t in listed if t["image"] == app.name + ":latest"]
    assert mine[0]["template"] == {"pool": 3, "imports": ["json"]}
    assert app.name in app.world.vial("template", "list").stdout
    assert "debian:latest" not in app.world.vial("template", "list").stdout


def test_what_is_unchanged_is_not_run_again(app):
    app.write("FROM debian\nENV A=1\nRUN date +%N > /etc/first\nCOPY src /src\n"
              "RUN cat /src/deep/data\nCMD one\n")
    first = app.build()
    assert cached(first) == [False, False, False]
    again = app.build()
    assert cached(again) == [True, True, True] and again["digest"] == first["digest"]
    app.write("FROM debian\nENV A=1\nRUN date +%N > /etc/first\nCOPY src /src\n"
              "RUN cat /src/deep/data\nCMD two\n")
    other = app.build()
    assert cached(other) == [True, True, True] and other["digest"] != first["digest"]
    (app.path / "src/deep/data").write_text("changed\n")
    assert cached(app.build()) == [True, False, False]
    (app.path / "unrelated").write_text("x")
    assert cached(app.build()) == [True, True, True]
    app.write("FROM debian\nENV A=2\nRUN date +%N > /etc/first\n")
    assert cached(app.build()) == [False]
    assert cached(app.build("--no-cache")) == [False]
    is_whole(app)


def test_a_step_that_fails_says_where_and_leaves_no_image(app):
    app.write("FROM debian\n\nRUN echo kept\nRUN echo so far; \\\n  echo oh no >&2; exit 7\n")
    error, shown = app.fails()
    assert error["code"] == "VIAL-TEMPLATE"
    assert error["message"] == (
        "step 2 of 2, line 4: RUN echo so far;   echo oh no >&2; exit 7: it ended with status 7")
    assert error["remedy"]
    assert "so far\n" in shown and "oh no\n" in shown and "[2/2] RUN" in shown
    assert app.name + ":latest" not in app.world.names()
    is_whole(app)
    app.write("FROM debian\n\nRUN echo kept\nRUN true\n")
    assert cached(app.build()) == [True, False]


@pytest.mark.parametrize("step, why", [
    ("COPY ../x /", "'../x' does not lie in the context"),
    ("COPY /etc/passwd /", "'/etc/passwd' does not lie in the context"),
    ("COPY out /", "'out' is a link, which is not followed"),
    ("COPY nothing /", "the context has no 'nothing'"),
    ("USER nobodyhere", "the image has no user 'nobodyhere'"),
    ("WORKDIR ../x", "'../x' is no plain path")])
def test_a_step_that_cannot_be_is_refused(app, step, why):
    (app.path / "out").symlink_to("/etc/passwd")
    app.write("FROM debian\n" + step + "\n")
    error, _ = app.fails()
    assert error["message"] == f"step 1 of 1, line 2: {step}: {why}"


def test_an_image_whose_id_says_nothing_has_no_such_user(app):
    app.write("FROM debian\nRUN ln -sf /bin/true /usr/bin/id\nUSER joe\n")
    error, _ = app.fails()
    assert error["message"] == "step 2 of 2, line 3: USER joe: the image has no user 'joe'"


def test_links_in_a_tree_are_copied_as_links_and_lead_nowhere_else(app):
    (app.path / "src/out").symlink_to("/etc/shadow")
    app.write("FROM debian\nCOPY src /src\n")
    app.build()
    assert app.run("readlink /src/out /src/link")["stdout"] == "/etc/shadow\ndeep/data\n"


def test_a_base_that_is_not_there_is_named(app):
    app.write("FROM localhost:1/none\n")
    error, _ = app.fails()
    assert "line 1: FROM localhost:1/none" in error["message"], error


def test_arguments_of_the_build_are_taken(app):
    app.write("ARG BASE=nothing\nFROM $BASE\nARG WHO=you\nARG HOW\nRUN echo $WHO$HOW > /who\n")
    app.build("--build-arg", "BASE=debian", "--build-arg", "HOW=!")
    assert app.run("cat /who; echo $WHO")["stdout"] == "you!\n\n"


def test_steps_have_no_network_unless_it_is_asked_for(app):
    app.write("FROM debian\nRUN python3 -c \"import socket; "
              "socket.create_connection(('192.0.2.1', 80))\"\n")
    error, shown = app.fails()
    assert "unreachable" in shown
    assert "--network gate --allow" in error["remedy"]


PLACES = """\
from: debian
run: ['true {mark}']
network: [api.example.com, '*.example.org']
"""


def test_a_file_does_not_choose_what_its_steps_reach(app):
    app.write(PLACES.format(mark="alone"), "template.yaml")
    error, _ = app.fails()
    assert error["code"] == "VIAL-TEMPLATE"
    assert error["message"] == ("its key 'network' wants api.example.com, *.example.org, "
                                "which only the caller can allow")
    assert error["remedy"] == ("if you trust it with that: '--network gate --allow api.example.com "
                               "--allow *.example.org'")
    error, _ = app.fails("--network", "gate", "--allow", "*.example.com")
    assert "wants *.example.org, which" in error["message"]
    app.build("--network", "none")
    assert app.name + ":latest" in app.world.names()


def test_the_caller_lets_steps_reach_what_the_file_wants(app):
    app.write(PLACES.format(mark="let"), "template.yaml")
    app.build("--network", "gate", "--allow", "*.example.com", "--allow", "*.example.org")


def test_the_settings_choose_the_network_before_a_package_manager(app, tmp_path):
    app.write("from: debian\npackages:\n  apt: [nothing-of-that-name]\n", "template.yaml")
    settings = tmp_path / "settings.yaml"
    settings.write_text("defaults:\n  network: none\npolicy:\n  networks: [none]\n")
    done = app.world.vial("--config", str(settings), "template", "build", "-t", app.name, "--json",
                          *CHEAP, str(app.path))
    error = json.loads(done.stdout)["error"]
    assert "it ended with status" in error["message"], error  # and is not one for the policy
    settings.write_text("policy:\n  networks: [none]\n")
    done = app.world.vial("--config", str(settings), "template", "build", "-t", app.name, "--json",
                          *CHEAP, str(app.path))
    error = json.loads(done.stdout)["error"]
    assert "not allowed by the policy" in error["message"], error


def test_a_directory_takes_no_image_of_the_store_over(world, tmp_path):
    def build(name, *args):
        where = tmp_path / name
        where.mkdir(exist_ok=True)
        (where / "Dockerfile").write_text("FROM debian\nENV A=b\n")
        done = world.vial("template", "build", "--json", *CHEAP, *args, str(where))
        return done.returncode, json.loads(done.stdout)

    before = (world.store / "names/debian:latest").read_text()
    for name in ("debian", "Debian", "debian:latest"):
        status, said = build(name)
        assert (status, said["error"]["code"]) == (125, "VIAL-TEMPLATE")
        assert said["error"]["remedy"] == "say what it is called: '--tag NAME'"
    assert (world.store / "names/debian:latest").read_text() == before
    for _ in range(2):  # what a template made is made again
        assert build("own-one")[0] == 0
    assert build("debian", "--tag", "own-two")[0] == 0
    status, said = build("template-step:" + "0" * 64)
    assert (status, said["error"]["message"]) == (125, "'template-step' is what steps are called")


def test_a_pair_that_is_none_is_refused(app):
    app.write("FROM debian\nARG X=foo\nENV A${X:-=1}\nRUN true\n")
    error, _ = app.fails()
    assert error["message"] == (
        "step 2 of 3, line 3: ENV A${X:-=1}: 'Afoo' is not NAME=VALUE")


def test_the_policy_holds_for_steps(app, tmp_path):
    app.write("FROM debian\nRUN true # policy\n")
    settings = tmp_path / "settings.yaml"
    settings.write_text("policy:\n  privileges: [none]\n")
    done = app.world.vial("--config", str(settings), "template", "build", "-t", app.name, "--json",
                          str(app.path))
    assert done.returncode == 125
    assert "not allowed by the policy" in json.loads(done.stdout)["error"]["message"]


def test_a_build_that_is_interrupted_leaves_nothing(app):
    app.write("FROM debian\nRUN echo begun; sleep 1000\n")
    p = subprocess.Popen([worlds.VIAL, "template", "build", "-t", app.name, *CHEAP, str(app.path)],
                         stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         env=app.world.env())
    for line in p.stderr:
        if line == "begun\n":
            break
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=worlds.PATIENCE)
    assert (p.returncode, out) == (128 + signal.SIGINT, "")
    assert app.name + ":latest" not in app.world.names()
    is_whole(app)


def import_busybox(world, tree):
    """A base that is small: podman's storage has all of it again in each layer."""
    (tree / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin")
    (tree / "bin/sh").symlink_to("busybox")
    subprocess.run(["tar", "-C", tree, "-cf", str(tree) + ".tar", "."], check=True)
    world.bring("busy", str(tree) + ".tar")


def test_umoci_and_podman_take_what_is_exported(app, tmp_path):
    import_busybox(app.world, tmp_path / "busy")
    app.write("FROM busy\nENV GREETING='good day'\nRUN echo made > /made\nWORKDIR /app\n"
              "COPY src .\nUSER 1234\nLABEL org.example.what=test\nCMD [\"/app/run.sh\"]\n")
    app.build()
    tar = tmp_path / "app.tar"
    done = app.world.vial("image", "export", app.name, "--to", str(tar))
    assert done.returncode == 0, done.stderr
    layout = tmp_path / "layout"
    layout.mkdir()
    subprocess.run(["tar", "-C", layout, "-xf", tar], check=True)
    index = json.loads((layout / "index.json").read_text())
    tag = index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"]
    bundle = tmp_path / "bundle"
    subprocess.run(["umoci", "unpack", "--image", f"{layout}:{tag}", bundle], check=True,
                   capture_output=True)
    config = json.loads((bundle / "config.json").read_text())["process"]
    assert (config["args"], config["cwd"]) == (["/app/run.sh"], "/app")
    assert (config["user"]["uid"], "GREETING=good day" in config["env"]) == (1234, True)
    assert (bundle / "rootfs/made").read_text() == "made\n"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as short:
        podman = ["podman", "--root", short + "/root", "--runroot", short + "/run",
                  "--storage-driver", "vfs"]
        loaded = subprocess.run([*podman, "load", "-i", tar], capture_output=True, text=True,
                                check=False)
        assert loaded.returncode == 0, loaded.stderr
        shown = subprocess.run([*podman, "inspect", loaded.stdout.split()[-1]],
                               capture_output=True, text=True, check=True)
    inside = json.loads(shown.stdout)[0]
    assert inside["Config"]["Cmd"] == ["/app/run.sh"]
    assert inside["Config"]["Labels"]["org.example.what"] == "test"


@pytest.fixture
def store(world):
    """The library reads settings from this process's environment."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("VIAL_")}
    os.environ["VIAL_IMAGES"] = str(world.store)
    yield
    del os.environ["VIAL_IMAGES"]
    os.environ.update(kept)


def test_a_python_that_waits_has_what_the_template_imports(app, store):
    app.write("from: debian\nrun: ['echo VALUE=7 > /usr/lib/python3/dist-packages/heavy.py']\n"
              "imports: [heavy, colorsys]\npool: 3\n", "template.yaml")
    app.build()
    asked = {"language": "python", "image": app.name, "code":
             "import sys; print('heavy' in sys.modules, 'colorsys' in sys.modules)\n"
             "import heavy; print(heavy.VALUE)"}
    with binding.Engine({"target": 1}) as engine:
        engine.ready(asked)
        shape = engine.report()["shapes"][0]
        warm = engine.run(asked)
    assert (shape["error"], warm["start"], warm["stdout"]) == (None, "warm", "True True\n7\n")


def test_as_many_wait_as_the_template_says(app, store):
    app.write("from: debian\nrun: ['true']\npool: 3\n", "template.yaml")
    app.build()
    asked = {"language": "sh", "image": app.name, "code": "echo 1"}
    with binding.Engine({"target": 1}) as engine:
        for _ in range(2):  # once is no pattern
            engine.run(asked)
        end = time.monotonic() + worlds.PATIENCE
        while engine.report()["shapes"][0]["idle"] < 3:
            assert time.monotonic() < end, engine.report()
            time.sleep(0.05)


def test_a_build_that_is_killed_leaves_a_whole_store(app):
    last = "FROM debian\nRUN echo one > /one\nRUN echo begun; head -c 50M /dev/urandom > /blob%s\n"
    app.write(last % "; sleep 1000")
    for mark in ("[1/2]", "[2/2]", "begun"):
        p = subprocess.Popen([worlds.VIAL, "template", "build", "--no-cache", "-t", app.name, *CHEAP,
                              str(app.path)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             text=True, env=app.world.env())
        for line in p.stderr:
            if mark in line:
                break
        p.kill()
        p.communicate(timeout=worlds.PATIENCE)
        assert app.name + ":latest" not in app.world.names()
    app.write(last % "")
    app.build()
    is_whole(app)
    assert app.run("cat /one; stat -c %s /blob")["stdout"] == "one\n52428800\n"


def test_steps_can_be_pruned_and_the_image_stays(app):
    app.write("FROM debian\nRUN echo pruned > /pruned\n")
    app.build()
    done = app.world.vial("template", "prune", "--json")
    assert json.loads(done.stdout)["removed"] > 0
    assert not [n for n in app.world.names() if n.startswith("template-step")]
    assert app.run("cat /pruned")["stdout"] == "pruned\n"
    assert cached(app.build()) == [False]
    assert app.world.vial("template", "remove", app.name).returncode == 0
    assert app.name + ":latest" not in app.world.names()


def test_an_ordinary_user_builds_as_who_owns_all_files():
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as made:
        os.chmod(made, 0o755)
        mine = worlds.World(Path(made) / "home", worlds.UID, "none")
        mine.bring("debian", worlds.debian())
        (mine.home / "work/Dockerfile").write_text(
            "FROM debian\nCOPY Dockerfile /etc/copied\nRUN id -u > /etc/who\n")
        done = mine.vial("template", "build", "-t", "mine", *CHEAP, ".")
        assert done.returncode == 0, done.stderr
        r = mine.sh("cat /etc/who; head -1 /etc/copied", image="mine")
        assert r["stdout"] == "1000\nFROM debian\n", r
        mine.remove()
