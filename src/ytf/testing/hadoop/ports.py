"""Free ports on this machine, for daemons that are restarted on the same ones."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

HOST = "127.0.0.1"

_LOWEST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that nobody had a moment ago.

    They lie below the ephemeral range: while a daemon is down, no outgoing
    connection can sit on its port.
    """
    candidates = list(range(_LOWEST, int(_EPHEMERAL.read_text().split()[0])))
    if len(candidates) < 100 * count:
        candidates = list(range(_LOWEST, 65_536))
    random.shuffle(candidates)
    taken: list[int] = []
    with ExitStack() as held:
        while len(taken) < count:
            port = candidates.pop()
            listener = held.enter_context(socket.socket())
            with suppress(OSError):
                listener.bind((HOST, port))
                taken.append(port)
    return taken
