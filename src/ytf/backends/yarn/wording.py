"""What YARN says of an application that ended without its master, in words for its owner."""

from __future__ import annotations

import re

from ytf.backends.yarn.fetching import explain

_FRAME = re.compile(r"\s+(at \S+\(.*\)|\.\.\. \d+ more)")
_MASTER = re.compile(r"failed (\d+) times? .*exited with\s+exitCode: (\d+)")
_STDERR = re.compile(r"Last \d+ bytes of stderr :\n(.+?)\n(?:\n|\Z)", re.DOTALL)


def in_words(diagnostics: str) -> str:
    """What happened and, if that is known, what to do; without stack traces.

    What a master wrote before it ended says it best: what YARN says around it
    is its own and each time the same, so it is left out then.
    """
    own = _last_words(diagnostics)
    if own is not None:
        return own
    lines = [line for line in diagnostics.splitlines() if not _FRAME.fullmatch(line)]
    said = "\n".join(lines).strip()
    meaning = explain(diagnostics)
    return f"{meaning}\n{said}" if meaning else said


def _last_words(diagnostics: str) -> str | None:
    ended, said = _MASTER.search(diagnostics), _STDERR.search(diagnostics)
    if ended is None or said is None:
        return None
    times, code = ended.groups()
    often = "once" if times == "1" else f"{times} times"
    return (
        f"The job's master failed {often}, the last time with exit code {code}, and said:\n"
        f"{said[1].strip()}"
    )
