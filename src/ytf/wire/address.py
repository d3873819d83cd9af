"""Splits, joins and finds network addresses."""

from __future__ import annotations

import re
import socket

from ytf.wire.bind import address_towards
from ytf.wire.untrusted import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

_URL = re.compile(r"http://([!-.0-~]{1,255}):([0-9]{1,5})/*").fullmatch


def split_url(url: str) -> Tuple[str, int]:
    """Return host and port of ``http://host:port``, where the host may be an IPv6 ``[address]``.

    Raises ``ValueError`` for anything else.
    """
    parts = _URL(url)
    port = int(parts.group(2)) if parts is not None else 0
    if parts is None or not 0 < port < 65536:
        raise ValueError("%s is not of the form http://host:port" % shown(url))
    host = parts.group(1)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, port


def split_address(address: str) -> Tuple[str, int]:
    """Return host and port of ``host:port``; an IPv6 address loses its brackets.

    Raises ``ValueError`` for anything else.
    """
    return split_url("http://" + address)


def join_address(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 address in brackets."""
    return "[%s]:%d" % (host, port) if ":" in host else "%s:%d" % (host, port)


def own_address(master: str) -> str:
    """Return the address that this node has towards the master; sends nothing.

    Falls back to the node's name where there is no route to the master yet.
    """
    return address_towards(split_url(master)) or socket.gethostname()
