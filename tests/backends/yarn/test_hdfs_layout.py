"""The files of a job in HDFS, also those that another version of ytf wrote."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.yarn.fake_cluster import APP
from tests.backends.yarn.staged_jobs import RESOURCES
from ytf.backends.yarn import hdfs_layout
from ytf.backends.yarn.hdfs_layout import JobHome, StagedJob, UnreadableJobError, YarnHome
from ytf.errors import SettingsError
from ytf.specs.ids import JobId
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import JobInfo
from ytf.storage.local_files import LocalFiles

STAGED = StagedJob(
    info=JobInfo(id=JobId(str(APP)), user="alice", submitted_at=1.5, backend="yarn"),
    spec=JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true"),
    secret="s3cr3t",
    starter=RESOURCES,
)


@pytest.fixture
def home(tmp_path: Path) -> JobHome:
    home = YarnHome(LocalFiles(), str(tmp_path)).job(STAGED.info.id)
    home.files.mkdir(home.staging)
    home.files.mkdir(home.history)
    return home


@pytest.mark.parametrize("place", ["", ".ytf", ".ytf/jobs"])
def test_a_job_is_not_staged_where_others_could_replace_it(tmp_path: Path, place: str) -> None:
    home = YarnHome(LocalFiles(), f"{tmp_path}/ann/.ytf")
    home.files.mkdir(f"{home.root}/jobs")
    Path(tmp_path, "ann", place).chmod(0o777)
    with pytest.raises(SettingsError, match="can be written by others"):
        home.make_job(STAGED.info.id, getpass.getuser())
    assert not Path(home.job(STAGED.info.id).staging).exists()
    Path(tmp_path, "ann", place).chmod(0o755)
    home.make_job(STAGED.info.id, getpass.getuser())


def put(home: JobHome, path: str, data: bytes) -> None:
    home.files.write(path, [data])


def test_a_secret_is_not_shown() -> None:
    assert "s3cr3t" not in repr(STAGED)
    assert str(APP) in repr(STAGED)


@pytest.mark.parametrize("data", [b"{}", b"{", b'{"secret": "\xff"}'])
def test_what_another_version_staged_is_said_to_be_that(home: JobHome, data: bytes) -> None:
    for name in ("job.json", "submitter.json"):
        put(home, f"{home.staging}/{name}", data)
    put(home, f"{home.history}/record.json", data)
    for read in (home.staged, home.spec, home.record, home.submitter):
        with pytest.raises(UnreadableJobError, match="another version of ytf"):
            read()


class CountedFiles(LocalFiles):
    """Files whose reads are counted: those of another user may be of any length."""

    def __init__(self) -> None:
        self.bytes_read = 0

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        for piece in super().read(path, offset, length):
            self.bytes_read += len(piece)
            yield piece


def test_no_file_of_any_length_is_read_whole(
    home: JobHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_layout, "MOST_BYTES", 100_000)
    for path in (f"{home.staging}/job.json", f"{home.history}/record.json"):
        put(home, path, b"[" * 3_000_000)
    files = CountedFiles()
    others = JobHome(files, home.staging, home.history)
    for read in (others.staged, others.secret, others.record):
        files.bytes_read = 0
        with pytest.raises(UnreadableJobError, match="ytf has not written it"):
            read()
        assert files.bytes_read == 100_001


def test_nested_brackets_are_no_record(home: JobHome) -> None:
    nested = b'{"status": {}, "spec": {"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    put(home, f"{home.history}/record.json", nested)
    put(home, f"{home.staging}/job.json", nested)
    for read in (home.record, home.staged):
        with pytest.raises(UnreadableJobError):
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


def test_a_job_survives_its_stay_in_hdfs(tmp_path: Path) -> None:
    job = StagedJob(
        info=JobInfo(id=JobId(str(APP)), user="alice", submitted_at=1.5, backend="yarn"),
        spec=JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="echo 'ü'"),
        secret="s3cr3t",
        starter=RESOURCES,
    )
    home = YarnHome(LocalFiles(), str(tmp_path)).job(job.info.id)
    home.files.mkdir(home.staging)
    home.stage(job)
    assert home.staged() == job
    assert home.spec() == job.spec
    home.remove_staging()
    assert home.spec() is None
