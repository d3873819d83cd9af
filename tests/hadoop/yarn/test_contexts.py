"""The protobuf messages of contexts: required fields, and fields that must be absent."""

from __future__ import annotations

import pytest

from ytf.errors import SpecError
from ytf.hadoop.security import credentials as files
from ytf.hadoop.security.credentials import Credentials
from ytf.hadoop.yarn.contexts import (
    ApplicationAcls,
    ApplicationSubmissionContext,
    ContainerLaunchContext,
    LocalResource,
    LocalResourceType,
    LocalResourceVisibility,
    LogAggregationContext,
)
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import Resource

APP = ApplicationId(1, 1)


def test_a_plain_submission_leaves_the_rest_to_the_cluster() -> None:
    message = ApplicationSubmissionContext(
        id=APP,
        name="n",
        type="YTF",
        master=ContainerLaunchContext(command="exec true"),
        master_resource=Resource(256, 1),
    ).to_message()
    assert (message.queue, message.type, message.max_attempts) == ("default", "YTF", 0)
    assert list(message.master.command) == ["exec true"]
    for field in ("priority", "node_label_expression", "log_aggregation"):
        assert not message.HasField(field)
    assert not message.HasField("attempt_failures_validity_ms")
    assert not message.master.HasField("tokens")
    assert not message.master_requests


def test_a_full_submission() -> None:
    message = ApplicationSubmissionContext(
        id=APP,
        name="n",
        type="YTF",
        master=ContainerLaunchContext(
            command="exec true",
            environment={"A": "1"},
            credentials=Credentials({}, {"job": b"s"}),
            acls=ApplicationAcls(view="*", modify="alice admins"),
            local_resources={
                "lib": LocalResource(
                    url="hdfs://nn:8020/a b.tgz",
                    size=3,
                    modified_ms=5,
                    type=LocalResourceType.ARCHIVE,
                    visibility=LocalResourceVisibility.PUBLIC,
                ),
                "x": LocalResource(url="hdfs://ha/x", size=1, modified_ms=2),
            },
        ),
        master_resource=Resource(256, 1, {"yarn.io/gpu": 1}),
        priority=0,
        keep_containers=True,
        attempt_window_s=1.5,
        tags=("a", "b"),
        node_label="gpu",
        master_node_label="",
        lifetime_s=60,
        logs=LogAggregationContext(rolled_include="std.*"),
    ).to_message()
    assert message.HasField("priority")
    assert message.priority.HasField("priority")
    assert message.attempt_failures_validity_ms == 1500
    assert [(each.type, each.timeout_s) for each in message.timeouts] == [(1, 60)]
    [request] = message.master_requests
    assert request.HasField("node_label_expression")
    assert request.capability.values[0].key == "yarn.io/gpu"
    assert message.log_aggregation.rolled_include == "std.*"
    launch = message.master
    assert files.decode(launch.tokens).secrets == {"job": b"s"}
    assert [(rule.access, rule.acl) for rule in launch.access] == [(1, "*"), (2, "alice admins")]
    lib, x = (each.value for each in launch.local_resources)
    assert (lib.url.scheme, lib.url.host, lib.url.port, lib.url.file) == (
        "hdfs", "nn", 8020, "/a b.tgz",
    )  # fmt: skip
    assert (lib.type, lib.visibility, lib.size, lib.timestamp_ms) == (1, 1, 3, 5)
    assert (x.url.host, x.url.port, x.type, x.visibility) == ("ha", -1, 2, 3)


def test_a_command_that_would_break_the_launch_script_is_refused() -> None:
    with pytest.raises(SpecError, match="double quote"):
        ContainerLaunchContext(command='echo "x"').to_message()


@pytest.mark.parametrize("url", ["x", "/x", "hdfs://nn", "hdfs://nn:port/x"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(SpecError, match="is not a URL"):
        LocalResource(url=url, size=0, modified_ms=0).to_message()
