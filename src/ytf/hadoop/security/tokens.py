"""Hadoop's tokens: a name for somebody, and the password that proves it."""

from __future__ import annotations

import msgspec

from ytf.hadoop.proto import security_pb2
from ytf.hadoop.proto.wire import text

MASTER_TOKEN = "YARN_AM_RM_TOKEN"
"""What an ApplicationMaster shows to the ResourceManager. Never give it to a container."""
NODE_TOKEN = "NMToken"
CONTAINER_TOKEN = "ContainerToken"
RM_DELEGATION_TOKEN = "RM_DELEGATION_TOKEN"
HDFS_DELEGATION_TOKEN = "HDFS_DELEGATION_TOKEN"


class Token(msgspec.Struct, frozen=True):
    """One token. The identifier is opaque: it is sent exactly as it was received.

    ``service`` names the server it is for; YARN's own tokens are chosen by
    ``kind`` and node instead. The password never shows in ``repr``.
    """

    identifier: bytes
    password: bytes
    kind: str
    service: str = ""

    def __repr__(self) -> str:
        return f"Token(kind={self.kind!r}, service={self.service!r})"


def to_message(token: Token) -> security_pb2.Token:
    """As it stands in a request."""
    return security_pb2.Token(
        identifier=token.identifier,
        password=token.password,
        kind=token.kind,
        service=token.service,
    )


def from_message(message: security_pb2.Token) -> Token:
    """As it came in an answer."""
    return Token(message.identifier, message.password, text(message.kind), text(message.service))
