# SPDX-License-Identifier: Apache-2.0
"""antigravity: "Выполнение кода в песочнице (Sandbox)", in the document's order: zero-config
locally, Docker as an option."""
import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, VIAL, environment, wait_for
from engine import is_own_user


@pytest.fixture
def run(vial):
    def call(code, *flags, **env):
        done = vial("run", "--preset", "antigravity", "--json", *flags, "python", code, **env)
        return done.json
    return call


# Быстрый старт: локально, потом Docker

def test_with_nothing_set_code_runs_locally_at_once(run):
    """covers: A-01 A-05"""
    r = run("print(2 + 2)")
    assert (r["stdout"], r["exit_code"], r["driver"]) == ("4\n", 0, "native")
    assert r["isolation"]["level"] in ("namespaces", "landlock") and r["duration_ms"] > 0


def test_packages_of_an_active_environment_are_seen(vial, tmp_path):
    """"Works right after pip install -r requirements.txt": what the caller's own Python
    has, the code has. covers: A-01"""
    root = tmp_path / "env"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(root)], check=True)
    [site] = root.glob("lib/python3.*/site-packages")
    (site / "mine.py").write_text("where = 'the environment'\n")
    (site / "json.py").write_text("raise SystemExit('not the library')\n")
    code = ("import mine, json, os\nprint(mine.where, json.dumps([1]))\n"
            "try:\n    open(os.path.join(os.path.dirname(mine.__file__), 'x'), 'w')\n"
            "except OSError as e:\n    print(e.errno == 30)")
    for env in ({"VIRTUAL_ENV": str(root)}, {"PATH": "%s/bin:/usr/bin:/bin" % root}):
        done = vial("run", "--preset", "antigravity", "python", code, **env)
        assert done.out == "the environment [1]\nTrue\n", done.err
    assert vial("run", "--preset", "antigravity", "python", "import mine").status == 1


