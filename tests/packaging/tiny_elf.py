"""The smallest shared library that a loader takes: no code, only what it needs.

Written here byte by byte, so that tests of ``$ORIGIN`` need no compiler.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Sequence

_MACHINES = {"x86_64": 62, "aarch64": 183}
_PAGE = 0x10000


def library(needed: Sequence[str] = (), run_path: str = "", glibc: str = "") -> bytes:
    """A library that needs others, looked for along ``run_path``; and a version of libc."""
    strings = bytearray(b"\0")

    def string(text: str) -> int:
        at = len(strings)
        strings.extend(text.encode() + b"\0")
        return at

    tags = [(1, string(name)) for name in needed]
    if run_path:
        tags.append((29, string(run_path)))
    wanted = b""
    if glibc:
        libc = string("libc.so.6")
        tags.append((1, libc))
        version = f"GLIBC_{glibc}"
        known = _sysv_hash(version)
        wanted = struct.pack("<HHIII", 1, 1, libc, 16, 0)
        wanted += struct.pack("<IHHII", known, 0, 2, string(version), 0)
    headers = 3
    at = 64 + headers * 56
    symbols, at = at, at + 24
    hashes, at = at, at + 20
    versions, at = at, at + len(wanted)
    names, at = at, at + len(strings)
    dynamic = (at + 15) // 16 * 16
    tags += [(4, hashes), (5, names), (6, symbols), (10, len(strings)), (11, 24)]
    if wanted:
        # The version of the one symbol, which has none: the first bytes of the symbols do.
        tags += [(0x6FFFFFF0, symbols), (0x6FFFFFFE, versions), (0x6FFFFFFF, 1)]
    table = b"".join(struct.pack("<qQ", *tag) for tag in [*tags, (0, 0)])
    size = dynamic + len(table)
    machine = _MACHINES[platform.machine()]
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, headers, 64, 0, 0)
    head += struct.pack("<IIQQQQQQ", 1, 6, 0, 0, 0, size, size, _PAGE)
    head += struct.pack("<IIQQQQQQ", 2, 6, dynamic, dynamic, 0, len(table), len(table), 8)
    # Without this a loader must assume that the stack is to be executable.
    head += struct.pack("<IIQQQQQQ", 0x6474E551, 6, 0, 0, 0, 0, 0, 16)
    body = bytes(24) + struct.pack("<IIIII", 1, 1, 0, 0, 0) + wanted + bytes(strings)
    return (head + body).ljust(dynamic, b"\0") + table


def _sysv_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high if high else value
    return value & 0xFFFFFFFF
