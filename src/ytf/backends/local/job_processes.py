"""Finds, checks and stops the node and the master of a local job, for clients.

The node writes ``node.json`` and the master ``master.json`` into the job's
staging directory (docs/protocols.md §5).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from ytf import processes
from ytf.backends.api import MasterAddress
from ytf.decoding import decode_json
from ytf.errors import InternalError
from ytf.wire.http_client import ChannelError

MASTER_COMMAND = (sys.executable, "-m", "ytf.master")
"""The command that starts a master."""

JOB_VARIABLE = "YTF_JOB_ID"
"""Set in the environment of every process of a job. Leftover processes are found by it."""

_NODE_TIMEOUT_S = 15.0
"""How long a node may take to end after SIGTERM: longer than it waits for its master."""
_DEATH_TIMEOUT_S = 5.0
"""How long a process may take to disappear after SIGKILL."""
_POLL_S = 0.01


class NoMasterError(ChannelError):
    """The job has no ``master.json``: no master has started yet, or the job is over."""


class LocalMaster(MasterAddress, frozen=True):
    """The content of ``master.json``."""

    pid: int


def find_master(staging: Path) -> LocalMaster:
    """Return the newest master of a staged job; raises ``NoMasterError``."""
    path = staging / "master.json"
    try:
        return decode_json(path.read_bytes(), LocalMaster)
    except FileNotFoundError as exc:
        raise NoMasterError(f"there is no {path}") from exc
    except msgspec.DecodeError as exc:
        raise NoMasterError(f"{path} is damaged: {exc}") from exc


def master_is_alive(job_dir: Path) -> bool:
    """Return whether the newest master of a staged job runs."""
    try:
        pid = find_master(job_dir).pid
    except NoMasterError:
        return False
    # The pid may have been reused. A master has its staging directory in its arguments.
    return str(job_dir) in processes.command_line(pid)


def node_identity(job_dir: Path) -> tuple[int, int] | None:
    """Return the pid and start time of a staged job's node.

    None if the node never started, or the staging directory has been removed.
    """
    try:
        identity = json.loads((job_dir / "node.json").read_bytes())
    except FileNotFoundError:
        return None
    return identity["pid"], identity["start_ticks"]


def node_is_alive(job_dir: Path) -> bool | None:
    """Return whether the node of a staged job runs; None if it never started."""
    identity = node_identity(job_dir)
    return None if identity is None else processes.alive(*identity)


def stop_without_master(job_dir: Path, *, grace_s: float) -> bool:
    """Stop the node of a staged job, which kills all containers, and then the master.

    The master gets ``grace_s`` to record the job. A node or master that hangs
    is killed. True once both are dead, so that the job can be finalized; False
    if the job never had a node, or a process survived SIGKILL.
    """
    node = node_identity(job_dir)
    if node is None:
        return False

    def node_is_dead() -> bool:
        return not processes.alive(*node)

    if not node_is_dead():
        with contextlib.suppress(ProcessLookupError):
            os.kill(node[0], signal.SIGTERM)
    if not _wait(lambda: node_is_dead() and not master_is_alive(job_dir), grace_s):
        _kill_master(job_dir)
    if not _wait(node_is_dead, _NODE_TIMEOUT_S):
        processes.kill([node[0]])
    # A node that hung until it was killed may have started another master before.
    return _wait(node_is_dead, _DEATH_TIMEOUT_S) and _wait(
        lambda: _kill_master(job_dir), _DEATH_TIMEOUT_S
    )


def kill_job_processes(job: str) -> None:
    """SIGKILL every process of a job and its descendants, until none is left."""
    deadline = time.monotonic() + _DEATH_TIMEOUT_S
    while found := processes.with_variable(JOB_VARIABLE, job):
        for pid in found:
            processes.kill([pid, *processes.descendants(pid)])
        if time.monotonic() > deadline:
            raise InternalError(f"processes of {job} cannot be killed: {found}")
        time.sleep(_POLL_S)


def _kill_master(job_dir: Path) -> bool:
    """SIGKILL the newest master; returns whether it was dead already."""
    if not master_is_alive(job_dir):
        return True
    processes.kill([find_master(job_dir).pid])
    return False


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
