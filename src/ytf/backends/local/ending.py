"""The end of a job whose master takes no orders: its node is stopped in its place."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from ytf import processes
from ytf.backends.local.burial import master_is_alive, node_identity
from ytf.backends.local.calls import find_master

_NODE_S = 15.0
"""What a node gets to end: longer than it gives its master."""
_DEATH_S = 5.0
_LOOK_S = 0.01


def end_without_master(job_dir: Path, *, grace_s: float) -> bool:
    """Stop a staged job's node, which ends all that runs; False if it never had one.

    The master gets ``grace_s`` to record the job. Whoever does not go, because
    it hangs, is killed: on return neither lives, and the job can be buried.
    """
    node = node_identity(job_dir)
    if node is None:
        return False

    def node_is_gone() -> bool:
        return not processes.alive(*node)

    if not node_is_gone():
        with contextlib.suppress(ProcessLookupError):
            os.kill(node[0], signal.SIGTERM)
    if not _wait(lambda: node_is_gone() and not master_is_alive(job_dir), grace_s):
        _kill_master(job_dir)
    if not _wait(node_is_gone, _NODE_S):
        processes.kill([node[0]])
    # A node that hung until it was killed may have started another one before.
    return _wait(node_is_gone, _DEATH_S) and _wait(lambda: _kill_master(job_dir), _DEATH_S)


def _kill_master(job_dir: Path) -> bool:
    """SIGKILL the newest master; whether it was dead already."""
    if not master_is_alive(job_dir):
        return True
    processes.kill([find_master(job_dir).pid])
    return False


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True
