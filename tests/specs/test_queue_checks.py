from __future__ import annotations

import msgspec
import pytest

from tests.specs.yaml_codec import from_yaml, to_yaml
from ytf.errors import SpecError
from ytf.specs.check import check
from ytf.specs.job import JobSpec, Placement, Resources, TaskGroupSpec, Timeouts


def job(**fields: object) -> JobSpec:
    usual = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true")
    return msgspec.structs.replace(usual, **fields)


def group(**fields: object) -> JobSpec:
    return job(groups={"worker": msgspec.structs.replace(TaskGroupSpec(count=2), **fields)})


def others(**amounts: int) -> JobSpec:
    return group(resources=Resources(others=amounts))


@pytest.mark.parametrize(
    "spec",
    [
        job(priority=0),
        job(tags=("a", "two words", "x" * 100)),
        job(acl_view="*", acl_modify="alice,bob admins,ops"),
        job(acl_view=" admins"),
        job(node_label="gpu-v100_2"),
        job(node_label=""),
        group(node_label="", placement=Placement.APART),
        others(licences=0),
        group(resources=Resources(others={"yarn.io/fpga": 3})),
        job(timeouts=Timeouts(lifetime_s=0.5)),
    ],
)
def test_what_a_queue_understands_passes(spec: JobSpec) -> None:
    check(spec)
    assert from_yaml(to_yaml(spec)) == spec


@pytest.mark.parametrize(
    ("spec", "where", "says"),
    [
        (job(priority=-1), "priority", "must be 0 to"),
        (job(tags=("a,b",)), "tags", "cannot be a tag"),
        (job(tags=("",)), "tags", "cannot be a tag"),
        (job(tags=(" a",)), "tags", "cannot be a tag"),
        (job(tags=("größe",)), "tags", "cannot be a tag"),
        (job(tags=("x" * 101,)), "tags", "cannot be a tag"),
        (job(tags=tuple("abcdefghijk")), "tags", "10 tags, not 11"),
        (job(acl_view=""), "acl_view", "not understood"),
        (job(acl_modify="alice bob carol"), "acl_modify", "not understood"),
        (job(acl_modify="alice\nbob"), "acl_modify", "not understood"),
        (job(node_label="-gpu"), "node_label", "cannot be a node's label"),
        (group(node_label="a b"), "groups.worker.node_label", "cannot be a node's label"),
        (group(node_label="a" * 256), "groups.worker.node_label", "cannot be a node's label"),
        (others(vcores=1), "groups.worker.resources.others.vcores", "a field of its own"),
        (others(fpga=-1), "groups.worker.resources.others.fpga", "must be 0 to"),
        (others(**{"a b": 1}), "groups.worker.resources.others.a b", "cannot be the name"),
        (job(timeouts=Timeouts(lifetime_s=0)), "timeouts.lifetime_s", "more than 0"),
    ],
)
def test_what_no_queue_would_understand_is_refused(spec: JobSpec, where: str, says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        check(spec)
    assert caught.value.where == where


def test_a_group_has_the_jobs_label_and_placement_unless_it_has_its_own() -> None:
    spec = job(
        groups={
            "ps": TaskGroupSpec(count=1),
            "worker": TaskGroupSpec(count=1, node_label="", placement=Placement.PACK),
        },
        node_label="gpu",
        placement=Placement.SPREAD,
    )
    assert (spec.node_label_of("ps"), spec.node_label_of("worker")) == ("gpu", "")
    assert spec.placement_of("ps") is Placement.SPREAD
    assert spec.placement_of("worker") is Placement.PACK


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tags: a", "tags: expected a list, got 'a'"),
        ("tags: [1]", "tags: expected text, got 1"),
        ("placement: up", "placement: expected 'any', 'spread', 'pack' or 'apart', got 'up'"),
    ],
)
def test_what_has_the_wrong_type_is_told_as_everything_else(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        from_yaml(f"groups: {{a: {{count: 1}}}}\ncommand: x\n{text}\n")
