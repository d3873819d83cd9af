"""The contexts that YARN needs: how to start a container, and an application as it is submitted.

A NodeManager starts a container from a ``ContainerLaunchContext``. The
``ApplicationSubmissionContext`` for the ResourceManager contains that of the
master's container.
"""

from __future__ import annotations

import math
from enum import IntEnum
from urllib.parse import urlsplit

import msgspec

from ytf.errors import SpecError
from ytf.hadoop.proto import client_pb2, records_pb2
from ytf.hadoop.security import credentials as credentials_file
from ytf.hadoop.security.credentials import Credentials
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import Resource

_LIFETIME = 1
"""``ApplicationTimeoutType.LIFETIME``."""


class LocalResourceType(IntEnum):
    """Whether a NodeManager unpacks a local resource into a directory."""

    ARCHIVE = 1
    FILE = 2


class LocalResourceVisibility(IntEnum):
    """Who shares a node's copy: all users, one user's applications, or one application."""

    PUBLIC = 1
    PRIVATE = 2
    APPLICATION = 3


class LocalResource(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a node copies to the working directory of a container.

    ``size`` and ``modified_ms`` must be exactly those of the file system, or the
    node refuses it. The ``url`` of a nameservice has no port.
    """

    url: str
    size: int
    modified_ms: int
    type: LocalResourceType = LocalResourceType.FILE
    visibility: LocalResourceVisibility = LocalResourceVisibility.APPLICATION

    def to_message(self) -> records_pb2.LocalResource:
        """The protobuf message; raises ``SpecError`` if ``url`` is not a URL."""
        return records_pb2.LocalResource(
            url=_url(self.url),
            size=self.size,
            timestamp_ms=self.modified_ms,
            type=self.type,
            visibility=self.visibility,
        )


class ApplicationAcls(msgspec.Struct, frozen=True, kw_only=True):
    """Access lists of the users who may view or modify an application: ``"alice,bob admins"``."""

    view: str = ""
    modify: str = ""

    def to_messages(self) -> list[records_pb2.AccessRule]:
        """The protobuf message."""
        rules = ((1, self.view), (2, self.modify))
        return [records_pb2.AccessRule(access=kind, acl=acl) for kind, acl in rules if acl]


class ContainerLaunchContext(msgspec.Struct, frozen=True, kw_only=True):
    """The command, environment, local resources and credentials of a container.

    ``command`` is a line of shell that YARN inserts between double quotes into
    its own script: use ``'`` for quotes, and begin with ``exec``, so that the
    program receives signals. The node expands ``<LOG_DIR>`` and ``{{NAME}}`` in
    it and in ``environment``. The keys of ``local_resources`` are the names of
    the files in the container.
    """

    command: str
    environment: dict[str, str] = {}
    local_resources: dict[str, LocalResource] = {}
    credentials: Credentials = Credentials()
    acls: ApplicationAcls = ApplicationAcls()

    def to_message(self) -> records_pb2.LaunchContext:
        """The protobuf message; raises ``SpecError`` for a command that would break the script."""
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
                records_pb2.NamedLocalResource(key=name, value=resource.to_message())
                for name, resource in self.local_resources.items()
            ],
            access=self.acls.to_messages(),
        )
        if self.credentials.tokens or self.credentials.secrets:
            message.tokens = credentials_file.encode(self.credentials)
        return message


class LogAggregationContext(msgspec.Struct, frozen=True, kw_only=True):
    """Which logs YARN aggregates (Java regular expressions).

    ``rolled_*`` are for logs that are uploaded while the application runs.
    """

    include: str = ".*"
    exclude: str = ""
    rolled_include: str = ""
    rolled_exclude: str = ""

    def to_message(self) -> client_pb2.LogAggregation:
        """The protobuf message."""
        return client_pb2.LogAggregation(
            include=self.include,
            exclude=self.exclude,
            rolled_include=self.rolled_include,
            rolled_exclude=self.rolled_exclude,
        )


class ApplicationSubmissionContext(msgspec.Struct, frozen=True, kw_only=True):
    """An application as it is submitted.

    ``max_attempts`` 0 means the cluster's default. The failure of an attempt
    counts only for ``attempt_window_s``. The master of an ``unmanaged``
    application has no container: the submitter runs it.
    """

    id: ApplicationId
    name: str
    type: str
    master: ContainerLaunchContext
    master_resource: Resource
    queue: str = "default"
    priority: int | None = None
    max_attempts: int = 0
    keep_containers: bool = False
    attempt_window_s: float | None = None
    tags: tuple[str, ...] = ()
    node_label: str | None = None
    master_node_label: str | None = None
    lifetime_s: float | None = None
    logs: LogAggregationContext | None = None
    unmanaged: bool = False

    def to_message(self) -> client_pb2.SubmissionContext:
        """The protobuf message."""
        message = client_pb2.SubmissionContext(
            application=self.id.to_message(),
            name=self.name,
            queue=self.queue,
            master=self.master.to_message(),
            unmanaged=self.unmanaged,
            max_attempts=self.max_attempts,
            resource=self.master_resource.to_message(),
            type=self.type,
            keep_containers=self.keep_containers,
            # As ``ApplicationSubmissionContextPBImpl`` does: tags are searched in lower case.
            tags=[tag.lower() for tag in self.tags],
        )
        if self.priority is not None:
            message.priority.priority = self.priority
        if self.attempt_window_s is not None:
            message.attempt_failures_validity_ms = round(self.attempt_window_s * 1000)
        if self.node_label is not None:
            message.node_label_expression = self.node_label
        if self.lifetime_s is not None:
            message.timeouts.add(type=_LIFETIME, timeout_s=math.ceil(self.lifetime_s))
        if self.logs is not None:
            message.log_aggregation.CopyFrom(self.logs.to_message())
        if self.master_node_label is not None:
            message.master_requests.add().CopyFrom(self._master_request())
        return message

    def _master_request(self) -> records_pb2.ResourceRequest:
        """The request for the master's container with a label. It replaces ``resource``."""
        return records_pb2.ResourceRequest(
            priority=records_pb2.Priority(priority=0),
            resource_name="*",
            capability=self.master_resource.to_message(),
            num_containers=1,
            relax_locality=True,
            node_label_expression=self.master_node_label,
        )


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
