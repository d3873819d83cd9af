"""Runs helper processes: they do on ytf's runtime what a starter cannot (ADR 31).

A starter loads the standard library only. What needs more, such as HDFS, is a
module of ytf that runs as a process beside the starter, in the container's
working directory. Both sides send lines of JSON objects: the starter to the
helper's stdin, first of all the request, and the helper to its stdout. What the
helper writes to its stderr is kept, as far as an error message needs it. The
helper's side is ``ytf.storage.helper_protocol``.

A helper may do one thing and end (stage-in), or run beside the program and get
further messages (``send``), for example that the program has ended.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from contextlib import suppress

from ytf.log import log
from ytf.starter import threads
from ytf.starter.desired_state import HelperChanged
from ytf.starter.orphans import STARTED_BY, own_mark
from ytf.starter.process_tree import send_signal
from ytf.wire.untrusted import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

    from ytf.starter.desired_state import InboxMessage

    Message = Dict[str, Any]

LINE_LIMIT = 64 * 1024
"""The longest line that a helper may write; one that writes a longer one is killed."""
STDERR_LIMIT = 8 * 1024
END_S = 10.0
_CHUNK = 64 * 1024


class HelperExit:
    """How a helper ended: an exit code or a signal; both None if that is not known."""

    __slots__ = ("exit_code", "signal", "stderr")

    def __init__(self, exit_code: Optional[int], signal: Optional[int], stderr: str) -> None:
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = stderr
        """The last lines that it wrote to its stderr."""

    def __str__(self) -> str:
        if self.signal is not None:
            how = "it was killed by signal %d" % self.signal
        else:
            how = "it ended with exit code %s" % self.exit_code
        return "%s: %s" % (how, self.stderr) if self.stderr else how


class Helpers:
    """Starts helper processes of one starter, and ends those that still run.

    ``arguments`` are those of this very interpreter with which it runs a module of
    ytf; the name of the module follows. ``environ`` are the helpers' variables.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        inbox: SimpleQueue[InboxMessage],
    ) -> None:
        self._argv = [sys.executable, *arguments]
        self._environ = dict(environ)
        self._inbox = inbox
        self._running: List[HelperProcess] = []

    def start(
        self,
        module: str,
        request: Message,
        on_message: Optional[Callable[[Message], None]] = None,
    ) -> HelperProcess:
        """Start a module as a process and send it the request; returns at once.

        ``on_message`` gets each message of the helper, in a thread of the helper's own.
        Every message, and the end, also puts a ``HelperChanged`` into the inbox.
        Raises ``OSError``. To be called by the main thread only: Linux ends
        the helper with the thread that started it.
        """
        environ = dict(self._environ)
        environ[STARTED_BY] = own_mark()
        argv = [*self._argv, module]
        process = HelperProcess(argv, environ, request, on_message, self._inbox)
        self._running = [each for each in self._running if each.exit is None]
        self._running.append(process)
        return process

    def end_all(self) -> None:
        """Kill those that run; returns once they are dead."""
        running, self._running = self._running, []
        for each in running:
            each.end()


