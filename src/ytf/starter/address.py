"""Under which name peers reach this node."""

from __future__ import annotations

import socket

from ytf.starter.http import split_url


def own_address(master: str) -> str:
    """The address this node has towards the master; sends nothing.

    Falls back to the node's name where there is no route to the master yet.
    """
    host, port = split_url(master)
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as sock:
            sock.connect(target)
            return str(sock.getsockname()[0])
    except OSError:
        return socket.gethostname()


def join(host: str, port: int) -> str:
    """``host:port``, with an IPv6 address in brackets."""
    return "[%s]:%d" % (host, port) if ":" in host else "%s:%d" % (host, port)
