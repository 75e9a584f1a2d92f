# SPDX-License-Identifier: Apache-2.0
"""A fleet in the cluster, as its clients see it, and the count of what a drill lost."""
import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/serve"))
from daemon import Answer  # noqa: E402 pylint: disable=wrong-import-position
from fleet import CHART, COUNT, Fleet, Load  # noqa: E402 pylint: disable=wrong-import-position
from cluster import wait_for  # noqa: E402 pylint: disable=wrong-import-position
from settings import write  # noqa: E402 pylint: disable=wrong-import-position

NAME = "vial.example"
BUILD = os.environ.get("VIAL_BUILD", os.path.join(ROOT, "build"))


def values():
    """Of the chart, for a node of two cores and a cluster of 1.20."""
    return {
        "kubernetes": 20, "image": {"name": "localhost/vial:1", "pullPolicy": "Never"},
        "replicas": {"count": COUNT, "most": COUNT},
        "resources": {"cpu": "400m", "memory": "1Gi", "disk": "2Gi"},
        "serve": {"warm": "none", "concurrency": 4}, "drain": {"notice": 4, "sessions": 20, "runs": 20},
        "proxy": {"image": "localhost/vial:1", "connections": 500,
                  "resources": {"cpu": "100m", "memory": "256Mi"}}}


class Front(Fleet):
    """Fleet's questions, to the Service of a fleet in a cluster."""

    def __init__(self, cluster, directory):  # pylint: disable=super-init-not-called
        self.cluster = cluster
        self.values = os.path.join(directory, "values.yaml")
        write(self.values, json.dumps(values()))
        self.dir = directory
        self.address = self.tls = self.token = None

    def render(self, *sets):
        sets = ("tokens.secret=vial-tokens", *sets)
        return subprocess.check_output(
            [sys.executable, os.path.join(ROOT, "tools/helm-render"), CHART, "--values", self.values]
            + ["--set=" + s for s in sets], text=True)

    def install(self):
        """By the commands of the guide, as they are printed but for the image."""
        with open(os.path.join(ROOT, "docs/guide/cluster.md"), encoding="utf-8") as file:
            script = re.search(r"<!-- tested: fleet -->\n```sh\n(.*?)```", file.read(), re.S)[1]
        script = script.replace("registry.example/vial:1", "localhost/vial:1 --values " + self.values)
        for name in ("tools/helm-render", "deploy/helm/vial "):
            script = script.replace(name, os.path.join(ROOT, name))
        said = self.cluster.run("sh", "-ec", "exec 2>&1; cd %s; PATH=%s:$PATH\n%s" % (
            self.dir, BUILD, script))
        self.token = re.search(r"\bvial_[0-9a-f]{64}\b", said)[0]
        self.tls = ssl.create_default_context(cafile=os.path.join(self.dir, "tls.crt"))
        self.settle()
        self.address = self.cluster.kubectl("get", "service", "vial", "-o",
                                            "jsonpath={.spec.clusterIP}")
        wait_for("answer of every node", self.all_serve)

    def settle(self):
        """Until all that is wanted is there, and ready."""
        for what in ("statefulset/vial", "deployment/vial-proxy"):
            self.cluster.kubectl("rollout", "status", what, "--timeout=300s")

    def ask(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection(NAME)
        c.sock = self.tls.wrap_socket(socket.create_connection((self.address, 443), 90),
                                      server_hostname=NAME)
        try:
            c.request(method, path, None if body is None else json.dumps(body),
                      {"Authorization": "Bearer " + self.token, **(headers or {})})
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            c.close()

    def lives(self, sid):
        """Whether a session still answers, once its node can be asked."""
        answer = wait_for("word about " + sid, lambda: self.decided(sid))
        return answer == 200

    def decided(self, sid):
        try:
            status = self.exec(sid, "echo on").status
        except (OSError, http.client.HTTPException):
            return None
        return status if status in (200, 404) else None


class Drill:
    """Load and a session on every node, an accident, and the count of what was lost."""

    def __init__(self, front, table):
        self.front, self.table = front, table

    @contextlib.contextmanager
    def __call__(self, name, again=False):
        sids = [self.front.session_on(i) for i in range(COUNT)]
        with Load(self.front, keyed=True, clients=3, again=again) as load:
            yield load
            wait_for("every node", self.serves)
            load.passed(6)
        lost = [i for i, sid in enumerate(sids) if not self.front.lives(sid)]
        for sid in sids:
            self.front.ask("DELETE", "/v1/sessions/" + sid)
        self.table.append((name, load.done, len(load.lost), lost, len(load.wrong)))
        self.lost = lost
        assert (load.lost, load.wrong) == ([], [])

    def serves(self):
        try:
            return self.front.all_serve()
        except (OSError, http.client.HTTPException):
            return False
