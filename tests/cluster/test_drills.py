# SPDX-License-Identifier: Apache-2.0
"""Accidents in a fleet under load. No idempotent run is lost, no verdict is wrong, and sessions are
lost with their own node alone. The table is printed at the end."""
import json
import os
import ssl
import subprocess

import pytest

from cluster import wait_for
from fleet import Load
from front import COUNT, NAME, asked
from settings import Keys, write


def test_a_killed_node_loses_its_own_sessions_alone(cluster, drill):
    with drill("a node's daemon is killed") as load:
        with cluster.replaced("--node", "vial-1"):
            cluster.kill("--node", "vial-1")
            load.passed(12)
    assert drill.lost == [1]


@pytest.mark.short
def test_a_pod_deleted_behind_vials_back_loses_its_own_sessions_alone(cluster, front, drill):
    with drill("a pod is deleted, without grace") as load:
        with front.renewed("vial-2"):
            cluster.kubectl("delete", "pod", "vial-2", "--grace-period=0", "--force")
            load.passed(12)
    assert drill.lost == [2]


def test_a_killed_proxy_loses_no_session(cluster, front, drill):
    """Who has the key asks again."""
    with drill("a proxy is killed", again=True) as load:
        with cluster.replaced("haproxy"):
            cluster.kill("haproxy")
            load.passed(12)
        front.settle()
    assert drill.lost == []


def test_proxies_that_are_told_to_stop_lose_no_answer(cluster, front, drill):
    with drill("a rolling update of the proxies") as load:
        with cluster.replaced("haproxy"):
            cluster.kubectl("rollout", "restart", "deployment/vial-proxy")
            load.passed(12)
            front.settle()
    assert drill.lost == []


def test_a_fleet_goes_on_without_the_api_server(cluster, drill):
    with drill("the API server is killed") as load:
        with cluster.replaced("kube-apiserver", "--cert-dir=/run/apiserver"):
            cluster.kill("kube-apiserver", "--cert-dir=/run/apiserver")
            load.passed(12)
        wait_for("API server", lambda: cluster.ok("kubectl", "get", "--raw", "/readyz"))
    assert drill.lost == []


def test_a_token_is_replaced_while_all_goes_on(cluster, front, drill):
    """First both are known, then the new one alone. Nobody is restarted, and sessions stay with the
    name that both have."""
    with cluster.kept("--node"), drill("a token is rotated") as load:
        old = front.token
        token, entry = front.new_token()
        with open(front.path("tokens.yaml"), encoding="utf-8") as file:
            write(front.path("tokens.yaml"), file.read() + entry)
        front.keep("vial-tokens", "tokens.yaml")
        wait_for("new token", lambda: asked(lambda: front.known(token)) == {404})
        front.token = token
        load.passed(12)
        write(front.path("tokens.yaml"), entry)
        front.keep("vial-tokens", "tokens.yaml")
        wait_for("end of the old token", lambda: asked(lambda: front.known(old)) == {401})
    assert drill.lost == []


def test_a_certificate_is_renewed_while_all_goes_on(cluster, front, drill):
    """By another authority: first both are trusted, then the new one's certificate is shown."""
    keys = Keys(front.path("renewed"))
    keys.sign("tls", "/CN=vial", "subjectAltName=DNS:vial-nodes,DNS:" + NAME)
    with cluster.kept("--node"), drill("the certificate is renewed") as load:
        with open(keys.path("ca.crt"), encoding="ascii") as new, \
                open(front.path("tls.crt"), encoding="ascii") as old:
            write(front.path("ca.crt"), old.read() + new.read())
        front.tls = ssl.create_default_context(cafile=front.path("ca.crt"))
        before = set(cluster.processes("haproxy"))
        front.keep("vial-tls", "tls.crt", "tls.key", "ca.crt")
        wait_for("proxies that trust both", lambda: cluster.leaders("haproxy") <= {
            cluster.parent(pid) for pid in set(cluster.processes("haproxy")) - before})
        load.passed(12)
        for name in ("tls.crt", "tls.key"):
            os.replace(keys.path(name), front.path(name))
        front.keep("vial-tls", "tls.crt", "tls.key", "ca.crt")
        with open(front.path("tls.crt"), encoding="ascii") as file:
            wait_for("new certificate", lambda want=file.read(): asked(front.certificates) == {want})
        load.passed(12)
    assert drill.lost == []


