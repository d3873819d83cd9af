"""Wait for a condition with a deadline, in tests: ``eventually`` and ``eventually_async``.

They poll. Use them for what other processes do; within one process wait on an
event where there is one.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

_TIMEOUT_S = 60.0
_POLL_S = 0.01


def eventually(
    condition: Callable[[], T],
    timeout_s: float = _TIMEOUT_S,
    describe: str | Callable[[], str] = "",
) -> T:
    """Return the first true value of ``condition``; AssertionError after ``timeout_s``.

    ``describe`` says what is waited for. If it is a function, it is called at
    the deadline and says what is the case then.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        _check(deadline, timeout_s, describe or repr(condition))
        time.sleep(_POLL_S)


@overload
async def eventually_async(
    condition: Callable[[], Awaitable[T]],
    timeout_s: float = ...,
    describe: str | Callable[[], str] = ...,
    *,
    accept: Callable[[T], object] = ...,
    poll_s: float = ...,
) -> T: ...
@overload
async def eventually_async(
    condition: Callable[[], T],
    timeout_s: float = ...,
    describe: str | Callable[[], str] = ...,
    *,
    accept: Callable[[T], object] = ...,
    poll_s: float = ...,
) -> T: ...
async def eventually_async(
    condition: Callable[[], object],
    timeout_s: float = _TIMEOUT_S,
    describe: str | Callable[[], str] = "",
    *,
    accept: Callable[..., object] = bool,
    poll_s: float = _POLL_S,
) -> object:
    """As :func:`eventually`, while the event loop runs. ``condition`` may be a coroutine function.

    Returns the first value that ``accept`` accepts: by default the first true one.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if accept(value):
            return value
        _check(deadline, timeout_s, describe or f"the last value is {value!r}")
        await asyncio.sleep(poll_s)


def _check(deadline: float, timeout_s: float, describe: str | Callable[[], str]) -> None:
    if time.monotonic() >= deadline:
        description = describe() if callable(describe) else describe
        raise AssertionError(f"not within {timeout_s:g} s: {description}")
