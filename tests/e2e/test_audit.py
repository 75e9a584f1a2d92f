# SPDX-License-Identifier: Apache-2.0
"""The audit log: every run is in it once, and no change of it goes unnoticed."""

import json
import os
import subprocess

import pytest

from conftest import VIAL, call, environment


@pytest.fixture
def log(tmp_path):
    """A settings file that names a log, and the log."""
    path = tmp_path / "log"
    config = tmp_path / "vial.yaml"
    config.write_text("audit: {path: %s, rotate: 64k}\n" % path)
    return str(config), path


def recorded(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(config, *args, **kwargs):
    return call("--config", config, "run", *args, **kwargs)


def verify(path, *more):
    return call("audit", "verify", "--json", *more, str(path))


def test_a_run_is_recorded_with_its_begin_and_its_end(log):
    """covers: C-09"""
    config, path = log
    result = run(config, "--json", "python", "print(1)").json
    begin, end = recorded(path)
    assert (begin["event"], end["event"]) == ("begin", "run")
    assert begin["run"] == end["run"] == result["id"]
    assert end["verdict"] == "ok" and end["isolation"] == result["isolation"]
    assert end["exit_code"] == 0
    assert end["code_sha256"] == begin["code_sha256"] and "code" not in end
    assert begin["limits"]["memory_bytes"] == 512 << 20
    assert begin["caller"]["uid"] == os.getuid()
    assert verify(path).json["records"] == 2


def test_a_refusal_is_recorded_with_its_code(log):
    config, path = log
    assert run(config, "--memory", "100g", "python", "1").status == 125
    assert run(config, "nolang", "1").status == 125
    assert [r["verdict"] for r in recorded(path)] == ["denied", "denied"]
    assert recorded(path)[1]["error"]["code"] == "VIAL-LANGUAGE"


def test_limits_that_were_hit_and_networks_that_were_refused_are_recorded(log, tmp_path):
    """covers: C-09"""
    config, path = log
    with open(config, "a") as f:
        f.write("policy: {networks: [none]}\n")
    run(config, "--memory", "64m", "python", "b = bytearray(300 << 20)")
    # So little that even a busy machine gives more than that, which is then taken away.
    run(config, "--cpus", "0.02", "--timeout", "2s", "bash", "while :; do :; done")
    run(config, "--pids", "8", "python", "import os\ntry:\n  while os.fork(): pass\n"
        "except OSError: pass")
    run(config, "--network", "bridge", "bash", "true")
    oom, slow, forks, refused = [r for r in recorded(path) if r["event"] == "run"]
    assert (oom["verdict"], oom["limits_hit"]) == ("oom", ["memory"])
    assert (slow["verdict"], slow["limits_hit"]) == ("timeout", ["time"])
    assert slow["usage"]["throttled_ms"] > 0
    assert forks["limits_hit"] == ["pids"]
    assert refused["verdict"] == "denied" and refused["error"]["code"] == "VIAL-POLICY"
    assert refused["error"]["message"] == "network 'bridge' is not allowed by the policy"
    assert all(r["caller"]["uid"] == os.getuid() for r in (oom, slow, forks, refused))
    assert verify(path).status == 0


def test_no_secret_is_written_down(log, tmp_path):
    config, path = log
    (tmp_path / "vial.yaml").write_text("audit: {path: %s, code: text}\n" % path)
    run(config, "--env", "DB_PASSWORD=hunter2hunter2", "bash",
        "curl -H 'Authorization: Bearer abcdef0123456789' "
        "https://me:verysecret@host; export API_KEY=k1k2k3k4; echo ghp_%s" % ("x" * 36))
    text = path.read_text()
    for secret in ("hunter2", "abcdef0123456789", "verysecret", "k1k2k3k4", "xxxxxxxx"):
        assert secret not in text
    assert "curl -H" in text and "DB_PASSWORD" in text


def filled(log, runs=4):
    config, path = log
    for i in range(runs):
        run(config, "bash", "exit %d" % i)
    assert verify(path).status == 0
    return path


def lines(path):
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("change", [
    lambda l: l[:2] + [l[2].replace(b'"event":"begin"', b'"event":"bogus"')] + l[3:],
    lambda l: l[:3] + l[4:],
    lambda l: l[:2] + [l[3], l[2]] + l[4:],
    lambda l: l[:-1],
    lambda l: l[:-1] + [l[-1].replace(b'"exit_code":3', b'"exit_code":0')],
    lambda l: l[1:],
    lambda l: l + [l[-1]],
    lambda l: [],
    lambda l: l[:4] + [b"\n"] + l[4:],
], ids=["edit", "removal", "order", "truncation", "edit_last", "beginning", "replay",
        "emptied", "blank"])
def test_a_changed_log_is_not_whole(log, change):
    path = filled(log)
    before = lines(path)
    path.write_bytes(b"".join(change(before)))
    assert lines(path) != before
    done = verify(path)
    assert done.status == 1 and done.json["whole"] is False and done.json["problem"]


def test_nothing_is_run_on_a_log_that_was_cut(log):
    path = filled(log)
    path.write_bytes(b"".join(lines(path)[:-2]))
    done = run(log[0], "--json", "bash", "echo no")
    assert done.status == 125 and done.json["error"]["code"] == "VIAL-AUDIT"
    assert done.json["stdout"] == ""


def test_a_log_that_was_made_anew_does_not_have_the_anchor(log):
    path = filled(log)
    newest = verify(path).json["newest"]
    anchor = "%d:%s" % (newest["seq"], newest["hash"])
    assert verify(path, "--anchor", anchor).status == 0
    path.unlink()
    os.unlink(str(path) + ".head")
    filled(log, runs=6)
    assert verify(path).status == 0
    assert verify(path, "--anchor", anchor).status == 1


def test_verify_says_whether_it_had_an_anchor(log, tmp_path):
    path = filled(log)
    plain = call("audit", "verify", str(path))
    assert verify(path).json["anchor"] is None and "anchor: none given" in plain.text
    kept = tmp_path / "anchor"
    kept.write_text(plain.text)
    filled(log)
    done = call("audit", "verify", "--anchor", str(kept), str(path))
    assert done.status == 0 and "anchor: record 8 is as it was" in done.text
    assert verify(path, "--anchor", str(kept)).json["anchor"] == 8
    kept.write_text("8:" + "0" * 64 + "\n")
    assert verify(path, "--anchor", str(kept)).status == 1
    kept.write_text("")
    done = verify(path, "--anchor", str(kept))
    assert done.status == 125 and done.json["error"]["code"] == "VIAL-VALUE"


def test_an_emptied_head_does_not_hide_a_cut_tail(log):
    """Whoever can write both can do better than that; an anchor is for them."""
    path = filled(log)
    path.write_bytes(b"".join(lines(path)[:-2]))
    open(str(path) + ".head", "w").close()
    done = verify(path)
    assert done.status == 1 and "the head was emptied or put back" in done.json["problem"]
    run(log[0], "bash", "true")
    told = [r for r in recorded(path) if r["event"] == "mended"]
    assert [r["ahead"] for r in told] == [6]


def test_the_chain_goes_on_through_older_files(log):
    path = filled(log, runs=60)
    older = path.with_name("log.000001")
    assert older.exists() and verify(path).json["records"] >= 120
    shown = call("audit", "show", "--json", str(path)).text.splitlines()
    assert len(shown) == verify(path).json["records"]
    older.unlink()
    assert "missing" in verify(path).json["problem"]


def test_each_row_names_what_it_is_about(log):
    config, path = log
    result = run(config, "--json", "bash", "exit 3").json
    call("--config", config, "cleanup")
    rows = [line.split() for line in call("audit", "show", str(path)).text.splitlines()]
    ends = {row[2]: row for row in rows}
    assert ends["begin"][3] == ends["run"][3] == result["id"]
    assert "nonzero" in ends["run"]
    swept = [row for row in rows if row[2] == "cleanup"]
    assert "native" in [row[3] for row in swept] and all("removed" in row for row in swept)


def test_half_a_record_of_a_dead_writer_is_cut_off_and_told(log):
    path = filled(log)
    with path.open("ab") as f:
        f.write(b'{"seq":9,"ti')
    run(log[0], "bash", "true")
    assert [r["event"] for r in recorded(path)][-3:] == ["mended", "begin", "run"]
    assert verify(path).status == 0


def test_many_writers_make_one_chain(log):
    config, path = log
    started = [subprocess.Popen([VIAL, "--config", config, "run", "bash", "true"],
                                env=environment()) for _ in range(24)]
    assert [p.wait() for p in started] == [0] * 24
    assert verify(path).json["records"] == 48


def test_an_inner_file_cannot_move_the_log(log, tmp_path):
    home = tmp_path / "home"
    project = tmp_path / "project"
    project.mkdir()
    (project / "vial.yaml").write_text("audit: {path: /dev/null}\n")
    done = call("--config", log[0], "run", "bash", "true", cwd=project)
    assert done.status == 125 and "project file may not set 'audit'" in done.errors
    assert not home.exists()


def test_a_full_disk_refuses_runs_rather_than_run_unrecorded(tmp_path):
    if os.getuid() != 0:
        pytest.skip("controls run as root only")
    config = tmp_path / "vial.yaml"
    small = tmp_path / "small"
    small.mkdir()
    config.write_text("audit: {path: %s/log}\n" % small)
    script = ("mount -t tmpfs -o size=160k none %s && "
              "'%s' --config %s run bash 'echo first' && "
              "head -c 120k /dev/zero > %s/filler; "
              "'%s' --config %s run --json bash 'echo second'" %
              (small, VIAL, config, small, VIAL, config))
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], env=environment(),
                          capture_output=True, check=False)
    first, _, second = done.stdout.partition(b"\n")
    assert first == b"first" and done.returncode == 125
    assert json.loads(second)["error"]["code"] == "VIAL-AUDIT"
    assert json.loads(second)["stdout"] == ""
