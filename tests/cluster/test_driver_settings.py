# SPDX-License-Identifier: Apache-2.0
"""Driver `kubernetes` on a real cluster: what the settings say of pods, credentials that end,
owners, and what a cluster does to pods."""
import base64
import http.client
import json
import os
import random
import signal
import ssl
import statistics
import time

import pytest

from cluster import wait_for
from front import BUILD
from line import IMAGE, Vial
from registries import Handmade, Image
from registry import Registry, shell
from settings import NODE, write

PLUGIN = "client.authentication.k8s.io/v1beta1"
ROUNDS = int(os.environ.get("VIAL_TEST_ROUNDS", "5"))  # 40 or so for a figure to be quoted


@pytest.fixture(scope="module")
def vial(cluster, tmp_path_factory):
    with Vial(cluster, str(tmp_path_factory.mktemp("driver")), "settled") as line:
        yield line


def finish(p):
    _, err = p.communicate(b"\n")
    assert p.returncode == 0, err


def test_a_pod_has_what_the_settings_say(vial):
    vial.kubectl("apply", "-f", "-", given=json.dumps({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "vessel"},
        "value": -7}))
    try:
        p = vial.begin(settings={
            "node_selector": {"kubernetes.io/hostname": NODE}, "priority_class": "vessel",
            "pull_secrets": ["one", "two"], "tolerations": ["gpu:NoExecute"],
            "labels": {"team": "a"}, "annotations": {"example.com/note": "of the settings"}})
        pod = vial.pods()[0]
        finish(p)
    finally:
        vial.kubectl("delete", "priorityclass", "vessel")
    spec, meta = pod["spec"], pod["metadata"]
    assert spec["nodeSelector"]["kubernetes.io/hostname"] == NODE
    assert (spec["priorityClassName"], spec["priority"]) == ("vessel", -7)
    assert spec["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert {"key": "gpu", "operator": "Exists", "effect": "NoExecute"} in spec["tolerations"]
    assert (meta["labels"]["team"], meta["labels"]["vial.managed"]) == ("a", "true")
    assert meta["annotations"]["example.com/note"] == "of the settings"
    vial.clear()


def test_where_no_node_is_wanted_there_is_no_room(vial):
    vial.has_no_room(settings={"node_selector": {"disk": "none"}})
    vial.clear()


def test_a_taint_keeps_away_who_does_not_tolerate_it(vial):
    vial.kubectl("taint", "node", NODE, "only=vessels:NoSchedule")
    try:
        vial.has_no_room()
        for toleration in "only", "only=vessels", "only=vessels:NoSchedule":
            r = vial.run("sh", "echo there", settings={"tolerations": toleration})
            assert r["stdout"] == "there\n", r
    finally:
        vial.kubectl("taint", "node", NODE, "only-")
    vial.clear()


def test_a_class_that_is_not_there_is_told(vial):
    assert vial.code("sh", "true", settings={"priority_class": "none"})[1] == "VIAL-CLUSTER-CONFIG"


def test_an_image_comes_by_the_secret_that_is_named(vial):
    # By plain HTTP, as container runtimes speak with loopback.
    registry = Handmade(Image(shell("/usr/bin/head", "/bin/chmod")), Registry.judge)
    words = ("--image", "%s/private@%s" % (registry.host, registry.image.digest), "--pull", "missing",
             "sh", "cat /etc/marked")
    try:
        vial.kubectl("create", "secret", "docker-registry", "private", "--docker-server=" + registry.host,
                     "--docker-username=fleet", "--docker-password=of nodes")
        assert vial.code(*words) == ("failed", "VIAL-CLUSTER-IMAGE")
        assert vial.code(*words, settings={"pull_secrets": ["other"]}) == ("failed", "VIAL-CLUSTER-IMAGE")
        r = vial.run(*words, settings={"pull_secrets": "private"})
        assert (r["verdict"], r["stdout"]) == ("ok", "here\n"), r
    finally:
        registry.stop()
    # A kubelet takes a minute for those that never began.
    vial.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
    vial.clear()


def test_a_pod_that_takes_more_disk_than_it_asked_for_is_evicted(vial):
    # What is in memory is exact on later clusters, which end the program instead.
    r = vial.run("--timeout", "3m", "--disk", "1m", "sh",
                 "head -c 16000000 /dev/zero >big || exit 9; sleep 170")
    assert r["exit_code"] == 9 or r["error"]["code"] == "VIAL-CLUSTER-EVICTED", r
    vial.clear()


def test_a_pod_that_the_cluster_ends_at_its_deadline_is_told_as_such(vial):
    p = vial.begin("--timeout", "3m")
    [name] = vial.names()
    vial.kubectl("patch", "pod", name, "-p", '{"spec":{"activeDeadlineSeconds":1}}')
    _, err = p.communicate()
    assert p.returncode == 125 and b"VIAL-CLUSTER-DEADLINE" in err, err
    vial.clear()


def is_ready(vial, name):
    conditions = json.loads(vial.kubectl("get", "pod", name, "-o", "json"))["status"]["conditions"]
    return next(c["status"] for c in conditions if c["type"] == "Ready") == "True"


def test_a_node_that_is_lost_is_told_as_such(vial):
    p = vial.begin("--timeout", "8m")
    [name] = vial.names()
    for pid in vial.cluster.processes("kubelet"):
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_for("loss of the node", lambda: not is_ready(vial, name))
    finally:
        vial.cluster.kill("kubelet")  # the stream ends with it, and another one begins
    _, err = p.communicate()
    assert p.returncode == 125 and b"VIAL-CLUSTER-NODE" in err, err
    vial.kubectl("wait", "--for=condition=Ready", "node/" + NODE, "--timeout=300s")
    vial.clear()


def make_token(vial, name):
    """A token of the account's, which ends with its Secret."""
    vial.kubectl("apply", "-f", "-", given=json.dumps({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": name,
                     "annotations": {"kubernetes.io/service-account.name": "vial-driver"}}}))
    data = wait_for("token", lambda: json.loads(
        vial.kubectl("get", "secret", name, "-o", "json")).get("data"))
    return base64.b64decode(data["token"]).decode()


