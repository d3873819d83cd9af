"""The tasks of a job with counts per state, for the job machine.

A job may have thousands of tasks, and an event must not cost more in a large
job. So questions such as "is a task still pending?" are answered from counts
that are kept up to date, not by a loop over all tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ytf.machine.state import MachineState, Task, requesting_task
from ytf.specs.ids import ContainerId, RequestId, TaskId, group_of, task_id
from ytf.specs.job import EVALUATOR, TENSORBOARD, JobSpec
from ytf.specs.status import TaskState

LIVE = frozenset({TaskState.ALLOCATED, TaskState.STARTING, TaskState.RUNNING})
"""The states of a task that has a container and whose attempt has not ended."""


class TaskTable:
    """All tasks and their counts. Every change of a task's state or request is made here."""

    def __init__(self, spec: JobSpec, state: MachineState) -> None:
        self.spec = spec
        self.tasks = state.tasks
        self._tracked = spec.tracked_groups()
        self.counts = Counter(t.state for t in self.members())
        self.requests = sum(t.request is not None for t in self.members())
        """How many members wait for a container."""
        self.tracked_open = sum(
            group_of(t.id) in self._tracked and not t.state.is_final for t in self.members()
        )
        """How many tracked tasks have not ended."""
        self._tracked_members = len(self.tracked())
        self._deciding = spec.deciding_groups()
        self._undecided = sum(
            group_of(t.id) in self._deciding and t.state is not TaskState.SUCCEEDED
            for t in self.members()
        )

    def members(self) -> Iterator[Task]:
        """The tasks of the rendezvous: all but TensorBoard and those that were dropped."""
        return (t for t in self.tasks.values() if self._is_member(t))

    def tracked(self) -> list[Task]:
        """The members whose end decides the end of the job."""
        return [t for t in self.members() if group_of(t.id) in self._tracked]

    def deciding(self) -> list[Task]:
        """The members whose success decides the job at once; empty if there are none."""
        return [t for t in self.members() if group_of(t.id) in self._deciding]

    def chief_succeeded(self) -> bool:
        """Whether there are deciding members, and all of them have succeeded."""
        return bool(self._deciding) and self._undecided == 0 and bool(self.deciding())

    def running(self) -> list[Task]:
        """The members whose programs run, those that are tracked first."""
        found = [t for t in self.members() if t.state is TaskState.RUNNING]
        return sorted(found, key=lambda t: group_of(t.id) not in self._tracked)

    def live_evaluators(self) -> list[Task]:
        """The evaluators that have a container and have not ended."""
        if EVALUATOR not in self.spec.groups:
            return []
        count = self.spec.groups[EVALUATOR].count
        tasks = (self.tasks[task_id(EVALUATOR, i)] for i in range(count))
        return [t for t in tasks if t.state in LIVE]

    def live_tensorboard(self) -> Task | None:
        """TensorBoard, if it has a container and has not ended."""
        task = self.tasks.get(task_id(TENSORBOARD, 0))
        return task if task is not None and task.state in LIVE else None

    def ended_count(self) -> int:
        """How many members have ended."""
        return sum(self.counts[state] for state in TaskState if state.is_final)

    def all_registered(self) -> bool:
        """Whether every member has registered or ended, and at least one waits to start."""
        counts = self.counts
        waiting = counts[TaskState.PENDING] or counts[TaskState.ALLOCATED]
        return not waiting and counts[TaskState.STARTING] > 0

    def all_started(self) -> bool:
        """Whether the program of every member runs or has ended."""
        waiting = (TaskState.PENDING, TaskState.ALLOCATED, TaskState.STARTING)
        return not any(self.counts[state] for state in waiting)

    def progress(self) -> float:
        """The progress of the job, from 0 to 1.

        One half is the share of members whose programs have started, the other
        half the share of tracked tasks that have ended. A restarted task counts
        as not started.
        """
        members = sum(self.counts.values())
        waiting = (TaskState.PENDING, TaskState.ALLOCATED, TaskState.STARTING)
        started = members - sum(self.counts[state] for state in waiting)
        ended = self._tracked_members - self.tracked_open
        return (started / max(members, 1) + ended / max(self._tracked_members, 1)) / 2

    def addresses(self) -> dict[str, tuple[str, ...]]:
        """The addresses of the members: group → ``host:port`` by index."""
        found: dict[str, list[str]] = {}
        for task in self.members():
            if task.port is not None:
                found.setdefault(group_of(task.id), []).append(f"{task.host}:{task.port}")
        return {group: tuple(hosts) for group, hosts in found.items()}

    def set_state(self, task: Task, state: TaskState) -> None:
        """Change the state of a task."""
        if self._is_member(task):
            self.counts[task.state] -= 1
            self.counts[state] += 1
            if group_of(task.id) in self._tracked:
                self.tracked_open += task.state.is_final - state.is_final
            if group_of(task.id) in self._deciding:
                succeeded = TaskState.SUCCEEDED
                self._undecided += (task.state is succeeded) - (state is succeeded)
        task.state = state

    def set_request(self, task: Task, request: RequestId | None) -> None:
        """Set or clear the open container request of a task."""
        if self._is_member(task):
            self.requests += (request is not None) - (task.request is not None)
        task.request = request

    def drop(self, task: Task) -> None:
        """Drop a task: the job goes on as if it had never been part of it."""
        self.set_request(task, None)
        self.set_state(task, TaskState.KILLED)
        self.counts[TaskState.KILLED] -= 1
        self._tracked_members -= group_of(task.id) in self._tracked
        self._undecided -= group_of(task.id) in self._deciding
        task.dropped = True

    def current(self, task: TaskId, attempt: int, container: ContainerId) -> Task | None:
        """The task, if this container still runs this attempt of it."""
        found = self.tasks.get(task)
        if found is None or found.attempt != attempt or found.container != container:
            return None
        return found

    def task_of_request(self, request: RequestId) -> Task | None:
        """The task whose open container request this is, None if there is none."""
        found = self.tasks.get(requesting_task(request))
        return found if found is not None and found.request == request else None

    @staticmethod
    def _is_member(task: Task) -> bool:
        return not task.dropped and not task.id.startswith(_TENSORBOARD_PREFIX)


_TENSORBOARD_PREFIX = f"{TENSORBOARD}:"
