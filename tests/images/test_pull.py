# SPDX-License-Identifier: Apache-2.0
"""Pulls from Debian's own registry."""
import json
import os
import stat
from pathlib import Path

import pytest
from registries import (Debian, Handmade, Image, INDEX, MANIFEST, entry, folder, hard, link, sha,
                        tar)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    r = Debian(tmp_path_factory.mktemp("registry"))
    yield r
    r.stop()


def base():
    return tar(folder("bin"), entry("bin/a", b"one", mode=0o4755),
               folder("etc", mode=0o750, uid=5, gid=7), entry("etc/passwd", b"root\n"),
               entry("etc/gone", b"x"), folder("d"), entry("d/old", b"1"), link("l", "/etc/passwd"),
               folder("tmp", mode=0o1777))


def tree(image, path):
    """Where PATH of an image lies: the topmost layer that has it."""
    for lower in image["lowers"]:
        found = Path(lower) / path
        if os.path.lexists(found):
            return found
    raise FileNotFoundError(path)


@pytest.mark.parametrize("packed", ["", "gzip", "zstd"])
def test_an_image_is_pulled_whatever_packs_its_layers(registry, image, packed):
    made = Image(base(), packed=packed, config={"Env": ["PATH=/opt/bin", "A=b c"], "User": "5:7",
                                                 "WorkingDir": "/srv", "Cmd": ["sh", "-c"],
                                                 "Entrypoint": ["/bin/a"]})
    name = registry.push("kind/%s" % (packed or "plain"), made)
    pulled = image("pull", name)
    assert pulled["digest"] == made.digest and pulled["id"] == sha(made.config)
    assert pulled["env"] == ["PATH=/opt/bin", "A=b c"] and pulled["cwd"] == "/srv"
    assert pulled["user"] == "5:7"
    assert pulled["entrypoint"] == ["/bin/a"] and pulled["cmd"] == ["sh", "-c"]
    assert tree(pulled, "bin/a").read_bytes() == b"one"
    assert stat.S_IMODE(tree(pulled, "tmp").stat().st_mode) == 0o1777
    assert os.readlink(tree(pulled, "l")) == "/etc/passwd"
    assert [i["tags"] for i in image("list")] == [[name]]


def test_a_pull_prints_what_other_commands_take(registry, vial):
    made = Image(base())
    pulled = vial("image", "pull", registry.push("printed", made))
    assert pulled.stdout == made.digest + "\n" and "Pull complete" in pulled.stderr
    assert vial("image", "inspect", pulled.stdout.strip()).returncode == 0
    assert vial("image", "remove", pulled.stdout.strip()).returncode == 0


def test_layers_hide_what_they_should_and_keep_the_rest(registry, image):
    upper = tar(entry("etc/.wh.gone"), entry("etc/new", b"n"), folder("d"), entry("d/.wh..wh..opq"),
                entry("d/new", b"2"), entry(".wh.never"), hard("bin/b", "bin/a"))
    pulled = image("pull", registry.push("layers", Image(base(), upper)))
    top = Path(pulled["lowers"][0])
    gone = (top / "etc/gone").lstat()
    assert stat.S_ISCHR(gone.st_mode) and gone.st_rdev == 0
    assert os.getxattr(top / "d", "user.overlay.opaque") == b"y"
    assert not os.path.lexists(top / "never")
    # A directory that the layer has no entry for is as it is below.
    etc = (top / "etc").stat()
    assert (stat.S_IMODE(etc.st_mode), etc.st_uid, etc.st_gid) == (0o750, 5, 7)
    assert (top / "bin/b").read_bytes() == b"one"
    assert stat.S_IMODE((top / "bin/b").stat().st_mode) == 0o4755


