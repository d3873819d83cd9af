"""A fake Hadoop RPC server in this process, for errors that a real one cannot be made to show.

It implements the server's side of the whole protocol: SIMPLE or TOKEN, all three
qualities of protection, any number of concurrent calls. The handlers decide
what it answers, and how it fails::

    async with RpcServer({"getClusterMetrics": handler}) as server:
        await connect(server.address, PROTOCOL, Login(user="alice"))
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from google.protobuf.message import Message

from ytf.hadoop.conf import Address
from ytf.hadoop.proto.messages import delimited, parse, read_delimited, serialize
from ytf.hadoop.proto.rpc_pb2 import (
    ConnectionContext,
    MethodHeader,
    RequestHeader,
    ResponseHeader,
    SaslAuth,
    SaslMessage,
)
from ytf.hadoop.rpc import digest_md5, sasl
from ytf.hadoop.rpc.frames import PING_CALL, SASL, SASL_CALL, FrameSplitter
from ytf.hadoop.security.credentials import Token

if TYPE_CHECKING:
    from typing_extensions import Self

_SUCCESS, _ERROR, _FATAL = range(3)
_AUTHORIZATION_FAILED = -1
_READ_BYTES = 64 * 1024


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """A received call."""

    header: RequestHeader
    context: ConnectionContext
    method: MethodHeader
    request: bytes


Handler = Callable[[Received], Awaitable[Message]]
"""Returns the answer to a call, or raises :class:`JavaError` or :class:`HangUpError`."""


class JavaError(Exception):
    """The server answers with this Java exception. A fatal one ends the connection."""

    def __init__(
        self, class_name: str, message: str = "", *, fatal: bool = False, detail: int = 1
    ) -> None:
        super().__init__(f"{class_name}: {message}")
        self.class_name, self.message = class_name, message
        self.status, self.detail = (_FATAL if fatal else _ERROR), detail


class HangUpError(Exception):
    """The server closes the connection without an answer."""


def server_layer(
    exchange: digest_md5.Exchange, cipher: str, max_buffer: int
) -> digest_md5.DigestLayer | None:
    """The server's side of the negotiated layer; None for plain ``auth``."""
    to_server, to_client = digest_md5._TO_SERVER, digest_md5._TO_CLIENT
    return digest_md5._layer(exchange, cipher, max_buffer, send=to_client, receive=to_server)


class RpcServer:
    """Listens on a port of its own while its context is entered.

    With a ``token`` it requires that token, else it accepts any user name. It
    offers ``qop`` and ``ciphers`` for the protection of calls.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        token: Token | None = None,
        qop: str = digest_md5.AUTH,
        ciphers: str = "rc4",
    ) -> None:
        self.handlers = dict(handlers)
        self.token, self.qop, self.ciphers = token, qop, ciphers
        self.received: list[Received] = []
        self.connections = 0
        self._pings = asyncio.Semaphore(0)
        self._server: asyncio.Server | None = None
        self._live: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def address(self) -> Address:
        """The address at which it listens."""
        return Address("127.0.0.1", self._port)

    async def start(self) -> None:
        """Start to listen, on the same port as before if there was one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
        await self.drop()

    async def drop(self) -> None:
        """Close every connection, as a restart does, and continue to listen."""
        tasks = list(self._live)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def pinged(self, times: int) -> None:
        """Wait for ``times`` more pings."""
        for _ in range(times):
            await self._pings.acquire()

    def heard_ping(self) -> None:
        """Record a client's ping."""
        self._pings.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(_Peer(self, reader, writer).run())
        self._live.add(task)
        task.add_done_callback(self._live.discard)


