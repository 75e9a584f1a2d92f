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
        "user": "user\n/home/user", "made": "root", "pty": "root",
        "files": ["root", "mine", False]}]


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


def files(d, box, method, **message):
    """A call of root's: its answer, or the error's code."""
    answer = rpc(d, box, "filesystem.Filesystem/" + method, message, Authorization=as_user("root"))
    return answer.json if answer.status == 200 else answer.json["code"]


def put(d, box, path, data, user="root"):
    return envd(d, box, "POST", "/files?path=%s&username=%s" % (path, user), data,
                Content_Type="application/octet-stream").status


def test_root_s_files_are_root_s(rooted):
    box = make(rooted)
    assert put(rooted, box, "/etc/app/conf", b"a") == 200
    assert put(rooted, box, "below", b"b") == 200
    assert sh(rooted, box, "stat -c '%U %n' /etc/app /etc/app/conf /root/below; chmod 600 /etc/app/conf") == (
        "root /etc/app\nroot /etc/app/conf\nroot /root/below\n", 0)
    for path, body in (("/etc/app/conf", b"a"), ("below", b"b"), ("~/below", b"b")):
        answer = envd(rooted, box, "GET", "/files?path=%s&username=root" % path)
        assert (answer.status, answer.body) == (200, body)
    assert envd(rooted, box, "GET", "/files?path=/etc/app/conf").status == 403
    assert envd(rooted, box, "GET", "/files?path=/etc/shadow&username=root").status == 200
    assert put(rooted, box, "/etc/app/conf", b"c" * (2 << 20)) == 200
    large = envd(rooted, box, "GET", "/files?path=/etc/app/conf&username=root", Range="bytes=5-8")
    assert (large.status, large.body) == (206, b"cccc")
    assert put(rooted, box, "/etc/app/more", b"", "user") == 403
    assert put(rooted, box, "/home/user/mine", b"", "root") == 200
    assert sh(rooted, box, "stat -c %U /home/user/mine; stat -c '%a %U' /etc/app/conf") == (
        "root\n600 root\n", 0)


def test_root_s_names_are_root_s(rooted):
    box = make(rooted)
    assert files(rooted, box, "MakeDir", path="/srv/a/b")["entry"]["owner"] == "root"
    assert files(rooted, box, "MakeDir", path="/srv/a/b") == "already_exists"
    assert sh(rooted, box, "chmod 700 /srv/a; echo x > /srv/a/f")[1] == 0
    seen = files(rooted, box, "ListDir", path="/srv", depth=2)["entries"]
    assert [e["path"] for e in seen] == ["/srv/a", "/srv/a/b", "/srv/a/f"]
    assert files(rooted, box, "Move", source="/srv/a/f", destination="/opt/f")["entry"]["path"] == "/opt/f"
    assert files(rooted, box, "Stat", path="/opt/f")["entry"]["size"] == "2"
    assert files(rooted, box, "Remove", path="/srv/a") == {}
    assert files(rooted, box, "Stat", path="/srv/a") == "not_found"
    assert files(rooted, box, "Remove", path="/proc/1/root/etc") != {}
    answer = rpc(rooted, box, "filesystem.Filesystem/MakeDir", {"path": "/srv/mine"})
    assert answer.json["code"] == "permission_denied"
    assert rpc(rooted, box, "filesystem.Filesystem/MakeDir", {"path": "d"}).json["entry"]["owner"] == "user"


def test_root_s_file_calls_have_no_more_than_root_s_programs(rooted):
    box = make(rooted)
    for path in ("/proc/sys/kernel/hostname", "/proc/sysrq-trigger"):
        program = sh(rooted, box, "echo x > " + path)[1] == 0
        call = put(rooted, box, path, b"x") == 200
        assert not program and not call, path
    assert put(rooted, box, "/home/user/ends", b"", "root") == 200
    assert put(rooted, box, "/home/user/own", b"", "user") == 200  # nothing is left to the next
    assert sh(rooted, box, "stat -c %U /home/user/own") == ("user\n", 0)


def test_a_signed_address_may_be_root_s(node, rooted):
    told, = node.run("signed.mjs", rooted)
    assert told == {"written": 200, "owner": "root", "read": "by root", "user": 403, "other": 401}


def test_without_the_operator_s_word_there_is_no_root(world):
    with daemon(world) as d:
        for template in ("deb", "base"):
            box = make(d, template)
            error = sh(d, box, "id")
            assert error["code"] == "unauthenticated"
            assert "this sandbox has no root user" in error["message"]
            assert put(d, box, "/tmp/f", b"") == 401
            assert envd(d, box, "GET", "/files?path=/etc/passwd&username=root").status == 401
            assert files(d, box, "Stat", path="/etc") == "unauthenticated"
    with E2b(defaults={"sudo": "nopasswd"}) as d:  # which a host's programs cannot have
        assert sh(d, create(d), "id")["code"] == "unauthenticated"


def test_a_name_that_nobody_has_is_refused(rooted):
    error = sh(rooted, make(rooted), "id", "toor")
    assert error == {"code": "unauthenticated", "message": "invalid username: 'toor'"}
    assert put(rooted, make(rooted), "/tmp/f", b"", "toor") == 401
