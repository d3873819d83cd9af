"""One connection to one Hadoop service, with many calls in flight.

Mirrors ``ipc.Client.Connection``. Every call ends, in one of four ways: with
its answer, as refused by the server, as certainly not executed, or with its
outcome unknown; never later than its timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import uuid

import msgspec

from ytf.errors import InternalError
from ytf.hadoop.address import Address
from ytf.hadoop.proto.rpc_pb2 import MethodHeader
from ytf.hadoop.proto.wire import MalformedError, parse, read_delimited, serialize
from ytf.hadoop.rpc import frames
from ytf.hadoop.rpc.channel import Channel, sasl_message
from ytf.hadoop.rpc.errors import (
    FATAL_UNAUTHORIZED,
    AuthenticationError,
    InvalidTokenError,
    NotExecutedError,
    OutcomeUnknownError,
    RemoteError,
    remote_error,
)
from ytf.hadoop.rpc.method import Answer, Method, Request
from ytf.hadoop.rpc.sasl import Negotiation
from ytf.hadoop.rpc.settings import RpcSettings
from ytf.hadoop.security.login import Login

_VERSION = 1
_SUCCESS, _ERROR, _FATAL = range(3)
_SERVERS = {
    "ApplicationClientProtocolPB": "the ResourceManager",
    "ApplicationMasterProtocolPB": "the ResourceManager's scheduler",
    "ContainerManagementProtocolPB": "the NodeManager",
    "HAServiceProtocol": "the ResourceManager's administration",
}
"""Who speaks a protocol."""


class _Call(msgspec.Struct):
    """A call that waits for its answer."""

    method: str
    answer: asyncio.Future[frames.Response]


class Connection:
    """Calls methods of one protocol on one server, as one user.

    Made by :func:`connect`. When it breaks, every waiting call is told, and
    ``closed`` stays true: it is never mended, make another.
    """

    def __init__(
        self,
        channel: Channel,
        address: Address,
        protocol: str,
        settings: RpcSettings,
        *,
        client_id: bytes,
        greeting: bytes,
    ) -> None:
        self._channel = channel
        self._where = place(protocol, address)
        self._protocol, self._settings = protocol, settings
        self._client_id = client_id
        # Sent together with the first call, as Java does: a server that refuses
        # the greeting closes, and a second write could lose its answer.
        self._greeting = greeting
        self._waiting: dict[int, _Call] = {}
        self._ids = itertools.count()
        self._broken: Exception | None = None
        self._accepted = self._retired = False
        self._reader = asyncio.create_task(self._read(), name=f"rpc reader {address}")
        self._reader.add_done_callback(self._reader_ended)
        self._pinger = asyncio.create_task(self._ping(), name=f"rpc pinger {address}")

    @property
    def closed(self) -> bool:
        """Whether no call can be made any more."""
        return self._broken is not None

    async def call(
        self, method: Method[Request, Answer], request: Request, *, retry: int = 0
    ) -> Answer:
        """Call a method and wait for its answer, for at most the call timeout.

        ``retry`` counts the times this same call was made before. Raises what
        :mod:`ytf.hadoop.rpc.errors` draws. Cancelling forgets the call, not
        what the server may do.
        """
        if self._broken is not None:
            raise NotExecutedError(f"{self._where} is closed: {self._broken}")
        call_id = next(self._ids) & 0x7FFFFFFF
        call = _Call(method.name, asyncio.get_running_loop().create_future())
        frame = frames.call_frame(
            self._client_id,
            call_id,
            retry,
            self._settings.caller,
            MethodHeader(method=method.name, protocol=self._protocol, version=_VERSION),
            serialize(request),
        )
        self._waiting[call_id] = call
        begun = asyncio.get_running_loop().time()
        try:
            self._channel.send(self._greeting + frame)
            self._greeting = b""
            response = await asyncio.wait_for(
                self._sent_and_answered(call), self._settings.call_timeout_s
            )
            return self._decoded(method, response)
        except (TimeoutError, asyncio.TimeoutError) as exc:
            if self._channel.last_heard < begun:
                self._break(TimeoutError("the server has gone silent"))
            raise OutcomeUnknownError(
                f"{method.name} was sent to {self._where}, and no answer came "
                f"within {self._settings.call_timeout_s:g} s"
            ) from exc
        finally:
            self._waiting.pop(call_id, None)
            self._end_if_retired()

    def retire(self) -> None:
        """Close it as soon as no call waits any more. New ones must go elsewhere."""
        self._retired = True
        self._end_if_retired()

    async def close(self) -> None:
        """Close it. Calls that still wait end with their outcome unknown."""
        self._break(EOFError("closed on our side"))
        for task in (self._reader, self._pinger):
            task.cancel()
        await asyncio.gather(self._reader, self._pinger, return_exceptions=True)

    async def _sent_and_answered(self, call: _Call) -> frames.Response:
        # A socket that breaks here is the reader's to report.
        with contextlib.suppress(OSError):
            await self._channel.drain()
        return await call.answer

    def _decoded(self, method: Method[Request, Answer], response: frames.Response) -> Answer:
        try:
            return parse(method.answer, read_delimited(response.body, 0)[0])
        except MalformedError as exc:
            self._break(exc)
            raise self._unknown(method.name, exc) from exc

    async def _read(self) -> None:
        """Hand each answer to its call, until the connection ends."""
        try:
            while True:
                self._take(frames.read_response(await self._channel.receive()))
        except (MalformedError, EOFError, OSError) as exc:
            self._break(exc)

    def _end_if_retired(self) -> None:
        if self._retired and not self._waiting:
            self._break(EOFError("closed on our side"))

    def _reader_ended(self, reader: asyncio.Task[None]) -> None:
        """A bug in the reader must not leave calls to their timeouts."""
        if not reader.cancelled() and (bug := reader.exception()) is not None:
            self._break(InternalError(f"the reader of {self._where} failed: {bug!r}"))

    def _take(self, response: frames.Response) -> None:
        status, header = response.header.status, response.header
        call = self._waiting.pop(response.call_id, None)
        if status == _SUCCESS:
            # Nobody waits any more for one that timed out or was cancelled.
            if call is not None and not call.answer.done():
                call.answer.set_result(response)
        elif status in (_ERROR, _FATAL):
            error = remote_error(header)
            if call is not None:
                _fail(call, error)
            if status == _FATAL:
                self._end_fatally(error, of_setup=response.call_id < 0 and not self._accepted)
        else:
            raise MalformedError(f"an answer with status {status}")
        self._accepted = True

    def _end_fatally(self, error: RemoteError, *, of_setup: bool) -> None:
        """The server gives the connection up, and says why.

        A first word that refers to no call refuses the connection as a whole:
        then nothing was executed. Otherwise the fate of the other calls is open.
        """
        if of_setup:
            refusal = refused(error, self._where)
            for call in self._waiting.values():
                _fail(call, refusal)
        self._break(error)

    def _break(self, reason: Exception) -> None:
        """End everything: once, with the first reason."""
        if self._broken is None:
            self._broken = reason
        self._channel.close()
        self._pinger.cancel()
        for call in self._waiting.values():
            _fail(call, self._unknown(call.method, reason))
        self._waiting.clear()

    async def _ping(self) -> None:
        """Show the server that we live, so that a dead one is noticed while calls wait."""
        ping = frames.ping_frame(self._client_id)
        while True:
            await asyncio.sleep(self._settings.ping_interval_s)
            if self._waiting:
                self._channel.send(ping)

    def _unknown(self, method: str, reason: Exception) -> OutcomeUnknownError:
        error = OutcomeUnknownError(
            f"{method} was sent to {self._where}, but no answer came: {reason}"
        )
        error.__cause__ = reason
        return error


async def connect(
    address: Address, protocol: str, login: Login, settings: RpcSettings | None = None
) -> Connection:
    """Connect and authenticate.

    Raises :class:`NotExecutedError` where nobody listens or what listens does
    not speak Hadoop RPC, :class:`AuthenticationError` or another
    ``RefusedError`` where the server does not want us.
    """
    settings = settings or RpcSettings()
    where = place(protocol, address)
    try:
        return await asyncio.wait_for(
            _connect(address, protocol, login, settings, where), settings.connect_timeout_s
        )
    except (TimeoutError, asyncio.TimeoutError) as exc:
        raise NotExecutedError(
            f"{where} did not answer within {settings.connect_timeout_s:g} s"
        ) from exc
    except OSError as exc:
        raise NotExecutedError(f"cannot connect to {where}: {_reason(exc)}") from exc
    except (EOFError, MalformedError) as exc:
        raise NotExecutedError(f"{where} broke off the connection: {exc}") from exc


async def _connect(
    address: Address, protocol: str, login: Login, settings: RpcSettings, where: str
) -> Connection:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    channel = Channel(reader, writer, settings.max_response_bytes)
    try:
        greeting = frames.connection_header(frames.NO_SASL)
        user: str | None = login.user
        if login.negotiates:
            negotiation = await _negotiate(channel, login, where)
            greeting = b""
            user = login.user if negotiation.method == "SIMPLE" else None
            if negotiation.layer is not None:
                channel.protect(negotiation.layer)
        client_id = uuid.uuid4().bytes
        greeting += frames.context_frame(client_id, user, protocol)
        return Connection(
            channel, address, protocol, settings, client_id=client_id, greeting=greeting
        )
    except BaseException:
        channel.close()
        raise


async def _negotiate(channel: Channel, login: Login, where: str) -> Negotiation:
    negotiation = Negotiation(login)
    channel.send(frames.connection_header(frames.SASL) + frames.sasl_frame(negotiation.begin()))
    while True:
        frame = await channel.receive()
        header = frames.read_response(frame).header
        if header.status != _SUCCESS:
            raise refused(remote_error(header), where)
        step = negotiation.receive(sasl_message(frame))
        if step.reply is not None:
            channel.send(frames.sasl_frame(step.reply))
        if step.done:
            return negotiation


def refused(error: RemoteError, where: str) -> Exception:
    """What a server's refusal of the whole connection is to the caller."""
    if error.detail != FATAL_UNAUTHORIZED or isinstance(error, InvalidTokenError):
        return error
    hint = None
    if "KERBEROS" in str(error):
        hint = "this cluster wants Kerberos, which is not in this version of ytf"
    refusal = AuthenticationError(f"{where} does not let us in: {error}", hint=hint)
    refusal.__cause__ = error
    return refusal


def place(protocol: str, address: Address) -> str:
    """Who is called, for a person who reads an error."""
    name = protocol.rpartition(".")[2]
    return f"{_SERVERS.get(name, name)} at {address}"


def _reason(error: OSError) -> str:
    # In place of the system's own words asyncio has the address once more.
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _fail(call: _Call, error: Exception) -> None:
    if not call.answer.done():
        call.answer.set_exception(error)
