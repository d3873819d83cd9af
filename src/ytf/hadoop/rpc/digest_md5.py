"""DIGEST-MD5 (RFC 2831), the client's side: SASL's mechanism for connections with a token.

The user name is the token's identifier and the password its password, both in
base64. After the exchange a :class:`DigestLayer` signs (auth-int) or signs and
encrypts (auth-conf) all messages, as ``hadoop.rpc.protection`` demands.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from functools import partial

import msgspec

from ytf.hadoop.proto.messages import MalformedMessageError
from ytf.hadoop.rpc.ciphers import Cipher, Rc4, TripleDes, can_do_3des
from ytf.hadoop.rpc.errors import AuthenticationError
from ytf.hadoop.rpc.sasl import SaslLayer
from ytf.hadoop.security.credentials import Token

AUTH, AUTH_INT, AUTH_CONF = "auth", "auth-int", "auth-conf"
MAX_BUFFER = 65536
"""The largest wrapped message that we send and accept."""

_MAX_CHALLENGE_BYTES = 4096
_DIRECTIVE = re.compile(r'\s*(?:,\s*)?([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))\s*(?=,|$)')
_MD5 = partial(hashlib.md5, usedforsecurity=False)
"""In FIPS mode a host allows MD5 only with ``usedforsecurity=False``."""
_ZERO_HASH = "0" * 32
_TYPE = b"\x00\x01"
_MAC_SIZE = 10
_TRAILER = len(_TYPE) + 4
_OVERHEAD = 26
"""The largest overhead of wrapping, as the JDK counts it."""
_TO_SERVER, _TO_CLIENT = "client-to-server", "server-to-client"


class Challenge(msgspec.Struct, frozen=True):
    """The server's challenge."""

    nonce: str
    realm: str
    qops: tuple[str, ...]
    ciphers: tuple[str, ...]
    max_buffer: int


class Exchange(msgspec.Struct, frozen=True):
    """The values from which both digests are made."""

    user: str
    password: str
    realm: str
    nonce: str
    cnonce: str
    uri: str
    qop: str = AUTH

    def session_key(self) -> bytes:
        """H(A1) of the RFC as bytes: the key of the digests and of the layer."""
        secret = _md5(f"{self.user}:{self.realm}:{self.password}".encode())
        return _md5(secret + f":{self.nonce}:{self.cnonce}".encode())

    def response(self) -> str:
        """The client's proof that it knows the password."""
        return self._digest("AUTHENTICATE")

    def rspauth(self) -> str:
        """The server's proof that it knows the password."""
        return self._digest("")

    def _digest(self, method: str) -> str:
        body = "" if self.qop == AUTH else f":{_ZERO_HASH}"
        about = _md5(f"{method}:{self.uri}{body}".encode()).hex()
        proof = (self.session_key().hex(), self.nonce, "00000001", self.cnonce, self.qop, about)
        return _md5(":".join(proof).encode()).hex()


class DigestMechanism:
    """The SASL mechanism of Hadoop's method TOKEN: DIGEST-MD5 with a token."""

    def __init__(
        self, token: Token, protocol: str, server_id: str, cnonce: str | None = None
    ) -> None:
        self._user = base64.b64encode(token.identifier).decode()
        self._password = base64.b64encode(token.password).decode()
        self._uri = f"{protocol}/{server_id}"
        self._cnonce = cnonce or secrets.token_urlsafe(24)
        self._agreed: tuple[Exchange, str, int] | None = None

    def initiate(self, challenge: bytes) -> bytes:
        """The response to the challenge that came with the offer."""
        asked = parse_challenge(challenge)
        qop, cipher = choose(asked)
        exchange = Exchange(
            user=self._user,
            password=self._password,
            realm=asked.realm,
            nonce=asked.nonce,
            cnonce=self._cnonce,
            uri=self._uri,
            qop=qop,
        )
        self._agreed = (exchange, cipher, asked.max_buffer)
        return format_response(exchange, cipher)

    def respond(self, challenge: bytes) -> bytes:
        """DIGEST-MD5 has no second challenge."""
        raise MalformedMessageError("a second DIGEST-MD5 challenge")

    def finish(self, proof: bytes) -> SaslLayer | None:
        """Check that the server knows the token's password too."""
        if self._agreed is None:
            raise MalformedMessageError("success before our response")
        exchange, cipher, max_buffer = self._agreed
        if parse_directives(proof).get("rspauth") != exchange.rspauth():
            raise AuthenticationError(
                "the server could not prove that it knows the token's password: "
                "it is not who it claims to be"
            )
        return client_layer(exchange, cipher, max_buffer)