class _Peer:
    """One connection."""

    def __init__(
        self, server: RpcServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._outer, self._inner = FrameSplitter(), FrameSplitter()
        self._layer: digest_md5.DigestLayer | None = None
        self._context = ConnectionContext()
        self._waiting: list[tuple[RequestHeader, bytes]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            await self._serve_calls()
        except (asyncio.IncompleteReadError, ConnectionError, EOFError, HangUpError):
            return
        finally:
            for task in self._tasks:
                task.cancel()
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()
            self._writer.close()

    async def _serve_calls(self) -> None:
        header = await self._reader.readexactly(7)
        assert header[:6] == b"hrpc\x09\x00", header
        if header[6] == SASL:
            await self._authenticate()
        elif self._server.token is not None:
            self._refuse("org.apache.hadoop.security.AccessControlException", "no SIMPLE here")
        _, body = await self._next()
        self._context = parse(ConnectionContext, read_delimited(body, 0)[0])
        while True:
            request, body = await self._next()
            if request.call_id == PING_CALL:
                self._server.heard_ping()
            elif request.call_id >= 0:
                task = asyncio.create_task(self._answer(request, body))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, header: RequestHeader, body: bytes) -> None:
        data, end = read_delimited(body, 0)
        method = parse(MethodHeader, data)
        call = Received(
            header=header,
            context=self._context,
            method=method,
            request=read_delimited(body, end)[0],
        )
        self._server.received.append(call)
        reply = ResponseHeader(
            call_id=header.call_id,
            status=_SUCCESS,
            server_version=9,
            client_id=header.client_id,
            retry_count=header.retry_count,
        )
        try:
            answer = await self._server.handlers[method.method](call)
            self._send(reply, answer)
        except JavaError as error:
            # The handler may have changed the id: some errors refer to no call.
            reply.call_id = header.call_id & 0xFFFFFFFF
            reply.status, reply.error_detail = error.status, error.detail
            reply.exception_class, reply.error_message = error.class_name, error.message
            self._send(reply)
            if error.status == _FATAL:
                self._writer.close()
        except HangUpError:
            self._writer.transport.abort()

    async def _authenticate(self) -> None:
        await self._next_sasl(sasl.NEGOTIATE)
        token = self._server.token
        if token is None:
            self._send_sasl(SaslMessage(state=sasl.SUCCESS))
            return
        nonce = secrets.token_hex(8)
        challenge = f'realm="default",nonce="{nonce}",qop="{self._server.qop}",charset=utf-8'
        challenge += f',cipher="{self._server.ciphers}",maxbuf=65536,algorithm=md5-sess'
        offer = SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", protocol="", server_id="default")
        self._send_sasl(
            SaslMessage(
                state=sasl.NEGOTIATE,
                auths=[
                    SaslAuth(method="NOVELTY", mechanism="UNHEARD-OF"),
                    _with_challenge(offer, challenge.encode()),
                ],
            )
        )
        chosen = await self._next_sasl(sasl.INITIATE)
        if list(chosen.auths) != [offer]:
            self._refuse("javax.security.sasl.SaslException", f"not offered: {chosen.auths}")
        self._check(token, nonce, digest_md5.parse_directives(chosen.token))

    def _check(self, token: Token, nonce: str, response: Mapping[str, str]) -> None:
        if response["username"] != base64.b64encode(token.identifier).decode():
            name = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
            self._refuse(name, "nobody knows this token")
        exchange = digest_md5.Exchange(
            user=response["username"],
            password=base64.b64encode(token.password).decode(),
            realm="default",
            nonce=nonce,
            cnonce=response["cnonce"],
            uri=response["digest-uri"],
            qop=response["qop"],
        )
        if response["response"] != exchange.response():
            self._refuse("javax.security.sasl.SaslException", "DIGEST-MD5: mismatched response")
        proof = f"rspauth={exchange.rspauth()}".encode()
        self._send_sasl(SaslMessage(state=sasl.SUCCESS, token=proof))
        self._layer = server_layer(exchange, response.get("cipher", ""), int(response["maxbuf"]))

    async def _next(self) -> tuple[RequestHeader, bytes]:
        """The header of the next request, and the bytes after it."""
        while not self._waiting:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise EOFError
            for frame in self._outer.feed(data):
                header, body = _split(frame)
                if self._layer is None or header.call_id != SASL_CALL:
                    self._waiting.append((header, body))
                    continue
                wrapped = parse(SaslMessage, read_delimited(body, 0)[0])
                plain = self._layer.unwrap(wrapped.token)
                self._waiting += map(_split, self._inner.feed(plain))
        return self._waiting.pop(0)

    async def _next_sasl(self, state: int) -> SaslMessage:
        header, body = await self._next()
        message = parse(SaslMessage, read_delimited(body, 0)[0])
        assert (header.call_id, message.state) == (SASL_CALL, state), message
        return message

    def _refuse(self, class_name: str, message: str) -> None:
        header = ResponseHeader(
            call_id=_AUTHORIZATION_FAILED & 0xFFFFFFFF,
            status=_FATAL,
            exception_class=class_name,
            error_message=message,
            error_detail=15,
        )
        self._send(header)
        raise HangUpError

    def _send_sasl(self, message: SaslMessage) -> None:
        self._send(ResponseHeader(call_id=SASL_CALL & 0xFFFFFFFF, status=_SUCCESS), message)

    def _send(self, *messages: Message) -> None:
        frame = _with_length(b"".join(delimited(serialize(message)) for message in messages))
        if self._layer is None:
            self._writer.write(frame)
            return
        size = self._layer.max_chunk
        for at in range(0, len(frame), size):
            wrapped = SaslMessage(state=sasl.WRAP, token=self._layer.wrap(frame[at : at + size]))
            header = ResponseHeader(call_id=SASL_CALL & 0xFFFFFFFF, status=_SUCCESS)
            parts = delimited(serialize(header)) + delimited(serialize(wrapped))
            self._writer.write(_with_length(parts))


def _split(frame: bytes) -> tuple[RequestHeader, bytes]:
    data, end = read_delimited(frame, 0)
    return parse(RequestHeader, data), frame[end:]


def _with_challenge(auth: SaslAuth, challenge: bytes) -> SaslAuth:
    offered = SaslAuth()
    offered.CopyFrom(auth)
    offered.challenge = challenge
    return offered


def _with_length(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
