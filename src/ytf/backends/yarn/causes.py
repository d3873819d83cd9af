"""YARN's exit statuses in the job machine's words (docs/adr/0002)."""

from __future__ import annotations

from ytf.backends.yarn.fetching import explain
from ytf.hadoop.yarn.exits import ExitStatus, describe_exit
from ytf.hadoop.yarn.records import ContainerStatus
from ytf.master.events import Cause, ContainerCompleted
from ytf.specs.names import ContainerId

_CAUSES = {
    ExitStatus.DISKS_FAILED: Cause.DISK_FAILED,
    ExitStatus.PREEMPTED: Cause.PREEMPTED,
    ExitStatus.KILLED_BY_CONTAINER_SCHEDULER: Cause.PREEMPTED,
    ExitStatus.KILLED_EXCEEDED_VMEM: Cause.MEMORY,
    ExitStatus.KILLED_EXCEEDED_PMEM: Cause.MEMORY,
    ExitStatus.KILLED_BY_APPMASTER: Cause.RELEASED,
    ExitStatus.KILLED_BY_RESOURCEMANAGER: Cause.RELEASED,
    ExitStatus.KILLED_AFTER_APP_COMPLETION: Cause.RELEASED,
    ExitStatus.KILLED_FOR_EXCESS_LOGS: Cause.LOGS,
}
_LOST = "*lost* node"
"""How the ResourceManager words it (``SchedulerUtils.LOST_CONTAINER``)."""


def completion(status: ContainerStatus, *, launched: bool) -> ContainerCompleted:
    """A completed container as an event; ``launched``: we had asked its node to start it."""
    container = ContainerId(str(status.container))
    code = status.exit_status
    if code >= 0:
        signal = code - 128 if 128 < code <= 128 + 64 else None
        return ContainerCompleted(
            container=container,
            cause=Cause.EXITED,
            exit_code=code if signal is None else None,
            signal=signal,
            diagnostics=_said(status) if code else "",
        )
    return ContainerCompleted(
        container=container, cause=_cause(status, launched), diagnostics=_said(status)
    )


def _cause(status: ContainerStatus, launched: bool) -> Cause:
    if status.exit_status == ExitStatus.ABORTED:
        if _LOST in status.diagnostics:
            return Cause.NODE_LOST
        return Cause.RELEASED if launched else Cause.EXPIRED
    try:
        return _CAUSES.get(ExitStatus(status.exit_status), Cause.EXITED)
    except ValueError:
        return Cause.EXITED


def _said(status: ContainerStatus) -> str:
    """What YARN says of an end, in one line: its own story is often a page of stack traces."""
    lines = [line.strip() for line in status.diagnostics.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    meaning = describe_exit(status.exit_status)
    if status.exit_status == ExitStatus.INVALID:
        # Of one that has completed, it says that it never ran (``ContainerImpl``).
        meaning = "its node could not prepare it"
        first = explain(status.diagnostics) or first
    return f"{meaning} ({first})" if first and first != meaning else meaning
