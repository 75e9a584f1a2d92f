# SPDX-License-Identifier: Apache-2.0
"""Driver `kubernetes` on a real cluster: a pod per vessel, by the rights of deploy/driver."""
import http.client
import json
import os
import select
import signal
import ssl
import subprocess

import pytest

from cluster import wait_for
from line import IMAGE, Vial
from settings import Keys, write


@pytest.fixture(scope="module")
def vial(cluster, tmp_path_factory):
    with Vial(cluster, str(tmp_path_factory.mktemp("driver")), "vessels") as line:
        yield line


@pytest.mark.short
def test_a_program_has_its_streams_its_files_and_its_exit_code(vial, tmp_path):
    (tmp_path / "in.txt").write_text("of a file\n")
    r = vial.run("--in", str(tmp_path / "in.txt") + ":in.txt", "--out", "out.txt", "sh", "cat; cat in.txt; "
                 "echo of a program >out.txt; echo aside >&2; exit 3", given=b"of stdin\n")
    assert (r["verdict"], r["exit_code"]) == ("nonzero", 3), r
    assert (r["stdout"], r["stderr"]) == ("of stdin\nof a file\n", "aside\n"), r
    with open(os.path.join(vial.where, "out.txt"), encoding="ascii") as file:
        assert file.read() == "of a program\n"
    assert (r["driver"], r["isolation"]["level"]) == ("kubernetes", "container"), r
    assert "net" not in r["isolation"]["layers"] and "seccomp" in r["isolation"]["layers"], r
    vial.clear()


def test_every_byte_arrives_in_both_directions(vial):
    given = bytes(range(256)) * 8192
    p = vial.start("run", "sh", "cat", stdin=subprocess.PIPE)
    out, err = p.communicate(given)
    assert p.returncode == 0, err
    assert out == given


@pytest.mark.parametrize("words, verdict", [
    (("--timeout", "1s", "sh", "sleep 60"), "timeout"),
    (("--memory", "64m", "python3", "print(len(b'a' * 200000000))"), "oom"),
    (("sh", "kill -SEGV $$"), "signal"),
], ids=["timeout", "oom", "signal"])
def test_verdicts_are_those_of_other_drivers(vial, words, verdict):
    assert vial.run(*words)["verdict"] == verdict


def test_without_a_network_there_is_no_socket_that_leads_anywhere(vial):
    r = vial.run("python3", "import errno, socket\n"
                 "for family in 2, 10, 16, 17, 40:\n"
                 "    for kind in 1, 2, 3:\n"
                 "        try:\n"
                 "            print('open', socket.socket(family, kind))\n"
                 "        except OSError as e:\n"
                 "            assert e.errno in (errno.EAFNOSUPPORT, errno.EPERM), e\n"
                 "print(socket.socketpair()[0].family == socket.AF_UNIX)")
    assert (r["verdict"], r["stdout"]) == ("ok", "True\n"), r


def test_a_network_is_the_pods(vial):
    # The API server's own address, which every pod reaches.
    r = vial.run("--network", "bridge", "python3", "import socket\n"
                 "socket.create_connection(('10.96.0.1', 443), 10)\nprint('there')")
    assert (r["verdict"], r["stdout"]) == ("ok", "there\n"), r


def test_what_the_cluster_cannot_do_has_a_code_and_a_remedy(vial):
    for words, expected in [
            (("--image", "localhost/none:1"), ("failed", "VIAL-CLUSTER-IMAGE")),
            (("--image", "localhost/pause:1"), ("failed", "VIAL-CLUSTER-START")),
            (("--runtime", "none"), ("denied", "VIAL-ENGINE-RUNTIME")),
            (("--cpu-time", "1s"), ("denied", "VIAL-UNSUPPORTED"))]:
        assert vial.code(*words, "sh", "true") == expected
    vial.has_no_room("--cpus", "60")
    vial.clear()


def test_a_quota_that_is_used_up_is_told(vial):
    vial.kubectl("create", "quota", "none", "--hard=pods=0")
    try:
        wait_for("quota", lambda: "0/0" in vial.kubectl("get", "quota", "none"))
        assert vial.code("sh", "true") == ("failed", "VIAL-CLUSTER-QUOTA")
    finally:
        vial.kubectl("delete", "quota", "none")


