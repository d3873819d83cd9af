"""How to start a container: files to bring, environment, command."""

from __future__ import annotations

from enum import IntEnum
from urllib.parse import urlsplit

import msgspec

from ytf.errors import SpecError
from ytf.hadoop.proto import records_pb2
from ytf.hadoop.security import credentials as files
from ytf.hadoop.security.credentials import Credentials


class FileType(IntEnum):
    """What a NodeManager does with a file; archives are unpacked into a directory."""

    ARCHIVE = 1
    FILE = 2


class Visibility(IntEnum):
    """Who shares a node's copy: everyone, one user's applications, or one application."""

    PUBLIC = 1
    PRIVATE = 2
    APPLICATION = 3


class LocalFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that nodes bring into the container's working directory.

    ``size`` and ``modified_ms`` must be exactly what the file system tells, or
    the node refuses it. ``url`` has no port for a logical nameservice.
    """

    url: str
    size: int
    modified_ms: int
    type: FileType = FileType.FILE
    visibility: Visibility = Visibility.APPLICATION

    def to_message(self) -> records_pb2.LocalResource:
        """As it travels; raises ``SpecError`` for what is not a URL."""
        return records_pb2.LocalResource(
            url=_url(self.url),
            size=self.size,
            timestamp_ms=self.modified_ms,
            type=self.type,
            visibility=self.visibility,
        )


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Who else may look at an application, or change it: ``"alice,bob admins"``, ``"*"``."""

    view: str = ""
    modify: str = ""

    def to_messages(self) -> list[records_pb2.AccessRule]:
        """As it travels."""
        rules = ((1, self.view), (2, self.modify))
        return [records_pb2.AccessRule(access=kind, acl=acl) for kind, acl in rules if acl]


class LaunchContext(msgspec.Struct, frozen=True, kw_only=True):
    """All a NodeManager needs to run something.

    ``command`` is a line of shell that YARN pastes between double quotes into
    its own script: write ``'`` for quotes, and ``exec`` first, so that signals
    arrive. In it and in ``environment``, ``<LOG_DIR>`` and ``{{NAME}}`` are
    put in on the node. ``files`` are by the name they get in the container.
    """

    command: str
    environment: dict[str, str] = {}
    files: dict[str, LocalFile] = {}
    credentials: Credentials = Credentials()
    access: Access = Access()

    def to_message(self) -> records_pb2.LaunchContext:
        """As it travels; raises ``SpecError`` for a command that would break the script."""
        if '"' in self.command:
            raise SpecError(
                f"a container's command may not contain a double quote: {self.command}",
                hint="use single quotes, or ship a script",
            )
        message = records_pb2.LaunchContext(
            command=[self.command] if self.command else [],
            environment=[
                records_pb2.StringPair(key=key, value=value)
                for key, value in self.environment.items()
            ],
            local_resources=[
                records_pb2.NamedLocalResource(key=name, value=file.to_message())
                for name, file in self.files.items()
            ],
            access=self.access.to_messages(),
        )
        if self.credentials.tokens or self.credentials.secrets:
            message.tokens = files.encode(self.credentials)
        return message


def _url(url: str) -> records_pb2.Url:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise SpecError(f"{url!r} is not a URL: {exc}") from exc
    if not parts.scheme or not parts.path.startswith("/"):
        raise SpecError(f"{url!r} is not a URL with a scheme and a path")
    return records_pb2.Url(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=-1 if port is None else port,
        file=parts.path,
    )
