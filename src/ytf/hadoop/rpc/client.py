"""``RpcClient``: calls a service that has several addresses, one of which is active.

Mirrors ``RetryInvocationHandler`` with YARN's ``RMFailoverProxyProvider``. The
next address is tried when nothing listens, the connection breaks, or the server
answers that it is not the active one; never after any other answer. Timeouts
and retries come from the cluster's configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ytf.errors import OutcomeUnknownError, SettingsError, YtfError
from ytf.hadoop.conf import Address, Configuration
from ytf.hadoop.rpc.connection import (
    Answer,
    Method,
    Request,
    RpcConnection,
    RpcSettings,
    connect,
    place,
)
from ytf.hadoop.rpc.errors import NotExecutedError, RetriableError, StandbyError
from ytf.hadoop.security.login import Login

if TYPE_CHECKING:
    from typing_extensions import Self


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call is retried when no address answers.

    Each address is tried once in any case. Then, after ``pause_s``, all of them
    are tried again, until ``total_s`` have passed since the call was made.
    ``silence_s`` limits that where no server answers at all, not even that it is
    the standby of another one; None for as long as ``total_s``.
    """

    total_s: float = 0.0
    pause_s: float = 1.0
    silence_s: float | None = None

    def limit_s(self, *, answered: bool) -> float:
        """How long to try; ``answered`` says whether any server has answered."""
        if answered or self.silence_s is None:
            return self.total_s
        return min(self.total_s, self.silence_s)


def rpc_settings(conf: Configuration, *, caller: str = "ytf") -> RpcSettings:
    """The timeouts and limits of connections, from the cluster's configuration."""
    timeout_s = conf.get_seconds("ipc.client.rpc-timeout.ms")
    return RpcSettings(
        connect_timeout_s=conf.get_seconds("ipc.client.connect.timeout"),
        # To Hadoop 0 means no timeout. ytf always has one.
        call_timeout_s=timeout_s if timeout_s > 0 else RpcSettings().call_timeout_s,
        ping_interval_s=max(1.0, conf.get_seconds("ipc.ping.interval")),
        max_response_bytes=conf.get_bytes("ipc.maximum.response.length"),
        caller=caller,
    )


def master_retry_policy(conf: Configuration) -> RetryPolicy:
    """How long an ApplicationMaster tries to reach a ResourceManager, from the configuration."""
    return RetryPolicy(
        total_s=conf.get_seconds("yarn.resourcemanager.connect.max-wait.ms"),
        pause_s=conf.get_seconds("yarn.client.failover-sleep-base-ms"),
    )


class RpcClient:
    """Calls one protocol of a service. Connects at the first call, and again after a break.

    Use it as an async context manager, or :meth:`close` it.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        protocol: str,
        login: Login,
        *,
        settings: RpcSettings | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        if not addresses:
            raise SettingsError(f"no address is configured for {protocol.rpartition('.')[2]}")
        self._addresses = tuple(addresses)
        self._protocol, self._login = protocol, login
        self._settings = settings or RpcSettings()
        self._retry_policy = retry_policy or RetryPolicy()
        self._at = 0
        self._connection: RpcConnection | None = None
        self._retired: list[RpcConnection] = []
        self._connecting = asyncio.Lock()

    async def call(self, method: Method[Request, Answer], request: Request) -> Answer:
        """Call a method at the address that answers.

        Raises ``UnreachableError`` if no address answered and the call was
        certainly not executed. Raises ``OutcomeUnknownError`` if the call was
        sent, no answer came, and it must not be repeated (or repeating it did
        not help). Raises ``RefusedError`` as soon as a server answers with an
        exception.
        """
        now = asyncio.get_running_loop().time
        policy, begun = self._retry_policy, now()
        tries = _Tries(len(self._addresses))
        while True:
            at, reused = self._at, self._is_open()
            problem: YtfError
            try:
                connection = await self._connected()
                return await connection.call(method, request, retry=tries.sent)
            except OutcomeUnknownError as exc:
                if not method.repeatable:
                    raise
                problem = exc
            except (NotExecutedError, StandbyError, RetriableError) as exc:
                problem = exc
            if tries.failed(problem, place(self._protocol, self._addresses[at]), reused=reused):
                continue
            self._leave(at)
            if tries.round_is_over:
                if now() + policy.pause_s > begun + policy.limit_s(answered=tries.answered):
                    raise self._final_error(tries) from problem
                await asyncio.sleep(policy.pause_s)
                tries.begin_round()

    def relogin(self, login: Login) -> None:
        """Make all further calls with another token, over a new connection."""
        self._login = login
        self._retire()

    async def close(self) -> None:
        """Close the connection. Another call would open a new one."""
        self._retire()
        while self._retired:
            await self._retired.pop().close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def _is_open(self) -> bool:
        return self._connection is not None and not self._connection.closed

    async def _connected(self) -> RpcConnection:
        async with self._connecting:
            if self._connection is None or self._connection.closed:
                self._retire()
                self._connection = await connect(
                    self._addresses[self._at], self._protocol, self._login, self._settings
                )
            return self._connection

    def _leave(self, at: int) -> None:
        """Change to the next address, unless another call has done so already."""
        if self._at == at and len(self._addresses) > 1:
            self._at = (at + 1) % len(self._addresses)
            self._retire()

    def _retire(self) -> None:
        """Make no more calls over the connection. Those that wait may still be answered."""
        connection, self._connection = self._connection, None
        self._retired = [each for each in self._retired if not each.closed]
        if connection is not None:
            connection.retire()
            self._retired.append(connection)

    def _final_error(self, tries: _Tries) -> YtfError:
        # Each problem names its address. One that was tried twice may have the same problem twice.
        problems = "; ".join(dict.fromkeys(tries.problems))
        hint = "check that it runs, and the addresses in the Hadoop configuration"
        if tries.sent:
            return OutcomeUnknownError(problems, hint=hint)
        return NotExecutedError(problems, hint=hint)


class _Tries:
    """Counts the tries of one call, in rounds: each address is tried once in a round."""

    def __init__(self, addresses: int) -> None:
        self.sent = 0
        """How often the call was sent without an answer."""
        self.answered = False
        """Whether any server has answered, also if only that it is a standby."""
        self.problems: list[str] = []
        self._addresses = addresses
        self._tried = 0
        self._second_chance = True

    @property
    def round_is_over(self) -> bool:
        """Whether every address was tried."""
        return self._tried >= self._addresses

    def begin_round(self) -> None:
        """Try every address again."""
        self._tried = 0
        self.problems.clear()

    def failed(self, problem: YtfError, where: str, *, reused: bool) -> bool:
        """Record a failed try; true if the same address is to be tried again at once.

        That is so once, and only if the connection was an old one: a server
        closes idle connections, or was restarted, and may well be alive.
        """
        answered = not isinstance(problem, ConnectionError)
        self.answered |= answered
        self.problems.append(f"{where} says: {problem}" if answered else str(problem))
        self.sent += isinstance(problem, OutcomeUnknownError)
        if reused and self._second_chance and isinstance(problem, ConnectionError):
            self._second_chance = False
            return True
        self._tried += 1
        return False
