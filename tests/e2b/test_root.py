# SPDX-License-Identifier: Apache-2.0
"""Who a client's programs are: `user`, and root where the operator lets them."""
import base64

import pytest

from conftest import E2b
from test_saved import daemon, make
from test_wire import create, envd, rpc, stream


def as_user(name):
    return "Basic " + base64.b64encode(("%s:" % name).encode()).decode()


def sh(d, box, line, user="root"):
    """What LINE prints, and its exit code; or the error of the call."""
    said = [m for _, m in stream(d, box, "process.Process/Start",
                                 {"process": {"cmd": "/bin/sh", "args": ["-c", line]},
                                  "stdin": False}, Authorization=as_user(user))]
    if "error" in said[-1]:
        return said[-1]["error"]
    out = b"".join(base64.b64decode(m["event"]["data"].get("stdout", "")) for m in said
                   if "data" in m.get("event", {})).decode()
    return out, said[-2]["event"]["end"].get("exitCode", 0)


@pytest.fixture(scope="module")
def rooted(world):
    with daemon(world, defaults={"sudo": "nopasswd"}) as d:
        yield d


def test_root_is_root_in_a_home_of_its_own(rooted):
    box = make(rooted)
    assert sh(rooted, box, "id -u; id -g; echo $HOME $USER $LOGNAME; pwd") == (
        "0\n0\n/root root root\n/root\n", 0)
    assert sh(rooted, box, "id -un; echo $HOME; pwd", "user") == ("user\n/home/user\n/home/user\n", 0)
    assert sh(rooted, box, "echo mine > /etc/mine; stat -c %U /etc/mine") == ("root\n", 0)
    assert sh(rooted, box, "echo > /etc/mine", "user")[1] != 0
    assert sh(rooted, box, "sudo id -u", "user") == ("0\n", 0)


def test_e2b_s_own_package_is_root_where_it_asks_to_be(node, rooted):
    assert node.run("root.mjs", rooted) == [{
        "root": "root\n/root", "env": "a /root", "below": "InvalidArgumentError",
        "user": "user\n/home/user", "made": "root", "pty": "root"}]


def test_root_has_no_more_than_sudo_gives(rooted):
    box = make(rooted)
    ask = "grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status; cat /proc/self/uid_map"
    root, by_sudo = sh(rooted, box, ask), sh(rooted, box, "sudo sh -c '%s'" % ask.replace("'", '"'), "user")
    assert root == by_sudo and "CapEff" in root[0]
    for line in ("mount -t tmpfs none /mnt", "mknod /dev/x c 1 1", "chroot / true && unshare -m true",
                 "echo 1 > /proc/sys/kernel/hostname", "cat /proc/1/root/etc/passwd"):
        assert sh(rooted, box, line)[1] != 0, line


def test_the_next_program_is_not_root_for_the_one_before(rooted):
    box = make(rooted)
    for line in ("exit 3", "true"):
        sh(rooted, box, line)
        assert sh(rooted, box, "id -u", "user")[0] != "0\n"
    sh(rooted, box, "cd /nowhere/at/all")
    assert envd(rooted, box, "POST", "/files?path=f", b"x",
                Content_Type="application/octet-stream").status == 200
    assert sh(rooted, box, "stat -c %U /home/user/f") == ("user\n", 0)


def test_root_s_programs_are_signalled_and_end_with_the_sandbox(rooted):
    box = make(rooted)
    assert sh(rooted, box, "sleep 1000 & echo $!; kill $!; wait $!")[1] == 128 + 15
    listed = rpc(rooted, box, "process.Process/List", {}).json
    assert listed.get("processes", []) == []


def test_files_are_those_of_the_user(rooted):
    box = make(rooted)
    answer = envd(rooted, box, "GET", "/files?path=/etc/shadow&username=root")
    assert (answer.status, answer.json["message"]) == (401, "invalid username: 'root'")
    answer = rpc(rooted, box, "filesystem.Filesystem/MakeDir", {"path": "/x"},
                 Authorization=as_user("root"))
    assert (answer.status, answer.json) == (401, {
        "code": "unauthenticated",
        "message": "invalid username: 'root': files are those of 'user' here"})


def test_without_the_operator_s_word_there_is_no_root(world):
    with daemon(world) as d:
        for template in ("deb", "base"):
            error = sh(d, make(d, template), "id")
            assert error["code"] == "unauthenticated"
            assert "this sandbox has no root user" in error["message"]
    with E2b(defaults={"sudo": "nopasswd"}) as d:  # which a host's programs cannot have
        assert sh(d, create(d), "id")["code"] == "unauthenticated"


def test_a_name_that_nobody_has_is_refused(rooted):
    error = sh(rooted, make(rooted), "id", "toor")
    assert error == {"code": "unauthenticated", "message": "invalid username: 'toor'"}
