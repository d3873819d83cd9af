"""What can be wrong with a log file."""

from __future__ import annotations

from ytf.errors import YtfError


class LogDamagedError(YtfError):
    """An aggregated log is cut off or changed: what it says cannot be true."""


class LogFormatError(YtfError):
    """A log is in a form that we do not read."""
