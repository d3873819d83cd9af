"""Awaits calls that block, each in a thread of its own, for ``ytf.aio`` (ADR 38).

A thread ends with its call. The threads of asyncio's own pool are few, and other code needs
them; ours may wait for days.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from functools import partial
from queue import Full, Queue
from typing import Generic, TypeVar

from ytf.client.cancellation import check_cancelled, make_cancellable

T = TypeVar("T")

THREAD_NAME = "ytf-aio"
_MOST_ITEMS = 1000
"""How many items of an iterator may wait for a slow reader."""
_FULL_S = 0.2
_AWAKE_S = 0.5


async def call_in_thread(
    function: Callable[[], T],
    *,
    finish: bool = False,
    undo: Callable[[T], object] | None = None,
) -> T:
    """Return what a function returns that blocks, or raise what it raises.

    If this is cancelled, the function is interrupted where it calls ``check_cancelled``, and
    nobody waits for that: its outcome is dropped. With ``finish`` its end is waited for, and
    if it has returned all the same, ``undo`` is called with the value. A second cancellation
    leaves at once.
    """
    call = _Call(function)
    try:
        await asyncio.wait({call.future})
    except asyncio.CancelledError:
        call.interrupt()
        if finish:
            await asyncio.wait({call.future})
            if undo is not None and call.future.exception() is None:
                await call_in_thread(partial(undo, call.future.result()))
        raise
    return call.future.result()


async def iterate_in_thread(make: Callable[[], Iterator[T]]) -> AsyncGenerator[T, None]:
    """Yield the items of an iterator that blocks, as they come.

    A slow reader holds it up. When this is closed or cancelled, the iterator is interrupted
    where it calls ``check_cancelled``.
    """
    loop = asyncio.get_running_loop()
    items: Queue[T] = Queue(_MOST_ITEMS)
    news = asyncio.Event()

    def pass_on() -> None:
        for item in make():
            while True:
                check_cancelled()
                with suppress(Full):
                    items.put(item, timeout=_FULL_S)
                    break
            loop.call_soon_threadsafe(news.set)

    call = _Call(pass_on)
    call.future.add_done_callback(lambda _: news.set())
    try:
        is_over = False
        while not is_over:
            await news.wait()
            news.clear()
            # Asked before the queue is emptied, so that the last round yields everything.
            is_over = call.future.done()
            while not items.empty():
                yield items.get_nowait()
        call.future.result()
    finally:
        call.interrupt()


class _Call(Generic[T]):
    """A function that runs in a thread of its own, with the context of its caller."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._interrupts = threading.Semaphore(0)
        self.future: asyncio.Future[T] = self._loop.create_future()
        # Nobody may ask for it; asyncio complains of exceptions that nobody has asked for.
        self.future.add_done_callback(lambda future: future.exception())
        context = contextvars.copy_context()
        context.run(make_cancellable, self._take_interrupt)
        # No daemon: at the exit of the program it still clears up what it shows.
        threading.Thread(target=context.run, args=(self._run,), name=THREAD_NAME).start()
        self._keep_awake()

    def interrupt(self) -> None:
        """Interrupt the function once."""
        self._interrupts.release()

    def _keep_awake(self) -> None:
        """Wake the loop now and then while the function runs.

        ipykernel turns a notebook's stop button into a callback of the loop, and does not wake
        the loop for it.
        """
        if not self.future.done():
            self._loop.call_later(_AWAKE_S, self._keep_awake)

    def _take_interrupt(self) -> bool:
        return self._interrupts.acquire(blocking=False) or self._loop.is_closed()

    def _run(self) -> None:
        try:
            value = self._function()
        except BaseException as error:
            self._deliver(partial(self.future.set_exception, error))
        else:
            self._deliver(partial(self.future.set_result, value))

    def _deliver(self, outcome: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody awaits it any more
            self._loop.call_soon_threadsafe(outcome)
