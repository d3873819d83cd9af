"""Tokens, credentials (tokens and secrets by alias), and Hadoop's file format for them.

A container's ``container_tokens`` file and the ``tokens`` of a launch context
have this format. Both versions are read. Version 0 is written, as the
ResourceManager and the NodeManagers do. It consists of Writables, Hadoop's
oldest encoding; version 1 is a protobuf message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ytf.errors import SettingsError
from ytf.hadoop.proto import security_pb2
from ytf.hadoop.proto.messages import (
    MalformedMessageError,
    delimited,
    parse,
    read_delimited,
    serialize,
    text,
)

TOKEN_FILE_VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"
"""The variable with the path of a container's credentials file."""

MASTER_TOKEN = "YARN_AM_RM_TOKEN"
"""The kind of an ApplicationMaster's token for the ResourceManager. No container may have it."""

_MAGIC = b"HDTS"
_WRITABLE = 0
_PROTOBUF = 1
_MAX_BYTES = 64 * 1024 * 1024

_POSITIVE = -112
_NEGATIVE = -120
"""First bytes of a number in a Writable: see :func:`writable_vint`."""


class Token(msgspec.Struct, frozen=True):
    """A token. The identifier is opaque: it is sent exactly as it was received.

    ``service`` is the server it is for. YARN's own tokens are selected by
    ``kind`` and node instead. ``repr`` does not show the password.
    """

    identifier: bytes
    password: bytes
    kind: str
    service: str = ""

    def __repr__(self) -> str:
        return f"Token(kind={self.kind!r}, service={self.service!r})"

    def to_message(self) -> security_pb2.Token:
        """The protobuf message."""
        return security_pb2.Token(
            identifier=self.identifier,
            password=self.password,
            kind=self.kind,
            service=self.service,
        )

    @classmethod
    def from_message(cls, message: security_pb2.Token) -> Token:
        """Decode the protobuf message."""
        return cls(message.identifier, message.password, text(message.kind), text(message.service))


class Credentials(msgspec.Struct, frozen=True):
    """Tokens and secrets by alias. ``repr`` shows only the aliases."""

    tokens: dict[str, Token] = {}
    secrets: dict[str, bytes] = {}

    def of_kind(self, kind: str) -> list[Token]:
        """All tokens of a kind, in the file's order."""
        return [token for token in self.tokens.values() if token.kind == kind]

    def without_kind(self, kind: str) -> Credentials:
        """The same without the tokens of a kind: a master does not pass its own token on."""
        kept = {alias: token for alias, token in self.tokens.items() if token.kind != kind}
        return Credentials(kept, self.secrets)

    def __repr__(self) -> str:
        return f"Credentials(tokens={list(self.tokens)}, secrets={list(self.secrets)})"


def read_token_file(environ: Mapping[str, str] = os.environ) -> Credentials:
    """The credentials of this container; none if it has no credentials file.

    Raises ``SettingsError`` if the file cannot be read or decoded.
    """
    name = environ.get(TOKEN_FILE_VARIABLE)
    return load(Path(name)) if name else Credentials()


