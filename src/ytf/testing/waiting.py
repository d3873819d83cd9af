"""Waiting for a condition, with a deadline and a story to tell when it does not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_S = 0.01


def eventually(
    predicate: Callable[[], T],
    timeout_s: float = 10.0,
    describe: str | Callable[[], str] = "",
) -> T:
    """Return the first true value of ``predicate``; AssertionError after ``timeout_s``.

    ``describe`` says what was waited for, or is called to say how things stand
    then. For what other processes do: within one process wait on an event.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= deadline:
            story = describe() if callable(describe) else describe
            raise AssertionError(f"not within {timeout_s:g} s: {story or predicate}")
        time.sleep(_POLL_S)
