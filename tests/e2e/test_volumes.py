# SPDX-License-Identifier: Apache-2.0
"""Volumes: directories that outlive vessels, by name."""
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time

import pytest

from conftest import VIAL, call, environment, start, why_absent

pytestmark = pytest.mark.skipif(why_absent("native") is not None,
                                reason="volumes need driver native")


class Store:
    def __init__(self, place):
        self.place = place
        self.env = environment(VIAL_VOLUME_STORE=str(place))

    def volume(self, *args, **more):
        return call("volume", *args, env=self.env, **more)

    def create(self, name, *flags):
        done = self.volume("create", name, *flags)
        assert done.status == 0, done.errors
        return name

    def sh(self, script, *volumes, flags=()):
        given = [word for v in volumes for word in ("--volume", v)]
        return call("run", "--driver", "native", *given, *flags, "sh", script, env=self.env)

    def state(self, name):
        return self.volume("inspect", name).json["state"]

    @contextlib.contextmanager
    def held(self, volume):
        """A vessel that has VOLUME, and says so."""
        vessel = start("run", "--driver", "native", "--timeout", "10m", "--volume", volume, "sh",
                       "echo here; sleep 600", env=self.env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE)
        try:
            assert vessel.stdout.readline() == b"here\n"
            yield vessel
        finally:
            vessel.send_signal(signal.SIGTERM)  # it takes its vessel with it
            vessel.communicate()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "volumes")


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_one_vessel_leaves_in_a_volume_the_next_one_finds(store):
    store.create("data")
    assert store.sh("echo left > /data/x; mkdir /data/d", "data:/data:rw").errors == ""
    assert store.sh("cat /data/x; ls /data", "data:/data").text == "left\nd\nx\n"
    assert store.sh("ls /data", "data:/data").text == "d\nx\n"


def test_without_rw_a_volume_is_only_read(store):
    store.create("data")
    for how in ("data:/data", "data:/data:ro"):
        assert "Read-only" in store.sh("touch /data/x", how).errors
    assert store.sh("ls -A /data", "data:/data").text == ""


def test_a_second_writer_is_refused_and_readers_are_not(store):
    store.create("data")
    with store.held("data:/data:rw"):
        assert store.state("data") == "written"
        refused = store.sh("echo no", "data:/data:rw")
        assert refused.text == ""
        assert "another vessel may write to the volume 'data' [VIAL-BUSY]" in refused.errors
        assert store.sh("echo reads", "data:/data").text == "reads\n"
    assert store.sh("echo again", "data:/data:rw").text == "again\n"


def test_many_vessels_write_to_a_volume_that_was_made_for_that(store):
    store.create("log", "--writers", "many")
    with store.held("log:/log:rw"):
        assert store.sh("echo two > /log/two", "log:/log:rw").errors == ""
    assert store.sh("ls /log", "log:/log").text == "two\n"


def test_a_reader_does_not_keep_a_writer_away(store):
    store.create("data")
    with store.held("data:/data"):
        assert store.state("data") == "read"
        assert store.sh("echo writes", "data:/data:rw").text == "writes\n"


def test_a_writer_whose_host_was_killed_leaves_the_volume_to_the_next(store):
    store.create("data")
    for _ in range(5):
        with store.held("data:/data:rw") as vessel:
            os.kill(vessel.pid, signal.SIGKILL)
            vessel.wait()
        wait_until(lambda: store.state("data") == "free")
        assert store.sh("echo next", "data:/data:rw").text == "next\n"


def test_no_volume_goes_while_a_vessel_has_it(store):
    store.create("data")
    with store.held("data:/data"):
        assert "volume 'data' is in use [VIAL-BUSY]" in store.volume("remove", "data").errors
        assert store.sh("echo there", "data:/data").text == "there\n"
    wait_until(lambda: store.volume("remove", "data").status == 0)
    gone = store.sh("echo", "data:/data")
    assert "there is no volume 'data' here [VIAL-VOLUME]" in gone.errors
    assert "vial volume create data" in gone.errors
    assert os.listdir(store.place) == []


def test_prune_takes_what_was_not_used_for_so_long_and_nothing_else(store):
    for name in ("old", "new", "held"):
        store.create(name)
    for name in ("old", "held"):
        os.utime(store.place / name / "lock", (0, 0))
    with store.held("held:/data"):
        os.utime(store.place / "held" / "lock", (0, 0))
        done = store.volume("prune", "--unused-for", "1h", "--json")
    assert done.json == {"removed": 1}
    assert [v["name"] for v in store.volume("list", "--json").json] == ["held", "new"]
    # It was in use until a moment ago, however long.
    assert store.volume("prune", "--unused-for", "1h", "--json").json == {"removed": 0}


