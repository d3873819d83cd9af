"""What we ask for, as it travels: fields that must be there, and those that must not."""

from __future__ import annotations

import pytest

from ytf.errors import SpecError
from ytf.hadoop.security import credentials as files
from ytf.hadoop.security.credentials import Credentials
from ytf.hadoop.yarn.asks import Ask, Beat
from ytf.hadoop.yarn.ids import ApplicationId, AttemptId, ContainerId
from ytf.hadoop.yarn.launch import Access, FileType, LaunchContext, LocalFile, Visibility
from ytf.hadoop.yarn.resources import Resource
from ytf.hadoop.yarn.submission import Logs, Submission

APP = ApplicationId(1, 1)


def test_a_plain_submission_leaves_the_rest_to_the_cluster() -> None:
    message = Submission(
        id=APP,
        name="n",
        type="YTF",
        master=LaunchContext(command="exec true"),
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
    message = Submission(
        id=APP,
        name="n",
        type="YTF",
        master=LaunchContext(
            command="exec true",
            environment={"A": "1"},
            credentials=Credentials({}, {"job": b"s"}),
            access=Access(view="*", modify="alice admins"),
            files={
                "lib": LocalFile(
                    url="hdfs://nn:8020/a b.tgz",
                    size=3,
                    modified_ms=5,
                    type=FileType.ARCHIVE,
                    visibility=Visibility.PUBLIC,
                ),
                "x": LocalFile(url="hdfs://ha/x", size=1, modified_ms=2),
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
        logs=Logs(rolled_include="std.*"),
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
        LaunchContext(command='echo "x"').to_message()


@pytest.mark.parametrize("url", ["x", "/x", "hdfs://nn", "hdfs://nn:port/x"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(SpecError, match="is not a URL"):
        LocalFile(url=url, size=0, modified_ms=0).to_message()


def test_asks_are_absolute_and_explicit() -> None:
    message = Ask(priority=0, resource=Resource(1, 1), count=0).to_message()
    assert message.HasField("num_containers")
    assert message.priority.HasField("priority")
    assert (message.resource_name, message.relax_locality) == ("*", True)
    assert not message.HasField("node_label_expression")
    assert (
        Ask(priority=1, resource=Resource(), count=1, node_label="")
        .to_message()
        .HasField("node_label_expression")
    )


def test_a_quiet_beat_carries_nothing_but_its_number() -> None:
    message = Beat().to_message(7)
    assert message.response_id == 7
    assert not message.HasField("blacklist")
    assert Beat().to_message(0).HasField("response_id")
    container = ContainerId(AttemptId(APP, 1), 2)
    full = Beat(releases=(container,), blacklist_additions=("h",)).to_message(1)
    assert list(full.blacklist.additions) == ["h"]
    assert ContainerId.from_message(full.releases[0]) == container
