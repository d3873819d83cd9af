"""What is asked of the ResourceManager when an application is submitted."""

from __future__ import annotations

import math

import msgspec

from ytf.hadoop.proto import client_pb2, records_pb2
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.launch import LaunchContext
from ytf.hadoop.yarn.resources import Resource

_LIFETIME = 1


class Logs(msgspec.Struct, frozen=True, kw_only=True):
    """Which logs are gathered (Java regular expressions): at the end, and while it runs."""

    include: str = ".*"
    exclude: str = ""
    rolled_include: str = ""
    rolled_exclude: str = ""

    def to_message(self) -> client_pb2.LogAggregation:
        """As it travels."""
        return client_pb2.LogAggregation(
            include=self.include,
            exclude=self.exclude,
            rolled_include=self.rolled_include,
            rolled_exclude=self.rolled_exclude,
        )


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """An application as it is submitted.

    ``max_attempts`` 0 leaves it to the cluster. Masters that fail do not count
    any more after ``attempt_window_s``. An ``unmanaged`` one has no container
    for its master: the submitter runs it.
    """

    id: ApplicationId
    name: str
    type: str
    master: LaunchContext
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
    logs: Logs | None = None
    unmanaged: bool = False

    def to_message(self) -> client_pb2.SubmissionContext:
        """As it travels."""
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
            # ``ApplicationSubmissionContextPBImpl``: whoever looks for a tag does so in lower case.
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
        """Where the master is to run; it takes the place of ``resource`` altogether."""
        return records_pb2.ResourceRequest(
            priority=records_pb2.Priority(priority=0),
            resource_name="*",
            capability=self.master_resource.to_message(),
            num_containers=1,
            relax_locality=True,
            node_label_expression=self.master_node_label,
        )
