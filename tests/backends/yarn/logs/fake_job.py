"""A running or ended YARN job for tests that read logs: its status, starters and files."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import cast

import msgspec

from tests.backends.yarn.fake_cluster import (
    JOB,
    FakeClientProtocol,
    FakeRmClient,
    node_report,
    report,
)
from tests.backends.yarn.logs.fake_starter import SECRET
from tests.client.fakes import status, task
from tests.hadoop.logs.fake_node_manager import C, LogNode
from tests.hadoop.logs.made_tfiles import aggregated as aggregated_file
from ytf.backends.api import MasterAddress, job_ended_error
from ytf.backends.yarn.job.job_handle import YarnJobHandle
from ytf.hadoop.conf import Configuration
from ytf.hadoop.yarn.ids import NodeId
from ytf.hadoop.yarn.records import (
    ApplicationReport,
    ApplicationState,
    LogStatus,
    NodeReport,
    NodeState,
)
from ytf.specs.status import JobState, JobStatus, StarterAddress, TaskState, TaskStatus
from ytf.storage.hdfs import HdfsFiles
from ytf.storage.local_files import LocalFiles


class FakeNodes(FakeClientProtocol):
    """A ResourceManager that also knows nodes."""

    def __init__(self, web: str) -> None:
        super().__init__()
        self._web = web

    async def nodes(self, *states: NodeState) -> list[NodeReport]:
        there = NodeId("n", 1)
        return [msgspec.structs.replace(node_report(), node=there, http_address=self._web)]


class FakeLoggedJob(YarnJobHandle):
    """One whose status, starters and aggregated logs a test sets."""

    def __init__(self, root: Path, nm: LogNode) -> None:
        conf = Configuration.of({"yarn.nodemanager.remote-app-log-dir": str(root)})
        self._fake_rm = FakeRmClient(conf, "alice", FakeNodes(nm.address))
        super().__init__(self._fake_rm, cast(HdfsFiles, LocalFiles()), JOB)
        self._logs = root
        self._nm = nm
        self._changed = Event()
        self._failure: Exception | None = None
        self.starters: list[StarterAddress] = []
        self.is_closed = False
        self.waits = 0
        self.now = status(JobState.RUNNING, self.worker())

    def worker(self, **fields: object) -> TaskStatus:
        url = f"http://{self._nm.address}/node/containerlogs"
        given = {"container": C, "log_url": url, "node": "n:1", "port": 1, **fields}
        return msgspec.structs.replace(task("worker", 0, TaskState.RUNNING), **given)

    def become(self, now: JobStatus | Exception) -> None:
        if isinstance(now, Exception):
            self._failure = now
        else:
            self.now, self._failure = now, None
        self._changed.set()

    def status(self) -> JobStatus:
        return self.now

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        self._changed.wait(0.02)
        self._changed.clear()
        self.waits += 1
        if self._failure is not None:
            raise self._failure
        return self.now

    def find_master(self) -> MasterAddress:
        if self.is_closed:
            raise job_ended_error(JOB)
        return MasterAddress("http://n:1", 1)

    def secret(self) -> bytes:
        return SECRET

    def end(self, *tasks: TaskStatus, progress: LogStatus = LogStatus.RUNNING) -> None:
        """It has ended; its nodes have aggregated nothing yet."""
        self.aggregation(progress)
        self.become(status(JobState.SUCCEEDED, *(tasks or (self.worker(),))))

    def aggregation(self, progress: LogStatus) -> None:
        told = msgspec.structs.replace(
            report(ApplicationState.FINISHED), log_status=progress, user="alice"
        )
        self.yarn_says(told)

    def yarn_says(self, told: ApplicationReport) -> None:
        self._fake_rm.answers.known[JOB] = told

    def aggregate(self, files: dict[str, bytes], node: str = "n_1", container: str = C) -> None:
        told = self._fake_rm.answers.known.get(JOB)
        owner = "alice" if told is None else told.user
        place = self._logs / f"{owner}/bucket-logs-tfile/0007/{JOB}"
        place.mkdir(parents=True, exist_ok=True)
        data = aggregated_file({container: dict(sorted(files.items()))})
        (place / f"{node}.tmp").write_bytes(data)
        (place / f"{node}.tmp").rename(place / node)
