"""The connections whose peers have not shown the job's secret: how many, and what they hold.

Anybody who reaches the port can open connections and send bytes. All of them
together get a fixed number of connections and of bytes; beyond that the oldest
one is closed. A peer that knows the secret shows it with its first bytes, so it
has left this set before its turn to be closed comes.
"""

from __future__ import annotations

from typing import Protocol


class _Closable(Protocol):
    def abort(self) -> None: ...


class UnauthenticatedConnections:
    """Closes the oldest connection while there are more than ``most``, or ``most_bytes`` of them.

    ``shed`` counts those that were closed.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._held: dict[_Closable, int] = {}
        self.bytes = 0
        self.shed = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, connection: _Closable) -> None:
        """Take in a new connection."""
        self._held[connection] = 0
        if len(self._held) > self._most:
            self.close_oldest()

    def discard(self, connection: _Closable) -> None:
        """Forget a connection: it is authenticated, or closed."""
        self.bytes -= self._held.pop(connection, 0)

    def hold(self, connection: _Closable, count: int) -> None:
        """Note how many bytes are buffered for a connection."""
        before = self._held.get(connection)
        if before is None:
            return
        self._held[connection] = count
        self.bytes += count - before
        while self.bytes > self._most_bytes:
            self.close_oldest()

    def close_oldest(self) -> bool:
        """Close the oldest connection; False if there is none."""
        oldest = next(iter(self._held), None)
        if oldest is None:
            return False
        self.discard(oldest)
        self.shed += 1
        oldest.abort()
        return True
