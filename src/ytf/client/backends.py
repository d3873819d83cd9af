"""From a job's id to the backend that knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ytf.backends import backend
from ytf.errors import NotFoundError, SettingsError
from ytf.specs.names import JobId

if TYPE_CHECKING:
    from ytf.backends.api import JobHandle

__all__ = ["backend", "open_job"]

_BY_PREFIX = {"local_": "local", "application_": "yarn"}


def open_job(text: str) -> JobHandle:
    """Find a job by its id, whose form tells the backend."""
    for prefix, name in _BY_PREFIX.items():
        if text.startswith(prefix):
            try:
                found = backend(name)
            except SettingsError as error:
                raise SettingsError(
                    f"{text} is a job of the backend {name}: {error}", hint=error.hint
                ) from error
            return found.open(JobId(text))
    raise NotFoundError(
        f"{text!r} is not a job id",
        hint="ids look like local_… or application_…; `ytf list` shows yours",
    )
