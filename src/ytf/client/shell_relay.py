"""Relays between this terminal, or pipes, and a shell in a task's container.

With a terminal, the local one is in raw mode: every key, Ctrl-C too, goes to the
shell, and ``~.`` at the beginning of a line is the way out if the network is
gone. Without one, stdout and stderr stay apart, bytes pass unchanged, and nothing
is read from one side that the other does not take.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType

from ytf.client.remote_shell import ShellConnection
from ytf.errors import OutcomeUnknownError
from ytf.wire.frames import MAX_PAYLOAD, ForgedFrameError
from ytf.wire.shell_messages import (
    END_OF_INPUT,
    ERRORS,
    EXIT,
    INPUT,
    OUTPUT,
    RESIZE,
    SIGNAL,
    ExitMessage,
    WindowSize,
)

_BUFFER_LIMIT = 128 * 1024
"""Bytes that wait for a side that does not read; more are not taken from the other one."""
_PIECE = select.PIPE_BUF
"""A pipe that is ready takes as many bytes without making us wait."""

_ESCAPE = b"~"


class StdoutError(OSError):
    """Our stdout could not be written."""


class LeftShellError(Exception):
    """The user left with ``~.``."""


def terminal_size(fd: int = 0) -> WindowSize:
    """Return the size of our terminal."""
    try:
        size = os.get_terminal_size(fd)
    except OSError:
        return WindowSize(24, 80)
    return WindowSize(size.lines, size.columns)


def relay(connection: ShellConnection, *, has_terminal: bool) -> ExitMessage:
    """Relay until the shell has ended; returns how.

    The terminal is as before on return and when anything is raised. Raises
    ``OutcomeUnknownError`` if the connection is lost, ``StdoutError``, and
    ``LeftShellError``.
    """
    with ExitStack() as stack:
        running = _Relay(connection, has_terminal=has_terminal)
        stack.callback(running.close)
        if has_terminal:
            stack.enter_context(_handling(signal.SIGWINCH, running.on_resize))
            stack.enter_context(_raw_mode())
        else:
            stack.enter_context(_handling(signal.SIGINT, running.on_interrupt))
        return running.run()


class EscapeFilter:
    """Looks for ``~.`` at the beginning of lines in what the user types; ``~~`` is one ``~``."""

    def __init__(self) -> None:
        self._at_line_start = True
        self._after_escape = False

    def pass_on(self, typed: bytes) -> bytes:
        """Return what is for the shell; raises :class:`LeftShellError`."""
        result = bytearray()
        for value in typed:
            key = bytes((value,))
            if self._after_escape:
                self._after_escape = False
                if key == b".":
                    raise LeftShellError
                if key != _ESCAPE:
                    result += _ESCAPE
            elif self._at_line_start and key == _ESCAPE:
                self._after_escape = True
                continue
            result += key
            # After Ctrl-C and Ctrl-U, too, a line begins anew.
            self._at_line_start = key in b"\r\n\x03\x15"
        return bytes(result)


class _Relay:
    def __init__(self, connection: ShellConnection, *, has_terminal: bool) -> None:
        self._connection = connection
        self._sock = connection.sock
        self._escapes = EscapeFilter() if has_terminal else None
        self._outgoing = bytearray()
        self._incoming = {1: bytearray(), 2: bytearray()}
        self._stdin_is_open = True
        self._exit: ExitMessage | None = None
        self._waking, self._wake = os.pipe()
        for fd in (self._waking, self._wake):
            os.set_blocking(fd, False)
        self._old_wakeup = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._resized = False
        self._interrupts = 0

    def close(self) -> None:
        """Handle no signals any more."""
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self._waking)
        os.close(self._wake)

    def on_resize(self, number: int, frame: FrameType | None) -> None:
        """Remember that the terminal has another size."""
        self._resized = True

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Remember a Ctrl-C for the command."""
        self._interrupts += 1

    def run(self) -> ExitMessage:
        """Relay until the shell has ended and all its output is written."""
        self._sock.setblocking(False)
        try:
            self._take_frames()  # what has come with the answer
            while self._exit is None or any(self._incoming.values()):
                self._step()
        except ForgedFrameError as exc:
            raise OutcomeUnknownError(
                f"what came from {self._connection.task} was altered on its way ({exc}): "
                "the connection is closed",
                hint="somebody interferes with the network between this machine and the node",
            ) from exc
        return self._exit

    def _step(self) -> None:
        poll = select.poll()
        poll.register(self._waking, select.POLLIN)
        wanted = select.POLLOUT if self._outgoing else 0
        if self._exit is None and self._has_room():
            wanted |= select.POLLIN
        if self._exit is None:
            poll.register(self._sock, wanted)
        if self._stdin_is_open and self._exit is None and len(self._outgoing) < _BUFFER_LIMIT:
            poll.register(0, select.POLLIN)
        for fd, waiting in self._incoming.items():
            if waiting:
                poll.register(fd, select.POLLOUT)
        ready = dict(poll.poll())
        if self._waking in ready:
            self._after_signals()
        for fd in (1, 2):
            if fd in ready:
                self._write(fd)
        if 0 in ready:
            self._read_stdin()
        self._serve_socket(ready.get(self._sock.fileno(), 0))

    def _has_room(self) -> bool:
        return sum(map(len, self._incoming.values())) < _BUFFER_LIMIT

    def _after_signals(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._waking, 4096)
        if self._resized:
            self._resized = False
            self._send(RESIZE, terminal_size().encode())
        while self._interrupts:
            self._interrupts -= 1
            self._send(SIGNAL, str(signal.SIGINT.value).encode())

    def _read_stdin(self) -> None:
        try:
            data = os.read(0, MAX_PAYLOAD)
        except BlockingIOError:
            return  # whoever shares our stdin has read it
        except OSError:
            data = b""  # the terminal is gone, or there is no stdin
        if not data:
            self._stdin_is_open = False
            self._send(END_OF_INPUT)
            return
        if self._escapes is not None:
            data = self._escapes.pass_on(data)
        if data:
            # One more byte than was read may come of a held back escape.
            self._send(INPUT, data[:MAX_PAYLOAD])
            if data[MAX_PAYLOAD:]:
                self._send(INPUT, data[MAX_PAYLOAD:])

    def _send(self, kind: int, payload: bytes = b"") -> None:
        self._outgoing += self._connection.writer.frame(kind, payload)

    def _serve_socket(self, events: int) -> None:
        try:
            if self._outgoing and events & select.POLLOUT:
                del self._outgoing[: self._sock.send(self._outgoing)]
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                data = self._sock.recv(64 * 1024)
                if not data:
                    raise self._lost("it was closed")
                self._connection.reader.feed(data)
                self._take_frames()
        except BlockingIOError:
            return
        except OutcomeUnknownError:
            raise
        except OSError as exc:
            raise self._lost(exc.strerror or str(exc)) from exc

    def _lost(self, why: str) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"the connection to {self._connection.task} is lost: {why}",
            hint="what ran there is killed; `ytf status` shows whether the task goes on",
        )

    def _take_frames(self) -> None:
        while self._exit is None and (frame := self._connection.reader.next()) is not None:
            kind, payload = frame
            if kind == OUTPUT:
                self._incoming[1] += payload
            elif kind == ERRORS:
                self._incoming[2] += payload
            elif kind == EXIT:
                self._exit = ExitMessage.decode(payload)

    def _write(self, fd: int) -> None:
        waiting = self._incoming[fd]
        try:
            del waiting[: os.write(fd, waiting[:_PIECE])]
        except BlockingIOError:
            return  # who shares our output has made it non-blocking
        except OSError as exc:
            if fd == 1:
                raise StdoutError(exc.errno, exc.strerror) from exc
            waiting.clear()


@contextmanager
def _raw_mode() -> Iterator[None]:
    """Switch the terminal to raw mode; restore it on exit."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)
        yield
    finally:
        with suppress(termios.error):  # the terminal itself is gone
            # At once: a terminal that shows nothing any more would keep us waiting.
            termios.tcsetattr(0, termios.TCSANOW, before)


@contextmanager
def _handling(
    number: signal.Signals, handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
