"""Sentences about why a job ended as it did."""

from __future__ import annotations

import signal as _signal
from collections.abc import Sequence

from ytf.master.events import Cause, ContainerCompleted
from ytf.master.state import Failure, Task
from ytf.specs.names import TaskId, group_of
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
}

_NAMED = 5
"""So many tasks are named in a sentence; the rest are counted."""


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; the number itself where it has no name."""
    try:
        return _signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ending(exit_code: int | None, signal: int | None) -> str:
    """How a program or container ended, in words."""
    if signal is not None:
        return f"was ended by {signal_name(signal)}"
    if exit_code is not None:
        return f"exited with code {exit_code}"
    return "ended"


def advice(event: ContainerCompleted, task: TaskId, asked_mb: int) -> str:
    """What to do about the end of a task's container; empty if nothing of the job's would help.

    ``asked_mb`` is the memory that the task asked for.
    """
    flag = f"-m {group_of(task)}:{enough_memory(event.needed_mb, asked_mb)}"
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


def enough_memory(needed_mb: int | None, asked_mb: int = 0) -> str:
    """An amount with some room, as options take it; twice what was asked for, if in doubt."""
    wanted_mb = max(needed_mb * 5 // 4, asked_mb + 1) if needed_mb else asked_mb * 2
    step_mb = 1024 if wanted_mb > 1024 else 64
    mb = -(-wanted_mb // step_mb) * step_mb
    return f"{mb // 1024}g" if mb % 1024 == 0 else str(mb)


def failure_text(failure: Failure, note: str = "") -> str:
    """The first cause: which task, where, how, its last words, and what to do."""
    where = failure.node or failure.host
    place = f" on {where}" if where else ""
    attempt = f", attempt {failure.attempt}," if failure.attempt > 1 else ""
    how = ending(failure.exit_code, failure.signal)
    if failure.infrastructure and how == "ended":
        how = "was lost"
    why = f": {failure.reason}" if failure.reason else ""
    parts = [f"{failure.task}{attempt} {how}{place}{why}."]
    if failure.tail.strip():
        lines = "\n".join(f"  | {line}" for line in failure.tail.rstrip().splitlines())
        parts.append(f"Last lines of its stderr:\n{lines}")
    if failure.hint:
        parts.append(f"hint: {failure.hint}")
    if note:
        parts.append(note)
    return "\n".join(parts)


def listed(words: Sequence[str]) -> str:
    """Some names; of many the first few, and how many more there are."""
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return ", ".join(words[:_NAMED]) + more


def allocation_text(short: list[str], timeout_s: float, note: str) -> str:
    """Why the job could not start: what it got of what it asked for."""
    text = f"Not everything was allocated within {timeout_s:g} s: got {'; '.join(short)}."
    return f"{text} {note}".rstrip()


def start_text(late: list[Task], timeout_s: float, note: str) -> str:
    """The job never got all its tasks ready at one time."""
    who = listed([f"{t.id} (attempt {t.attempt}, {t.state.value})" for t in late])
    text = f"The job could not start within {timeout_s:g} s; not ready: {who}."
    return f"{text} {note}".rstrip() + "\nhint: see why its containers were lost with ytf events."


def rendezvous_text(late: list[Task], timeout_s: float, note: str) -> str:
    """Which tasks never became ready."""
    what = {TaskState.ALLOCATED: "not registered", TaskState.STARTING: "not started"}
    who = listed([f"{t.id} ({what[t.state]})" for t in late])
    text = f"Not every task was ready within {timeout_s:g} s of getting its container: {who}."
    return f"{text} {note}".rstrip() + "\nhint: look at the starter's log of these tasks."


def success_text(judged: int, failed: list[Task]) -> str:
    """A success, and whose failure was ignored on the way."""
    if not failed:
        return "All tracked tasks succeeded."
    names = listed([t.id for t in failed])
    return f"{judged - len(failed)} of {judged} tracked tasks succeeded; ignored: {names}."


def nobody_text(failed: list[Task]) -> str:
    """Failures may be ignored, but not all of them."""
    names = listed([f"{t.id}: {t.reason or ending(t.exit_code, t.signal)}" for t in failed])
    return f"No task succeeded ({names})."
