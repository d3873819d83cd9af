"""The master's loop: durable first, then done; and a job that survives its master."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ytf.backends.api import Launch
from ytf.master import service
from ytf.master.commands import CancelRequest, ReleaseContainer, RequestContainer
from ytf.master.events import (
    BackendEvent,
    Cause,
    ContainerAllocated,
    ContainerCompleted,
    ContainersRecovered,
    StarterRegistered,
    TaskExited,
    TaskStarted,
)
from ytf.master.info import JobInfo
from ytf.master.journal import Journal, JournalError
from ytf.master.service import Master, steady_clock
from ytf.registry.api import Order, ReportSink
from ytf.specs.cluster import ClusterSpec
from ytf.specs.job import JobSpec, TaskGroupSpec, Timeouts
from ytf.specs.names import ContainerId, JobId, NodeId, TaskId, task_id
from ytf.specs.status import JobRecord, JobState, TaskState
from ytf.storage.blobs import LocalBlobs

INFO = JobInfo(id=JobId("local_1"), user="alice", submitted_at=1.0, backend="local")


class Backend:
    """Grants what is asked for; the test plays the rest."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[BackendEvent | None] = asyncio.Queue()
        self.launched: dict[TaskId, ContainerId] = {}
        self.acknowledged: list[ContainerId] = []
        self.shares: list[float] = []
        self._granted = 0

    async def start(self, attempt: int, tracking_url: str) -> None:
        """Nothing to register with."""

    async def events(self) -> AsyncIterator[BackendEvent]:
        while (event := await self.queue.get()) is not None:
            yield event

    def acknowledge(self, container: ContainerId) -> None:
        self.acknowledged.append(container)

    def request(self, command: RequestContainer) -> None:
        self._granted += 1
        container = ContainerId(f"c{self._granted}")
        self.queue.put_nowait(
            ContainerAllocated(request=command.request, container=container, node=NodeId("n"))
        )

    def cancel(self, command: CancelRequest) -> None:
        """All wishes have been granted."""

    def launch(self, launch: Launch) -> None:
        self.launched[launch.task] = launch.container

    def release(self, command: ReleaseContainer) -> None:
        self.end(command.container)

    def end(self, container: ContainerId) -> None:
        self.queue.put_nowait(ContainerCompleted(container=container, cause=Cause.RELEASED))

    def log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        return f"log:{task}/{attempt}"

    def progress(self, share: float) -> None:
        self.shares.append(share)

    def supply(self) -> str:
        return "The queue is full."

    async def finish(self, record: JobRecord) -> None:
        """The test looks at the master itself."""


