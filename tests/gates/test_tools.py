# SPDX-License-Identifier: Apache-2.0
"""The tools of the tree, when they are only asked what they are; and the order of what
the guide tells."""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["build", "coverage", "deb", "deps", "dist", "dist-clients", "fuzz",
         "gen-clients", "gen-errors", "gen-manifests", "helm-render", "install", "lint",
         "requirements", "rooms", "soak", "test", "trace", "uninstall"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_is_asked_for_help_does_nothing_else(tool, tmp_path):
    """Each would otherwise build, install or test for minutes."""
    before = {p.name for p in ROOT.iterdir()}
    done = subprocess.run([ROOT / "tools" / tool, "--help"], capture_output=True, text=True,
                          cwd=tmp_path, env={"PATH": os.environ["PATH"]}, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout and len(done.stdout) < 1000
    assert {p.name for p in ROOT.iterdir()} == before and not list(tmp_path.iterdir())


@pytest.mark.parametrize("args,said", [(["lint", "src"], "'src' is no C source"),
                                       (["test", "build", "e3e"], "there is no lane 'e3e'")])
def test_a_tool_that_is_called_wrongly_says_so_before_it_works(args, said):
    done = subprocess.run([ROOT / "tools" / args[0], *args[1:]], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode and said in done.stderr


def packages(*whos):
    """Debian's names in tools/packages, the first of each line."""
    rows = [line.split() for line in (ROOT / "tools/packages").read_text().splitlines()
            if line and not line.startswith("#")]
    return [row[1].split("|")[0] for row in rows if row[0] in whos and row[1] != "-"]


@pytest.fixture
def deps(tmp_path):
    """tools/deps, run by an ordinary user of a Debian that has those packages. Whatever
    would ask or install, fails and says so."""
    def run(installed, *args):
        stubs = {"id": "echo 1000", "dpkg-query": "printf 'installed %%s\\n' %s" % " ".join(installed)}
        for name in ("sudo", "apt-get", "apt-cache"):
            stubs[name] = "echo STUB %s >&2; exit 1" % name
        for name, text in stubs.items():
            (tmp_path / name).write_text("#!/bin/sh\n%s\n" % text)
            (tmp_path / name).chmod(0o755)
        return subprocess.run([ROOT / "tools/deps", *args], capture_output=True, text=True,
                              env={"PATH": "%s:/usr/bin:/bin" % tmp_path}, check=False)
    if "debian" not in Path("/etc/os-release").read_text():
        pytest.skip("this is no Debian")
    return run


def test_who_has_what_building_needs_is_asked_for_nothing(deps):
    """`make run`, `build` and `install` stand on it; what tests need is not their matter."""
    done = deps(packages("build"), "build")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    makefile = (ROOT / "Makefile").read_text()
    assert "\nrun: build " in makefile and "\nbuild: deps " in makefile
    assert "\ninstall: build " in makefile and "\ndeps: ##" in makefile


def test_a_package_that_is_missing_is_asked_for(deps):
    done = deps(packages("build")[1:], "build")
    assert done.returncode and "STUB sudo" in done.stderr and "apt-get update" in done.stderr


def test_a_lane_asks_for_its_own_packages_alone(deps):
    there = packages("build", "test", "most")
    assert deps(there, "test", "e2e").stderr == ""
    assert "STUB" in deps(there, "test", "e2e", "page").stderr
    assert "STUB" in deps(there, "test").stderr
    assert deps(there + ["chromium", "npm"], "test", "page").stderr == ""


def test_short_lanes_ask_for_no_languages(deps):
    there = packages("build", "test")
    assert "rustc" not in there and deps(there, "test", "gates", "smoke").stderr == ""
    assert "STUB" in deps(there, "test", "smoke", "e2e").stderr


def test_making_packages_asks_for_what_their_control_file_says(deps):
    """`make deb` and `make image` stand on it; `make run` and `make test` want none of it."""
    field = re.search(r"^Build-Depends:\n((?: .*\n)+)", (ROOT / "debian/control").read_text(), re.M)[1]
    wanted = [re.sub(r" \(.*", "", line.strip(" ,")) for line in field.splitlines() if "<" not in line]
    there = packages("build", "deb,image")
    assert {"debhelper" if n == "debhelper-compat" else n for n in wanted} <= set(there)
    assert deps(there, "build", "deb").stderr == ""
    assert "STUB" in deps(packages("build"), "build", "deb").stderr
    assert "STUB" in deps(there, "build", "image").stderr
    assert deps(there + ["mmdebstrap"], "build", "image").stderr == ""
    everything = [row.split()[1].split("|")[0] for row in (ROOT / "tools/packages").read_text().splitlines()
                  if row and not row.startswith(("#", "deb,image"))]
    assert deps(everything, "test").stderr == ""
    makefile = (ROOT / "Makefile").read_text()
    assert "\ndeb: deps-deb " in makefile and "\nimage: deps-image deb " in makefile


# The column of tools/packages, what tells the installed ones, and what installs.
OTHERS = {"fedora": (2, "rpm", "dnf"), "rocky": (2, "rpm", "dnf"), "alpine": (3, "apk", "apk")}


@pytest.mark.parametrize("distribution", OTHERS)
def test_other_distributions_are_asked_for_their_own_names(distribution, tmp_path):
    column, tells, installs = OTHERS[distribution]
    rows = [line.split() for line in (ROOT / "tools/packages").read_text().splitlines()
            if line.startswith("build ")]
    names = [row[column] for row in rows if row[column] != "-"]
    (tmp_path / "os-release").write_text('ID=%s\nID_LIKE="%s"\n' % (
        distribution, "rhel fedora" if distribution == "rocky" else ""))

    def asked(installed):
        (tmp_path / "asked").write_text("")
        tell = "case $* in -qa*|'info -q') printf '%%s\\n' %s; exit;; esac\n" % " ".join(installed)
        ask = "echo %s \"$@\" >>%s/asked; echo found\n" % (installs, tmp_path)
        for name, text in (("id", "echo 0\n"), (installs, ask), (tells, tell + ask)):
            (tmp_path / name).write_text("#!/bin/sh\n" + text)
            (tmp_path / name).chmod(0o755)
        done = subprocess.run([ROOT / "tools/deps", "build"], capture_output=True, text=True,
                              env={"PATH": "%s:/usr/bin:/bin" % tmp_path,
                                   "OS_RELEASE": str(tmp_path / "os-release")}, check=False)
        assert done.returncode == 0, done.stderr
        return (tmp_path / "asked").read_text().splitlines()

    assert asked(names) == []
    last = asked(names[:1])[-1].split()
    assert last[0] == installs and names[0] not in last
    assert set(names[1:]) <= set(last) and "-" not in last


def test_the_guide_tells_of_the_commands_in_the_order_of_the_help():
    commands = re.findall(r"^COMMAND\((\w+)\)", (ROOT / "src/cli/commands.def").read_text(), re.M)
    told = [word for row in re.findall(r"^\| \[.*\| (.*) \|$", (ROOT / "docs/README.md").read_text(),
                                       re.M)
            for word in re.findall(r"`(\w+)`", row) if word in commands]
    assert told == [name for name in commands if name in told]
    assert set(commands) - set(told) == {"completion", "help", "version"}
