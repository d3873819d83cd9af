"""Confines programs at the user's terminal as the node does those in containers of a local job."""

from __future__ import annotations

import array  # noqa: F401  socket.send_fds imports it, and after a fork nothing may be imported
import socket
import threading
from collections.abc import Callable

from ytf.backends.local.loopback import (
    ListenSupervisor,
    UnsupportedError,
    confine_thread,
    warning_text,
)


class TerminalLoopback:
    """Lets only this machine reach the TCP servers of programs: see ``backends/local/loopback``.

    A program's reaper calls :meth:`confine` and sends what supervises it over a
    socket; a thread of this process then answers. ``warn`` is called, once, if
    the kernel does not let us.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._has_warned = False
        self._receiving, self._sending = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threading.Thread(target=self._receive, name="loopback", daemon=True).start()

    def confine(self) -> None:
        """Confine what this process starts. Must be called in the reaper of a program."""
        try:
            fd = confine_thread()
        except UnsupportedError as exc:
            self._sending.send(str(exc).encode())
            return
        if fd is not None:
            socket.send_fds(self._sending, [b"supervise"], [fd])

    def close(self) -> None:
        """Take no more programs; those that run are supervised to their end."""
        self._sending.close()

    def _receive(self) -> None:
        with self._receiving:
            while True:
                data, fds, _, _ = socket.recv_fds(self._receiving, 4096, 1)
                if not data:
                    return
                if not fds:
                    self._tell(data.decode())
                for fd in fds:
                    supervisor = ListenSupervisor(fd)
                    serve = threading.Thread(
                        target=supervisor.serve, args=(self._tell,), name="listen", daemon=True
                    )
                    serve.start()

    def _tell(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._warn(f"note: {warning_text(why)}")