def version():
    done = subprocess.run(["/usr/bin/python3", "-c", "import sys; print('%d.%d' % "
                           "sys.version_info[:2])"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def home(tmp_path):
    """One with packages from `pip install --user`, and with secrets."""
    site = tmp_path / "home" / ".local" / "lib" / ("python" + version()) / "site-packages"
    site.mkdir(parents=True)
    (site / "mine.py").write_text("where = 'home'\n")
    (tmp_path / "home" / ".secret").write_text("secret")
    return tmp_path / "home"


def test_packages_of_the_user_are_seen_and_nothing_else_of_home(vial, home):
    """covers: A-01"""
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    code = "import mine, os\nprint(mine.where, os.path.exists('%s/.secret'))" % home
    assert vial("run", "--preset", "antigravity", "python", code, **env).out == "home False\n"
    # Not for others, and not where a container has its own.
    assert vial("run", "python", "import mine", **env).status == 1
    plan = vial("plan", "--preset", "antigravity", "python", "1", SANDBOX_TYPE="docker", **env)
    assert plan.json["mounts"] == []


def test_what_the_policy_forbids_stays_hidden(vial, home, tmp_path):
    (tmp_path / "c.yaml").write_text("policy: {mount_roots: [/srv]}\n")
    done = vial("run", "--config", str(tmp_path / "c.yaml"), "--preset", "antigravity", "python",
                "import importlib.util as u\nprint(u.find_spec('mine'))",
                HOME=str(home), PATH="/usr/bin:/bin")
    assert done.out == "None\n", done.err


def test_packages_do_not_lead_out_of_their_environment(vial, home):
    site = home / ".local/lib" / ("python" + version()) / "site-packages"
    (home / "keys").mkdir()
    for f in site.iterdir():
        f.unlink()
    site.rmdir()
    site.symlink_to(home / "keys")
    plan = vial("plan", "--preset", "antigravity", "python", "1", HOME=str(home),
                PATH="/usr/bin:/bin")
    assert plan.json["mounts"] == []


def test_the_type_chooses_the_engine(run, needs_engine):
    """covers: A-02 A-04 A-08"""
    r = run("import os; print(os.getuid(), os.listdir('/sys/class/net'))",
            SANDBOX_TYPE="docker")
    assert r["driver"] == "docker" and r["image"] == "python:3.11-slim"
    uid, net = r["stdout"].split()
    assert is_own_user(uid) and net == "['lo']"
    r = run("print(1)", SANDBOX_TYPE="docker", DOCKER_IMAGE="antigravity-sandbox:latest")
    assert r["image"] == "antigravity-sandbox:latest"


def test_the_type_local_is_native_even_where_an_engine_is(run):
    """covers: A-02"""
    assert run("print(1)", SANDBOX_TYPE="local")["driver"] == "native"


# Конфигурация: переменные, примеры файлов

def test_an_unknown_type_is_a_clear_error(vial):
    """covers: A-02"""
    done = vial("run", "--preset", "antigravity", "python", "1", SANDBOX_TYPE="podman")
    assert done.status == 125
    assert "SANDBOX_TYPE 'podman' is not one of local, docker, e2b" in done.err


def test_a_remote_type_wants_a_key(vial):
    done = vial("run", "--preset", "antigravity", "python", "1", SANDBOX_TYPE="e2b",
                E2B_API_KEY="")
    assert done.status == 125 and "E2B_API_KEY is not set" in done.err


def test_time_out_and_output_come_from_variables(run):
    """covers: A-03"""
    assert run("while True: pass", SANDBOX_TIMEOUT_SEC="1")["verdict"] == "timeout"
    r = run("print('x' * 50000)")
    assert r["stdout_truncated"] and r["stdout"] == "x" * 10240 + "\n[output truncated]"
    r = run("print('x' * 50000)", SANDBOX_MAX_OUTPUT_KB="100")
    assert not r["stdout_truncated"] and r["stdout_bytes"] == 50001


def test_the_network_can_be_enabled(vial):
    def network(**env):
        return vial("plan", "--preset", "antigravity", "python", "1", SANDBOX_TYPE="docker",
                    **env).json["network"]
    assert network() == network(DOCKER_NETWORK_ENABLED="false") == "none"
    assert network(DOCKER_NETWORK_ENABLED="true") == "bridge"


def test_an_enabled_network_is_there(needs_engine, run):
    """covers: A-04"""
    code = "import os; print(sorted(os.listdir('/sys/class/net')))"
    assert run(code, SANDBOX_TYPE="docker")["stdout"] == "['lo']\n"
    r = run(code, SANDBOX_TYPE="docker", DOCKER_NETWORK_ENABLED="true")
    assert r["stdout"] == "['eth0', 'lo']\n", r


def plan_in(vial, folder, **env):
    return vial("plan", "--preset", "antigravity", "python", "1", cwd=str(folder), **env)


def test_a_file_of_variables_is_read_where_one_starts(vial, tmp_path):
    """The document's first example, with lower numbers. covers: A-03"""
    (tmp_path / ".env").write_text("# local\nSANDBOX_TYPE=local\nexport SANDBOX_TIMEOUT_SEC=20\n"
                                   "SANDBOX_MAX_OUTPUT_KB='5' # small\n"
                                   "VIAL_NETWORK=bridge\nDOCKER_HOST=unix:///nowhere\n")
    plan = plan_in(vial, tmp_path).json
    assert plan["driver"] == "native" and plan["network"] == "none"
    assert plan["limits"]["wall_ms"] == 20000 and plan["limits"]["output_bytes"] == 5120
    # What is exported wins.
    assert plan_in(vial, tmp_path, SANDBOX_TIMEOUT_SEC="10").json["limits"]["wall_ms"] == 10000


def test_a_file_that_raises_limits_has_to_be_trusted(vial, tmp_path):
    """The document's second example. It lies in the project, where code can write."""
    (tmp_path / ".env").write_text(
        "SANDBOX_TYPE=docker\nDOCKER_IMAGE=antigravity-sandbox:latest\n"
        "DOCKER_NETWORK_ENABLED=false\nDOCKER_CPU_LIMIT=0.5\nDOCKER_MEMORY_LIMIT=256m\n"
        "SANDBOX_TIMEOUT_SEC=60\nSANDBOX_MAX_OUTPUT_KB=100\n")
    state = {"VIAL_STATE": str(tmp_path / "state")}
    done = plan_in(vial, tmp_path, **state)
    assert done.status == 125 and "timeout from 30s to 60s" in done.err.replace("1m", "60s")
    assert "vial trust --preset antigravity" in done.err
    trusted = vial("trust", "--preset", "antigravity", ".env", cwd=str(tmp_path), **state)
    assert trusted.status == 0, trusted.err
    plan = plan_in(vial, tmp_path, **state).json
    assert (plan["driver"], plan["image"]) == ("docker", "antigravity-sandbox:latest")
    assert plan["limits"]["wall_ms"] == 60000 and plan["limits"]["memory_bytes"] == 256 << 20
    assert plan["limits"]["milli_cpus"] == 500 and plan["network"] == "none"


def test_limits_follow_the_mode(vial, mcp):
    """Docker: half a core and 256 MB. Local: generous, and told. covers: A-04"""
    def limits(**env):
        return vial("plan", "--preset", "antigravity", "python", "1", **env).json["limits"]
    docker, local = limits(SANDBOX_TYPE="docker"), limits()
    assert (docker["memory_bytes"], docker["milli_cpus"]) == (256 << 20, 500)
    assert (local["memory_bytes"], local["milli_cpus"]) == (4 << 30, 2000)
    own = limits(SANDBOX_TYPE="docker", DOCKER_CPU_LIMIT="0.25", DOCKER_MEMORY_LIMIT="128m")
    assert (own["memory_bytes"], own["milli_cpus"]) == (128 << 20, 250)
    told = mcp("antigravity").tools()["run_python_code"]["description"]
    assert "4 GB of memory" in told and "CPU cores: 2" in told, told


# Модель безопасности: локальная песочница

def test_the_working_directory_is_temporary_and_the_tree_dies(run):
    """covers: A-07"""
    mark = "98%d" % os.getpid()
    r = run("import os, subprocess\nopen('left', 'w').write('x')\nprint(os.getcwd(), flush=True)\n"
            "subprocess.Popen(['setsid', 'sleep', '%s'])\nwhile True: pass" % mark,
            SANDBOX_TIMEOUT_SEC="4")
    assert r["verdict"] == "timeout" and r["stdout"] == "/work\n"
    assert run("import os; print(os.listdir('.'))")["stdout"] == "['main.py']\n"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            assert mark.encode() not in Path("/proc/%s/cmdline" % pid).read_bytes()
        except OSError:
            pass


# Модель безопасности: Docker

def test_the_container_is_locked_down(needs_engine, vial, containers):
    """covers: A-08"""
    p = subprocess.Popen([VIAL, "run", "--preset", "antigravity", "python",
                          "print('up', flush=True); import time; time.sleep(60)"], cwd="/",
                         env=environment(SANDBOX_TYPE="docker", DOCKER_CPU_LIMIT="0.25",
                                         DOCKER_MEMORY_LIMIT="128m"),
                         stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "up\n"
        [c] = containers("antigravity-")
        host = c["HostConfig"]
        assert host["NetworkMode"] == "none" and host["ReadonlyRootfs"]
        assert host["CapDrop"] == ["ALL"] and host["NanoCpus"] == 250000000
        assert host["Memory"] == 128 << 20 and is_own_user(c["Config"]["User"].split(":")[0])
    finally:
        p.terminate()
        p.communicate()
    assert wait_for(lambda: not containers("antigravity-"))


def test_a_container_is_killed_at_the_time_out(needs_engine, run, containers):
    """covers: A-08 A-03"""
    r = run("while True: pass", SANDBOX_TYPE="docker", SANDBOX_TIMEOUT_SEC="1")
    assert r["verdict"] == "timeout"
    assert wait_for(lambda: not containers("antigravity-"))


# Через инструмент агента: run_python_code

def test_the_tool_gives_a_compact_string_or_an_error(mcp):
    """covers: A-05 A-06"""
    client = mcp("antigravity")
    tools = client.tools()
    assert list(tools) == ["run_python_code"]
    assert list(tools["run_python_code"]["inputSchema"]["properties"])[:2] == ["code", "timeout"]
    answer = client("run_python_code", code="print(sum(range(1, 101)))")
    assert answer.text == "5050\n" and not answer.error
    assert answer.json["exit_code"] == 0 and answer.json["duration"] > 0
    assert answer.json["meta"]["runtime"] == "native"
    assert answer.json["meta"]["truncated"] is False
    text = client("run_python_code", code="1/0").text
    assert text.startswith("Error (exit code 1):") and "ZeroDivisionError" in text
    late = client("run_python_code", code="while True: pass", timeout=1)
    assert late.text == "Error: execution timed out after 1s" and late.json["meta"]["timed_out"]


def test_the_tool_uses_docker_when_told_to(needs_engine, mcp):
    """covers: A-06 A-08"""
    client = mcp("antigravity", SANDBOX_TYPE="docker")
    answer = client("run_python_code", code="print('in', __import__('os').getuid())")
    assert is_own_user(answer.text.split()[1]) and answer.json["meta"]["runtime"] == "docker"
    assert answer.json["meta"]["isolation"] == "container"


# Устранение неполадок

def test_an_absent_daemon_says_what_to_do(vial):
    """covers: A-10"""
    done = vial("run", "--preset", "antigravity", "python", "1", SANDBOX_TYPE="docker",
                DOCKER_HOST="unix:///nonexistent/sock")
    assert done.status == 125 and "Docker daemon not available" in done.err
    assert "systemctl start docker" in done.err and "docker ps" in done.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be someone else")
def test_a_daemon_that_refuses_says_what_to_do(place):
    """covers: A-10"""
    import socket
    path = place / "d.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
        s.listen()
        os.chmod(path, 0o600)
        (place / "b").mkdir()
        for part in ("vial", "vial-init", "runtimes", "presets", "seccomp"):
            source = Path(VIAL).parent / part
            subprocess.run(["cp", "-r", source, place / "b" / part], check=True)
        subprocess.run(["chmod", "-R", "a+rX", place], check=True)
        os.chmod(path, 0o600)
        done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "--regid=65534",
                               place / "b" / "vial", "run", "--preset", "antigravity",
                               "python", "1"], cwd="/", capture_output=True, text=True,
                              env=environment(SANDBOX_TYPE="docker",
                                              DOCKER_HOST="unix://%s" % path))
    assert done.returncode == 125 and "Docker permission denied" in done.stderr
    assert "usermod -aG docker" in done.stderr


# Производительность: теплый запуск (how long things take: `vial bench --requirements`)

def test_a_server_has_a_container_wait_for_the_next_call_and_uses_it_once(
        mcp, containers, needs_engine):
    """The table's warm start: what waits is fresh, and is gone after its call."""
    client = mcp("antigravity", SANDBOX_TYPE="docker")
    waits = lambda: {c["Id"] for c in containers("antigravity")}  # noqa: E731
    left = "import os; print(os.path.exists('left')); open('left', 'w').close()"
    client("run_python_code", code=left)
    client("run_python_code", code=left)
    assert wait_for(waits)
    ready = waits()
    assert client("run_python_code", code=left).text.strip() == "False"
    assert wait_for(lambda: ready - waits()), "the one that waited was not used up"
    client.close()
    assert wait_for(lambda: not waits())


# Примеры

PLOT = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
        "RU5ErkJggg==")
