"""Chooses a task's port and holds or releases it, as the port policy says.

``hold``
    The port stays bound with SO_REUSEPORT, never listening, from the first
    attempt to the starter's end. The program binds it as well, which Linux
    allows if it too sets SO_REUSEPORT and has the same user. No other user can.
``release``
    The port is closed just before the program starts, which binds it as it likes.
``serve_horovod``
    Not here: the starter itself serves on it (``ytf.starter.horovod_rendezvous``).
``none``
    No port.

If the job's spec has ``task_ports``, the port is one of them.
"""

from __future__ import annotations

import errno
import os
import socket

from ytf.frameworks.api import HOLD
from ytf.starter.config import NO_PORT
from ytf.wire.bind import NoFreePortError, port_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from ytf.wire.bind import PortRange

_LOWEST = 15000
_TRIES = 64


class TaskPort:
    """One task's port, over all its attempts; one of ``ports`` if that is given."""

    def __init__(self, policy: str, ports: Optional[PortRange] = None) -> None:
        self._policy = policy
        self._ports = ports
        self._sock: Optional[socket.socket] = None
        self.number: Optional[int] = None

    @property
    def is_held(self) -> bool:
        """Whether programs must bind with SO_REUSEPORT, and may rely on the port."""
        return self._policy == HOLD

    def take(self) -> Optional[int]:
        """Bind a port, that of the last attempt if it is free; None if the policy is ``none``.

        Must be called only when every program of an earlier attempt is dead.
        Raises ``OSError`` if no port can be bound, ``NoFreePortError`` if all that
        may be taken are.
        """
        if self._policy == NO_PORT or self._sock is not None:
            return self.number
        sock = self._bind_again() or _free_port(self._ports)
        if self.is_held:
            # After binding, so that the port is ours alone: binding with this
            # option would also succeed beside another starter's held port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._sock = sock
        self.number = sock.getsockname()[1]
        return self.number

    def _bind_again(self) -> Optional[socket.socket]:
        # Without SO_REUSEADDR: the program may not set it either, so a port
        # with connections still in TIME_WAIT does not count as free.
        return None if self.number is None else _bound_if_free(self.number)

    def is_lost(self) -> bool:
        """Tell whether another process has the port that was released for the program."""
        if self.number is None or self._sock is not None:
            return False
        # With SO_REUSEADDR: the dead program's connections in TIME_WAIT do not count.
        sock = _bound_if_free(self.number, reuse_address=True)
        if sock is None:
            return True
        sock.close()
        return False

    def before_program(self) -> None:
        """Release the port if the policy says so. Must be called just before the program starts."""
        if not self.is_held:
            self.close()

    def close(self) -> None:
        """Release the port."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None


def _free_port(ports: Optional[PortRange]) -> socket.socket:
    if ports is not None:
        for number in port_numbers(ports):
            sock = _bound_if_free(number)
            if sock is not None:
                return sock
        raise NoFreePortError("task_ports", ports)
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


def _bound_ipv4(port: int, reuse_address: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse_address)
        sock.bind(("0.0.0.0", port))
    except OSError:
        sock.close()
        raise
    return sock
