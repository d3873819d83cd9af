"""The ids of applications, attempts, containers and nodes, as YARN writes them."""

from __future__ import annotations

import re

import msgspec

from ytf.hadoop.proto import ids_pb2
from ytf.hadoop.proto.messages import text

_EPOCH_BITS = 40
_APPLICATION = re.compile(r"application_([0-9]{1,19})_([0-9]{4,10})")
_ATTEMPT = re.compile(r"appattempt_([0-9]{1,19})_([0-9]{4,10})_([0-9]{6,10})")
_CONTAINER = re.compile(
    r"container_(?:e([0-9]{2,10})_)?([0-9]{1,19})_([0-9]{4,10})_([0-9]{2,10})_([0-9]{6,13})"
)
_NODE = re.compile(r"(\S+):([0-9]{1,5})")


class ApplicationId(msgspec.Struct, frozen=True, order=True):
    """``application_<start time of the ResourceManager>_<number>``."""

    cluster_timestamp: int
    number: int

    def __str__(self) -> str:
        return f"application_{self.cluster_timestamp}_{self.number:04d}"

    @classmethod
    def parse(cls, text: str) -> ApplicationId:
        """Parse it; raises ``ValueError``."""
        found = _match(_APPLICATION, text, "an application id")
        return cls(int(found[1]), int(found[2]))

    def to_message(self) -> ids_pb2.ApplicationId:
        """The protobuf message."""
        return ids_pb2.ApplicationId(id=self.number, cluster_timestamp=self.cluster_timestamp)

    @classmethod
    def from_message(cls, message: ids_pb2.ApplicationId) -> ApplicationId:
        """Decode the protobuf message."""
        return cls(message.cluster_timestamp, message.id)


class AttemptId(msgspec.Struct, frozen=True, order=True):
    """``appattempt_…``: the n-th attempt of an application."""

    application: ApplicationId
    number: int

    def __str__(self) -> str:
        app = self.application
        return f"appattempt_{app.cluster_timestamp}_{app.number:04d}_{self.number:06d}"

    @classmethod
    def parse(cls, text: str) -> AttemptId:
        """Parse it; raises ``ValueError``."""
        found = _match(_ATTEMPT, text, "an attempt id")
        return cls(ApplicationId(int(found[1]), int(found[2])), int(found[3]))

    def to_message(self) -> ids_pb2.ApplicationAttemptId:
        """The protobuf message."""
        return ids_pb2.ApplicationAttemptId(
            application=self.application.to_message(), attempt=self.number
        )

    @classmethod
    def from_message(cls, message: ids_pb2.ApplicationAttemptId) -> AttemptId:
        """Decode the protobuf message."""
        return cls(ApplicationId.from_message(message.application), message.attempt)


class ContainerId(msgspec.Struct, frozen=True, order=True):
    """``container_e<epoch>_…``: the epoch counts the ResourceManager's restarts."""

    attempt: AttemptId
    number: int
    epoch: int = 0

    def __str__(self) -> str:
        app = self.attempt.application
        epoch = f"e{self.epoch:02d}_" if self.epoch else ""
        return (
            f"container_{epoch}{app.cluster_timestamp}_{app.number:04d}"
            f"_{self.attempt.number:02d}_{self.number:06d}"
        )

    @classmethod
    def parse(cls, text: str) -> ContainerId:
        """Parse it; raises ``ValueError``."""
        found = _match(_CONTAINER, text, "a container id")
        epoch, timestamp, app, attempt, number = (int(part or 0) for part in found.groups())
        return cls(AttemptId(ApplicationId(timestamp, app), attempt), number, epoch)

    def to_message(self) -> ids_pb2.ContainerId:
        """The protobuf message. Its id has the number and the epoch."""
        return ids_pb2.ContainerId(
            application=self.attempt.application.to_message(),
            attempt=self.attempt.to_message(),
            id=self.epoch << _EPOCH_BITS | self.number,
        )

    @classmethod
    def from_message(cls, message: ids_pb2.ContainerId) -> ContainerId:
        """Decode the protobuf message."""
        combined = message.id & 0xFFFFFFFFFFFFFFFF
        number = combined & ((1 << _EPOCH_BITS) - 1)
        return cls(AttemptId.from_message(message.attempt), number, combined >> _EPOCH_BITS)


class NodeId(msgspec.Struct, frozen=True, order=True):
    """``host:port`` of a NodeManager, with the host as the ResourceManager names it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> NodeId:
        """Parse it; raises ``ValueError``."""
        found = _match(_NODE, text, "a node id")
        return cls(found[1], int(found[2]))

    @classmethod
    def from_message(cls, message: ids_pb2.NodeId) -> NodeId:
        """Decode the protobuf message."""
        return cls(text(message.host), message.port)


def _match(pattern: re.Pattern[str], given: str, what: str) -> re.Match[str]:
    found = pattern.fullmatch(given)
    if found is None:
        raise ValueError(f"{given!r} is not {what}")
    return found
