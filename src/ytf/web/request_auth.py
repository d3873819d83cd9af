"""Request authentication: verifies requests and signs responses (docs/protocols.md §1)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ytf.web.messages import HttpError, Request, Response
from ytf.wire.signing import HEADER, HEADER_KEY, Signer, answer_header, body_digest

CLIENT: Final = "client"
POLL: Final = "poll"
REPORT: Final = "report"

_REMEMBERED = 10_000


class RequestVerifier:
    """Verifies each request with the job's secret, and refuses repeated ones.

    It keeps the last counter of each actor: of live containers always, of clients
    and ended containers for the last ten thousand. So an attacker could repeat the
    recorded request of one that called long ago. That changes nothing: a kill has
    then already happened, and reports of ended containers do not count.
    """

    def __init__(self, secret: bytes) -> None:
        self._signer = Signer(secret)
        self._counters: dict[str, int] = {}
        self._remembered: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        """The number of actors whose counters are kept."""
        return len(self._counters) + len(self._remembered)

    def verify(self, request: Request) -> None:
        """Set the actor, the signature and the digest of a request whose head has come.

        Raises a 401 if it is not authentic. A counter is used up by the head, so
        that a repeated head cannot make the master read a body.
        """
        header = request.headers.get(HEADER_KEY)
        if header is None:
            raise HttpError(401, f"the request needs a header '{HEADER}', see docs/protocols.md")
        found = self._signer.verify_request(request.method, request.target, header)
        if found is None:
            raise HttpError(401, "the signature does not fit: is this the secret of this job?")
        actor, counter = found.actor, found.counter
        last = self._counters.get(actor)
        if last is None:
            last = self._remembered.get(actor)
        if last is not None and counter <= last:
            raise HttpError(401, f"counter {counter} of {actor} was used before; send a higher one")
        if actor in self._remembered or actor.startswith(f"{CLIENT}/"):
            self._remember(actor, counter)
        else:
            self._counters[actor] = counter
        request.actor = actor
        request.signature = found.signature
        request.digest = found.digest

    @staticmethod
    def verify_body(request: Request) -> None:
        """Raise a 401 if the body of a request is not the one that its head announced."""
        if body_digest(request.body) != request.digest:
            raise HttpError(401, "the body is not the one that was signed")

    def forget(self, container: str) -> None:
        """Move the counters of a container that has ended to those that may be dropped."""
        for channel in (POLL, REPORT):
            actor = f"{container}/{channel}"
            last = self._counters.pop(actor, None)
            if last is not None:
                self._remember(actor, last)

    def _remember(self, actor: str, counter: int) -> None:
        self._remembered[actor] = counter
        self._remembered.move_to_end(actor)
        if len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)

    def sign(self, signature: str, response: Response) -> bytes:
        """The header line that signs the response to the request with this signature."""
        mac = self._signer.sign_answer(signature, response.status, response.digest)
        return f"{HEADER}: {answer_header(response.digest, mac)}\r\n".encode("ascii")


def container_of(request: Request) -> str:
    """The container of the starter that sent a request; raises a 401 for all other actors."""
    container, _, channel = request.actor.rpartition("/")
    if not container or channel not in (POLL, REPORT):
        raise HttpError(401, f"{request.actor} is no starter; only starters may call this")
    return container


def require_client(request: Request) -> None:
    """Raise a 401 if the sender of a request is not a client."""
    if not request.actor.startswith(f"{CLIENT}/"):
        raise HttpError(401, f"{request.actor} is no client; only clients may call this")
