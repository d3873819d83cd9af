from __future__ import annotations

import msgspec
import pytest

from ytf.client.one_machine import ignored, refuse_what_takes_a_cluster
from ytf.errors import RefusedError
from ytf.specs.job import JobSpec, Placement, Resources, TaskGroupSpec, Timeouts

APART = TaskGroupSpec(count=1, placement=Placement.APART)


def job(group: TaskGroupSpec | None = None, **fields: object) -> JobSpec:
    usual = JobSpec(groups={"worker": group or TaskGroupSpec(count=2)}, command="true")
    return msgspec.structs.replace(usual, **fields)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (job(TaskGroupSpec(count=1, resources=Resources(gpus=1))), r"GPUs \(1\)"),
        (job(TaskGroupSpec(count=1, overrides={0: Resources(others={"x": 2})})), r"x \(2\)"),
        (job(placement=Placement.APART), "2 tasks that are never to share a node"),
        (job(timeouts=Timeouts(lifetime_s=9)), "would keep the job's lifetime"),
    ],
)
def test_what_nobody_could_keep_is_refused(spec: JobSpec, says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        refuse_what_takes_a_cluster(spec)


def test_the_rest_is_passed_over_with_a_note() -> None:
    plain = job(TaskGroupSpec(count=1, resources=Resources(others={"x": 0})))
    advice = job(APART, priority=1, tags=("a",), acl_view="*", acl_modify="*", node_label="gpu")
    for spec in (plain, advice):
        refuse_what_takes_a_cluster(spec)
    assert list(ignored(plain)) == []
    [note] = ignored(advice)
    assert note.endswith(
        "it passes over priority, tags, acl_view, acl_modify, node_label, placement"
    )
