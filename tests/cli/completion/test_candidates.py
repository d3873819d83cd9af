"""Candidates that are found when a user presses Tab: jobs of the cluster and their tasks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import Install
from tests.client.fakes import JOB, status, task
from ytf.cli import main
from ytf.specs.ids import JobId
from ytf.specs.status import JobState, JobSummary, TaskState


def job(number: int, user: str, state: JobState) -> JobSummary:
    return JobSummary(
        id=JobId(f"application_1_{number}"),
        name="x",
        user=user,
        queue="default",
        backend="yarn",
        state=state,
    )


def candidates(capfd: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main.main(["completion", "--candidates", *words]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return out.split()


def test_the_groups_of_a_job_and_their_tasks(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    tasks = [task("ps", 0, TaskState.RUNNING), task("worker", 0, TaskState.RUNNING)]
    tasks.append(task("worker", 1, TaskState.RUNNING))
    install(status(JobState.RUNNING, *tasks))
    offered = ["ps", "worker", "ps:0", "worker:0", "worker:1"]
    assert candidates(capfd, "tasks", JOB) == offered
    assert candidates(capfd, "tasks", "TensorFlow") == offered
    install(status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING, attempt=2)))
    assert candidates(capfd, "tasks", JOB) == ["worker", "worker:0", "worker:0#1", "worker:0#2"]


@pytest.mark.parametrize("kind", ["tasks", "running-tasks"])
def test_tasks_of_others_are_offered_only_as_plain_words(
    install: Install, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    groups = ["$(touch proof)", "`touch proof`", "a;b", "-rf", "two words", "a\nb", "\x1b[2J", ""]
    tasks = [task(group, 0, TaskState.RUNNING) for group in groups]
    install(status(JobState.RUNNING, *tasks, task("worker", 0, TaskState.RUNNING)))
    assert set(candidates(capfd, kind, JOB)) <= {"worker", "worker:0"}


def test_no_number_of_attempts_fills_the_terminal(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    install(status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING, attempt=50_000)))
    offered = candidates(capfd, "tasks", JOB)
    assert offered[:2] == ["worker", "worker:0"]
    assert offered[2] == "worker:0#49901"
    assert offered[-1] == "worker:0#50000"


def test_what_cannot_be_found_is_not_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert candidates(capfd, "tasks", "local_no_such") == []
    assert candidates(capfd, "no-such-kind") == []
    assert candidates(capfd, "clusters") == []
    (tmp_path / "home" / "jobs" / "local_1_a").mkdir(parents=True)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "nowhere"))
    assert candidates(capfd, "running") == ["@last", "local_1_a"]


def test_jobs_of_the_cluster_are_the_users_own(
    install: Install, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install()
    found = [
        job(3, "other", JobState.RUNNING),
        job(2, "me", JobState.RUNNING),
        job(1, "me", JobState.SUCCEEDED),
    ]
    monkeypatch.setenv("YTF_BACKEND", "yarn")
    monkeypatch.setattr(backend, "list", lambda: found)
    monkeypatch.setattr(backend, "user", lambda: "me")
    assert candidates(capfd, "running") == ["@last", "local_1_a", "application_1_2", "x"]
    assert candidates(capfd, "known") == [
        *("@last", "local_1_a", "application_1_2", "application_1_1", "x")
    ]
    assert candidates(capfd, "ended") == ["application_1_1"]


def test_jobs_here_are_offered_by_name_where_a_shell_takes_it_for_one_word(
    install: Install, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install()
    found = [
        msgspec.structs.replace(job(number, "alice", JobState.RUNNING), name=name)
        for number, name in enumerate(["train", "my job", "a;b", "train"])
    ]
    monkeypatch.setattr(backend, "list", lambda: found)
    assert candidates(capfd, "running") == ["@last", "local_1_a", "train"]
