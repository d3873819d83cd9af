"""The job's deadlines: what each is called, how long it lasts, and what it means that one passed.

They are in the memory by name, so that a new master keeps them. Each stands
exactly while what it bounds goes on: :func:`watch` sees to those of the start
after every event, and whoever begins a restart or the end sets its own. One
that is told too early, or that no longer stands, means nothing.
"""

from __future__ import annotations

from ytf.master import diagnostics
from ytf.master.policies import shortage
from ytf.master.roster import LIVE, Roster
from ytf.master.state import JobMemory
from ytf.specs.job import Timeouts
from ytf.specs.status import TaskState

START = "start"
"""The cluster spec must be there, however often containers were lost on the way."""
ALLOCATION = "allocation"
"""Every wish for a container must have been granted."""
RENDEZVOUS = "rendezvous"
"""Every task that has a container must run."""
JOB = "job"
"""The job must have ended."""
EVALUATION = "evaluation"
"""Evaluators must be done with their last evaluation: until then they are spared."""
RESTART = "restart"
"""The job may start again: until then no cluster spec is published."""
STOP = "stop"
"""Starters must have gone: then their containers are taken away."""
RELEASE = "release"
"""Containers must have ended: then the job ends without the backend's word."""
BACKOFF = "backoff "
"""A task's next attempt may begin; its id follows."""

STOP_MARGIN_S = 5.0
"""What a starter gets beyond the grace period before its container is taken away."""
RELEASE_MARGIN_S = 30.0
"""What a backend gets to end a container before the job ends without its word."""


def start_s(timeouts: Timeouts) -> float:
    """From the wish for containers to the cluster spec, however often one has to be replaced."""
    return timeouts.allocation_s + timeouts.rendezvous_s


def first(memory: JobMemory) -> tuple[str, float] | None:
    """The deadline that comes first, and when."""
    if not memory.deadlines:
        return None
    name = min(memory.deadlines, key=memory.deadlines.__getitem__)
    return name, memory.deadlines[name]


def due(memory: JobMemory, at: float) -> list[str]:
    """All deadlines that have come."""
    return [name for name, due_at in memory.deadlines.items() if due_at <= at]


def take(memory: JobMemory, name: str, at: float) -> bool:
    """Take a deadline away, if it stands and has come: whether it did."""
    due_at = memory.deadlines.get(name)
    if due_at is None or at < due_at:
        return False
    del memory.deadlines[name]
    return True


def watch(memory: JobMemory, roster: Roster, at: float) -> None:
    """Keep the deadlines of the start exactly while they apply."""
    deadlines, counts, timeouts = memory.deadlines, roster.counts, roster.spec.timeouts
    unready = counts[TaskState.ALLOCATED] + counts[TaskState.STARTING] > 0
    if memory.published is not None:
        deadlines.pop(START, None)
    elif START not in deadlines:
        deadlines[START] = at + start_s(timeouts)
    if not roster.requests:
        deadlines.pop(ALLOCATION, None)
        memory.waiting = ""
    elif ALLOCATION not in deadlines:
        deadlines[ALLOCATION] = at + timeouts.allocation_s
    # Others may have to wait for a pause before a restart: that is nobody's fault.
    pausing = RESTART in deadlines or counts[TaskState.PENDING] > roster.requests
    if roster.requests or pausing or not unready:
        deadlines.pop(RENDEZVOUS, None)
    elif RENDEZVOUS not in deadlines:
        deadlines[RENDEZVOUS] = at + timeouts.rendezvous_s


def why_fatal(memory: JobMemory, roster: Roster, name: str, note: str) -> str | None:
    """Why the job fails now that a deadline has passed; None: it does not.

    ``note`` is what the backend says about it.
    """
    timeouts = roster.spec.timeouts
    if name == START:
        late = [t for t in roster.members() if t.state is not TaskState.STARTING]
        return diagnostics.start_text(late, start_s(timeouts), note)
    if name == ALLOCATION:
        missing = [t.id for t in roster.members() if t.request is not None]
        short = shortage(roster.spec, missing, started=memory.published is not None)
        return diagnostics.allocation_text(short, timeouts.allocation_s, note) if short else None
    if name == RENDEZVOUS:
        late = [t for t in roster.members() if t.state in LIVE - {TaskState.RUNNING}]
        return diagnostics.rendezvous_text(late, timeouts.rendezvous_s, note)
    if name == JOB:
        return f"The job did not end within its time of {timeouts.job_s:g} s."
    return None
