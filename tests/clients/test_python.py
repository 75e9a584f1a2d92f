# SPDX-License-Identifier: Apache-2.0
"""The Python client against a real daemon: each test for whoever blocks, and for whoever has
an event loop."""
import asyncio
import io
import os
import tarfile
import threading
import time

import pytest
import vial
from conftest import TOKEN
from daemon import Daemon, wait_until


def mine(client, key):
    """The runs that were asked for under KEY."""
    return [run for run in client.runs(limit=2000) if run.request == key]


def test_a_program_that_fails_is_a_result(client):
    result = client.run("python", "print(6 * 7)")
    assert (result.verdict, result.stdout, result.ok) == ("ok", "42\n", True)
    assert result.usage.memory_peak_bytes > 0 and result["isolation"]["layers"]
    assert result.check() is result
    result = client.run("bash", "echo no >&2; exit 3", timeout="10s")
    assert (result.verdict, result.exit_code, result.stderr) == ("nonzero", 3, "no\n")
    result = client.run(command=["sleep", "60"], timeout=0.2)
    assert result.verdict == "timeout"
    assert client.run("bash", r"printf '\xff'", raw=True).stdout_base64 == "/w=="


def test_check_makes_an_exception_of_a_verdict(client):
    with pytest.raises(vial.RunFailed) as failed:
        client.run("bash", "exit 3").check()
    assert failed.value.code == "nonzero" and failed.value.result["exit_code"] == 3
    assert str(failed.value) == "nonzero: the program ended with verdict 'nonzero', exit code 3"


def test_what_is_refused_says_why_and_what_to_do(client, connect, daemon):
    with pytest.raises(vial.Refused) as refused:
        client.run("pyhton", "print(1)")
    assert refused.value.code == "VIAL-LANGUAGE" and "python" in refused.value.remedy
    with pytest.raises(vial.Refused) as refused:
        client.run("bash", "true", langauge="x")
    assert refused.value.code == "VIAL-FIELD" and refused.value.status == 400
    with pytest.raises(vial.NotFound) as refused:
        client.session_of("s-none").info()
    assert refused.value.code == "VIAL-SESSION"
    with pytest.raises(vial.Unauthorized) as refused:
        connect(daemon.url, "vial_wrong").version()
    assert refused.value.code == "VIAL-AUTH" and refused.value.status == 401
    assert connect(daemon.url, TOKEN).version().caller == "token:client"


def test_a_daemon_that_is_not_there_is_named(connect, tmp_path):
    with pytest.raises(vial.Lost) as lost:
        connect("unix:%s/none.sock" % tmp_path, retries=1).version()
    assert lost.value.code == "VIAL-DAEMON" and lost.value.remedy == "start it: vial serve"
    assert "%s/none.sock' cannot be reached" % tmp_path in lost.value.message


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://me:secret@x/", "nonsense"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ValueError):
        vial.Client(url)


def test_a_header_cannot_be_smuggled_in(daemon):
    with pytest.raises(ValueError):
        vial.Client("unix:" + daemon.socket, token="x\r\nX-Evil: 1")
    with vial.Client("unix:" + daemon.socket) as client, pytest.raises(ValueError):
        client.run("bash", "true", key="x\r\nX-Evil: 1")


def test_a_stream_tells_what_is_printed_when_it_is(client):
    """The program goes on only after its first line has come."""
    with client.session() as session:
        session.exec("mkfifo go")
        program = session.start("echo one; cat go; echo two >&2")
        seen = []
        with program.events() as events:
            for event in events:
                seen.append((event.event, event.data))
                if event.data == "one\n":
                    session.exec("echo > go")
        assert [e for e in seen if e[0] != "start"] == [("stdout", "one\n"), ("stdout", "\n"), (
            "stderr", "two\n"), ("exit", None)]
        assert events.exit.verdict == "ok" and events.exit.exit_code == 0
    with client.stream("bash", "echo out; echo err >&2; exit 2") as events:
        found = {event.event: event.content for event in events if event.data}
    assert found == {"stdout": b"out\n", "stderr": b"err\n"}
    assert (events.result.verdict, events.result.exit_code) == ("nonzero", 2)


def test_who_stops_reading_a_run_ends_it(client):
    events = client.stream("bash", "echo begun; sleep 60")
    request = None
    for event in events:
        request = event.request or request
        if event.event == "stdout":
            break
    events.close()
    assert wait_until(lambda: client.run_details(request).state == "ended")


def test_a_stream_that_is_refused_is_an_exception(client):
    with pytest.raises(vial.VialError) as refused:
        list(client.stream("pyhton", "print(1)"))
    assert refused.value.code == "VIAL-LANGUAGE"


