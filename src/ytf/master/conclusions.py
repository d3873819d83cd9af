"""What follows from a job's state alone, as decisions for the machine to carry out."""

from __future__ import annotations

from ytf.master import diagnostics
from ytf.master.roster import Roster
from ytf.master.state import JobMemory
from ytf.specs.cluster import ClusterSpec
from ytf.specs.names import group_of
from ytf.specs.status import FinalStatus, TaskState


def next_cluster_spec(memory: JobMemory, roster: Roster) -> ClusterSpec | None:
    """The spec to publish now that every member has registered; None: not yet, or no news."""
    counts = roster.counts
    if not counts[TaskState.STARTING]:
        return None
    if counts[TaskState.PENDING] or counts[TaskState.ALLOCATED]:
        return None
    members: dict[str, list[str]] = {}
    for task in roster.members():
        if task.port is not None:
            members.setdefault(group_of(task.id), []).append(f"{task.host}:{task.port}")
    found = {group: tuple(hosts) for group, hosts in members.items()}
    if memory.published is not None and memory.published.members == found:
        return None
    return ClusterSpec(generation=memory.generation, revision=memory.revision + 1, members=found)


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
