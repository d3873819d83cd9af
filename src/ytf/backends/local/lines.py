"""JSON lines over a socket that never blocks: the node's end of the master's line."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Message = dict[str, Any]

_CHUNK = 65536


class LineSocket:
    """Messages in and out over one file descriptor, which it owns.

    What cannot be written at once waits in memory; ``pending`` says so and
    :meth:`flush` tries again.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.ended = False
        self._received = b""
        self._to_send = b""
        os.set_blocking(fd, False)

    @property
    def pending(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._to_send)

    def receive(self) -> list[Message]:
        """The messages that have come whole. ``ended`` is set when no more can come.

        Raises ``ValueError`` when a line is not JSON.
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
        """Write what the other side takes. What a dead one did not take is dropped."""
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
        """Let go of the descriptor."""
        os.close(self.fd)
        self.ended = True
        self._to_send = b""
