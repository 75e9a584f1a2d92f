# SPDX-License-Identifier: Apache-2.0
"""The chart: what it makes of its values fits together, asks for no more rights than it needs, and
is what deploy/manifests has. tests/cluster installs it."""
import filecmp
import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from daemon import VIALD
from fleet import CHART, ROOT

OLD = "kubernetes=20"
EVERYTHING = ["autoscaler.enabled=true", "monitor.enabled=true", "dashboard.enabled=true",
              "monitor.labels.release=prometheus", "networkPolicy.monitors=[{namespaceSelector: {}}]",
              "networkPolicy.clients=[{podSelector: {}}]", "rights.runtimeClass=writable",
              "image.pullSecrets=[mine]", "settings.policy.max_memory=1g",
              "images.pull=['r.example/a@sha256:%s']" % ("0" * 64), "images.login=login",
              "images.authority=authority",
              'placement.nodeSelector.vial="yes"']


def helm(*sets, only=None):
    return subprocess.run([sys.executable, os.path.join(ROOT, "tools/helm-render"), CHART]
                          + ["--set=" + s for s in sets] + (["--only", only] if only else []),
                          capture_output=True, text=True, check=False)


def objects(*sets):
    out = helm(*sets)
    assert out.returncode == 0, out.stderr
    found = {}
    for one in yaml.safe_load_all(out.stdout):
        key = one["kind"], one["metadata"]["name"]
        assert key not in found and one["metadata"]["namespace"] == "default"
        found[key] = one
    return found


def pod_of(found, kind="StatefulSet", name="vial"):
    return found[kind, name]["spec"]["template"]


def each(value, key):
    """Whatever stands under KEY, at any depth."""
    if isinstance(value, dict):
        for k, v in value.items():
            if k == key:
                yield v
            yield from each(v, key)
    elif isinstance(value, list):
        for v in value:
            yield from each(v, key)


def test_the_manifests_are_what_the_chart_makes(tmp_path):
    """Remedy: tools/gen-manifests."""
    subprocess.run([os.path.join(ROOT, "tools/gen-manifests"), str(tmp_path)], check=True)
    there = os.path.join(ROOT, "deploy/manifests")
    names = sorted(os.listdir(there))
    assert names == sorted(os.listdir(tmp_path))
    assert filecmp.cmpfiles(there, str(tmp_path), names, shallow=False)[0] == names


def test_every_kind_that_a_fleet_is_made_of_is_there():
    assert {kind for kind, _ in objects(*EVERYTHING)} == {
        "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "Secret", "ConfigMap", "Service",
        "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "ServiceMonitor"}


@pytest.mark.parametrize("sets", [[], [OLD], EVERYTHING, [OLD, *EVERYTHING]],
                         ids=["usual", "old", "everything", "everything-old"])
def test_what_one_object_names_another_is(sets):
    found = objects(*sets)
    given = {"vial-tls", "vial-metrics", "mine", "login", "authority"}
    for one in found.values():
        for name in each(one, "secretName"):
            assert name in given or ("Secret", name) in found
        for name in each(one, "configMap"):
            assert ("ConfigMap", name["name"]) in found
        for name in each(one, "serviceAccountName"):
            assert ("ServiceAccount", name) in found
    pods = [pod_of(found)["metadata"]["labels"],
            pod_of(found, "Deployment", "vial-proxy")["metadata"]["labels"]]
    selected = [*each(list(found.values()), "matchLabels"),
                *(s["spec"]["selector"] for (kind, _), s in found.items() if kind == "Service")]
    for labels in selected:
        assert any(labels.items() <= pod.items() for pod in pods), labels
    assert ("Service", found["StatefulSet", "vial"]["spec"]["serviceName"]) in found
    if ("ServiceMonitor", "vial") in found:
        wanted = found["ServiceMonitor", "vial"]["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= found["Service", "vial-nodes"]["metadata"]["labels"].items()
        assert found["ServiceMonitor", "vial"]["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize("sets, host_users", [([], False), ([OLD], None)])
def test_a_node_has_the_least_rights_for_its_vessels(sets, host_users):
    spec = pod_of(objects(*sets))["spec"]
    assert spec.get("hostUsers") is host_users
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]}, "procMount": "Unmasked",
        "seccompProfile": {"type": "Localhost", "localhostProfile": "vial.json"}}
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == 1000


def test_what_brings_images_has_the_rights_of_a_node_and_no_more():
    spec = pod_of(objects(*EVERYTHING))["spec"]
    node, before = spec["containers"][0], spec["initContainers"][0]
    assert before["securityContext"] == node["securityContext"]
    assert before["image"] == node["image"]
    assert before["command"][-1] == "r.example/a@sha256:" + "0" * 64
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert {mount["name"] for mount in before["volumeMounts"]} <= volumes
    assert "tokens" not in {mount["name"] for mount in before["volumeMounts"]}


