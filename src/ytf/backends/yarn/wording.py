"""What YARN says of an application that ended without its master, in words for its owner."""

from __future__ import annotations

import re

from ytf.backends.yarn.fetching import explain
from ytf.backends.yarn.overuse import overuse
from ytf.master.diagnostics import enough_memory

_FRAME = re.compile(r"\s+(at \S+\(.*\)|\.\.\. \d+ more)")
_MASTER = re.compile(r"failed (\d+) times? .*exited with\s+exitCode: (-?\d+)")
_MEMORY = {"-103": True, "-104": False}
"""The statuses of masters that used too much memory, and whether it was virtual."""
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
    if code in _MEMORY:
        excess = overuse(diagnostics, is_virtual=_MEMORY[code])
        why = "it used too much memory, and was killed" if excess is None else excess.text
        flag = "--master_memory" + (f" {enough_memory(excess.needed_mb)}" if excess else "")
        return f"The job's master failed {often}: {why}.\nhint: ask for more memory: {flag}"
    said = last_words(diagnostics)
    if not said:
        return None
    return (
        f"The job's master failed {often}, the last time with exit code {code}, and said:\n{said}"
    )
