"""The messages of ``ytf shell``: what the frames of its stream mean (docs/protocols.md §2).

::

    client → starter   OPEN, then INPUT, END_OF_INPUT, RESIZE and SIGNAL as they come
    starter → client   OUTPUT and ERRORS as they come, then EXIT; nothing follows it
"""

from __future__ import annotations

import json

from ytf.wire.untrusted import as_int, read_json, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

OPEN = 1
"""What to run, as JSON: an :class:`OpenMessage`."""
INPUT = 2
"""Bytes for the command's stdin, or what was typed."""
END_OF_INPUT = 3
"""Nothing more for stdin."""
RESIZE = 4
"""The terminal has another size: JSON ``[rows, columns]``."""
SIGNAL = 5
"""A signal for the command's process group: JSON ``number``."""
OUTPUT = 16
"""Bytes from the command's stdout, or from its terminal."""
ERRORS = 17
"""Bytes from its stderr."""
EXIT = 18
"""How it ended, as JSON: an :class:`ExitMessage`. All its processes are dead."""

_LONGEST_TEXT = 300
_LARGEST_SIZE = 0xFFFF


class WindowSize:
    """Rows and columns of a terminal."""

    __slots__ = ("columns", "rows")

    def __init__(self, rows: int, columns: int) -> None:
        self.rows = rows
        self.columns = columns

    def encode(self) -> bytes:
        """Return the payload of a ``RESIZE``."""
        return json.dumps([self.rows, self.columns]).encode()

    @classmethod
    def decode(cls, payload: bytes) -> WindowSize:
        """Read the payload of a ``RESIZE``; raises ``ValueError``."""
        return cls.of_json(read_json(payload))

    @classmethod
    def of_json(cls, value: Any) -> WindowSize:
        """Read two numbers; raises ``ValueError``."""
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError("%s is not the size of a terminal" % shown(value))
        return cls(as_int(value[0], 0, _LARGEST_SIZE), as_int(value[1], 0, _LARGEST_SIZE))


class OpenMessage:
    """What a client asks for.

    ``command`` None: an interactive shell; ``size`` None: without a terminal; ``term``
    is the terminal's ``TERM``.
    """

    __slots__ = ("command", "size", "term")

    def __init__(self, command: Optional[str], size: Optional[WindowSize], term: str) -> None:
        self.command = command
        self.size = size
        self.term = term

    def encode(self) -> bytes:
        """Return the payload of an ``OPEN``."""
        size = None if self.size is None else [self.size.rows, self.size.columns]
        value = {"command": self.command, "size": size, "term": self.term}
        return json.dumps(value).encode()

    @classmethod
    def decode(cls, payload: bytes) -> OpenMessage:
        """Read the payload of an ``OPEN``; raises ``ValueError``."""
        value = read_json(payload)
        if not isinstance(value, dict):
            raise ValueError("%s is not what to run" % shown(value))
        command, size = value.get("command"), value.get("size")
        if command is not None and (not isinstance(command, str) or "\0" in command):
            raise ValueError("%s is not a command" % shown(command))
        return cls(
            command,
            None if size is None else WindowSize.of_json(size),
            _text(value.get("term")),
        )


class ExitMessage:
    """How a command ended: an exit code or a signal, and the reason where we know more."""

    __slots__ = ("exit_code", "reason", "signal")

    def __init__(
        self, exit_code: Optional[int] = None, signal: Optional[int] = None, reason: str = ""
    ) -> None:
        self.exit_code = exit_code
        self.signal = signal
        self.reason = reason

    def encode(self) -> bytes:
        """Return the payload of an ``EXIT``."""
        value = {"exit_code": self.exit_code, "signal": self.signal, "reason": self.reason}
        return json.dumps(value).encode()

    @classmethod
    def decode(cls, payload: bytes) -> ExitMessage:
        """Read the payload of an ``EXIT``; raises ``ValueError``."""
        value = read_json(payload)
        if not isinstance(value, dict):
            raise ValueError("%s is no end of a command" % shown(value))
        code, signum = value.get("exit_code"), value.get("signal")
        return cls(
            None if code is None else as_int(code, 0, 255),
            None if signum is None else as_int(signum, 1, 64),
            _text(value.get("reason")),
        )


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("%s is not a text" % shown(value))
    return value[:_LONGEST_TEXT]
