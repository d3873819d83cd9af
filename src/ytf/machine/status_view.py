"""The status of a job as clients read it, made from the machine's state.

The master answers with it; so does a client that restored the state from the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ytf.machine.deadlines import (
    AFTER_CHIEF,
    ALLOCATION,
    BACKOFF,
    EVALUATION,
    RENDEZVOUS,
    RESTART,
    TENSORBOARD_STAY,
)
from ytf.machine.diagnostics import join_names
from ytf.machine.machine import Machine
from ytf.machine.notes import notes
from ytf.machine.state import MachineState, Task
from ytf.specs import codec
from ytf.specs.ids import ContainerId, TaskId, group_of, index_of, task_id
from ytf.specs.job import TENSORBOARD
from ytf.specs.status import (
    ClusterSpec,
    JobEvent,
    JobInfo,
    JobRecord,
    JobStatus,
    LogLocation,
    StarterAddress,
    TaskState,
    TaskStatus,
    with_notes,
)
from ytf.specs.usage import TaskUsage

LogUrl = Callable[[TaskId, int, ContainerId], str | None]
LiveUsage = Callable[[Task], TaskUsage | None]
Activity = Callable[[Task], str]


class StatusView:
    """Reads status, record, starters and logs of one job from its machine.

    ``log_url`` gives the address of an attempt's logs, ``page_url`` is the
    address of the page of the running job.
    """

    def __init__(
        self,
        info: JobInfo,
        machine: Machine,
        events: list[JobEvent],
        *,
        log_url: LogUrl,
        page_url: str | None = None,
    ) -> None:
        self._info = info
        self._machine = machine
        self._events = events
        self._log_url = log_url
        self._page_url = page_url

    def status(
        self,
        *more_notes: str,
        live_usage: LiveUsage = lambda task: None,
        activity: Activity = lambda task: "",
    ) -> JobStatus:
        """The current status of the job and its tasks.

        ``more_notes`` are what the machine cannot know. ``live_usage`` tells what a
        task's program uses now, if that is known; the machine knows only what
        attempts used that have ended. ``activity`` tells what a task does while no program
        runs: it is the reason why it has not started, or not ended.
        """
        machine, state, spec = self._machine, self._machine.state, self._machine.spec
        over = machine.job_state.is_final
        return JobStatus(
            id=self._info.id,
            name=spec.name,
            user=self._info.user,
            queue=spec.queue,
            backend=self._info.backend,
            state=machine.job_state,
            final_status=state.final if over else None,
            diagnostics=with_notes(
                state.diagnostics or state.backend_note, [*notes(spec, state), *more_notes]
            ),
            started=state.began_at or self._info.submitted_at,
            finished=state.finished_at,
            # The master serves the page, and ends with the job.
            tracking_url=None if over else self._page_url,
            tensorboard_url=self._tensorboard_url(),
            tasks=tuple(self._task(t, live_usage(t), activity(t)) for t in state.tasks.values()),
        )

    def cluster_spec(self) -> ClusterSpec | None:
        """The addresses of all tasks; None before all are known."""
        return self._machine.state.published

    def waits_for(self, headroom: str, now: float) -> str:
        """What the job waits for, in words. ``headroom`` is what its backend has to offer."""
        return waits_for(self._machine.state, headroom=headroom, now=now)

    def log_location(self, task: TaskId) -> LogLocation | None:
        """Where the logs of a task's newest attempt are; None if it has no container yet."""
        found = self._machine.state.tasks.get(task)
        if found is None or found.last_container is None:
            return None
        container = self._machine.state.containers.get(found.last_container)
        return LogLocation(
            container=found.last_container,
            control=None if container is None else container.control,
            url=self._log_url(task, found.attempt, found.last_container),
        )

    def starters(self) -> list[StarterAddress]:
        """The addresses of all starters that have registered and not ended."""
        return [
            StarterAddress(task=c.task, container=name, node=c.node, control=c.control)
            for name, c in self._machine.state.containers.items()
            if c.control is not None
        ]

    def record(self) -> JobRecord:
        """The record that is kept of the job."""
        published = self.cluster_spec()
        return JobRecord(
            status=self.status(),
            spec=codec.to_dict(self._machine.spec),
            cluster_spec=None if published is None else msgspec.to_builtins(published),
            events=tuple(self._events),
        )

    def _task(self, task: Task, live_usage: TaskUsage | None, activity: str) -> TaskStatus:
        container, spec = task.last_container, self._machine.spec
        asked = spec.resources(task.id) if group_of(task.id) in spec.groups else None
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
            reason=task.reason or activity,
            memory_mb=None if asked is None else asked.memory_mb,
            vcores=None if asked is None else asked.vcores,
            usage=live_usage or task.usage,
        )

    def _tensorboard_url(self) -> str | None:
        task = self._machine.state.tasks.get(task_id(TENSORBOARD, 0))
        if task is None or task.state is not TaskState.RUNNING or task.port is None:
            return None
        return f"http://{task.host}:{task.port}/"


