# SPDX-License-Identifier: Apache-2.0
"""The chart in a real Kubernetes: it is installed, its nodes have the rights and the level that
it promises, and requests find their way."""
import json
import os
import re
import subprocess

import pytest

from fleet import finds_a_sandbox, finds_an_mcp_session
from front import CHART, COUNT, ROOT

EVERYTHING = ["autoscaler.enabled=true", "dashboard.enabled=true",
              "networkPolicy.monitors=[{namespaceSelector: {}}]",
              "networkPolicy.clients=[{podSelector: {}}]", "image.pullSecrets=[mine]",
              'placement.nodeSelector.vial="yes"', "settings.policy.max_memory=1g"]


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    """Helm's libraries, as one program."""
    if not os.path.isdir("/usr/share/gocode/src/github.com/Masterminds/sprig"):
        pytest.skip("cluster: helm's libraries are not installed")
    where = tmp_path_factory.mktemp("helm")
    subprocess.run(["go", "build", "-o", str(where / "helm"),
                    os.path.join(ROOT, "tests/cluster/helm.go")], check=True, env={
                        **os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode",
                        "GOCACHE": str(where / "cache"), "GOFLAGS": ""})
    return str(where / "helm")


def documents(text):
    return sorted(re.sub(r"^# Source.*\n", "", part).strip()
                  for part in re.split(r"(?:^|\s*\n)---\s*", text)
                  if re.sub(r"^# Source.*", "", part).strip())


@pytest.mark.parametrize("more", [
    {}, {"kubernetes": 20}, {"autoscaler": {"enabled": True}, "monitor": {
        "enabled": True, "labels": {"a": "b"}}, "dashboard": {"enabled": True},
        "image": {"pullSecrets": ["one", "two"]}, "images": {
            "pull": ["r/a@sha256:" + "0" * 64], "login": "l", "authority": "a"},
        "rights": {"runtimeClass": "r"},
        "tokens": {"entries": [{"name": "a", "scopes": ["read", "run"], "sha256": "0" * 64}]},
        "settings": {"policy": {"images": ["a: b", "*", "yes", "1:20", "", "x # y", "one\ntwo\n"]}},
        "placement": {"tolerations": [{"key": "vial", "operator": "Exists"}]}}],
    ids=["usual", "old", "everything"])
def test_helms_own_libraries_render_the_same_bytes(engine, tmp_path, more):
    (tmp_path / "v.yaml").write_text(json.dumps(more))
    ours = subprocess.check_output([os.path.join(ROOT, "tools/helm-render"), CHART, "--values",
                                    str(tmp_path / "v.yaml")], text=True)
    theirs = subprocess.check_output([engine, CHART, "vial", "default", str(tmp_path / "v.yaml")],
                                     text=True)
    assert documents(ours) == documents(theirs)


def test_the_api_server_takes_every_object(cluster, front):
    text = front.render(*EVERYTHING)
    said = cluster.kubectl("apply", "--dry-run=server", "-f", "-", given=text)
    assert len(said.splitlines()) == len(documents(text)) and "horizontalpodautoscaler" in said


@pytest.mark.short
def test_every_node_answers_through_the_proxy_and_holds_its_sessions(front):
    for i in range(COUNT):
        sid = front.session_on(i)
        assert front.exec(sid, "echo on %d" % i).json["stdout"] == "on %d\n" % i
        assert front.ask("DELETE", "/v1/sessions/" + sid).status == 204


def test_sandboxes_and_mcp_sessions_find_their_node(front):
    for _ in range(2 * COUNT):
        finds_a_sandbox(front)
        finds_an_mcp_session(front)


@pytest.mark.short
def test_vessels_in_a_node_have_the_level_that_the_chart_promises(front):
    result = front.run("id -u").json
    assert result["verdict"] == "ok", result
    assert result["isolation"]["level"] == "namespaces", result["isolation"]


def test_every_node_has_the_images_of_the_chart_before_it_is_ready(front):
    for i in range(COUNT):
        sid = front.session_on(i, image=front.registry.name, pull="never")
        assert front.exec(sid, "cat /etc/marked").json["stdout"] == "here\n"
        assert front.ask("DELETE", "/v1/sessions/" + sid).status == 204


def test_doctor_in_a_pod_says_what_it_has(cluster, front):
    said = cluster.kubectl("exec", "vial-0", "--", "vial", "doctor", "--json")
    native = next(d for d in json.loads(said)["drivers"] if d["name"] == "native")
    assert native["usable"] and native["level"] == "namespaces", native


def test_the_fleets_account_may_do_nothing(cluster, front):
    me = "system:serviceaccount:default:vial"
    for verb, what in (("get", "pods"), ("list", "secrets"), ("create", "pods"), ("get", "nodes")):
        done = subprocess.run(cluster.command("kubectl", "auth", "can-i", verb, what, "--as", me),
                              capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.strip()) == (1, "no"), (verb, what)
    assert not cluster.ok("kubectl", "exec", "vial-0", "--", "ls", "/var/run/secrets/kubernetes.io")