class Registry:
    """Notes what the master says, and lets a starter stop as soon as it is told to."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.orders: dict[ContainerId, Order] = {}
        self.published: ClusterSpec | None = None
        self.heard: dict[ContainerId, float] = {}

    async def start(self, sink: ReportSink) -> None:
        """The test calls the sink itself."""

    def publish(self, spec: ClusterSpec) -> None:
        self.published = spec

    def order(self, container: ContainerId, order: Order) -> None:
        self.orders[container] = order
        if order.stop:
            self._backend.end(container)

    def forget(self, container: ContainerId) -> None:
        self.orders.pop(container, None)

    def last_heard(self, container: ContainerId) -> float | None:
        return self.heard.get(container)

    async def close(self) -> None:
        """Nothing is open."""


class Job:
    """One master and its surroundings."""

    def __init__(self, directory: Path, spec: JobSpec) -> None:
        self._directory = directory
        self._spec = spec
        self.backend = Backend()

    async def start(self, attempt: int = 1, blobs: LocalBlobs | None = None) -> Master:
        self.registry = Registry(self.backend)
        self.journal = await Journal.open(
            blobs or LocalBlobs(self._directory), attempt, patience_s=0.2
        )
        self.master = Master(
            spec=self._spec,
            info=INFO,
            url="http://h:1",
            journal=self.journal,
            backend=self.backend,
            registry=self.registry,
        )
        await self.master.recover()
        self.running = asyncio.create_task(self.master.run())
        return self.master

    async def die(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        await self.journal.close()

    async def until(self, condition: Callable[[], object]) -> None:
        async def wait() -> None:
            while not condition():
                await self.master.changed(self.master.version)

        await asyncio.wait_for(wait(), 10)

    async def registered(self, index: int, attempt: int = 1) -> Order | None:
        task = task_id("worker", index)
        await self.until(lambda: task in self.backend.launched)
        return await self.master.report(
            StarterRegistered(
                task=task,
                attempt=attempt,
                container=self.backend.launched[task],
                host="h",
                port=2000 + index,
                control="h:9",
            )
        )

    async def started(self, index: int) -> None:
        task = task_id("worker", index)
        container = self.backend.launched[task]
        await self.master.report(TaskStarted(task=task, attempt=1, container=container))

    async def exited(self, index: int, code: int = 0, tail: str = "") -> Order | None:
        task = task_id("worker", index)
        return await self.master.report(
            TaskExited(
                task=task,
                attempt=1,
                container=self.backend.launched[task],
                exit_code=code,
                signal=None,
                ended_at=time.time(),
                tail=tail,
            )
        )

    def states(self) -> list[TaskState]:
        return [task.state for task in self.master.status().tasks]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path, JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true"))


async def run_both(job: Job) -> None:
    for index in range(2):
        await job.registered(index)
    for index in range(2):
        await job.started(index)


async def test_a_job_from_its_start_to_its_end(job: Job) -> None:
    master = await job.start()
    await run_both(job)
    assert master.status().state is JobState.RUNNING
    assert job.registry.published is not None
    assert job.registry.published.members == {"worker": ("h:2000", "h:2001")}
    for index in range(2):
        order = await job.exited(index)
        assert order is not None
        assert order.stop
    await job.running
    assert master.status().state is JobState.SUCCEEDED
    assert set(job.backend.acknowledged) == {"c1", "c2"}
    record = master.record()
    assert record.events[-1].event == "JobFinished"
    assert job.backend.shares[0] == 0.0
    assert job.backend.shares == sorted(job.backend.shares)
    assert {0.25, 0.5, 0.75, 1.0} <= set(job.backend.shares)
    assert [t.log_url for t in record.status.tasks] == ["log:worker:0/1", "log:worker:1/1"]
    await job.journal.close()


async def test_registrations_are_written_together_and_the_last_is_not_kept_waiting(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "GATHER_S", 60.0)
    await job.start()
    await job.until(lambda: len(job.backend.launched) == 2)
    blobs = LocalBlobs(tmp_path)
    before = len(blobs.list("0001"))
    await asyncio.wait_for(asyncio.gather(job.registered(0), job.registered(1)), 10)
    assert len(blobs.list("0001")) == before + 1
    assert job.registry.published is not None
    await job.die()


async def test_a_registration_alone_is_acknowledged_after_a_moment(job: Job) -> None:
    await job.start()
    await asyncio.wait_for(job.registered(0), 10)
    assert job.registry.published is None
    await job.die()


async def test_hints_are_added_to_what_starters_report(job: Job) -> None:
    master = await job.start()
    await run_both(job)
    await job.exited(0, 1, "ModuleNotFoundError: No module named 'numpy'\n")
    await job.running
    assert "this Python has no module numpy" in master.status().diagnostics
    await job.journal.close()


async def test_after_the_end_reports_are_answered_with_nothing(job: Job) -> None:
    master = await job.start()
    await run_both(job)
    await master.kill("alice", "enough")
    await job.running
    assert master.status().diagnostics == "Killed by alice: enough."
    assert await job.exited(0) is None
    await job.journal.close()


async def test_a_new_master_knows_all_that_was_acknowledged(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "SNAPSHOT_EVERY", 3)
    await job.start()
    await run_both(job)
    before = job.master.status()
    story = [event.event for event in job.master.events()]
    await job.die()

    await job.start(attempt=2)
    job.backend.queue.put_nowait(
        ContainersRecovered(containers=tuple(job.backend.launched.values()), complete=True)
    )
    await job.until(lambda: len(job.master.events()) > len(story) + 1)
    assert job.states() == [task.state for task in before.tasks]
    assert [event.event for event in job.master.events()][: len(story)] == story
    assert job.registry.published is not None
    assert set(job.registry.orders) == set(job.backend.launched.values())
    for index in range(2):
        await job.exited(index)
    await job.running
    assert job.master.status().state is JobState.SUCCEEDED
    await job.journal.close()


class FullDisk(LocalBlobs):
    """A disk that can be full."""

    full = False

    def write(self, name: str, data: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(name, data)


async def test_a_full_disk_refuses_reports_but_does_not_stop_the_job(
    job: Job, tmp_path: Path
) -> None:
    disk = FullDisk(tmp_path)
    await job.start(blobs=disk)
    await run_both(job)
    disk.full = True
    with pytest.raises(JournalError):
        await job.exited(0)
    assert job.states()[0] is TaskState.SUCCEEDED, "it has been taken in all the same"
    disk.full = False
    await job.exited(0)
    await job.exited(1)
    await job.running
    assert job.master.status().state is JobState.SUCCEEDED
    await job.journal.close()


def freeze(seconds: float) -> None:
    """Be away as a stopped process is: the event loop stands still, the clock does not."""
    time.sleep(seconds)


async def test_a_silent_starter_is_given_up_but_not_after_the_masters_own_absence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = JobSpec(
        groups={"worker": TaskGroupSpec(count=2)},
        command="true",
        timeouts=Timeouts(heartbeat_s=0.5),
    )
    job = Job(tmp_path, spec)
    await job.start()
    await run_both(job)
    containers = list(job.backend.launched.values())
    for container in containers:
        job.registry.heard[container] = time.monotonic()
    freeze(1.0)
    await asyncio.sleep(0.15)
    assert job.master.status().diagnostics == ""
    job.registry.heard[containers[1]] = time.monotonic() + 1000
    await asyncio.wait_for(job.running, 10)
    assert "worker:0" in job.master.status().diagnostics
    assert "has not been heard of" in job.master.status().diagnostics
    await job.journal.close()


def test_the_clock_is_steady_and_about_right() -> None:
    clock = steady_clock()
    assert abs(clock() - time.time()) < 1
    assert clock() <= clock()