def test_a_store_behind_a_link_is_the_same_store(store, tmp_path):
    store.create("data")
    os.symlink(store.place, tmp_path / "link")
    there = type(store)(tmp_path / "link")
    assert there.sh("echo here > /data/x; cat /data/x", "data:/data:rw").text == "here\n"


def test_several_writers_are_told_as_writers(store):
    store.create("shared", "--writers", "many")
    with store.held("shared:/data:rw"):
        assert store.state("shared") == "written"


def test_prune_wants_to_know_how_old(store):
    store.create("data")
    refused = store.volume("prune")
    assert "is missing [VIAL-USAGE]" in refused.errors
    assert "'0s' is not a duration of a second or more" in store.volume(
        "prune", "--unused-for", "0s").errors
    assert store.state("data") == "free"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/x", "a/b/c", "a/", "-x", "a b", "a%2Fb",
                                  ".new-x", "ä", "x" * 65, "a\nb"])
def test_what_is_no_name_makes_nothing(store, name):
    refused = store.volume("create", "--", name)
    assert refused.status != 0
    assert "[VIAL-VALUE]" in refused.errors or "[VIAL-USAGE]" in refused.errors
    assert not store.place.exists() or os.listdir(store.place) == []


@pytest.mark.parametrize("wish", ["data", "data:", "data:x", "data:/x:rx", ":/x", "../data:/x",
                                  "data:/x:rw:ro", "data:/x:"])
def test_a_wish_that_is_not_understood_is_refused(store, wish):
    store.create("data")
    refused = store.sh("echo", wish)
    assert refused.text == ""
    assert "[VIAL-VALUE]" in refused.errors


@pytest.mark.parametrize("target", ["/work", "/usr/x", "/etc", "/proc/x", "/", "/data/../etc"])
def test_a_volume_lies_where_mounts_may_lie(store, target):
    store.create("data")
    refused = store.sh("echo", f"data:{target}")
    assert refused.text == ""
    assert "[VIAL-MOUNT]" in refused.errors or "[VIAL-VALUE]" in refused.errors


def test_two_volumes_overlap_as_little_as_mounts_do(store):
    store.create("a")
    store.create("b")
    assert "overlap [VIAL-MOUNT]" in store.sh("echo", "a:/data", "b:/data/b").errors
    assert "asked for twice" in store.sh("echo", "a:/a", "a:/b").errors
    assert store.sh("ls -d /a /b", "a:/a", "b:/b").text == "/a\n/b\n"


def test_a_name_has_an_owner_in_front_of_it_if_wanted(store):
    store.create("ann/data")
    assert store.sh("echo x > /d/x", "ann/data:/d:rw").errors == ""
    assert store.volume("list", "--json").json[0]["name"] == "ann/data"
    assert "there is no volume 'data' here" in store.sh("echo", "data:/d").errors


def test_one_of_many_makers_of_a_name_has_it(store):
    makers = [start("volume", "create", "data", env=store.env, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE) for _ in range(8)]
    said = [m.communicate() for m in makers]
    assert sorted(m.returncode for m in makers).count(0) == 1
    assert sum(b"VIAL-NAME-TAKEN" in err for _, err in said) == 7
    assert os.listdir(store.place) == ["data"]


