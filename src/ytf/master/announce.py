"""A new master tells the starters it inherits where it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from ytf.specs.names import ContainerId
from ytf.starter.auth import Signer
from ytf.starter.http import Channel, ChannelError

_AT_ONCE = 16


async def announce(
    starters: Iterable[tuple[ContainerId, str]], url: str, attempt: int, secret: bytes
) -> None:
    """Tell starters of this master, each where it listens (``host:port``), if it can be reached.

    One that cannot is not tried again: such a starter looks for its master by
    itself, and if it is dead its silence will tell.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    body = json.dumps({"url": url, "attempt": attempt}).encode()
    signer = Signer(secret)

    async def tell(container: ContainerId, control: str) -> None:
        async with gate:
            await asyncio.to_thread(_tell, container, control, signer, body)

    await asyncio.gather(*(tell(*starter) for starter in starters))


def _tell(container: ContainerId, control: str, signer: Signer, body: bytes) -> None:
    channel = Channel(f"http://{control}", signer, f"master/{container}")
    try:
        channel.call("POST", "/control/v1/master", body, timeout_s=5.0)
    except ChannelError:
        return
    finally:
        channel.close()
