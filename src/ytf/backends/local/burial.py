"""The end of a job whose node is gone: nothing may run on, and a record must tell why."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ytf import processes
from ytf.backends.local.calls import NoMasterError, find_master
from ytf.backends.local.home import writing
from ytf.backends.local.record import RECORD, history_of, noted_kill, write_last_record
from ytf.backends.local.removal import remove_tree
from ytf.errors import InternalError

MASTER = (sys.executable, "-m", "ytf.master")
"""The command that starts a master."""

JOB_VARIABLE = "YTF_JOB_ID"
"""In the environment of every process of a job: how those left behind are found."""

_BURY_S = 60.0
_DEATH_S = 5.0


def node_identity(job_dir: Path) -> tuple[int, int] | None:
    """The pid and start of a staged job's node; None if it never came up, or all is gone."""
    try:
        told = json.loads((job_dir / "node.json").read_bytes())
    except FileNotFoundError:
        return None
    return told["pid"], told["start_ticks"]


def node_is_alive(job_dir: Path) -> bool | None:
    """Whether the node of a staged job runs; None if it never came up."""
    identity = node_identity(job_dir)
    return None if identity is None else processes.alive(*identity)


def master_is_alive(job_dir: Path) -> bool:
    """Whether the newest master of a staged job runs."""
    try:
        pid = find_master(job_dir).pid
    except NoMasterError:
        return False
    # The pid may be another's by now; a master has its staging directory in its arguments.
    return str(job_dir) in processes.command_line(pid)


def bury(job_dir: Path, reason: str, *, master: Sequence[str] = MASTER) -> bool:
    """Record a job without node and master as FAILED, and remove all that is left of it.

    As KILLED, should somebody have noted that wish. The journal is replayed by
    a master that runs for just that; should even that fail, the record holds
    what was submitted and why it is so short.
    False if somebody else was burying the job and has done so by now.
    """
    with locked(job_dir) as present:
        if not present:
            return False
        if not os.path.exists(os.path.join(history_of(str(job_dir)), RECORD)):
            with writing(job_dir):
                _record(job_dir, reason, master)
        remove_leftovers(job_dir)
        return True


def remove_leftovers(job_dir: Path) -> None:
    """Kill what still runs of a job without a node, and remove its staging directory."""
    end_processes(job_dir.name)
    remove_tree(str(job_dir))


def end_processes(job: str) -> None:
    """SIGKILL every process of a job and their descendants, until there are none."""
    deadline = time.monotonic() + _DEATH_S
    while found := processes.with_variable(JOB_VARIABLE, job):
        for pid in found:
            processes.kill([pid, *processes.descendants(pid)])
        if time.monotonic() > deadline:
            raise InternalError(f"processes of {job} cannot be killed: {found}")
        time.sleep(0.01)


@contextlib.contextmanager
def locked(job_dir: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a staging directory for oneself: submit, bury and sweep each do.

    Yields False where it is gone, or, without ``wait``, somebody else's.
    """
    try:
        directory = os.open(job_dir, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(directory)
        yield False
        return
    try:
        # Whoever held it before may have removed it.
        yield job_dir.exists() and os.path.samestat(os.fstat(directory), os.stat(job_dir))
    finally:
        os.close(directory)


def _record(job_dir: Path, reason: str, master: Sequence[str]) -> None:
    killed = noted_kill(str(job_dir))
    if killed is not None:
        reason = f"the job was killed by {killed[0]}"
    command = [*master, "--backend", "local", "--job-dir", str(job_dir)]
    command += ["--attempt", str(_next_attempt(job_dir)), "--bury", reason]
    log = Path(history_of(str(job_dir)), "logs", "master.log")
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(log, "ab") as output:
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                timeout=_BURY_S,
                check=True,
            )
        except (subprocess.SubprocessError, OSError) as exc:
            write_last_record(job_dir=str(job_dir), reason=f"{reason} (its journal: {exc})")
    # A master that ended well without a record broke its promise; the job still needs one.
    write_last_record(str(job_dir), reason)


def _next_attempt(job_dir: Path) -> int:
    try:
        names = os.listdir(job_dir / "journal")
    except FileNotFoundError:
        return 1
    return max((int(name) for name in names if name.isdigit()), default=0) + 1