def load(path: Path) -> Credentials:
    """The credentials in a file; raises ``SettingsError``."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as exc:
        raise SettingsError(f"cannot read the credentials in {path}: {exc.strerror}") from exc
    if len(data) > _MAX_BYTES:
        raise SettingsError(f"{path} is too long for credentials: over {_MAX_BYTES} bytes")
    try:
        return decode(data)
    except MalformedMessageError as exc:
        raise SettingsError(f"{path} contains no credentials: {exc}") from exc


def encode(credentials: Credentials, *, version: int = _WRITABLE) -> bytes:
    """Encode credentials as the bytes of a file."""
    body = _to_writable(credentials) if version == _WRITABLE else _to_protobuf(credentials)
    return _MAGIC + bytes([version]) + body


def decode(data: bytes) -> Credentials:
    """Decode the bytes of a credentials file; raises :class:`MalformedMessageError`."""
    magic, version, start = data[: len(_MAGIC)], data[len(_MAGIC) :][:1], len(_MAGIC) + 1
    if magic != _MAGIC:
        raise MalformedMessageError(f"it does not begin with {_MAGIC.decode()}")
    if version == bytes([_WRITABLE]):
        return _from_writable(WritableReader(data, start))
    if version == bytes([_PROTOBUF]):
        return _from_protobuf(read_delimited(data, start)[0])
    raise MalformedMessageError(f"its version is 0x{version.hex()}, not 0 or 1")


def _to_writable(credentials: Credentials) -> bytes:
    parts = [writable_vint(len(credentials.tokens))]
    for alias, token in credentials.tokens.items():
        fields = (
            alias.encode(),
            token.identifier,
            token.password,
            token.kind.encode(),
            token.service.encode(),
        )
        parts += map(writable_block, fields)
    parts.append(writable_vint(len(credentials.secrets)))
    for alias, secret in credentials.secrets.items():
        parts += (writable_block(alias.encode()), writable_block(secret))
    return b"".join(parts)


def _from_writable(reader: WritableReader) -> Credentials:
    found: dict[str, Token] = {}
    for _ in range(reader.count()):
        alias = reader.text()
        found[alias] = Token(reader.block(), reader.block(), reader.text(), reader.text())
    secrets: dict[str, bytes] = {}
    for _ in range(reader.count()):
        alias = reader.text()
        secrets[alias] = reader.block()
    return Credentials(found, secrets)


def _to_protobuf(credentials: Credentials) -> bytes:
    message = security_pb2.Credentials()
    for alias, token in credentials.tokens.items():
        message.tokens.add(alias=alias, token=token.to_message())
    for alias, secret in credentials.secrets.items():
        message.secrets.add(alias=alias, secret=secret)
    return delimited(serialize(message))


def _from_protobuf(data: bytes) -> Credentials:
    message = parse(security_pb2.Credentials, data)
    return Credentials(
        {text(entry.alias): Token.from_message(entry.token) for entry in message.tokens},
        {text(entry.alias): entry.secret for entry in message.secrets},
    )


def writable_vint(value: int) -> bytes:
    """Encode a number of at most 64 bits as ``WritableUtils.writeVLong`` does.

    It differs from protobuf's varints. A first byte of -112 or more is the number
    itself. A smaller one gives the count of big-endian bytes that follow. From -121
    down the number is the complement of these.
    """
    if _POSITIVE <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    mark, magnitude = (_POSITIVE, value) if value >= 0 else (_NEGATIVE, ~value)
    size = (magnitude.bit_length() + 7) // 8
    return (mark - size).to_bytes(1, "big", signed=True) + magnitude.to_bytes(size, "big")


def writable_block(data: bytes) -> bytes:
    """Encode bytes with their length before them."""
    return writable_vint(len(data)) + data


class WritableReader:
    """Reads Writables from bytes; raises :class:`MalformedMessageError` at their end."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        self._data = data
        self._at = start

    @property
    def rest(self) -> int:
        """The number of bytes left."""
        return len(self._data) - self._at

    def vint(self) -> int:
        """The next number."""
        first = int.from_bytes(self._take(1), "big", signed=True)
        if first >= _POSITIVE:
            return first
        if first >= _NEGATIVE:
            return int.from_bytes(self._take(_POSITIVE - first), "big")
        return ~int.from_bytes(self._take(_NEGATIVE - first), "big")

    def count(self) -> int:
        """The count of items that follow, each of which has at least one byte."""
        number = self.vint()
        if not 0 <= number <= self.rest:
            raise MalformedMessageError(f"a count of {number} where {self.rest} bytes are left")
        return number

    def block(self) -> bytes:
        """The next bytes with a length before them."""
        return self._take(self.count())

    def text(self) -> str:
        """The next text."""
        try:
            return self.block().decode()
        except UnicodeDecodeError as exc:
            raise MalformedMessageError(f"a text that is not UTF-8: {exc}") from exc

    def _take(self, size: int) -> bytes:
        if size > self.rest:
            raise MalformedMessageError(f"it ends {size - self.rest} bytes early")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken
