# SPDX-License-Identifier: Apache-2.0
"""Vial's command line on the cluster, with driver `kubernetes`, in a namespace of its own."""
import base64
import json
import os
import subprocess

from cluster import wait_for
from front import BUILD, ROOT
from settings import API, write

IMAGE = "localhost/vial:1"


class Vial:
    """The command line, as an account of the namespace that may do no more than the driver needs."""

    def __init__(self, cluster, where, space):
        self.cluster = cluster
        self.where = where
        self.space = space
        self.config = self.token = None
        self.ca = os.path.join(cluster.dir, "keys/ca.crt")

    def __enter__(self):
        self.cluster.kubectl("create", "namespace", self.space)
        wait_for("account", lambda: self.cluster.ok("kubectl", "-n", self.space, "get", "serviceaccount",
                                                    "default"))
        self.kubectl("apply", "-f", os.path.join(ROOT, "deploy/driver/role.yaml"))
        self.token = wait_for("token", self.find_token)
        self.config = self.write_config("usual", {"token": self.token})
        return self

    def __exit__(self, *_):
        self.cluster.kubectl("delete", "namespace", self.space, "--wait=false")

    def kubectl(self, *args, given=None):
        return self.cluster.kubectl("-n", self.space, *args, given=given)

    def find_token(self):
        secrets = json.loads(self.kubectl("get", "secrets", "-o", "json"))["items"]
        mine = [s for s in secrets if s["metadata"]["name"].startswith("vial-driver-token")]
        return base64.b64decode(mine[0]["data"]["token"]).decode() if mine else None

    def write_config(self, name, user, **cluster):
        path = os.path.join(self.where, name)
        write(path, json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "k", "cluster": {
                "server": API, "certificate-authority": self.ca, **cluster}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": self.space}}]}))
        return path

    def start(self, *words, config=None, settings=None, stdin=subprocess.DEVNULL):
        """SETTINGS are those of the block `kubernetes`."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("VIAL_", "KUBE"))}
        env.update(KUBECONFIG=config or self.config, VIAL_DRIVER="kubernetes", VIAL_IMAGE=IMAGE,
                   VIAL_PULL="never", VIAL_CPUS="0.1", VIAL_OPEN_TIMEOUT="5m", HOME=self.where)
        if settings:
            env["VIAL_CONFIG"] = os.path.join(self.where, "settings.yaml")
            write(env["VIAL_CONFIG"], json.dumps({"kubernetes": settings}))
        return subprocess.Popen([os.path.join(BUILD, "vial"), *words], stdin=stdin,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=self.where)

    def run(self, *words, given=None, **how):
        """A result, as --json has it."""
        p = self.start("run", "--json", *words, **how,
                       stdin=subprocess.DEVNULL if given is None else subprocess.PIPE)
        out, err = p.communicate(given)
        assert out, err
        return json.loads(out)

    def code(self, *words, **how):
        result = self.run(*words, **how)
        assert result["error"], result
        return result["verdict"], result["error"]["code"]

    def has_no_room(self, *words, **how):
        """A scheduler that is busy has not said so within the time that is given."""
        code = ("failed", "VIAL-CLUSTER-ROOM")
        wait_for("word of the scheduler", lambda: self.code(
            "--open-timeout", "1s", *words, "sh", "true", **how) == code)

    def api_is_back(self):
        """It knows us, and what we may: both come a while after it is there."""
        wait_for("API server", lambda: self.cluster.ok("kubectl", "get", "--raw", "/readyz") and
                 self.cluster.ok("kubectl", "--kubeconfig", self.config, "auth", "can-i", "create", "pods"))

    def begin(self, *words, **how):
        """A run that has begun, and goes on, unless it is given a line."""
        p = self.start("run", *words, "sh", "echo on; read line || sleep 1000", stdin=subprocess.PIPE, **how)
        assert p.stdout.readline() == b"on\n", p.stderr.read()
        return p

    def pods(self):
        return json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]

    def names(self):
        """Of pods that nobody told to go."""
        return [p["metadata"]["name"] for p in self.pods() if "deletionTimestamp" not in p["metadata"]]

    def clear(self):
        """A pod goes a moment after it was told to."""
        wait_for("end of all pods", lambda: not self.pods())
