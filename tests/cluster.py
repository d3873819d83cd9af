"""The Hadoops that all tests of a run share: the fixture ``hadoop``, and two special ones.

Each is started by the first test that asks for it and stopped with the run, even
if the run is interrupted or killed. Whoever breaks something of one mends it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ytf.testing.hadoop import Cluster, ClusterOptions, Queue
from ytf.testing.hadoop.artifacts import CACHE, cache, fetch

OPTIONS = ClusterOptions(
    nodes=2, node_vcores=64, gpus=2, queues=(Queue("default", 80), Queue("ml", 20))
)
CLUSTERS = {
    "hadoop": OPTIONS,
    # The oldest release that is tested, and two of all that can be two: one start for both.
    "hadoop_pair": ClusterOptions(version="3.3.6", nodes=1, ha=True),
    # The newest, and node labels, which change how everything is scheduled.
    "hadoop_newest": ClusterOptions(version="3.5.0", nodes=2, labels={"nm2": "fast"}),
}
"""The fixtures, and what each of them is."""
# The first test waits for the cluster, too.
_TIMEOUT_S = 300


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use it, before ``-m`` chooses."""
    for item in items:
        if _clusters_of(item):
            item.add_marker("yarn")
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch Hadoop before the first test's time begins to count."""
    # Tests have homes of their own; the jars are everybody's.
    os.environ[CACHE] = str(cache())
    if not session.config.option.collectonly:
        for name in dict.fromkeys(name for item in session.items for name in _clusters_of(item)):
            fetch(CLUSTERS[name].version, _say)


def _clusters_of(item: pytest.Item) -> list[str]:
    wanted: tuple[str, ...] = getattr(item, "fixturenames", ())
    return [name for name in CLUSTERS if name in wanted]


def _say(text: str) -> None:
    # Past the capture, which would hide why nothing seems to happen.
    os.write(2, f"\n{text}\n".encode())


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster with ``OPTIONS``: two nodes of 32 GB, 64 vcores and 2 counted GPUs."""
    yield from _running(tmp_path_factory, "hadoop")


@pytest.fixture(scope="session")
def hadoop_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster with two ResourceManagers, two NameNodes and one node."""
    yield from _running(tmp_path_factory, "hadoop_pair")


@pytest.fixture(scope="module")
def hadoop_newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster of the newest release, with a node that has a label and one without."""
    yield from _running(tmp_path_factory, "hadoop_newest")


def _running(paths: pytest.TempPathFactory, name: str) -> Iterator[Cluster]:
    with Cluster(Path(paths.mktemp(name), "cluster"), CLUSTERS[name], tied=True) as cluster:
        yield cluster
