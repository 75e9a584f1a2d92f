# SPDX-License-Identifier: Apache-2.0
"""Root's daemon, whose front cannot reach the engine: what its keeper does there."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "serve"))
from daemon import Daemon  # noqa: E402


@pytest.fixture(scope="module")
def served(engine):
    with Daemon(env={"DOCKER_HOST": engine.address},
                policy={"images": ["vial-*", "library/vial-*"]}) as d:
        assert d.ask("GET", "/readyz").json["keeper"]["pid"] > 0
        yield d


def away(engine, name):
    """NAME is in the registry only."""
    engine.publish(engine.small(), "library/" + name)
    if engine.has(name):
        engine.api.untag(name)


def test_images_are_listed_by_a_front_without_the_engines_socket(served, engine):
    name = engine.small()
    listed = served.ask("GET", "/v1/images").json
    assert name in [tag for image in listed for tag in image["tags"]]


def test_the_engines_vessels_are_among_those_of_the_daemon(served, engine):
    sid = served.ask("POST", "/v1/sessions", {"driver": "docker", "image": engine.small()}).json["id"]
    found = [v for v in served.ask("GET", "/v1/vessels").json if "image" in v]
    assert [v["orphan"] for v in found] == [False] and found[0]["image"] == engine.small()
    assert served.ask("DELETE", "/v1/sessions/" + sid).status == 204


def test_a_container_is_paused_and_read_by_absolute_paths(served, engine):
    made = served.ask("POST", "/v1/sessions", {"driver": "docker", "image": engine.small()}).json
    path = "/v1/sessions/" + made["id"]
    assert served.ask("PUT", path + "/files//tmp/d/f", b"there").status == 204
    run = served.ask("POST", path + "/exec?wait=1",
                     {"shell": "echo $$; cat /tmp/d/f"}).json
    assert run["stdout"] == "%d\nthere" % run["pid"]
    assert served.ask("GET", path + "/files//tmp/d/f").body == b"there"
    assert served.ask("GET", path + "/stat?path=/tmp/d/f").json["uid"] > 0
    assert served.ask("POST", path + "/pause").json["paused"]
    used = served.ask("POST", path + "/exec", {"shell": "true"})
    assert (used.status, used.code) == (409, "VIAL-PAUSED")
    assert not served.ask("POST", path + "/resume").json["paused"]
    assert served.ask("GET", path + "/list?path=/tmp/d").json[0]["path"] == "f"
    assert served.ask("POST", path + "/pause").json["paused"]
    assert served.ask("DELETE", path).status == 204
    assert not [v for v in served.ask("GET", "/v1/vessels").json if "image" in v]


def test_a_pull_tells_how_it_gets_on_and_brings_the_image(served, engine):
    away(engine, "vial-served:1")
    events = served.ask("POST", "/v1/images/pull?stream=ndjson", {"name": "vial-served:1"}).events
    assert [e["event"] for e in events][-1] == "image"
    assert "progress" in [e["event"] for e in events]
    assert any(e.get("status") for e in events if e["event"] == "progress")
    assert "vial-served:1" in events[-1]["image"]["tags"] and engine.has("vial-served:1")
    whole = served.ask("POST", "/v1/images/pull", {"name": "vial-served:1"})
    assert whole.status == 200 and whole.json["size"] > 0
    run = served.run("echo $0 here", driver="docker", image="vial-served:1")
    assert run.json["verdict"] == "ok", run.body
    text = served.ask("GET", "/metrics").body.decode()
    assert "\nvial_pulls_total 2\n" in text


def test_what_cannot_be_pulled_says_why(served, engine):
    answer = served.ask("POST", "/v1/images/pull", {"name": "vial-nowhere:1", "timeout": "30s"})
    assert answer.status in (404, 502) and answer.code in ("VIAL-PULL", "VIAL-IMAGE")
    refused = served.ask("POST", "/v1/images/pull", {"name": "other:1"})
    assert (refused.status, refused.code) == (403, "VIAL-POLICY")


def test_a_list_longer_than_one_message_comes_whole(served, engine):
    name = engine.small()
    tags = ["vial-many-%s:%d" % ("x" * 225, n) for n in range(160)]
    try:
        for tag in tags:
            engine.api.tag(name, tag)
        answer = served.ask("GET", "/v1/images")
        assert len(answer.body) > 36 << 10
        assert set(tags) <= {tag for image in answer.json for tag in image["tags"]}
    finally:
        for tag in tags:
            engine.api.untag(tag)


def test_images_without_a_name_are_removed(served, engine):
    answer = served.ask("POST", "/v1/images/prune", {})
    assert answer.status == 200 and set(answer.json) >= {"removed", "freed_bytes"}
    assert engine.has(engine.small())


def test_an_engine_that_is_away_is_told_in_words():
    with Daemon(env={"DOCKER_HOST": "unix:///nonexistent/docker.sock"}) as d:
        answer = d.ask("GET", "/v1/images")
        assert answer.status == 503 and answer.code.startswith("VIAL-ENGINE-")
        assert answer.json["error"]["remedy"]
