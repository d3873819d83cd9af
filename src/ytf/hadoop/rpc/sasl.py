"""The SASL negotiation at the start of a connection, as a state machine without I/O.

::

    client                          server
    NEGOTIATE                  ──▶
                               ◀──  NEGOTIATE  what it offers, with a challenge
    INITIATE   what we chose   ──▶             (SIMPLE: no answer follows)
                               ◀──  CHALLENGE  any number of rounds
    RESPONSE                   ──▶
                               ◀──  SUCCESS    with the server's own proof

Mirrors ``SaslRpcClient``. A server that wants no proof says SUCCESS at once.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from ytf.hadoop.proto.rpc_pb2 import SaslAuth, SaslMessage
from ytf.hadoop.proto.wire import MalformedError, text
from ytf.hadoop.rpc.errors import AuthenticationError
from ytf.hadoop.security.login import Login

SUCCESS, NEGOTIATE, INITIATE, CHALLENGE, RESPONSE, WRAP = range(6)

_MOST_ROUNDS = 16


class Layer(Protocol):
    """Protects what is said after the negotiation."""

    max_chunk: int

    def wrap(self, data: bytes) -> bytes:
        """The next message to send; ``data`` is at most ``max_chunk`` long."""
        ...

    def unwrap(self, data: bytes) -> bytes:
        """What is in the next message received; raises :class:`MalformedError`."""
        ...


class Mechanism(Protocol):
    """One way to prove who one is: DIGEST-MD5 with a token; Kerberos will be another."""

    def initiate(self, challenge: bytes) -> bytes:
        """The first response."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """The answer to a later challenge."""
        ...

    def finish(self, proof: bytes) -> Layer | None:
        """Check the server's own proof; the layer that was agreed on, if any."""
        ...


class Step(msgspec.Struct, frozen=True):
    """What to do next: send ``reply`` if there is one; ``done`` says it is over."""

    reply: SaslMessage | None
    done: bool


class Negotiation:
    """One client's side. After ``done``, ``method`` and ``layer`` say what came of it."""

    def __init__(self, login: Login, *, cnonce: str | None = None) -> None:
        self.method = "SIMPLE"
        self.layer: Layer | None = None
        self._login = login
        self._cnonce = cnonce
        self._mechanism: Mechanism | None = None
        self._rounds = 0

    def begin(self) -> SaslMessage:
        """Ask what the server offers."""
        return SaslMessage(state=NEGOTIATE)

    def receive(self, message: SaslMessage) -> Step:
        """Take the server's next word.

        Raises :class:`AuthenticationError` where there is no common way, and
        :class:`MalformedError` for what no server says.
        """
        self._rounds += 1
        if self._rounds > _MOST_ROUNDS:
            raise MalformedError(f"more than {_MOST_ROUNDS} rounds of SASL")
        if message.state == SUCCESS:
            return self._succeed(message)
        if message.state == NEGOTIATE and self._mechanism is None:
            return self._choose(message)
        if message.state == CHALLENGE and self._mechanism is not None:
            token = self._mechanism.respond(message.token)
            return Step(SaslMessage(state=RESPONSE, token=token), False)
        raise MalformedError(f"SASL state {message.state} out of its order")

    def _succeed(self, message: SaslMessage) -> Step:
        if self._mechanism is not None:
            self.layer = self._mechanism.finish(message.token)
        elif self._login.secure:
            raise AuthenticationError(
                "the server asks for no proof of who we are, and gives none of who it is",
                hint="check hadoop.security.authentication on both sides",
            )
        return Step(None, True)

    def _choose(self, message: SaslMessage) -> Step:
        for auth in message.auths:
            method, mechanism = text(auth.method), text(auth.mechanism)
            token = self._login.token
            if method == "TOKEN" and mechanism == "DIGEST-MD5" and token is not None:
                # Clients where names are believed never need it.
                from ytf.hadoop.rpc.digest_mechanism import DigestMechanism

                names = text(auth.protocol), text(auth.server_id)
                self.method = method
                self._mechanism = DigestMechanism(token, *names, self._cnonce)
                first = self._mechanism.initiate(auth.challenge)
                return Step(_initiate(auth, first), False)
            if method == "SIMPLE" and not self._login.secure:
                # The server does not answer this one.
                return Step(_initiate(auth, None), True)
        raise self._no_way(message)

    def _no_way(self, message: SaslMessage) -> AuthenticationError:
        offers = [f"{text(auth.method)}/{text(auth.mechanism)}" for auth in message.auths]
        offered = ", ".join(offers) or "nothing"
        if any(offer.startswith("KERBEROS/") for offer in offers):
            return AuthenticationError(
                f"the server wants Kerberos (it offers {offered}), "
                "which is not in this version of ytf",
                hint="use a cluster with hadoop.security.authentication=simple",
            )
        had = "a token" if self._login.token is not None else "a user name"
        return AuthenticationError(
            f"the server offers {offered}; we have {had} and speak TOKEN/DIGEST-MD5 and SIMPLE"
        )


def _initiate(auth: SaslAuth, token: bytes | None) -> SaslMessage:
    """Our choice. The server looks the offer up in its list: all but the challenge stays."""
    message = SaslMessage(state=INITIATE, auths=[auth], token=token)
    message.auths[0].ClearField("challenge")
    return message