class HelperProcess:
    """One helper process. All methods may be called from any thread.

    ``exit`` is set once it is dead and everything that it wrote has been read;
    ``last`` is its last message.
    """

    def __init__(
        self,
        argv: List[str],
        environ: Mapping[str, str],
        request: Message,
        on_message: Optional[Callable[[Message], None]],
        inbox: SimpleQueue[InboxMessage],
    ) -> None:
        self.exit: Optional[HelperExit] = None
        self.last: Message = {}
        self._on_message = on_message
        self._inbox = inbox
        self._request = _line(request)
        self._stderr = b""
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._spawn(argv, environ)
        threads.start("helper", self._run, inbox)

    def send(self, message: Message) -> bool:
        """Send a small message; False if the helper has ended, or does not read any more."""
        line = _line(message)
        with self._lock:
            if self._writing is None:
                return False
            try:
                # A line of this length is written whole or not at all: the pipe does not block.
                return len(line) <= select.PIPE_BUF and os.write(self._writing, line) == len(line)
            except OSError:
                return False

    def end(self) -> None:
        """Kill it, if it still runs; returns once it is dead."""
        self.kill()
        if not self._ended.wait(END_S):
            log("the helper process %d was killed, and is still not dead" % self.pid)

    def kill(self) -> None:
        """Kill it, if it still runs; returns at once."""
        with self._lock:
            if self.exit is None:
                send_signal(self.pid, signal.SIGKILL)

    def _spawn(self, argv: List[str], environ: Mapping[str, str]) -> None:
        ours: List[int] = []
        theirs: List[int] = []
        try:
            for mine in (1, 0, 0):  # of stdin we hold the writing end, of the others the reading
                ends = os.pipe()
                ours.append(ends[mine])
                theirs.append(ends[1 - mine])
            actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(theirs)]
            # A group of its own: Ctrl-C at a terminal is for the starter, which ends it then.
            self.pid = os.posix_spawn(
                argv[0], argv, environ, file_actions=actions, setsigmask=(), setpgroup=0
            )
        except OSError:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self._writing: Optional[int] = ours[0]
        self._outputs = ours[1:]

    def _run(self) -> None:
        """Send the request, read to the end, reap."""
        self._send_request()
        self._read()
        status = self._wait()
        self._inbox.put(HelperChanged())
        if status is None:
            log("how the helper process %d ended is not known" % self.pid)

    def _send_request(self) -> None:
        assert self._writing is not None
        rest = memoryview(self._request)
        try:
            while rest:
                rest = rest[os.write(self._writing, rest) :]
        except BrokenPipeError:
            return  # it has ended; why, its stderr tells
        finally:
            self._request = b""
            os.set_blocking(self._writing, False)

    def _read(self) -> None:
        stderr = self._outputs[1]
        poll = select.poll()
        for fd in self._outputs:
            poll.register(fd, select.POLLIN)
        left, buffer = 2, b""
        while left:
            for fd, _ in poll.poll():
                data = os.read(fd, _CHUNK)
                if not data:
                    poll.unregister(fd)
                    os.close(fd)
                    left -= 1
                elif fd == stderr:
                    self._stderr = (self._stderr + data)[-STDERR_LIMIT:]
                else:
                    *lines, buffer = (buffer + data).split(b"\n")
                    fit = [line for line in lines if len(line) <= LINE_LIMIT]
                    for line in fit:
                        self._take(line)
                    if len(fit) < len(lines) or len(buffer) > LINE_LIMIT:
                        buffer = b""
                        self._stderr += b"\nit wrote a line that is too long"
                        self.kill()

    def _take(self, line: bytes) -> None:
        try:
            message = read_json(line)
        except ValueError as exc:
            log("the helper process %d wrote what is no message: %s" % (self.pid, exc))
            return
        if not isinstance(message, dict):
            return
        self.last = message
        if self._on_message is not None:
            self._on_message(message)
        self._inbox.put(HelperChanged())

    def _wait(self) -> Optional[int]:
        status: Optional[int] = None
        # Its status may be taken with those of the processes that a dead reaper left.
        with suppress(ChildProcessError):
            # Until its status is taken, its pid is its own: kill() may use it.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            with suppress(ChildProcessError):
                _, status = os.waitpid(self.pid, 0)
            if self._writing is not None:
                os.close(self._writing)
                self._writing = None
            self.exit = _exit_of(status, _last_lines(self._stderr))
        self._ended.set()
        return status


def _exit_of(status: Optional[int], stderr: str) -> HelperExit:
    if status is None:
        return HelperExit(None, None, stderr)
    if os.WIFSIGNALED(status):
        return HelperExit(None, os.WTERMSIG(status), stderr)
    return HelperExit(os.WEXITSTATUS(status), None, stderr)


def _line(message: Message) -> bytes:
    return json.dumps(message).encode("ascii") + b"\n"


def _last_lines(text: bytes, count: int = 3) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return "\n".join(lines[-count:])
