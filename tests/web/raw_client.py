"""An HTTP client that sends and reads raw bytes, so that tests see what is on the wire."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ytf.wire.signing import Signer, body_digest

SECRET = b"a secret of the job"
DEADLINE_S = 10.0


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Peer:
    """One connection. ``actor`` signs what :meth:`ask` sends."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    actor: str = "client/test"
    signer: Signer = field(default_factory=lambda: Signer(SECRET))
    counter: int = field(default_factory=time.time_ns)
    signature: str = ""

    def signed(self, method: str, target: str, body: bytes = b"") -> bytes:
        self.counter += 1
        digest = body_digest(body)
        self.signature = self.signer.sign_request(method, target, self.actor, self.counter, digest)
        auth = f"Ytf-Auth: {self.actor} {self.counter} {digest} {self.signature}"
        head = f"{method} {target} HTTP/1.1\r\nContent-Length: {len(body)}\r\n{auth}\r\n\r\n"
        return head.encode() + body

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await asyncio.wait_for(self.writer.drain(), DEADLINE_S)

    async def reply(self) -> Reply:
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
        status, *lines = head[:-4].decode().split("\r\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        length = int(headers["content-length"])
        body = await asyncio.wait_for(self.reader.readexactly(length), DEADLINE_S)
        assert status.startswith("HTTP/1.1 ")
        return Reply(int(status.split(" ")[1]), headers, body)

    async def start(self, method: str, target: str, body: Any = None) -> None:
        await self.send(
            self.signed(method, target, b"" if body is None else json.dumps(body).encode())
        )

    async def finish(self) -> Reply:
        """The reply to the last signed request, its own signature checked."""
        reply = await self.reply()
        if reply.status == 401:
            assert "ytf-auth" not in reply.headers
        else:
            digest = body_digest(reply.body)
            right = self.signer.sign_answer(self.signature, reply.status, digest)
            assert reply.headers["ytf-auth"] == f"{digest} {right}"
        return reply

    async def ask(self, method: str, target: str, body: Any = None) -> Reply:
        await self.start(method, target, body)
        return await self.finish()

    async def raw(self, data: bytes) -> Reply:
        await self.send(data)
        return await self.reply()

    async def end(self) -> bytes:
        """Everything until the server closes."""
        return await asyncio.wait_for(self.reader.read(), DEADLINE_S)

    def reset(self) -> None:
        """Go away as a lost machine does, with a reset in place of an orderly end."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.drop()

    def drop(self) -> None:
        """Go away without a word."""
        self.writer.transport.abort()


@asynccontextmanager
async def connected(port: int, actor: str = "client/test") -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Peer(reader, writer, actor)
    finally:
        writer.transport.abort()
        try:
            await writer.wait_closed()
        except ConnectionError:
            # A test may have made the server reset the connection on purpose.
            assert writer.transport.is_closing()
