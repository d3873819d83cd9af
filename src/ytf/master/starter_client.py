"""A new master tells the starters of its predecessor its address."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from ytf.specs.ids import ContainerId
from ytf.wire.http_client import ChannelError, SignedChannel
from ytf.wire.signing import Signer

_AT_ONCE = 16
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0
_FIRST_TIMEOUT_S = 1.0
_LONGEST_TIMEOUT_S = 5.0


async def announce_master(
    starters: Iterable[tuple[ContainerId, str]],
    url: str,
    attempt: int,
    secret: bytes,
    is_awaited: Callable[[ContainerId], bool],
) -> None:
    """Send the master's ``url`` and ``attempt`` to starters, each at its ``host:port``.

    Returns when no starter is awaited any more: each has called this master, or
    is lost. Until then it is told again and again, with growing pauses. What it
    answers does not count, for its own call proves more.
    """
    body = json.dumps({"url": url, "attempt": attempt}).encode()
    signer = Signer(secret)
    loop = asyncio.get_running_loop()
    # Not the loop's own threads: the journal needs them, and calls to lost nodes take long.
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="announce")

    async def announce(container: ContainerId, control: str) -> None:
        pause_s, timeout_s = FIRST_PAUSE_S, _FIRST_TIMEOUT_S
        while is_awaited(container):
            await loop.run_in_executor(pool, _post, container, control, signer, body, timeout_s)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            # Short at first, so that lost nodes do not keep the others waiting.
            timeout_s = min(2 * timeout_s, _LONGEST_TIMEOUT_S)

    try:
        await asyncio.gather(*(announce(*starter) for starter in starters))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _post(
    container: ContainerId, control: str, signer: Signer, body: bytes, timeout_s: float
) -> None:
    channel = SignedChannel(f"http://{control}", signer, f"master/{container}")
    try:
        channel.call("POST", "/control/v1/master", body, timeout_s)
    except ChannelError:
        return  # it is told again
    finally:
        channel.close()
