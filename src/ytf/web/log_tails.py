"""Reads the end of a task's log, from its starter or from a local file, for the job's page."""

from __future__ import annotations

import asyncio
import contextlib
import os
from urllib.parse import unquote, urlsplit

from ytf.specs.ids import ContainerId
from ytf.specs.status import LogLocation
from ytf.starter.program_logs import STREAMS, read_range
from ytf.web.messages import HttpError
from ytf.wire.http_client import ChannelError, SignedChannel
from ytf.wire.signing import Signer

LONGEST = 1 << 20
_AT_ONCE = 2
"""How many starters the page asks at a time: each needs a thread of the master."""
_TIMEOUT_S = 5.0


class LogTails:
    """Reads the ends of logs, a few at a time."""

    def __init__(self, secret: bytes, *, at_once: int = _AT_ONCE) -> None:
        self._signer = Signer(secret)
        self._gate = asyncio.Semaphore(at_once)

    async def read(self, location: LogLocation, stream: str, size: int) -> bytes:
        """The last ``size`` bytes of a stream; a 404 says where else the logs may be."""
        if stream not in STREAMS:
            raise HttpError(400, f"there is no stream {stream!r}: ask for {' or '.join(STREAMS)}")
        async with self._gate:
            return await asyncio.to_thread(self._read, location, stream, min(size, LONGEST))

    def _read(self, location: LogLocation, stream: str, size: int) -> bytes:
        why = "its container has ended"
        if location.control is not None:
            try:
                return self._ask(location.control, location.container, stream, size)
            except ChannelError as error:
                why = f"its starter does not answer ({error})"
        if location.url is not None and location.url.startswith("file:"):
            # Path.from_uri needs Python 3.13.
            directory = unquote(urlsplit(location.url).path)
            with contextlib.suppress(FileNotFoundError):
                return read_range(f"{directory}/{stream}", -size, size)[0]
            raise HttpError(404, "it has written no logs")
        where = f"; its node may still have its logs: {location.url}" if location.url else ""
        raise HttpError(404, why + where)

    def _ask(self, control: str, container: ContainerId, stream: str, size: int) -> bytes:
        # The actor names the container: all starters have the same secret.
        actor = f"client/{os.urandom(8).hex()}/{container}"
        channel = SignedChannel(f"http://{control}", self._signer, actor)
        path = f"/control/v1/logs?stream={stream}&offset=-{size}&limit={size}"
        with contextlib.closing(channel):
            answer = channel.call("GET", path, timeout_s=_TIMEOUT_S)
        if answer.status != 200:
            raise HttpError(404, answer.error())
        return answer.body