ANALYSE = ("import base64, csv\nvalues = [float(r['value']) for r in csv.DictReader("
           "open('data.csv'))]\nprint('mean', sum(values) / len(values))\n"
           "open('plot.png', 'wb').write(base64.b64decode('%s'))" % PLOT)
CSV = "value\n1\n2\n6\n"


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_files_go_in_and_plots_come_out(mcp, api, kind):
    """Example 2: "Analyze a sample CSV and show mean of values". covers: A-06"""
    if kind == "docker" and not api:
        pytest.skip("needs a container engine")
    client = mcp("antigravity", SANDBOX_TYPE=kind)
    result = client.ask("tools/call", {"name": "run_python_code", "arguments": {
        "code": ANALYSE, "files": [{"path": "data.csv", "content": CSV}]}})["result"]
    text, plot = result["content"]
    assert text == {"type": "text", "text": "mean 3.0\n"}
    assert plot == {"type": "image", "mimeType": "image/png", "data": PLOT}
    assert result["structuredContent"]["files"] == [
        {"path": "plot.png", "size": len(base64.b64decode(PLOT)), "media": "image/png"}]


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_the_command_takes_and_brings_files_too(vial, api, tmp_path, kind):
    if kind == "docker" and not api:
        pytest.skip("needs a container engine")
    (tmp_path / "data.csv").write_text(CSV)
    done = vial("run", "--preset", "antigravity", "--in", "data.csv", "--out", "plot.png",
                "python", ANALYSE, cwd=str(tmp_path), SANDBOX_TYPE=kind)
    assert done.out == "mean 3.0\n", done.err
    assert (tmp_path / "plot.png").read_bytes() == base64.b64decode(PLOT)


