"""What must hold of a job's memory after every event."""

from __future__ import annotations

from collections import Counter

from ytf.master.containers import CLIENT_CONTAINER
from ytf.master.deadlines import BACKOFF
from ytf.master.machine import Machine
from ytf.master.roster import LIVE, Roster
from ytf.specs.names import group_of
from ytf.specs.status import FinalStatus, TaskState


def check(machine: Machine) -> None:
    """Assert every invariant of the job machine."""
    memory, spec = machine.memory, machine.spec
    owners = Counter(t.container for t in memory.tasks.values() if t.container is not None)
    assert all(n == 1 for n in owners.values()), "two tasks share a container"
    for task in memory.tasks.values():
        if task.container is not None:
            assert task.container in memory.containers, f"{task.id} has a container that is gone"
            assert memory.containers[task.container].task == task.id
        if task.state in LIVE:
            assert task.container is not None, f"{task.id} is {task.state} without a container"
        if task.request is not None:
            assert task.state is TaskState.PENDING, f"{task.id} wishes while {task.state}"
            assert task.container is None
        if task.state is TaskState.PENDING and memory.began_at is not None:
            waiting = (BACKOFF + task.id) in memory.deadlines
            assert waiting != (task.request is not None), f"{task.id} waits for nothing"
        if task.state is TaskState.RUNNING and group_of(task.id) != "tensorboard":
            assert task.generation == memory.generation or memory.final is not None
            assert memory.published is not None
    for container_id, container in memory.containers.items():
        owner = memory.tasks[container.task]
        if container.wanted and not container.stopping:
            assert owner.container == container_id, f"{container_id} is nobody's"
        assert container_id not in memory.ended
    if memory.published is not None:
        assert memory.published.generation == memory.generation
        assert memory.published.revision == memory.revision
    if memory.finished:
        assert memory.final is not None
        assert not memory.containers
        assert not memory.deadlines
        assert machine.next_deadline() is None
        assert all(t.state.is_final for t in memory.tasks.values())
    elif memory.final is not None:
        assert not any(t.request for t in memory.tasks.values())
        assert memory.deadlines, "a job that stops must have a deadline"
    elif memory.began_at is not None:
        assert can_move(machine), "no event that can come would move the job"
    if memory.final is FinalStatus.FAILED:
        assert memory.diagnostics
    fresh = Roster(spec, memory)
    kept = machine._roster
    assert +fresh.counts == +kept.counts
    assert fresh.requests == kept.requests
    assert fresh.tracked_open == kept.tracked_open
    assert fresh.progress() == kept.progress()
    assert 0.0 <= machine.progress <= 1.0


def can_move(machine: Machine) -> bool:
    """Whether something is under way: a deadline, a wish, or a program that may end."""
    memory = machine.memory
    if memory.deadlines or any(t.request for t in memory.tasks.values()):
        return True
    return any(
        c.wanted and (c.registered or container == CLIENT_CONTAINER)
        for container, c in memory.containers.items()
    )
