"""The two ciphers of DIGEST-MD5's privacy layer: RC4 and 3DES.

Both are weak by today's standards, and Hadoop uses both for tokens with
``hadoop.rpc.protection=privacy``. RC4 takes twenty lines. 3DES comes from the
package ``cryptography``, which only few clusters need.
"""

from __future__ import annotations

import importlib.util
from typing import Protocol


class Cipher(Protocol):
    """A cipher for one direction of a connection. It keeps its state between messages."""

    block_size: int

    def process(self, data: bytes) -> bytes:
        """Encrypt or decrypt the next bytes."""
        ...


class Rc4:
    """The stream cipher."""

    block_size = 1

    def __init__(self, key: bytes) -> None:
        state = list(range(256))
        j = 0
        for i in range(256):
            j = (j + state[i] + key[i % len(key)]) & 0xFF
            state[i], state[j] = state[j], state[i]
        self._state = state
        self._i = self._j = 0

    def process(self, data: bytes) -> bytes:
        """Encrypt or decrypt, which is the same operation."""
        state, i, j = self._state, self._i, self._j
        out = bytearray(len(data))
        for at, byte in enumerate(data):
            i = (i + 1) & 0xFF
            a = state[i]
            j = (j + a) & 0xFF
            b = state[j]
            state[i], state[j] = b, a
            out[at] = byte ^ state[(a + b) & 0xFF]
        self._i, self._j = i, j
        return bytes(out)


class TripleDes:
    """3DES with two keys in CBC mode. The chain continues across messages."""

    block_size = 8

    def __init__(self, key: bytes, *, encrypt: bool) -> None:
        from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
        from cryptography.hazmat.primitives.ciphers import Cipher as Machine
        from cryptography.hazmat.primitives.ciphers import modes

        first, second = _des_key(key[:7]), _des_key(key[7:14])
        machine = Machine(TripleDES(first + second + first), modes.CBC(key[8:16]))
        self._context = machine.encryptor() if encrypt else machine.decryptor()

    def process(self, data: bytes) -> bytes:
        """Encrypt or decrypt whole blocks."""
        return self._context.update(data)


def can_do_3des() -> bool:
    """Whether the package with 3DES is installed."""
    return importlib.util.find_spec("cryptography") is not None


def _des_key(seven: bytes) -> bytes:
    """Spread 56 bits over eight bytes. The lowest bit of each is its parity."""
    bits = int.from_bytes(seven, "big")
    groups = (bits >> shift & 0x7F for shift in range(49, -1, -7))
    return bytes(group << 1 | (group.bit_count() + 1) % 2 for group in groups)
