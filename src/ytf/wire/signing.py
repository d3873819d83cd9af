"""Signs and checks requests and answers between our processes (docs/protocols.md §1).

Both sides use this module. A signature covers the digest of the body, and the
head of a message carries both: a receiver knows from the head alone whether the
sender has the secret, before it reads the body. HMAC is written out because ``hmac`` and
``hashlib`` load OpenSSL, which alone would cost a starter a third of its
memory; CPython's own SHA-256 is always there.
"""

from __future__ import annotations

import re
from _operator import _compare_digest  # as hmac, but without OpenSSL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Optional, Protocol

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
HEADER_KEY = HEADER.lower()

_REQUEST = re.compile(r"([!-~]{1,300}) ([0-9]{1,20}) ([0-9a-f]{64}) ([0-9a-f]{64})").fullmatch
_ANSWER = re.compile(r"([0-9a-f]{64}) ([0-9a-f]{64})").fullmatch


class RequestSignature:
    """What the head of a request with a valid signature says: who sent it, and what follows."""

    __slots__ = ("actor", "counter", "digest", "signature")

    def __init__(self, actor: str, counter: int, digest: str, signature: str) -> None:
        self.actor = actor
        self.counter = counter
        self.digest = digest
        self.signature = signature


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

    def sign_request(self, method: str, path: str, actor: str, counter: int, digest: str) -> str:
        """Sign a request whose body has this :func:`body_digest`."""
        return self._mac(method, path, actor, str(counter), digest)

    def verify_request(self, method: str, path: str, header: str) -> Optional[RequestSignature]:
        """Return what a request's header says; None if it is not signed with our secret."""
        parts = _REQUEST(header)
        if parts is None:
            return None
        actor, digits, digest, signature = parts.groups()
        counter = int(digits)
        right = self.sign_request(method, path, actor, counter, digest)
        if not _compare_digest(right, signature):
            return None
        return RequestSignature(actor, counter, digest, signature)

    def sign_answer(self, request: str, status: int, digest: str) -> str:
        """Sign the answer to the request whose signature is ``request``."""
        return self._mac("answer", request, str(status), digest)

    def verify_answer(self, request: str, status: int, header: str) -> Optional[str]:
        """Return the digest of an answer's body; None if it is not signed with our secret."""
        parts = _ANSWER(header)
        if parts is None:
            return None
        digest, signature = parts.groups()
        right = self.sign_answer(request, status, digest)
        return digest if _compare_digest(right, signature) else None

    def sign_master(self, url: str, attempt: int) -> str:
        """Sign where a master is, for starters that look for it."""
        return self._mac("master", url, str(attempt))

    def verify_master(self, url: str, attempt: int, signature: str) -> bool:
        """Tell whether a signature of where a master is was made with our secret."""
        return _compare_digest(self.sign_master(url, attempt), signature)

    def stream_key(self, request: str, nonce: str) -> str:
        """Return the key, in hex, of the stream that follows a request: ``ytf.wire.frames``.

        ``request`` is the request's signature, ``nonce`` is from the answer. Each side
        has put something new into it, so no stream has the key of another one.
        """
        return self._mac("stream", request, nonce)

    def sign_document(self, kind: str, text: str) -> str:
        """Sign a document that lies where others can write: in ZooKeeper."""
        return self._mac("document", kind, text)

    def verify_document(self, kind: str, text: str, signature: str) -> bool:
        """Tell whether a document's signature was made with our secret."""
        return _compare_digest(self.sign_document(kind, text), signature)


def request_header(actor: str, counter: int, digest: str, signature: str) -> str:
    """Return the value of the header that signs a request."""
    return "%s %d %s %s" % (actor, counter, digest, signature)


def answer_header(digest: str, signature: str) -> str:
    """Return the value of the header that signs an answer."""
    return "%s %s" % (digest, signature)


def body_digest(body: bytes) -> str:
    """Return the SHA-256 of a body in hex; signatures cover it in place of the body."""
    return _sha256(body).hexdigest()


class ReplayGuard:
    """Detects replayed requests: within one actor, counters only grow.

    Remembers a bounded number of actors. The requests of a forgotten actor
    cannot be replayed either: counters start at the time of day, so an unknown
    actor's must be above every forgotten one.
    """

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._last: Dict[str, int] = {}
        self._forgotten = 0

    def accept(self, actor: str, counter: int) -> bool:
        """Tell whether a request with a valid signature is new, and remember it."""
        if counter <= self._last.get(actor, self._forgotten):
            return False
        if actor not in self._last and len(self._last) >= self._limit:
            oldest = min(self._last, key=self._last.__getitem__)
            self._forgotten = max(self._forgotten, self._last.pop(oldest))
        self._last[actor] = counter
        return True
