"""The end of a job: its outcome is decided once, all containers are stopped, the job finishes.

::

    decide ─▶ stop_all ──────── all containers ended ────────────────┬─▶ finish
       │         ▲   └─ STOP ─▶ release_unstopped ─── all ended ─────┤
       │         │                 └─ RELEASE ─▶ give_up_waiting ────┘
       └─ AFTER_CHIEF ─▶ end_after_chief

If the chief decides while other tracked tasks run, ``stop_all`` does nothing until
they have ended or ``AFTER_CHIEF`` has passed. After a success it then stops the others in
steps: all but evaluators and TensorBoard, until the evaluators have ended or ``EVALUATION`` has
passed; all but TensorBoard; and TensorBoard, when ``TENSORBOARD_STAY`` has passed, which begins
when no other container is left.

An outcome never changes. Only its *cause*, which users read, may be replaced by
the failure of another task that happened earlier and was reported later. Every
wait has a deadline (``AFTER_CHIEF``, ``EVALUATION``, ``TENSORBOARD_STAY``, ``STOP``,
``RELEASE``), so that a job always finishes once its outcome is decided. The functions
change the machine's state and return the commands that follow.
"""

from __future__ import annotations

from ytf.errors import InternalError
from ytf.machine import containers, diagnostics
from ytf.machine.commands import AnyCommand, CancelRequest, FinishJob, ReleaseContainer
from ytf.machine.deadlines import (
    AFTER_CHIEF,
    EVALUATION,
    RELEASE,
    RELEASE_MARGIN_S,
    STOP,
    STOP_MARGIN_S,
    TENSORBOARD_STAY,
)
from ytf.machine.events import Cause, ContainerCompleted
from ytf.machine.state import Failure, MachineState, Stopping
from ytf.machine.task_table import TaskTable
from ytf.specs.ids import group_of
from ytf.specs.job import OnFailure
from ytf.specs.status import FinalStatus, TaskState


def outcome(table: TaskTable) -> tuple[FinalStatus, str] | None:
    """The outcome that follows from the tasks' states, with its diagnostics; None: none yet.

    It follows once all tracked tasks have ended, or all tasks where none is
    tracked, or once the chief has succeeded.
    """
    ended = table.ended_count()
    if ended and table.tracked_open and table.chief_succeeded():
        return FinalStatus.SUCCEEDED, diagnostics.chief_text(table.deciding())
    if not ended or table.tracked_open:
        return None
    judged = table.tracked()
    if not judged:
        judged = list(table.members())
        if ended < len(judged):
            return None
    failed = [t for t in judged if t.state is not TaskState.SUCCEEDED]
    if len(failed) < len(judged):
        return FinalStatus.SUCCEEDED, diagnostics.success_text(len(judged), failed)
    return FinalStatus.FAILED, diagnostics.all_failed_text(failed)


def decide(
    state: MachineState, table: TaskTable, status: FinalStatus, text: str, at: float
) -> list[AnyCommand]:
    """Decide the outcome of the job: no task starts any more. ``stop_all`` stops the others."""
    state.final = status
    state.diagnostics = text
    state.idle_since = None
    state.deadlines.clear()
    out: list[AnyCommand] = []
    for task in state.tasks.values():
        if task.request is not None:
            out.append(CancelRequest(request=task.request))
            table.set_request(task, None)
        if task.state is TaskState.PENDING:
            task.reason = task.reason or "the job ended before it could start"
            table.set_state(task, TaskState.KILLED)
    timeouts = table.spec.timeouts
    after_chief_s = timeouts.after_chief_s
    if status is FinalStatus.SUCCEEDED and timeouts.tensorboard_s > 0:
        state.tensorboard_stays = table.live_tensorboard() is not None
    if status is FinalStatus.SUCCEEDED and table.tracked_open and after_chief_s is not None:
        state.deadlines[AFTER_CHIEF] = at + after_chief_s
    elif status is FinalStatus.SUCCEEDED:
        _begin_last_evaluation(state, table, at)
    return out


def end_after_chief(state: MachineState, table: TaskTable, at: float) -> None:
    """End the wait for tracked tasks after the chief's success, and start that for evaluators."""
    state.deadlines.pop(AFTER_CHIEF, None)
    tracked = table.tracked()
    if all(task.state is TaskState.SUCCEEDED for task in tracked):
        state.diagnostics = diagnostics.success_text(len(tracked), [])
    _begin_last_evaluation(state, table, at)


def _begin_last_evaluation(state: MachineState, table: TaskTable, at: float) -> None:
    if table.live_evaluators():
        state.deadlines[EVALUATION] = at + table.spec.timeouts.evaluator_s


