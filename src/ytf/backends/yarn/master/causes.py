"""YARN's exit statuses in the job machine's words (docs/adr/0002).

The machine has a sentence for each cause. What YARN says is told beside it, to
who looks closer, and instead of it only where it says more.
"""

from __future__ import annotations

import re

from ytf.backends.yarn.fetching import explain
from ytf.backends.yarn.overuse import overuse
from ytf.backends.yarn.wording import last_words
from ytf.hadoop.yarn.exits import ExitStatus
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
    # The ResourceManager does not count it against a master either
    # (RMAppAttemptImpl.shouldCountTowardsMaxAttemptRetry).
    ExitStatus.KILLED_BY_RESOURCEMANAGER: Cause.REVOKED,
    ExitStatus.KILLED_AFTER_APP_COMPLETION: Cause.RELEASED,
    ExitStatus.KILLED_FOR_EXCESS_LOGS: Cause.LOGS,
}
_ABORTS = {
    "Container released on a *lost* node": Cause.NODE_LOST,
    "Container expired since it was unused": Cause.EXPIRED,
    "Container released by application": Cause.RELEASED,
}
"""How the ResourceManager words what it gives one status (``SchedulerUtils``)."""
_UNPREPARED = "its node could not prepare it"
_OVER = re.compile(r"beyond the '(PHYSICAL|VIRTUAL)' memory limit")
_KILLED = (128 + 9, 128 + 15)
_DATE = re.compile(r"^\[[0-9][0-9 :.\-]*\]\s*")
_FRAME = re.compile(r"(at )?\S+\(\S+(\.java:\d+| Method| Source)\)|\.\.\. \d+ more")


def completion(status: ContainerStatus, *, launched: bool) -> ContainerCompleted:
    """A completed container as an event; ``launched``: we had asked its node to start it."""
    container = ContainerId(str(status.container))
    code, said = _status(status), _first_line(status)
    if code >= 0:
        signal = code - 128 if 128 < code <= 128 + 64 else None
        return ContainerCompleted(
            container=container,
            cause=Cause.EXITED,
            exit_code=code if signal is None else None,
            signal=signal,
            detail=said if code else "",
            tail=last_words(status.diagnostics) if code else "",
        )
    cause, excess = _cause(code, status.diagnostics, launched), None
    if cause is Cause.MEMORY:
        is_virtual = code == ExitStatus.KILLED_EXCEEDED_VMEM
        excess = overuse(status.diagnostics, is_virtual=is_virtual)
    why = _why(code, status.diagnostics, said) if excess is None else excess.text
    return ContainerCompleted(
        container=container,
        cause=cause,
        diagnostics=why,
        detail="" if said in why else said,
        needed_mb=None if excess is None else excess.needed_mb,
    )


def _status(status: ContainerStatus) -> int:
    """The exit status; YARN's own also where a node tells the signal with which it killed."""
    over = _OVER.search(status.diagnostics)
    if over is None or status.exit_status not in _KILLED:
        return status.exit_status
    is_virtual = over[1] == "VIRTUAL"
    return ExitStatus.KILLED_EXCEEDED_VMEM if is_virtual else ExitStatus.KILLED_EXCEEDED_PMEM


def _cause(code: int, diagnostics: str, launched: bool) -> Cause:
    if code == ExitStatus.ABORTED:
        known = (cause for words, cause in _ABORTS.items() if words in diagnostics)
        return next(known, Cause.REVOKED if launched else Cause.EXPIRED)
    try:
        return _CAUSES.get(ExitStatus(code), Cause.EXITED)
    except ValueError:
        return Cause.EXITED


def _why(code: int, diagnostics: str, said: str) -> str:
    """More than the cause tells; empty if there is no more."""
    if code == ExitStatus.INVALID:
        # Of one that has completed, it says that it never ran (``ContainerImpl``).
        why = explain(diagnostics) or said
        return f"{_UNPREPARED}: {why.rstrip('.')}" if why else _UNPREPARED
    if code in _CAUSES or code == ExitStatus.ABORTED:
        return ""
    return f"its container ended with YARN's status {code}" + (said and f": {said}")


def _first_line(status: ContainerStatus) -> str:
    """What YARN says of an end, in one line: its own story is often a page of stack traces.

    Nodes keep the end of a long one, which may begin within a trace.
    """
    lines = (_DATE.sub("", line.strip()) for line in status.diagnostics.splitlines())
    return next((line for line in lines if line and not _FRAME.fullmatch(line)), "")
