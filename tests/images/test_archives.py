# SPDX-License-Identifier: Apache-2.0
"""Import, export and verify; and trees compared with what others make of the same image."""
import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from registries import Image, entry, folder, hard, link, sha, tar
from worlds import BECOME, RANGED

CAPABILITY = b"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"


def attribute(name, value):
    """Of an extended attribute; a tar's text is UTF-8, and so is each of these values."""
    return {"pax": {"SCHILY.xattr." + name: value.decode()}}


def first():
    return tar(folder("./"), folder("bin"), entry("bin/tool", b"#!", mode=0o4755),
               entry("bin/able", b"x", mode=0o755, **attribute("user.note", b"kept")),
               hard("bin/twin", "bin/tool", mode=0o4755), folder("etc", mode=0o750, uid=5, gid=7),
               entry("etc/shadow", b"secret", mode=0o640, gid=42), entry("etc/gone", b"x"),
               link("lib", "usr/lib"), folder("usr"), folder("usr/lib"), folder("old"),
               entry("old/a", b"1"), folder("tmp", mode=0o1777),
               entry("pipe", type=tarfile.FIFOTYPE, mode=0o622),
               entry("caf\u00e9 \u2603", b"name"), folder("deep/er/and/deeper"))


def second():
    return tar(entry("etc/.wh.gone"), entry("etc/new", b"n", uid=3), folder("old"),
               entry("old/.wh..wh..opq"), entry("old/b", b"2"), hard("bin/three", "bin/tool", mode=0o4755),
               entry("usr/lib/more", b"m"))


def third():
    return tar(entry(".wh.pipe"), entry("bin/tool", b"other", mode=0o755), entry(".wh.usr"))


@pytest.fixture
def archive(tmp_path):
    """An OCI layout, as a directory."""
    def make(made, name="layout"):
        where = tmp_path / name
        (where / "blobs/sha256").mkdir(parents=True)
        for digest, data in {**made.blobs, made.digest: made.manifest}.items():
            (where / "blobs/sha256" / digest[7:]).write_bytes(data)
        (where / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (where / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [
            {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": made.digest,
             "size": len(made.manifest),
             "annotations": {"org.opencontainers.image.ref.name": "laid"}}]}))
        return where
    return make


def mounted(image, where):
    """The image's tree as overlayfs shows it."""
    where.mkdir(parents=True)
    lowers = image["lowers"]
    if len(lowers) == 1:
        subprocess.run(["mount", "--bind", lowers[0], str(where)], check=True)
    else:
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                        "ro,userxattr,lowerdir=" + ":".join(lowers), str(where)], check=True)
    return where


def described(root):
    """What can be seen of each file of a tree."""
    seen = {}
    for top, folders, files in os.walk(root):
        for name in [*folders, *files, "."]:
            path = Path(top) / name
            st = path.lstat()
            kind = stat.S_IFMT(st.st_mode)
            what = b""
            if stat.S_ISREG(st.st_mode):
                what = path.read_bytes()
            elif stat.S_ISLNK(st.st_mode):
                what = os.readlink(path)
            marks = {} if stat.S_ISLNK(st.st_mode) else {
                n: os.getxattr(path, n) for n in os.listxattr(path)
                if not n.startswith(("user.overlay.", "user.rootlesscontainers"))}
            seen[str(path.relative_to(root))] = (kind, stat.S_IMODE(st.st_mode), st.st_uid,
                                                 st.st_gid, what, marks,
                                                 None if kind == stat.S_IFDIR else int(st.st_mtime))
    return seen


@pytest.fixture
def as_overlay(tmp_path):
    places = []

    def show(image):
        places.append(mounted(image, tmp_path / ("mnt%d" % len(places))))
        return described(places[-1])
    yield show
    for place in places:
        subprocess.run(["umount", str(place)], check=True)


def by_umoci(layout, where):
    subprocess.run(["umoci", "raw", "unpack", "--image", "%s:laid" % layout, str(where)], check=True,
                   capture_output=True)
    return described(where)


def test_a_tree_is_what_umoci_makes_of_the_same_image(archive, image, as_overlay, tmp_path):
    made = Image(first(), second(), third())
    layout = archive(made)
    ours = as_overlay(image("import", "a:1", "--from", str(layout)))
    theirs = by_umoci(layout, tmp_path / "umoci")
    assert sorted(ours) == sorted(theirs)
    for path in ours:
        assert ours[path] == theirs[path], path
    assert "etc/gone" not in ours and "old/a" not in ours and "usr" not in ours


@pytest.mark.parametrize("form", ["directory", "tar", "tar.gz"])
def test_a_layout_is_imported_from_a_directory_or_a_tar(archive, image, form, tmp_path):
    made = Image(first(), second())
    where = archive(made)
    if form != "directory":
        file = shutil.make_archive(str(tmp_path / "packed"), form.replace("tar.", "") if form == "tar"
                                   else "gztar", where)
        with open(file, "rb") as stdin:
            got = image("import", stdin=stdin)
    else:
        got = image("import", "--from", str(where))
    assert got["digest"] == made.digest and got["tags"] == ["laid:latest"]


def test_an_import_does_not_call_itself_a_pull(archive, vial):
    done = vial("image", "import", "a:1", "--from", str(archive(Image(first()))))
    assert done.returncode == 0, done.stderr
    assert "Import complete" in done.stderr and "Pull" not in done.stderr


def saved(made, *layers):
    """As `docker save` of old writes it: a layer that comes twice is a link."""
    out = io.BytesIO()
    rows = []
    with tarfile.open(fileobj=out, mode="w") as archive:
        for i, layer in enumerate(layers):
            rows.append("%d/layer.tar" % i)
            info, data = (link(rows[-1], "../%d/layer.tar" % layers.index(layer))
                          if layers.index(layer) < i else entry(rows[-1], layer))
            archive.addfile(info, io.BytesIO(data))
        archive.addfile(*[f(x) for f, x in zip((lambda x: x, io.BytesIO),
                                               entry("config.json", made.config))])
        listed = json.dumps([{"Config": "config.json", "RepoTags": ["old/style:7"],
                              "Layers": rows}]).encode()
        archive.addfile(*[f(x) for f, x in zip((lambda x: x, io.BytesIO),
                                               entry("manifest.json", listed))])
    return out.getvalue()


def test_what_docker_saved_is_imported_from_the_standard_input(image, tmp_path):
    made = Image(first(), second(), second())
    file = tmp_path / "saved.tar"
    file.write_bytes(saved(made, first(), second(), second()))
    with open(file, "rb") as stdin:
        got = image("import", stdin=stdin)
    assert got["id"] == sha(made.config) and got["tags"] == ["old/style:7"]
    assert len(got["layers"]) == 3


def test_the_tar_of_a_root_becomes_an_image(image, tmp_path):
    file = tmp_path / "root.tar"
    file.write_bytes(first())
    got = image("import", "mine:1", "--from", str(file))
    assert got["tags"] == ["mine:1"] and got["env"] == []
    assert (Path(got["lowers"][0]) / "etc/shadow").read_bytes() == b"secret"


def test_an_export_is_imported_again_with_the_same_tree(archive, image, vial, as_overlay, tmp_path):
    before = image("import", "a:1", "--from", str(archive(Image(first(), second(), third(), config={
        "Env": ["A=b"], "Cmd": ["sh"]}))))
    file = tmp_path / "out.tar"
    done = vial("image", "export", "a:1", "--to", str(file))
    assert done.returncode == 0, done.stderr
    image("remove", "a:1")
    after = image("import", "b:1", "--from", str(file))
    assert after["env"] == ["A=b"] and after["cmd"] == ["sh"]
    again = image("import", "a:1", "--from", str(tmp_path / "layout"))
    assert as_overlay(after) == as_overlay(again) and before["digest"] == again["digest"]


