"""Translates the status of a completed container into an event of the job machine (docs/adr/0002).

The machine has a sentence for each cause. YARN's own diagnostics are the event's
``detail``. They replace the machine's sentence only where they say more.
"""

from __future__ import annotations

import re

from ytf.backends.yarn.failure_explanations import (
    exceeded_virtual_memory,
    explain_localization_failure,
    memory_overuse,
    stderr_tail,
)
from ytf.hadoop.yarn.records import ContainerExitStatus, ContainerStatus
from ytf.machine.events import Cause, ContainerCompleted
from ytf.specs.ids import ContainerId

_CAUSES = {
    ContainerExitStatus.DISKS_FAILED: Cause.DISK_FAILED,
    ContainerExitStatus.PREEMPTED: Cause.PREEMPTED,
    ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER: Cause.PREEMPTED,
    ContainerExitStatus.KILLED_EXCEEDED_VMEM: Cause.MEMORY,
    ContainerExitStatus.KILLED_EXCEEDED_PMEM: Cause.MEMORY,
    ContainerExitStatus.KILLED_BY_APPMASTER: Cause.RELEASED,
    # The ResourceManager does not count it against a master either
    # (RMAppAttemptImpl.shouldCountTowardsMaxAttemptRetry).
    ContainerExitStatus.KILLED_BY_RESOURCEMANAGER: Cause.REVOKED,
    ContainerExitStatus.KILLED_AFTER_APP_COMPLETION: Cause.RELEASED,
    ContainerExitStatus.KILLED_FOR_EXCESS_LOGS: Cause.LOGS,
}
_ABORTS = {
    "Container released on a *lost* node": Cause.NODE_LOST,
    "Container expired since it was unused": Cause.EXPIRED,
    "Container released by application": Cause.RELEASED,
    # When a master dies (``CapacityScheduler.doneApplicationAttempt``), for each container of
    # which no node has told yet that it runs.
    "Container of a completed application": Cause.NOT_KEPT,
}
"""Diagnostics that the ResourceManager writes for one and the same status (``SchedulerUtils``)."""
_UNPREPARED = "its node could not prepare it"
_KILLED = (128 + 9, 128 + 15)
_DATE = re.compile(r"^\[[0-9][0-9 :.\-]*\]\s*")
_FRAME = re.compile(r"(at )?\S+\(\S+(\.java:\d+| Method| Source)\)|\.\.\. \d+ more")


def completed_event(status: ContainerStatus, *, launched: bool) -> ContainerCompleted:
    """The event for a completed container; ``launched``: its node was asked to start it."""
    container = ContainerId(str(status.container))
    code, first_line = _exit_status(status), _first_line(status)
    if code >= 0:
        signal = code - 128 if 128 < code <= 128 + 64 else None
        return ContainerCompleted(
            container=container,
            cause=Cause.EXITED,
            exit_code=code if signal is None else None,
            signal=signal,
            detail=first_line if code else "",
            tail=stderr_tail(status.diagnostics) if code else "",
        )
    cause, excess = _cause(code, status.diagnostics, launched), None
    if cause is Cause.MEMORY:
        is_virtual = code == ContainerExitStatus.KILLED_EXCEEDED_VMEM
        excess = memory_overuse(status.diagnostics, is_virtual=is_virtual)
    why = _diagnostics(code, status.diagnostics, first_line) if excess is None else excess.text
    return ContainerCompleted(
        container=container,
        cause=cause,
        diagnostics=why,
        detail="" if first_line in why else first_line,
        needed_mb=None if excess is None else excess.needed_mb,
    )


def _exit_status(status: ContainerStatus) -> int:
    """The exit status. A node that killed a container may report the signal: use YARN's status."""
    is_virtual = exceeded_virtual_memory(status.diagnostics)
    if is_virtual is None or status.exit_status not in _KILLED:
        return status.exit_status
    return (
        ContainerExitStatus.KILLED_EXCEEDED_VMEM
        if is_virtual
        else ContainerExitStatus.KILLED_EXCEEDED_PMEM
    )


def _cause(code: int, diagnostics: str, launched: bool) -> Cause:
    if code == ContainerExitStatus.ABORTED:
        known = (cause for words, cause in _ABORTS.items() if words in diagnostics)
        return next(known, Cause.REVOKED if launched else Cause.EXPIRED)
    try:
        return _CAUSES.get(ContainerExitStatus(code), Cause.EXITED)
    except ValueError:
        return Cause.EXITED


def _diagnostics(code: int, diagnostics: str, first_line: str) -> str:
    """What is known beyond the cause; empty if nothing is."""
    if code == ContainerExitStatus.INVALID:
        # The status of a completed container that never ran (``ContainerImpl``).
        why = explain_localization_failure(diagnostics) or first_line
        return f"{_UNPREPARED}: {why.rstrip('.')}" if why else _UNPREPARED
    if code in _CAUSES or code == ContainerExitStatus.ABORTED:
        return ""
    return f"its container ended with YARN's status {code}" + (first_line and f": {first_line}")


def _first_line(status: ContainerStatus) -> str:
    """The first line of YARN's diagnostics that is not part of a stack trace.

    Nodes keep only the end of long diagnostics, which may begin within a trace.
    """
    lines = (_DATE.sub("", line.strip()) for line in status.diagnostics.splitlines())
    return next((line for line in lines if line and not _FRAME.fullmatch(line)), "")