def test_a_sum_is_calculated(run):
    """Example 1, whose output is `5050`. covers: A-01"""
    assert run("print(sum(range(1, 101)))")["stdout"] == "5050\n"


def test_a_long_task_has_its_time(vial):
    """Example 3: five minutes for training. covers: A-03"""
    plan = vial("plan", "--preset", "antigravity", "python", "1", SANDBOX_TIMEOUT_SEC="300").json
    assert plan["limits"]["wall_ms"] == 300_000


# Тестирование

def test_docker_tests_skip_by_themselves_and_local_ones_run():
    """Both kinds, as on a machine on which no daemon answers. covers: A-14"""
    env = {k: v for k, v in os.environ.items() if k not in ("DOCKER_HOST", "VIAL_E2E_DRIVERS")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", __file__, "-k",
         "locally_at_once or chooses_the_engine or killed_at_the_time_out"],
        capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^1 passed, 2 skipped", done.stdout, re.M), done.stdout
    assert done.stdout.count(": needs a container engine\n") == 2, done.stdout


# Вклад в проект: новый тип песочницы

# One file: all that a new engine needs to be is behind struct driver.


NEW_ENGINE = """
#include "driver/driver.h"

static int probe(struct caps *out, struct vial_error *err)
{
    return driver_process.probe(out, err);
}
static int open_it(const struct plan *plan, int guest_fd, struct vessel **out,
                   struct vial_error *err)
{
    int rc = driver_process.open(plan, guest_fd, out, err);

    if (rc == 0)
        (*out)->driver = &driver_toy;
    return rc;
}
static void kill_it(struct vessel *vessel)
{
    driver_process.kill(vessel);
}
static void usage(struct vessel *vessel, struct vessel_usage *out)
{
    driver_process.usage(vessel, out);
}
static void close_it(struct vessel *vessel)
{
    driver_process.close(vessel);
}
const struct driver driver_toy = { .name = "toy", .probe = probe, .open = open_it,
                                   .kill = kill_it, .usage = usage, .close = close_it,
                                   .needs_programs_here = true };
"""


