"""Sends and receives JSON lines over a non-blocking socket: the node's end of the connection."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Message = dict[str, Any]

_CHUNK = 65536


class JsonLineSocket:
    """Sends and receives messages over one file descriptor, and owns it.

    What cannot be written at once is kept in memory. Then ``pending`` is True,
    and :meth:`flush` tries again.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.ended = False
        self._received = b""
        self._to_send = b""
        os.set_blocking(fd, False)

    @property
    def pending(self) -> bool:
        """Whether there is data that could not be written yet."""
        return bool(self._to_send)

    def receive(self) -> list[Message]:
        """Return the messages that have arrived completely.

        Sets ``ended`` when the other side has closed. Raises ``ValueError`` for
        a line that is not JSON.
        """
        while not self.ended:
            try:
                chunk = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                break
            except ConnectionResetError:
                chunk = b""
            self.ended = not chunk
            self._received += chunk
        *lines, self._received = self._received.split(b"\n")
        return [json.loads(line) for line in lines]

    def send(self, message: Message) -> None:
        """Write a message, or keep it until the other side reads."""
        self._to_send += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Write as much as the socket takes. If the other side is gone, drop the rest."""
        while self._to_send:
            try:
                written = os.write(self.fd, self._to_send)
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                self._to_send = b""
                return
            self._to_send = self._to_send[written:]

    def close(self) -> None:
        """Close the file descriptor."""
        os.close(self.fd)
        self.ended = True
        self._to_send = b""
