"""What must hold of a machine's state after every event."""

from __future__ import annotations

from collections import Counter

from ytf.machine.containers import CLIENT_CONTAINER
from ytf.machine.deadlines import AFTER_CHIEF, BACKOFF, TENSORBOARD_STAY
from ytf.machine.machine import Machine
from ytf.machine.state import Stopping
from ytf.machine.task_table import LIVE, TaskTable
from ytf.specs.ids import group_of, task_id
from ytf.specs.status import FinalStatus, TaskState


def check(machine: Machine) -> None:
    """Assert every invariant of the job machine."""
    state, spec = machine.state, machine.spec
    owners = Counter(t.container for t in state.tasks.values() if t.container is not None)
    assert all(n == 1 for n in owners.values()), "two tasks share a container"
    for task in state.tasks.values():
        if task.container is not None:
            assert task.container in state.containers, f"{task.id} has a container that is gone"
            assert state.containers[task.container].task == task.id
        if task.state in LIVE:
            assert task.container is not None, f"{task.id} is {task.state} without a container"
        if task.request is not None:
            assert task.state is TaskState.PENDING, f"{task.id} has a request while {task.state}"
            assert task.container is None
        if task.state is TaskState.PENDING and state.began_at is not None:
            waiting = (BACKOFF + task.id) in state.deadlines
            assert waiting != (task.request is not None), f"{task.id} waits for nothing"
        if task.state is TaskState.RUNNING and group_of(task.id) != "tensorboard":
            assert task.generation == state.generation or state.final is not None
            assert state.published is not None
    for container_id, container in state.containers.items():
        owner = state.tasks[container.task]
        if container.needed and not container.stopping:
            assert owner.container == container_id, f"{container_id} is nobody's"
        assert container_id not in state.ended
    if state.published is not None:
        assert state.published.generation == state.generation
        assert state.published.revision == state.revision
    if state.finished:
        assert state.final is not None
        assert not state.containers
        assert not state.deadlines
        assert machine.next_deadline() is None
        assert all(t.state.is_final for t in state.tasks.values())
    elif state.final is not None:
        assert not any(t.request for t in state.tasks.values())
        assert state.deadlines, "a job that stops must have a deadline"
    elif state.began_at is not None:
        assert can_move(machine), "no event that can come would move the job"
    if state.final is FinalStatus.FAILED:
        assert state.diagnostics
    if state.final is not None:
        assert state.idle_since is None
    if AFTER_CHIEF in state.deadlines:
        assert state.final is FinalStatus.SUCCEEDED
        assert state.stopping is Stopping.NONE
        assert machine._table.chief_succeeded()
        assert machine._table.tracked_open
    if state.tensorboard_stays:
        assert state.final is FinalStatus.SUCCEEDED
        assert spec.timeouts.tensorboard_s > 0
        board = state.tasks[task_id("tensorboard", 0)]
        if board.state in LIVE and board.container is not None:
            assert not state.containers[board.container].stopping
    if TENSORBOARD_STAY in state.deadlines:
        assert state.tensorboard_stays
        assert [c.task for c in state.containers.values()] == ["tensorboard:0"]
    fresh = TaskTable(spec, state)
    kept = machine._table
    assert +fresh.counts == +kept.counts
    assert fresh.requests == kept.requests
    assert fresh.tracked_open == kept.tracked_open
    assert fresh.chief_succeeded() == kept.chief_succeeded()
    assert fresh.progress() == kept.progress()
    assert 0.0 <= machine.progress <= 1.0


def can_move(machine: Machine) -> bool:
    """Whether an event can come: of a deadline, of a container request, or of a program."""
    state = machine.state
    if state.deadlines or any(t.request for t in state.tasks.values()):
        return True
    return any(
        c.needed and (c.registered or container == CLIENT_CONTAINER)
        for container, c in state.containers.items()
    )