def parse_challenge(data: bytes) -> Challenge:
    """Parse the server's challenge; raises :class:`MalformedMessageError`."""
    fields = parse_directives(data)
    if "nonce" not in fields:
        raise MalformedMessageError("a DIGEST-MD5 challenge without a nonce")
    if fields.get("algorithm", "md5-sess") != "md5-sess":
        raise MalformedMessageError(
            f"a DIGEST-MD5 challenge for {fields['algorithm']!r}, not md5-sess"
        )
    limit = fields.get("maxbuf", str(MAX_BUFFER))
    if not re.fullmatch(r"[0-9]{1,9}", limit) or int(limit) <= _OVERHEAD:
        raise MalformedMessageError(f"a DIGEST-MD5 challenge with maxbuf={limit!r}")
    return Challenge(
        nonce=fields["nonce"],
        realm=fields.get("realm", ""),
        qops=_listed(fields.get("qop", AUTH)),
        ciphers=_listed(fields.get("cipher", "")),
        max_buffer=int(limit),
    )


def parse_directives(data: bytes) -> dict[str, str]:
    """Parse ``name=value`` pairs separated by commas. The first of each name counts."""
    if len(data) > _MAX_CHALLENGE_BYTES:
        raise MalformedMessageError(f"a DIGEST-MD5 message of {len(data)} bytes")
    try:
        rest = data.decode()
    except UnicodeDecodeError as exc:
        raise MalformedMessageError(f"a DIGEST-MD5 message that is not UTF-8: {exc}") from exc
    fields: dict[str, str] = {}
    at = 0
    while rest[at:].strip(", \t\r\n"):
        found = _DIRECTIVE.match(rest, at)
        if found is None:
            raise MalformedMessageError(
                f"a DIGEST-MD5 message that cannot be read: {rest[at:][:40]!r}"
            )
        name, quoted, bare = found.groups()
        value = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        fields.setdefault(name, value)
        at = found.end()
    return fields


def choose(challenge: Challenge) -> tuple[str, str]:
    """The first offered quality of protection that we support, and a cipher for it.

    The server's order counts: its administrator configured it.
    """
    for qop in challenge.qops:
        if qop in (AUTH, AUTH_INT):
            return qop, ""
        if qop == AUTH_CONF:
            return qop, _choose_cipher(challenge)
    offered = ", ".join(challenge.qops)
    raise AuthenticationError(
        f"the server protects RPC in ways that ytf does not know: {offered}",
        hint="hadoop.rpc.protection must be authentication, integrity or privacy",
    )


def format_response(exchange: Exchange, cipher: str) -> bytes:
    """The client's response, its only message."""
    fields = [
        "charset=utf-8",
        f'username="{_quoted(exchange.user)}"',
        f'realm="{_quoted(exchange.realm)}"',
        f'nonce="{_quoted(exchange.nonce)}"',
        "nc=00000001",
        f'cnonce="{_quoted(exchange.cnonce)}"',
        f'digest-uri="{_quoted(exchange.uri)}"',
        f"maxbuf={MAX_BUFFER}",
        f"response={exchange.response()}",
        f"qop={exchange.qop}",
    ]
    if cipher:
        fields.append(f'cipher="{cipher}"')
    return ",".join(fields).encode()


