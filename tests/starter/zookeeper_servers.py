"""Servers that say what no ZooKeeper would: what a test wants, to whoever connects."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GRANTED = struct.pack(">iiqi", 0, 30_000, 7, 16) + b"p" * 16 + b"\0"
"""The answer with which a server gives session 7."""
Behave = Callable[[socket.socket], None]


@contextmanager
def server(behave: Behave) -> Iterator[str]:
    """A server that does the same with each connection, and then closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        behave(connection)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def received(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def granting(then: Behave) -> Behave:
    """A server that gives a session and then behaves so."""

    def behave(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(framed(GRANTED))
        then(connection)

    return behave
