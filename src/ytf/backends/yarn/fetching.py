"""What it means to a user that a node could not fetch what a container needs.

Nodes fetch and unpack archives with ``FSDownload``; these are its words.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_GONE = re.compile(r"File does not exist: (\S+)")
_CHANGED = re.compile(r"Resource (\S+) changed on src filesystem")
_BROKEN = "Download and unpack failed"

_VERIFY = (
    "`ytf gc --verify` finds damaged layers and sets them aside; "
    "then submit the job again, which stores them anew"
)


def explain(diagnostics: str) -> str | None:
    """What happened and what to do, if a node says that it could not fetch a layer."""
    gone, changed = _layer(_GONE, diagnostics), _layer(_CHANGED, diagnostics)
    if gone is not None:
        return (
            f"The layer {gone} is not in HDFS any more, and a node needs it: "
            "submit the job again, which stores it anew."
        )
    if changed is not None:
        return f"The layer {changed} was changed after the job was submitted: {_VERIFY}."
    if _BROKEN in diagnostics:
        return f"A node could not unpack what the job needs: {_VERIFY}."
    return None


def _layer(words: re.Pattern[str], diagnostics: str) -> str | None:
    for path in words.findall(diagnostics):
        # Only now: every look at a job passes here, and few jobs end like this.
        from ytf.packaging.store import Slot

        if Slot.of(PurePosixPath(path).name) is not None:
            return str(path)
    return None