def test_a_machine_that_is_emptied_loses_one_node_at_a_time(cluster, front, drill):
    """Its owner is told how long it has, and the budget holds the next node back."""
    with drill("a machine is emptied, and comes back"):
        try:
            with front.renewed("vial-0"):
                cluster.kubectl("drain", "node1", "--delete-emptydir-data",
                                "--pod-selector=statefulset.kubernetes.io/pod-name=vial-0")
                with pytest.raises(RuntimeError, match="disruption budget"):
                    evict(cluster, "vial-1")
                cluster.kubectl("uncordon", "node1")
        finally:
            cluster.kubectl("uncordon", "node1")
    assert drill.lost == [0] and drill.owners[0].left
    assert not drill.owners[1].left and not drill.owners[2].left


def evict(cluster, name):
    """As `kubectl drain` asks for it, but once."""
    cluster.kubectl("create", "--raw", "/api/v1/namespaces/default/pods/%s/eviction" % name, "-f", "-",
                    given=json.dumps({"apiVersion": "policy/v1beta1", "kind": "Eviction",
                                      "metadata": {"name": name, "namespace": "default"}}))


def test_a_node_that_fills_its_disk_is_evicted_alone(cluster, front, drill):
    with drill("a node's disk is full") as load:
        with front.renewed("vial-2"):
            cluster.kubectl("exec", "vial-2", "--", "sh", "-c",
                            "head -c 600M /dev/zero >/var/lib/vial/fill")
            load.passed(12)
    assert drill.lost == [2]


HOG = """import sys
some = b"x" * (400 << 20)
sys.stdin.readline()
more = b"x" * (300 << 20)
sys.stdin.readline()"""


def free_memory():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))


def memory(cluster, pod=None):
    """What the kubelet believes: bytes that the machine has left, or that a pod uses."""
    said = json.loads(cluster.kubectl("get", "--raw", "/api/v1/nodes/node1/proxy/stats/summary"))
    if not pod:
        return said["node"]["memory"]["availableBytes"]
    return max([one.get("memory", {}).get("workingSetBytes", 0) for one in said["pods"]
                if one["podRef"]["name"] == pod], default=0)


def test_a_machine_without_memory_evicts_who_uses_the_most(cluster, front, drill):
    """A program in the pod takes 400 MiB, and when the kubelet knows, more than the machine can spare."""
    used_up = memory(cluster) - cluster.settings.spare - (550 << 20)
    if used_up > free_memory() - (2 << 30):
        pytest.skip("cluster: this machine has too little memory to use it up")
    with cluster.ballast(used_up), drill("a node is evicted for memory") as load:
        with front.renewed("vial-1"), subprocess.Popen(cluster.command(
                "kubectl", "exec", "-i", "vial-1", "--", "python3", "-c", HOG),
                stdin=subprocess.PIPE) as hog:
            wait_for("figures", lambda: memory(cluster, "vial-1") > 400 << 20)
            hog.stdin.write(b"\n")
            hog.stdin.flush()
            wait_for("eviction", lambda: hog.poll() is not None)
            load.passed(12)
    assert drill.lost == [1]


def test_a_rolling_update_loses_no_run(cluster, front, drill):
    """Not even those without a key. Sessions that outlast their node's drain end with it; their owners
    were told how long they have."""
    cluster.run("ctr", "images", "tag", "localhost/vial:1", "localhost/vial:2")
    with drill("a rolling update to another version") as load, \
            Load(front, keyed=False, clients=1) as plain:
        with cluster.replaced("--node"):
            cluster.kubectl("set", "image", "statefulset/vial", "vial=localhost/vial:2")
            load.passed(12)
            front.settle()
    assert not plain.lost and not plain.wrong, (plain.lost[:5], plain.wrong[:5])
    assert drill.lost == list(range(COUNT)) and all(owner.left for owner in drill.owners)
