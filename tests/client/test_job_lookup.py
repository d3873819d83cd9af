from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.fakes import FakeBackend, FakeHandle, status
from ytf.backends.api import JobHandle
from ytf.client.job_lookup import find_job, is_part
from ytf.client.last_job import LastJob, last_job, remember_last_job
from ytf.errors import NotFoundError
from ytf.specs.ids import JobId
from ytf.specs.status import JobState, JobSummary


def summary(job: str, name: str, state: JobState, user: str = "alice") -> JobSummary:
    return JobSummary(
        id=JobId(job), name=name, user=user, queue="default", backend="local", state=state
    )


KNOWN = [
    summary("local_20261116212931_f260", "train", JobState.RUNNING),
    summary("local_20261116212930_6df9", "train", JobState.FAILED),
    summary("local_20261115080000_beef", "old", JobState.SUCCEEDED),
    summary("local_20261114080000_cafe", "old", JobState.FAILED),
    summary("local_20261113080000_0001", "twins", JobState.RUNNING),
    summary("local_20261113080000_0002", "twins", JobState.STARTING),
    summary("local_20261112080000_0bbb", "bobs", JobState.RUNNING, user="bob"),
]


class ManyJobs(FakeBackend):
    """Knows all of ``KNOWN``."""

    def open(self, job: JobId) -> JobHandle:
        if all(known.id != job for known in KNOWN):
            raise NotFoundError(f"there is no job {job}")
        handle = FakeHandle(status(JobState.RUNNING))
        handle.job = job
        return handle

    def list(self) -> list[JobSummary]:
        return KNOWN


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME", "YTF_BACKEND"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    backend = ManyJobs(FakeHandle(status(JobState.RUNNING)))
    monkeypatch.setattr("ytf.backends.get_backend", lambda name: backend)


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("local_20261116212930_6df9", "local_20261116212930_6df9"),
        ("local_20261112080000_0bbb", "local_20261112080000_0bbb"),
        ("local_20261116212931", "local_20261116212931_f260"),
        ("20261115", "local_20261115080000_beef"),
        ("beef", "local_20261115080000_beef"),
        ("20261115080000_be", "local_20261115080000_beef"),
        ("train", "local_20261116212931_f260"),
        ("old", "local_20261115080000_beef"),
    ],
)
def test_an_id_a_part_of_it_or_a_name(text: str, job: str) -> None:
    assert find_job(text).job == job


def test_of_several_ended_jobs_of_a_name_the_newest_is_taken_and_said() -> None:
    said: list[str] = []
    find_job("old", notify=said.append)
    assert said == ["2 jobs were called 'old'; the newest is local_20261115080000_beef"]
    find_job("train", notify=said.append)
    find_job("beef", notify=said.append)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("text", "message", "listed"),
    [
        ("local_20261116", "'local_20261116' may be one of 2 jobs", ["f260", "6df9"]),
        ("twins", "2 running jobs are called 'twins'", ["0001", "0002"]),
        ("local_", "'local_' may be one of 6 jobs", ["f260", "and 1 more"]),
    ],
)
def test_a_text_that_may_be_several_jobs_lists_them(
    text: str, message: str, listed: list[str]
) -> None:
    with pytest.raises(NotFoundError) as caught:
        find_job(text)
    assert str(caught.value) == message
    assert all(part in (caught.value.hint or "") for part in listed)


@pytest.mark.parametrize("text", ["bobs", "0bbb", "nothing", "", "bee", "@first"])
def test_what_is_nobodys_or_another_users_is_not_found(text: str) -> None:
    with pytest.raises(NotFoundError, match="you have no job with the id or name"):
        find_job(text)


def test_a_whole_id_needs_no_settings(tmp_path: Path) -> None:
    (tmp_path / "ytf.toml").write_text("broken")
    assert find_job("local_20261116212930_6df9").job == "local_20261116212930_6df9"


def test_a_mistyped_name_is_corrected() -> None:
    with pytest.raises(NotFoundError) as caught:
        find_job("trian")
    assert caught.value.hint == "did you mean 'train'?"
    with pytest.raises(NotFoundError) as caught:
        find_job("@lst")
    assert caught.value.hint == "did you mean '@last'?"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("application_17", True),
        ("1700000000000_0042", True),
        ("0042", True),
        ("004", False),
        ("_0042", False),
        ("0000", False),
        ("application_1700000000000_0042_", False),
    ],
)
def test_parts_begin_where_the_ids_parts_do(text: str, found: bool) -> None:
    assert is_part(text, "application_1700000000000_0042") is found


class TestLast:
    def test_before_anything_was_submitted(self) -> None:
        with pytest.raises(NotFoundError, match="no job was submitted from here yet"):
            find_job("@last")
        with pytest.raises(NotFoundError, match="submitted to the backend yarn from here yet"):
            find_job("@last", backend="yarn")

    def test_is_the_one_submitted_last_wherever(self) -> None:
        remember_last_job("yarn", JobId("application_1_0001"))
        remember_last_job("local", KNOWN[1].id)
        assert find_job("@last").job == KNOWN[1].id
        remember_last_job("local", KNOWN[0].id)
        assert find_job("@last", backend="local").job == KNOWN[0].id
        assert last_job("yarn") == LastJob(JobId("application_1_0001"), "yarn")

    def test_that_is_gone_is_named(self) -> None:
        remember_last_job("local", JobId("local_1_gone"))
        with pytest.raises(NotFoundError, match="@last is local_1_gone: there is no job"):
            find_job("@last")

    def test_each_cluster_has_its_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "yarn-site.xml").touch()
            monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / name))
            assert last_job() is None
            remember_last_job("yarn", JobId(f"application_{name}"))
            assert last_job() == LastJob(JobId(f"application_{name}"), "yarn")

    def test_a_home_that_cannot_be_written_fails_no_submission(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("YTF_HOME", str(tmp_path / "file"))
        remember_last_job("local", KNOWN[0].id)
        assert last_job() is None
