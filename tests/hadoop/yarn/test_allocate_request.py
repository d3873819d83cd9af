"""The protobuf messages of heartbeats: required fields, and fields that must be absent."""

from __future__ import annotations

from ytf.hadoop.yarn.allocate_request import AllocateRequest, ResourceRequest
from ytf.hadoop.yarn.ids import ApplicationId, AttemptId, ContainerId
from ytf.hadoop.yarn.records import Resource


def test_asks_are_absolute_and_explicit() -> None:
    message = ResourceRequest(priority=0, resource=Resource(1, 1), count=0).to_message()
    assert message.HasField("num_containers")
    assert message.priority.HasField("priority")
    assert (message.resource_name, message.relax_locality) == ("*", True)
    assert not message.HasField("node_label_expression")
    assert (
        ResourceRequest(priority=1, resource=Resource(), count=1, node_label="")
        .to_message()
        .HasField("node_label_expression")
    )


def test_a_quiet_beat_carries_nothing_but_its_number() -> None:
    message = AllocateRequest().to_message(7)
    assert message.response_id == 7
    assert not message.HasField("blacklist")
    assert AllocateRequest().to_message(0).HasField("response_id")
    container = ContainerId(AttemptId(ApplicationId(1, 1), 1), 2)
    full = AllocateRequest(releases=(container,), blacklist_additions=("h",)).to_message(1)
    assert list(full.blacklist.additions) == ["h"]
    assert ContainerId.from_message(full.releases[0]) == container
