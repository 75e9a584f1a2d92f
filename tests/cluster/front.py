# SPDX-License-Identifier: Apache-2.0
"""A fleet in the cluster, as its clients see it, and the count of what a drill lost."""
import contextlib
import errno
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/serve"))
from daemon import Answer  # noqa: E402 pylint: disable=wrong-import-position
from fleet import CHART, COUNT, Fleet, Load  # noqa: E402 pylint: disable=wrong-import-position
from cluster import wait_for  # noqa: E402 pylint: disable=wrong-import-position
from registry import Registry  # noqa: E402 pylint: disable=wrong-import-position
from settings import write  # noqa: E402 pylint: disable=wrong-import-position

NAME = "vial.example"
TOKEN = re.compile(r"\bvial_[0-9a-f]{64}\b")
# What the owner of a session may be told when it does not answer: its node is away, or came back.
GONE = {(502, "VIAL-DAEMON"), (503, "VIAL-DAEMON"), (504, "VIAL-DAEMON"), (404, "VIAL-SESSION")}
BUILD = os.environ.get("VIAL_BUILD", os.path.join(ROOT, "build"))


def asked(check):
    """What CHECK says; None while whom it asks does not answer."""
    try:
        return check()
    except (OSError, http.client.HTTPException):
        return None


def values(image):
    """Of the chart, for a machine of two cores and a cluster of 1.20; nodes have IMAGE."""
    return {
        "images": {"pull": [image], "login": "registry-login", "authority": "registry-authority"},
        "kubernetes": 20, "image": {"name": "localhost/vial:1", "pullPolicy": "Never"},
        "replicas": {"count": COUNT, "most": COUNT},
        "resources": {"cpu": "400m", "memory": "1Gi", "disk": "500Mi"}, "rotation": 2,
        "serve": {"warm": "none", "concurrency": 4, "e2b": "on"},
        "drain": {"notice": 8, "sessions": 8, "runs": 20},
        "proxy": {"image": "localhost/vial:1", "connections": 500,
                  "resources": {"cpu": "100m", "memory": "1Gi"}}}


