# SPDX-License-Identifier: Apache-2.0
"""Images and registries that mean ill: each gives a clear error with the image's name, and
nothing of it is in the store, or anywhere."""
import gzip
import os
import tarfile
import time
from pathlib import Path

import pytest
from registries import Handmade, Image, entry, folder, hard, link, sha, tar, zstd

SMALL = "images: {max_size: 20m, max_files: 1000}\n"


@pytest.fixture
def bounded(tmp_path):
    file = tmp_path / "vial.yaml"
    file.write_text(SMALL)
    return {"VIAL_CONFIG": str(file), "VIAL_RETRIES": "0"}


@pytest.fixture
def serve():
    servers = []

    def start(image, bend=None):
        servers.append(Handmade(image, bend))
        return servers[-1]
    yield start
    for server in servers:
        server.stop()


def is_clean(store):
    return not any(list((store / room).iterdir()) for room in ("names", "images", "layers", "tmp")
                   if (store / room).exists())


def sparse(size):
    """A file of SIZE bytes, none of which is there: a pax sparse file."""
    info = tarfile.TarInfo("big")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                        "GNU.sparse.name": "big", "GNU.sparse.realsize": str(size)}
    data = b"0\n".ljust(512, b"\0")
    info.size = len(data)
    return info, data


def many(count):
    return tar(*[entry("f%d" % i) for i in range(count)])


def claims(size):
    """A tar whose header says SIZE, and that ends."""
    info, _ = entry("big")
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


