from __future__ import annotations

import socket
from pathlib import Path

from ytf.minicluster.daemons import HOST, free_ports


def test_free_ports_can_be_bound_and_differ() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    for port in ports:
        with socket.socket() as listener:
            listener.bind((HOST, port))


def test_no_outgoing_connection_takes_them() -> None:
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < first_ephemeral for port in free_ports(50))