def test_of_an_index_the_manifest_for_this_platform_is_taken(registry, image, vial):
    made = {arch: Image(tar(entry("which", arch.encode())), arch=arch) for arch in ("arm64", "amd64")}
    rows = []
    for arch, one in made.items():
        registry.push("many", one, arch)
        rows.append({"mediaType": MANIFEST, "digest": one.digest, "size": len(one.manifest),
                     "platform": {"os": "linux", "architecture": arch}})
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": rows}).encode()
    registry.put("many", "both", index, INDEX)
    pulled = image("pull", registry.host + "/many:both")
    assert tree(pulled, "which").read_bytes() == b"amd64"
    pinned = "%s/many@%s" % (registry.host, sha(index))
    assert image("pull", pinned)["digest"] == made["amd64"].digest
    assert json.loads(vial("image", "inspect", pinned).stdout)["digest"] == made["amd64"].digest
    done = vial("image", "pull", registry.host + "/many:arm64")
    assert "pull image '%s/many:arm64': it is not made for linux/amd64" % registry.host in done.stderr
    assert "it is for linux/arm64" in done.stderr


def test_a_layer_that_is_here_is_not_fetched_again(registry, image, vial):
    image("pull", registry.push("shared", Image(base()), "1"))
    done = vial("image", "pull", registry.push("shared", Image(base(), tar(entry("x", b"y"))), "2"))
    assert "Already exists" in done.stderr and done.returncode == 0


def test_a_digest_that_is_another_images_is_refused(registry, vial, store):
    registry.push("pinned", Image(base()))
    wrong = "%s/pinned@sha256:%s" % (registry.host, "0" * 64)
    done = vial("image", "pull", wrong)
    assert done.returncode == 125 and "the registry has no such image" in done.stderr
    assert not list((store / "images").iterdir())


def test_a_name_without_a_registry_says_what_to_do(vial):
    done = vial("image", "pull", "python:3.12")
    assert done.stderr == (
        "vial: error: pull image 'python:3.12': the image 'python' names no registry [VIAL-IMAGE]; "
        "write 'HOST/python', or name a registry in the settings: 'images: {registry: HOST}'\n")


def test_settings_name_the_registry_of_short_names_and_its_mirrors(registry, image, tmp_path):
    registry.push("library/short", Image(base()), "1")
    file = tmp_path / "vial.yaml"
    file.write_text("images: {registry: %s/library}\n" % registry.host)
    assert image("pull", "short:1", VIAL_CONFIG=str(file))["tags"] == ["short:1"]
    file.write_text("images: {registry: nowhere.invalid/library, mirrors: [nowhere.invalid=%s]}\n"
                    % registry.host)
    pulled = image("pull", "short:1", VIAL_CONFIG=str(file))
    assert pulled["tags"] == ["short:1"]


def test_a_password_comes_from_dockers_config_or_its_helper(tmp_path, image, vial):
    made = Image(base())

    def bend(handler, _path):
        if handler.headers.get("Authorization") == "Basic YW5uOm9wZW4gc2VzYW1l":
            return False
        handler.send(401, WWW_Authenticate='Basic realm="x"')
        return True
    registry = Handmade(made, bend)
    name = registry.host + "/private:1"
    done = vial("image", "pull", name)
    assert "the registry denies it" in done.stderr and "docker login" in done.stderr
    docker = tmp_path / "docker"
    docker.mkdir()
    (docker / "config.json").write_text(json.dumps(
        {"auths": {registry.host: {"auth": "YW5uOm9wZW4gc2VzYW1l"}}}))
    assert image("pull", name, DOCKER_CONFIG=str(docker))["digest"] == made.digest
    helper = tmp_path / "docker-credential-safe"
    helper.write_text("#!/bin/sh\nread host\n[ \"$host\" = %s ] && "
                      "echo '{\"Username\":\"ann\",\"Secret\":\"open sesame\"}'\n" % registry.host)
    helper.chmod(0o755)
    (docker / "config.json").write_text(json.dumps({"credHelpers": {registry.host: "safe"}}))
    path = "%s:%s" % (tmp_path, os.environ["PATH"])
    assert image("remove", name)["removed"] == 1
    assert image("pull", name, DOCKER_CONFIG=str(docker), PATH=path)["digest"] == made.digest
    registry.stop()


