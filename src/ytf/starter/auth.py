"""Signatures of requests and answers between our processes (docs/protocols.md §1).

Both sides use this module. HMAC is written out because ``hmac`` and
``hashlib`` load OpenSSL, which alone would cost a starter a third of its
memory; CPython's own SHA-256 is always there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Protocol

    class _Hash(Protocol):
        def update(self, data: bytes, /) -> None: ...
        def digest(self) -> bytes: ...
        def hexdigest(self) -> str: ...
        def copy(self) -> _Hash: ...


def _find_sha256() -> Callable[[bytes], _Hash]:
    # _sha2 is CPython 3.12 and newer, _sha256 older; others have hashlib at least.
    for name in ("_sha2", "_sha256"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        found: Callable[[bytes], _Hash] = module.sha256
        return found
    from hashlib import sha256

    return sha256


_sha256 = _find_sha256()
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


class Replays:
    """Knows which requests were seen: within one actor, counters only grow.

    Remembers a bounded number of actors. One that was forgotten cannot be
    replayed either: counters start at the time of day, so a stranger's must
    be above everything forgotten.
    """

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._last: Dict[str, int] = {}
        self._forgotten = 0

    def accept(self, actor: str, counter: int) -> bool:
        """Whether a request with a good signature is new. Asking makes it seen."""
        if counter <= self._last.get(actor, self._forgotten):
            return False
        if actor not in self._last and len(self._last) >= self._limit:
            oldest = min(self._last, key=self._last.__getitem__)
            self._forgotten = max(self._forgotten, self._last.pop(oldest))
        self._last[actor] = counter
        return True
