"""The SASL negotiation at the start of a connection: a state machine without I/O.

::

    client                          server
    NEGOTIATE                  ──▶
                               ◀──  NEGOTIATE  its offers, with a challenge
    INITIATE   our choice      ──▶             (SIMPLE: no answer follows)
                               ◀──  CHALLENGE  any number of rounds
    RESPONSE                   ──▶
                               ◀──  SUCCESS    with the server's own proof

Mirrors ``SaslRpcClient``. A server without authentication sends SUCCESS at once.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from ytf.hadoop.proto.messages import MalformedMessageError, text
from ytf.hadoop.proto.rpc_pb2 import SaslAuth, SaslMessage
from ytf.hadoop.rpc.errors import AuthenticationError
from ytf.hadoop.security.login import Login

SUCCESS, NEGOTIATE, INITIATE, CHALLENGE, RESPONSE, WRAP = range(6)

_MAX_ROUNDS = 16


class SaslLayer(Protocol):
    """Protects the messages after the negotiation."""

    max_chunk: int

    def wrap(self, data: bytes) -> bytes:
        """The next message to send; ``data`` is at most ``max_chunk`` long."""
        ...

    def unwrap(self, data: bytes) -> bytes:
        """The content of the next message received; raises :class:`MalformedMessageError`."""
        ...


class SaslMechanism(Protocol):
    """A way to authenticate: DIGEST-MD5 with a token. Kerberos will be another."""

    def initiate(self, challenge: bytes) -> bytes:
        """The first response."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """The response to a later challenge."""
        ...

    def finish(self, proof: bytes) -> SaslLayer | None:
        """Check the server's own proof and return the negotiated layer, if any."""
        ...


class SaslStep(msgspec.Struct, frozen=True):
    """Send ``reply`` if there is one. ``done`` means that the negotiation is over."""

    reply: SaslMessage | None
    done: bool


class SaslNegotiation:
    """The client's side. After ``done``, ``method`` and ``layer`` are the result."""

    def __init__(self, login: Login, *, cnonce: str | None = None) -> None:
        self.method = "SIMPLE"
        self.layer: SaslLayer | None = None
        self._login = login
        self._cnonce = cnonce
        self._mechanism: SaslMechanism | None = None
        self._rounds = 0

    def begin(self) -> SaslMessage:
        """The request for the server's offers."""
        return SaslMessage(state=NEGOTIATE)

    def receive(self, message: SaslMessage) -> SaslStep:
        """Handle the server's next message.

        Raises :class:`AuthenticationError` if there is no common method, and
        :class:`MalformedMessageError` for a message that no server sends.
        """
        self._rounds += 1
        if self._rounds > _MAX_ROUNDS:
            raise MalformedMessageError(f"more than {_MAX_ROUNDS} rounds of SASL")
        if message.state == SUCCESS:
            return self._succeed(message)
        if message.state == NEGOTIATE and self._mechanism is None:
            return self._choose(message)
        if message.state == CHALLENGE and self._mechanism is not None:
            token = self._mechanism.respond(message.token)
            return SaslStep(SaslMessage(state=RESPONSE, token=token), False)
        raise MalformedMessageError(f"SASL state {message.state} out of order")

    def _succeed(self, message: SaslMessage) -> SaslStep:
        if self._mechanism is not None:
            self.layer = self._mechanism.finish(message.token)
        elif self._login.secure:
            raise AuthenticationError(
                "the server requires no authentication and gives no proof of its own identity",
                hint="check hadoop.security.authentication on both sides",
            )
        return SaslStep(None, True)

    def _choose(self, message: SaslMessage) -> SaslStep:
        for auth in message.auths:
            method, mechanism = text(auth.method), text(auth.mechanism)
            token = self._login.token
            if method == "TOKEN" and mechanism == "DIGEST-MD5" and token is not None:
                # Clients without tokens never need it.
                from ytf.hadoop.rpc.digest_md5 import DigestMechanism

                names = text(auth.protocol), text(auth.server_id)
                self.method = method
                self._mechanism = DigestMechanism(token, *names, self._cnonce)
                first = self._mechanism.initiate(auth.challenge)
                return SaslStep(_initiate(auth, first), False)
            if method == "SIMPLE" and not self._login.secure:
                # The server does not answer this one.
                return SaslStep(_initiate(auth, None), True)
        raise self._no_common_method(message)

    def _no_common_method(self, message: SaslMessage) -> AuthenticationError:
        offers = [f"{text(auth.method)}/{text(auth.mechanism)}" for auth in message.auths]
        offered = ", ".join(offers) or "nothing"
        if any(offer.startswith("KERBEROS/") for offer in offers):
            return AuthenticationError(
                f"the server requires Kerberos (it offers {offered}), "
                "which is not in this version of ytf",
                hint="use a cluster with hadoop.security.authentication=simple",
            )
        had = "a token" if self._login.token is not None else "a user name"
        return AuthenticationError(
            f"the server offers {offered}; we have {had} and speak TOKEN/DIGEST-MD5 and SIMPLE"
        )


def _initiate(auth: SaslAuth, token: bytes | None) -> SaslMessage:
    """Our choice. The server compares it with its offers, so only the challenge is removed."""
    message = SaslMessage(state=INITIATE, auths=[auth], token=token)
    message.auths[0].ClearField("challenge")
    return message