def test_a_bearer_token_is_asked_for_once_per_repository(image):
    made = Image(base())

    def bend(handler, path):
        if path.startswith("/token?"):
            assert "scope=repository%3Aown%2Fthing%3Apull" in path
            handler.send(200, b'{"token": "t0k3n"}')
            return True
        if handler.headers.get("Authorization") == "Bearer t0k3n":
            return False
        handler.send(401, WWW_Authenticate='Bearer realm="http://%s/token",service="s"' % registry.host)
        return True
    registry = Handmade(made, bend)
    assert image("pull", registry.host + "/own/thing:1")["digest"] == made.digest
    assert sum(path.startswith("/token") for path, _ in registry.seen) == 1
    registry.stop()


def test_a_transfer_that_breaks_goes_on_where_it_stopped(image):
    data = os.urandom(1 << 20)
    made = Image(tar(entry("big", data)), packed="")
    [blob] = [d for d in made.blobs if len(made.blobs[d]) > 1 << 20]
    asked = []

    def bend(handler, path):
        if not path.endswith(blob):
            return False
        asked.append(handler.headers.get("Range"))
        begin = int(asked[-1][len("bytes="):-1]) if asked[-1] else 0
        piece = made.blobs[blob][begin:]
        if len(asked) < 4:
            handler.send_response(206 if begin else 200)
            handler.send_header("Content-Length", str(len(piece)))
            handler.end_headers()
            handler.wfile.write(piece[:200000])
            handler.wfile.flush()
            handler.connection.close()
            handler.close_connection = True
        else:
            handler.send(206, piece)
        return True
    registry = Handmade(made, bend)
    pulled = image("pull", registry.host + "/breaks:1", VIAL_RETRIES="5", VIAL_RETRY_WAIT="1ms")
    assert tree(pulled, "big").read_bytes() == data
    assert asked[0] is None and len(asked) == 4 and all(asked[1:])
    registry.stop()


def test_a_registry_that_is_busy_is_asked_again(image):
    made, times = Image(base()), []

    def bend(handler, path):
        times.append(path)
        if len(times) > 2:
            return False
        handler.send(503 if len(times) == 1 else 429)
        return True
    registry = Handmade(made, bend)
    pulled = image("pull", registry.host + "/busy:1", VIAL_RETRIES="3", VIAL_RETRY_WAIT="1ms")
    assert pulled["digest"] == made.digest
    registry.stop()


def test_a_removed_image_leaves_nothing_and_shared_layers_stay(registry, image, vial, store):
    one = registry.push("rm", Image(base()), "1")
    two = registry.push("rm", Image(base(), tar(entry("x", b"y"))), "2")
    image("pull", one)
    image("pull", two)
    assert len(list((store / "layers").iterdir())) == 2
    assert image("remove", two)["removed"] == 1
    assert len(list((store / "layers").iterdir())) == 1
    assert image("remove", one)["removed"] == 1
    assert not list((store / "layers").iterdir()) and not list((store / "images").iterdir())
    assert not list((store / "names").iterdir()) and not list((store / "tmp").iterdir())
    assert "there is no image '%s' here" % one in vial("image", "remove", one).stderr


def test_pruning_takes_what_is_nameless_old_or_too_much(registry, image, store):
    names = []
    for i in range(3):
        names.append(registry.push("prune", Image(tar(entry("x", b"%d" % i * 100000))), str(i)))
        image("pull", names[-1])
        folder_ = store / "images" / image("inspect", names[-1])["digest"][7:]
        os.utime(folder_, (1000 + i, 1000 + i))
    registry.push("prune", Image(tar(entry("x", b"other"))), "2")
    image("pull", names[2])  # the name goes to another image
    assert image("prune")["removed"] == 1
    left = sorted(i["tags"][0] for i in image("list"))
    assert left == names
    for name in names[:2]:
        os.utime(store / "images" / image("inspect", name)["digest"][7:], (1000, 1000))
    assert image("prune", "--max-size", "150k")["removed"] == 1
    assert image("prune", "--unused-for", "1h")["removed"] == 1
    assert [i["tags"] for i in image("list")] == [[names[2]]]
    assert image("prune", "--all")["removed"] == 1
    assert not list((store / "layers").iterdir())
