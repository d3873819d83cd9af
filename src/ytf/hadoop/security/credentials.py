"""Credentials: tokens and secrets by alias, in the files Hadoop hands around.

The same bytes are a container's ``container_tokens`` file and the ``tokens`` of
a launch context. Both versions are read; version 0 is written, because that is
what the ResourceManager and the NodeManagers write themselves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ytf.errors import SettingsError
from ytf.hadoop.proto import security_pb2
from ytf.hadoop.proto.wire import (
    MalformedError,
    delimited,
    parse,
    read_delimited,
    serialize,
    text,
)
from ytf.hadoop.security import tokens, writable
from ytf.hadoop.security.tokens import Token

TOKEN_FILE_VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"
"""Names the credentials file of a container."""

_MAGIC = b"HDTS"
_WRITABLE = 0
_PROTOBUF = 1
_MOST_BYTES = 64 * 1024 * 1024


class Credentials(msgspec.Struct, frozen=True):
    """Tokens and secrets, each by its alias. Neither shows in ``repr``."""

    tokens: dict[str, Token] = {}
    secrets: dict[str, bytes] = {}

    def of_kind(self, kind: str) -> list[Token]:
        """All tokens of a kind, in the file's order."""
        return [token for token in self.tokens.values() if token.kind == kind]

    def without_kind(self, kind: str) -> Credentials:
        """The same without the tokens of a kind: what a master hands on leaves its own out."""
        kept = {alias: token for alias, token in self.tokens.items() if token.kind != kind}
        return Credentials(kept, self.secrets)

    def __repr__(self) -> str:
        return f"Credentials(tokens={list(self.tokens)}, secrets={list(self.secrets)})"


def read_token_file(environ: Mapping[str, str] = os.environ) -> Credentials:
    """The credentials this container was given; none if it was given no file.

    Raises ``SettingsError`` if the file cannot be read or is not one.
    """
    name = environ.get(TOKEN_FILE_VARIABLE)
    return load(Path(name)) if name else Credentials()


def load(path: Path) -> Credentials:
    """The credentials in a file; raises ``SettingsError``."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as exc:
        raise SettingsError(f"cannot read the credentials in {path}: {exc.strerror}") from exc
    if len(data) > _MOST_BYTES:
        raise SettingsError(f"{path} is too long for credentials: over {_MOST_BYTES} bytes")
    try:
        return decode(data)
    except MalformedError as exc:
        raise SettingsError(f"{path} holds no credentials: {exc}") from exc


def encode(credentials: Credentials, *, version: int = _WRITABLE) -> bytes:
    """The bytes of a credentials file."""
    body = _to_writable(credentials) if version == _WRITABLE else _to_protobuf(credentials)
    return _MAGIC + bytes([version]) + body


def decode(data: bytes) -> Credentials:
    """What is in the bytes of a credentials file; raises :class:`MalformedError`."""
    magic, version, start = data[: len(_MAGIC)], data[len(_MAGIC) :][:1], len(_MAGIC) + 1
    if magic != _MAGIC:
        raise MalformedError(f"it does not begin with {_MAGIC.decode()}")
    if version == bytes([_WRITABLE]):
        return _from_writable(writable.Reader(data, start))
    if version == bytes([_PROTOBUF]):
        return _from_protobuf(read_delimited(data, start)[0])
    raise MalformedError(f"its version is 0x{version.hex()}, not 0 or 1")


def _to_writable(credentials: Credentials) -> bytes:
    parts = [writable.vint(len(credentials.tokens))]
    for alias, token in credentials.tokens.items():
        fields = (
            alias.encode(),
            token.identifier,
            token.password,
            token.kind.encode(),
            token.service.encode(),
        )
        parts += map(writable.block, fields)
    parts.append(writable.vint(len(credentials.secrets)))
    for alias, secret in credentials.secrets.items():
        parts += (writable.block(alias.encode()), writable.block(secret))
    return b"".join(parts)


def _from_writable(reader: writable.Reader) -> Credentials:
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
        message.tokens.add(alias=alias, token=tokens.to_message(token))
    for alias, secret in credentials.secrets.items():
        message.secrets.add(alias=alias, secret=secret)
    return delimited(serialize(message))


def _from_protobuf(data: bytes) -> Credentials:
    message = parse(security_pb2.Credentials, data)
    return Credentials(
        {text(entry.alias): tokens.from_message(entry.token) for entry in message.tokens},
        {text(entry.alias): entry.secret for entry in message.secrets},
    )
