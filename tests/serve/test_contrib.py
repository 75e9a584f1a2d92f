# SPDX-License-Identifier: Apache-2.0
"""The files for those who run the daemon: they fit the daemon as it is."""
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys

import pytest
import yaml

from daemon import VIAL, VIALD, Daemon, clean_env

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
CONTRIB = os.path.join(ROOT, "contrib")
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


def read(path):
    with open(os.path.join(CONTRIB, path), encoding="utf-8") as file:
        return file.read()


def unit(key):
    """All values of KEY in the unit, one after the other."""
    return " ".join(re.findall(r"^%s=(.*)$" % key, read("systemd/vial.service.in"), re.M)).split()


def metric_names(text):
    """Without what Prometheus makes of a histogram, and without recorded rules."""
    names = set(re.findall(r"\bvial_[a-z_]+", text))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


@pytest.mark.parametrize("path", ["prometheus/vial.rules.yml", "grafana/vial.json"])
def test_every_metric_that_is_asked_for_exists(daemon, path):
    daemon.run("true")
    there = metric_names(daemon.ask("GET", "/metrics").body.decode())
    wanted = metric_names(read(path))
    assert wanted and wanted <= there, wanted - there


def test_metrics_are_as_prometheus_wants_them(daemon):
    """Base units, and whatever promtool knows, where it is installed."""
    daemon.run("true")
    text = daemon.ask("GET", "/metrics").body
    assert not re.search(rb"milli|micro|_ms\b|kilo|mega", text)
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text.decode(), re.M):
        assert (kind == "counter") == name.endswith("_total"), name
        assert kind != "histogram" or name.endswith("_seconds"), name
    if shutil.which("promtool"):
        for args, given in ((["metrics"], text),
                            (["rules", os.path.join(CONTRIB, "prometheus/vial.rules.yml")], b"")):
            out = subprocess.run(["promtool", "check", *args], input=given, capture_output=True)
            assert out.returncode == 0, out.stdout + out.stderr


def test_the_buckets_fit_what_is_measured(daemon):
    """No quantile is off by more than a factor of two, from 50 µs to an hour."""
    daemon.run("true")
    text = daemon.ask("GET", "/metrics").body.decode()
    bounds = [float(b) for b in re.findall(r'vial_run_seconds_bucket\{le="([^"+]+)"\}', text)]
    assert bounds[0] <= 50e-6 and bounds[-1] >= 3600
    assert all(low < high <= 2 * low + 1e-9 for low, high in zip(bounds, bounds[1:])), bounds
    assert any(1 <= low < 1.09 <= high <= 1.5 for low, high in zip(bounds, bounds[1:]))


def test_the_dashboard_and_the_rules_are_well_formed():
    board = json.loads(read("grafana/vial.json"))
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) and all(p["targets"] for p in board["panels"])
    rules = yaml.safe_load(read("prometheus/vial.rules.yml"))["groups"][0]["rules"]
    assert all(set(r) & {"alert", "record"} and r["expr"] for r in rules)
    assert "rule_files" in yaml.safe_load(read("prometheus/prometheus.yml"))


@pytest.mark.parametrize("path", [os.path.relpath(p, CONTRIB) for p in
                                  glob.glob(CONTRIB + "/**/vial.yaml", recursive=True)])
def test_the_example_settings_are_valid(path):
    out = subprocess.run([VIAL, "config", "check", os.path.join(CONTRIB, path)],
                         capture_output=True, text=True, env=clean_env(), check=False)
    assert out.returncode == 0, out.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_vessels_can_be_opened_with_what_the_unit_leaves(tmp_path):
    """As the unit would start it: its capabilities, no new privileges, a read-only system."""
    caps = ",".join("+" + name[4:].lower() for name in unit("CapabilityBoundingSet"))
    assert unit("NoNewPrivileges") == ["yes"] and unit("ProtectSystem") == ["strict"]
    d = Daemon(serve={"keeper": "on"})
    os.chmod(d.dir, 0o755)
    script = ('mount --make-rprivate / && mount --bind "$0" "$0" && '
              'mount -o remount,bind,ro / && exec "$@"')
    d.command = ["unshare", "-m", "sh", "-c", script, d.dir, "setpriv", "--no-new-privs",
                 "--bounding-set=-all," + caps, VIALD]
    with d:
        result = d.run("id -u; echo x > /usr/x || echo read-only", language="bash").json
        assert result["verdict"] == "ok" and "read-only" in result["stdout"]
        assert result["isolation"]["level"] == "namespaces"
        assert d.run("print(2)", language="python").json["stdout"] == "2\n"


