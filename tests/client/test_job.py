from __future__ import annotations

import logging
from pathlib import Path

import pytest

import ytf
from tests.client.fakes import JOB, FakeBackend, FakeHandle, status, task
from ytf.backends.api import LogLine
from ytf.client.job import Job, submit
from ytf.errors import JobFailedError, NotFoundError, SpecError, UnreachableError
from ytf.specs.ids import TaskId
from ytf.specs.job import JobSpec, OnFailure, TaskGroupSpec
from ytf.specs.status import ClusterSpec, JobState, JobStatus, TaskState

SPEC = JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))


def test_submit_plans_here_and_gives_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").touch()
    backend = FakeBackend(FakeHandle(status(JobState.SUBMITTED), status(JobState.SUCCEEDED)))
    spec = JobSpec(groups=SPEC.groups, command="true", script="s.py")
    job = submit(spec, backend=backend)
    assert job.id == JOB
    (plan,) = backend.submitted
    assert [u.source for u in plan.uploads] == [str(tmp_path / "s.py")]
    outcome = job.wait()
    assert outcome.succeeded
    assert outcome.raise_for_status() is outcome


def test_what_takes_long_is_logged_and_the_backend_says_who_submits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "ytf")
    backend = FakeBackend(FakeHandle(status(JobState.SUBMITTED)))
    backend.tells = ["uploading 100% of it"]
    submit(SPEC, backend=backend)
    assert [(r.name, r.getMessage()) for r in caplog.records] == [
        ("ytf", "uploading 100% of it"),
        ("ytf", f"job {JOB} is accepted"),
    ]
    assert backend.submitted[0].user == backend.user()


def _of(groups: object, **fields: object) -> object:
    return JobSpec(**{"groups": groups, "command": "true", **fields})  # type: ignore[arg-type]


def _group(**fields: object) -> object:
    return TaskGroupSpec(**{"count": 1, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"groups": {}}, "expected a JobSpec, got a mapping"),
        ("x", "expected a JobSpec, got 'x'"),
        (_of({"worker": 2}), "groups.worker: expected a mapping, got 2"),
        (_of({"worker": {"counts": 2}}), "groups.worker.counts: there is no such field"),
        (_of({"worker": _group(count="2")}), "groups.worker.count: expected a whole number"),
        (_of({"worker": _group(count=True)}), "groups.worker.count: expected a whole number"),
        (_of({"worker": _group(overrides=[1])}), "groups.worker.overrides: expected a mapping"),
        (_of({"worker": _group(on_failure="x")}), "groups.worker.on_failure: expected"),
        (_of(None), "groups: expected a mapping, got nothing"),
        (_of({"worker": _group()}, task_env={"A": 1}), "task_env.A: expected text, got 1"),
        (_of({"worker": _group()}, name=object()), "a object cannot be a part of a job spec"),
    ],
)
def test_what_python_lets_through_is_refused(spec: object, message: str) -> None:
    backend = FakeBackend(FakeHandle(status(JobState.SUBMITTED)))
    with pytest.raises(SpecError) as caught:
        submit(spec, backend=backend)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
    assert backend.submitted == []


def test_a_spec_may_be_written_as_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.py").touch()
    spec = _of({"worker": _group(on_failure="ignore")}, script=tmp_path / "s.py")
    backend = FakeBackend(FakeHandle(status(JobState.SUBMITTED)))
    submit(spec, backend=backend)  # type: ignore[arg-type]
    assert backend.submitted[0].spec.groups["worker"].on_failure is OnFailure.IGNORE


def test_a_client_cannot_be_submitted_from_python() -> None:
    backend = FakeBackend(FakeHandle(status(JobState.SUBMITTED)))
    spec = JobSpec(groups=SPEC.groups, command="true", client=True)
    with pytest.raises(SpecError, match="terminal"):
        submit(spec, backend=backend)
    assert backend.submitted == []


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.KILLED])
def test_a_bad_end_is_raised_with_its_diagnostics(state: JobState) -> None:
    job = Job(FakeHandle(status(JobState.RUNNING), status(state, diagnostics="worker:0 broke\n")))
    outcome = job.wait()
    assert not outcome.succeeded
    with pytest.raises(JobFailedError, match=f"^job {JOB} ended {state.value}: worker:0 broke$"):
        outcome.raise_for_status()


