"""How a job ends, from the state of its tasks alone."""

from __future__ import annotations

from ytf.master import diagnostics
from ytf.master.roster import Roster
from ytf.specs.status import FinalStatus, TaskState


def conclusion(roster: Roster) -> tuple[FinalStatus, str] | None:
    """How the job ends, if its tracked tasks are done or nobody is left to wait for."""
    over = roster.over()
    if not over or roster.tracked_open:
        return None
    judged = roster.tracked()
    if not judged:
        judged = list(roster.members())
        if over < len(judged):
            return None
    failed = [t for t in judged if t.state is not TaskState.SUCCEEDED]
    if len(failed) < len(judged):
        return FinalStatus.SUCCEEDED, diagnostics.success_text(len(judged), failed)
    return FinalStatus.FAILED, diagnostics.nobody_text(failed)
