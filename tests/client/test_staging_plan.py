"""What a job stages, as it is submitted: absolute paths on one machine, URLs on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from ytf.backends.api import Plan
from ytf.client.plan import resolve_staging
from ytf.client.plan_text import describe
from ytf.errors import SpecError
from ytf.specs.job import JobSpec, StageIn, StageOut, TaskGroupSpec


def job(source: str, to: str = "hdfs:///x") -> JobSpec:
    group = TaskGroupSpec(count=1, stage_in=(StageIn(source=source, shard=True),))
    output = StageOut(dir="out", to=to, always=True)
    return JobSpec(groups={"worker": group}, command="true", stage_out=(output,))


def test_paths_of_this_machine_become_absolute(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    spec = resolve_staging(job("data", "kept/{task}"), "local", tmp_path)
    assert spec.groups["worker"].stage_in[0].source == str(tmp_path / "data")
    assert spec.stage_out[0].to == str(tmp_path / "kept/{task}")
    told = describe(Plan(spec=spec, backend="local", user="alice"))
    assert f"stages in: a share of {tmp_path}/data to its directory" in told
    assert f"stages out: out to {tmp_path}/kept/{{task}}, also of a failed program" in told


@pytest.mark.parametrize("url", ["hdfs://nn:8020/x/*", "viewfs:///x", "file:///x"])
def test_urls_stay_as_they_are(tmp_path: Path, url: str) -> None:
    assert resolve_staging(job(url), "local", tmp_path) == job(url)


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"there is no {tmp_path}/data"):
        resolve_staging(job("data"), "local", tmp_path)
    assert resolve_staging(job("data*"), "local", tmp_path) != job("data*")


@pytest.mark.parametrize("spec", [job("data"), job("file:///data"), job("hdfs:///x", "/kept")])
def test_other_nodes_do_not_have_the_files_of_this_one(tmp_path: Path, spec: JobSpec) -> None:
    with pytest.raises(SpecError, match="is on this machine, and the tasks run on others"):
        resolve_staging(spec, "yarn", tmp_path)
