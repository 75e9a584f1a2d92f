# SPDX-License-Identifier: Apache-2.0
"""One cluster and one fleet in it for all tests; what was built stays in a cache directory."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../.."))
sys.path.insert(0, HERE)
from cluster import Cluster, missing  # noqa: E402 pylint: disable=wrong-import-position
from front import BUILD, Drill, Front  # noqa: E402 pylint: disable=wrong-import-position

CACHE = os.environ.get("VIAL_CLUSTER_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "vial/cluster")


def pytest_configure(config):
    config.addinivalue_line("markers", "short: is part of the lane cluster_short")


def pytest_collection_modifyitems(items):
    """A machine of two cores has no room for vessels beside the fleet: they come first, and it is
    installed when they have gone."""
    items.sort(key=lambda item: "front" in item.fixturenames)


def timed(what, *command):
    begin = time.monotonic()
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
    print("%-40s %6.1f s" % (what, time.monotonic() - begin), flush=True)


@pytest.fixture(scope="session")
def cluster():
    why = missing()
    if why:
        pytest.skip("cluster: " + why)
    timed("programs of Kubernetes", os.path.join(HERE, "kubernetes"), CACHE)
    with tempfile.TemporaryDirectory(prefix="vial-cluster.") as where:
        image = os.path.join(where, "image.tar")
        timed("image", os.path.join(HERE, "image"), BUILD, CACHE, image)
        c = Cluster(os.path.join(CACHE, "bin"), where)
        begin = time.monotonic()
        try:
            c.start()
            with open(os.path.join(ROOT, "contrib/container/seccomp.json"), "rb") as source, \
                    open(os.path.join(where, "kubelet/seccomp/vial.json"), "wb") as to:
                to.write(source.read())
            c.load(image)
            os.unlink(image)
            print("%-40s %6.1f s" % ("cluster", time.monotonic() - begin), flush=True)
            c.enter_network()
            yield c
        finally:
            shutil.copytree(os.path.join(where, "log"), os.path.join(BUILD, "cluster-log"),
                            dirs_exist_ok=True)
            c.stop()


@pytest.fixture(scope="session")
def front(cluster):
    begin = time.monotonic()
    f = Front(cluster, cluster.dir)
    f.install()
    print("%-40s %6.1f s" % ("fleet", time.monotonic() - begin), flush=True)
    return f


@pytest.fixture(scope="session")
def table():
    rows = []
    yield rows
    if rows:
        text = "%-34s %6s %10s %14s %15s\n" % ("drill", "runs", "runs lost", "sessions lost",
                                              "wrong verdicts")
        for name, done, lost, sessions, wrong in rows:
            text += "%-34s %6d %10d %14s %15d\n" % (
                name, done, lost, ", ".join("of vial-%d" % i for i in sessions) or "none", wrong)
        print(text, flush=True)
        with open(os.path.join(BUILD, "cluster-drills.txt"), "w", encoding="utf-8") as file:
            file.write(text)


@pytest.fixture
def drill(front, table):
    return Drill(front, table)
