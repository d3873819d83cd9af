"""The Hadoops that all tests of a run share: the fixture ``hadoop``, and special ones.

``zookeeper`` and ``zookeeper_ensemble`` are ZooKeepers without a Hadoop.

Each is started by the first test that asks for it and stopped with the run, even
if the run is interrupted or killed. Whoever breaks something of one mends it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ytf.minicluster import ClusterOptions, MiniCluster, Queue, ZooKeeperEnsemble
from ytf.minicluster.releases import CACHE, cache, fetch

OPTIONS = ClusterOptions(
    nodes=2, node_vcores=64, gpus=2, queues=(Queue("default", 80), Queue("ml", 20))
)
CLUSTERS = {
    "hadoop": OPTIONS,
    # The oldest release that is tested, and two of all that can be two: one start for both.
    # Blocks are small, so that a file of some megabytes is written through a failover.
    "hadoop_pair": ClusterOptions(
        version="3.3.6", nodes=1, ha=True, properties={"dfs.blocksize": "4194304"}
    ),
    # The newest, and node labels, which change how everything is scheduled. Its GPUs are not
    # counted by YARN.
    "hadoop_newest": ClusterOptions(
        version="3.5.0", nodes=2, labels={"nm2": "fast"}, gpus=2, counts_gpus=False
    ),
    # Without the second property everybody administers every queue, and may kill every job;
    # without those of submissions everybody may submit to every queue.
    "hadoop_acls": ClusterOptions(
        nodes=1,
        queues=(Queue("default", 50), Queue("open", 40), Queue("closed", 10)),
        properties={
            "yarn.acl.enable": "true",
            "yarn.scheduler.capacity.root.acl_administer_queue": "queue_admin",
            "yarn.scheduler.capacity.root.open.acl_administer_queue": "*",
            "yarn.scheduler.capacity.root.acl_submit_applications": "queue_admin",
            "yarn.scheduler.capacity.root.default.acl_submit_applications": "*",
            "yarn.scheduler.capacity.root.open.acl_submit_applications": "*",
            "yarn.admin.acl": "cluster_admin",
        },
    ),
    # Nodes that report seldom, as those of a big or busy cluster do, and two attempts for each
    # master, as where nobody has set anything.
    "hadoop_slow": ClusterOptions(
        nodes=2,
        properties={
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "3000",
            # Longer than a NodeManager takes to start again while others use the machine as well.
            "yarn.nm.liveness-monitor.expiry-interval-ms": "120000",
            "yarn.resourcemanager.am.global.max-attempts": "2",
        },
    ),
}
"""The fixtures, and what each of them is."""
ZOOKEEPERS = ("zookeeper", "zookeeper_ensemble")
# The first test waits for the cluster, too.
_TIMEOUT_S = 300


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use it, before ``-m`` chooses."""
    for item in items:
        if _releases_of(item):
            item.add_marker("yarn")
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch Hadoop before the first test's time begins to count."""
    # Tests have homes of their own; the jars are everybody's.
    os.environ[CACHE] = str(cache())
    if not session.config.option.collectonly:
        for version in dict.fromkeys(v for item in session.items for v in _releases_of(item)):
            fetch(version, _say)


def _releases_of(item: pytest.Item) -> list[str]:
    """The Hadoop releases that a test needs; ZooKeeper comes with each of them."""
    wanted: tuple[str, ...] = getattr(item, "fixturenames", ())
    needed = [options.version for name, options in CLUSTERS.items() if name in wanted]
    return needed + [OPTIONS.version for name in ZOOKEEPERS if name in wanted]


def _say(text: str) -> None:
    # Past the capture, which would hide why nothing seems to happen.
    os.write(2, f"\n{text}\n".encode())


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """A running cluster with ``OPTIONS``: two nodes of 32 GB, 64 vcores and 2 counted GPUs."""
    yield from _running(tmp_path_factory, "hadoop")


@pytest.fixture(scope="session")
def hadoop_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """A running cluster with two ResourceManagers, two NameNodes and one node."""
    yield from _running(tmp_path_factory, "hadoop_pair")


@pytest.fixture(scope="module")
def hadoop_newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """A running cluster of the newest release, with a node that has a label and one without."""
    yield from _running(tmp_path_factory, "hadoop_newest")


@pytest.fixture(scope="module")
def hadoop_acls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """A running cluster with ACLs: a queue, one that all administer, and a closed one."""
    yield from _running(tmp_path_factory, "hadoop_acls")


@pytest.fixture(scope="module")
def hadoop_slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """A running cluster whose ResourceManager hears of its nodes every three seconds only."""
    yield from _running(tmp_path_factory, "hadoop_slow")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """A running ZooKeeper server."""
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper")) as servers:
        yield servers


@pytest.fixture(scope="module")
def zookeeper_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """Three running ZooKeeper servers."""
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper"), 3) as servers:
        yield servers


def _running(paths: pytest.TempPathFactory, name: str) -> Iterator[MiniCluster]:
    with MiniCluster(
        Path(paths.mktemp(name), "cluster"), CLUSTERS[name], stop_with_owner=True
    ) as cluster:
        yield cluster