def test_a_node_can_have_what_pod_security_calls_restricted():
    spec = pod_of(objects("rights.procMount=Default", "rights.seccomp=RuntimeDefault"))["spec"]
    context = spec["containers"][0]["securityContext"]
    assert "procMount" not in context and context["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("sets", [[], [OLD], EVERYTHING])
def test_no_pod_can_ask_the_cluster_for_anything(sets):
    found = objects(*sets)
    assert not {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"} & {k for k, _ in found}
    for pod in (pod_of(found), pod_of(found, "Deployment", "vial-proxy")):
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["spec"]["enableServiceLinks"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod["spec"].keys()
        assert not list(each(pod, "hostPath")) and not list(each(pod, "privileged"))
        for amounts in each(pod, "resources"):
            assert amounts["requests"] == amounts["limits"]


def test_nodes_are_reached_by_the_proxy_alone_and_reach_nothing():
    policy = objects()["NetworkPolicy", "vial-nodes"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"] and policy["egress"] == []
    assert [list(rule) for rule in policy["ingress"]] == [["from", "ports"]]
    assert policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"][
        "app.kubernetes.io/component"] == "proxy"


def test_a_pod_has_the_time_that_its_drain_takes():
    found = objects("drain.notice=7", "drain.sessions=100", "drain.runs=40")
    assert pod_of(found)["spec"]["terminationGracePeriodSeconds"] == 157
    settings = yaml.safe_load(found["ConfigMap", "vial-settings"]["data"]["vial.yaml"])["serve"]
    assert (settings["notice"], settings["drain_sessions"], settings["drain"]) == ("7s", "100s", "40s")


def test_what_pods_read_when_they_start_starts_them_anew_when_it_changes():
    def marks(*sets):
        found = objects(*sets)
        return [pod["metadata"]["annotations"]["vial/settings"] for pod in (
            pod_of(found), pod_of(found, "Deployment", "vial-proxy"))]
    usual, nodes, proxy = marks(), marks("settings.policy.max_memory=1g"), marks("proxy.connections=9")
    assert usual[0] != nodes[0] and usual[1] == nodes[1]
    assert usual[0] == proxy[0] and usual[1] != proxy[1]


def test_the_settings_are_ones_that_the_daemon_takes(tmp_path):
    """What it has not here are the files of tokens and keys, and it gets as far as those."""
    found = objects("settings.policy.max_memory=1g")
    (tmp_path / "v.yaml").write_text(found["ConfigMap", "vial-settings"]["data"]["vial.yaml"])
    out = subprocess.run([VIALD, "--config", str(tmp_path / "v.yaml"), "--node", "vial-0"],
                         capture_output=True, text=True, check=False)
    assert out.returncode == 125 and "/etc/vial/tokens/tokens.yaml" in out.stderr, out.stderr


def test_haproxy_takes_what_the_chart_has_for_pods(tmp_path):
    if not os.path.exists("/usr/sbin/haproxy"):
        pytest.skip("no haproxy here")
    text = helm("proxy.bind=:18443", 'proxy.serverOptions=""', only="files/haproxy.cfg").stdout
    assert text.count("server 9 vial-9.vial-nodes.default.svc.cluster.local:8443 ") == 3
    (tmp_path / "h.cfg").write_text(text)
    out = subprocess.run(["/usr/sbin/haproxy", "-c", "-f", str(tmp_path / "h.cfg")],
                         capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    said = [line for line in out.stderr.splitlines() if "[NOTICE]" not in line]
    assert all("could not resolve address 'vial-" in line for line in said), said


@pytest.mark.parametrize("wrong", [
    "replicas.count=0", "replicas.many=3", "rotation=0", "images.pull=['r.example/a:1']", "rights.seccomp=None", "rights.procMount=All",
    "serve.node=x", "settings.serve={}", "image.name=", "placement.nodeSelector.vial=yes", "kubernetes=19", "nothing=1",
    "tokens.entries=[{name: a, scopes: [run], sha256: short}]", "proxy.server=vial-0:8443"])
def test_values_that_make_no_sense_are_refused(wrong):
    out = helm(wrong)
    assert out.returncode == 1 and out.stderr.startswith("helm-render: values: $")


def test_every_value_has_its_place_in_the_schema():
    with open(os.path.join(CHART, "values.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as file:
        values = yaml.safe_load(file)

    def compare(value, shape):
        if "properties" in shape and value:
            assert set(value) == set(shape["properties"])
            for key, inner in shape["properties"].items():
                compare(value[key], inner)
    compare(values, schema)


def test_words_of_helm_that_the_renderer_does_not_know_are_refused(tmp_path):
    for name in ("values.yaml", "values.schema.json", "Chart.yaml"):
        os.symlink(os.path.join(CHART, name), tmp_path / name)
    os.makedirs(tmp_path / "templates")
    (tmp_path / "templates/_parts.tpl").write_text("")
    for text in ("{{ lookup 1 }}", "{{ if true }}", "{{ end }}", '{{ include "x" . }}', "{{ $x }}",
                 "{{ .Values.hosts.x }}", "{{ .Values.none }}", "{{ with .Values }}{{ end }}"):
        (tmp_path / "templates/a.yaml").write_text("kind: X\na: " + text)
        out = subprocess.run([sys.executable, os.path.join(ROOT, "tools/helm-render"), str(tmp_path)],
                             capture_output=True, text=True, check=False)
        assert out.returncode == 1 and re.match("helm-render: .", out.stderr), (text, out.stderr)
        assert "Traceback" not in out.stderr, text
