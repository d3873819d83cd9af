"""Where a service listens."""

from __future__ import annotations

import re

import msgspec


class Address(msgspec.Struct, frozen=True):
    """A host and a port, written ``host:port``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, default_port: int | None = None) -> Address:
    """Read ``host:port``, or ``host`` where there is a default; raises ``ValueError``."""
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\s]+))(?::([0-9]{1,5}))?", text.strip())
    port = int(found[3]) if found and found[3] else default_port
    if found is None or port is None or not 0 < port < 2**16:
        raise ValueError(f"{text!r} is not host:port")
    return Address(found[1] or found[2], port)
