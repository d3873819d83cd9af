"""``AllocateRequest``, a master's heartbeat, with its ``ResourceRequest``s for containers."""

from __future__ import annotations

import msgspec

from ytf.hadoop.proto import master_pb2, records_pb2
from ytf.hadoop.yarn.ids import ContainerId
from ytf.hadoop.yarn.records import Resource

ANYWHERE = "*"


class ResourceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The number of containers of a size that are wanted at a place.

    ``count`` is absolute, not a change: the scheduler keeps one number for each
    (priority, allocation request id, place, size), and the last one counts.
    ``place`` is ``*``, a rack or a host. A request for a host also needs requests
    for its rack and for ``*``. Only a request for ``*`` may have a label.
    """

    priority: int
    resource: Resource
    count: int
    place: str = ANYWHERE
    relax_locality: bool = True
    node_label: str | None = None
    allocation_request_id: int = 0

    def to_message(self) -> records_pb2.ResourceRequest:
        """The protobuf message."""
        message = records_pb2.ResourceRequest(
            priority=records_pb2.Priority(priority=self.priority),
            resource_name=self.place,
            capability=self.resource.to_message(),
            num_containers=self.count,
            relax_locality=self.relax_locality,
            allocation_request_id=self.allocation_request_id,
        )
        if self.node_label is not None:
            message.node_label_expression = self.node_label
        return message


class AllocateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one heartbeat: only what has changed since the last one.

    ``progress`` is needed each time: the ResourceManager shows the last value.
    """

    asks: tuple[ResourceRequest, ...] = ()
    releases: tuple[ContainerId, ...] = ()
    blacklist_additions: tuple[str, ...] = ()
    blacklist_removals: tuple[str, ...] = ()
    progress: float = 0.0

    def to_message(self, response_id: int) -> master_pb2.AllocateRequest:
        """The protobuf message."""
        message = master_pb2.AllocateRequest(
            asks=[ask.to_message() for ask in self.asks],
            releases=[container.to_message() for container in self.releases],
            response_id=response_id,
            progress=self.progress,
        )
        if self.blacklist_additions or self.blacklist_removals:
            message.blacklist.additions.extend(self.blacklist_additions)
            message.blacklist.removals.extend(self.blacklist_removals)
        return message
