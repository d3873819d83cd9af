"""Explains YARN's failure diagnostics to users: what happened, and what to do about it.

Three kinds of diagnostics are understood: those of an application that ended
without its master, those of a container that was killed for the memory it used
(``ContainersMonitorImpl``), and those of a node that could not localize a file
(``FSDownload``).
"""

from __future__ import annotations

import re
import signal
from pathlib import PurePosixPath

import msgspec

from ytf.machine.diagnostics import enough_memory, signal_name

# -- an application that ended without its master ------------------------------------

_FRAME = re.compile(r"\s+(at \S+\(.*\)|\.\.\. \d+ more)")
_MASTER_EXIT = re.compile(r"failed (\d{1,9}) times? .*exited with\s+exitCode: (-?\d{1,9})\b")
# The ResourceManager says so where the job itself asked for less than the cluster allows
# (RMAppImpl.getAppAttemptFailedDiagnostics).
_CLUSTER_ALLOWS = re.compile(r"\(global limit =(\d+); local limit is =\d+\)")
_MEMORY_STATUSES = {"-103": True, "-104": False}
"""Exit statuses of masters that used too much memory, and whether it was virtual memory."""
_SIGNAL_HINTS: dict[int, str] = {
    signal.SIGKILL: "it was killed, and not by ytf: if its node ran out of memory (its kernel log "
    "would say so), ask for more: --master_memory",
    signal.SIGTERM: "it was killed, and not by ytf",
}
"""Hints for signals that come from outside. The master itself causes the others."""
_STDERR = re.compile(r"Last \d+ bytes of (?:[\w.-]+\.)?stderr :\n(.+?)\n(?:\n|\Z)", re.DOTALL)
"""The master writes ``stderr``, a starter ``starter.stderr``."""


def explain_application_failure(diagnostics: str) -> str:
    """What happened and, if that is known, what to do; without stack traces.

    If YARN quotes the end of the master's stderr, only that is shown: it says the
    most, and the text that YARN writes around it is always the same.
    """
    of_master = _explain_master_exit(diagnostics)
    if of_master is not None:
        return of_master
    lines = [line for line in diagnostics.splitlines() if not _FRAME.fullmatch(line)]
    text = "\n".join(lines).strip()
    explanation = explain_localization_failure(diagnostics)
    return f"{explanation}\n{text}" if explanation else text


def stderr_tail(diagnostics: str) -> str:
    """The end of a container's stderr if its node quotes it, else empty."""
    quoted = _STDERR.search(diagnostics)
    return quoted[1].strip() if quoted is not None else ""


def _explain_master_exit(diagnostics: str) -> str | None:
    exited = _MASTER_EXIT.search(diagnostics)
    if exited is None:
        return None
    times, code = exited.groups()
    often = "once" if times == "1" else f"{times} times"
    number = int(code) - 128 if 128 < int(code) <= 128 + 64 else None
    if number is None:
        is_virtual = _MEMORY_STATUSES.get(code)
    else:
        is_virtual = exceeded_virtual_memory(diagnostics)
    if is_virtual is not None:
        excess = memory_overuse(diagnostics, is_virtual=is_virtual)
        why = "it used too much memory, and was killed" if excess is None else excess.text
        flag = "--master_memory" + (f" {enough_memory(excess.needed_mb)}" if excess else "")
        return f"The job's master failed {often}: {why}.\nhint: ask for more memory: {flag}"
    stderr = stderr_tail(diagnostics)
    if number is not None:
        return _explain_signal(number, often, stderr, _more_attempts(diagnostics, often))
    if not stderr:
        return None
    return (
        f"The job's master failed {often}, the last time with exit code {code}, and said:\n{stderr}"
    )


def _more_attempts(diagnostics: str, often: str) -> str:
    """How the master could have been started more often."""
    allowed = _CLUSTER_ALLOWS.search(diagnostics)
    if allowed is not None:
        return (
            "--max_master_attempts lets the master be started more often "
            f"(this cluster allows {allowed[1]})"
        )
    return (
        f"the cluster starts a master at most {often}: its administrator can raise "
        "yarn.resourcemanager.am.global.max-attempts"
    )


def _explain_signal(number: int, often: str, stderr: str, more_attempts: str) -> str:
    last = "" if often == "once" else "the last time "
    text = f"The job's master failed {often}: {last}it was ended by {signal_name(number)}"
    text += f", and said:\n{stderr}" if stderr else "."
    hint = _SIGNAL_HINTS.get(number)
    return f"{text}\nhint: {hint}; {more_attempts}" if hint else text


# -- a container that was killed for its memory ----------------------------------------

