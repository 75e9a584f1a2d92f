# SPDX-License-Identifier: Apache-2.0
"""The source archive and the Debian packages: built, installed, used, upgraded and purged
in bare roots of Debian 12 and 13.

VIAL_BUILD names the directory below which the roots are kept, TEST_PACKAGES the releases.
"""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest
from root import Root, kept

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
BUILD = os.path.abspath(os.environ.get("VIAL_BUILD", os.path.join(ROOT, "build")))
PLACE = os.path.join(BUILD, "packages")
SUITES = os.environ.get("TEST_PACKAGES", "bookworm trixie").split()
OURS = ["vial", "vial-daemon", "libvial0", "libvial-dev"]
EARLIER = "0.0.1"
# The user and its group stay, as Debian's packages leave theirs: a number that belongs to
# somebody's files must not become another's. Lists and logs of dpkg and apt are theirs.
STAYS = re.compile(r"\./(etc/(passwd|group|shadow|gshadow)-?$|etc/\.pwd\.lock$|"
                   r"var/(lib/(dpkg|apt|systemd)|cache|log/(apt|dpkg))\b)")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="roots need root")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def version():
    return re.search(r"version: '(.*)'", read("meson.build"))[1]


def dist(directory):
    done = subprocess.run([os.path.join(ROOT, "tools/dist"), str(directory)], text=True,
                          capture_output=True, check=True)
    return done.stdout.strip()


def test_there_is_one_version():
    """Meson's is the command's, the library's and the archive's."""
    assert read("debian/changelog").startswith("vial (%s) " % version())
    assert re.search(r"^## \[(Unreleased|%s)\]" % re.escape(version()), read("CHANGELOG.md"), re.M)


def test_the_source_archive_is_the_same_twice_and_has_its_checksum(tmp_path):
    first, second = dist(tmp_path / "a"), dist(tmp_path / "b")
    assert os.path.basename(first) == "vial-%s.tar.gz" % version()
    with open(first, "rb") as a, open(second, "rb") as b:
        bytes_ = a.read()
        assert bytes_ == b.read()
    with open(tmp_path / "a/SHA256SUMS", encoding="ascii") as sums:
        assert sums.read().split() == [hashlib.sha256(bytes_).hexdigest(),
                                       os.path.basename(first)]
    with tarfile.open(first) as tar:
        names = {name.split("/", 1)[-1] for name in tar.getnames()}
    listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.splitlines()
    assert set(listed) <= names


def build_depends():
    field = re.search(r"^Build-Depends:\n((?: .*\n)+)", read("debian/control"), re.M)[1]
    names = [re.sub(r" \(.*", "", line.strip(" ,")) for line in field.splitlines()]
    names = [name for name in names if "<" not in name]  # of other builds
    return ["debhelper" if name == "debhelper-compat" else name for name in names]


# An earlier version, from the same tree, whose settings file differs.
EARLIER_BUILD = """
cd "$1"/vial-*
cp debian/changelog /tmp/changelog && cp contrib/vial.yaml /tmp/vial.yaml
sed -i '1s/(.*)/(%s)/' debian/changelog
echo '# of an earlier version' >>contrib/vial.yaml
dpkg-buildpackage -b -us -uc -nc
mkdir ../earlier && mv ../*.deb ../earlier/
cp /tmp/changelog debian/changelog && cp /tmp/vial.yaml contrib/vial.yaml
""" % EARLIER
LATER_BUILD = """
cd "$1"/vial-*
dpkg-buildpackage -b -us -uc -nc
"""


class Packages:
    """Those of one release, and the root in which they are built."""

    def __init__(self, suite):
        tools = ["build-essential", "lintian", "apparmor", "systemd", *build_depends()]
        self.where = os.path.join(PLACE, suite + "-debs")
        self.builder = Root(kept(PLACE, suite, "build", tools), [self.where])
        self.build()

    def build(self):
        """Both versions, unless those of this tree are there."""
        done = os.path.join(self.where, "tree")
        tree = subprocess.run(["git", "ls-tree", "HEAD"], cwd=ROOT, capture_output=True,
                              text=True, check=True).stdout
        tree = "".join(line for line in tree.splitlines(True) if not line.endswith("\ttests\n"))
        if os.path.exists(done) and open(done, encoding="ascii").read() == tree:
            return
        shutil.rmtree(self.where, ignore_errors=True)
        os.makedirs(self.where)
        subprocess.run(["tar", "-xf", dist(self.where), "-C", self.where], check=True)
        for script in (EARLIER_BUILD, LATER_BUILD):
            self.builder.run("sh", "-euc", script, "sh", "/mnt" + self.where)
        with open(done, "w", encoding="ascii") as file:
            file.write(tree)

    def debs(self, names, below=""):
        """Paths in the roots."""
        found = [glob.glob(os.path.join(self.where, below, name + "_*.deb")) for name in names]
        assert all(len(paths) == 1 for paths in found), found
        return ["/mnt" + paths[0] for paths in found]


class Site(Packages):
    """A bare root besides."""

    def __init__(self, suite, root):
        super().__init__(suite)
        subprocess.run(["cp", "-a", kept(PLACE, suite, "bare", []), root], check=True)
        self.root = Root(root, [self.where])

    def install(self, *debs):
        return self.root.run("apt-get", "install", "-y", "-q", "--no-install-recommends", "-o",
                             "Dpkg::Options::=--force-confdef", "-o",
                             "Dpkg::Options::=--force-confold", *debs)


@pytest.fixture(scope="module", params=SUITES)
def site(request):
    root = os.path.join(PLACE, request.param + "-root")
    shutil.rmtree(root, ignore_errors=True)
    yield Site(request.param, root)
    shutil.rmtree(root)


