"""Signatures of requests and answers between our processes (docs/protocols.md §1).

Both sides use this module. HMAC is written out because ``hmac`` and
``hashlib`` load OpenSSL, which alone would cost a starter a third of its
memory; CPython's own SHA-256 is always there.
"""

from __future__ import annotations

try:
    from _sha2 import sha256 as _sha256  # CPython 3.12 and newer
except ImportError:
    try:
        from _sha256 import sha256 as _sha256
    except ImportError:
        from hashlib import sha256 as _sha256

_INNER = bytes(b ^ 0x36 for b in range(256))
_OUTER = bytes(b ^ 0x5C for b in range(256))
_BLOCK = 64

HEADER = "Ytf-Auth"


class Signer:
    """Signs and checks with one secret. Keeps the keyed hash states, so a signature is cheap."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) > _BLOCK:
            secret = _sha256(secret).digest()
        key = secret.ljust(_BLOCK, b"\0")
        self._inner = _sha256(key.translate(_INNER))
        self._outer = _sha256(key.translate(_OUTER))

    def _mac(self, *parts: str) -> str:
        inner = self._inner.copy()
        inner.update("\n".join(parts).encode())
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()

    def request(self, method: str, path: str, actor: str, counter: int, digest: str) -> str:
        """The signature of a request whose body has this :func:`body_digest`."""
        return self._mac(method, path, actor, str(counter), digest)

    def answer(self, request: str, status: int, digest: str) -> str:
        """The signature of the answer to the request that was signed ``request``."""
        return self._mac("answer", request, str(status), digest)


def body_digest(body: bytes) -> str:
    """The SHA-256 of a body, in hex: what signatures cover in its place."""
    return _sha256(body).hexdigest()


def same(a: str, b: str) -> bool:
    """Compare two signatures in a time that does not depend on where they differ."""
    if len(a) != len(b):
        return False
    difference = 0
    for x, y in zip(a.encode(), b.encode()):
        difference |= x ^ y
    return difference == 0