def status_of(vial, token):
    c = http.client.HTTPSConnection("127.0.0.1", 6443, context=ssl.create_default_context(cafile=vial.ca))
    c.request("GET", "/api/v1/namespaces/%s/pods" % vial.space, headers={"Authorization": "Bearer " + token})
    return c.getresponse().status


def user_of(vial, kind, path):
    if kind == "file":
        return {"tokenFile": path}
    plugin = os.path.join(vial.where, "of-file")
    write(plugin, '#!/bin/sh\necho \'{"apiVersion":"%s","kind":"ExecCredential","status":{"token":"\'"$(cat '
          "%s)\"'\"}}'\n" % (PLUGIN, path))
    os.chmod(plugin, 0o755)
    return {"exec": {"apiVersion": PLUGIN, "command": plugin}}


@pytest.mark.parametrize("kind", ["file", "plugin"])
def test_a_run_that_outlives_its_credentials_removes_its_pod(vial, kind):
    short = make_token(vial, "short-" + kind)
    path = os.path.join(vial.where, "token")
    write(path, short)
    p = vial.begin("--timeout", "5m", config=vial.write_config("of-" + kind, user_of(vial, kind, path)))
    write(path, vial.token)
    vial.kubectl("delete", "secret", "short-" + kind)
    wait_for("end of the token", lambda: status_of(vial, short) == 401)
    finish(p)
    vial.clear()


def test_what_a_pod_makes_goes_with_it(vial):
    vial.kubectl("apply", "-f", "-", given=json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "maker"}, "spec": {
            "serviceAccountName": "vial-driver", "restartPolicy": "Never", "containers": [{
                "name": "maker", "image": IMAGE, "imagePullPolicy": "Never",
                "command": ["vial", "run", "--driver", "kubernetes", "--image", IMAGE, "--pull", "never",
                            "--cpus", "0.1", "--timeout", "5m", "sh", "sleep 290"]}]}}))
    pods = wait_for("pods", lambda: len(vial.pods()) == 2 and vial.pods())
    maker = next(p["metadata"] for p in pods if p["metadata"]["name"] == "maker")
    made = next(p["metadata"] for p in pods if p["metadata"]["name"] != "maker")
    owners = [{key: o[key] for key in ("kind", "name", "uid")} for o in made["ownerReferences"]]
    assert owners == [{"kind": "Pod", "name": "maker", "uid": maker["uid"]}]
    vial.kubectl("delete", "pod", "maker", "--grace-period=0", "--force")
    vial.clear()


def seconds(what):
    """Nodes look at their containers once in a second: each begins at a moment of its own."""
    time.sleep(random.random())
    begin = time.monotonic()
    what()
    return time.monotonic() - begin


def test_how_long_a_pod_takes_beside_kubectl(vial):
    """Prints, and judges nothing: the ratio is the machine's, and chance's, as well."""
    opened, whole, kubectl = [], [], []
    for i in range(ROUNDS):
        name = "speed-%d" % i
        ran = []
        whole.append(seconds(lambda: ran.append(vial.run("--cpus", "1", "sh", "true"))))
        assert ran[0]["verdict"] == "ok", ran
        opened.append(ran[0]["timing"]["open_ms"] / 1000)
        kubectl.append(seconds(lambda: (
            vial.kubectl("run", name, "--image=" + IMAGE, "--image-pull-policy=Never", "--restart=Never",
                         "--command", "--", "sleep", "600"),
            vial.kubectl("wait", "--for=condition=Ready", "pod/" + name, "--timeout=300s"))))
        vial.kubectl("delete", "pod", name, "--grace-period=0", "--force")
    text = "".join("%-44s %6.2f s\n" % (what, statistics.mean(row)) for what, row in [
        ("kubectl run, until ready", kubectl), ("a pod of vial's, until its guest speaks", opened),
        ("vial run sh true, whole", whole)])
    text += "%-44s %6.2f (%d of each)\n" % (
        "a pod of vial's / kubectl run", statistics.mean(opened) / statistics.mean(kubectl), ROUNDS)
    print("\n" + text, flush=True)
    with open(os.path.join(BUILD, "cluster-speed.txt"), "a", encoding="utf-8") as file:
        file.write(text)
    vial.clear()
