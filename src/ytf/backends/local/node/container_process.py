"""Runs one container of a local job: a starter, its descendants, and their memory limit."""

from __future__ import annotations

import os

from ytf import processes
from ytf.starter.process_tree import REAPER_NAME
from ytf.starter.program_logs import ProgramLogs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ytf.backends.local.node.json_lines import Message

_MB = 1 << 20
_STARTER_LOG = "starter.log"
_STARTER_TAIL = 4096
_STARTER_LINES = 3
"""Bytes and lines of a starter's own log that go into diagnostics."""
_COMMAND_LENGTH = 80
"""Characters of a command line that go into diagnostics."""


class ContainerProcess:
    """A container from its launch until all its processes are dead.

    ``pid`` is the starter; everything it starts belongs to the container. The
    completion reports the first cause for which it was killed. ``logs`` is the
    directory with the logs of the task's attempts; ``attempt`` is the first of
    them in this container.
    """

    def __init__(
        self, container: str, pid: int, *, cwd: str, memory_mb: int, logs: str, attempt: int
    ) -> None:
        self.container = container
        self.pid = pid
        self.cwd = cwd
        self.memory_mb = memory_mb
        self._logs = logs
        self._attempt = attempt
        self.ended_at: float | None = None
        self._cause = "exited"
        self._diagnostics = ""
        self._wait_status = 0

    def kill(self, cause: str, diagnostics: str = "") -> None:
        """SIGKILL all its processes; a fork that escapes becomes an orphan of the node."""
        if self.ended_at is not None:
            return
        if self._cause == "exited":
            self._cause = cause
            self._diagnostics = diagnostics
        below = [pid for pid in processes.descendants(self.pid) if not is_engine_reaper(pid)]
        processes.kill([self.pid, *below])

    def check_memory(self) -> bool:
        """Kill the container if it uses more memory than requested; returns whether it did.

        Resident memory is cheap to read, but it counts memory that forked
        processes share several times. So the exact (proportional) size decides.
        Mapped files do not count: their pages are the kernel's cache.
        """
        if self.ended_at is not None or self._cause != "exited" or self.memory_mb <= 0:
            return False
        limit = self.memory_mb * _MB
        pids = [self.pid, *processes.descendants(self.pid)]
        if sum(map(processes.used_memory, pids)) <= limit:
            return False
        used = {pid: processes.proportional_memory(pid) for pid in pids}
        total = sum(used.values())
        if total <= limit:
            return False
        biggest = max(used, key=lambda pid: used[pid])
        # A shell's script is one argument of many lines; this is a part of one sentence.
        command = " ".join(processes.command_line(biggest).split())
        if len(command) > _COMMAND_LENGTH:
            command = f"{command[:_COMMAND_LENGTH]}…"
        self.kill(
            "memory",
            f"it used {total // _MB} MB of memory and had asked for {self.memory_mb} MB"
            " (ask for more with -m);"
            f" the biggest of its {len(pids)} processes used {used[biggest] // _MB} MB:"
            f" {command}",
        )
        return True

    def ended(self, wait_status: int, now: float) -> None:
        """Note that the starter is dead. Other processes of the container may still run."""
        self._wait_status = wait_status
        self.ended_at = now

    def completion(self, left_behind: str) -> Message:
        """Return the message for the master; ``left_behind`` names processes that still run."""
        exited = os.WIFEXITED(self._wait_status)
        is_expected = self._wait_status == 0 or self._cause == "released"
        diagnostics = [text for text in (self._diagnostics, left_behind) if text]
        # A starter that was killed has not reported the end of its program's output.
        tail, stream = ("", "stderr") if is_expected else self._tail()
        return {
            "op": "completed",
            "container": self.container,
            "cause": self._cause,
            "exit_code": os.WEXITSTATUS(self._wait_status) if exited else None,
            "signal": None if exited else os.WTERMSIG(self._wait_status),
            "diagnostics": "; ".join(diagnostics),
            "tail": tail,
            "tail_stream": stream,
        }

    def _tail(self) -> tuple[str, str]:
        """Return the end of what its newest attempt wrote, and to which stream.

        If no program was started in it, that of the starter itself, which says why.
        """
        try:
            names = os.listdir(self._logs)
        except FileNotFoundError:
            names = []
        newest = max((int(name) for name in names if name.isdecimal()), default=-1)
        if newest < self._attempt:
            return _last_lines(os.path.join(self._logs, _STARTER_LOG)), "stderr"
        return ProgramLogs(self._logs, newest, 0).failure_tail()


def is_engine_reaper(pid: int) -> bool:
    """Whether a process ends a container of docker or podman when its starter dies.

    Nobody else knows that container, so it is left to finish: it needs no more
    than a minute (``REMOVE_S`` in ``starter/engine_runner.py``).
    """
    return processes.name(pid) == REAPER_NAME


def _last_lines(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _STARTER_TAIL, 0))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-_STARTER_LINES:])
