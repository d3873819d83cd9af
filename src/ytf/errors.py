"""The one error tree. Everything ytf raises on purpose is a :class:`YtfError`.

::

    YtfError
    ├── SpecError            the user asked for something that makes no sense   (exit 2)
    ├── SettingsError        a setting or the surroundings are wrong            (exit 2)
    ├── RefusedError         a backend understood and said no                   (exit 1)
    ├── NotFoundError        no such job, task or log                           (exit 1)
    ├── UnreachableError     a peer could not be reached; nothing was done      (exit 1)
    ├── OutcomeUnknownError  the peer may or may not have done it               (exit 1)
    ├── JobFailedError       the job ended, and not well                        (exit 1)
    └── InternalError        a bug in ytf: please report it                     (exit 70)

A task's non-zero exit is data, never an exception.
"""

from __future__ import annotations

__all__ = [
    "InternalError",
    "JobFailedError",
    "NotFoundError",
    "OutcomeUnknownError",
    "RefusedError",
    "SettingsError",
    "SpecError",
    "UnreachableError",
    "YtfError",
]


class YtfError(Exception):
    """What happened, and optionally what to do next.

    ``str(error)`` is one sentence a user may read; ``hint`` is the next step.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class SpecError(YtfError, ValueError):
    """A job description is wrong. ``where`` names the place: ``groups.worker.count``, ``-m``."""

    exit_code = 2

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.where = where


class SettingsError(YtfError):
    """A settings file, an environment variable or the machine itself does not fit."""

    exit_code = 2


class RefusedError(YtfError):
    """The backend understood the request and refused it; nothing was changed."""


class NotFoundError(YtfError, LookupError):
    """There is no such job, task or log."""


class UnreachableError(YtfError, ConnectionError):
    """The peer could not be reached, and the call was certainly not executed."""


class OutcomeUnknownError(YtfError, ConnectionError):
    """The call was sent but no answer came: it may or may not have been executed."""


class JobFailedError(YtfError):
    """A job that was waited for ended FAILED or KILLED."""


class InternalError(YtfError):
    """An invariant of ytf itself was broken. Please report it with the whole message."""

    exit_code = 70
