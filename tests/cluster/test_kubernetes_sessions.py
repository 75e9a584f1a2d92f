# SPDX-License-Identifier: Apache-2.0
"""Pods that stay: sessions of driver `kubernetes`, pods that wait for runs, and how long a call takes
beside kubectl's own, on a real cluster."""
import contextlib
import os
import signal
import statistics
import subprocess
import time

import pytest

from cluster import wait_for
from front import BUILD
from daemon import Daemon
from line import IMAGE, Vial

ROUNDS = 15


class Patient(Daemon):
    """A cluster on a busy machine has pods in its own time."""

    def connect(self, timeout=600):
        return super().connect(timeout)

    def stop(self, sig=signal.SIGTERM, timeout=600):
        return super().stop(sig, timeout)


class Kept(Vial):
    """A namespace, and daemons that have pods in it. The node has room for all that may wait."""

    def daemon(self, warm="none", **defaults):
        return Patient(serve={"keeper": "off", "warm": warm}, env={"KUBECONFIG": self.config}, defaults={
            "driver": "kubernetes", "image": IMAGE, "pull": "never", "open_timeout": "5m",
            "cpus": 0.2 if warm == "none" else 0.1, **defaults})

    def left(self):
        """Pods that nobody told to go."""
        return [p for p in self.pods() if "deletionTimestamp" not in p["metadata"]]

    def live(self):
        """Those of them in which something can run."""
        return [p for p in self.left() if p["status"].get("phase") not in ("Succeeded", "Failed")]

    def clear(self):
        """What was told to go, the node removes in its own time."""
        wait_for("end of all pods", lambda: not self.left())


@pytest.fixture(scope="module")
def kept(cluster, tmp_path_factory):
    with Kept(cluster, str(tmp_path_factory.mktemp("kept")), "kept") as k:
        yield k


@contextlib.contextmanager
def session(daemon, **fields):
    made = daemon.ask("POST", "/v1/sessions", fields)
    assert made.status == 201, made.body
    path = "/v1/sessions/" + made.json["id"]
    yield path
    daemon.ask("DELETE", path)


def say(daemon, path, line):
    """What a shell in the session prints."""
    answer = daemon.ask("POST", path + "/exec?wait=1", {"shell": line})
    assert answer.json.get("exit_code") == 0, answer.body
    return answer.json["stdout"]


@pytest.mark.short
def test_a_session_in_a_pod_keeps_files_and_interpreters(kept):
    with kept.daemon() as d:
        with session(d, lease="2h") as s:
            assert d.ask("GET", s).json["driver"] == "kubernetes"
            [pod] = kept.live()
            assert pod["spec"]["activeDeadlineSeconds"] > 26 * 3600  # the lease, and a day of renewals
            assert d.ask("POST", s + "/renew", {"lease": "24h"}).status == 200
            say(d, s, "echo kept >file")
            assert say(d, s, "cat file") == "kept\n"
            given = bytes(range(256)) * 4096
            for name in ("data", "%2Ftmp%2Fdata"):
                assert d.ask("PUT", s + "/files/" + name, given).status == 204
                assert d.ask("GET", s + "/files/" + name).body == given
            assert d.ask("POST", s + "/contexts", {"language": "python"}).status == 201
            cells = [d.ask("POST", s + "/contexts/python/run", {"code": code}).json
                     for code in ("x = 6", "x * 7")]
            assert cells[1]["value"]["text/plain"] == "42", cells
            listed, _ = kept.start("ps", "--json").communicate()
            assert pod["metadata"]["name"].encode() in listed
        kept.clear()


def test_a_session_that_nobody_uses_ends_with_its_pod(kept):
    with kept.daemon() as d, session(d, idle="1s") as s:
        wait_for("end of the session", lambda: d.ask("GET", s).json["outcome"] == "expired")
        kept.clear()


def test_what_no_pod_has_is_refused_to_sessions_too(kept, tmp_path):
    with kept.daemon() as d:
        answer = d.ask("POST", "/v1/sessions", {"workspace": str(tmp_path), "workspace_mode": "rw"})
        assert answer.code == "VIAL-UNSUPPORTED", answer.body
        with session(d) as s:
            assert d.ask("POST", s + "/pause", {}).code == "VIAL-UNSUPPORTED"
    kept.clear()


def test_a_session_whose_pod_somebody_deletes_says_so(kept):
    with kept.daemon() as d, session(d) as s:
        assert d.ask("POST", s + "/exec", {"shell": "sleep 1000"}).status == 201
        kept.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
        wait_for("end of the session", lambda: d.ask("GET", s).json["outcome"] == "failed")
        assert d.ask("GET", s).json["error"]["code"] == "VIAL-CLUSTER-GONE"
        answer = d.ask("POST", s + "/exec", {"shell": "true"})
        assert (answer.status, answer.code) == (404, "VIAL-SESSION"), answer.body


def run_warm(daemon, **fields):
    """Asks until a pod has waited for it. The answer, and how many seconds it took."""
    def ask():
        begin = time.monotonic()
        answer = daemon.run("echo hi", **fields).json
        took = time.monotonic() - begin
        assert (answer["verdict"], answer["stdout"]) == ("ok", "hi\n"), answer
        return (answer, took) if answer["start"] == "warm" else None
    return wait_for("a pod that waits", ask)


def waiting(daemon, mebibytes):
    """How many pods of that size wait."""
    return sum(shape["idle"] for shape in daemon.ask("GET", "/v1/pool").json["shapes"]
               if shape["memory_bytes"] == mebibytes << 20)


