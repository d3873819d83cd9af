"""One connection to one Hadoop service, with any number of concurrent calls.

Mirrors ``ipc.Client.Connection``. Every call ends before its timeout in one of
four ways: answered, refused by the server, certainly not executed, or with an
unknown outcome. ``RpcConnection`` makes the calls, ``FrameChannel`` sends and
receives their frames over the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import uuid
from collections import deque
from typing import Generic, TypeVar

import msgspec
from async_timeout import timeout
from google.protobuf.message import Message

from ytf.errors import InternalError
from ytf.hadoop.conf import Address
from ytf.hadoop.proto.messages import MalformedMessageError, parse, read_delimited, serialize
from ytf.hadoop.proto.rpc_pb2 import MethodHeader, SaslMessage
from ytf.hadoop.rpc import frames, sasl
from ytf.hadoop.rpc.errors import (
    FATAL_UNAUTHORIZED,
    AuthenticationError,
    InvalidTokenError,
    NotExecutedError,
    OutcomeUnknownError,
    RemoteError,
    remote_error,
)
from ytf.hadoop.security.login import Login

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)

_VERSION = 1
_SUCCESS, _ERROR, _FATAL = range(3)
_SERVERS = {
    "ApplicationClientProtocolPB": "the ResourceManager",
    "ApplicationMasterProtocolPB": "the ResourceManager's scheduler",
    "ContainerManagementProtocolPB": "the NodeManager",
    "HAServiceProtocol": "the administration of a pair",
}
"""The server of a protocol, for messages."""

_READ_BYTES = 64 * 1024
_MAX_WRAPPED_BYTES = 1024 * 1024
"""The longest wrapped message that we accept. Servers send at most 64 KiB."""


class RpcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The ``ipc.*`` settings of a connection."""

    connect_timeout_s: float = 20.0
    """For a connection and its negotiation (``ipc.client.connect.timeout``)."""
    call_timeout_s: float = 120.0
    """From a call to its answer (``ipc.client.rpc-timeout.ms``)."""
    ping_interval_s: float = 60.0
    """Between pings while a call waits for its answer (``ipc.ping.interval``)."""
    max_response_bytes: int = frames.MAX_RESPONSE_BYTES
    """Longer answers end the connection (``ipc.maximum.response.length``)."""
    caller: str = "ytf"
    """The caller context of every call, in the server's audit log."""


class Method(msgspec.Struct, Generic[Request, Answer], frozen=True):
    """A method of a protocol: its name and its two messages.

    ``repeatable`` means that calling it twice has the same effect as calling it
    once, so a call with an unknown outcome may be repeated.
    """

    name: str
    request: type[Request]
    answer: type[Answer]
    repeatable: bool


class _Call(msgspec.Struct):
    """A call that waits for its answer."""

    method: str
    answer: asyncio.Future[frames.RpcResponse]