class DigestLayer:
    """Signs all messages of a connection, and encrypts them if it has ciphers.

    Messages are numbered in each direction, so none can be dropped, repeated
    or reordered.
    """

    def __init__(
        self,
        *,
        send_key: bytes,
        receive_key: bytes,
        send_cipher: Cipher | None = None,
        receive_cipher: Cipher | None = None,
        max_buffer: int = MAX_BUFFER,
    ) -> None:
        self.max_chunk = min(max_buffer, MAX_BUFFER) - _OVERHEAD
        self._send_key, self._receive_key = send_key, receive_key
        self._encrypt, self._decrypt = send_cipher, receive_cipher
        self._sent = self._received = 0

    def wrap(self, data: bytes) -> bytes:
        """The next message to send."""
        number = self._sent.to_bytes(4, "big")
        self._sent += 1
        mac = _mac(self._send_key, number, data)
        if self._encrypt is None:
            return data + mac + _TYPE + number
        size = self._encrypt.block_size
        pad = size - (len(data) + _MAC_SIZE) % size if size > 1 else 0
        return self._encrypt.process(data + bytes([pad]) * pad + mac) + _TYPE + number

    def unwrap(self, data: bytes) -> bytes:
        """The content of the next message received; raises :class:`MalformedMessageError`."""
        number = self._received.to_bytes(4, "big")
        self._received += 1
        body, trailer = data[:-_TRAILER], data[-_TRAILER:]
        if trailer != _TYPE + number:
            raise MalformedMessageError("a wrapped message out of order")
        plain = self._opened(body)
        content, mac = plain[:-_MAC_SIZE], plain[-_MAC_SIZE:]
        if self._decrypt is not None and self._decrypt.block_size > 1:
            pad = content[-1] if content else 0
            if not 1 <= pad <= min(self._decrypt.block_size, len(content)):
                raise MalformedMessageError("a wrapped message with a wrong padding")
            content = content[:-pad]
        if not hmac.compare_digest(mac, _mac(self._receive_key, number, content)):
            raise MalformedMessageError("a wrapped message with a wrong signature")
        return content

    def _opened(self, body: bytes) -> bytes:
        if self._decrypt is None:
            return body
        if len(body) % self._decrypt.block_size:
            raise MalformedMessageError("a wrapped message of broken blocks")
        return self._decrypt.process(body)


def client_layer(exchange: Exchange, cipher: str, max_buffer: int) -> DigestLayer | None:
    """The client's side of the negotiated layer; None for plain ``auth``."""
    return _layer(exchange, cipher, max_buffer, send=_TO_SERVER, receive=_TO_CLIENT)


def _layer(
    exchange: Exchange, cipher: str, max_buffer: int, *, send: str, receive: str
) -> DigestLayer | None:
    if exchange.qop == AUTH:
        return None
    key = exchange.session_key()

    def signing(way: str) -> bytes:
        return _md5(key + f"Digest session key to {way} signing key magic constant".encode())

    def sealing(way: str) -> bytes:
        short = key[: _KEY_BYTES[cipher]]
        return _md5(short + f"Digest H(A1) to {way} sealing key magic constant".encode())

    private = exchange.qop == AUTH_CONF
    return DigestLayer(
        send_key=signing(send),
        receive_key=signing(receive),
        send_cipher=_CIPHERS[cipher](sealing(send), True) if private else None,
        receive_cipher=_CIPHERS[cipher](sealing(receive), False) if private else None,
        max_buffer=max_buffer,
    )


def _rc4(key: bytes, encrypt: bool) -> Cipher:
    return Rc4(key)


def _3des(key: bytes, encrypt: bool) -> Cipher:
    return TripleDes(key, encrypt=encrypt)


_CIPHERS: dict[str, Callable[[bytes, bool], Cipher]] = {
    "rc4": _rc4,
    "rc4-56": _rc4,
    "rc4-40": _rc4,
    "3des": _3des,
}
_KEY_BYTES = {"rc4": 16, "3des": 16, "rc4-56": 7, "rc4-40": 5}


def _choose_cipher(challenge: Challenge) -> str:
    """Prefer RC4 to 3DES: both are obsolete, and RC4 needs no package."""
    known = [cipher for cipher in _CIPHERS if cipher in challenge.ciphers]
    if not known:
        raise AuthenticationError(
            "the server encrypts RPC with ciphers that ytf does not support: "
            f"{', '.join(challenge.ciphers) or 'it named none'}",
            hint="its JVM must offer rc4 or 3des for DIGEST-MD5",
        )
    if known == ["3des"] and not can_do_3des():
        raise AuthenticationError(
            "the server encrypts RPC with 3DES only, for which the package 'cryptography' "
            "is needed and not installed",
            hint="pip install cryptography",
        )
    return known[0]


def _listed(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _mac(key: bytes, number: bytes, data: bytes) -> bytes:
    return hmac.new(key, number + data, _MD5).digest()[:_MAC_SIZE]


def _md5(data: bytes) -> bytes:
    return _MD5(data).digest()
