from __future__ import annotations

import msgspec
import pytest

from ytf.errors import SpecError
from ytf.specs.job import (
    JobSpec,
    Resources,
    TaskGroupSpec,
)


def test_resources_take_memory_as_a_number_of_mb_or_as_text() -> None:
    assert Resources(memory="4 GiB") == Resources(memory=4096) == Resources(memory="4096")
    assert Resources(memory="1.5g").memory_mb == 1536
    with pytest.raises(SpecError, match="memory: 'much' is not an amount of memory"):
        Resources(memory="much")


def _hidden(groups: dict[str, TaskGroupSpec], **fields: object) -> list[str]:
    spec = msgspec.structs.replace(JobSpec(groups=groups, command="x"), **fields)
    return [task for task in spec.tasks() if spec.hides_gpus(task)]


def test_who_only_serves_others_or_was_given_none_sees_no_gpus() -> None:
    plain, with_gpus = TaskGroupSpec(count=1), TaskGroupSpec(count=1, resources=Resources(gpus=1))
    assert _hidden({"worker": plain, "ps": plain, "evaluator": plain}) == ["ps:0", "evaluator:0"]
    assert _hidden({"worker": plain, "chief": with_gpus, "ps": with_gpus}) == ["worker:0"]
    one = TaskGroupSpec(count=2, overrides={1: Resources(gpus=1)})
    assert _hidden({"worker": one}) == ["worker:0"]
    own = {"CUDA_VISIBLE_DEVICES": "0"}
    assert _hidden({"ps": plain, "worker": with_gpus}, task_env=own) == []