def test_a_batch_gives_each_run_once(client):
    items = list(client.batch([{"language": "bash", "code": "exit %d" % i} for i in range(4)] +
                              [{"language": "klingon", "code": ""}], parallel=2))
    assert sorted(item.index for item in items) == [0, 1, 2, 3, 4]
    for item in items:
        if item.index == 4:
            assert item.error.code == "VIAL-LANGUAGE" and item.result is None
        else:
            assert item.result.exit_code == item.index
    code = 'int puts(const char *); int getchar(void); int main(void) { return getchar() - 48; }'
    items = client.batch(request={"language": "c", "code": code},
                         inputs=[{"stdin": str(i)} for i in range(3)])
    assert {item.index: item.result.exit_code for item in items} == {0: 0, 1: 1, 2: 2}
    code = "int puts(const char *); int main(int n, char **a) { puts(a[n - 2]); puts(a[n - 1]); return 0; }"
    for _ in range(2):
        item, = client.batch(request={"language": "c", "code": code, "args": ["x"]}, keep=True,
                             inputs=[{"args": ["y"], "files": [{"path": "f", "content": "beside"}]}])
        assert item.result.stdout == "x\ny\n"


def test_a_connection_that_breaks_runs_nothing_twice(connect, weak, client):
    """Broken before an answer, within its head and within its body."""
    way = weak(0, 20, 300)
    key = "once-%s" % id(way)
    result = connect(way.url).run("bash", "echo ran", key=key)
    assert result.stdout == "ran\n" and way.count == 4
    assert len(mine(client, key)) == 1


def test_a_run_that_goes_on_is_waited_for(connect, weak, client, daemon):
    """The second try comes while the first goes on, and gets its answer."""
    with client.session() as session:
        way = weak()
        key = "long-%s" % id(way)
        kept, out = [], {}
        real = way.pump

        def note(source, target, most):
            kept.append((source, target))
            real(source, target, most)
        way.pump = note
        other = connect(way.url)
        thread = threading.Thread(target=lambda: out.update(result=other.run(
            "bash", "sleep 3; echo late", key=key)))
        thread.start()
        assert wait_until(lambda: [r for r in mine(client, key) if r.state == "running"])
        for one in kept[0]:
            one.shutdown(2)
        thread.join(60)
        assert out["result"].stdout == "late\n" and len(mine(client, key)) == 1
        assert session.info().outcome == "open"


def test_a_batch_that_breaks_goes_on_with_what_did_not_come(connect, weak):
    way = weak(0, 3000, 6000)
    got = list(connect(way.url).batch([{"language": "bash", "code": "echo %d" % i}
                                       for i in range(12)]))
    assert way.count == 4
    assert sorted((i.index, i.result.stdout) for i in got) == [(i, "%d\n" % i) for i in range(12)]


def test_output_is_read_on_from_its_offsets(connect, weak, client):
    """Whatever breaks, each byte comes once, in its place."""
    with client.session() as session:
        program = session.start("seq 1 30000; printf '\\377\\376'; seq 1 20000 >&2")
        program.wait()
        whole = {"stdout": b"".join(b"%d\n" % i for i in range(1, 30001)) + b"\xff\xfe",
                 "stderr": b"".join(b"%d\n" % i for i in range(1, 20001))}
        way = weak(0, 100, 5000, 90000, 70001, 123457)
        got = {"stdout": b"", "stderr": b""}
        events = connect(way.url).session_of(session.id).program(program.number).events()
        for event in events:
            if event.event in got:
                assert event.offset in (None, len(got[event.event]))
                got[event.event] += event.content
        assert got == whole and way.count >= 5 and events.exit.verdict == "ok"
        assert program.output("stdout", 168890) == whole["stdout"][168890:]


def test_what_may_have_begun_is_not_begun_again(connect, weak, client):
    """A program of a session has no key: whether it was started, nobody knows."""
    with client.session() as session:
        way = weak(0)
        with pytest.raises(vial.Lost) as lost:
            connect(way.url).session_of(session.id).start("true")
        assert "hung up" in lost.value.message and way.count == 1
        assert len(session.programs()) <= 1


def test_a_daemon_that_is_busy_is_waited_for(connect, client):
    with Daemon(serve={"concurrency": 1, "queue": 0, "caller_concurrency": 1}) as d:
        patient, other = connect("unix:" + d.socket), connect("unix:" + d.socket, patience=0)
        events = patient.stream("bash", "echo begun; sleep 60")
        while next(events).event != "stdout":
            pass
        with pytest.raises(vial.Busy) as busy:
            other.run("bash", "true")
        assert busy.value.code in ("VIAL-BUSY", "VIAL-RATE") and busy.value.status in (429, 503)
        out = {}
        thread = threading.Thread(target=lambda: out.update(r=patient.run("bash", "echo in")))
        thread.start()
        time.sleep(0.3)
        events.close()
        thread.join(60)
        assert out["r"].stdout == "in\n"


