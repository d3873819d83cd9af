"""What a master asks for: containers, by place and size."""

from __future__ import annotations

import msgspec

from ytf.hadoop.proto import master_pb2, records_pb2
from ytf.hadoop.yarn.ids import ContainerId
from ytf.hadoop.yarn.resources import Resource

ANYWHERE = "*"


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """How many containers of a size are wanted at a place, in all.

    ``count`` is absolute, not a change: the scheduler keeps one number per
    (priority, allocation request id, place, size), and the last one counts.
    ``place`` is ``*``, a rack or a host; a host's ask needs its rack's and
    ``*`` beside it. A label goes on ``*`` only.
    """

    priority: int
    resource: Resource
    count: int
    place: str = ANYWHERE
    relax_locality: bool = True
    node_label: str | None = None
    allocation_request_id: int = 0

    def to_message(self) -> records_pb2.ResourceRequest:
        """As it travels."""
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


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """What one heartbeat carries: only what has changed since the last one.

    But for ``progress``: the ResourceManager shows what the last beat said.
    """

    asks: tuple[Ask, ...] = ()
    releases: tuple[ContainerId, ...] = ()
    blacklist_additions: tuple[str, ...] = ()
    blacklist_removals: tuple[str, ...] = ()
    progress: float = 0.0

    def to_message(self, response_id: int) -> master_pb2.AllocateRequest:
        """As it travels."""
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
