"""Finds programs that lose output, and jobs whose programs are all idle, for the master.

The registry knows how each program was at its starter's last heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ytf.machine.events import JobBecameIdle, JobIdleEnded, OutputLost
from ytf.machine.machine import Machine
from ytf.registry.api import ProgramCondition
from ytf.specs.ids import ContainerId, TaskId

_FindCondition = Callable[[ContainerId], ProgramCondition | None]


class ProgramMonitor:
    """Compares what starters say of their programs with what the machine knows.

    It reports each thing once: an event may wait for the journal, and then the
    machine does not know it yet. ``condition`` finds a program's by its
    container, ``idle_s`` is how long all programs may be idle; None: for ever.
    """

    def __init__(self, machine: Machine, condition: _FindCondition, idle_s: float | None) -> None:
        self._machine = machine
        self._condition = condition
        self._idle_s = idle_s
        self._reported_lost: set[TaskId] = set(machine.state.output_lost)
        self._is_idle = machine.state.idle_since is not None

    def check(
        self, now: float, wall_now: float
    ) -> Iterator[OutputLost | JobBecameIdle | JobIdleEnded]:
        """What has changed since the last check. ``now`` is of the conditions' monotonic clock."""
        state = self._machine.state
        for container_id, container in state.containers.items():
            known = self._condition(container_id)
            if known is None or known.output_lost_at is None:
                continue
            if container.task not in self._reported_lost:
                self._reported_lost.add(container.task)
                yield OutputLost(
                    task=container.task,
                    attempt=known.attempt,
                    container=container_id,
                    at=known.output_lost_at,
                )
        if self._idle_s is None or state.final is not None:
            return
        change = check_for_idleness(
            now,
            self._idle_s,
            self._machine.running_programs(),
            self._current_condition,
            is_idle=self._is_idle,
        )
        if isinstance(change, JobBecameIdle):
            self._is_idle = True
            yield JobBecameIdle(since=wall_now - (now - change.since))
        elif change is not None:
            self._is_idle = False
            yield change

    def _current_condition(self, container: ContainerId) -> ProgramCondition | None:
        """How the program of a container is; None if that is not known of its current attempt."""
        known, state = self._condition(container), self._machine.state
        task = state.tasks[state.containers[container].task]
        return known if known is not None and known.attempt == task.attempt else None


def check_for_idleness(
    now: float,
    idle_s: float,
    running: Sequence[ContainerId],
    condition: Callable[[ContainerId], ProgramCondition | None],
    *,
    is_idle: bool,
) -> JobBecameIdle | JobIdleEnded | None:
    """The event if all running programs have become idle, or one no longer is; else None.

    ``running`` are the containers of all running programs, empty if the job
    waits for something else. All times are of one monotonic clock, also
    ``JobBecameIdle.since``. A program whose starter has not called this master yet
    changes nothing.
    """
    since: float | None = None
    for container in running:
        known = condition(container)
        if known is None:
            return None
        if known.idle_since is None:
            since = None
            break
        since = known.idle_since if since is None else max(since, known.idle_since)
    if since is None:
        return JobIdleEnded() if is_idle else None
    return JobBecameIdle(since=since) if not is_idle and now - since >= idle_s else None