BAD = {
    "dots": (tar(entry("a/../../x", b"1")), "the entry 'a/../../x' leads out of the image"),
    "dots alone": (tar(entry("..", b"1")), "the entry '..' leads out of the image"),
    "through a link out": (tar(link("a", "/etc"), entry("a/passwd", b"1")),
                           "the entry 'a' is gone through, and is not a directory"),
    "through a loop": (tar(link("a", "b"), link("b", "a"), entry("a/x", b"1")),
                       "the entry 'a' is gone through, and is not a directory"),
    "through a link beside": (tar(link("a", "../../.."), entry("a/x", b"1")),
                              "the entry 'a' is gone through, and is not a directory"),
    "hard link out": (tar(hard("h", "../../etc/passwd")),
                      "the entry '../../etc/passwd' leads out of the image"),
    "hard link to the host": (tar(hard("h", "/etc/hostname")),
                              "the entry 'h' is a hard link to what is no file of the image"),
    "hard link through a link": (tar(link("l", "/etc"), hard("h", "l/passwd")),
                                 "the entry 'h' is a hard link to what is no file of the image"),
    "device": (tar(entry("sda", type=tarfile.BLKTYPE, devmajor=8, devminor=0)),
               "the entry 'sda' is a device"),
    "memory": (tar(entry("dev/mem", type=tarfile.CHRTYPE, devmajor=1, devminor=1)),
               "the entry 'dev/mem' is a device"),
    "whiteout by hand": (tar(entry("etc", type=tarfile.CHRTYPE, devmajor=0, devminor=0)),
                         "the entry 'etc' is a device"),
    "whiteout of above": (tar(folder("a"), entry("a/.wh...")),
                          "the entry 'a/.wh...' would hide the directory that it is in, or above"),
    "whiteout of itself": (tar(folder("a"), entry("a/.wh..")),
                           "the entry 'a/.wh..' would hide the directory that it is in, or above"),
    "whiteout of all": (tar(entry(".wh..wh..opq")),
                        "the entry '.wh..wh..opq' would hide the whole image below"),
    "too many files": (many(1001), "it has more files than an image may have (max_files)"),
    "a sparse file of 100 TB": (tar(sparse(100 << 40)),
                                "its files are larger than an image may be (max_size)"),
    "a size that is a lie": (claims(1 << 40), "its files are larger than an image may be (max_size)"),
    "an owner beyond": (tar(entry("x", uid=70000)), "the entry 'x' has an owner beyond 65535"),
    "deep": (tar(folder("/".join("d" * 300))), "has too long a path"),
    "cut": (tar(entry("x", b"1" * 5000))[:2000], "a layer is not a valid archive"),
    "no tar": (b"this is no tar at all" * 100, "a layer is not a valid archive"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_hostile_layer_is_refused_and_leaves_nothing(name, serve, vial, store, bounded):
    layer, why = BAD[name]
    good = tar(folder("etc"), entry("etc/passwd", b"root"))
    registry = serve(Image(good, layer))
    done = vial("image", "pull", registry.host + "/bad:1", **bounded)
    assert done.returncode == 125
    assert "pull image '%s/bad:1': " % registry.host in done.stderr, done.stderr
    assert why in done.stderr and "[VIAL-IMAGE-BAD]" in done.stderr, done.stderr
    assert is_clean(store)
    assert Path("/etc/passwd").read_bytes() != b"1" and not Path("/x").exists()


PACKED = {
    "a gzip bomb": (lambda d: gzip.compress(d), "a layer unpacks to more than the image may have"),
    "a zstd bomb": (zstd, "a layer unpacks to more than the image may have"),
    "a gzip that is cut": (lambda d: gzip.compress(d[:1 << 20])[:-2000 or None][:500],
                           "a layer is not a valid archive"),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_hostile_packing_is_refused_and_leaves_nothing(name, serve, vial, store, bounded):
    pack, why = PACKED[name]
    plain = tar(entry("x", b"1")) + bytes(64 << 20)
    registry = serve(Image((plain, pack(plain))))
    done = vial("image", "pull", registry.host + "/bomb:1", **bounded)
    assert "pull image '%s/bomb:1': %s" % (registry.host, why) in done.stderr, done.stderr
    assert is_clean(store)


def with_attribute(name):
    return tar(folder("d", pax={"SCHILY.xattr." + name: "/../../etc"}))


@pytest.mark.parametrize("name", ["trusted.overlay.redirect", "user.overlay.redirect",
                                  "user.overlay.opaque", "trusted.overlay.opaque"])
def test_attributes_of_overlayfs_are_never_an_images_to_set(name, serve, image, bounded):
    got = image("pull", serve(Image(with_attribute(name))).host + "/x:1", **bounded)
    assert os.listxattr(Path(got["lowers"][0]) / "d") == []


def test_devices_that_every_root_has_are_left_out(serve, image, bounded):
    layer = tar(folder("dev"), entry("dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3))
    got = image("pull", serve(Image(layer)).host + "/x:1", **bounded)
    assert list((Path(got["lowers"][0]) / "dev").iterdir()) == []


def test_a_layer_with_another_digest_is_refused(serve, vial, store, bounded):
    made = Image(tar(entry("x", b"1" * 1000)), packed="")
    [blob] = [d for d, data in made.blobs.items() if len(data) > 5000]
    made.blobs[blob] = made.blobs[blob].replace(b"1" * 1000, b"2" * 1000)
    done = vial("image", "pull", serve(made).host + "/lie:1", **bounded)
    assert "a layer came with another digest" in done.stderr and is_clean(store)


def test_a_content_that_the_config_does_not_say_is_refused(serve, vial, store, bounded):
    plain = tar(entry("x", b"1"))
    done = vial("image", "pull", serve(Image((tar(entry("x", b"2")), gzip.compress(plain)))).host
                + "/lie:1", **bounded)
    assert "a layer has another content than its config says" in done.stderr and is_clean(store)


def test_a_manifest_that_was_pinned_and_is_another_is_refused(serve, vial, store, bounded):
    done = vial("image", "pull", "%s/lie@sha256:%s" % (serve(Image(tar(entry("x")))).host, "0" * 64),
                **bounded)
    assert "its manifest came with another digest" in done.stderr and is_clean(store)


def test_a_manifest_without_end_is_refused_early(serve, vial, store, bounded):
    sent = []

    def bend(handler, path):
        if "/manifests/" not in path:
            return False
        handler.send_response(200)
        handler.send_header("Content-Length", str(1 << 30))
        handler.end_headers()
        while len(sent) < 1 << 10:
            handler.wfile.write(bytes(1 << 20))
            sent.append(1)
        return True
    registry = serve(Image(tar(entry("x"))), bend)
    done = vial("image", "pull", registry.host + "/endless:1", **bounded)
    assert "get its manifest from '%s'" % registry.host in done.stderr
    assert "it is larger than it may be" in done.stderr
    assert len(sent) < 100 and is_clean(store)


@pytest.mark.parametrize("size, why", [(30 << 20, "its layers are larger than 20971520 bytes"),
                                       (-1, "a layer has no size")])
def test_sizes_that_a_manifest_claims_are_bounded(serve, vial, store, bounded, size, why):
    made = Image(tar(entry("x")))
    old = made.layers[0]["size"]
    made.manifest = made.manifest.replace(b'"size": %d' % old, b'"size": %d' % size, 1)
    done = vial("image", "pull", serve(made).host + "/size:1", **bounded)
    assert why in done.stderr and is_clean(store)


def test_more_bytes_than_the_manifest_says_are_not_taken(serve, vial, store, bounded):
    made = Image(tar(entry("x", os.urandom(100000))), packed="")
    old = made.layers[0]["size"]
    made.manifest = made.manifest.replace(b'"size": %d' % old, b'"size": %d' % 1000, 1)
    done = vial("image", "pull", serve(made).host + "/more:1", **bounded)
    assert "it is larger than it may be" in done.stderr and is_clean(store)


def test_a_registry_that_stalls_is_left_in_time(serve, vial, store, bounded):
    def bend(handler, path):
        if "/blobs/" not in path:
            return False
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.wfile.flush()
        end = time.monotonic() + 60
        while time.monotonic() < end and not handler.connection._closed:
            time.sleep(0.1)
        return True
    registry = serve(Image(tar(entry("x"))), bend)
    done = vial("image", "pull", "--timeout", "1s", registry.host + "/stall:1", **bounded)
    assert "pull image '%s/stall:1': it takes longer than 1000 ms" % registry.host in done.stderr
    assert "[VIAL-PULL-TIMEOUT]" in done.stderr and is_clean(store)


def test_a_redirect_takes_no_credentials_along(serve, vial, image, bounded, tmp_path):
    made = Image(tar(entry("x", b"1")))
    other = serve(made)

    def bend(handler, path):
        if handler.headers.get("Authorization") != "Basic YTpi":
            handler.send(401, WWW_Authenticate='Basic realm="x"')
            return True
        if "/blobs/" in path:
            handler.send(307, Location="http://%s%s" % (other.host, path))
            return True
        return False
    registry = serve(made, bend)
    (tmp_path / "config.json").write_text('{"auths": {"%s": {"auth": "YTpi"}}}' % registry.host)
    image("pull", registry.host + "/moved:1", DOCKER_CONFIG=str(tmp_path), **bounded)
    assert other.seen and not any("Authorization" in headers for _, headers in other.seen)


def test_a_place_of_tokens_elsewhere_gets_no_password(serve, vial, bounded, tmp_path):
    made = Image(tar(entry("x", b"1")))
    thief = serve(made, lambda handler, path: handler.send(200, b'{"token": "t"}') or True)

    def bend(handler, path):
        handler.send(401, WWW_Authenticate='Bearer realm="http://%s/token"'
                     % thief.host.replace("127.0.0.1", "localhost"))
        return True
    registry = serve(made, bend)
    (tmp_path / "config.json").write_text('{"auths": {"%s": {"auth": "YTpi"}}}' % registry.host)
    vial("image", "pull", registry.host + "/x:1", DOCKER_CONFIG=str(tmp_path), **bounded)
    assert thief.seen and not any("Authorization" in headers for _, headers in thief.seen)


def test_a_redirect_without_end_is_left(serve, vial, store, bounded):
    def bend(handler, path):
        handler.send(302, Location=path + "x")
        return True
    done = vial("image", "pull", serve(Image(tar(entry("x"))), bend).host + "/x:1", **bounded)
    assert "the registry leads from place to place" in done.stderr and is_clean(store)


def test_a_redirect_to_the_metadata_service_is_refused(serve, vial, store, bounded):
    def bend(handler, path):
        handler.send(302, Location="http://169.254.169.254/latest")
        return True
    done = vial("image", "pull", serve(Image(tar(entry("x"))), bend).host + "/x:1", **bounded)
    assert "the registry leads to a private address" in done.stderr and is_clean(store)


def test_an_env_beyond_the_bounds_is_refused_when_it_comes(serve, vial, store, bounded):
    made = Image(tar(entry("x")), config={"Env": ["A%d=b" % i for i in range(300)]})
    done = vial("image", "pull", serve(made).host + "/env:1", **bounded)
    assert "more ENV than vial takes: 256 variables [VIAL-IMAGE-CONFIG]" in done.stderr
    assert not list((store / "images").iterdir()) and not list((store / "names").iterdir())
