"""Frames over a socket, wrapped if the negotiation agreed on a layer."""

from __future__ import annotations

import asyncio
from collections import deque

from ytf.hadoop.proto.rpc_pb2 import SaslMessage
from ytf.hadoop.proto.wire import MalformedError, parse, read_delimited
from ytf.hadoop.rpc import sasl
from ytf.hadoop.rpc.frames import SASL_CALL, Splitter, read_response, sasl_frame

_READ_BYTES = 64 * 1024
_MOST_WRAPPED = 1024 * 1024
"""The longest wrapped message we take; servers send 64 KiB at most."""


class Channel:
    """Sends and receives whole frames. Knows when the peer was last heard."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_frame: int
    ) -> None:
        self.last_heard = asyncio.get_running_loop().time()
        self._reader, self._writer = reader, writer
        self._max_frame = max_frame
        self._outer = Splitter(max_frame)
        self._inner: Splitter | None = None
        self._layer: sasl.Layer | None = None
        self._frames: deque[bytes] = deque()

    def protect(self, layer: sasl.Layer) -> None:
        """From now on both directions go through ``layer``."""
        if self._frames:
            raise MalformedError("the server spoke before the layer was agreed on")
        self._layer, self._inner = layer, Splitter(self._max_frame)

    def send(self, data: bytes) -> None:
        """Hand whole frames to the socket; does not wait."""
        self._writer.write(self._wrapped(data) if self._layer else data)

    async def drain(self) -> None:
        """Wait until the socket has room again; raises ``OSError`` when it is gone."""
        await self._writer.drain()

    async def receive(self) -> bytes:
        """The next frame. Raises ``EOFError`` at its end, :class:`MalformedError`, ``OSError``."""
        while not self._frames:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise EOFError("the server closed the connection")
            self.last_heard = asyncio.get_running_loop().time()
            for frame in self._outer.feed(data):
                self._frames += self._opened(frame)
        return self._frames.popleft()

    def close(self) -> None:
        """Close the socket at once; what was not sent is lost."""
        self._writer.transport.abort()

    def _wrapped(self, data: bytes) -> bytes:
        layer = self._layer
        assert layer is not None
        size = layer.max_chunk
        chunks = (data[at : at + size] for at in range(0, len(data), size))
        return b"".join(
            sasl_frame(SaslMessage(state=sasl.WRAP, token=layer.wrap(chunk))) for chunk in chunks
        )

    def _opened(self, frame: bytes) -> list[bytes]:
        """The frames within a frame: itself, or what its wrapping completes."""
        if self._layer is None or self._inner is None:
            return [frame]
        if len(frame) > _MOST_WRAPPED:
            raise MalformedError(f"a wrapped message of {len(frame)} bytes")
        message = sasl_message(frame)
        if message.state != sasl.WRAP:
            raise MalformedError(f"SASL state {message.state} where a wrapped message belongs")
        return self._inner.feed(self._layer.unwrap(message.token))


def sasl_message(frame: bytes) -> SaslMessage:
    """The SASL message in a frame; raises :class:`MalformedError`."""
    response = read_response(frame)
    if response.call_id != SASL_CALL:
        raise MalformedError(f"an answer to call {response.call_id} where SASL belongs")
    return parse(SaslMessage, read_delimited(response.body, 0)[0])