def test_a_socket_that_was_bound_before_is_served():
    """As systemd hands it over."""
    d = Daemon(serve={"listen": ["tcp:127.0.0.1:1"]})
    os.chmod(d.dir, 0o755)
    os.makedirs(os.path.dirname(d.socket))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(d.socket)
        os.chmod(d.socket, 0o666)
        listening.listen()
        number = os.dup(listening.fileno())
        d.command = [sys.executable, "-c", ACTIVATE, str(number), VIALD]
        d.pass_fds = [number]
        with d:
            assert d.run("echo activated").json["stdout"] == "activated\n"
            assert "systemctl edit vial.socket" in d.log()
        os.close(number)


def test_the_socket_unit_and_the_daemon_mean_the_same_place():
    assert "ListenStream=/run/vial/vial.sock" in read("systemd/vial.socket")
    with open(os.path.join(ROOT, "src/serve/listen.c"), encoding="utf-8") as file:
        assert '"/run/vial/vial.sock"' in file.read()


def test_the_unit_for_sessions_is_the_same_but_for_what_it_is_for():
    def lines(name):
        with open(os.path.join(os.path.dirname(VIAL), "contrib", name), encoding="utf-8") as file:
            return {line for line in file if "=" in line and line[0] != "#"}
    usual, sessions = lines("vial.service"), lines("vial-sessions.service")
    assert {line.split("=")[0] for line in usual - sessions} == {
        "Description", "Requires", "After", "ExecStart", "RuntimeDirectory", "Also"}
    assert {line.split("=")[0] for line in sessions - usual} == {
        "Description", "Before", "ExecStart", "RuntimeDirectory"}
    command = next(line for line in sessions if line.startswith("ExecStart="))
    flags = re.search(r" serve --sessions-for vial --listen (unix:/run/(.*)/vial.sock)$", command)
    assert "RuntimeDirectory=%s\n" % flags[2] in sessions
    with open(os.path.join(ROOT, "docs/guide/operating.md"), encoding="utf-8") as file:
        assert 'sessions_at: "%s"' % flags[1] in file.read()


def test_the_unit_covers_nothing_that_vessels_are_made_of():
    """A mount below /usr or /etc, or over a part of /proc, that is, as some of systemd's
    settings make them; and systemd takes no directory away from the front."""
    with open(os.path.join(ROOT, "contrib/systemd/vial.service.in"), encoding="utf-8") as file:
        names = {line.split("=")[0] for line in file if "=" in line and line[0] not in "#["}
    assert {"ProtectSystem", "SystemCallFilter", "CapabilityBoundingSet"} <= names
    assert not names & {"ProtectKernelModules", "ProtectKernelLogs", "ProtectKernelTunables",
                        "ProtectProc", "ProcSubset", "ProtectControlGroups", "InaccessiblePaths",
                        "ConfigurationDirectory", "LogsDirectory", "RestrictNamespaces",
                        "ProtectHostname", "MemoryDenyWriteExecute", "RestrictSUIDSGID"}


def test_the_module_of_devices_that_the_unit_allows_is_loaded_before_it_starts():
    """systemd looks their name up when the unit starts, and passes over one that is not there."""
    groups = [word[len("block-"):] for word in unit("DeviceAllow") if word.startswith("block-")]
    assert groups == ["loop"]
    for module in groups:
        assert {"modprobe@%s.service" % module} <= set(unit("Wants")) & set(unit("After"))