@pytest.fixture(scope="module")
def with_new_engine(tmp_path_factory):
    """The command, linked once more with a new engine: its file, and its row in the table of
    drivers."""
    place, build = tmp_path_factory.mktemp("toy"), Path(VIAL).parent
    (place / "model").mkdir()
    (place / "toy.c").write_text(NEW_ENGINE)
    table = (ROOT / "src/model/drivers.def").read_text()
    row = "DRIVER(process, false)\n"
    assert table.count(row) == 1
    (place / "model/drivers.def").write_text(table.replace(row, row + "DRIVER(toy, false)\n"))
    subprocess.run(
        ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-I" + str(place), "-I" + str(ROOT / "src"),
         "-I" + str(ROOT / "include"), place / "toy.c",
         ROOT / "src/driver/choose.c", ROOT / "src/model/fields.c", *sorted((build / "vial.p").glob("*.o")),
         build / "libvial-front.a", build / "libvial.a", "-ljansson", "-lyaml", "-lseccomp",
         "-o", place / "vial"], check=True)

    def call(*args):
        return subprocess.run([place / "vial", *args], capture_output=True, text=True, cwd="/",
                              env=environment(VIAL_SHARE=str(build)), check=False)
    return call


def test_a_new_engine_is_one_file_and_one_line_in_the_factory(with_new_engine):
    """covers: A-12 NFR-020-39"""
    done = with_new_engine("run", "--json", "--driver", "toy", "python", "print(6 * 7)")
    result = json.loads(done.stdout)
    assert (result["driver"], result["verdict"], result["stdout"]) == ("toy", "ok", "42\n")
    done = with_new_engine("run", "--json", "--driver", "toy", "--timeout", "300ms", "bash",
                           "while :; do :; done")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (124, "timeout")
    names = [d["name"] for d in json.loads(with_new_engine("doctor", "--json").stdout)["drivers"]]
    assert "toy" in names
    assert "toy" in with_new_engine("run", "--help").stdout
    # Being there changes nothing for those who do not ask for it.
    done = with_new_engine("run", "--json", "python", "1")
    assert json.loads(done.stdout)["driver"] == "native"
