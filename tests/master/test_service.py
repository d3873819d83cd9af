"""The master's loop: events are durable before they have an effect, and survive their master."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from ytf.backends.api import EmptyRegistry, StarterLaunch, nothing_published
from ytf.journal.format import Entry
from ytf.journal.writer import Journal, JournalError
from ytf.machine.commands import CancelRequest, ContainerProfile, ReleaseContainer, RequestContainer
from ytf.machine.events import (
    BackendEvent,
    Cause,
    ContainerAllocated,
    ContainerCompleted,
    ContainersRecovered,
    StarterRegistered,
    TaskExited,
    TaskStarted,
)
from ytf.master import job_view, service
from ytf.master.service import Master, monotonic_wall_clock
from ytf.registry.api import Order, ProgramCondition, ReportSink
from ytf.specs.ids import ContainerId, JobId, NodeId, TaskId, task_id
from ytf.specs.job import JobSpec, TaskGroupSpec, Timeouts
from ytf.specs.status import ClusterSpec, JobInfo, JobRecord, JobState, TaskState
from ytf.storage.blobs import LocalBlobs
from ytf.testing.waiting import eventually_async

INFO = JobInfo(id=JobId("local_1"), user="alice", submitted_at=1.0, backend="local")


class Backend:
    """Allocates every requested container at once; the test makes all other events."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[BackendEvent | None] = asyncio.Queue()
        self.launched: dict[TaskId, ContainerId] = {}
        self.acknowledged: list[ContainerId] = []
        self.shares: list[float] = []
        self._granted = 0

    async def start(
        self, attempt: int, tracking_url: str, profiles: Sequence[ContainerProfile]
    ) -> None:
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
        """All requests have been fulfilled."""

    def launch(self, launch: StarterLaunch) -> None:
        self.launched[launch.task] = launch.container

    def release(self, command: ReleaseContainer) -> None:
        self.end(command.container)

    def end(self, container: ContainerId) -> None:
        self.queue.put_nowait(ContainerCompleted(container=container, cause=Cause.RELEASED))

    def log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        return f"log:{task}/{attempt}"

    def report_progress(self, share: float) -> None:
        self.shares.append(share)

    def headroom_text(self) -> str:
        return "The queue is full."

    async def finish(
        self, record: JobRecord, empty_registry: EmptyRegistry = nothing_published
    ) -> bool:
        """The test looks at the master itself."""
        return True


