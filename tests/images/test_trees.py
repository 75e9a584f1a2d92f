# SPDX-License-Identifier: Apache-2.0
"""Trees of images that Debian's registry serves, file by file as podman has them; and what leaves
the store, as podman and umoci read it."""
import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
import worlds
from registries import INDEX, MANIFEST, Debian, Image, entry, folder, tar
from test_archives import CAPABILITY, as_overlay, attribute, described, first, second, third

as_overlay = as_overlay  # a fixture


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    r = Debian(tmp_path_factory.mktemp("registry"))
    yield r
    r.stop()


@pytest.fixture
def podman():
    """podman ARGS, with a store of its own: what it prints."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # podman takes no long paths
        def call(*args):
            done = subprocess.run(["podman", "--root", short + "/p", "--runroot", short + "/r",
                                   "--storage-driver", "vfs", *args], check=False,
                                  capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()
        yield call
        call("rmi", "--all", "--force")


def podmans(podman, *source):
    """The tree of what podman pulls."""
    podman("pull", "-q", *source)
    root = podman("image", "mount", podman("images", "-q"))
    try:
        return described(Path(root))
    finally:
        podman("image", "umount", "--all")


def compare(ours, theirs):
    assert sorted(ours) == sorted(theirs)
    for path in ours:
        assert ours[path] == theirs[path], path


def many():
    """Layers that hide, open and fill the same directories again and again."""
    for i in range(20):
        yield tar(folder("./"), folder("d%d" % (i % 3), mode=0o700 + i), entry("d%d/f%d" % (i % 3, i), b"%d" % i,
                                                                uid=i, gid=2 * i, mode=0o600 + i % 8),
                  *([entry("d%d/.wh.f%d" % (i % 3, i - 3))] if i % 6 == 5 else []),
                  *([entry("d%d/.wh..wh..opq" % (i % 3))] if i % 7 == 6 else []))


KINDS = {"whiteouts": lambda: [first(), second(), third()], "many": lambda: list(many()),
         "marked": lambda: [tar(folder("./"), entry("able", b"x", mode=0o755, **attribute(
             "security.capability", CAPABILITY)), entry("noted", b"", **attribute("user.note", b"k")),
             folder("noted.d", **attribute("user.note", b"d")))]}


@pytest.mark.parametrize("packed", ["gzip", "zstd"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pulled_tree_is_what_podman_makes_of_it(registry, image, podman, as_overlay, kind, packed):
    name = "%s/%s" % (kind, packed)
    rows = []
    for arch in ("arm64", "amd64"):
        layers = KINDS[kind]() if arch == "amd64" else [tar(entry("foreign", b"x"))]
        one = Image(*layers, packed=packed, arch=arch, config={"Env": ["PATH=/opt/bin:/bin"]})
        registry.push(name, one, arch)
        rows.append({"mediaType": MANIFEST, "digest": one.digest, "size": len(one.manifest),
                     "platform": {"os": "linux", "architecture": arch}})
    registry.put(name, "both", json.dumps({"schemaVersion": 2, "mediaType": INDEX,
                                           "manifests": rows}).encode(), INDEX)
    where = "%s/%s:both" % (registry.host, name)
    pulled = image("pull", where)
    assert pulled["env"] == ["PATH=/opt/bin:/bin"]
    compare(as_overlay(pulled), podmans(podman, "--tls-verify=false", where))


MARK = """
import os, struct
open('/etc/marked', 'w').close()
os.chown('/etc/marked', 5, 60)
os.chmod('/etc/marked', 0o2755)
os.setxattr('/etc/marked', 'user.note', b'kept')
os.setxattr('/etc/marked', 'security.capability', struct.pack('<5I', 0x02000001, 1 << 10, 0, 0, 0))
os.remove('/etc/issue')
"""


def test_a_snapshot_keeps_attributes_for_podman_and_umoci(tmp_path, podman):
    world = worlds.World(tmp_path / "home", 0)
    world.bring("debian", worlds.debian())
    start = world.vial("session", "start", "--image", "debian", "--root-mode", "rw", "--user", "root")
    session = start.stdout.strip()
    assert session, start.stderr
    done = world.vial("session", "exec", session, "--", "python3", "-c", MARK)
    assert done.returncode == 0, done.stderr
    name = world.vial("session", "snapshot", session, "marked").stdout.strip()
    world.vial("session", "stop", session)
    file = tmp_path / "out.tar"
    done = world.vial("image", "export", name, "--to", str(file))
    assert done.returncode == 0, done.stderr
    theirs = podmans(podman, "oci-archive:%s" % file)
    layout = tmp_path / "layout"
    layout.mkdir()
    subprocess.run(["tar", "-C", layout, "-xf", file], check=True)
    [row] = json.loads((layout / "index.json").read_text())["manifests"]
    row.setdefault("annotations", {})["org.opencontainers.image.ref.name"] = "laid"
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [row]}))
    subprocess.run(["umoci", "raw", "unpack", "--image", "%s:laid" % layout, tmp_path / "umoci"],
                   check=True, capture_output=True)
    compare(described(tmp_path / "umoci"), theirs)
    marks = theirs["etc/marked"]
    assert marks[1:4] == (0o2755, 5, 60) and "etc/issue" not in theirs
    assert marks[5]["user.note"] == b"kept" and len(marks[5]["security.capability"]) == 20
    world.remove()
