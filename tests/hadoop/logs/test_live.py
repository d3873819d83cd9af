"""Logs of a real container: from its node while it runs, aggregated after its end."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ytf.errors import NotFoundError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.logs import (
    find_aggregated,
    list_node_logs,
    read_container_logs,
    stream_node_log,
)
from ytf.minicluster import MiniCluster
from ytf.storage.files import FileSource, FileTree
from ytf.storage.hdfs import HdfsFiles
from ytf.testing.waiting import eventually

USER = f"?user.name={getpass.getuser()}"
NUMBERS = "".join(f"{number}\n" for number in range(1, 400_001)).encode()
WRITTEN = {"stdout": b"hello\n", "odd": b"no newline", "empty": b"", "numbers": NUMBERS}


class Application:
    """One whose master is a shell: it writes logs, waits to be let go, and fails as one."""

    def __init__(self, cluster: MiniCluster, gate: Path) -> None:
        self._cluster = cluster
        self._gate = gate
        new: Any = cluster.rm_rest(f"/apps/new-application{USER}", "POST", {})
        self.id: str = new["application-id"]
        self.container = f"{self.id.replace('application', 'container')}_01_000001"
        command = (
            "echo hello > <LOG_DIR>/stdout; printf 'no newline' > <LOG_DIR>/odd;"
            " seq 1 400000 > <LOG_DIR>/numbers; : > <LOG_DIR>/empty;"
            f" until [ -e {gate} ]; do sleep 0.1; done"
        )
        cluster.rm_rest(
            f"/apps{USER}",
            "POST",
            {
                "application-id": self.id,
                "application-name": "logs",
                "am-container-spec": {"commands": {"command": command}},
                "max-app-attempts": 1,
                "resource": {"memory": 128, "vCores": 1},
            },
        )

    def node(self) -> str:
        """The web address of the node that its master runs on; empty before it does."""
        app: Any = self._cluster.rm_rest(f"/apps/{self.id}")["app"]
        return str(app.get("amHostHttpAddress") or "")

    def let_go(self) -> None:
        self._gate.touch()

    def ended(self) -> bool:
        app: Any = self._cluster.rm_rest(f"/apps/{self.id}")["app"]
        return app["state"] in ("FINISHED", "FAILED", "KILLED")


@pytest.fixture
def application(hadoop: MiniCluster, tmp_path: Path) -> Iterator[Application]:
    application = Application(hadoop, tmp_path / "gate")
    yield application
    application.let_go()
    eventually(application.ended, 60, "the application's end")


def sizes(node: str, container: str) -> dict[str, int]:
    try:
        return {log.name: log.size for log in list_node_logs(node, container)}
    except NotFoundError:
        return {}


def read_live(node: str, container: str, name: str, beyond: int = 0) -> bytes:
    [log] = [log for log in list_node_logs(node, container) if log.name == name]
    return b"".join(stream_node_log(node, container, log, beyond=beyond))


def test_live_and_aggregated(hadoop: MiniCluster, application: Application) -> None:
    node = eventually(application.node, 60, "the container's node")
    eventually(
        lambda: sizes(node, application.container).get("empty") == 0,
        60,
        "the container's logs",
    )
    for name, data in WRITTEN.items():
        assert read_live(node, application.container, name) == data
    assert read_live(node, application.container, "numbers", len(NUMBERS) - 14) == NUMBERS[-14:]

    conf = Configuration.load(hadoop.conf_dir)
    files = HdfsFiles.open("hdfs:///", conf)
    with pytest.raises(NotFoundError, match="no aggregated logs"):
        find_aggregated(FileTree(files), conf, getpass.getuser(), application.id)

    application.let_go()

    def aggregated() -> list[str]:
        try:
            found = find_aggregated(FileTree(files), conf, getpass.getuser(), application.id)
        except NotFoundError:
            return []
        return [each.path for each in found]

    (path,) = eventually(aggregated, 90, "the aggregated log")
    read = {
        log.name: b"".join(log.pieces)
        for log in read_container_logs(FileSource(files, path))
        if log.container == application.container
    }
    assert {name: read[name] for name in WRITTEN} == WRITTEN