def waits_for(state: MachineState, *, headroom: str, now: float) -> str:
    """What the job waits for, in sentences; empty if all tasks run or have ended.

    ``headroom`` is what the backend has to offer.
    """
    if state.finished:
        return ""
    if state.final is not None:
        return _stopping_text(state, now)
    sentences: list[str] = []
    tasks = [task for task in state.tasks.values() if not task.dropped]
    unallocated = [task for task in tasks if task.request is not None]
    if unallocated:
        left = _time_left(state, ALLOCATION, now, "the job gives up")
        # The diagnostics already have what the backend has reported by itself.
        said = "" if state.backend_note or not headroom else f" {headroom.rstrip('.')}."
        sentences.append(f"Waiting for a container for {_names(unallocated)}{left}.{said}")
    unregistered = [task for task in tasks if task.state is TaskState.ALLOCATED]
    if unregistered:
        left = _time_left(state, RENDEZVOUS, now, "the job gives up")
        sentences.append(f"Waiting for the starter of {_names(unregistered)} to report{left}.")
    ready = [task for task in tasks if task.state is TaskState.STARTING]
    if ready and not unallocated and not unregistered:
        sentences.append(f"Waiting for the program of {_names(ready)} to start.")
    if RESTART in state.deadlines:
        sentences.append(f"The job starts again{_time_left(state, RESTART, now)}.")
    sentences += [
        f"{task.id} starts again{_time_left(state, BACKOFF + task.id, now)}."
        for task in tasks
        if BACKOFF + task.id in state.deadlines
    ]
    return " ".join(sentences)


def _stopping_text(state: MachineState, now: float) -> str:
    assert state.final is not None
    text = f"The job ends as {state.final.value}."
    stopping = [
        task
        for task in state.tasks.values()
        if task.container in state.containers
        and not (state.tensorboard_stays and group_of(task.id) == TENSORBOARD)
    ]
    if AFTER_CHIEF in state.deadlines:
        left = _time_left(state, AFTER_CHIEF, now, "they are stopped")
        return f"{text} The chief has succeeded, and the other tasks may end by themselves{left}."
    if EVALUATION in state.deadlines:
        left = _time_left(state, EVALUATION, now, "it is stopped")
        return f"{text} The evaluator may finish its last evaluation{left}."
    if TENSORBOARD_STAY in state.deadlines:
        left = _time_left(state, TENSORBOARD_STAY, now, "it is stopped")
        return f"{text} TensorBoard stays for a look at the results{left}."
    return f"{text} Waiting for {_names(stopping)} to stop." if stopping else text


def _names(tasks: Iterable[Task]) -> str:
    return join_names([task.id for task in tasks])


def _time_left(state: MachineState, deadline: str, now: float, then: str = "") -> str:
    due = state.deadlines.get(deadline)
    if due is None:
        return ""
    left = max(0, round(due - now))
    span = f"{left} s" if left < 120 else f"{left // 60} min"
    return f"; {then} in {span}" if then else f" in {span}"
