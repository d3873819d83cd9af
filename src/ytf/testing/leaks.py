"""Proof that a test of real jobs leaves nothing behind: no process, nothing staged.

It looks at ``/proc`` and the file system itself, and shares no code with the
backend it judges.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ytf.testing.waiting import eventually


@contextmanager
def no_leaks(home: Path, timeout_s: float = 10.0) -> Iterator[None]:
    """Within it run jobs with ``YTF_HOME=home``; after it nothing of them may be left.

    What is left gets ``timeout_s`` to go by itself; then the processes are
    killed and an AssertionError names everything that was found. When the body
    itself fails, its error is what is raised, and the processes are killed too.
    """
    try:
        yield
    except BaseException:
        _kill_all(home)
        raise
    try:
        eventually(lambda: not leftovers(home), timeout_s, lambda: _tell(home))
    finally:
        _kill_all(home)


def leftovers(home: Path) -> list[str]:
    """What lives or lies there because of jobs below ``home``, in words."""
    found = [f"process {pid}: {command}" for pid, command in processes_of(home).items()]
    jobs = home / "jobs"
    if jobs.is_dir():
        found += sorted(f"staged: {path.relative_to(home)}" for path in jobs.iterdir())
    return found


def processes_of(home: Path) -> dict[int, str]:
    """Live processes of jobs below ``home``, with their command lines.

    Those that were started with it as ``YTF_HOME``, and those that work in a
    directory below it: a daemon may clear its environment, but few move too.
    This process is never one of them.
    """
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    found = {pid: _command_of(pid, home.resolve()) for pid in pids if pid != os.getpid()}
    return {pid: command for pid, command in found.items() if command is not None}


def _command_of(pid: int, home: Path) -> str | None:
    """The command of a process if it belongs to ``home``; None if not, or if it is over."""
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


def _tell(home: Path) -> str:
    return f"nothing left of the jobs in {home}, but there is\n" + "\n".join(leftovers(home))


def _kill_all(home: Path) -> None:
    """Kill until nothing lives: one that forks may be a step ahead of a single look."""

    def none_left() -> bool:
        living = processes_of(home)
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not living

    eventually(none_left, describe=lambda: _tell(home))