def test_killed_makers_and_removers_leave_whole_volumes_or_none(store):
    """kill -9 at points that nobody chose."""
    store.create("kept")
    for i in range(60):
        work = start("volume", "create" if i % 2 == 0 else "remove", "x", env=store.env,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(i % 20 / 2000)  # any moment will do
        work.kill()
        work.wait()
        for row in store.volume("list", "--json").json:
            assert store.sh("echo whole > /v/f", f"{row['name']}:/v:rw").errors == ""
    store.create("last")  # who comes next sweeps
    left = set(os.listdir(store.place))
    assert {"kept", "last"} <= left <= {"kept", "last", "x"}


def test_who_makes_sweeps_what_the_dead_left_and_nothing_of_the_living(store):
    store.create("kept")
    for file in (".new-n-dead", ".gone-g-dead", ".gone-g-living"):
        os.makedirs(os.path.join(store.place, file, "data/below"))
    living = os.open(os.path.join(store.place, ".gone-g-living"), os.O_RDONLY)
    try:
        fcntl.flock(living, fcntl.LOCK_EX)  # as who removes it has it
        store.create("next")
        assert sorted(os.listdir(store.place)) == [".gone-g-living", "kept", "next"]
    finally:
        os.close(living)
    store.create("last")
    assert sorted(os.listdir(store.place)) == ["kept", "last", "next"]


def test_the_policy_says_which_volumes_and_how(store, tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("policy:\n  volumes: ['data', 'set-*:ro']\n")
    for name in ("data", "set-1", "other"):
        store.create(name)

    def sh(wish):
        return store.sh("echo in", wish, flags=("--config", str(settings)))

    assert sh("data:/d:rw").text == "in\n"
    assert sh("set-1:/d").text == "in\n"
    assert "volume 'set-1' is not allowed by the policy for writing" in sh("set-1:/d:rw").errors
    refused = sh("other:/d").errors
    assert "volume 'other' is not allowed by the policy [VIAL-POLICY]" in refused
    assert "choose one of: data, set-*:ro" in refused


def test_a_default_volume_waits_for_a_driver_that_has_volumes(store, tmp_path):
    store.create("data")
    settings = tmp_path / "settings.yaml"
    settings.write_text("defaults:\n  volumes: ['data:/data']\n")
    given = ["--config", str(settings)]
    assert call("run", "--driver", "native", *given, "sh", "ls -d /data",
                env=store.env).text == "/data\n"
    assert call("run", "--driver", "process", *given, "sh", "echo without",
                env=store.env).text == "without\n"
    refused = call("run", "--driver", "process", "--volume", "data:/d", "sh", "echo",
                   env=store.env)
    assert "driver 'process' cannot give the program volumes [VIAL-UNSUPPORTED]" in refused.errors


def test_a_plan_names_the_volume_and_no_path_of_the_host(store):
    store.create("data")
    done = call("plan", "--driver", "native", "--volume", "data:/d:rw", "sh", "echo",
                env=store.env)
    mount = json.loads(done.out)["mounts"][0]
    assert mount == {"source": "data", "target": "/d", "mode": "rw", "kind": "volume"}
    assert str(store.place) not in done.text


def test_links_and_devices_of_a_volume_lead_nowhere(store):
    """What one program leaves is hostile to the next, and to the host."""
    store.create("data")
    made = store.sh("cd /d; ln -s /etc/shadow s; ln -s / root; mknod n c 1 3; chmod 4755 x; "
                    "cp /bin/sh x; chmod 6755 x; mkdir deep; chmod 0 deep; ls", "data:/d:rw")
    assert "Operation not permitted" in made.errors
    seen = store.sh("cat /d/s; ls /d/root/d; stat -c %a /d/x", "data:/d")
    assert "root:" not in seen.text
    assert seen.text.split()[-1] == "755"
    assert store.volume("remove", "data").status == 0
    assert os.listdir(store.place) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_the_store_is_entered_by_its_owner_alone(store):
    store.create("data")
    store.sh("echo secret > /d/x; chmod 777 /d/x", "data:/d:rw")
    os.chmod(store.place.parent, 0o755)
    tried = subprocess.run(["cat", store.place / "data/data/x"], user=1000, group=1000,
                           extra_groups=[], capture_output=True, check=False)
    assert tried.returncode != 0
    os.chmod(store.place, 0o755)
    assert "others can enter the store" in store.sh("echo", "data:/d").errors


@pytest.mark.parametrize("part", ["record", "lock", "data"])
def test_a_volume_that_lost_a_part_is_listed_as_broken_and_can_be_removed(store, part):
    store.create("data")
    lost = store.place / "data" / part
    lost.rmdir() if part == "data" else lost.unlink()
    assert [(row["name"], row["state"]) for row in store.volume("list", "--json").json] == [
        ("data", "broken")]
    assert store.state("data") == "broken"
    refused = store.sh("echo in", "data:/d")
    assert "the volume 'data' is not whole [VIAL-FILE]" in refused.errors
    assert "'vial volume remove data', and make it anew" in refused.errors
    assert store.volume("remove", "data").status == 0
    assert os.listdir(store.place) == []


def test_a_store_that_is_none_is_not_told_as_an_empty_one(store):
    store.place.write_text("a file")
    for args in (("list",), ("prune", "--unused-for", "1h"), ("inspect", "x"), ("create", "x")):
        refused = store.volume(*args)
        assert refused.status != 0 and "[VIAL-" in refused.errors, args
        assert "there is no volume" not in refused.errors


def test_the_settings_say_where_volumes_lie(store, tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("volumes: {store: %s}\n" % (tmp_path / "elsewhere"))
    env = environment(VIAL_VOLUME_STORE="")
    assert call("volume", "create", "data", "--config", str(settings), env=env).status == 0
    assert os.listdir(tmp_path / "elsewhere") == ["data"]
    ran = call("run", "--driver", "native", "--config", str(settings), "--volume", "data:/d:rw", "sh",
               "echo x > /d/x; cat /d/x", env=env)
    assert ran.text == "x\n", ran.errors


def test_what_is_done_to_volumes_is_in_the_audit_log(store, tmp_path):
    settings = tmp_path / "settings.yaml"
    log = tmp_path / "logs" / "audit"
    log.parent.mkdir(mode=0o700)
    settings.write_text("audit: {path: %s}\n" % log)
    given = ("--config", str(settings))
    for args in (("create", "data"), ("create", "data"), ("remove", "data"),
                 ("prune", "--unused-for", "1h")):
        store.volume(*args, *given)
    shown = call("audit", "show", "--json", str(log)).text
    told = [json.loads(line) for line in shown.splitlines()]
    rows = call("audit", "show", str(log)).text.splitlines()
    assert all("data" in row for row in rows if "volume.create" in row)
    assert [(r["event"], r.get("volume"), r.get("outcome")) for r in told
            if r["event"].startswith("volume.")] == [
        ("volume.create", "data", "ok"), ("volume.create", "data", "failed"),
        ("volume.remove", "data", "ok"), ("volume.prune", None, None)]


def why_no_sizes():
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        return "volumes with a size need root and loop devices"
    return None if os.path.exists("/sbin/mkfs.ext4") else "mkfs.ext4 is not installed"


sized = pytest.mark.skipif(why_no_sizes() is not None, reason=str(why_no_sizes()))
MIB = 1 << 20


def devices(store):
    """The loop devices that are on files of STORE, or were."""
    found = []
    for name in os.listdir("/sys/block"):
        with contextlib.suppress(OSError):
            with open(f"/sys/block/{name}/loop/backing_file", encoding="utf-8") as file:
                found += [name] if file.read().startswith(str(store.place)) else []
    return found


@sized
def test_a_volume_holds_no_more_than_its_size(store):
    store.create("data", "--size", "16m")
    shown = store.volume("inspect", "data").json
    assert (shown["size"], shown["state"]) == (16 * MIB, "free")
    full = store.sh("head -c 32m /dev/zero > /d/big; stat -c %s /d/big; rm /d/big; echo x > /d/x; "
                    "cat /d/x", "data:/d:rw")
    assert "No space left on device" in full.errors
    held, after = full.text.split()
    assert MIB < int(held) < 16 * MIB
    assert after == "x"
    assert store.sh("ls -A /d; cat /d/x", "data:/d").text == "x\nx\n"
    wait_until(lambda: devices(store) == [])


@sized
def test_a_volumes_size_bounds_the_number_of_its_files(store):
    store.create("data", "--size", "16m")
    full = store.sh("i=0; while echo > /d/$i; do i=$((i+1)); done; echo $i",
                    "data:/d:rw", flags=("--timeout", "10m"))
    assert "No space left on device" in full.errors
    assert int(full.text) < 16384


@sized
def test_a_volume_with_a_size_takes_it_from_the_disk_at_once(store):
    store.create("data", "--size", "20m")
    assert os.stat(store.place / "data/disk").st_blocks * 512 >= 20 * MIB
    assert store.volume("remove", "data").status == 0
    assert os.listdir(store.place) == []


@sized
def test_readers_of_a_volume_with_a_size_see_what_its_writer_writes(store):
    store.create("data", "--size", "16m")
    with store.held("data:/d"):
        assert len(devices(store)) == 1
        assert store.sh("echo new > /d/x", "data:/d:rw").errors == ""
        assert store.sh("cat /d/x", "data:/d").text == "new\n"
        assert "Read-only" in store.sh("touch /d/y", "data:/d").errors
        assert len(devices(store)) == 1  # one file system, however many have it
    wait_until(lambda: devices(store) == [])


@sized
def test_a_volume_with_a_size_survives_who_writes_to_it(store):
    """kill -9 at points that nobody chose: what was synced is there, and no device is left."""
    store.create("data", "--size", "16m")
    for i in range(5):
        work = start("run", "--driver", "native", "--volume", "data:/d:rw", "sh",
                     f"echo {i} > /d/{i}; sync /d/{i}; echo here; head -c 100m /dev/zero > /d/big",
                     env=store.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                     stderr=subprocess.DEVNULL)
        work.stdout.readline()
        time.sleep(i / 100)  # any moment will do
        work.kill()
        work.communicate()
        wait_until(lambda: store.state("data") == "free")
        said = store.sh("rm -f /d/big; ls /d", "data:/d:rw")
        assert said.text.split() == [str(n) for n in range(i + 1)], said.errors
    wait_until(lambda: devices(store) == [])


@sized
def test_makers_of_volumes_with_sizes_that_are_killed_leave_nothing(store):
    for i in range(12):
        work = start("volume", "create", "x", "--size", "16m", env=store.env,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(i / 100)  # any moment will do
        work.kill()
        work.wait()
        for row in store.volume("list", "--json").json:
            assert store.sh("echo whole > /v/f", f"{row['name']}:/v:rw").errors == ""
            wait_until(lambda n=row["name"]: store.volume("remove", n).status == 0)
    wait_until(lambda: devices(store) == [])
    store.create("last")  # who comes next sweeps
    assert os.listdir(store.place) == ["last"]


@sized
def test_a_program_has_neither_the_device_of_a_volume_nor_set_uid_bits_there(store):
    store.create("data", "--size", "16m")
    seen = store.sh("stat -c '%u %a' /d; ls /dev | grep -c loop; mount -o remount,suid /d; "
                    "cp /bin/sh /d/s; chmod 4755 /d/s; stat -c %a /d/s", "data:/d:rw")
    lines = seen.text.split("\n")
    assert lines[:2] == ["1000 777", "0"], seen.text
    assert lines[-2] == "755"


@pytest.mark.parametrize("size", ["1m", "0", "-16m", "many", "17t"])
def test_what_is_no_size_makes_nothing(store, size):
    refused = store.volume("create", "data", f"--size={size}")
    assert refused.status != 0 and "[VIAL-VALUE]" in refused.errors
    assert not store.place.exists() or os.listdir(store.place) == []


@sized
def test_a_volume_whose_disk_somebody_still_has_is_not_removed(store):
    """A descriptor that one vessel gave another keeps it: what is taken would be counted no more."""
    store.create("data", "--size", "16m")
    with store.held("data:/data"):
        [name] = devices(store)
        device = os.open("/dev/" + name, os.O_RDONLY)
    try:
        refused = store.volume("remove", "data")
        assert "[VIAL-BUSY]" in refused.errors and "still has files" in refused.errors
    finally:
        os.close(device)
    wait_until(lambda: store.volume("remove", "data").status == 0)


@sized
def test_where_loop_devices_cannot_be_looked_at_that_is_what_is_told(store):
    store.create("data", "--size", "16m")
    blind = subprocess.run(["unshare", "--mount", "sh", "-c",
                            'mount -t tmpfs none /sys && exec "$0" volume remove data', VIAL],
                           env=store.env, capture_output=True, text=True, check=False)
    assert blind.returncode != 0
    assert "nobody here can see whether the disk of volume 'data' is in use [VIAL-UNSUPPORTED]" in blind.stderr
    assert "outside of containers" in blind.stderr
    assert store.volume("remove", "data").status == 0


@sized
def test_a_size_that_the_disk_has_no_room_for_is_refused(store):
    refused = store.volume("create", "data", "--size", "15t")
    assert refused.status != 0
    assert "reserve" in refused.errors and "choose a smaller size" in refused.errors
    assert os.listdir(store.place) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_an_ordinary_users_volumes_have_no_sizes(tmp_path):
    place = tmp_path / "his"
    place.mkdir()
    os.chown(place, 1000, 1000)
    for above in (tmp_path, *tmp_path.parents):
        if str(above).startswith("/tmp/"):
            os.chmod(above, 0o755)
    tried = subprocess.run([VIAL, "volume", "create", "data", "--size", "16m"], user=1000,
                           group=1000, extra_groups=[], capture_output=True, check=False, text=True,
                           env=environment(VIAL_VOLUME_STORE=str(place / "volumes")))
    assert tried.returncode != 0
    assert "a volume cannot have a size here: only root's volumes have one" in tried.stderr
    assert "leave the size out" in tried.stderr
    assert os.listdir(place / "volumes") == []
