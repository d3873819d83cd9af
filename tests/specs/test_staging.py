"""What a user may write for stage-in and stage-out, and what is refused."""

from __future__ import annotations

import pytest

from ytf.errors import SpecError
from ytf.specs.codec import from_dict, to_dict
from ytf.specs.ids import JobId, TaskId
from ytf.specs.job import JobSpec, StageIn, StageOut, TaskGroupSpec
from ytf.specs.staging import destination, parse_stage_in, parse_stage_out

GROUPS = {"chief": TaskGroupSpec(count=1), "worker": TaskGroupSpec(count=2)}


@pytest.mark.parametrize(
    ("text", "group", "source", "to"),
    [
        ("hdfs://nn:8020/data", None, "hdfs://nn:8020/data", None),
        ("hdfs://nn:8020/data:in", None, "hdfs://nn:8020/data", "in"),
        ("hdfs:///data/a b:in/x", None, "hdfs:///data/a b", "in/x"),
        ("worker:hdfs://nn:8020/data/*.csv:in", "worker", "hdfs://nn:8020/data/*.csv", "in"),
        ("worker:hdfs://ns/data", "worker", "hdfs://ns/data", None),
        ("data/train", None, "data/train", None),
        ("data/train:in", None, "data/train", "in"),
        ("data:in", None, "data", "in"),
        ("worker:data:in", "worker", "data", "in"),
    ],
)
def test_forms_of_stage_in(text: str, group: str | None, source: str, to: str | None) -> None:
    wanted = StageIn(source=source, to=to)
    assert parse_stage_in(text, GROUPS, option="--stage_in") == (group, wanted)


@pytest.mark.parametrize(
    ("text", "group", "directory", "to"),
    [
        ("out:hdfs://nn:8020/x", None, "out", "hdfs://nn:8020/x"),
        ("chief:out/m:hdfs:///x/{job}", "chief", "out/m", "hdfs:///x/{job}"),
        ("out:/data/x", None, "out", "/data/x"),
        ("chief:out:results", "chief", "out", "results"),
    ],
)
def test_forms_of_stage_out(text: str, group: str | None, directory: str, to: str) -> None:
    wanted = StageOut(dir=directory, to=to)
    assert parse_stage_out(text, GROUPS, option="--stage_out") == (group, wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wrker:hdfs://nn/x", "there is no task group 'wrker'"),
        ("hdfs://nn:8020", "no path"),
        ("hdfs://nn:8020/x:", "nothing on one side"),
        ("", "no path"),
    ],
)
def test_wrong_forms_of_stage_in(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_stage_in(text, GROUPS, option="--stage_in")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("out", "expected <directory>:<destination>"),
        (":hdfs://nn/x", "expected <directory>"),
        ("chief::hdfs://nn/x", "the directory is missing"),
    ],
)
def test_wrong_forms_of_stage_out(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_stage_out(text, GROUPS, option="--stage_out")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stage_in": [{"source": "s3://x/y"}]}, "cannot be staged"),
        ({"stage_in": [{"source": "hdfs://nn:8020/"}]}, "no path"),
        ({"stage_in": [{"source": "hdfs:///x", "to": "../y"}]}, "not a directory for data"),
        ({"stage_in": [{"source": "hdfs:///x", "to": "/y"}]}, "not a directory for data"),
        ({"stage_in": [{"source": "hdfs:///x", "to": ".ytf/y"}]}, "not a directory for data"),
        ({"stage_out": [{"dir": "o", "to": "hdfs:///x"}]}, "worker:0 and chief:0 would write"),
        ({"stage_out": [{"dir": "o", "to": "hdfs:///{group}"}]}, "worker:1 and worker:0"),
        ({"stage_out": [{"dir": "o", "to": "hdfs:///{grup}"}]}, "no placeholder {grup}"),
        (
            {"stage_out": [{"dir": d, "to": "hdfs:///{task}"} for d in "ab"]},
            "chief:0 twice would write",
        ),
        ({"stage_in": [{"source": "hdfs:///x", "shards": True}]}, "shards"),
    ],
)
def test_what_is_refused(given: dict[str, object], message: str) -> None:
    groups = {"chief": {"count": 1}, "worker": {"count": 2}}
    with pytest.raises(SpecError, match=message):
        from_dict({"groups": groups, "command": "x", **given})


def test_files_are_not_shared_among_tasks_that_may_be_missing() -> None:
    groups = {"worker": {"count": 3, "min": 2, "stage_in": [{"source": "hdfs:///x"}]}}
    spec = from_dict({"groups": groups, "command": "x"})
    assert from_dict(to_dict(spec)) == spec
    groups["worker"]["stage_in"] = [{"source": "hdfs:///x", "shard": True}]
    with pytest.raises(SpecError, match="cannot share files"):
        from_dict({"groups": groups, "command": "x"})


def test_a_group_has_its_own_in_addition_and_tensorboard_only_its_own() -> None:
    job, own = StageIn(source="hdfs:///a"), StageIn(source="hdfs:///b")
    groups = {
        "worker": TaskGroupSpec(count=1, stage_in=(own,)),
        "tensorboard": TaskGroupSpec(count=1, command="x"),
    }
    spec = JobSpec(groups=groups, command="x", stage_in=(job,))
    assert spec.stage_in_of("worker") == (job, own)
    assert spec.stage_in_of("tensorboard") == ()


def test_placeholders_are_replaced() -> None:
    output = StageOut(dir="o", to="hdfs://nn/{job}/{group}/{index}/{task}")
    place = destination(output, JobId("application_1_0001"), TaskId("worker:3"))
    assert place == "hdfs://nn/application_1_0001/worker/3/worker-3"
