"""The errors of ytf. Everything that ytf raises on purpose is a :class:`YtfError`.

::

    YtfError
    ├── SpecError            the user asked for something that makes no sense   (exit 2)
    ├── SettingsError        a setting, a variable or this machine prevents it  (exit 2)
    ├── RefusedError         a backend understood the request and refused it    (exit 1)
    ├── NotFoundError        no such job, task or log                           (exit 1)
    ├── UnreachableError     a peer could not be reached; nothing was done      (exit 1)
    ├── OutcomeUnknownError  the peer may or may not have done it               (exit 1)
    ├── JobFailedError       the job ended FAILED or KILLED                     (exit 1)
    │   └── RunFailed        a function raised in a task, or left no result     (exit 1)
    └── InternalError        a bug in ytf: please report it                     (exit 70)

A task's non-zero exit is data, never an exception.

The functions make parts of error messages: quoted values, places in a spec,
suggested words. This module imports nothing when it is loaded, because every
process of ytf loads it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# The errors; `ytf help` lists them by this.
__all__ = [
    "InternalError",
    "JobFailedError",
    "NotFoundError",
    "OutcomeUnknownError",
    "RefusedError",
    "RunFailed",
    "SettingsError",
    "SpecError",
    "UnreachableError",
    "YtfError",
]

_LONGEST = 60
"""The longest text that an error message quotes in full."""


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
    """A settings file, a variable or the state of this machine prevents the command."""

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


class RunFailed(JobFailedError):  # noqa: N818 (tf-yarn's users know it by this name)
    """A function of a job did not return: it raised in a task, or the task or the job died.

    ``task`` is the first that failed, ``worker:1``, and ``node`` where it ran, as far as that
    is known. ``remote_traceback`` is the text of the traceback there; ``__cause__`` the
    exception itself, if it can be unpickled here.
    """

    def __init__(
        self,
        message: str,
        *,
        task: str | None = None,
        node: str | None = None,
        remote_traceback: str = "",
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.task = task
        self.node = node
        self.remote_traceback = remote_traceback


class InternalError(YtfError):
    """An invariant of ytf itself was broken. Please report it with the whole message."""

    exit_code = 70


def shown(value: object) -> str:
    """A value as an error message quotes it: always one short line."""
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else value[:_LONGEST] + "…")
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        # Python refuses to print integers beyond some thousand digits.
        return str(value) if value.bit_length() <= 128 else "a number of many digits"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"a {type(value).__name__}"


def under(path: str, key: object) -> str:
    """The path of a key: ``under("groups", "worker")`` is ``groups.worker``."""
    if isinstance(key, str):
        name = key if key.isprintable() and 0 < len(key) <= _LONGEST else shown(key)
    else:
        name = shown(key)
    return f"{path}.{name}" if path else name


def did_you_mean(
    word: str, choices: Iterable[str], *, otherwise: str | None = None, likeness: float = 0.6
) -> str | None:
    """A hint that names the choice nearest to a word; else ``otherwise``, else all choices.

    ``likeness`` is how near it must be, from 0 to 1.
    """
    import difflib

    by_folded = {choice.casefold(): choice for choice in choices}
    near = difflib.get_close_matches(word[:_LONGEST].casefold(), by_folded, n=1, cutoff=likeness)
    if near:
        return f"did you mean {by_folded[near[0]]!r}?"
    if otherwise is not None or not by_folded:
        return otherwise
    return f"there is {listed(by_folded.values())}"


def listed(words: Iterable[str]) -> str:
    """Words as a list in a sentence: ``'a', 'b' and 'c'``."""
    *most, last = [repr(word) for word in words]
    return f"{', '.join(most)} and {last}" if most else last
