"""The one Hadoop that all tests of a run share: the fixture ``hadoop``.

It is started by the first test that asks for it and stopped with the run, even
if the run is interrupted or killed. Whoever breaks something of it mends it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ytf.testing.hadoop import Cluster, ClusterOptions, Queue
from ytf.testing.hadoop.artifacts import CACHE, cache, fetch

OPTIONS = ClusterOptions(nodes=2, gpus=2, queues=(Queue("default", 80), Queue("ml", 20)))
# The first test waits for the cluster, too.
_TIMEOUT_S = 300


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use it, before ``-m`` chooses."""
    for item in items:
        if "hadoop" in getattr(item, "fixturenames", ()):
            item.add_marker("yarn")
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch Hadoop before the first test's time begins to count."""
    # Tests have homes of their own; the jars are everybody's.
    os.environ[CACHE] = str(cache())
    collecting_only = session.config.option.collectonly
    if not collecting_only and any(item.get_closest_marker("yarn") for item in session.items):
        fetch(OPTIONS.version, _say)


def _say(text: str) -> None:
    # Past the capture, which would hide why nothing seems to happen.
    os.write(2, f"\n{text}\n".encode())


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster with ``OPTIONS``: two nodes of 32 GB, 32 vcores and 2 counted GPUs."""
    directory = Path(tmp_path_factory.mktemp("hadoop"), "cluster")
    with Cluster(directory, OPTIONS, tied=True) as cluster:
        yield cluster
