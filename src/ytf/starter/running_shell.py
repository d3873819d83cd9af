"""The process of one shell, or command, of ``ytf shell``: with a terminal of its own, or pipes.

It is started here and read from, written to, resized and signalled. Who does so
when is ``ytf.starter.shell_process``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import struct
import termios

from ytf.starter.native_runner import shell_command
from ytf.starter.orphans import STARTED_BY, own_mark
from ytf.starter.process_tree import send_signal, signal_on_parents_death
from ytf.starter.reaper import default_signals
from ytf.starter.runner import CANNOT_RUN
from ytf.wire.frames import MAX_PAYLOAD
from ytf.wire.shell_messages import ERRORS, OUTPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, NoReturn, Optional

    from ytf.starter.engine_shell import ShellContainer
    from ytf.wire.shell_messages import OpenMessage, WindowSize


class RunningShell:
    """The shell's first process, and its terminal or pipes. Raises ``OSError``.

    ``outputs`` are the descriptors to read from, and the kind of message for each.
    """

    def __init__(
        self,
        wanted: OpenMessage,
        env: Mapping[bytes, bytes],
        container: Optional[ShellContainer],
    ) -> None:
        self.input = bytearray()
        self._container = container
        self.status: Optional[int] = None
        self._has_terminal = wanted.size is not None
        self._input_ends = False
        term = None if wanted.size is None else wanted.term or "dumb"
        if container is None:
            variables = dict(env)
            # What it starts is found by this if this process is killed, too.
            variables[STARTED_BY.encode()] = own_mark().encode()
            if term is not None:
                variables[b"TERM"] = term.encode("utf-8", "replace")
            argv = _argv(wanted.command, variables)
        else:
            variables = dict(container.env)
            argv = container.argv(wanted.command, term)
        if wanted.size is not None:
            ours, theirs = os.openpty()
            streams = [theirs, theirs, theirs]
            self.outputs = {ours: OUTPUT}
            self._writing: Optional[int] = ours
            self.resize(wanted.size)
        else:
            pipes = [os.pipe(), os.pipe(), os.pipe()]
            streams = [pipes[0][0], pipes[1][1], pipes[2][1]]
            self.outputs = {pipes[1][0]: OUTPUT, pipes[2][0]: ERRORS}
            self._writing = pipes[0][1]
        for fd in [*self.outputs, self._writing]:
            os.set_blocking(fd, False)
        self.pid = _start(argv, variables, streams, self._has_terminal)
        for fd in set(streams):
            os.close(fd)

    def wanted(self, may_read: bool) -> Dict[int, int]:
        """Return for which events its descriptors are to be polled."""
        events = dict.fromkeys(self.outputs, select.POLLIN) if may_read else {}
        if self.input and self._writing is not None:
            events[self._writing] = events.get(self._writing, 0) | select.POLLOUT
        return events

    def read(self, fd: int) -> bytes:
        """Read from one of its outputs; empty at its end, or if there is nothing now."""
        try:
            data = os.read(fd, MAX_PAYLOAD)
        except BlockingIOError:
            return b""
        except OSError as exc:
            if exc.errno != errno.EIO:  # no process has the terminal open any more
                raise
            data = b""
        if not data:
            del self.outputs[fd]
            if fd == self._writing:
                self._writing = None
            os.close(fd)
        return data

    def take_input(self, data: bytes) -> None:
        """Keep bytes for its stdin; they are dropped if it has closed that."""
        if self._writing is not None:
            self.input += data

    def end_input(self) -> None:
        """Close its stdin after what is there; a terminal gets the character for that."""
        if self._has_terminal:
            self.take_input(b"\x04")
            return
        self._input_ends = True
        self._close_input_if_ended()

    def write_input(self, ready: Mapping[int, int]) -> None:
        """Write as much to its stdin as it takes."""
        fd = self._writing
        if fd is None or not ready.get(fd, 0) & (select.POLLOUT | select.POLLERR):
            return
        try:
            if self.input:
                del self.input[: os.write(fd, self.input[:MAX_PAYLOAD])]
        except BlockingIOError:
            return
        except OSError:  # it has closed its stdin, or the terminal is gone
            self.input.clear()
            self._input_ends = not self._has_terminal
        self._close_input_if_ended()

    def _close_input_if_ended(self) -> None:
        if self._input_ends and not self.input and self._writing is not None:
            os.close(self._writing)
            self._writing = None

    def resize(self, size: WindowSize) -> None:
        """Give its terminal another size."""
        if self._has_terminal and self._writing is not None:
            packed = struct.pack("HHHH", size.rows, size.columns, 0, 0)
            fcntl.ioctl(self._writing, termios.TIOCSWINSZ, packed)

    def signal(self, signum: int) -> None:
        """Signal its process group."""
        if self.status is None and self._container is not None:
            self._container.signal(signum)
        elif self.status is None:
            send_signal(-self.pid, signum)


def _argv(command: Optional[str], env: Mapping[bytes, bytes]) -> List[str]:
    if command is not None:
        return shell_command(command, env)
    shell = os.fsdecode(env.get(b"SHELL", b""))
    if os.path.isabs(shell) and os.access(shell, os.X_OK):
        return [shell]
    return shell_command("", env)[:1]


def _start(
    argv: List[str], env: Mapping[bytes, bytes], streams: List[int], has_terminal: bool
) -> int:
    """Fork and execute the shell; raises ``OSError`` if it cannot be executed."""
    me = os.getpid()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_shell(me, argv, env, streams, has_terminal, writing)
    os.close(writing)
    failure = os.read(reading, 16)  # ends empty when exec closes the other side
    os.close(reading)
    if failure:
        os.waitpid(pid, 0)
        raise OSError(int(failure), "%s: %s" % (argv[0], os.strerror(int(failure))))
    return pid


def _become_shell(
    parent: int,
    argv: List[str],
    env: Mapping[bytes, bytes],
    streams: List[int],
    has_terminal: bool,
    writing: int,
) -> NoReturn:
    try:
        os.setsid()
        for fd, stream in enumerate(streams):
            os.dup2(stream, fd)
        if has_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal_on_parents_death(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        default_signals(ignored_too=True)
        signal.set_wakeup_fd(-1)
        os.execve(argv[0], argv, env)
    except OSError as exc:
        os.write(writing, str(exc.errno).encode())
    finally:
        os._exit(CANNOT_RUN)
