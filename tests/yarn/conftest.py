from __future__ import annotations

from pathlib import Path

import pytest

from tests.yarn.driver import Yarn
from ytf.minicluster import MiniCluster


@pytest.fixture(scope="session")
def yarn_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One ``YTF_HOME`` for all tests of a run: ytf's own layers are packed once."""
    return tmp_path_factory.mktemp("ytf-home")


@pytest.fixture
def yarn(hadoop: MiniCluster, yarn_home: Path, tmp_path: Path) -> Yarn:
    """The commands, in a working directory of their own."""
    # An earlier test may have stopped a node, which comes back after a time on a busy machine.
    hadoop.wait_for_nodes(hadoop.options.nodes)
    (tmp_path / "gate").mkdir()
    return Yarn(hadoop, yarn_home, tmp_path)


@pytest.fixture
def gate(tmp_path: Path) -> str:
    """A line of shell that tells a program where it and the test meet."""
    return f"GATE={tmp_path / 'gate'}; "
