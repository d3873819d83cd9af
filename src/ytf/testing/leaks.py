"""Checks that a test of real jobs leaves no process and no staging directory behind.

It reads ``/proc`` and the file system, and shares no code with the backends
that it checks.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ytf.testing.waiting import eventually


@contextmanager
def no_leaks(home: Path, timeout_s: float = 30.0) -> Iterator[None]:
    """A context for jobs with ``YTF_HOME=home``. At its end nothing of them may be left.

    What is left has ``timeout_s`` to end by itself. Then the processes are
    killed, and an AssertionError lists all that was found. If the body itself
    fails, its error is raised, and the processes are killed too.
    """
    try:
        yield
    except BaseException:
        _kill_all(home)
        raise
    try:
        eventually(lambda: not leftovers(home), timeout_s, lambda: _describe(home))
    finally:
        _kill_all(home)


def leftovers(home: Path) -> list[str]:
    """Descriptions of the processes and staged files of jobs below ``home``."""
    found = [f"process {pid}: {command}" for pid, command in processes_of(home).items()]
    jobs = home / "jobs"
    if jobs.is_dir():
        found += sorted(f"staged: {path.relative_to(home)}" for path in jobs.iterdir())
    return found


def processes_of(home: Path) -> dict[int, str]:
    """Live processes of jobs below ``home``, with their command lines.

    They were started with it as ``YTF_HOME``, or their working directory is below
    it: a daemon may clear its environment, but rarely changes its directory too.
    This process is never one of them.
    """
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    found = {pid: _command_of(pid, home.resolve()) for pid in pids if pid != os.getpid()}
    return {pid: command for pid, command in found.items() if command is not None}


def _command_of(pid: int, home: Path) -> str | None:
    """The command of a process if it belongs to ``home``; None if not, or if it has ended."""
    proc = Path("/proc", str(pid))
    try:
        # A process that has ended but was not waited for has an empty command line.
        command = (proc / "cmdline").read_bytes()
        variables = (proc / "environ").read_bytes().split(b"\0")
        directory = Path(os.readlink(proc / "cwd"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    ours = os.fsencode(f"YTF_HOME={home}") in variables or directory.is_relative_to(home)
    if not (command and ours):
        return None
    return command.replace(b"\0", b" ").decode(errors="replace").strip()


def _describe(home: Path) -> str:
    return f"nothing left of the jobs in {home}, but there is\n" + "\n".join(leftovers(home))


def _kill_all(home: Path) -> None:
    """Kill all processes until none is left: some may fork while we look."""

    def none_left() -> bool:
        living = processes_of(home)
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not living

    eventually(none_left, describe=lambda: _describe(home))
