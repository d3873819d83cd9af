"""What YARN says of an application that ended without its master, in words for its owner."""

from __future__ import annotations

import re
import signal

from ytf.backends.yarn.fetching import explain
from ytf.backends.yarn.overuse import overuse
from ytf.master.diagnostics import enough_memory, signal_name

_FRAME = re.compile(r"\s+(at \S+\(.*\)|\.\.\. \d+ more)")
_MASTER = re.compile(r"failed (\d+) times? .*exited with\s+exitCode: (-?\d+)")
_MEMORY = {"-103": True, "-104": False}
"""The statuses of masters that used too much memory, and whether it was virtual."""
_OVER = re.compile(r"beyond the '(PHYSICAL|VIRTUAL)' memory limit")
_MORE_ATTEMPTS = "--max_master_attempts lets the master be started more often"
_HINTS: dict[int, str] = {
    signal.SIGKILL: "it was killed, and not by ytf: if its node ran out of memory (its kernel log "
    f"would say so), ask for more: --master_memory; {_MORE_ATTEMPTS}",
    signal.SIGTERM: f"it was killed, and not by ytf: {_MORE_ATTEMPTS}",
}
"""What to do about signals that come from outside; others are of the master's own making."""
_STDERR = re.compile(r"Last \d+ bytes of stderr :\n(.+?)\n(?:\n|\Z)", re.DOTALL)


def in_words(diagnostics: str) -> str:
    """What happened and, if that is known, what to do; without stack traces.

    What a master wrote before it ended says it best: what YARN says around it
    is its own and each time the same, so it is left out then.
    """
    own = _of_master(diagnostics)
    if own is not None:
        return own
    lines = [line for line in diagnostics.splitlines() if not _FRAME.fullmatch(line)]
    said = "\n".join(lines).strip()
    meaning = explain(diagnostics)
    return f"{meaning}\n{said}" if meaning else said


def last_words(diagnostics: str) -> str:
    """The end of what a container wrote to stderr, as its node quotes it; empty if it does not."""
    said = _STDERR.search(diagnostics)
    return said[1].strip() if said is not None else ""


def _of_master(diagnostics: str) -> str | None:
    ended = _MASTER.search(diagnostics)
    if ended is None:
        return None
    times, code = ended.groups()
    often = "once" if times == "1" else f"{times} times"
    number = int(code) - 128 if 128 < int(code) <= 128 + 64 else None
    is_virtual = _MEMORY.get(code) if number is None else _over(diagnostics)
    if is_virtual is not None:
        excess = overuse(diagnostics, is_virtual=is_virtual)
        why = "it used too much memory, and was killed" if excess is None else excess.text
        flag = "--master_memory" + (f" {enough_memory(excess.needed_mb)}" if excess else "")
        return f"The job's master failed {often}: {why}.\nhint: ask for more memory: {flag}"
    said = last_words(diagnostics)
    if number is not None:
        return _by_signal(number, often, said)
    if not said:
        return None
    return (
        f"The job's master failed {often}, the last time with exit code {code}, and said:\n{said}"
    )


def _over(diagnostics: str) -> bool | None:
    """Of a master that a signal ended: whether its node did it for virtual memory; None if not."""
    over = _OVER.search(diagnostics)
    return None if over is None else over[1] == "VIRTUAL"


def _by_signal(number: int, often: str, said: str) -> str:
    last = "" if often == "once" else "the last time "
    text = f"The job's master failed {often}: {last}it was ended by {signal_name(number)}"
    text += f", and said:\n{said}" if said else "."
    hint = _HINTS.get(number)
    return f"{text}\nhint: {hint}" if hint else text
