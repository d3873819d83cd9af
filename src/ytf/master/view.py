"""What the master tells clients: the machine's memory in the words of ``specs/status.py``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from ytf.master.info import JobInfo
from ytf.master.machine import Machine
from ytf.master.state import Task
from ytf.master.waiting import waits_for
from ytf.specs import codec
from ytf.specs.cluster import ClusterSpec
from ytf.specs.job import TENSORBOARD
from ytf.specs.names import ContainerId, TaskId, group_of, index_of, task_id
from ytf.specs.status import (
    JobEvent,
    JobRecord,
    JobStatus,
    StarterPlace,
    TaskState,
    TaskStatus,
)
from ytf.web.tails import LogPlace

LogUrl = Callable[[TaskId, int, ContainerId], str | None]


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
    """Answers questions about one job. Implements ``web.reading.PageView`` but for ``kill``.

    ``page_url`` is where people find the page of the running job.
    """

    def __init__(
        self,
        info: JobInfo,
        machine: Machine,
        story: Story,
        *,
        log_url: LogUrl,
        page_url: str | None = None,
    ) -> None:
        self._info = info
        self._machine = machine
        self._story = story
        self._log_url = log_url
        self._page_url = page_url

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
            diagnostics=memory.diagnostics or memory.waiting,
            started=memory.began_at or self._info.submitted_at,
            finished=memory.finished_at,
            # The page ends with its master.
            tracking_url=None if over else self._page_url,
            tensorboard_url=self._tensorboard_url(),
            tasks=tuple(self._task(t) for t in memory.tasks.values()),
        )

    def cluster_spec(self) -> ClusterSpec | None:
        """Who is where, once everyone is known."""
        return self._machine.memory.published

    def waits_for(self, supply: str, now: float) -> str:
        """What the job waits for; ``supply`` is what its backend can give."""
        return waits_for(self._machine.memory, supply=supply, now=now)

    def log_place(self, task: TaskId) -> LogPlace | None:
        """Where a task's newest attempt writes, if it has one that does."""
        found = self._machine.memory.tasks.get(task)
        if found is None or found.last_container is None:
            return None
        container = self._machine.memory.containers.get(found.last_container)
        return LogPlace(
            container=found.last_container,
            control=None if container is None else container.control,
            url=self._log_url(task, found.attempt, found.last_container),
        )

    def starters(self) -> list[StarterPlace]:
        """Where the starters listen that have registered and not ended."""
        return [
            StarterPlace(task=c.task, container=name, node=c.node, control=c.control)
            for name, c in self._machine.memory.containers.items()
            if c.control is not None
        ]

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
