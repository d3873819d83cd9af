"""Who may speak: checks the signatures of requests and signs answers (docs/protocols.md §1)."""

from __future__ import annotations

import re
from collections import OrderedDict
from hmac import compare_digest
from typing import Final

from ytf.starter.auth import HEADER, Signer, body_digest
from ytf.web.messages import HttpError, Request, Response

CLIENT: Final = "client"
POLL: Final = "poll"
REPORT: Final = "report"

_HEADER = HEADER.lower()
_AUTH = re.compile(r"([!-~]{1,300}) ([0-9]{1,20}) ([0-9a-f]{64})", re.ASCII).fullmatch
_KNOWN_CLIENTS = 1024


class Gatekeeper:
    """Verifies each request against the job's secret and refuses what it has seen before.

    Remembers the last counter of each actor: of containers until they are
    forgotten, of clients for the newest thousand or so. A request of a client
    forgotten long ago could be sent again by someone who recorded it; all that
    a client may change is to end the job, which has then happened anyway.
    """

    def __init__(self, secret: bytes) -> None:
        self._signer = Signer(secret)
        self._counters: dict[str, int] = {}
        self._clients: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        """How many actors are remembered."""
        return len(self._counters) + len(self._clients)

    def admit(self, request: Request) -> None:
        """Set the request's actor and signature, or raise a 401."""
        header = request.headers.get(_HEADER)
        parts = _AUTH(header) if header is not None else None
        if parts is None:
            raise HttpError(401, f"the request needs a header '{HEADER}: <actor> <counter> <hex>'")
        actor, digits, signature = parts.groups()
        counter = int(digits)
        digest = body_digest(request.body)
        right = self._signer.request(request.method, request.target, actor, counter, digest)
        if not compare_digest(right, signature):
            raise HttpError(401, "the signature does not fit: is this the secret of this job?")
        counters: dict[str, int] = self._counters
        if actor.startswith(f"{CLIENT}/"):
            counters = self._clients
        if counter <= counters.get(actor, -1):
            raise HttpError(401, f"counter {counter} of {actor} was used before; send a higher one")
        counters[actor] = counter
        if counters is self._clients:
            self._clients.move_to_end(actor)
            if len(self._clients) > _KNOWN_CLIENTS:
                self._clients.popitem(last=False)
        request.actor = actor
        request.signature = signature

    def forget(self, container: str) -> None:
        """The starter of a container will not be heard again; its counters are dropped."""
        self._counters.pop(f"{container}/{POLL}", None)
        self._counters.pop(f"{container}/{REPORT}", None)

    def sign(self, signature: str, response: Response) -> bytes:
        """The header line that proves the answer to the request of this signature."""
        mac = self._signer.answer(signature, response.status, response.digest)
        return f"{HEADER}: {mac}\r\n".encode("ascii")


def container_of(request: Request) -> str:
    """The container a starter's request speaks for, or a 401 for any other actor."""
    container, _, channel = request.actor.rpartition("/")
    if not container or channel not in (POLL, REPORT):
        raise HttpError(401, f"{request.actor} is no starter; only starters may call this")
    return container


def require_client(request: Request) -> None:
    """A 401 for any actor that is not a client."""
    if not request.actor.startswith(f"{CLIENT}/"):
        raise HttpError(401, f"{request.actor} is no client; only clients may call this")