def test_pods_wait_for_runs_and_are_used_once_and_not_for_ever(kept):
    with kept.daemon(["bash"]) as d:
        used = {run_warm(d)[0]["vessel_id"] for _ in range(3)}
        assert len(used) == 3
        # What nobody named waits once it was asked for again, for a minute after the last time.
        run_warm(d, memory="300m")
        wait_for("pods that wait", lambda: waiting(d, 300))
        wait_for("their end", lambda: not waiting(d, 300))
        assert d.process.poll() is None
        wait_for("those that were named", lambda: waiting(d, 512))
    kept.clear()


def test_what_waits_goes_with_an_owner_that_ends(kept):
    with kept.daemon(["bash"]) as d:
        run_warm(d)
        wait_for("pods that wait", lambda: waiting(d, 512))
    kept.clear()


def test_what_a_killed_owner_leaves_ends_by_itself(kept):
    with kept.daemon(["bash"]) as d:
        run_warm(d)
        wait_for("pods that wait", lambda: waiting(d, 512))
        assert d.ask("POST", "/v1/sessions", {}).status == 201
        assert len(kept.live()) > 1
        d.stop(signal.SIGKILL)
        wait_for("end of all that ran", lambda: not kept.live())
        assert kept.start("cleanup").wait() == 0
    kept.clear()


def test_a_pod_that_is_waited_for_outlives_a_restart_of_the_api_server(kept):
    kept.cluster.kubectl("cordon", "node1")
    try:
        p = kept.start("run", "sh", "echo after")
        wait_for("a pod without a place", kept.live)
        with kept.cluster.replaced("kube-apiserver", "--cert-dir=/run/apiserver"):
            kept.cluster.kill("kube-apiserver", "--cert-dir=/run/apiserver")
        kept.api_is_back()
    finally:
        kept.cluster.kubectl("uncordon", "node1")
    out, err = p.communicate()
    assert (p.returncode, out) == (0, b"after\n"), err
    kept.clear()


def test_what_an_api_server_takes_along_is_told_and_replaced(kept):
    """Streams lead through it."""
    with kept.daemon(["bash"]) as d, session(d) as s:
        run_warm(d)
        with kept.cluster.replaced("kube-apiserver", "--cert-dir=/run/apiserver"):
            kept.cluster.kill("kube-apiserver", "--cert-dir=/run/apiserver")
        wait_for("end of the session", lambda: d.ask("GET", s).json["outcome"] == "failed")
        assert d.ask("GET", s).json["error"]["code"] == "VIAL-LOST"
        kept.api_is_back()
        run_warm(d)
    # Of what it was not there to be told, it is told now.
    assert kept.start("cleanup").wait() == 0
    kept.clear()


def seconds(action):
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


class Kubectl:
    """kubectl as its users start it: without the way into the cluster's namespaces."""

    def __init__(self, kept):
        settings = kept.cluster.settings
        self.env = {**os.environ, "KUBECONFIG": settings.path("admin.conf")}
        self.start = [os.path.join(settings.programs, "kubectl"), "-n", kept.space]

    def __call__(self, *args):
        subprocess.run([*self.start, *args], env=self.env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=True)

    def run_until_ready(self, name):
        self("run", name, "--image", IMAGE, "--image-pull-policy=Never", "--restart=Never",
             "--limits=cpu=300m,memory=128Mi", "--command", "--", "sleep", "1000")
        self("wait", "--for=condition=Ready", "pod/" + name, "--timeout=300s")


def test_calls_beside_those_of_kubectl_print_their_ratios(kept):
    """In turns, medians. Prints, and asserts nothing of the times."""
    kubectl, rows = Kubectl(kept), {name: [] for name in ("run", "open", "exec", "cli", "kept", "warm")}
    for i in range(ROUNDS // 3):
        rows["run"].append(seconds(lambda name="bare-%d" % i: kubectl.run_until_ready(name)))
        kubectl("delete", "pod", "bare-%d" % i, "--grace-period=1", "--wait=false")
        rows["open"].append(kept.run("--cpus", "0.3", "--memory", "128m", "sh", "true")["timing"]["open_ms"] / 1000)
    with kept.daemon(cpus=0.5) as d, session(d) as s:
        [pod] = [p["metadata"]["name"] for p in kept.live() if p["metadata"]["name"].startswith("vial-")]
        command = [os.path.join(BUILD, "vial"), "session", "exec", "--socket", d.socket, s.split("/")[-1],
                   "--", "true"]
        for _ in range(ROUNDS):
            rows["exec"].append(seconds(lambda: kubectl("exec", pod, "--", "true")))
            rows["cli"].append(seconds(lambda: subprocess.run(command, check=True)))
            rows["kept"].append(seconds(lambda: say(d, s, "true")))
    with kept.daemon(["bash"]) as d:  # those that were used keep their place until the node removes them
        for _ in range(ROUNDS // 3):
            wait_for("a pod that waits", lambda: waiting(d, 512))
            rows["warm"].append(run_warm(d)[1])
    kept.clear()
    print_ratios({name: statistics.median(all_) * 1000 for name, all_ in rows.items()})


def print_ratios(ms):
    text = ("a pod, open: vial %.0f ms, kubectl run until ready %.0f ms (%.2f)\n"
            "a call in a pod that is kept: vial session exec %.0f ms, kubectl exec %.0f ms (%.2f); "
            "by HTTP %.1f ms (%.3f)\n"
            "a run in a pod that waited, by HTTP: %.1f ms\n") % (
                ms["open"], ms["run"], ms["open"] / ms["run"], ms["cli"], ms["exec"], ms["cli"] / ms["exec"],
                ms["kept"], ms["kept"] / ms["exec"], ms["warm"])
    print(text, flush=True)
    with open(os.path.join(BUILD, "cluster-speed.txt"), "a", encoding="utf-8") as file:
        file.write(text)