def tiny(space):
    """A priority level with a place or a few, for the accounts of a namespace."""
    level = {"kind": "PriorityLevelConfiguration", "spec": {"type": "Limited", "limited": {
        "assuredConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}}}
    flow = {"kind": "FlowSchema", "spec": {
        "matchingPrecedence": 50, "priorityLevelConfiguration": {"name": "tiny"}, "rules": [{
            "subjects": [{"kind": "Group", "group": {"name": "system:serviceaccounts:" + space}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                               "namespaces": ["*"]}]}]}}
    return "".join(json.dumps({"apiVersion": "flowcontrol.apiserver.k8s.io/v1beta1",
                               "metadata": {"name": "tiny"}, **one}) for one in (level, flow))


def begin_to_post(vial):
    """A request whose body does not come keeps its place with the server."""
    tls = ssl.create_default_context(cafile=vial.ca)
    tls.maximum_version = ssl.TLSVersion.TLSv1_2  # later ones bring tickets besides answers
    c = http.client.HTTPSConnection("127.0.0.1", 6443, context=tls)
    c.putrequest("POST", "/api/v1/namespaces/%s/pods" % vial.space)
    c.putheader("Authorization", "Bearer " + vial.token)
    c.putheader("Content-Type", "application/json")
    c.putheader("Content-Length", str(1 << 20))  # so much is not waited for before a refusal
    c.endheaders()
    return c


def take_all_places(vial):
    """Such requests, of which some were too many; or none, while the server does not count yet."""
    held = [begin_to_post(vial) for _ in range(30)]
    said, _, _ = select.select([c.sock for c in held], [], [], 5)
    if any(c.getresponse().status == 429 for c in held if c.sock in said):
        return held
    for c in held:
        c.close()
    return None


def refusals(vial):
    return sum(float(line.split()[-1]) for line in vial.kubectl("get", "--raw", "/metrics").splitlines()
               if line.startswith("apiserver_flowcontrol_rejected_requests_total{") and '"tiny"' in line)


def test_a_server_that_has_too_much_to_do_is_asked_again(vial):
    """By priority and fairness, which say 429."""
    vial.kubectl("apply", "-f", "-", given=tiny(vial.space))
    held = []
    try:
        held = wait_for("a server that refuses", lambda: take_all_places(vial))
        before = refusals(vial)
        p = vial.start("run", "sh", "echo after")
        wait_for("refusal", lambda: refusals(vial) > before)
        assert p.poll() is None
    finally:
        for c in held:
            c.close()
        vial.kubectl("delete", "flowschema,prioritylevelconfiguration", "tiny")
    out, err = p.communicate()
    assert (p.returncode, out) == (0, b"after\n"), err
    vial.clear()


def test_a_pod_that_somebody_deletes_is_told_as_such(vial):
    p = vial.begin()
    vial.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
    _, err = p.communicate()
    assert p.returncode == 125 and b"VIAL-CLUSTER-GONE" in err, err


@pytest.mark.short
def test_what_a_killed_caller_leaves_runs_no_more_and_is_removed(vial):
    p = vial.begin()
    [name] = vial.names()
    listed, _ = vial.start("ps", "--json").communicate()
    assert name in [v.get("name") for v in json.loads(listed)]
    p.send_signal(signal.SIGKILL)
    p.communicate()
    wait_for("end of the pod", lambda: vial.kubectl(
        "get", "pod", name, "-o", "jsonpath={.status.phase}") in ("Succeeded", "Failed"))
    out, err = vial.start("cleanup").communicate()
    assert out == b"1 container removed\n", (out, err)
    vial.clear()


def test_who_is_not_known_or_not_trusted_gets_nothing(vial):
    other = Keys(vial.where, "other")
    stranger = Keys(vial.where)
    stranger.sign("stranger", "/O=system:masters/CN=admin")
    cert = {"client-certificate": stranger.path("stranger.crt"),
            "client-key": stranger.path("stranger.key")}
    for name, config, expected in [
            ("token", ({"token": "none"}, {}), "VIAL-CLUSTER-ACCESS"),
            ("nobody", ({}, {}), "VIAL-CLUSTER-ACCESS"),
            ("stranger", (cert, {}), "VIAL-CLUSTER-ACCESS"),
            ("authority", ({"token": vial.token}, {"certificate-authority": other.ca + ".crt"}),
             "VIAL-CLUSTER-TLS"),
            ("name", ({"token": vial.token}, {"tls-server-name": "other.example"}), "VIAL-CLUSTER-TLS"),
            ("unchecked", ({"token": vial.token}, {"insecure-skip-tls-verify": True}),
             "VIAL-UNSUPPORTED")]:
        path = vial.write_config(name, config[0], **config[1])
        assert vial.code("sh", "true", config=path)[1] == expected, name


def test_a_certificate_is_as_good_as_a_token(vial):
    keys = os.path.join(vial.cluster.dir, "keys/admin")
    path = vial.write_config("certificate", {"client-certificate": keys + ".crt",
                                             "client-key": keys + ".key"})
    assert vial.run("sh", "echo hello", config=path)["stdout"] == "hello\n"


def test_a_plugin_gives_the_credentials(vial):
    plugin = os.path.join(vial.where, "plugin")
    kind = "client.authentication.k8s.io/v1beta1"
    write(plugin, '#!/bin/sh\ntest "$A$1" = bc || exit 1\necho \'%s\'\n' % json.dumps(
        {"apiVersion": kind, "kind": "ExecCredential", "status": {"token": vial.token}}))
    os.chmod(plugin, 0o755)
    user = {"exec": {"apiVersion": kind, "command": "./plugin", "args": ["c"],
                     "env": [{"name": "A", "value": "b"}]}}
    path = vial.write_config("with-plugin", user)
    assert vial.run("sh", "echo hello", config=path)["stdout"] == "hello\n"
    user["exec"]["args"] = []
    assert vial.code("sh", "true", config=vial.write_config("bad-plugin", user))[1] == "VIAL-CLUSTER-CONFIG"


def test_in_a_pod_its_account_is_used(vial):
    vial.kubectl("apply", "-f", "-", given=json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "caller"}, "spec": {
            "serviceAccountName": "vial-driver", "restartPolicy": "Never", "containers": [{
                "name": "caller", "image": IMAGE, "imagePullPolicy": "Never",
                "command": ["vial", "run", "--driver", "kubernetes", "--image", IMAGE, "--pull",
                            "never", "--cpus", "0.1", "sh", "echo from a pod"]}]}}))
    try:
        wait_for("end of the caller", lambda: vial.kubectl(
            "get", "pod", "caller", "-o", "jsonpath={.status.phase}") in ("Succeeded", "Failed"))
        assert vial.kubectl("logs", "caller") == "from a pod\n"
    finally:
        vial.kubectl("delete", "pod", "caller", "--grace-period=1")
    vial.clear()
