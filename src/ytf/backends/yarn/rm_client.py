"""Calls the ResourceManager for clients, which have no event loop of their own."""

from __future__ import annotations

import _thread
import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

import msgspec

from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.hadoop.conf import Configuration, RmService, rm_addresses
from ytf.hadoop.rpc.client import RetryPolicy, rpc_settings
from ytf.hadoop.rpc.connection import RpcSettings
from ytf.hadoop.yarn.application_client import ApplicationClient

T = TypeVar("T")

ANSWER_S = 10.0
"""How long ResourceManagers may be silent: the two minutes of Hadoop's own clients look like a
hang."""
_FAILOVER = RetryPolicy(total_s=30.0, pause_s=0.5, silence_s=ANSWER_S)
"""With several ResourceManagers: how long to wait until one of them is active. If not even a
standby answers, there is nothing to wait for."""

_LONGEST_WAIT_S = 0.2


@dataclass(frozen=True)
class RmClient:
    """A client of a cluster's ResourceManager. Each call opens a connection of its own."""

    conf: Configuration
    user: str

    def call(self, request: Callable[[ApplicationClient], Awaitable[T]]) -> T:
        """Runs ``request`` on a connection and returns its answer.

        Raises the errors of :mod:`ytf.hadoop.rpc.errors`. A ResourceManager that
        does not listen or does not answer is reported within seconds. Of several
        ResourceManagers each is tried, and a failover is waited for.
        """
        return _run(partial(self._call, request))

    async def _call(self, request: Callable[[ApplicationClient], Awaitable[T]]) -> T:
        addresses = rm_addresses(self.conf, RmService.CLIENT)
        protocol = ApplicationClient.from_conf(
            self.conf,
            user=self.user,
            settings=self._settings(ANSWER_S / len(addresses)),
            retry_policy=_FAILOVER if len(addresses) > 1 else None,
        )
        try:
            async with protocol as rm:
                return await request(rm)
        except (UnreachableError, OutcomeUnknownError) as exc:
            error = UnreachableError if isinstance(exc, UnreachableError) else OutcomeUnknownError
            raise error(str(exc), hint=self._hint()) from exc

    def _settings(self, answer_s: float) -> RpcSettings:
        """The cluster's settings, with ``answer_s`` at most for each ResourceManager."""
        given = rpc_settings(self.conf)
        return msgspec.structs.replace(
            given,
            connect_timeout_s=min(given.connect_timeout_s, answer_s),
            call_timeout_s=min(given.call_timeout_s, answer_s),
        )

    def _hint(self) -> str:
        file = "yarn-site.xml"
        if self.conf.directory is not None:
            file = str(self.conf.directory / file)
        return (
            "see whether it runs, and whether yarn.resourcemanager.address"
            f" (or .hostname) in {file} is right"
        )


def _run(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a call in a thread of its own.

    This thread may have an event loop already, in a notebook. And it gets the signals: what
    their handlers raise would leave an event loop half made or half closed behind. It would
    also spoil the locks of ``threading``, so the thread is started and waited for without.
    """
    answered: SimpleQueue[Future[T]] = SimpleQueue()

    def run() -> None:
        answer: Future[T] = Future()
        try:
            answer.set_result(asyncio.run(work()))
        except BaseException as error:
            answer.set_exception(error)
        answered.put(answer)

    _thread.start_new_thread(run, ())
    while True:
        # A signal that comes just before Python waits is handled after it has waited.
        with suppress(Empty):
            return answered.get(timeout=_LONGEST_WAIT_S).result()