class Registry:
    """Notes what the master publishes and orders; a starter stops as soon as it is told to."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.orders: dict[ContainerId, Order] = {}
        self.known_as_registered: dict[ContainerId, int] = {}
        self.published: ClusterSpec | None = None
        self.heard: dict[ContainerId, float] = {}
        self.conditions: dict[ContainerId, ProgramCondition] = {}
        self.on_start: Callable[[], object] = lambda: None

    async def start(self, sink: ReportSink) -> None:
        """The test calls the sink itself, at the earliest by ``on_start``."""
        self.on_start()

    def publish(self, spec: ClusterSpec) -> None:
        self.published = spec

    def order(self, container: ContainerId, order: Order, *, is_registered: bool = False) -> None:
        self.orders[container] = order
        if is_registered:
            self.known_as_registered[container] = order.attempt
        if order.stop:
            self._backend.end(container)

    def forget(self, container: ContainerId) -> None:
        self.orders.pop(container, None)

    def last_heard(self, container: ContainerId) -> float | None:
        return self.heard.get(container)

    def activity(self, container: ContainerId) -> str:
        return ""

    def condition(self, container: ContainerId) -> ProgramCondition | None:
        return self.conditions.get(container)

    async def remove(self) -> bool:
        return True

    async def close(self) -> None:
        """Nothing is open."""


class Job:
    """One master with its backend, its registry and its journal."""

    def __init__(self, directory: Path, spec: JobSpec) -> None:
        self._directory = directory
        self._spec = spec
        self.backend = Backend()

    async def start(self, attempt: int = 1, blobs: LocalBlobs | None = None) -> Master:
        self.registry = Registry(self.backend)
        self.journal = await Journal.open(
            blobs or LocalBlobs(self._directory), attempt, timeout_s=0.2
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
                await self.master.view.changed(self.master.view.version)

        await asyncio.wait_for(wait(), 60)

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

    async def exited(
        self, index: int, code: int = 0, tail: str = "", reason: str = ""
    ) -> Order | None:
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
                reason=reason,
            )
        )

    def states(self) -> list[TaskState]:
        return [task.state for task in self.master.view.status().tasks]


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
    assert master.view.status().state is JobState.RUNNING
    assert job.registry.published is not None
    assert job.registry.published.members == {"worker": ("h:2000", "h:2001")}
    for index in range(2):
        order = await job.exited(index)
        assert order is not None
        assert order.stop
    await job.running
    assert master.view.status().state is JobState.SUCCEEDED
    assert set(job.backend.acknowledged) == {"c1", "c2"}
    record = master.view.record()
    assert record.events[-1].event == "job-finished"
    assert job.backend.shares[0] == 0.0
    assert job.backend.shares == sorted(job.backend.shares)
    assert {0.25, 0.5, 0.75, 1.0} <= set(job.backend.shares)
    assert [t.log_url for t in record.status.tasks] == ["log:worker:0/1", "log:worker:1/1"]
    await job.journal.close()


async def test_registrations_are_written_together_and_the_last_is_not_kept_waiting(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "BATCH_DELAY_S", 60.0)
    await job.start()
    await job.until(lambda: len(job.backend.launched) == 2)
    blobs = LocalBlobs(tmp_path)
    before = len(blobs.list("0001"))
    await asyncio.wait_for(asyncio.gather(job.registered(0), job.registered(1)), 60)
    assert len(blobs.list("0001")) == before + 1
    assert job.registry.published is not None
    await job.die()


async def test_an_event_is_shown_once_it_is_in_the_journal(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "BATCH_DELAY_S", 60.0)
    master = await job.start()
    first = asyncio.create_task(job.registered(0))
    await eventually_async(lambda: master.view.status().tasks[0].port)
    assert "starter-registered" not in [event.event for event in master.view.events()]
    await asyncio.wait_for(asyncio.gather(first, job.registered(1)), 60)
    assert [event.event for event in master.view.events()].count("starter-registered") == 2
    await job.die()


async def test_a_registration_alone_is_acknowledged_after_a_moment(job: Job) -> None:
    await job.start()
    await asyncio.wait_for(job.registered(0), 60)
    assert job.registry.published is None
    await job.die()


async def test_hints_are_added_to_what_starters_report(job: Job) -> None:
    master = await job.start()
    await run_both(job)
    await job.exited(0, 1, "ModuleNotFoundError: No module named 'numpy'\n")
    await job.running
    assert "this Python has no module numpy" in master.view.status().diagnostics
    await job.journal.close()


async def test_the_exit_code_of_a_program_that_was_never_started_is_no_hint(job: Job) -> None:
    await job.start()
    await run_both(job)
    await job.exited(0, 126, reason="the program could not be started: No space left on device")
    await job.running
    text = job.master.view.status().diagnostics
    assert "a disk of the node is full" in text
    assert "executable" not in text
    await job.journal.close()


async def test_after_the_end_reports_are_answered_with_nothing(job: Job) -> None:
    master = await job.start()
    await run_both(job)
    await master.view.kill("alice", "enough")
    await job.running
    assert master.view.status().diagnostics == "Killed by alice: enough."
    assert await job.exited(0) is None
    await job.journal.close()


async def test_a_new_master_knows_all_that_was_acknowledged(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "SNAPSHOT_EVERY", 3)
    await job.start()
    await run_both(job)
    before = job.master.view.status()
    events_before = [event.event for event in job.master.view.events()]
    await job.die()

    await job.start(attempt=2)
    job.backend.queue.put_nowait(
        ContainersRecovered(containers=tuple(job.backend.launched.values()), complete=True)
    )
    await job.until(lambda: len(job.master.view.events()) > len(events_before) + 1)
    assert job.states() == [task.state for task in before.tasks]
    again = [event.event for event in job.master.view.events()]
    assert again[: len(events_before)] == events_before
    assert job.registry.published is not None
    assert set(job.registry.orders) == set(job.backend.launched.values())
    for index in range(2):
        await job.exited(index)
    await job.running
    assert job.master.view.status().state is JobState.SUCCEEDED
    await job.journal.close()


async def test_what_the_backend_lost_meanwhile_is_known_before_any_starter_is_heard(
    job: Job,
) -> None:
    await job.start()
    await run_both(job)
    await job.die()

    # The container of worker:1 was lost with the master, and worker:0 failed because of that.
    kept, lost = (
        job.backend.launched[task_id("worker", 0)],
        job.backend.launched[task_id("worker", 1)],
    )
    job.backend.queue.put_nowait(ContainersRecovered(containers=(kept,), complete=False))
    job.backend.queue.put_nowait(ContainerCompleted(container=lost, cause=Cause.NOT_KEPT))
    reports: list[asyncio.Task[Order | None]] = []
    await job.start(attempt=2)
    job.registry.on_start = lambda: reports.append(asyncio.create_task(job.exited(0, code=1)))
    await job.until(lambda: reports and reports[0].done())
    order = await reports[0]
    assert order is not None
    assert (order.stop, order.attempt, order.generation) == (False, 2, 2)
    assert job.master.view.status().final_status is None
    await job.die()


class FullDisk(LocalBlobs):
    """A disk that can be full."""

    full = False

    def write(self, name: str, data: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(name, data)


async def test_a_full_disk_refuses_reports_but_does_not_stop_the_job(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "JOURNAL_WAIT_S", 0.01)
    disk = FullDisk(tmp_path)
    await job.start(blobs=disk)
    await run_both(job)
    disk.full = True
    with pytest.raises(JournalError):
        await job.exited(0)
    assert job.states()[0] is TaskState.SUCCEEDED, "it has been taken in all the same"
    (told,) = job.master.view.status().notes
    assert "The master cannot write its journal: No space left on device." in told
    assert "ytf gc --older-than" in told
    assert "cannot write" not in job.master.view.record().status.diagnostics
    monkeypatch.setattr(service, "JOURNAL_WAIT_S", 30.0)
    disk.full = False
    await job.exited(0)
    await job.exited(1)
    await job.running
    assert job.master.view.status().state is JobState.SUCCEEDED
    await job.journal.close()


async def test_programs_that_only_wait_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PROGRAM_CHECK_S", 0.01)
    spec = JobSpec(
        groups={"worker": TaskGroupSpec(count=2)}, command="true", timeouts=Timeouts(idle_s=60)
    )
    job = Job(tmp_path, spec)
    await job.start()
    await run_both(job)
    await job.exited(0)
    container = job.backend.launched[task_id("worker", 1)]
    conditions, now = job.registry.conditions, time.monotonic()
    conditions[container] = ProgramCondition(attempt=1, idle_since=now - 61, output_lost_at=3.0)
    await job.until(lambda: len(job.master.view.status().notes) == 2)
    assert "Running: worker:1. Ended successfully: worker:0" in job.master.view.status().notes[0]
    assert "missing from their logs: worker:1" in job.master.view.status().notes[1]
    conditions[container] = ProgramCondition(attempt=1)
    await job.until(lambda: len(job.master.view.status().notes) == 1)
    # The status may be ahead of the events, which are shown once they are in the journal.
    await job.until(lambda: "job-idle-ended" in [e.event for e in job.master.view.events()])
    assert [e.event for e in job.master.view.events()][-3:] == [
        *("output-lost", "job-became-idle", "job-idle-ended"),
    ]
    await job.die()


async def test_a_report_is_taken_in_once_the_disk_is_back(job: Job, tmp_path: Path) -> None:
    disk = FullDisk(tmp_path)
    await job.start(blobs=disk)
    await run_both(job)
    disk.full = True
    reporting = asyncio.create_task(job.exited(0))
    version = job.master.view.version
    while not job.master.view.status().diagnostics:
        # Clients that wait are told that there is trouble, and that it is over.
        await asyncio.wait_for(job.master.view.changed(version), 30)
        version = job.master.view.version
    disk.full = False
    await asyncio.wait_for(reporting, 30)
    while job.master.view.status().diagnostics:
        await asyncio.wait_for(job.master.view.changed(version), 30)
        version = job.master.view.version
    await job.exited(1)
    await job.running
    await job.journal.close()


async def test_a_kill_is_in_effect_also_with_a_full_disk(job: Job, tmp_path: Path) -> None:
    disk = FullDisk(tmp_path)
    await job.start(blobs=disk)
    await run_both(job)
    disk.full = True
    await asyncio.wait_for(job.master.view.kill("alice", "enough"), 30)
    await asyncio.wait_for(job.running, 30)
    assert job.master.view.status().state is JobState.KILLED
    disk.full = False
    assert await job.journal.caught_up(30)
    await job.journal.close()


async def test_who_opens_shells_is_noted_now_and_then(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = await job.start()

    def noted() -> list[str]:
        return [e.text for e in master.view.events() if e.event == "shell-requested"]

    for _ in range(100):
        master.view.note_shell(TaskId("worker:0"), "ada")
    master.view.note_shell(TaskId("worker:1"), "ada")
    master.view.note_shell(TaskId("worker:0"), "bob")
    await eventually_async(lambda: len(noted()) == 3)
    assert noted() == [
        "ada asked for a shell in worker:0",
        "ada asked for a shell in worker:1",
        "bob asked for a shell in worker:0",
    ]
    monkeypatch.setattr(job_view, "SHELL_NOTE_S", 0.0)
    master.view.note_shell(TaskId("worker:0"), "ada")
    await eventually_async(lambda: len(noted()) == 4)
    await job.die()


async def test_a_report_of_no_container_of_the_job_is_not_written(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    await job.start()
    await run_both(job)
    written: list[Entry] = []
    append = job.journal.append

    async def count(entries: list[Entry]) -> None:
        written.extend(entries)
        await append(entries)

    monkeypatch.setattr(job.journal, "append", count)
    for _ in range(20):
        stranger = TaskStarted(
            task=task_id("worker", 0), attempt=1, container=ContainerId("of another job")
        )
        assert await job.master.report(stranger) is None
    assert written == []
    await job.exited(0)
    await job.exited(1)
    await job.running
    assert written
    await job.journal.close()


async def test_a_silent_starter_is_given_up(tmp_path: Path) -> None:
    spec = JobSpec(
        groups={"worker": TaskGroupSpec(count=2)},
        command="true",
        timeouts=Timeouts(heartbeat_timeout_s=0.5),
    )
    job = Job(tmp_path, spec)
    await job.start()
    await run_both(job)
    silent, other = job.backend.launched.values()
    job.registry.heard[silent] = time.monotonic()
    job.registry.heard[other] = math.inf
    await asyncio.wait_for(job.running, 60)
    assert "worker:0" in job.master.view.status().diagnostics
    assert "has sent no heartbeat" in job.master.view.status().diagnostics
    await job.journal.close()


def test_the_clock_does_not_follow_a_corrected_system_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    monkeypatch.setattr(time, "monotonic", lambda: 50.0)
    clock = monotonic_wall_clock()
    assert clock() == 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: 900_000.0)
    monkeypatch.setattr(time, "monotonic", lambda: 52.5)
    assert clock() == 1_000_002.5