def test_lintian_has_nothing_to_say(site):
    changes = glob.glob(os.path.join(site.where, "vial_%s_*.changes" % version()))
    said = site.builder.sh("lintian --fail-on error,warning --tag-display-limit 0 "
                           "--suppress-tags unreleased-changes /mnt%s" % changes[0])
    assert not re.findall(r"^[EW]: .*", said, re.M), said


def test_the_apparmor_profile_is_one_where_apparmor_knows_its_rule(site):
    has = subprocess.run(["dpkg", "-c", site.debs(["vial"])[0][len("/mnt"):]],
                         capture_output=True, text=True, check=True).stdout
    knows = os.path.exists(site.builder.file("/etc/apparmor.d/abi/4.0"))
    assert ("./etc/apparmor.d/vial" in has) == knows
    if knows:
        shutil.copy(os.path.join(ROOT, "contrib/apparmor.d/vial"), site.where)
        site.builder.sh("apparmor_parser -Q --skip-cache /mnt%s/vial" % site.where)


def test_systemd_understands_the_units(site):
    site.builder.sh("dpkg -i %s %s" % tuple(site.debs(["vial", "vial-daemon"])))
    try:
        assert site.builder.sh("systemd-analyze verify vial.socket vial.service vial-sessions.service "
                               "2>&1") == ""
    finally:
        site.builder.sh("dpkg --purge vial-daemon vial")


HELLO = """
printf '#include <stdio.h>\\n#include <vial/vial.h>\\nint main(void) { puts(vial_version()); }' >/tmp/v.c
cc /tmp/v.c $(pkg-config --cflags --libs vial) -o /tmp/v && /tmp/v; rm /tmp/v /tmp/v.c
"""
# As systemd starts it: the unit's own command, a word when it is ready; then a request.
SERVE = """
import glob, json, os, re, socket, subprocess
told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
told.bind("/tmp/notify")
os.chmod("/tmp/notify", 0o777)
told.settimeout(60)
command = re.search("^ExecStart=(.*)", open("/lib/systemd/system/vial.service").read(), re.M)[1]
daemon = subprocess.Popen(command.split(), env={**os.environ, "NOTIFY_SOCKET": "/tmp/notify"})
while b"READY=1" not in told.recv(4096):
    pass
asked = socket.socket(socket.AF_UNIX)
asked.connect("/run/vial/vial.sock")
body = json.dumps({"language": "python", "code": "print(6 * 7)"})
asked.sendall(("POST /v1/run HTTP/1.0\\r\\nHost: vial\\r\\nContent-Type: application/json"
               "\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body)).encode())
answer = b"".join(iter(lambda: asked.recv(65536), b"")).split(b"\\r\\n\\r\\n", 1)[1]
fronts = set()
for p in glob.glob("/proc/[0-9]*/comm"):
    try:
        if open(p).read() == "viald\\n":
            fronts.add(os.stat(os.path.dirname(p)).st_uid)
    except OSError:
        pass  # it has ended since
daemon.terminate()
print(json.dumps({"result": json.loads(answer), "fronts": sorted(fronts),
                  "ended": daemon.wait()}))
os.unlink("/tmp/notify")
"""


def test_packages_are_installed_used_upgraded_and_purged(site):
    root = site.root
    root.run("apt-get", "update", "-q")
    depends = subprocess.run(["sh", "-c", 'for d; do dpkg-deb -f "$d" Depends; done', "sh",
                              *[d[len("/mnt"):] for d in site.debs(OURS)]],
                             capture_output=True, text=True, check=True).stdout
    others = [d for line in depends.splitlines() for d in line.split(", ")
              if d.split()[0] not in OURS]
    # What the packages need, and what the tests run in vessels, and nothing else.
    root.run("apt-get", "satisfy", "-y", "-q", "--no-install-recommends",
             ", ".join(others + ["python3", "gcc", "libc6-dev", "pkg-config"]))
    before = root.names()

    site.install(*site.debs(OURS, "earlier"))
    assert root.run("dpkg-query", "-W", "-f", "${Version}", "vial") == EARLIER
    settings = root.file("/etc/vial/vial.yaml")
    with open(settings, "a", encoding="utf-8") as file:
        file.write("# my own line\n")
    assert "usr/lib/systemd" in root.sh("readlink -f /lib/systemd/system/vial.service")

    site.install(*site.debs(OURS))
    assert root.run("dpkg-query", "-W", "-f", "${Version}", "vial") == version()
    with open(settings, encoding="utf-8") as file:
        text = file.read()
    assert "# my own line" in text and "# of an earlier version" in text
    assert os.path.exists(settings + ".dpkg-dist")

    assert root.run("vial", "version") == "vial %s\n" % version()
    assert root.run("vial", "run", "python", "print(6 * 7)") == "42\n"
    assert root.run("vial", "run", "python", "print(6 * 7)", user="1000") == "42\n"
    assert root.sh(HELLO) == version() + "\n"
    served = json.loads(root.run("python3", "-c", SERVE).splitlines()[-1])
    result = served["result"]
    assert (result["verdict"], result["stdout"]) == ("ok", "42\n"), served
    assert result["isolation"]["level"] == "namespaces" and served["ended"] == 0
    assert 0 not in served["fronts"] and len(served["fronts"]) == 1, served
    for name in ("man/man1/vial.1.gz", "man/man1/vial-run.1.gz", "zsh/vendor-completions/_vial",
                 "bash-completion/completions/vial", "fish/vendor_completions.d/vial.fish"):
        assert os.path.exists(root.file("/usr/share/" + name)), name

    root.run("apt-get", "remove", "-y", "-q", "--purge", *OURS)
    left = {name for name in root.names() ^ before if not STAYS.match(name)}
    assert not left, sorted(left)
