"""What the job of ``ytf doctor`` tells of its node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tests.client.fakes import status, task
from ytf.backends.checks import CheckFinding
from ytf.backends.yarn.doctor.cluster import Cluster
from ytf.backends.yarn.doctor.node_check import NodeFacts, main
from ytf.backends.yarn.doctor.probe_job import YarnProbeJob
from ytf.specs.checks import CheckState
from ytf.specs.status import JobEvent, JobState, TaskState

DONE = status(JobState.SUCCEEDED, task("worker", 0, TaskState.SUCCEEDED, node="nm1:8041"))
EVENTS = (
    JobEvent(at=1000.0, event="starter-registered", task="worker:0"),
    JobEvent(at=1002.0, event="task-exited", task="worker:0"),
)


class OneFile:
    """A cluster whose HDFS has one file, whatever it is called."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.files = self

    def read(self, path: str, offset: int, length: int) -> Iterator[bytes]:
        yield self.data[offset : offset + length]


def conclude(data: bytes) -> CheckFinding:
    job = YarnProbeJob(cast("Cluster", OneFile(data)), "default", None)
    return job.conclude(DONE, EVENTS, 2.5)


def facts(at: float, disk_free: int = 10**11) -> bytes:
    return msgspec.json.encode(NodeFacts(host="h", at=at, disk_free=disk_free))


def test_a_node_that_is_well() -> None:
    found = conclude(facts(at=1001.0))
    assert found.state is CheckState.OK
    assert found.text.startswith("a task ran on nm1:8041 after 2.5 s, wrote and read a file")
    assert found.text.endswith("100.0 GB are free on its disk")


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (900.0, "the clock of nm1:8041 is 100 s behind that of the job's master"),
        (1102.0, "the clock of nm1:8041 is 100 s ahead of that of the job's master"),
    ],
)
def test_a_clock_that_differs_from_the_masters(at: float, text: str) -> None:
    found = conclude(facts(at=at))
    assert found.state is CheckState.FAILED
    assert found.text.startswith(text)
    assert "NTP" in (found.hint or "")


def test_a_disk_that_is_nearly_full_is_noted() -> None:
    found = conclude(facts(at=1001.0, disk_free=10**8))
    assert found.state is CheckState.NOTE
    assert "yarn.nodemanager.local-dirs" in (found.hint or "")


@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 100_000, b'{"host": 1}', b"\xff"])
def test_what_somebody_else_wrote_is_refused(data: bytes) -> None:
    found = conclude(data)
    assert found.state is CheckState.FAILED
    assert "cannot be read" in found.text


def test_a_node_without_hdfs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert main(["hdfs://127.0.0.1:9/x"]) == 1
    assert capfd.readouterr().err.startswith("HDFS cannot be used from this node: cannot write /x")
