"""The ResourceManager for clients, who know no event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from ytf.hadoop.conf import Configuration
from ytf.hadoop.yarn.client import ClientProtocol

T = TypeVar("T")


@dataclass(frozen=True)
class ResourceManager:
    """Whoever answers for a cluster; each question has a connection of its own."""

    conf: Configuration
    user: str

    def ask(self, question: Callable[[ClientProtocol], Awaitable[T]]) -> T:
        """The answer, or an error of :mod:`ytf.hadoop.rpc.errors`."""
        return _run(self._ask(question))

    async def _ask(self, question: Callable[[ClientProtocol], Awaitable[T]]) -> T:
        async with ClientProtocol.from_conf(self.conf, user=self.user) as rm:
            return await question(rm)


def _run(asking: Coroutine[object, object, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(asking)
    # Called from within a loop, as a notebook does: it needs a thread of its own.
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(asyncio.run(asking))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return answer.result()