def cut_waits_short(state: MachineState) -> None:
    """Wait no longer for anything but the end of the containers, which are to be stopped."""
    for deadline in (AFTER_CHIEF, EVALUATION, TENSORBOARD_STAY):
        state.deadlines.pop(deadline, None)
    state.tensorboard_stays = False


def failed_earlier(state: MachineState, failure: Failure) -> bool:
    """Whether a failure happened before the one that decided the outcome.

    The clocks of two nodes are compared only for exits while no master ran.
    Otherwise the failure that is reported first counts as the first.
    """
    first, took_over_at = state.first_failure, state.took_over_at
    if first is None or took_over_at is None:
        return False
    return failure.ended_at < min(first.ended_at, took_over_at)


def replace_cause(state: MachineState, table: TaskTable, failure: Failure) -> None:
    """Replace the cause of the job's failure by an earlier failure that was reported late."""
    if table.spec.policy(group_of(failure.task)) is not OnFailure.IGNORE:
        state.first_failure = failure
        state.diagnostics = diagnostics.failure_text(failure)


def stop_all(state: MachineState, table: TaskTable, at: float) -> list[AnyCommand]:
    """Stop all containers, except those of evaluators and of TensorBoard for their time.

    Called after every event: a container that was told to stop is not told again.
    """
    if AFTER_CHIEF in state.deadlines:
        if table.tracked_open:
            return []
        end_after_chief(state, table, at)
    tensorboard = table.live_tensorboard() if state.tensorboard_stays else None
    has_left = state.tensorboard_stays and tensorboard is None
    if has_left:
        # It has ended by itself. Its container may not have.
        state.tensorboard_stays = False
        state.deadlines.pop(TENSORBOARD_STAY, None)
    evaluators = table.live_evaluators() if EVALUATION in state.deadlines else []
    if evaluators:
        stopping = Stopping.ALL_BUT_EVALUATORS
    else:
        state.deadlines.pop(EVALUATION, None)
        stopping = Stopping.ALL if tensorboard is None else Stopping.ALL_BUT_TENSORBOARD
    out: list[AnyCommand] = []
    if state.stopping is not stopping or has_left:
        state.stopping = stopping
        spared = {task.container for task in (*evaluators, tensorboard) if task is not None}
        out += [
            containers.stop(state, table, container_id)
            for container_id, container in list(state.containers.items())
            if not container.stopping and container_id not in spared
        ]
        state.deadlines[STOP] = at + table.spec.timeouts.stop_grace_s + STOP_MARGIN_S
        # Those that are told to stop now have their grace period, too.
        state.deadlines.pop(RELEASE, None)
    if tensorboard is not None and state.containers.keys() == {tensorboard.container}:
        _begin_tensorboard_stay(state, table, at)
    return out


def _begin_tensorboard_stay(state: MachineState, table: TaskTable, at: float) -> None:
    """Begin the time of a TensorBoard that stays, if it has not begun: all others have ended."""
    if TENSORBOARD_STAY not in state.deadlines:
        state.deadlines[TENSORBOARD_STAY] = at + table.spec.timeouts.tensorboard_s
        for deadline in (STOP, RELEASE):
            state.deadlines.pop(deadline, None)


def release_unstopped(state: MachineState, at: float) -> list[AnyCommand]:
    """Release the containers that did not stop in time."""
    state.deadlines[RELEASE] = at + RELEASE_MARGIN_S
    return [
        ReleaseContainer(container=container_id)
        for container_id, container in state.containers.items()
        if container.stopping
    ]


def give_up_waiting(state: MachineState, table: TaskTable, at: float) -> None:
    """Treat the released containers as ended though the backend did not report it, and say so."""
    unreported = [c for c, container in state.containers.items() if container.stopping]
    for container_id in unreported:
        # This returns no failure: these containers were told to stop.
        event = ContainerCompleted(container=container_id, cause=Cause.RELEASED)
        containers.complete(state, table, event, at)
    if unreported:
        names = ", ".join(unreported)
        state.diagnostics += f"\nThe backend did not report the end of these containers: {names}."


def finish(state: MachineState, at: float) -> FinishJob:
    """Finish the job: no container is left, and nothing changes any more."""
    state.finished = True
    state.finished_at = at
    state.deadlines.clear()
    return finish_command(state)


def finish_command(state: MachineState) -> FinishJob:
    """The last command of a job; a new master repeats it."""
    if state.final is None:
        raise InternalError("a job cannot finish without a final status")
    return FinishJob(status=state.final, diagnostics=state.diagnostics)
