"""What a job waits for, in words: the first question of whoever looks at it."""

from __future__ import annotations

from collections.abc import Iterable

from ytf.master.deadlines import ALLOCATION, BACKOFF, EVALUATION, RENDEZVOUS, RESTART
from ytf.master.diagnostics import listed
from ytf.master.state import JobMemory, Task
from ytf.specs.status import TaskState


def waits_for(memory: JobMemory, *, supply: str, now: float) -> str:
    """A sentence for everything that is waited for; empty when all runs, or all is over.

    ``supply`` is what the backend says it can give.
    """
    if memory.finished:
        return ""
    if memory.final is not None:
        return _ending(memory, now)
    told: list[str] = []
    tasks = [task for task in memory.tasks.values() if not task.dropped]
    wishing = [task for task in tasks if task.request is not None]
    if wishing:
        till = _till(memory, ALLOCATION, now, "the job gives up")
        # What the backend said of its own accord stands in the diagnostics.
        said = "" if memory.waiting or not supply else f" {supply.rstrip('.')}."
        told.append(f"Waiting for a container for {_who(wishing)}{till}.{said}")
    silent = [task for task in tasks if task.state is TaskState.ALLOCATED]
    if silent:
        till = _till(memory, RENDEZVOUS, now, "the job gives up")
        told.append(f"Waiting for the starter of {_who(silent)} to report{till}.")
    ready = [task for task in tasks if task.state is TaskState.STARTING]
    if ready and not wishing and not silent:
        told.append(f"Waiting for the program of {_who(ready)} to start.")
    if RESTART in memory.deadlines:
        told.append(f"The job starts again{_till(memory, RESTART, now)}.")
    told += [
        f"{task.id} starts again{_till(memory, BACKOFF + task.id, now)}."
        for task in tasks
        if BACKOFF + task.id in memory.deadlines
    ]
    return " ".join(told)


def _ending(memory: JobMemory, now: float) -> str:
    assert memory.final is not None
    told = f"The job ends as {memory.final.value}."
    left = [task for task in memory.tasks.values() if task.container in memory.containers]
    if EVALUATION in memory.deadlines:
        till = _till(memory, EVALUATION, now, "it is stopped")
        return f"{told} The evaluator may finish its last evaluation{till}."
    return f"{told} Waiting for {_who(left)} to stop." if left else told


def _who(tasks: Iterable[Task]) -> str:
    return listed([task.id for task in tasks])


def _till(memory: JobMemory, deadline: str, now: float, then: str = "") -> str:
    due = memory.deadlines.get(deadline)
    if due is None:
        return ""
    left = max(0, round(due - now))
    span = f"{left} s" if left < 120 else f"{left // 60} min"
    return f"; {then} in {span}" if then else f" in {span}"
