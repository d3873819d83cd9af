"""The end of a job: it is decided once, everything is stopped, and then the job is finished.

::

    decide ─▶ stop_all ──── all have ended ──────────────────┬─▶ finish
                 └─ STOP ─▶ release ──── all have ended ─────┤
                               └─ RELEASE ─▶ give_up ────────┘

What was decided stays; only the *cause* that users are told may still be
replaced, by an earlier one that was told of later. Every wait has a deadline,
so that a job that was decided always comes to its end. Functions change the
memory and return what is to be said.
"""

from __future__ import annotations

from ytf.master import containers, diagnostics, orders
from ytf.master.commands import AnyCommand, CancelRequest, FinishJob, ReleaseContainer
from ytf.master.deadlines import EVALUATION, RELEASE, RELEASE_MARGIN_S, STOP, STOP_MARGIN_S
from ytf.master.events import Cause, ContainerCompleted
from ytf.master.roster import Roster
from ytf.master.state import Failure, JobMemory, Stopping
from ytf.specs.job import OnFailure
from ytf.specs.names import ContainerId, group_of
from ytf.specs.status import FinalStatus, TaskState


def decide(
    memory: JobMemory, roster: Roster, status: FinalStatus, text: str, at: float
) -> list[AnyCommand]:
    """Decide how the job ends: nothing begins any more. What runs is for ``stop_all``."""
    memory.final = status
    memory.diagnostics = text
    memory.deadlines.clear()
    out: list[AnyCommand] = []
    for task in memory.tasks.values():
        if task.request is not None:
            out.append(CancelRequest(request=task.request))
            roster.set_request(task, None)
        if task.state is TaskState.PENDING:
            task.reason = task.reason or "the job ended before it could start"
            roster.set_state(task, TaskState.KILLED)
    if status is FinalStatus.SUCCEEDED and roster.evaluating():
        memory.deadlines[EVALUATION] = at + roster.spec.timeouts.evaluator_s
    return out


def preceded(memory: JobMemory, failure: Failure) -> bool:
    """Whether it ended before the failure that decided, though it is told of only now.

    Clocks of two nodes are compared only for what ended while no master
    ran: otherwise what is told first came first.
    """
    first, took_over_at = memory.first_failure, memory.took_over_at
    if first is None or took_over_at is None:
        return False
    return failure.ended_at < min(first.ended_at, took_over_at)


def reconsider(memory: JobMemory, roster: Roster, failure: Failure) -> None:
    """The first cause is who failed first, though told of later: exits can be late."""
    if roster.spec.policy(group_of(failure.task)) is not OnFailure.IGNORE:
        memory.first_failure = failure
        memory.diagnostics = diagnostics.failure_text(failure)


def stop_all(memory: JobMemory, roster: Roster, at: float) -> list[AnyCommand]:
    """Stop every container, but not yet one in which the last evaluation goes on.

    May be called after every event: who has been told is not told again.
    """
    spared: set[ContainerId | None] = set()
    if EVALUATION in memory.deadlines:
        spared = {t.container for t in roster.evaluating()}
    wanted = Stopping.ALL_BUT_EVALUATORS if spared else Stopping.ALL
    if memory.stopping is wanted:
        return []
    memory.stopping = wanted
    out: list[AnyCommand] = [
        containers.stop(memory, roster, container_id)
        for container_id, container in list(memory.containers.items())
        if not container.stopping and container_id not in spared
    ]
    memory.deadlines[STOP] = at + roster.spec.timeouts.stop_grace_s + STOP_MARGIN_S
    return out


def release(memory: JobMemory, at: float) -> list[AnyCommand]:
    """Take away the containers that did not stop in time."""
    memory.deadlines[RELEASE] = at + RELEASE_MARGIN_S
    return [
        ReleaseContainer(container=container_id)
        for container_id, container in memory.containers.items()
        if container.stopping
    ]


def give_up(memory: JobMemory, roster: Roster, at: float) -> None:
    """Go on as if the containers of whose end nobody speaks had ended, and say so."""
    unheard = [c for c, container in memory.containers.items() if container.stopping]
    for container_id in unheard:
        # No failure can come of it: they were told to stop.
        gone = ContainerCompleted(container=container_id, cause=Cause.RELEASED)
        containers.end(memory, roster, gone, at)
    if unheard:
        memory.diagnostics += f"\nNobody said that these containers ended: {', '.join(unheard)}."


def finish(memory: JobMemory, at: float) -> FinishJob:
    """Nothing is left to stop: say so, and let nothing change any more."""
    memory.finished = True
    memory.finished_at = at
    memory.deadlines.clear()
    return orders.finish_job(memory)
