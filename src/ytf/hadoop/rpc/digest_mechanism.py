"""How a token proves who one is: DIGEST-MD5 as a mechanism of the negotiation."""

from __future__ import annotations

import base64
import secrets

from ytf.hadoop.proto.wire import MalformedError
from ytf.hadoop.rpc import digest
from ytf.hadoop.rpc.errors import AuthenticationError
from ytf.hadoop.rpc.sasl import Layer
from ytf.hadoop.security.tokens import Token


class DigestMechanism:
    """TOKEN: DIGEST-MD5 with a token's identifier and password."""

    def __init__(
        self, token: Token, protocol: str, server_id: str, cnonce: str | None = None
    ) -> None:
        self._user = base64.b64encode(token.identifier).decode()
        self._password = base64.b64encode(token.password).decode()
        self._uri = f"{protocol}/{server_id}"
        self._cnonce = cnonce or secrets.token_urlsafe(24)
        self._agreed: tuple[digest.Exchange, str, int] | None = None

    def initiate(self, challenge: bytes) -> bytes:
        """Answer the challenge that came with the offer."""
        asked = digest.parse_challenge(challenge)
        qop, cipher = digest.choose(asked)
        exchange = digest.Exchange(
            user=self._user,
            password=self._password,
            realm=asked.realm,
            nonce=asked.nonce,
            cnonce=self._cnonce,
            uri=self._uri,
            qop=qop,
        )
        self._agreed = (exchange, cipher, asked.max_buffer)
        return digest.format_response(exchange, cipher)

    def respond(self, challenge: bytes) -> bytes:
        """There is no second challenge in DIGEST-MD5."""
        raise MalformedError("a second DIGEST-MD5 challenge")

    def finish(self, proof: bytes) -> Layer | None:
        """The server must know the token's password too."""
        if self._agreed is None:
            raise MalformedError("success before the proof")
        exchange, cipher, max_buffer = self._agreed
        if digest.parse_directives(proof).get("rspauth") != exchange.rspauth():
            raise AuthenticationError(
                "the server could not prove that it knows the token's password: "
                "it is not who it claims to be"
            )
        return digest.client_layer(exchange, cipher, max_buffer)
