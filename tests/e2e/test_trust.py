# SPDX-License-Identifier: Apache-2.0
"""What a caller trusts: files of a project, byte by byte, and repositories by name."""
import os

import pytest
from conftest import environment


@pytest.fixture
def desk(vial, tmp_path):
    """A project with a repository around it; what is trusted lies beside it."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "below").mkdir()

    class Desk:
        path, state, file = project, tmp_path / "state", project / "vial.yaml"

        def __call__(self, *args, cwd=project, **env):
            env = {"VIAL_STATE": str(self.state), **env}
            return vial(*args, cwd=cwd, env=environment(**env))

        def memory(self):
            done = self("config", "show", "--json", cwd=self.path / "below")
            return done.json["defaults"]["memory"]["value"] if done.status == 0 else None
    return Desk()


def test_a_file_is_trusted_until_one_byte_changes(desk):
    desk.file.write_text("defaults: {memory: 1g}\n")
    refused = desk("run", "bash", "echo never here")
    assert (refused.status, refused.out) == (125, b"")
    assert f"project file '{desk.file}' is not trusted, and would change memory from 512m to 1g" \
        in refused.errors
    assert f"vial trust '{desk.file}'" in refused.errors
    told = desk("trust", str(desk.file))
    assert told.text == f"trusted: {desk.file}\n  memory from 512m to 1g\n"
    assert desk.memory() == "1g"
    desk.file.write_text("defaults: {memory: 1g}\n\n")
    assert desk.memory() is None
    desk.file.write_text("defaults: {memory: 1g}\n")
    assert desk.memory() == "1g"
    assert desk("trust", "--revoke", "../project/vial.yaml").status == 0
    assert desk.memory() is None


def test_what_is_trusted_is_listed(desk):
    desk.file.write_text("defaults: {memory: 1g}\n")
    assert desk("trust", "--list", "--json").json == []
    assert desk("trust").status == 0
    assert desk("trust", str(desk.path)).status == 0
    listed = {r["path"]: r for r in desk("trust", "--list", "--json").json}
    assert listed[str(desk.file)]["sets"] == {"memory": "1g"}
    assert [r["state"] for r in listed.values()] == ["trusted", "trusted"]
    desk.file.write_text("")
    assert "changed" in desk("trust", "--list").text
    desk.file.unlink()
    assert "gone" in desk("trust", "--list").text
    assert desk("trust", "--revoke", str(desk.file)).status == 0
    assert desk("trust", "--revoke", str(desk.file)).status == 125
    assert os.stat(desk.state / "trust").st_mode & 0o777 == 0o700


def test_trust_is_within_the_operators_policy(desk, tmp_path):
    operator = tmp_path / "operator.yaml"
    operator.write_text("policy: {max_memory: 600m, networks: [none]}\n")
    desk.file.write_text("defaults: {memory: 1g}\npolicy: {max_memory: 2g}\n")
    assert desk("trust").status == 0
    assert desk("config", "show", "--json").json["defaults"]["memory"]["value"] == "1g"
    plan = desk("plan", "--config", str(operator), "bash", "true").json
    assert plan["limits"]["memory_bytes"] == 600 << 20  # the cap, and no more
    desk.file.write_text("defaults: {network: bridge}\n")
    assert desk("trust").status == 0
    done = desk("run", "--config", str(operator), "bash", "echo never here")
    assert (done.status, done.out) == (125, b"") and "network" in done.errors


def test_a_program_cannot_write_what_vial_believes(desk):
    (desk.path / "state").mkdir()
    inside = {"VIAL_STATE": str(desk.path / "state")}
    desk.file.write_text("")
    done = desk("exec", "echo never here; ls", **inside)
    assert (done.status, done.out) == (125, b"") and "cannot be writable" in done.errors
    assert desk("exec", "--workspace-mode", "ro", "ls").status == 0


def test_what_is_no_settings_file_is_not_trusted(desk, tmp_path):
    other = desk.path / "notes.yaml"
    other.write_text("defaults: {}\n")
    for name in (other, tmp_path / "nowhere" / "vial.yaml", tmp_path):
        done = desk("trust", str(name))
        assert done.status == 125 and "VIAL-TRUST" in done.errors, name
    desk.file.write_text("defaults: {memory: a lot}\n")
    assert "VIAL-VALUE" in desk("trust").errors
    desk.file.unlink()
    desk.file.symlink_to("/etc/passwd")
    assert "not a regular file" in desk("trust", str(desk.file)).errors


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root can give files away")
def test_a_git_above_that_somebody_else_made_shows_nothing(vial, desk):
    """Root in a directory of its own, below one where uid 1000 has made a `.git`."""
    mine = desk.path / "rootwork"
    mine.mkdir()
    (desk.path / "bait").write_text("bait\n")
    os.chown(desk.path, 1000, 1000)
    os.chown(desk.path / ".git", 1000, 1000)
    done = desk("exec", "cat ../bait; ls -a /workspace", cwd=mine)
    assert (done.status, done.out) == (125, b"")
    assert "belongs to user 1000" in done.errors and "VIAL-TRUST" in done.errors
    assert f"vial trust '{desk.path}'" in done.errors
    here = desk("exec", "--workspace", ".", "pwd;ls -a", cwd=mine)
    assert here.text == "/workspace\n.\n..\n"
    assert desk("exec", "cat bait", cwd=mine, SUDO_UID="1000").status != 125
    assert desk("trust", str(desk.path)).status == 0
    assert desk("exec", "cat ../bait", cwd=mine).text == "bait\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root can give files away")
def test_a_hostile_directorys_name_is_no_command_to_type(desk):
    bait = desk.path / "x'; touch pwned; '"
    mine = bait / "rootwork"
    (bait / ".git").mkdir(parents=True)
    mine.mkdir()
    for path in [bait, bait / ".git"]:
        os.chown(path, 1000, 1000)
    done = desk("exec", "true", cwd=mine)
    assert done.status == 125 and "belongs to user 1000" in done.errors
    remedy = done.errors.partition("if you trust it: ")[2]
    assert remedy.startswith("vial trust DIR") and "touch" not in remedy


def test_one_operand_with_a_shells_marks_is_a_line(vial, tmp_path):
    (tmp_path / "file").write_text("")
    assert vial("exec", "pwd;ls", cwd=tmp_path).text == "/workspace\nfile\n"
    assert vial("exec", "ls|cat", cwd=tmp_path).text == "file\n"
    assert vial("exec", "echo>made", cwd=tmp_path).status == 0
    assert (tmp_path / "made").exists()
