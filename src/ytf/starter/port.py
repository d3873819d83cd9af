"""The task's port: found, held or released, and found again (DESIGN: port policy).

``hold``
    The port stays bound with SO_REUSEPORT, never listening, from the first
    attempt to the starter's end. The program binds it as well, which Linux
    allows if it too sets SO_REUSEPORT and has the same user. Nobody else can.
``release``
    The port is free from just before the program starts: it binds as it likes.
``none``
    No port.
"""

from __future__ import annotations

import errno
import os
import socket

from ytf.starter.config import HOLD, NONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

_LOWEST = 15000
_TRIES = 64


class Port:
    """One task's port, over all its attempts."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._sock: Optional[socket.socket] = None
        self.number: Optional[int] = None

    @property
    def is_held(self) -> bool:
        """Whether programs must bind with SO_REUSEPORT, and may rely on the port."""
        return self._policy == HOLD

    def take(self) -> Optional[int]:
        """Have a port bound, that of the last attempt if it is free; None where none is wanted.

        Only to be called while no program of an earlier attempt lives.
        Raises ``OSError`` when there is none to be had.
        """
        if self._policy == NONE or self._sock is not None:
            return self.number
        sock = self._again() or _free_port()
        if self.is_held:
            # After binding, so that the port is surely ours alone: to bind
            # with it would also succeed beside another starter's held port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._sock = sock
        self.number = sock.getsockname()[1]
        return self.number

    def _again(self) -> Optional[socket.socket]:
        # Without SO_REUSEADDR: the program may not set it either, so a port
        # with connections still in TIME_WAIT does not count as free.
        return None if self.number is None else _bound_if_free(self.number)

    def is_taken(self) -> bool:
        """Whether somebody else has the port that was released for the program."""
        if self.number is None or self._sock is not None:
            return False
        # With SO_REUSEADDR: connections of the dead program in TIME_WAIT are nobody's.
        sock = _bound_if_free(self.number, reuse_address=True)
        if sock is None:
            return True
        sock.close()
        return False

    def before_program(self) -> None:
        """Make way for the program, if the policy says so. To be called just before it starts."""
        if not self.is_held:
            self.close()

    def close(self) -> None:
        """Let go of the port."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None


def listen(host: Optional[str]) -> socket.socket:
    """A listening socket on any free port of the address ``host``.

    On all addresses if it is None or a name: what a node is called need not
    lead to one of its own addresses (127.0.1.1, that of a gateway).
    """
    sock = _bound(0) if host is None else _bound_to(host)
    sock.listen(16)
    return sock


def _free_port() -> socket.socket:
    # Below the range from which Linux takes ports for outgoing connections:
    # one of those could take a released port while the program still loads.
    room = _first_ephemeral() - _LOWEST
    if room >= 1000:
        for _ in range(_TRIES):
            sock = _bound_if_free(_LOWEST + int.from_bytes(os.urandom(4), "big") % room)
            if sock is not None:
                return sock
    return _bound(0)


def _first_ephemeral() -> int:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0  # unknown: the kernel chooses


def _bound_if_free(port: int, reuse_address: bool = False) -> Optional[socket.socket]:
    try:
        return _bound(port, reuse_address)
    except OSError as exc:
        if exc.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise


def _bound(port: int, reuse_address: bool = False) -> socket.socket:
    """A socket bound to a port on all addresses, IPv6 and IPv4 where the node has both."""
    try:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return _bound_ipv4(port, reuse_address)
    try:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse_address)
        sock.bind(("::", port))
    except OSError as exc:
        sock.close()
        if exc.errno in (errno.EADDRNOTAVAIL, errno.ENOPROTOOPT):
            return _bound_ipv4(port, reuse_address)  # IPv6 is there but switched off
        raise
    return sock


def _bound_to(host: str) -> socket.socket:
    """A socket bound to any free port of one address; of all if ``host`` is no address."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue  # not of this family
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.bind((host, 0))
        except OSError:
            sock.close()
            raise
        return sock
    return _bound(0)


def _bound_ipv4(port: int, reuse_address: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse_address)
        sock.bind(("0.0.0.0", port))
    except OSError:
        sock.close()
        raise
    return sock
