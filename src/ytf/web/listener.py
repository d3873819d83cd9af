"""Accepts the connections of the HTTP server, and keeps descriptors free for everything else.

The journal, HDFS and YARN need descriptors, too. If connections could take them
all, anybody could end a job by connecting often enough. asyncio's own server
accepts whatever comes, so this one accepts by itself.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable

from ytf.log import LimitedLog
from ytf.web.unauthenticated import UnauthenticatedConnections

_BACKLOG = 4096
_BATCH = 64
"""Connections accepted at a time: those accepted before must be heard in between."""
_PAUSE_S = 0.1
_RESERVED = 128
"""Descriptors that connections never take."""


class Listener:
    """Accepts connections on one port, at most as many as there are descriptors for.

    Where all are taken, the oldest unauthenticated one makes room. Authenticated
    ones stay. ``lost`` must be called when a connection is closed.
    """

    def __init__(
        self,
        sock: socket.socket,
        make_connection: Callable[[], asyncio.BaseProtocol],
        unauthenticated: UnauthenticatedConnections,
        most: int,
    ) -> None:
        self._socket = sock
        self._make_connection = make_connection
        self._unauthenticated = unauthenticated
        self._most = most
        self._open = 0
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._paused: asyncio.TimerHandle | None = None
        self._log = LimitedLog()
        sock.listen(_BACKLOG)
        sock.setblocking(False)
        self._loop.add_reader(sock, self._accept)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._socket.getsockname()[1])

    def lost(self) -> None:
        """Note that a connection is closed."""
        self._open -= 1

    async def close(self) -> None:
        """Stop to listen."""
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        if self._connecting:
            await asyncio.wait(self._connecting)

    def _accept(self) -> None:
        for _ in range(_BATCH):
            is_full = self._open >= self._most
            if is_full and self._unauthenticated.close_oldest():
                return  # its descriptor is free in the loop's next round
            try:
                sock, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._log.write(f"no connection can be accepted: {error}")
                self._pause()
                return
            if is_full:
                sock.close()
                self._log.write(
                    f"a connection of {peer[0]} was refused: {self._most} are open, and all belong "
                    "to this job; a higher limit of open files (ulimit -n) allows more tasks"
                )
                continue
            self._open += 1
            sock.setblocking(False)
            task = self._loop.create_task(self._connect(sock))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, sock: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_connection, sock)
        except OSError:
            # The peer has gone already.
            sock.close()
            self.lost()

    def _pause(self) -> None:
        self._loop.remove_reader(self._socket)
        self._paused = self._loop.call_later(
            _PAUSE_S, self._loop.add_reader, self._socket, self._accept
        )


def raise_descriptor_limit() -> int:
    """Raise the limit of open files to the maximum; returns how many connections may take.

    Every starter keeps two connections, so the usual limit would allow 500 starters only.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return 1 << 30
    return max(most - _RESERVED, most // 2)
