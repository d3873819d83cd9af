"""``checkpoint_sync`` of a job spec, and its short form."""

from __future__ import annotations

from typing import Any

import pytest

from ytf.errors import SpecError
from ytf.specs.check import check
from ytf.specs.ids import JobId, TaskId
from ytf.specs.job import CheckpointSync, JobSpec, TaskGroupSpec
from ytf.specs.staging import destination, parse_checkpoint_sync

GROUPS = {"chief": TaskGroupSpec(count=1), "worker": TaskGroupSpec(count=2)}


@pytest.mark.parametrize(
    ("text", "group", "directory", "to"),
    [
        ("ckpt:hdfs:///user/me/run10", None, "ckpt", "hdfs:///user/me/run10"),
        ("a/b:hdfs://nn:8020/run10", None, "a/b", "hdfs://nn:8020/run10"),
        ("worker:ckpt:hdfs://nn:8020/{index}", "worker", "ckpt", "hdfs://nn:8020/{index}"),
        ("ckpt:/data/run10", None, "ckpt", "/data/run10"),
    ],
)
def test_the_short_form(text: str, group: str | None, directory: str, to: str) -> None:
    found = parse_checkpoint_sync(text, GROUPS, option="--sync_checkpoints")
    assert found == (group, CheckpointSync(dir=directory, to=to))


@pytest.mark.parametrize("text", ["", "ckpt", "ckpt:", ":hdfs:///x", "worker:"])
def test_what_is_missing_in_it_is_told(text: str) -> None:
    with pytest.raises(SpecError, match=r"^--sync_checkpoints"):
        parse_checkpoint_sync(text, GROUPS, option="--sync_checkpoints")


def job(**fields: Any) -> JobSpec:
    return JobSpec(command="true", **{"groups": GROUPS, **fields})


SYNC = CheckpointSync(dir="ckpt", to="hdfs:///run10")


@pytest.mark.parametrize(
    ("groups", "writer"),
    [
        ({"ps": 1, "worker": 2, "chief": 1}, "chief:0"),
        ({"worker": 2, "master": 1}, "master:0"),
        ({"ps": 1, "worker": 2}, "worker:0"),
        ({"ps": 1, "trainer": 2}, "trainer:0"),
        ({"ps": 1}, "ps:0"),
    ],
)
def test_one_task_writes_the_checkpoints(groups: dict[str, int], writer: str) -> None:
    given = {name: TaskGroupSpec(count=count) for name, count in groups.items()}
    spec = job(groups=given, checkpoint_sync=SYNC)
    check(spec)
    assert [task for task in spec.tasks() if spec.checkpoint_sync_of(task)] == [writer]


def test_a_group_has_one_for_each_task() -> None:
    sync = CheckpointSync(dir="ckpt", to="hdfs:///{job}/{index}")
    spec = job(groups={"worker": TaskGroupSpec(count=2, checkpoint_sync=sync)})
    check(spec)
    assert spec.checkpoint_sync_of(TaskId("worker:1")) == sync
    place = destination(sync, JobId("application_1"), TaskId("worker:1"))
    assert place == "hdfs:///application_1/1"


@pytest.mark.parametrize(
    ("sync", "message"),
    [
        ({"dir": "."}, "the working directory itself cannot be synced"),
        ({"dir": "../x"}, "not a directory for data"),
        ({"dir": "/x"}, "not a directory for data"),
        ({"dir": ".ytf"}, "not a directory for data"),
        ({"to": "s3://bucket/x"}, "cannot be staged"),
        ({"to": "hdfs:///"}, "there is no path"),
        ({"to": "hdfs:///{jop}"}, "no placeholder"),
        ({"interval_s": 0.5}, "must be 1 second or more"),
        ({"interval_s": 0}, "more than 0"),
        ({"final_s": 0}, "more than 0"),
    ],
)
def test_what_can_never_be_synced_is_refused(sync: dict[str, Any], message: str) -> None:
    given = CheckpointSync(**{"dir": "ckpt", "to": "hdfs:///run10", **sync})
    with pytest.raises(SpecError, match=message):
        check(job(checkpoint_sync=given))


def test_two_tasks_with_one_place_are_refused() -> None:
    groups = {"worker": TaskGroupSpec(count=2, checkpoint_sync=SYNC)}
    with pytest.raises(SpecError, match="would write to the same destination"):
        check(job(groups=groups))
    groups = {"chief": TaskGroupSpec(count=1, checkpoint_sync=SYNC), **GROUPS}
    groups["worker"] = TaskGroupSpec(count=1, checkpoint_sync=SYNC)
    with pytest.raises(SpecError, match="would write to the same destination"):
        check(
            job(
                groups={"chief": TaskGroupSpec(count=1), "worker": groups["worker"]},
                checkpoint_sync=SYNC,
            )
        )
