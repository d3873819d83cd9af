"""The user's program, as the starter sees it."""

from __future__ import annotations

import os
import select
import signal
import time

from ytf.starter import threads
from ytf.starter.descendants import end_all, send
from ytf.starter.keeper import (
    END_GENTLY,
    END_NOW,
    EXITED,
    FAILED,
    STARTED,
    Command,
    fork_keeper,
)
from ytf.starter.situation import ProgramChanged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import List, Mapping, Optional

    from ytf.starter.logs import Logs
    from ytf.starter.situation import Message

CAP_EVERY_S = 1.0
CANNOT_RUN = 126
"""The exit code of a program that could not even be started, as shells have it."""


class Exit:
    """How a program ended: an exit code or a signal, and the reason if we know more."""

    __slots__ = ("ended_at", "exit_code", "reason", "signal")

    def __init__(
        self, exit_code: Optional[int] = None, signum: Optional[int] = None, reason: str = ""
    ) -> None:
        self.exit_code = exit_code
        self.signal = signum
        self.reason = reason
        self.ended_at = time.time()

    @classmethod
    def of_status(cls, status: int) -> Exit:
        """From what ``wait`` gives."""
        if os.WIFSIGNALED(status):
            return cls(signum=os.WTERMSIG(status))
        return cls(os.WEXITSTATUS(status))


def shell_command(program: str, env: Mapping[bytes, bytes]) -> List[str]:
    """``bash -c PROGRAM``, or ``sh`` where there is no bash. ``OSError`` if there is neither."""
    path = env.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    for name in (b"bash", b"sh"):
        for folder in [*path, b"/bin", b"/usr/bin"]:
            shell = os.path.join(folder, name)
            if os.path.isabs(shell) and os.access(shell, os.X_OK):
                return [os.fsdecode(shell), "-c", program]
    raise OSError("there is no bash and no sh on this node")


class Program:
    """A program that was started. Changes are told as ``ProgramChanged``.

    ``pid`` is None until it runs; ``exit`` is set when it ended and every
    process it had started is proved dead.
    """

    def __init__(self, command: Command, logs: Optional[Logs], inbox: SimpleQueue[Message]) -> None:
        self.pid: Optional[int] = None
        self.exit: Optional[Exit] = None
        self._last: Optional[Exit] = None
        self._own_session = command.own_session
        self._logs = logs
        self._inbox = inbox
        self._reading, writing = os.pipe()
        try:
            self.keeper = fork_keeper(command, writing)
        except OSError:
            os.close(self._reading)
            raise
        finally:
            os.close(writing)
            for fd in command.outputs or ():
                os.close(fd)
        threads.start("watch", self._watch, inbox)

    def signal(self, signum: int) -> bool:
        """Send a signal to the program's process group; False if it does not run."""
        if self.pid is None or self.exit is not None:
            return False
        return send(-self.pid if self._own_session else self.pid, signum)

    def end_gently(self) -> None:
        """Ask the program to end: SIGTERM to its process group."""
        if self.exit is None:
            send(self.keeper, END_GENTLY)

    def end_now(self) -> None:
        """Kill all its processes."""
        if self.exit is None:
            send(self.keeper, END_NOW)

    def _watch(self) -> None:
        """Follow the keeper's reports and keep the logs within their limit, until the end."""
        buffer = b""
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        while True:
            if not poll.poll(CAP_EVERY_S * 1000):
                if self._logs is not None:
                    self._logs.cap()
                continue
            data = os.read(self._reading, 4096)
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                self._told(line)
            if not data:
                break
        os.close(self._reading)
        self._after_keeper()
        self._inbox.put(ProgramChanged())

    def _told(self, line: bytes) -> None:
        what, _, value = line.partition(b" ")
        if what == STARTED:
            self.pid = int(value)
            self._inbox.put(ProgramChanged())
        elif what == EXITED:
            self._last = Exit.of_status(int(value))
        elif what == FAILED:
            self._last = Exit(CANNOT_RUN, reason=value.decode("utf-8", "replace"))

    def _after_keeper(self) -> None:
        """Reap the keeper and, if it died before its time, kill what it kept."""
        _, status = os.waitpid(self.keeper, 0)
        if status != 0:
            end_all(lambda pid, status: None)
        if self._last is None:
            how = Exit.of_status(status)
            text = "the process that watched over it ended first (%s)" % (
                "exit code %s" % how.exit_code if how.signal is None else "signal %s" % how.signal
            )
            self._last = Exit(signum=signal.SIGKILL.value, reason=text)
        if self._logs is not None:
            self._logs.cap()
        self.exit = self._last