def test_programs_of_a_session(client):
    with client.session(timeout="1m") as session:
        done = session.exec(["cat"], stdin="given", env={"A": "1"})
        assert (done.stdout, done.exit_code) == ("given", 0)
        program = session.start("cat; exit 4", stdin_live=True, cwd="/tmp")
        assert program.poll().running
        assert program.write(b"some ") == 5 and program.write(b"more", close=True) == 4
        done = program.wait()
        assert (done.verdict, done.exit_code, done.stdout) == ("nonzero", 4, "some more")
        program = session.start("sleep 60")
        program.signal("KILL", tree=True)
        assert program.wait().signal in ("SIGKILL", "KILL")
        program = session.start("sleep 60")
        program.signal(15)
        assert program.wait().verdict == "signal"
        program = session.start("stty size; read x; stty size", terminal=(20, 70), stdin_live=True)
        assert wait_until(lambda: program.poll().stdout_bytes)
        program.resize(30, 90)
        program.write(b"\n")
        assert program.output(follow=True).split() == [b"20", b"70", b"30", b"90"]
        assert len(session.programs()) == 5
        with pytest.raises(vial.RunFailed):
            session.exec("false").check()


def test_files_of_a_session(client):
    with client.session() as session:
        session.write("a/b c?.txt", b"\x00\xffdata", mode="0640")
        assert session.read("a/b c?.txt") == b"\x00\xffdata"
        assert session.read("a/b c?.txt", offset=2, length=3) == b"dat"
        entry = session.stat("a/b c?.txt")
        assert (entry.type, entry.size, entry.mode) == ("file", 6, "0640")
        session.move("a/b c?.txt", "moved")
        session.mkdir("x/y")
        session.write("x/y/text", "text")
        assert {e.path for e in session.list(deep=True)} >= {"moved", "x", "x/y", "x/y/text"}
        packed = session.pack("x")
        assert "y/text" in "".join(tarfile.open(fileobj=io.BytesIO(packed)).getnames())
        session.unpack(packed, "z")
        session.remove("x", deep=True)
        with pytest.raises(vial.VialError) as gone:
            session.read("x/y/text")
        assert gone.value.code == "VIAL-NO-FILE"
        assert "text" in [e.path.rsplit("/", 1)[-1] for e in session.list("z", deep=True)]


def test_an_interpreter_remembers(client):
    with client.session() as session:
        cells = session.context("python")
        assert cells.run("x = 6").status == "ok"
        assert cells.run("print('seen'); x * 7").value["text/plain"] == "42"
        bad = cells.run("1 / 0")
        assert bad.status == "error" and bad.error["name"] == "ZeroDivisionError"
        assert cells.run("while True: pass", timeout="500ms").status == "timeout"
        again = session.context("python", name="two")
        assert again.run("x").status == "error" and again.name == "python:two"
        again.restart()
        thread = threading.Thread(target=lambda: wait_until(
            lambda: "here" in [e.path for e in session.list()]) and again.interrupt())
        thread.start()
        assert again.run("open('here', 'w')\nimport time\ntime.sleep(60)").status == "interrupted"
        thread.join()


def test_a_session_is_renewed_and_ends(client):
    session = client.session(lease="1m", idle="1m")
    assert session.info().outcome == "open" and session.renew("2m").id == session.id
    assert session.id in [row.id for row in client.sessions()]
    session.close()
    session.close()  # which is no error
    with pytest.raises(vial.VialError) as over:
        session.exec("true")
    assert over.value.code == "VIAL-SESSION"


def test_a_session_without_an_image_has_no_snapshot(client):
    with client.session() as session:
        for attempt in (lambda: session.snapshot("mine"), session.fork):
            with pytest.raises(vial.VialError) as refused:
                attempt()
            assert refused.value.code == "VIAL-UNSUPPORTED"
    with pytest.raises(vial.VialError) as unknown:
        client.remove_snapshot("snapshot/00000000/mine:" + 32 * "0")
    assert unknown.value.code == "VIAL-IMAGE"


