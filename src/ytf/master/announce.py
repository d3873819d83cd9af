"""A new master tells the starters it inherits where it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from ytf.starter.auth import Signer
from ytf.starter.http import Channel, ChannelError

_AT_ONCE = 16


async def announce(controls: Iterable[str], url: str, attempt: int, secret: bytes) -> None:
    """Tell each control endpoint (``host:port``) of this master, as far as they can be reached.

    One that cannot is not tried again: such a starter looks for its master by
    itself, and if it is dead its silence will tell.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    body = json.dumps({"url": url, "attempt": attempt}).encode()
    signer = Signer(secret)

    async def tell(control: str) -> None:
        async with gate:
            await asyncio.to_thread(_tell, control, signer, body)

    await asyncio.gather(*(tell(control) for control in controls))


def _tell(control: str, signer: Signer, body: bytes) -> None:
    channel = Channel(f"http://{control}", signer, "master")
    try:
        channel.call("POST", "/control/v1/master", body, timeout_s=5.0)
    except ChannelError:
        return
    finally:
        channel.close()
