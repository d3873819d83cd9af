"""TensorFlow programs with the plugin for ``hdfs://``, on a real HDFS."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.native.tensorflow_process import TensorFlowProcess
from ytf.minicluster import MiniCluster, probes


def webhdfs(cluster: MiniCluster, path: str, operation: str, **parameters: object) -> None:
    """Have HDFS's administrator change something of a path."""
    query = urlencode({"op": operation, "user.name": getpass.getuser(), **parameters})
    probes.request(cluster.active_nn(), "PUT", f"/webhdfs/v1{path}?{query}")


@pytest.fixture(scope="package")
def tensorflow(hadoop: MiniCluster) -> Iterator[TensorFlowProcess]:
    """One process for most tests: importing TensorFlow takes seconds."""
    process = TensorFlowProcess(hadoop.environ)
    yield process
    assert process.end() == 0


@pytest.fixture
def at(request: pytest.FixtureRequest, tensorflow: TensorFlowProcess) -> str:
    """A new, empty directory in HDFS, known to the process as ``at``."""
    url = f"hdfs:///tmp/{request.node.name.replace('[', '-').replace(']', '').replace(':', '-')}"
    tensorflow.run(f"at = {url!r}; g.rmtree(at) if g.exists(at) else None; g.makedirs(at)")
    return url