def test_a_volume_is_made_used_and_removed(client):
    made = client.create_volume("by-python", writers="many")
    try:
        assert (made.name, made.writers, made.state) == ("by-python", "many", "free")
        assert client.run("sh", "echo left > /d/x", driver="native",
                          volumes=["by-python:/d:rw"]).verdict == "ok"
        assert client.volume("by-python").created == made.created
        assert "by-python" in [row.name for row in client.volumes()]
    finally:
        client.remove_volume("by-python")
    with pytest.raises(vial.VialError) as gone:
        client.volume("by-python")
    assert gone.value.code == "VIAL-VOLUME"


def test_a_session_is_paused_and_goes_on(client):
    with client.session() as session:
        assert session.pause().paused
        with pytest.raises(vial.VialError) as paused:
            session.exec("true")
        assert paused.value.code == "VIAL-PAUSED"
        assert not session.resume().paused
        session.pause(resume="auto")
        assert session.exec("echo awake").stdout == "awake\n"


def test_a_watcher_tells_what_happens_to_files(client):
    with client.session() as session, session.watch(deep=True) as events:
        assert next(events).event == "start"
        session.write("seen.txt", b"x")
        assert any("seen.txt" in event["path"] for event in events)  # or it waits for ever


def test_a_workspace_is_changed_only_by_a_commit(connect, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "old").write_text("old\n")
    for place in (tree, *tree.parents):
        if str(place).startswith("/tmp/"):
            os.chmod(place, 0o755)
    with Daemon(serve={"keeper": "off"}, policy={"mount_roots": [str(tmp_path)]}) as d:
        with connect("unix:" + d.socket).session(workspace=str(tree),
                                                 workspace_mode="overlay") as session:
            session.exec("echo new > new; echo changed > old").check()
            assert sorted(c.path for c in session.changes(names=True)) == ["new", "old"]
            assert "+changed" in session.diff("old")
            session.checkpoint("one")
            session.exec("rm new")
            assert session.checkpoints() == ["one"]
            session.rollback("one")
            told = session.commit(["new"])
            assert (told.added, told.modified) == (1, 0)
            assert (tree / "new").exists() and (tree / "old").read_text() == "old\n"
            session.discard()
            assert session.changes() == []


def test_what_the_daemon_tells_of_itself(client):
    assert client.health().status == "ok" and client.ready().status == "ready"
    assert "python" in [one.name for one in client.languages() if one.usable]
    assert client.version().version and client.doctor().drivers
    assert "memory" in client.config().defaults and isinstance(client.vessels(), list)
    assert client.schema("request")["properties"]["code"]
    assert client.openapi()["openapi"].startswith("3.")
    assert client.pool().shapes is not None and client.recent().all.ended >= 0
    assert "vial_" in client.metrics()
    assert client.plan("python", "1", timeout="7s").limits
    key = client.run("bash", "true").correlation
    assert client.run_details(key).what
    for ask in (client.images, client.prune, lambda: list(client.pull("none.invalid/x:1"))):
        try:
            ask()
        except vial.VialError as error:  # where there is no engine
            assert error.code.startswith("VIAL-")


def test_a_run_can_be_cancelled(client):
    out = {}
    thread = threading.Thread(target=lambda: out.update(r=client.run(
        "bash", "sleep 60", key="cancel-%d" % id(out))))
    thread.start()
    assert wait_until(lambda: mine(client, "cancel-%d" % id(out)))
    client.cancel("cancel-%d" % id(out))
    thread.join(60)
    assert out["r"].verdict == "cancelled"


def test_who_gives_up_waiting_ends_the_run(daemon):
    """A run with a key goes on when its client hangs up; a task that is cancelled says so."""
    async def give_up():
        async with vial.AsyncClient("unix:" + daemon.socket) as client:
            key = "gave-up-%d" % id(client)
            task = asyncio.ensure_future(client.run("bash", "sleep 60", key=key))
            while not [r for r in await client.runs() if r.request == key]:
                await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(200):
                if (await client.run_details(key)).state == "ended":
                    return (await client.run_details(key)).verdict
                await asyncio.sleep(0.05)
    assert asyncio.run(give_up()) == "cancelled"


def test_many_at_once_share_a_client(daemon):
    async def many():
        async with vial.AsyncClient("unix:" + daemon.socket) as client:
            got = await asyncio.gather(*[client.run("bash", "echo %d" % i) for i in range(30)])
            return [result.stdout for result in got]
    assert asyncio.run(many()) == ["%d\n" % i for i in range(30)]
    with vial.Client("unix:" + daemon.socket) as client:
        out = {}
        threads = [threading.Thread(target=lambda i=i: out.update(
            {i: client.run("bash", "echo %d" % i).stdout})) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert out == {i: "%d\n" % i for i in range(10)}
