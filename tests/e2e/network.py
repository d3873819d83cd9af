"""Another machine for tests: a network namespace with a cable to this one. Needs root."""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_CONNECT = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 2) as sock:
        sock.settimeout(2)
        print("connected", sock.recv(100).decode())
except OSError as exc:
    print("no connection:", exc)
"""


@dataclass(frozen=True)
class OtherMachine:
    """Reaches this machine at ``ipv4`` and ``ipv6``."""

    namespace: str
    ipv4: str
    ipv6: str

    def connect(self, address: str, port: int) -> str:
        """``connected`` and what the server said first, or ``no connection`` and why."""
        command = ["ip", "netns", "exec", self.namespace, sys.executable, "-c", _CONNECT]
        return _run(*command, address, str(port)).strip()


@contextmanager
def other_machine() -> Iterator[OtherMachine]:
    """Make the namespace and the cable; both are gone afterwards."""
    _install_ip()
    # Of the networks for such tests, one that no other test has.
    third, last = os.urandom(1)[0], os.urandom(1)[0] & 0xFC
    name, inside, outside = f"ytf-test-{os.getpid()}", f"yti{os.getpid()}", f"yto{os.getpid()}"
    ipv4 = f"198.18.{third}.{last}"
    ipv6 = f"fd00:18:{third:x}:{last:x}::"
    machine = OtherMachine(name, _add(ipv4, 1), _add(ipv6, 1))
    _run("ip", "netns", "add", name)
    try:
        _run("ip", "link", "add", inside, "type", "veth", "peer", "name", outside, "netns", name)
        for host, device, prefix in ((1, inside, ()), (2, outside, ("-n", name))):
            _run("ip", *prefix, "addr", "add", _add(ipv4, host) + "/30", "dev", device)
            _run("ip", *prefix, "addr", "add", _add(ipv6, host) + "/126", "dev", device, "nodad")
            _run("ip", *prefix, "link", "set", device, "up")
        yield machine
    finally:
        _run("ip", "netns", "delete", name)


def _add(network: str, host: int) -> str:
    return str(ipaddress.ip_address(network) + host)


def _install_ip() -> None:
    if shutil.which("ip") is None:
        # Debian has it in a package of its own.
        install = "apt-get install -y -qq iproute2"
        _run("sh", "-c", f"{install} || {{ apt-get update -qq && {install}; }}")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
