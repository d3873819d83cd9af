"""The ResourceManager for clients, who know no event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.hadoop.addresses import RmService, rm_addresses
from ytf.hadoop.conf import Configuration
from ytf.hadoop.rpc.settings import Patience, RpcSettings, rpc_settings
from ytf.hadoop.yarn.client import ClientProtocol

T = TypeVar("T")

ANSWER_S = 20.0
"""How long one ResourceManager may take: the two minutes of Hadoop's clients look like a hang."""
_FAILOVER = Patience(total_s=30.0, pause_s=0.5)
"""How long one of several may take to become the active one."""


@dataclass(frozen=True)
class ResourceManager:
    """Whoever answers for a cluster; each question has a connection of its own."""

    conf: Configuration
    user: str

    def ask(self, question: Callable[[ClientProtocol], Awaitable[T]]) -> T:
        """The answer, or an error of :mod:`ytf.hadoop.rpc.errors`.

        Where nobody listens, or nobody answers, that is said within seconds;
        of several ResourceManagers each is tried, and a failover is waited for.
        """
        return _run(self._ask(question))

    async def _ask(self, question: Callable[[ClientProtocol], Awaitable[T]]) -> T:
        addresses = rm_addresses(self.conf, RmService.CLIENT)
        line = ClientProtocol.from_conf(
            self.conf,
            user=self.user,
            settings=self._settings(),
            patience=_FAILOVER if len(addresses) > 1 else None,
        )
        try:
            async with line as rm:
                return await question(rm)
        except (UnreachableError, OutcomeUnknownError) as exc:
            kind = UnreachableError if isinstance(exc, UnreachableError) else OutcomeUnknownError
            raise kind(str(exc), hint=self._hint()) from exc

    def _settings(self) -> RpcSettings:
        given = rpc_settings(self.conf)
        return msgspec.structs.replace(
            given,
            connect_timeout_s=min(given.connect_timeout_s, ANSWER_S),
            call_timeout_s=min(given.call_timeout_s, ANSWER_S),
        )

    def _hint(self) -> str:
        file = "yarn-site.xml"
        if self.conf.directory is not None:
            file = str(self.conf.directory / file)
        return (
            "see whether it runs, and whether yarn.resourcemanager.address"
            f" (or .hostname) in {file} is right"
        )


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
