"""The tasks of a job, with the counts that make questions about all of them cheap.

A job may have thousands of tasks and each event must cost the same, so
"is anyone still pending?" is a number kept up to date, never a walk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ytf.master.state import JobMemory, Task
from ytf.specs.job import EVALUATOR, TENSORBOARD, JobSpec
from ytf.specs.names import ContainerId, RequestId, TaskId, group_of, task_id
from ytf.specs.status import TaskState

LIVE = frozenset({TaskState.ALLOCATED, TaskState.STARTING, TaskState.RUNNING})
"""A container is there and the attempt is not over."""


class Roster:
    """Who is in which state. Every change of a task's state or request goes through here."""

    def __init__(self, spec: JobSpec, memory: JobMemory) -> None:
        self.spec = spec
        self.tasks = memory.tasks
        self._tracked = spec.tracked_groups()
        self.counts = Counter(t.state for t in self.members())
        self.requests = sum(t.request is not None for t in self.members())
        """Containers the rendezvous still wishes for."""
        self.tracked_open = sum(
            group_of(t.id) in self._tracked and not t.state.is_final for t in self.members()
        )
        """Tracked tasks that may still succeed."""
        self._tracked_members = len(self.tracked())

    def members(self) -> Iterator[Task]:
        """The tasks that meet at the rendezvous: all but TensorBoard and those given up."""
        return (t for t in self.tasks.values() if self._is_member(t))

    def tracked(self) -> list[Task]:
        """The members whose end ends the job."""
        return [t for t in self.members() if group_of(t.id) in self._tracked]

    def evaluating(self) -> list[Task]:
        """Evaluators at work."""
        if EVALUATOR not in self.spec.groups:
            return []
        count = self.spec.groups[EVALUATOR].count
        tasks = (self.tasks[task_id(EVALUATOR, i)] for i in range(count))
        return [t for t in tasks if t.state in LIVE]

    def over(self) -> int:
        """How many members have ended."""
        return sum(self.counts[state] for state in TaskState if state.is_final)

    def all_registered(self) -> bool:
        """Whether every member has an address or is over, and somebody waits to hear of it."""
        counts = self.counts
        waiting = counts[TaskState.PENDING] or counts[TaskState.ALLOCATED]
        return not waiting and counts[TaskState.STARTING] > 0

    def all_started(self) -> bool:
        """Whether every member's program runs or is over."""
        waiting = (TaskState.PENDING, TaskState.ALLOCATED, TaskState.STARTING)
        return not any(self.counts[state] for state in waiting)

    def progress(self) -> float:
        """How far the job is, from 0 to 1.

        One half is that the members' programs run, the other that the tracked
        ones end. What is restarted counts anew.
        """
        members = sum(self.counts.values())
        waiting = (TaskState.PENDING, TaskState.ALLOCATED, TaskState.STARTING)
        started = members - sum(self.counts[state] for state in waiting)
        ended = self._tracked_members - self.tracked_open
        return (started / max(members, 1) + ended / max(self._tracked_members, 1)) / 2

    def addresses(self) -> dict[str, tuple[str, ...]]:
        """Where the members are: group → ``host:port`` by index."""
        found: dict[str, list[str]] = {}
        for task in self.members():
            if task.port is not None:
                found.setdefault(group_of(task.id), []).append(f"{task.host}:{task.port}")
        return {group: tuple(hosts) for group, hosts in found.items()}

    def set_state(self, task: Task, state: TaskState) -> None:
        """Move a task to another state."""
        if self._is_member(task):
            self.counts[task.state] -= 1
            self.counts[state] += 1
            if group_of(task.id) in self._tracked:
                self.tracked_open += task.state.is_final - state.is_final
        task.state = state

    def set_request(self, task: Task, request: RequestId | None) -> None:
        """Note that a container is wished for, or no longer."""
        if self._is_member(task):
            self.requests += (request is not None) - (task.request is not None)
        task.request = request

    def drop(self, task: Task) -> None:
        """Let the job go on as if the task had never been asked for."""
        self.set_request(task, None)
        self.set_state(task, TaskState.KILLED)
        self.counts[TaskState.KILLED] -= 1
        self._tracked_members -= group_of(task.id) in self._tracked
        task.dropped = True

    def current(self, task: TaskId, attempt: int, container: ContainerId) -> Task | None:
        """The task, if this container still runs this very attempt of it."""
        found = self.tasks.get(task)
        if found is None or found.attempt != attempt or found.container != container:
            return None
        return found

    def requester(self, request: RequestId) -> Task | None:
        """The task that still wishes for this container."""
        found = self.tasks.get(TaskId(request.partition("#")[0]))
        return found if found is not None and found.request == request else None

    @staticmethod
    def _is_member(task: Task) -> bool:
        return not task.dropped and not task.id.startswith(_TENSORBOARD_PREFIX)


_TENSORBOARD_PREFIX = f"{TENSORBOARD}:"
