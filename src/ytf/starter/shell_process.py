"""Runs one shell in a container and relays it to the client of ``ytf shell``.

A process of its own, so that a starter stays small and nothing that goes wrong
here concerns the task. It reads its configuration from stdin; stdout is the
client's connection, stderr the starter's log. It adopts what the shell abandons
and ends when

* the shell, or the command, has ended: what that left running is killed, and
  the client told how it ended once the last output is sent;
* the client has gone, or somebody else writes into its connection;
* the starter ends (SIGTERM) or dies (Linux then sends the same).

In each case every process below it is dead before it exits with 0.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

from ytf.log import log
from ytf.starter.process_tree import (
    become_subreaper,
    kill_descendants,
    reap,
    signal_on_parents_death,
)
from ytf.starter.runner import CANNOT_RUN, ContainerAccess
from ytf.starter.running_shell import RunningShell
from ytf.starter.threads import bug_text
from ytf.wire.frames import (
    FROM_CLIENT,
    FROM_STARTER,
    ForgedFrameError,
    FrameReader,
    FrameWriter,
    keep_alive,
)
from ytf.wire.shell_messages import (
    END_OF_INPUT,
    EXIT,
    INPUT,
    OPEN,
    RESIZE,
    SIGNAL,
    ExitMessage,
    OpenMessage,
    WindowSize,
)
from ytf.wire.untrusted import as_int, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional, Tuple

    from ytf.starter.engine_shell import ShellContainer

OPEN_TIMEOUT_S = 10.0
"""How long a client may take to say what it wants."""
BUFFER_LIMIT = 128 * 1024
"""Bytes that wait for a peer that does not read; more are not taken from the other one."""
QUIET_S = 1.0
"""After the end of a shell: how long a stream that somebody else keeps open is read without news"""
EXIT_MESSAGE_S = 1.0
"""How long sending the exit message may take when the container ends."""


class _EndError(Exception):
    """The shell has to end now, and why."""


class _ClientGoneError(Exception):
    """There is nobody to relay to any more."""


class Config:
    """What the starter wrote to stdin."""

    def __init__(self, data: bytes) -> None:
        value = json.loads(data)
        self.key = bytes.fromhex(value["key"])
        self.task: str = value["task"]
        self.starter: int = value["starter"]
        self.env = _variables(value["env"])
        self.container: Optional[ShellContainer] = None
        if value["container"] is not None:
            # Only tasks with an image need it.
            from ytf.starter.engine_shell import ShellContainer

            given = dict(value["container"], env=_variables(value["container"]["env"]))
            self.container = ShellContainer(ContainerAccess(**given))

    def kill_all(self, client_has_ended: bool) -> None:
        """Kill every process of the shell and return once they are dead.

        ``client_has_ended``: the first of them here has, by itself.
        """
        container = self.container
        if container is not None:
            container.kill_processes()
        kill_descendants(lambda pid, status: None)
        if container is not None and not client_has_ended:
            container.kill_late_processes()


def _variables(pairs: List[Tuple[str, str]]) -> Dict[bytes, bytes]:
    return {name.encode("latin-1"): text.encode("latin-1") for name, text in pairs}


def main() -> int:
    """Serve one client; returns 0 once every process that was started here is dead."""
    with open(0, "rb", closefd=False) as file:
        data = file.read()
    try:
        config = Config(data)
    except ValueError:
        return 0  # cut short: the client or the starter went before it had begun
    os.setsid()  # away from the starter's group, which a node may kill as a whole
    become_subreaper()
    connection = socket.socket(fileno=os.dup(1))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    server = ShellServer(config, connection)
    try:
        with connection:
            server.run()
    except Exception as exc:
        log(bug_text(exc, "shell"))
    finally:
        config.kill_all(server.has_ended)
    return 0


class ShellServer:
    """One client, and the shell it wanted."""

    def __init__(self, config: Config, connection: socket.socket) -> None:
        self._config = config
        self._sock = connection
        self._reader = FrameReader(config.key, FROM_CLIENT)
        self._writer = FrameWriter(config.key, FROM_STARTER)
        self._shell: Optional[RunningShell] = None
        self._outgoing = bytearray()
        self._deadline: Optional[float] = time.monotonic() + OPEN_TIMEOUT_S
        self._exit: Optional[ExitMessage] = None
        self._is_told = False
        self._is_ending = False
        self._waking = self._handle_signals()

    @property
    def has_ended(self) -> bool:
        """Whether the first process of the shell has ended by itself."""
        return self._shell is None or self._shell.status is not None

    def run(self) -> None:
        """Relay until the client has been told the end, or has gone."""
        self._sock.setblocking(False)
        keep_alive(self._sock)
        try:
            self._check_starter()
            while not (self._is_told and not self._outgoing):
                self._step()
        except _EndError as exc:
            log("a shell in %s is ended: %s" % (self._config.task, exc))
            self._config.kill_all(self.has_ended)
            self._send_exit(str(exc))
        except _ClientGoneError:
            return
        except (ForgedFrameError, ValueError) as exc:
            text = "a shell in %s is ended: what came on its connection is not its client's: %s"
            log(text % (self._config.task, exc))

    def _handle_signals(self) -> int:
        reading, writing = os.pipe()
        for fd in (reading, writing):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

        def wake(signum: int, _: object) -> None:
            self._is_ending = self._is_ending or signum == signal.SIGTERM

        for signum in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signum, wake)
        signal_on_parents_death(signal.SIGTERM)
        return reading

    def _check_starter(self) -> None:
        if os.getppid() != self._config.starter:
            raise _EndError("the starter of %s was killed" % self._config.task)

    # One round

    def _step(self) -> None:
        poll = select.poll()
        shell = self._shell
        wanted = {self._waking: select.POLLIN, self._sock.fileno(): select.POLLRDHUP}
        if self._outgoing:
            wanted[self._sock.fileno()] |= select.POLLOUT
        if shell is None or len(shell.input) < BUFFER_LIMIT:
            wanted[self._sock.fileno()] |= select.POLLIN
        if shell is not None:
            wanted.update(shell.wanted(len(self._outgoing) < BUFFER_LIMIT))
        for fd, events in wanted.items():
            poll.register(fd, events)
        ready = dict(poll.poll(self._timeout_ms()))
        if self._waking in ready:
            self._take_signals()
        self._serve_client(ready.get(self._sock.fileno(), 0))
        if shell is not None:
            self._serve_shell(shell, ready)
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise _EndError("it did not say what to run")

    def _timeout_ms(self) -> Optional[float]:
        if self._exit is not None and not self._is_told:
            return QUIET_S * 1000
        if self._deadline is not None:
            return max(self._deadline - time.monotonic(), 0.0) * 1000 + 1
        return None

    def _take_signals(self) -> None:
        os.read(self._waking, 4096)
        if self._is_ending:
            self._check_starter()
            raise _EndError("the container of %s ends" % self._config.task)
        shell = self._shell
        reap(self._on_reaped)
        if shell is not None and shell.status is not None and self._exit is None:
            # Nothing that it left may keep its output open, or go on.
            self._config.kill_all(client_has_ended=True)
            self._exit = self._exit_message(shell.status)

    def _on_reaped(self, pid: int, status: int) -> None:
        if self._shell is not None and pid == self._shell.pid:
            self._shell.status = status

    # The client

    def _serve_client(self, events: int) -> None:
        try:
            if events & select.POLLIN:
                data = self._sock.recv(64 * 1024)
                if not data:
                    raise _ClientGoneError
                self._reader.feed(data)
                frame = self._reader.next()
                while frame is not None:
                    self._take_frame(*frame)
                    frame = self._reader.next()
            elif events & (select.POLLRDHUP | select.POLLHUP | select.POLLERR):
                raise _ClientGoneError
            if self._outgoing:
                del self._outgoing[: self._sock.send(self._outgoing)]
        except BlockingIOError:
            return
        except OSError as exc:
            raise _ClientGoneError from exc

    def _take_frame(self, kind: int, payload: bytes) -> None:
        shell = self._shell
        if shell is None:
            if kind != OPEN:
                raise ValueError("a message %d before what to run" % kind)
            self._open(OpenMessage.decode(payload))
        elif kind == INPUT:
            shell.take_input(payload)
        elif kind == END_OF_INPUT:
            shell.end_input()
        elif kind == RESIZE:
            shell.resize(WindowSize.decode(payload))
        elif kind == SIGNAL:
            shell.signal(as_int(read_json(payload), 1, 64))
        else:
            raise ValueError("a message %d" % kind)

    def _open(self, wanted: OpenMessage) -> None:
        self._deadline = None
        try:
            self._shell = RunningShell(wanted, self._config.env, self._config.container)
        except OSError as exc:
            text = "%s cannot be run: %s" % (wanted.command or "a shell", exc.strerror or exc)
            self._tell(ExitMessage(CANNOT_RUN, reason=text[:300]))

    def _exit_message(self, status: int) -> ExitMessage:
        container = self._config.container
        if container is not None and status != 0 and container.has_ended():
            text = "the program of %s has ended, and with it its container" % self._config.task
            return ExitMessage(signal=signal.SIGKILL.value, reason=text)
        if os.WIFSIGNALED(status):
            return ExitMessage(signal=os.WTERMSIG(status))
        return ExitMessage(os.WEXITSTATUS(status))

    def _tell(self, end: ExitMessage) -> None:
        self._outgoing += self._writer.frame(EXIT, end.encode())
        self._is_told = True

    def _send_exit(self, reason: str) -> None:
        """Tell the client that its shell was killed, if that goes quickly."""
        if self._is_told:
            return
        self._tell(ExitMessage(signal=signal.SIGKILL.value, reason=reason))
        try:
            self._sock.settimeout(EXIT_MESSAGE_S)
            self._sock.sendall(self._outgoing)
        except OSError:
            return  # it notices that the connection is closed

    # The shell

    def _serve_shell(self, shell: RunningShell, ready: Mapping[int, int]) -> None:
        shell.write_input(ready)
        is_quiet = True
        for fd, kind in list(shell.outputs.items()):
            if ready.get(fd, 0):
                data = shell.read(fd)
                if data:
                    is_quiet = False
                    self._outgoing += self._writer.frame(kind, data)
        if self._exit is None or self._is_told:
            return
        has_room = len(self._outgoing) < BUFFER_LIMIT
        if not shell.outputs or (is_quiet and has_room and not ready):
            self._tell(self._exit)


if __name__ == "__main__":
    sys.exit(main())
