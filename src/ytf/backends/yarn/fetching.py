"""What it means to a user that a node could not fetch what a container needs.

Nodes fetch and unpack archives with ``FSDownload``; these are its words.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_GONE = re.compile(r"File does not exist: (\S+)")
_CHANGED = re.compile(r"Resource (\S+) changed on src filesystem")
_DENIED = re.compile(r'Permission denied: user=([^,\s]+), access=\w+, inode="([^"]+)"')
_BROKEN = "Download and unpack failed"

_VERIFY = (
    "`ytf gc --verify` finds damaged layers and sets them aside; "
    "then submit the job again, which stores them anew"
)


def explain(diagnostics: str) -> str | None:
    """What happened and what to do, if a node says that it could not fetch something."""
    gone, changed = _GONE.search(diagnostics), _CHANGED.search(diagnostics)
    denied = _DENIED.search(diagnostics)
    if gone is not None:
        return _gone(gone[1])
    if changed is not None:
        return _changed(changed[1])
    if denied is not None:
        user, path = denied.groups()
        return (
            f"{user} may not read {path} in HDFS, which the job brings along: let its owner, or "
            "that of a directory above it, allow it."
        )
    if _BROKEN in diagnostics:
        return f"A node could not unpack what the job needs: {_VERIFY}."
    return None


def _gone(path: str) -> str:
    if _is_layer(path):
        return (
            f"The layer {path} is not in HDFS any more, and a node needs it: "
            "submit the job again, which stores it anew."
        )
    return (
        f"{path} is not there any more, and the job brings it along (-s, --files): put it back, "
        "and submit the job again."
    )


def _changed(path: str) -> str:
    if _is_layer(path):
        return f"The layer {path} was changed after the job was submitted: {_VERIFY}."
    return f"{path} was changed after the job was submitted: submit the job again."


def _is_layer(path: str) -> bool:
    # Only now: every look at a job passes here, and few jobs end like this.
    from ytf.packaging.store import Slot

    return Slot.of(PurePosixPath(path).name) is not None