class Front(Fleet):
    """Fleet's questions, to the Service of a fleet in a cluster."""
    name = NAME

    def __init__(self, cluster, directory):  # pylint: disable=super-init-not-called
        self.cluster = cluster
        self.dir = directory
        self.registry = Registry(self.path("registry"))
        self.values = self.path("values.yaml")
        write(self.values, json.dumps(values(self.registry.name)))
        self.address = self.tls = self.token = None

    def path(self, name):
        return os.path.join(self.dir, name)

    def render(self, *sets):
        sets = ("tokens.secret=vial-tokens", *sets)
        return subprocess.check_output(
            [sys.executable, os.path.join(ROOT, "tools/helm-render"), CHART, "--values", self.values]
            + ["--set=" + s for s in sets], text=True)

    def install(self):
        """By the commands of the guide, as they are printed but for the image."""
        self.keep("registry-authority", "registry/ca.crt")
        self.keep("registry-login", "registry/.dockerconfigjson", kind="kubernetes.io/dockerconfigjson")
        with open(os.path.join(ROOT, "docs/guide/cluster.md"), encoding="utf-8") as file:
            script = re.search(r"<!-- tested: fleet -->\n```sh\n(.*?)```", file.read(), re.S)[1]
        script = script.replace("registry.example/vial:1", "localhost/vial:1 --values " + self.values)
        for name in ("tools/helm-render", "deploy/helm/vial "):
            script = script.replace(name, os.path.join(ROOT, name))
        said = self.cluster.run("sh", "-ec", "exec 2>&1; cd %s; PATH=%s:$PATH\n%s" % (
            self.dir, BUILD, script))
        self.token = TOKEN.search(said)[0]
        self.tls = ssl.create_default_context(cafile=self.path("tls.crt"))
        self.settle()
        self.address = self.cluster.kubectl("get", "service", "vial", "-o",
                                            "jsonpath={.spec.clusterIP}")
        wait_for("answer of every node", lambda: asked(self.all_serve))

    def settle(self):
        """Until all that is wanted is there, and ready."""
        for what in ("statefulset/vial", "deployment/vial-proxy"):
            self.cluster.kubectl("rollout", "status", what, "--timeout=600s")

    def pod(self, name):
        """What the API has of a pod, or {}."""
        try:
            return json.loads(self.cluster.kubectl("get", "pod", name, "-o", "json"))
        except RuntimeError:
            return {}

    def uid(self, name):
        return self.pod(name).get("metadata", {}).get("uid")

    def ready(self, name):
        pod = self.pod(name)
        return "deletionTimestamp" not in pod.get("metadata", {}) and any(
            c["type"] == "Ready" and c["status"] == "True"
            for c in pod.get("status", {}).get("conditions", []))

    @contextlib.contextmanager
    def renewed(self, name):
        """An accident that costs a pod: it is over when the old one's processes have gone, and one
        of the same name and another id is ready."""
        uid = self.uid(name)
        with self.cluster.replaced("--node", name):
            yield
        wait_for("new " + name, lambda: self.uid(name) not in (None, uid) and self.ready(name))

    def connect(self):
        """Until the cluster has heard that a proxy's pod has gone, the Service can still lead there."""
        for left in reversed(range(5)):
            try:
                return socket.create_connection((self.address, 443), 90)
            except OSError as e:
                if e.errno != errno.EHOSTUNREACH or not left:
                    raise
        return None

    def ask(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection(NAME)
        c.sock = self.tls.wrap_socket(self.connect(), server_hostname=NAME)
        try:
            c.request(method, path, None if body is None else json.dumps(body),
                      {"Authorization": "Bearer " + self.token, **(headers or {})})
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            c.close()

    def keep(self, secret, *files, kind="Opaque"):
        """A Secret has these files of our directory from now on."""
        self.cluster.kubectl("apply", "-f", "-", given=self.cluster.kubectl(
            "create", "secret", "generic", secret, "--dry-run=client", "-o", "yaml", "--type=" + kind,
            *("--from-file=" + self.path(name) for name in files)))

    def new_token(self):
        """A token, and its entry in the file of tokens."""
        made = subprocess.run([os.path.join(BUILD, "vial"), "serve", "--new-token", "me", "--scopes",
                               "all"], capture_output=True, text=True, check=True)
        return TOKEN.search(made.stderr)[0], made.stdout

    def known(self, token):
        """What each node says to TOKEN about a session that there is not: 404, or 401."""
        head = {"Authorization": "Bearer " + token}
        return {self.ask("GET", "/v1/sessions/s-%d-%016x" % (i, 0), headers=head).status
                for i in range(COUNT)}

    def certificate(self, address, port):
        """What is shown there now; nobody is trusted for it."""
        with socket.create_connection((address, port), 30) as s:
            with ssl._create_unverified_context().wrap_socket(s) as t:  # pylint: disable=protected-access
                return ssl.DER_cert_to_PEM_cert(t.getpeercert(binary_form=True))

    def certificates(self):
        """Those of all pods, nodes and proxies."""
        pods = json.loads(self.cluster.kubectl(
            "get", "pods", "-l", "app.kubernetes.io/name=vial", "--field-selector=status.phase=Running",
            "-o", "json"))["items"]
        return {self.certificate(pod["status"]["podIP"], 8443) for pod in pods}

    def lives(self, sid):
        """Whether a session still answers, once its node can be asked."""
        answer = wait_for("word about " + sid, lambda: self.decided(sid))
        return answer == 200

    def decided(self, sid):
        answer = asked(lambda: self.exec(sid, "echo on"))
        return answer.status if answer and answer.status in (200, 404) else None


class Owner(threading.Thread):
    """Whoever has a session uses it, and keeps what is said besides answers."""

    def __init__(self, front, sid):
        super().__init__()
        self.front, self.sid, self.ending = front, sid, threading.Event()
        self.told, self.left = set(), []  # refusals; seconds that the session still has

    def run(self):
        while not self.ending.wait(0.3):
            answer = asked(lambda: self.front.exec(self.sid, "echo on"))
            if not answer:
                continue  # the proxy went
            if answer.status != 200:
                self.told.add((answer.status, answer.code))
            elif answer.headers["Vial-Ends-In"] is not None:
                self.left.append(int(answer.headers["Vial-Ends-In"]))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.join()


class Drill:
    """Load and a session on every node, an accident, and the count of what was lost."""

    def __init__(self, front, table):
        self.front, self.table = front, table
        self.owners, self.lost = [], None

    @contextlib.contextmanager
    def __call__(self, name, again=False):
        self.owners = [Owner(self.front, self.front.session_on(i)) for i in range(COUNT)]
        with contextlib.ExitStack() as using:
            for owner in self.owners:
                using.enter_context(owner)
            with Load(self.front, keyed=True, clients=3, again=again) as load:
                yield load
                wait_for("every node", lambda: asked(self.front.all_serve))
                load.passed(6)
        self.lost = [i for i, owner in enumerate(self.owners) if not self.front.lives(owner.sid)]
        for owner in self.owners:
            self.front.ask("DELETE", "/v1/sessions/" + owner.sid)
        self.table.append((name, load.done, len(load.lost), self.lost, len(load.wrong)))
        assert not load.lost, load.lost[:5]
        assert not load.wrong, load.wrong[:5]
        told = set().union(*(owner.told for owner in self.owners))
        assert told <= GONE, told