class Away(FakeHandle):
    """The handle of a job whose cluster does not answer some of the calls."""

    def __init__(self, *statuses: JobStatus, looks: int, then: int = 0) -> None:
        super().__init__(*statuses)
        self._looks, self._then = looks, then

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        if known is not None and known.state.is_final:
            self._looks, self._then = self._then, 0
        if self._looks:
            self._looks -= 1
            raise UnreachableError("gone")
        return super().wait(known, timeout_s)


def test_a_cluster_that_is_away_for_a_while_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("ytf.client.follow.time.sleep", pauses.append)
    handle = Away(status(JobState.RUNNING), status(JobState.SUCCEEDED), looks=3)
    assert Job(handle).wait().succeeded
    assert len(pauses) == 3
    assert [record.getMessage() for record in caplog.records] == [
        f"gone; job {JOB} goes on, and so does the wait for it"
    ]


def test_how_a_job_ended_is_known_though_nobody_says_that_all_is_tidy() -> None:
    handle = Away(status(JobState.RUNNING), status(JobState.SUCCEEDED), looks=0, then=1)
    assert Job(handle).wait().succeeded


def test_waiting_has_an_end() -> None:
    with pytest.raises(TimeoutError, match="still RUNNING"):
        Job(FakeHandle(status(JobState.RUNNING))).wait(timeout_s=0)


def test_everything_else_is_the_handles() -> None:
    handle = FakeHandle(
        status(
            JobState.RUNNING,
            task("worker", 0, TaskState.RUNNING),
            task("client", 0, TaskState.RUNNING),
        )
    )
    line = LogLine(TaskId("worker:0"), 1, "stdout", "hello")
    handle.lines = [line]
    handle.spec = ClusterSpec(generation=1, revision=1, members={"worker": ("h:1",)})
    job = Job(handle)
    assert job.status().state is JobState.RUNNING
    assert list(job.logs()) == [line]
    assert handle.asked == ["worker:0"]
    assert list(job.logs(["worker"])) == [line]
    assert list(job.logs(["worker:0#1"])) == [line]
    assert list(job.logs([])) == []
    with pytest.raises(NotFoundError, match="has no task or group 'ps:0'"):
        job.logs(["ps:0"])
    assert job.cluster_spec() == handle.spec
    assert list(job.events()) == []
    job.kill("enough")
    assert handle.killed == ["enough"]


def test_a_job_without_functions_has_no_results() -> None:
    job = Job(FakeHandle(status(JobState.RUNNING), status(JobState.SUCCEEDED)))
    with pytest.raises(NotFoundError, match="has no results: it ran no function"):
        job.results()


def test_a_job_is_found_as_the_commands_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend(FakeHandle(status(JobState.RUNNING)))
    monkeypatch.setattr("ytf.backends.get_backend", lambda name: backend)
    with pytest.raises(NotFoundError, match="no job was submitted from here"):
        ytf.job("@last")
    assert ytf.submit(SPEC).id == ytf.job("@last").id == JOB
    assert ytf.job("TensorFlow").id == JOB
    with pytest.raises(NotFoundError, match="you have no job with the id or name 'nonsense'"):
        ytf.job("nonsense")


def test_jobs_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend(FakeHandle(status(JobState.RUNNING)))
    monkeypatch.setattr("ytf.backends.get_backend", lambda name: backend)
    (found,) = ytf.jobs()
    assert (found.id, found.name, found.state) == (JOB, "TensorFlow", JobState.RUNNING)
    assert ytf.jobs(states=[JobState.RUNNING], name="Tensor*", user="alice", limit=1) == [found]
    assert ytf.jobs(states=[JobState.FAILED]) == []
    assert ytf.jobs(user="bob") == []
    assert ytf.jobs(limit=0) == []
