"""Opens the sockets on which our own processes listen: one address each, in a range of ports.

Peers are told a host, which on YARN is the name of a node. The socket is bound
to the one address that this name has on the node, never to all of them:
networks that have no business with the job do not see it.
"""

from __future__ import annotations

import errno
import os
import socket

from ytf.log import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Optional, Tuple

    PortRange = Tuple[int, int]
    """The first and the last port that may be taken."""


_SIOCGIFADDR = 0x8915
_IFREQ = 256
"""More than Linux's ``struct ifreq`` is long."""


class NoFreePortError(OSError):
    """Every port that may be taken is taken; the text names the range and the node."""

    def __init__(self, setting: str, ports: PortRange) -> None:
        super().__init__(
            errno.EADDRINUSE,
            "all ports of %s (%d-%d) are taken on %s: give a wider range"
            % (setting, ports[0], ports[1], socket.gethostname()),
        )

    def __str__(self) -> str:
        return str(self.strerror)


def listen(
    host: str,
    peer: Tuple[str, int],
    ports: Optional[PortRange] = None,
    backlog: int = 16,
    setting: str = "control_ports",
) -> socket.socket:
    """Return a socket that listens on one address of this node, on any free port of a range.

    ``host`` is what peers are told: a name or an address. ``peer`` (host, port)
    is one of them; the address towards it is taken where the name says nothing
    of use (see :func:`addresses`). ``setting`` is the name of the range. Listens
    on all addresses only if a *name* has none that can be bound, and then logs
    it. Raises ``OSError``.
    """
    if is_address(host):
        return _listen_on(host, ports, backlog, setting)
    for address in addresses(host, peer):
        if _is_ours(address):
            return _listen_on(address, ports, backlog, setting)
        log("%s has the address %s, which is not one of this node" % (host, address))
    log("listening on ALL addresses of this node, as %s has none that can be bound" % host)
    return _listen_on("0.0.0.0", ports, backlog, setting)


def addresses(name: str, peer: Tuple[str, int]) -> List[str]:
    """Return the addresses by which peers should reach the node ``name``, the best first.

    Those of the name come first, IPv4 before IPv6. Many systems give their own
    name a loopback address in ``/etc/hosts``: it is of use only if the peer is on
    this machine, too. The last one is the address that packets to the peer bear.
    """
    own = address_towards(peer)
    found = _resolve(name)
    if own is not None and not is_loopback(own):
        found = [each for each in found if not is_loopback(each)]
    return found if own is None or own in found else [*found, own]


def address_towards(peer: Tuple[str, int]) -> Optional[str]:
    """Return the address that packets to a peer bear, None if there is no route; sends nothing."""
    try:
        family, kind, _, _, target = socket.getaddrinfo(*peer, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as sock:
            sock.connect(target)
            return str(sock.getsockname()[0])
    except (OSError, UnicodeError):  # the latter for what can be no host's name
        return None


def interface_of(address: str) -> Optional[str]:
    """Return the name of this node's network interface that has an address; None if unknown."""
    import fcntl

    for _, name in socket.if_nameindex():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            try:
                found = fcntl.ioctl(sock, _SIOCGIFADDR, name.encode().ljust(_IFREQ, b"\0"))
            except OSError:
                continue  # it has no IPv4 address
        # After the name: a sockaddr_in of family, port and address.
        if socket.inet_ntoa(found[20:24]) == address:
            return name
    return _ipv6_interface(address)


def _ipv6_interface(address: str) -> Optional[str]:
    try:
        wanted = socket.inet_pton(socket.AF_INET6, address).hex()
        with open("/proc/net/if_inet6") as file:
            lines = [line.split() for line in file]
    except OSError:
        return None  # no IPv6 address, or a node without IPv6
    return next((line[5] for line in lines if line[0] == wanted), None)


def is_address(host: str) -> bool:
    """Tell whether a host is an address and not a name."""
    return _family(host) is not None


def is_loopback(address: str) -> bool:
    """Tell whether an address is reached from its own machine only."""
    return address.startswith("127.") or address == "::1"


def port_numbers(ports: PortRange) -> Iterator[int]:
    """Yield each port of a range once, beginning anywhere: others look for a free one, too."""
    first, last = ports
    count = last - first + 1
    begin = int.from_bytes(os.urandom(4), "big")
    return (first + (begin + step) % count for step in range(count))


def _listen_on(
    address: str, ports: Optional[PortRange], backlog: int, setting: str
) -> socket.socket:
    if ports is None:
        return _listen_at(address, 0, backlog)
    for port in port_numbers(ports):
        sock = _listen_if_free(address, port, backlog)
        if sock is not None:
            return sock
    raise NoFreePortError(setting, ports)


def _listen_if_free(address: str, port: int, backlog: int) -> Optional[socket.socket]:
    try:
        return _listen_at(address, port, backlog)
    except OSError as exc:
        if exc.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise


def _listen_at(address: str, port: int, backlog: int) -> socket.socket:
    sock = socket.socket(_family(address) or socket.AF_INET, socket.SOCK_STREAM)
    try:
        # The connections of a process that has ended do not take the port from the next one.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(backlog)
    except OSError:
        sock.close()
        raise
    return sock


def _is_ours(address: str) -> bool:
    with socket.socket(_family(address) or socket.AF_INET) as sock:
        try:
            sock.bind((address, 0))
        except OSError as exc:
            if exc.errno == errno.EADDRNOTAVAIL:
                return False
            raise
    return True


def _family(address: str) -> Optional[socket.AddressFamily]:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, address)
        except OSError:
            continue
        return family
    return None


def _resolve(name: str) -> List[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        log("the address of %s is not known: %s" % (name, exc))
        return []
    # Java prefers IPv4, and the ResourceManager's proxy has to reach the master.
    by_family = sorted(found, key=lambda each: each[0] != socket.AF_INET)
    return list(dict.fromkeys(str(each[4][0]) for each in by_family))
