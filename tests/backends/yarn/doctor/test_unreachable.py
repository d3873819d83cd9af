"""Daemons that are dead or hang: each line says so in time, with the address."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ytf.backends import checks
from ytf.backends.yarn.doctor import cluster as clusters
from ytf.backends.yarn.doctor import yarn_checks
from ytf.backends.yarn.doctor.cluster import Cluster
from ytf.backends.yarn.doctor.hdfs_checks import HdfsChecks
from ytf.backends.yarn.doctor.yarn_checks import YarnChecks
from ytf.minicluster.configuration import to_xml
from ytf.specs.checks import CheckState


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.ANSWER_S < 10 < checks.LIMIT_S
    monkeypatch.setattr(clusters, "ANSWER_S", 0.5)
    monkeypatch.setattr(yarn_checks, "ANSWER_S", 0.5)


@pytest.fixture
def hung() -> Iterator[str]:
    """The address of who takes connections and never says a word: the kernel does it for us."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def dead() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return f"127.0.0.1:{gone.getsockname()[1]}"


def cluster(folder: Path, **settings: str) -> Cluster:
    names = {name.replace("__", "-").replace("_", "."): value for name, value in settings.items()}
    for file in ("core-site.xml", "yarn-site.xml"):
        (folder / file).write_text(to_xml(names))
    return Cluster({"HADOOP_CONF_DIR": str(folder), "HADOOP_USER_NAME": "alice"})


def test_a_resourcemanager_that_hangs(hung: str, tmp_path: Path) -> None:
    began = time.monotonic()
    found = YarnChecks(
        cluster(tmp_path, yarn_resourcemanager_address=hung), "default"
    ).resource_manager()
    assert time.monotonic() - began < 10
    assert found.state is CheckState.FAILED
    assert found.text == f"{hung} has not answered within 0.5 s"
    assert str(tmp_path / "yarn-site.xml") in (found.hint or "")


def test_two_resourcemanagers_neither_of_which_answers(
    hung: str, dead: str, tmp_path: Path
) -> None:
    pair = cluster(
        tmp_path,
        yarn_resourcemanager_ha_enabled="true",
        yarn_resourcemanager_ha_rm__ids="rm1,rm2",
        yarn_resourcemanager_address_rm1=dead,
        yarn_resourcemanager_address_rm2=hung,
    )
    found = YarnChecks(pair, "default").resource_manager()
    assert found.state is CheckState.FAILED
    assert f"{dead} does not answer: " in found.text
    assert "refused" in found.text
    assert found.text.endswith(f"; {hung} has not answered within 0.5 s")


def test_a_namenode_that_hangs(hung: str, tmp_path: Path) -> None:
    found = HdfsChecks(cluster(tmp_path, fs_defaultFS=f"hdfs://{hung}")).name_node()
    assert found.state is CheckState.FAILED
    assert found.text == f"{hung} does not answer: no answer within 0.5 s"
    assert str(tmp_path / "core-site.xml") in (found.hint or "")


def test_a_namenode_that_is_dead(dead: str, tmp_path: Path) -> None:
    found = HdfsChecks(cluster(tmp_path, fs_defaultFS=f"hdfs://{dead}")).name_node()
    assert found.state is CheckState.FAILED
    assert found.text.startswith(f"{dead} does not answer: ")
    assert "refused" in found.text
