from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ytf.client.local_checks import ignored_fields, refuse_cluster_features
from ytf.errors import RefusedError
from ytf.specs.job import JobSpec, Placement, Resources, TaskGroupSpec, Timeouts
from ytf.starter import gpus

APART = TaskGroupSpec(count=1, placement=Placement.APART)


def job(group: TaskGroupSpec | None = None, **fields: object) -> JobSpec:
    usual = JobSpec(groups={"worker": group or TaskGroupSpec(count=2)}, command="true")
    return msgspec.structs.replace(usual, **fields)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (job(TaskGroupSpec(count=1, overrides={0: Resources(others={"x": 2})})), r"x \(2\)"),
        (job(placement=Placement.APART), "2 tasks that are never to share a node"),
        (job(task_ports="2000-2000"), "2000-2000 has 1 ports, and on one machine 2 tasks need one"),
        (job(control_ports="2000-2001"), "2 starters and the master need one each"),
        (job(timeouts=Timeouts(lifetime_s=9)), "cannot limit the job's lifetime"),
    ],
)
def test_what_nobody_could_keep_is_refused(spec: JobSpec, says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        refuse_cluster_features(spec)


@pytest.mark.parametrize(("count", "there"), [(2, "none"), (3, "2")])
def test_more_gpus_than_the_machine_has_are_refused(
    count: int, there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there != "none":
        smi = tmp_path / "nvidia-smi"
        smi.write_text("#!/bin/sh\nprintf '0, GPU-a\\n1, GPU-b\\n'\n")
        smi.chmod(0o755)
    monkeypatch.setattr(gpus, "_MORE_PATHS", ())
    monkeypatch.setattr(gpus, "_KFD", "/nonexistent")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    spec = job(TaskGroupSpec(count=count, resources=Resources(gpus=1)))
    with pytest.raises(RefusedError, match=rf"for {count} GPU\(s\), and this machine has {there}"):
        refuse_cluster_features(spec)
    if there != "none":
        refuse_cluster_features(job(TaskGroupSpec(count=2, resources=Resources(gpus=1))))


def test_the_rest_is_passed_over_with_a_note() -> None:
    plain = job(TaskGroupSpec(count=1, resources=Resources(others={"x": 0})))
    advice = job(APART, priority=1, tags=("a",), acl_view="*", acl_modify="*", node_label="gpu")
    for spec in (plain, advice):
        refuse_cluster_features(spec)
    assert list(ignored_fields(plain)) == []
    [note] = ignored_fields(advice)
    assert note.endswith("it ignores priority, tags, acl_view, acl_modify, node_label, placement")
