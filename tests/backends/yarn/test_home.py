"""What a job has in HDFS, also when another version of ytf put it there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.backends.yarn.job.told import APP
from tests.backends.yarn.test_small_parts import BROUGHT
from ytf.backends.yarn.home import JobHome, StagedJob, UnreadableJobError, YarnHome
from ytf.backends.yarn.submit.submitter import Submitter
from ytf.master.info import JobInfo
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.names import JobId
from ytf.storage.files import LocalFiles

STAGED = StagedJob(
    info=JobInfo(id=JobId(str(APP)), user="alice", submitted_at=1.5, backend="yarn"),
    spec=JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true"),
    secret="s3cr3t",
    starter=BROUGHT,
)


@pytest.fixture
def home(tmp_path: Path) -> JobHome:
    home = YarnHome(LocalFiles(), str(tmp_path)).job(STAGED.info.id)
    home.files.mkdir(home.staging)
    home.files.mkdir(home.kept)
    return home


def put(home: JobHome, path: str, data: bytes) -> None:
    home.files.write(path, [data])


def test_a_secret_is_not_shown() -> None:
    assert "s3cr3t" not in repr(STAGED)
    assert str(APP) in repr(STAGED)


@pytest.mark.parametrize("data", [b"{}", b"{", b'{"secret": "\xff"}'])
def test_what_another_version_staged_is_said_to_be_that(home: JobHome, data: bytes) -> None:
    for name in ("job.json", "submitter.json"):
        put(home, f"{home.staging}/{name}", data)
    put(home, f"{home.kept}/record.json", data)
    for read in (home.staged, home.spec, home.record, lambda: Submitter.of(home)):
        with pytest.raises(UnreadableJobError, match="another version of ytf"):
            read()


def test_a_spec_that_we_do_not_know(home: JobHome) -> None:
    home.stage(STAGED)
    stored = json.loads(Path(home.staging, "job.json").read_bytes())
    Path(home.staging, "job.json").unlink()
    stored["spec"]["from_the_future"] = 1
    put(home, f"{home.staging}/job.json", json.dumps(stored).encode())
    with pytest.raises(UnreadableJobError, match="from_the_future"):
        home.spec()


def test_the_secret_is_read_from_any_version(home: JobHome) -> None:
    put(home, f"{home.staging}/job.json", b'{"secret": "s", "spec": 7, "more": []}')
    assert home.secret() == b"s"