_OVER_LIMIT = re.compile(r"beyond the '(PHYSICAL|VIRTUAL)' memory limit")
# Nodes write amounts with the decimal mark of their own language.
_AMOUNT = r"(?P<{0}>\b[0-9]{{1,15}}(?:[.,][0-9]{{1,15}})?)\s*(?P<{0}_unit>[KMGTPE]?)i?B"
_USAGE = {
    kind: re.compile(
        rf"{_AMOUNT.format('used')}\s+of\s+{_AMOUNT.format('limit')}\s+{kind} memory used"
    )
    for kind in ("physical", "virtual")
}
_KIB = {"": 1 / 1024, **{unit: 1024**power for power, unit in enumerate("KMGTPE")}}


class MemoryOveruse(msgspec.Struct, frozen=True):
    """How much memory a killed container used, and how much would have been enough until then."""

    text: str
    needed_mb: int


class _MemoryUsage(msgspec.Struct, frozen=True):
    """Use and limit of physical or virtual memory, as the node wrote them and in KiB."""

    used: str
    limit: str
    used_kib: float
    limit_kib: float


def exceeded_virtual_memory(diagnostics: str) -> bool | None:
    """True if a node killed a container for virtual memory, False for physical, None if neither."""
    over = _OVER_LIMIT.search(diagnostics)
    return None if over is None else over[1] == "VIRTUAL"


def memory_overuse(diagnostics: str, *, is_virtual: bool) -> MemoryOveruse | None:
    """How much memory a container used that was killed for it; None if its node does not say."""
    physical = _usage("physical", diagnostics)
    if not is_virtual:
        if physical is None:
            return None
        text = f"it used {_used_of_limit(physical)} of memory that it may use, and was killed"
        return MemoryOveruse(text, _mb(physical.used_kib))
    virtual = _usage("virtual", diagnostics)
    if virtual is None or physical is None or not virtual.limit_kib:
        return None
    text = (
        f"it used {_used_of_limit(virtual)} of virtual memory that its node allows for "
        f"{physical.limit}, and was killed"
    )
    # The node's limit of virtual memory is a multiple of the memory that was asked for.
    return MemoryOveruse(text, _mb(physical.limit_kib * virtual.used_kib / virtual.limit_kib))


def _usage(kind: str, diagnostics: str) -> _MemoryUsage | None:
    found = _USAGE[kind].search(diagnostics)
    if found is None:
        return None
    texts = {
        name: f"{found[name].removesuffix('.0')} {found[f'{name}_unit']}B"
        for name in ("used", "limit")
    }
    sizes = {
        name: float(found[name].replace(",", ".")) * _KIB[found[f"{name}_unit"]]
        for name in ("used", "limit")
    }
    return _MemoryUsage(texts["used"], texts["limit"], sizes["used"], sizes["limit"])


def _used_of_limit(usage: _MemoryUsage) -> str:
    # The figures are rounded: use just above the limit may look equal to it.
    if usage.used_kib > usage.limit_kib:
        return f"{usage.used} of the {usage.limit}"
    return f"more than the {usage.limit}"


def _mb(kib: float) -> int:
    return -int(-kib // 1024)


# -- a node that could not localize a file ---------------------------------------------

_GONE = re.compile(r"File does not exist: (\S+)")
_CHANGED = re.compile(r"Resource (\S+) changed on src filesystem")
_DENIED = re.compile(r'Permission denied: user=([^,\s]+), access=\w+, inode="([^"]+)"')
_BROKEN = "Download and unpack failed"

_VERIFY = (
    "`ytf gc --verify` finds damaged layers and sets them aside; "
    "then submit the job again, which stores them anew"
)


def explain_localization_failure(diagnostics: str) -> str | None:
    """What happened and what to do if a node could not localize a file; None if it is not that."""
    gone, changed = _GONE.search(diagnostics), _CHANGED.search(diagnostics)
    denied = _DENIED.search(diagnostics)
    if gone is not None:
        return _explain_gone(gone[1])
    if changed is not None:
        return _explain_changed(changed[1])
    if denied is not None:
        user, path = denied.groups()
        return (
            f"{user} may not read {path} in HDFS, which the job brings along: let its owner, or "
            "that of a directory above it, allow it."
        )
    if _BROKEN in diagnostics:
        return f"A node could not unpack what the job needs: {_VERIFY}."
    return None


def _explain_gone(path: str) -> str:
    if _is_layer(path):
        return (
            f"The layer {path} is not in HDFS any more, and a node needs it: "
            "submit the job again, which stores it anew."
        )
    return (
        f"{path} is not there any more, and the job brings it along (-s, --files): put it back, "
        "and submit the job again."
    )


def _explain_changed(path: str) -> str:
    if _is_layer(path):
        return f"The layer {path} was changed after the job was submitted: {_VERIFY}."
    return f"{path} was changed after the job was submitted: submit the job again."


def _is_layer(path: str) -> bool:
    # Imported here: every status of a job loads this module, and few jobs fail like this.
    from ytf.packaging.layer_store import LayerFileName

    return LayerFileName.parse(PurePosixPath(path).name) is not None
