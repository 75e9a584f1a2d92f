# SPDX-License-Identifier: Apache-2.0
"""What is in the store, as it is read."""
import json

import pytest

DIGEST, ID, CHAIN = "a" * 64, "b" * 64, "c" * 64
RECORD = """vial-image 1
digest sha256:%s
id sha256:%s
platform linux/amd64
user_xattr 1
owners_kept 1
size 5
created 7
env A=b%%20c
cwd /srv
layer %s
""" % (DIGEST, ID, CHAIN)


@pytest.fixture
def made(store):
    (store / "names").mkdir(parents=True, mode=0o700)
    (store / "images" / DIGEST).mkdir(parents=True)
    (store / "layers" / CHAIN / "fs").mkdir(parents=True)
    (store / "images" / DIGEST / "record").write_text(RECORD)
    (store / "names" / "a%2Fb:1").write_text("sha256:%s\n" % DIGEST)
    return store


@pytest.mark.parametrize("name", ["a/b:1", "sha256:" + DIGEST, "any@sha256:" + DIGEST])
def test_an_image_is_found_by_name_and_by_digest(made, vial, name):
    image = json.loads(vial("image", "inspect", name).stdout)
    assert (image["digest"], image["id"]) == ("sha256:" + DIGEST, "sha256:" + ID)
    assert image["env"] == ["A=b c"] and image["cwd"] == "/srv"
    assert image["lowers"] == ["%s/layers/%s/fs" % (made, CHAIN)]


def test_an_image_that_is_not_here_is_told_with_what_to_do(made, vial):
    done = vial("image", "inspect", "a/b:2")
    assert done.returncode == 125
    assert done.stderr == ("vial: error: there is no image 'a/b:2' here [VIAL-IMAGE]; "
                           "pull it: 'vial image pull a/b:2'\n")


def test_a_store_that_others_can_write_to_is_not_believed(made, vial):
    made.chmod(0o777)
    done = vial("image", "inspect", "a/b:1")
    assert "others can write to the image store '%s'" % made in done.stderr


@pytest.mark.parametrize("spoil", [lambda t: t.replace("vial-image 1", "vial-image 2"),
                                   lambda t: t + "unknown 1\n", lambda t: t[:-20],
                                   lambda t: t.replace("b%20c", "b%zz")])
def test_a_record_that_is_not_whole_is_no_image(made, vial, spoil):
    record = made / "images" / DIGEST / "record"
    record.write_text(spoil(record.read_text()))
    done = vial("image", "inspect", "a/b:1")
    assert "image 'a/b:1': it is not a record of this version of vial" in done.stderr


def test_an_image_without_one_of_its_layers_is_not_used(made, vial):
    (made / "layers" / CHAIN / "fs").rmdir()
    assert "has lost the layer 'cccccccccccc'" in vial("image", "inspect", "a/b:1").stderr
