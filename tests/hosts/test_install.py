# SPDX-License-Identifier: Apache-2.0
"""What is installed works for a program that knows only the public API.

VIAL_BUILD names the build directory; nothing outside a temporary directory is touched.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VIAL_BUILD", ROOT / "build")).resolve()
PATIENCE = 120


def call(*args, env=None, cwd=None):
    """Runs a command that must succeed, without the caller's own settings of vial."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("VIAL_")}
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, cwd=cwd,
                          env={**kept, **(env or {})}, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The directory that stands for "/"."""
    if not (BUILD / "build.ninja").exists():
        pytest.skip(f"no build directory at {BUILD}")
    root = tmp_path_factory.mktemp("root")
    call("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", root)
    return root


def one(root, name):
    found = sorted(root.rglob(name))
    assert found, f"{name} is not installed"
    return found[0]


@pytest.fixture(scope="module")
def flags(installed):
    """What pkg-config says, with the root put before its paths."""
    directory = one(installed, "vial.pc").parent
    out = call("pkg-config", "--cflags", "--libs", "vial",
               env={"PKG_CONFIG_PATH": str(directory),
                    "PKG_CONFIG_SYSROOT_DIR": str(installed)})
    return out.split()


@pytest.fixture(scope="module")
def environment(installed):
    return {"LD_LIBRARY_PATH": str(one(installed, "libvial.so.0").parent),
            "VIAL_SHARE": str(one(installed, "vial-init").parent),
            "HOME": "/nonexistent"}


def test_the_example_builds_from_the_installed_files_and_runs(installed, flags, environment,
                                                              tmp_path):
    program = tmp_path / "hello"
    call("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", ROOT / "examples/hello.c", *flags,
         "-o", program)
    assert call(program, env=environment, cwd=tmp_path) == "ok: 4\n"


def test_the_session_example_builds_from_the_installed_files_and_runs(
        installed, flags, environment, tmp_path):
    program = tmp_path / "session"
    call("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", ROOT / "examples/session.c", *flags,
         "-o", program)
    said = call(program, env=environment, cwd=tmp_path).splitlines()
    assert said[:2] == ["3", "ok"]
    assert json.loads(said[3])["value"]["text/plain"] == "6"


def test_the_warm_example_builds_from_the_installed_files_and_runs(
        installed, flags, environment, tmp_path):
    program = tmp_path / "warm"
    call("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", ROOT / "examples/warm.c", *flags,
         "-o", program)
    said = call(program, env=environment, cwd=tmp_path).splitlines()
    assert said[0].startswith("ok, warm, ") and said[0].endswith(": 4")
    shape = json.loads(said[5])["shapes"][0]
    assert shape["taken"] + shape["missed"] == 5
    assert shape["zygote"] or shape["error"]


def test_only_public_headers_are_installed(installed):
    names = sorted(p.name for p in one(installed, "vial.h").parent.iterdir())
    assert names == ["budget.h", "context.h", "engine.h", "error.h", "files.h", "host.h", "keep.h",
                     "plan.h", "request.h", "result.h", "session.h", "vessels.h", "vial.h", "warm.h",
                     "workspace.h"]


def test_the_headers_are_good_cpp(flags, tmp_path):
    if not shutil.which("g++"):
        pytest.skip("no g++ on this host")
    source = tmp_path / "use.cpp"
    source.write_text("#include <vial/vial.h>\n"
                      "int main() { return vial_version() == nullptr; }\n")
    cflags = [f for f in flags if f.startswith("-I")]
    call("g++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
         source, *cflags)


def test_every_exported_symbol_is_declared_in_a_public_header(installed):
    library = one(installed, "libvial.so.0").resolve()
    listed = call("nm", "-D", "--defined-only", library).splitlines()
    exported = {line.split()[-1].split("@")[0] for line in listed}
    headers = "".join(p.read_text() for p in one(installed, "vial.h").parent.iterdir())
    assert exported, "nothing is exported"
    assert not [name for name in exported if name + "(" not in headers]


def test_the_installed_command_runs(installed, environment, tmp_path):
    vial = [p for p in installed.rglob("bin/vial") if p.is_file()][0]
    out = call(vial, "run", "--driver", "process", "bash", "echo installed",
               env=environment, cwd=tmp_path)
    assert out == "installed\n"


def names(root):
    return {str(p.relative_to(root)) for p in root.rglob("*")}


def configured_prefix():
    options = json.loads(call("meson", "introspect", "--buildoptions", BUILD))
    return next(o["value"] for o in options if o["name"] == "prefix")


def test_what_is_installed_below_destdir_is_all_removed_again(tmp_path):
    """Twice, and beside files of others."""
    prefix = configured_prefix()
    theirs = tmp_path / prefix.lstrip("/") / "share/man/man1/other.1"
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    before = names(tmp_path)
    for _ in range(2):
        call(ROOT / "tools/install", BUILD, prefix, env={"DESTDIR": str(tmp_path)})
    assert len(names(tmp_path)) > len(before) + 50
    call(ROOT / "tools/uninstall", prefix, env={"DESTDIR": str(tmp_path)})
    assert names(tmp_path) == before


# The prefix is a new file system here, and what changes in /etc is forgotten.
APART = """
mount -t tmpfs vial "$2" && mount -t tmpfs vial /var/cache && mount -t tmpfs vial /mnt &&
mkdir /mnt/up /mnt/work && mount -t overlay -o lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work vial /etc &&
mkdir "$2/bin" && tools/install "$1" "$2" >&2 && cd / && vial run --driver process bash 'echo installed' &&
cd "$3" && tools/uninstall "$2" && find "$2" -mindepth 1 && find /mnt/up ! -type d ! -name 'ld.so.cache*'
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_is_installed_below_the_prefix_is_all_removed_again():
    prefix = configured_prefix()
    said = call("unshare", "-m", "sh", "-euc", APART, "sh", BUILD, prefix, ROOT, cwd=ROOT,
                env={"PATH": prefix + "/bin:" + os.environ["PATH"]})
    assert said.splitlines() == ["installed", prefix + "/bin"]


def test_who_uninstalls_what_is_not_there_is_told(tmp_path):
    done = subprocess.run([ROOT / "tools/uninstall", tmp_path], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and "nothing was installed there" in done.stderr
