"""One container on this machine: a session of processes with a memory limit."""

from __future__ import annotations

import os

from ytf import processes
from ytf.starter.logs import Logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ytf.backends.local.lines import Message

_MB = 1 << 20
_SHOWN = 120
"""Characters of a command line that go into diagnostics."""


class Hosted:
    """A container from its launch to the proof that all its processes are dead.

    The starter is ``pid``; everything it starts belongs to the container. The
    first reason to end it is the one that is told. Below ``logs`` lie the logs
    of the task's attempts, of which ``attempt`` is the first in this container.
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
        """SIGKILL everything in it; what escapes by forking comes to the node as an orphan."""
        if self.ended_at is not None:
            return
        if self._cause == "exited":
            self._cause = cause
            self._diagnostics = diagnostics
        processes.kill([self.pid, *processes.descendants(self.pid)])

    def check_memory(self) -> bool:
        """Kill it if it uses more than it asked for; answers whether that was so.

        Resident memory is cheap to read but counts what forked processes share
        several times, so only an exact count condemns.
        """
        if self.ended_at is not None or self._cause != "exited" or self.memory_mb <= 0:
            return False
        limit = self.memory_mb * _MB
        pids = [self.pid, *processes.descendants(self.pid)]
        if sum(map(processes.resident, pids)) <= limit:
            return False
        used = {pid: processes.proportional(pid) for pid in pids}
        total = sum(used.values())
        if total <= limit:
            return False
        biggest = max(used, key=lambda pid: used[pid])
        self.kill(
            "memory",
            f"it used {total // _MB} MB of memory and had asked for {self.memory_mb} MB"
            " (ask for more with -m);"
            f" the biggest of its {len(pids)} processes used {used[biggest] // _MB} MB:"
            f" {processes.command_line(biggest)[:_SHOWN]}",
        )
        return True

    def ended(self, wait_status: int, now: float) -> None:
        """The starter is dead; what it left behind may still live."""
        self._wait_status = wait_status
        self.ended_at = now

    def completion(self, left_behind: str) -> Message:
        """The line that tells the master; ``left_behind`` is what could not be killed."""
        exited = os.WIFEXITED(self._wait_status)
        well = self._wait_status == 0 or self._cause == "released"
        told = [text for text in (self._diagnostics, left_behind) if text]
        return {
            "op": "completed",
            "container": self.container,
            "cause": self._cause,
            "exit_code": os.WEXITSTATUS(self._wait_status) if exited else None,
            "signal": None if exited else os.WTERMSIG(self._wait_status),
            "diagnostics": "; ".join(told),
            # A starter that was killed has not reported its program's last words.
            "tail": "" if well else self._last_words(),
        }

    def _last_words(self) -> str:
        """The end of what the newest attempt in this container wrote to stderr."""
        try:
            names = os.listdir(self._logs)
        except FileNotFoundError:
            return ""
        attempts = [int(name) for name in names if name.isdecimal()]
        newest = max(attempts, default=-1)
        return Logs(self._logs, newest, 0).tail() if newest >= self._attempt else ""
