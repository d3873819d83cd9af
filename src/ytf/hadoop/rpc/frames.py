"""The frames of Hadoop RPC: bytes to messages and back, without any I/O.

After a header of seven bytes, everything in both directions is a frame: four
bytes of length, then delimited protobuf messages back to back.
"""

from __future__ import annotations

import msgspec

from ytf.hadoop.proto.rpc_pb2 import (
    CallerContext,
    ConnectionContext,
    MethodHeader,
    RequestHeader,
    ResponseHeader,
    SaslMessage,
    UserInformation,
)
from ytf.hadoop.proto.wire import MalformedError, delimited, parse, read_delimited, serialize

MAX_RESPONSE_BYTES = 128 * 1024 * 1024
"""The default of ``ipc.maximum.response.length``."""

NO_SASL = 0x00
SASL = 0xDF

_CONTEXT_CALL = -3
PING_CALL = -4
SASL_CALL = -33
_OUT_OF_BAND = -1
_PROTOCOL_BUFFER = 2
_FINAL_PACKET = 0
_MOST_CONTEXT = 128
"""``hadoop.caller.context.max.size``: servers drop a longer one."""


def connection_header(auth: int) -> bytes:
    """What a connection begins with; the server does not answer it."""
    return b"hrpc" + bytes([9, 0, auth])


def context_frame(client_id: bytes, user: str | None, protocol: str) -> bytes:
    """Who calls which protocol. ``user`` is None when a token has said it already.

    The user's part must be there even when empty, or a server of a token
    connection compares the token's user with nobody.
    """
    context = ConnectionContext(user=UserInformation(), protocol=protocol)
    context.user.SetInParent()
    if user is not None:
        context.user.effective_user = user
    return _frame(_header(_CONTEXT_CALL, client_id), context)


def call_frame(
    client_id: bytes,
    call_id: int,
    retry: int,
    caller: str,
    method: MethodHeader,
    request: bytes,
) -> bytes:
    """A call: which method, by whom, with what."""
    header = _header(call_id, client_id, retry)
    if caller:
        header.caller_context.CopyFrom(CallerContext(context=caller[:_MOST_CONTEXT]))
    parts = (serialize(header), serialize(method), request)
    return _with_length(b"".join(map(delimited, parts)))


def ping_frame(client_id: bytes) -> bytes:
    """A sign of life. No server answers it, but a dead one resets the connection."""
    return _frame(_header(PING_CALL, client_id))


def sasl_frame(message: SaslMessage) -> bytes:
    """A step of the SASL negotiation, or wrapped bytes after it."""
    return _frame(_header(SASL_CALL, b""), message)


class Response(msgspec.Struct, frozen=True):
    """An answer, with the message that follows its header still unread."""

    call_id: int
    header: ResponseHeader
    body: bytes


def read_response(frame: bytes) -> Response:
    """Take an answer's frame apart; raises :class:`MalformedError`."""
    data, end = read_delimited(frame, 0)
    header = parse(ResponseHeader, data)
    # The server writes the id as unsigned: -33 arrives as 2**32 - 33.
    unsigned = header.call_id
    call_id = unsigned - 2**32 if unsigned >= 2**31 else unsigned
    return Response(call_id, header, frame[end:])


class Splitter:
    """Cuts a stream of bytes into frames, and refuses lengths beyond a limit.

    Holds no more than one unfinished frame, and takes memory for it only as
    its bytes arrive.
    """

    def __init__(self, limit: int = MAX_RESPONSE_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that ``data`` completes; raises :class:`MalformedError`."""
        self._buffer += data
        frames: list[bytes] = []
        at = 0
        while len(self._buffer) - at >= 4:
            length = int.from_bytes(self._buffer[at : at + 4], "big")
            if length > self._limit:
                raise MalformedError(self._too_long(length, at))
            if len(self._buffer) - at - 4 < length:
                break
            frames.append(bytes(self._buffer[at + 4 : at + 4 + length]))
            at += 4 + length
        del self._buffer[:at]
        return frames

    def _too_long(self, length: int, at: int) -> str:
        begins = bytes(self._buffer[at : at + 16])
        if begins.startswith(b"HTTP"):
            return "it speaks HTTP: this is a web port, not an RPC port"
        return f"an answer of {length} bytes, more than the {self._limit} we take ({begins!r})"


def _header(call_id: int, client_id: bytes, retry: int = _OUT_OF_BAND) -> RequestHeader:
    return RequestHeader(
        # All of them explicitly: proto2 leaves out what nobody assigned, and
        # the server wants to see the zeros.
        kind=_PROTOCOL_BUFFER,
        op=_FINAL_PACKET,
        call_id=call_id,
        client_id=client_id,
        retry_count=retry,
    )


def _frame(*messages: RequestHeader | ConnectionContext | SaslMessage) -> bytes:
    return _with_length(b"".join(delimited(serialize(message)) for message in messages))


def _with_length(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