class RpcConnection:
    """Calls methods of one protocol on one server, as one user.

    Made by :func:`connect`. When it breaks, every waiting call raises, and
    ``closed`` stays true. It never reconnects: make another one.
    """

    def __init__(
        self,
        channel: FrameChannel,
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
        # Sent together with the first call, as Java does. A server that refuses the
        # greeting closes the connection, and a second write could lose its answer.
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
        """Whether it can make no more calls."""
        return self._broken is not None

    async def call(
        self, method: Method[Request, Answer], request: Request, *, retry: int = 0
    ) -> Answer:
        """Call a method and wait for its answer, for at most the call timeout.

        ``retry`` is the number of times this call was sent before. Raises the
        errors of :mod:`ytf.hadoop.rpc.errors`. Cancelling forgets the call; the
        server may still execute it.
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
            async with timeout(self._settings.call_timeout_s):
                response = await self._sent_and_answered(call)
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
        """Close it as soon as no call waits. New calls need another connection."""
        self._retired = True
        self._end_if_retired()

    async def close(self) -> None:
        """Close it. Calls that still wait end with an unknown outcome."""
        self._break(EOFError("closed on our side"))
        for task in (self._reader, self._pinger):
            task.cancel()
        await asyncio.gather(self._reader, self._pinger, return_exceptions=True)

    async def _sent_and_answered(self, call: _Call) -> frames.RpcResponse:
        # The reader reports a broken socket.
        with contextlib.suppress(OSError):
            await self._channel.drain()
        return await call.answer

    def _decoded(self, method: Method[Request, Answer], response: frames.RpcResponse) -> Answer:
        try:
            return parse(method.answer, read_delimited(response.body, 0)[0])
        except MalformedMessageError as exc:
            self._break(exc)
            raise self._unknown(method.name, exc) from exc

    async def _read(self) -> None:
        """Hand each answer to its call, until the connection ends."""
        try:
            while True:
                self._take(frames.read_response(await self._channel.receive()))
        except (MalformedMessageError, EOFError, OSError) as exc:
            self._break(exc)

    def _end_if_retired(self) -> None:
        if self._retired and not self._waiting:
            self._break(EOFError("closed on our side"))

    def _reader_ended(self, reader: asyncio.Task[None]) -> None:
        """End all calls at once if the reader failed because of a bug."""
        if not reader.cancelled() and (bug := reader.exception()) is not None:
            self._break(InternalError(f"the reader of {self._where} failed: {bug!r}"))

    def _take(self, response: frames.RpcResponse) -> None:
        status, header = response.header.status, response.header
        call = self._waiting.pop(response.call_id, None)
        if status == _SUCCESS:
            # A call that timed out or was cancelled is no longer in the table.
            if call is not None and not call.answer.done():
                call.answer.set_result(response)
        elif status in (_ERROR, _FATAL):
            error = remote_error(header)
            if call is not None:
                _fail(call, error)
            if status == _FATAL:
                self._end_fatally(error, of_setup=response.call_id < 0 and not self._accepted)
        else:
            raise MalformedMessageError(f"an answer with status {status}")
        self._accepted = True

    def _end_fatally(self, error: RemoteError, *, of_setup: bool) -> None:
        """The server ends the connection and gives a reason.

        If its first answer refers to no call, it refused the whole connection,
        and nothing was executed. Otherwise the outcome of the other calls is unknown.
        """
        if of_setup:
            refusal = refused(error, self._where)
            for call in self._waiting.values():
                _fail(call, refusal)
        self._break(error)

    def _break(self, reason: Exception) -> None:
        """Close the socket and fail all waiting calls. The first reason counts."""
        if self._broken is None:
            self._broken = reason
        self._channel.close()
        self._pinger.cancel()
        for call in self._waiting.values():
            _fail(call, self._unknown(call.method, reason))
        self._waiting.clear()

    async def _ping(self) -> None:
        """Send pings while calls wait, so that a dead server is noticed."""
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
) -> RpcConnection:
    """Connect and authenticate.

    Raises :class:`NotExecutedError` if nothing listens there or it does not
    speak Hadoop RPC, and :class:`AuthenticationError` or another
    ``RefusedError`` if the server refuses the connection.
    """
    settings = settings or RpcSettings()
    where = place(protocol, address)
    try:
        async with timeout(settings.connect_timeout_s):
            return await _connect(address, protocol, login, settings, where)
    except (TimeoutError, asyncio.TimeoutError) as exc:
        raise NotExecutedError(
            f"{where} did not answer within {settings.connect_timeout_s:g} s"
        ) from exc
    except OSError as exc:
        raise NotExecutedError(f"cannot connect to {where}: {_reason(exc)}") from exc
    except (EOFError, MalformedMessageError) as exc:
        raise NotExecutedError(f"{where} broke off the connection: {exc}") from exc


async def _connect(
    address: Address, protocol: str, login: Login, settings: RpcSettings, where: str
) -> RpcConnection:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    channel = FrameChannel(reader, writer, settings.max_response_bytes)
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
        return RpcConnection(
            channel, address, protocol, settings, client_id=client_id, greeting=greeting
        )
    except BaseException:
        channel.close()
        raise


async def _negotiate(channel: FrameChannel, login: Login, where: str) -> sasl.SaslNegotiation:
    negotiation = sasl.SaslNegotiation(login)
    channel.send(frames.connection_header(frames.SASL) + frames.sasl_frame(negotiation.begin()))
    while True:
        frame = await channel.receive()
        header = frames.read_response(frame).header
        if header.status != _SUCCESS:
            raise refused(remote_error(header), where)
        step = negotiation.receive(frames.read_sasl_message(frame))
        if step.reply is not None:
            channel.send(frames.sasl_frame(step.reply))
        if step.done:
            return negotiation


def refused(error: RemoteError, where: str) -> Exception:
    """The error to raise if a server refuses the whole connection."""
    if error.detail != FATAL_UNAUTHORIZED or isinstance(error, InvalidTokenError):
        return error
    hint = None
    if "KERBEROS" in str(error):
        hint = "this cluster requires Kerberos, which is not in this version of ytf"
    refusal = AuthenticationError(f"{where} does not let us in: {error}", hint=hint)
    refusal.__cause__ = error
    return refusal


def place(protocol: str, address: Address) -> str:
    """The server and its address, for error messages."""
    name = protocol.rpartition(".")[2]
    return f"{_SERVERS.get(name, name)} at {address}"


def _reason(error: OSError) -> str:
    # asyncio replaces the system's message by the address.
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _fail(call: _Call, error: Exception) -> None:
    if not call.answer.done():
        call.answer.set_exception(error)


class FrameChannel:
    """Sends and receives whole frames. ``last_heard`` is when the peer last sent anything."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_frame: int
    ) -> None:
        self.last_heard = asyncio.get_running_loop().time()
        self._reader, self._writer = reader, writer
        self._max_frame = max_frame
        self._outer = frames.FrameSplitter(max_frame)
        self._inner: frames.FrameSplitter | None = None
        self._layer: sasl.SaslLayer | None = None
        self._frames: deque[bytes] = deque()

    def protect(self, layer: sasl.SaslLayer) -> None:
        """Wrap all further messages in both directions with ``layer``."""
        if self._frames:
            raise MalformedMessageError("the server sent a message before the layer was negotiated")
        self._layer, self._inner = layer, frames.FrameSplitter(self._max_frame)

    def send(self, data: bytes) -> None:
        """Write whole frames to the socket without waiting."""
        self._writer.write(self._wrapped(data) if self._layer else data)

    async def drain(self) -> None:
        """Wait until the socket's buffer has room; raises ``OSError`` if the socket is closed."""
        await self._writer.drain()

    async def receive(self) -> bytes:
        """The next frame.

        Raises ``EOFError`` at the end of the stream, :class:`MalformedMessageError`
        and ``OSError``.
        """
        while not self._frames:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise EOFError("the server closed the connection")
            self.last_heard = asyncio.get_running_loop().time()
            for frame in self._outer.feed(data):
                self._frames += self._opened(frame)
        return self._frames.popleft()

    def close(self) -> None:
        """Close the socket at once. Unsent data is lost."""
        self._writer.transport.abort()

    def _wrapped(self, data: bytes) -> bytes:
        layer = self._layer
        assert layer is not None
        size = layer.max_chunk
        chunks = (data[at : at + size] for at in range(0, len(data), size))
        return b"".join(
            frames.sasl_frame(SaslMessage(state=sasl.WRAP, token=layer.wrap(chunk)))
            for chunk in chunks
        )

    def _opened(self, frame: bytes) -> list[bytes]:
        """The frames in a frame: itself, or those that its wrapped data completes."""
        if self._layer is None or self._inner is None:
            return [frame]
        if len(frame) > _MAX_WRAPPED_BYTES:
            raise MalformedMessageError(f"a wrapped message of {len(frame)} bytes")
        message = frames.read_sasl_message(frame)
        if message.state != sasl.WRAP:
            raise MalformedMessageError(f"SASL state {message.state} instead of a wrapped message")
        return self._inner.feed(self._layer.unwrap(message.token))