def test_an_export_is_read_by_podman(archive, image, vial, tmp_path):
    image("import", "a:1", "--from", str(archive(Image(first(), second()))))
    file = tmp_path / "out.tar"
    assert vial("image", "export", "a:1", "--to", str(file)).returncode == 0
    with tempfile.TemporaryDirectory() as short:  # podman takes no long paths
        podman = ["podman", "--root", short + "/p", "--runroot", short + "/r",
                  "--storage-driver", "vfs"]
        for kind in ("oci-archive", "docker-archive"):
            done = subprocess.run([*podman, "pull", "-q", "%s:%s" % (kind, file)], check=False,
                                  capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        shown = subprocess.run([*podman, "images", "-q"], capture_output=True, text=True, check=True)
        assert shown.stdout.strip()


def test_a_whole_image_verifies_in_silence(archive, vial, image):
    image("import", "a:1", "--from", str(archive(Image(first(), second()))))
    done = vial("image", "verify", "a:1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def touch_mode(fs):
    (fs / "bin/able").chmod(0o777)


def touch_byte(fs):
    file = fs / "etc/shadow"
    before = file.stat()
    file.write_bytes(b"sEcret")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def touch_owner(fs):
    os.chown(fs / "etc/shadow", 9, 42)


def touch_attribute(fs):
    os.setxattr(fs / "bin/able", "user.note", b"Kept")


def touch_link(fs):
    before = (fs / "lib").lstat()
    (fs / "lib").unlink()
    (fs / "lib").symlink_to("usr/lob")
    os.utime(fs / "lib", ns=(before.st_atime_ns, before.st_mtime_ns), follow_symlinks=False)


@pytest.mark.parametrize("spoil, found", [
    (touch_mode, "changed bin/able"), (touch_byte, "changed etc/shadow"),
    (touch_owner, "changed etc/shadow"), (touch_attribute, "changed bin/able"),
    (touch_link, "changed lib"), (lambda fs: (fs / "bin/able").unlink(), "missing bin/able"),
    (lambda fs: (fs / "etc/x").write_text(""), "added etc/x"),
], ids=["mode", "byte", "owner", "attribute", "link", "missing", "added"])
def test_verify_finds_every_change(archive, vial, image, spoil, found):
    got = image("import", "a:1", "--from", str(archive(Image(first(), second()))))
    spoil(Path(got["lowers"][-1]))
    done = vial("image", "verify", "a:1")
    assert done.returncode == 1
    assert "layer %.12s: %s" % (got["layers"][0], found) in done.stdout.splitlines()


@pytest.mark.parametrize("file", ["manifest", "config", "record"])
def test_verify_finds_a_changed_description(archive, vial, image, store, file):
    got = image("import", "a:1", "--from", str(archive(Image(first(), config={"Env": ["AAA=b"]}))))
    path = store / "images" / got["digest"][7:] / file
    text = path.read_bytes()
    path.write_bytes(text.replace(b"AAA=b", b"AAA=c") if b"AAA" in text else text + b" ")
    done = vial("image", "verify", "a:1")
    assert done.returncode == 1 and "changed" in done.stdout


def test_an_ordinary_user_owns_what_is_unpacked_and_exports_whose_it_was(tmp_path, env):
    work = tmp_path / "user"
    work.mkdir()
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    os.chown(work, 1000, 1000)
    (work / "root.tar").write_bytes(first())
    stage = tmp_path / "stage"
    stage.mkdir(mode=0o755)
    build = Path(os.path.abspath(os.environ.get("VIAL", Path(__file__).parents[2] / "build/vial"))).parent
    for part in ("vial", "vial-image", "vial-init"):
        shutil.copy(build / part, stage)
    for part in ("runtimes", "presets", "seccomp"):
        shutil.copytree(build / part, stage / part, ignore=shutil.ignore_patterns("*.p"))
    own = {**env, "VIAL_IMAGES": str(work / "store"), "HOME": str(work), "RANGE": "none"}

    def vial(*args):
        done = subprocess.run([RANGED, *BECOME, str(stage / "vial"), "image", *args], cwd="/", env=own,
                              check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout
    got = json.loads(vial("import", "u:1", "--from", str(work / "root.tar"), "--json"))
    assert got["owners_kept"] is False
    root = Path(got["lowers"][0])
    assert {p.lstat().st_uid for p in root.rglob("*")} == {1000}
    assert stat.S_IMODE((root / "bin/tool").stat().st_mode) == 0o755  # no setuid
    vial("export", "u:1", "--to", str(work / "out.tar"))
    with tarfile.open(work / "out.tar") as outer:
        [layer] = json.load(outer.extractfile("manifest.json"))[0]["Layers"]
        with tarfile.open(fileobj=outer.extractfile(layer)) as inner:
            shadow, tool = inner.getmember("etc/shadow"), inner.getmember("bin/tool")
    assert (shadow.uid, shadow.gid, shadow.mode) == (0, 42, 0o640)
    assert tool.mode == 0o4755
    assert vial("verify", "u:1") == ""
