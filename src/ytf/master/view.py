"""What the master tells clients: the machine's memory in the words of ``specs/status.py``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from ytf.master.machine import Machine
from ytf.master.state import Task
from ytf.specs import codec
from ytf.specs.cluster import ClusterSpec
from ytf.specs.job import TENSORBOARD
from ytf.specs.names import ContainerId, JobId, TaskId, group_of, index_of, task_id
from ytf.specs.status import JobEvent, JobRecord, JobStatus, TaskState, TaskStatus

LogUrl = Callable[[TaskId, int, ContainerId], str | None]


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a submission beyond its spec: ``job.json``."""

    id: JobId
    user: str
    submitted_at: float
    backend: str


class Story:
    """The job's events so far, and a version that grows with every change of anything."""

    def __init__(self) -> None:
        self.events: list[JobEvent] = []
        self.version = 0
        self._changed = asyncio.Event()

    def touch(self) -> None:
        """Something about the job is different now."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, version: int) -> None:
        """Return once the version is not this one."""
        while self.version == version:
            await self._changed.wait()


class View:
    """Answers questions about one job. Implements ``web.jobapi.JobView`` but for ``kill``."""

    def __init__(self, info: JobInfo, machine: Machine, story: Story, *, log_url: LogUrl) -> None:
        self._info = info
        self._machine = machine
        self._story = story
        self._log_url = log_url

    def status(self) -> JobStatus:
        """How the job and its tasks are now."""
        machine, memory, spec = self._machine, self._machine.memory, self._machine.spec
        over = machine.state.is_final
        return JobStatus(
            id=self._info.id,
            name=spec.name,
            user=self._info.user,
            queue=spec.queue,
            backend=self._info.backend,
            state=machine.state,
            final_status=memory.final if over else None,
            diagnostics=memory.diagnostics,
            started=memory.began_at or self._info.submitted_at,
            finished=memory.finished_at,
            tensorboard_url=self._tensorboard_url(),
            tasks=tuple(self._task(t) for t in memory.tasks.values()),
        )

    def cluster_spec(self) -> ClusterSpec | None:
        """Who is where, once everyone is known."""
        return self._machine.memory.published

    def record(self) -> JobRecord:
        """All that stays of the job."""
        published = self.cluster_spec()
        return JobRecord(
            status=self.status(),
            spec=codec.to_dict(self._machine.spec),
            cluster_spec=None if published is None else msgspec.to_builtins(published),
            events=tuple(self._story.events),
        )

    def _task(self, task: Task) -> TaskStatus:
        container = task.last_container
        return TaskStatus(
            group=group_of(task.id),
            index=index_of(task.id),
            state=task.state,
            attempt=task.attempt,
            exit_code=task.exit_code,
            signal=task.signal,
            host=task.host,
            port=task.port,
            container=container,
            node=task.node,
            log_url=self._log_url(task.id, task.attempt, container) if container else None,
            reason=task.reason,
        )

    def _tensorboard_url(self) -> str | None:
        task = self._machine.memory.tasks.get(task_id(TENSORBOARD, 0))
        if task is None or task.state is not TaskState.RUNNING or task.port is None:
            return None
        return f"http://{task.host}:{task.port}/"
