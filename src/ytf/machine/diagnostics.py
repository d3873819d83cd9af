"""Diagnostics: the sentences that tell users why a job or a task ended."""

from __future__ import annotations

import signal as _signal
from collections.abc import Sequence

from ytf.machine.events import Cause, ContainerCompleted
from ytf.machine.state import Failure, Task
from ytf.specs.ids import TaskId, group_of
from ytf.specs.status import TaskState

CAUSES = {
    Cause.EXITED: "its container ended before the end of its program was reported",
    Cause.RELEASED: "its container was released",
    Cause.MEMORY: "it used more memory than it had asked for, and was killed",
    Cause.LOGS: "it wrote more logs than its node allows, and was killed",
    Cause.PREEMPTED: "its container was preempted",
    Cause.NODE_LOST: "its node was lost",
    Cause.DISK_FAILED: "its node's disks failed",
    Cause.EXPIRED: "its container was not launched in time",
    Cause.REVOKED: "the cluster took its container back",
    Cause.NOT_KEPT: "its container was not kept when the master died",
}

_STARTER_LOG_HINT = (
    "\nhint: the logs of these tasks' starters tell more; `ytf logs` does not show them. They are "
    "$YTF_HOME/history/<id>/logs/<group>-<index>/starter.log for a job on one machine, and "
    "starter.stderr in `yarn logs` for one on YARN."
)
_NAMED = 5
"""How many tasks a sentence names; the others are counted."""


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; ``signal 99`` where a number has no name."""
    try:
        return _signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_text(exit_code: int | None, signal: int | None) -> str:
    """How a program or a container ended: by a signal, with an exit code, or unknown."""
    if signal is not None:
        return f"was ended by {signal_name(signal)}"
    if exit_code is not None:
        return f"exited with code {exit_code}"
    return "ended"


def container_hint(event: ContainerCompleted, task: TaskId, requested_mb: int) -> str:
    """What a user can do about the end of a task's container; empty if nothing is known.

    ``requested_mb`` is the memory that the task had requested.
    """
    flag = f"-m {group_of(task)}:{enough_memory(event.needed_mb, requested_mb)}"
    if event.cause is Cause.MEMORY:
        return f"ask for more memory: {flag}"
    if event.cause is Cause.LOGS:
        return "write less to stdout and stderr"
    if event.signal == _signal.SIGKILL:
        return (
            "it was killed, and not by ytf: if the node ran out of memory (its kernel log would "
            f"say so), ask for more: {flag}"
        )
    return ""


def enough_memory(needed_mb: int | None, requested_mb: int = 0) -> str:
    """An amount of memory with a reserve, as an option takes it: ``4g``.

    Twice the requested amount if it is not known how much was needed.
    """
    enough_mb = max(needed_mb * 5 // 4, requested_mb + 1) if needed_mb else requested_mb * 2
    step_mb = 1024 if enough_mb > 1024 else 64
    mb = -(-enough_mb // step_mb) * step_mb
    return f"{mb // 1024}g" if mb % 1024 == 0 else str(mb)


def failure_text(failure: Failure, note: str = "") -> str:
    """Why the job failed: which task, on which node, how, its last output, and what to do."""
    where = failure.node or failure.host
    place = f" on {where}" if where else ""
    attempt = f", attempt {failure.attempt}," if failure.attempt > 1 else ""
    how = exit_text(failure.exit_code, failure.signal)
    if failure.infrastructure and how == "ended":
        how = "was lost"
    why = f": {failure.reason}" if failure.reason else ""
    parts = [f"{failure.task}{attempt} {how}{place}{why}."]
    if failure.tail.strip():
        stream = failure.tail_stream
        what = "its stdout (its stderr is empty)" if stream == "stdout" else f"its {stream}"
        parts.append(tail_text(what, failure.tail))
    if failure.hint:
        parts.append(f"hint: {failure.hint}")
    if note:
        parts.append(note)
    return "\n".join(parts)


def tail_text(what: str, tail: str) -> str:
    """The last lines of an output, below a line that says whose it is."""
    lines = "\n".join(f"  | {line}" for line in tail.rstrip().splitlines())
    return f"Last lines of {what}:\n{lines}"


def time_limit_text(running: list[Task], waiting: list[Task], limit_s: float) -> str:
    """The job took too long: which tasks still ran, and which had not even started."""
    text = f"The job did not end within its time limit of {limit_s:g} s."
    if running:
        text += f" Still running: {join_names([t.id for t in running])}."
    if waiting:
        names = join_names([f"{t.id} ({t.state.value})" for t in waiting])
        text += f" Not started: {names}."
    return text


def with_running(text: str, running: list[Task]) -> str:
    """The reason why a job could not start, with the tasks that ran all the same."""
    if not running:
        return text
    return f"{text}\nRunning meanwhile: {join_names([t.id for t in running])}."


def join_names(words: Sequence[str]) -> str:
    """A list of names: all if they are few, else the first ones and the number of the others."""
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return ", ".join(words[:_NAMED]) + more


def allocation_text(short: list[str], timeout_s: float, note: str) -> str:
    """The job could not start: how much of its requests was allocated."""
    text = f"Not everything was allocated within {timeout_s:g} s: got {'; '.join(short)}."
    return f"{text} {note}".rstrip()


def start_text(late: list[Task], timeout_s: float, note: str) -> str:
    """The job could not start: its tasks were never all ready at the same time."""
    who = join_names([f"{t.id} (attempt {t.attempt}, {t.state.value})" for t in late])
    text = f"The job could not start within {timeout_s:g} s; not ready: {who}."
    return f"{text} {note}".rstrip() + "\nhint: see why its containers were lost with ytf events."


def rendezvous_text(late: list[Task], timeout_s: float, note: str) -> str:
    """Which tasks did not become ready in time."""
    what = {TaskState.ALLOCATED: "not registered", TaskState.STARTING: "not started"}
    who = join_names([f"{t.id} ({what[t.state]})" for t in late])
    text = f"Not every task was ready within {timeout_s:g} s of getting its container: {who}."
    return f"{text} {note}".rstrip() + _STARTER_LOG_HINT


def success_text(judged: int, failed: list[Task]) -> str:
    """The job succeeded; tasks whose failure was ignored are named."""
    if not failed:
        return "All tracked tasks succeeded."
    names = join_names([t.id for t in failed])
    return f"{judged - len(failed)} of {judged} tracked tasks succeeded; ignored: {names}."


def chief_text(deciding: list[Task]) -> str:
    """The job succeeded because its chief did."""
    return f"{join_names([t.id for t in deciding])} succeeded, which decides the job."


def all_failed_text(failed: list[Task]) -> str:
    """The job failed because all its tasks failed, though their failures are ignored."""
    names = join_names([f"{t.id}: {t.reason or exit_text(t.exit_code, t.signal)}" for t in failed])
    return f"No task succeeded ({names})."
