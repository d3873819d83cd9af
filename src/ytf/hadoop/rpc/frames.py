"""Encodes and decodes the frames of Hadoop RPC, without I/O.

A connection begins with a header of seven bytes. All that follows, in both
directions, are frames: four bytes of length, then delimited protobuf messages.
"""

from __future__ import annotations

import msgspec

from ytf.hadoop.proto.messages import (
    MalformedMessageError,
    delimited,
    parse,
    read_delimited,
    serialize,
)
from ytf.hadoop.proto.rpc_pb2 import (
    CallerContext,
    ConnectionContext,
    MethodHeader,
    RequestHeader,
    ResponseHeader,
    SaslMessage,
    UserInformation,
)

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
_MAX_CONTEXT_CHARS = 128
"""``hadoop.caller.context.max.size``: servers drop longer contexts."""


def connection_header(auth: int) -> bytes:
    """The header of a connection. The server does not answer it."""
    return b"hrpc" + bytes([9, 0, auth])


def context_frame(client_id: bytes, user: str | None, protocol: str) -> bytes:
    """The connection context: the user and the protocol. ``user`` is None with a token.

    The user field must be present even if it is empty: else the server of a
    token connection compares the token's user with null.
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
    """A call of a method. ``caller`` is the caller context in the server's audit log."""
    header = _header(call_id, client_id, retry)
    if caller:
        header.caller_context.CopyFrom(CallerContext(context=caller[:_MAX_CONTEXT_CHARS]))
    parts = (serialize(header), serialize(method), request)
    return _with_length(b"".join(map(delimited, parts)))


def ping_frame(client_id: bytes) -> bytes:
    """A ping. No server answers it, but the host of a dead one resets the connection."""
    return _frame(_header(PING_CALL, client_id))


def sasl_frame(message: SaslMessage) -> bytes:
    """A message of the SASL negotiation, or wrapped bytes after it."""
    return _frame(_header(SASL_CALL, b""), message)


class RpcResponse(msgspec.Struct, frozen=True):
    """An answer: its header, and the undecoded message after it."""

    call_id: int
    header: ResponseHeader
    body: bytes


def read_response(frame: bytes) -> RpcResponse:
    """Decode the frame of an answer; raises :class:`MalformedMessageError`."""
    data, end = read_delimited(frame, 0)
    header = parse(ResponseHeader, data)
    # The server writes the id as unsigned: -33 arrives as 2**32 - 33.
    unsigned = header.call_id
    call_id = unsigned - 2**32 if unsigned >= 2**31 else unsigned
    return RpcResponse(call_id, header, frame[end:])


def read_sasl_message(frame: bytes) -> SaslMessage:
    """The SASL message in a frame; raises :class:`MalformedMessageError`."""
    response = read_response(frame)
    if response.call_id != SASL_CALL:
        raise MalformedMessageError(f"an answer to call {response.call_id} instead of SASL")
    return parse(SaslMessage, read_delimited(response.body, 0)[0])


class FrameSplitter:
    """Splits a stream of bytes into frames, and refuses frames beyond a limit.

    It buffers at most one incomplete frame, and only the bytes that have arrived.
    """

    def __init__(self, limit: int = MAX_RESPONSE_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that ``data`` completes; raises :class:`MalformedMessageError`."""
        self._buffer += data
        frames: list[bytes] = []
        at = 0
        while len(self._buffer) - at >= 4:
            length = int.from_bytes(self._buffer[at : at + 4], "big")
            if length > self._limit:
                raise MalformedMessageError(self._too_long(length, at))
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
        return f"an answer of {length} bytes, more than the limit of {self._limit} ({begins!r})"


def _header(call_id: int, client_id: bytes, retry: int = _OUT_OF_BAND) -> RequestHeader:
    return RequestHeader(
        # All fields are assigned: proto2 omits others, and the server requires the zeros.
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
