"""One service at several addresses, of which one answers at a time.

Mirrors ``RetryInvocationHandler`` with YARN's ``RMFailoverProxyProvider``: the
next address is tried when nobody listens, the connection breaks, or the server
says it is not the active one; never when it answered anything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ytf.errors import OutcomeUnknownError, SettingsError, YtfError
from ytf.hadoop.address import Address
from ytf.hadoop.rpc.connection import Connection, connect, place
from ytf.hadoop.rpc.errors import NotExecutedError, RetriableError, StandbyError
from ytf.hadoop.rpc.method import Answer, Method, Request
from ytf.hadoop.rpc.settings import Patience, RpcSettings
from ytf.hadoop.security.login import Login

if TYPE_CHECKING:
    from typing_extensions import Self


class Service:
    """Calls one protocol of a service; connects when first needed, and again after a break.

    Use as an async context manager, or :meth:`close` it.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        protocol: str,
        login: Login,
        *,
        settings: RpcSettings | None = None,
        patience: Patience | None = None,
    ) -> None:
        if not addresses:
            raise SettingsError(f"no address is configured for {protocol.rpartition('.')[2]}")
        self._addresses = tuple(addresses)
        self._protocol, self._login = protocol, login
        self._settings = settings or RpcSettings()
        self._patience = patience or Patience()
        self._at = 0
        self._connection: Connection | None = None
        self._retired: list[Connection] = []
        self._connecting = asyncio.Lock()

    async def call(self, method: Method[Request, Answer], request: Request) -> Answer:
        """Call a method on whichever address answers.

        Raises ``UnreachableError`` when none did and the call was certainly not
        executed, ``OutcomeUnknownError`` when it was sent without an answer and
        may not be repeated (or was, in vain), and ``RefusedError`` as soon as a
        server answers with an exception.
        """
        now = asyncio.get_running_loop().time
        deadline = now() + self._patience.total_s
        round_ = _Round(len(self._addresses))
        while True:
            at, reused = self._at, self._is_open()
            problem: YtfError
            try:
                connection = await self._connected()
                return await connection.call(method, request, retry=round_.sent)
            except OutcomeUnknownError as exc:
                if not method.repeatable:
                    raise
                problem = exc
            except (NotExecutedError, StandbyError, RetriableError) as exc:
                problem = exc
            if round_.failed(problem, place(self._protocol, self._addresses[at]), reused=reused):
                continue
            self._leave(at)
            if round_.over:
                if now() + self._patience.pause_s > deadline:
                    raise self._given_up(round_) from problem
                await asyncio.sleep(self._patience.pause_s)
                round_.begin()

    def relogin(self, login: Login) -> None:
        """Make all calls from now on with another token, over a new connection."""
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

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is None or self._connection.closed:
                self._retire()
                self._connection = await connect(
                    self._addresses[self._at], self._protocol, self._login, self._settings
                )
            return self._connection

    def _leave(self, at: int) -> None:
        """Turn to the next address, unless another call has done so already."""
        if self._at == at and len(self._addresses) > 1:
            self._at = (at + 1) % len(self._addresses)
            self._retire()

    def _retire(self) -> None:
        """Make no more calls over the connection; those that wait may still be answered."""
        connection, self._connection = self._connection, None
        self._retired = [each for each in self._retired if not each.closed]
        if connection is not None:
            connection.retire()
            self._retired.append(connection)

    def _given_up(self, round_: _Round) -> YtfError:
        # Each problem names its address; one tried twice has but one to tell.
        told = "; ".join(dict.fromkeys(round_.problems))
        hint = "check that it runs, and the addresses in the Hadoop configuration"
        if round_.sent:
            return OutcomeUnknownError(told, hint=hint)
        return NotExecutedError(told, hint=hint)


class _Round:
    """Keeps count of one call's tries: each address once, then a pause."""

    def __init__(self, addresses: int) -> None:
        self.sent = 0
        """How often the call was sent without an answer."""
        self.problems: list[str] = []
        self._addresses = addresses
        self._tried = 0
        self._second_chance = True

    @property
    def over(self) -> bool:
        """Whether every address had its turn."""
        return self._tried >= self._addresses

    def begin(self) -> None:
        """Start anew."""
        self._tried = 0
        self.problems.clear()

    def failed(self, problem: YtfError, where: str, *, reused: bool) -> bool:
        """Note a failed try; true if the same address deserves another at once.

        It does, once, when the connection was an old one: a server may close
        those that idle, or have been restarted, and be quite alive.
        """
        answered = not isinstance(problem, ConnectionError)
        self.problems.append(f"{where} says: {problem}" if answered else str(problem))
        self.sent += isinstance(problem, OutcomeUnknownError)
        if reused and self._second_chance and isinstance(problem, ConnectionError):
            self._second_chance = False
            return True
        self._tried += 1
        return False
