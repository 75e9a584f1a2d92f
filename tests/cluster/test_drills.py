# SPDX-License-Identifier: Apache-2.0
"""Accidents in a fleet under load. No idempotent run is lost, no verdict is wrong, and sessions are
lost with their own node alone. The table is printed at the end."""
from cluster import wait_for


def test_a_killed_node_loses_its_own_sessions_alone(cluster, drill):
    with drill("a node's daemon is killed") as load:
        cluster.kill("--node", "vial-1")
        load.passed(12)
    assert drill.lost == [1]


def test_a_pod_deleted_behind_vials_back_loses_its_own_sessions_alone(cluster, front, drill):
    with drill("a pod is deleted, without grace") as load:
        cluster.kubectl("delete", "pod", "vial-2", "--grace-period=0", "--force")
        load.passed(12)
        front.settle()
    assert drill.lost == [2]


def test_a_killed_proxy_loses_no_session(cluster, front, drill):
    """Who has the key asks again."""
    with drill("a proxy is killed", again=True) as load:
        cluster.kill("haproxy")
        load.passed(12)
        front.settle()
    assert drill.lost == []


def test_a_fleet_goes_on_without_the_api_server(cluster, drill):
    with drill("the API server is killed") as load:
        cluster.kill("kube-apiserver", "--cert-dir=/run/apiserver")
        load.passed(12)
        wait_for("API server", lambda: cluster.ok("kubectl", "get", "--raw", "/readyz"))
    assert drill.lost == []


def test_a_rolling_update_loses_no_run(cluster, front, drill):
    """Sessions that outlast their node's drain end with it; these were told how long they have."""
    with drill("a rolling update") as load:
        cluster.kubectl("rollout", "restart", "statefulset/vial")
        load.passed(12)
        front.settle()
    assert drill.lost == [0, 1, 2]
