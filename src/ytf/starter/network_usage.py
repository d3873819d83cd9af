"""Counts what a program's TCP connections carry.

Linux counts bytes per network interface and per TCP connection, not per
process. The interfaces are the node's, unless the program has a network
namespace of its own. So here are counted

* the program's own connections, as ``ss -ti`` shows them: sock_diag(7) tells the
  bytes of each. A connection that begins and ends between two samples, UDP and
  RDMA are not seen;
* the interfaces of the program's own namespace, where it has one.
"""

from __future__ import annotations

import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, Optional, Set, Tuple

    from ytf.starter.process_usage import ProcessUsage

    Bytes = Tuple[int, int]

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_INET_DIAG_INFO = 2
_STATES = 0xFFF & ~(1 << 3 | 1 << 6 | 1 << 10)
"""All states of TCP but SYN_RECV, TIME_WAIT and LISTEN, which have no owner or no bytes."""
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI48x")
_ATTRIBUTE = struct.Struct("=HH")
_INODE_AT = 16 + 68
_ATTRIBUTES_AT = 16 + 72
_COUNTERS = struct.Struct("=QQ")
_COUNTERS_AT = 4 + 120
"""Where ``tcpi_bytes_acked`` and ``tcpi_bytes_received`` are in the attribute ``tcp_info``."""
_TIMEOUT_S = 2.0
_ENOUGH = 256 * 1024


class NetworkUsage:
    """Adds up what a program has received and sent. For one thread."""

    def __init__(self) -> None:
        self.received_bytes = 0
        self.sent_bytes = 0
        self._known: Dict[int, Bytes] = {}
        self._works = True

    @property
    def is_known(self) -> bool:
        """Whether this node tells at all."""
        return self._works

    def update(self, usage: ProcessUsage) -> None:
        """Count what has been carried since the last call."""
        if usage.first is not None and _has_own_namespace(usage.first):
            interfaces = _interface_bytes(usage.first)
            if interfaces is not None:
                self._take(dict(enumerate([interfaces])))
            return
        if not self._works or not usage.sockets:
            self._known = {}
            return
        try:
            self._take(dict(_connections(usage.sockets)))
        except socket.timeout:
            return  # a busy node; the next sample has these bytes, too
        except OSError:
            self._works = False  # a sandbox forbids it, or the kernel has no sock_diag

    def _take(self, now: Dict[int, Bytes]) -> None:
        for name, (received, sent) in now.items():
            before = self._known.get(name, (0, 0))
            if received < before[0] or sent < before[1]:
                before = (0, 0)  # another connection with the number of an old one
            self.received_bytes += received - before[0]
            self.sent_bytes += sent - before[1]
        self._known = now


def _connections(wanted: Set[int]) -> Iterator[Tuple[int, Bytes]]:
    """Yield inode, and bytes received and sent, of each connection with one of these inodes."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
        link.settimeout(_TIMEOUT_S)
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _REQUEST.pack(
                family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 0, _STATES
            )
            size = _HEADER.size + len(request)
            link.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 0, 0) + request)
            is_done = False
            while not is_done:
                data = link.recv(_ENOUGH)
                at = 0
                while at + _HEADER.size <= len(data):
                    size, kind = _HEADER.unpack_from(data, at)[:2]
                    if kind == _ERROR:
                        raise OSError("sock_diag is refused")
                    if kind == _DONE or size < _HEADER.size:
                        is_done = True
                        break
                    (inode,) = struct.unpack_from("=I", data, at + _INODE_AT)
                    if inode in wanted:
                        counted = _counters(data, at + _ATTRIBUTES_AT, at + size)
                        if counted is not None:
                            yield inode, counted
                    at += (size + 3) & ~3


def _counters(data: bytes, at: int, end: int) -> Optional[Bytes]:
    while at + _ATTRIBUTE.size <= end:
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        if kind == _INET_DIAG_INFO and size >= _COUNTERS_AT + _COUNTERS.size:
            acknowledged, received = _COUNTERS.unpack_from(data, at + _COUNTERS_AT)
            return received, acknowledged
        at += max(_ATTRIBUTE.size, (size + 3) & ~3)
    return None


def _has_own_namespace(pid: int) -> bool:
    try:
        return os.readlink("/proc/%d/ns/net" % pid) != os.readlink("/proc/self/ns/net")
    except OSError:
        return False


def _interface_bytes(pid: int) -> Optional[Bytes]:
    """Return what all interfaces of a process's namespace but loopback have received and sent."""
    received = sent = 0
    try:
        with open("/proc/%d/net/dev" % pid, "rb") as file:
            for line in file.readlines()[2:]:
                name, _, counts = line.partition(b":")
                words = counts.split()
                if name.strip() != b"lo" and len(words) >= 9:
                    received += int(words[0])
                    sent += int(words[8])
    except OSError:
        return None
    return received, sent
