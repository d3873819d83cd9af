"""The end of what a task has written: asked of its starter, or read where it lies."""

from __future__ import annotations

import asyncio
import contextlib
import os
from urllib.parse import unquote, urlsplit

import msgspec

from ytf.specs.names import ContainerId
from ytf.starter.auth import Signer
from ytf.starter.http import Channel, ChannelError
from ytf.starter.logs import STREAMS, read
from ytf.web.messages import HttpError

LONGEST = 1 << 20
_AT_ONCE = 2
"""Starters that are asked at a time: the threads are the journal's as well."""
_PATIENCE_S = 5.0


class LogPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a task's newest attempt writes.

    ``control`` is where its starter listens, None once that is gone; ``url``
    where a person finds the logs.
    """

    container: ContainerId
    control: str | None
    url: str | None


class Tails:
    """Reads the ends of logs, a few at a time."""

    def __init__(self, secret: bytes) -> None:
        self._signer = Signer(secret)
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def read(self, place: LogPlace, stream: str, size: int) -> bytes:
        """The last ``size`` bytes of a stream; a 404 says where else to look."""
        if stream not in STREAMS:
            raise HttpError(400, f"there is no stream {stream!r}: ask for {' or '.join(STREAMS)}")
        async with self._gate:
            return await asyncio.to_thread(self._read, place, stream, min(size, LONGEST))

    def _read(self, place: LogPlace, stream: str, size: int) -> bytes:
        why = "its container has ended"
        if place.control is not None:
            try:
                return self._ask(place.control, place.container, stream, size)
            except ChannelError as error:
                why = f"its starter does not answer ({error})"
        if place.url is not None and place.url.startswith("file:"):
            # Not Path.from_uri: that is Python 3.13's.
            directory = unquote(urlsplit(place.url).path)
            with contextlib.suppress(FileNotFoundError):
                return read(f"{directory}/{stream}", -size, size)[0]
            raise HttpError(404, "it has written no logs")
        where = f"; its node may still have its logs: {place.url}" if place.url else ""
        raise HttpError(404, why + where)

    def _ask(self, control: str, container: ContainerId, stream: str, size: int) -> bytes:
        # Also named: all starters have the same secret, and this is for one of them.
        actor = f"client/{os.urandom(8).hex()}/{container}"
        channel = Channel(f"http://{control}", self._signer, actor)
        path = f"/control/v1/logs?stream={stream}&offset=-{size}&limit={size}"
        with contextlib.closing(channel):
            answer = channel.call("GET", path, timeout_s=_PATIENCE_S)
        if answer.status != 200:
            raise HttpError(404, answer.error())
        return answer.body
