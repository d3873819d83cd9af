from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.client.mlflow.fake_mlflow import FakeMlflow, fake_mlflow
from ytf.backends.api import Plan
from ytf.client.mlflow.job_run import MOST_TASK_RUNS, JobRun, begin_run
from ytf.specs.ids import JobId, TaskId
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus
from ytf.testing.waiting import eventually


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMlflow]:
    for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    with fake_mlflow() as started:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", started.url)
        yield started


def plan(count: int = 2, backend: str = "local", **fields: object) -> Plan:
    groups = {"worker": TaskGroupSpec(count=count), "tensorboard": TaskGroupSpec(count=1)}
    spec = JobSpec(name="job", groups=groups, command="x", **fields)  # type: ignore[arg-type]
    return Plan(spec=spec, backend=backend, user="someone")


def begun(given: Plan, timeout_s: float = 60.0) -> JobRun:
    run = begin_run(given, lambda: timeout_s)
    assert run is not None
    return run


def ended(state: JobState, *tasks: TaskState) -> JobStatus:
    return JobStatus(
        id=JobId("local_1"),
        name="job",
        user="someone",
        queue="default",
        backend="local",
        state=state,
        started=10.0,
        finished=25.0,
        tasks=tuple(
            TaskStatus(group="worker", index=i, state=each, attempt=2, reason="a reason")
            for i, each in enumerate(tasks)
        ),
    )


def test_each_task_gets_its_own_run(fake: FakeMlflow) -> None:
    spec = begun(plan()).plan.spec
    job, first, second = fake.runs["run0"], fake.runs["run1"], fake.runs["run2"]
    assert [run["name"] for run in (job, first, second)] == ["job", "worker:0", "worker:1"]
    assert first["tags"]["mlflow.parentRunId"] == "run0"
    for index, run in ((0, "run1"), (1, "run2")):
        own = spec.task_env_of(TaskId(f"worker:{index}"))
        assert own["MLFLOW_RUN_ID"] == run
        assert own["MLFLOW_TRACKING_URI"] == fake.url
        assert own["MLFLOW_EXPERIMENT_ID"] == "0"


def test_many_tasks_share_the_jobs_run(fake: FakeMlflow) -> None:
    spec = begun(plan(MOST_TASK_RUNS + 1)).plan.spec
    assert list(fake.runs) == ["run0"]
    assert spec.task_env_of(TaskId("worker:9"))["MLFLOW_RUN_ID"] == "run0"


def test_what_the_user_gives_the_tasks_stays(fake: FakeMlflow) -> None:
    given = {"MLFLOW_RUN_ID": "theirs", "MLFLOW_TRACKING_URI": "http://elsewhere"}
    spec = begun(plan(task_env=given)).plan.spec
    assert spec.task_env_of(TaskId("worker:0")).items() >= given.items()


def test_the_end_of_a_job_is_that_of_its_runs(fake: FakeMlflow) -> None:
    run = begun(plan())
    run.submitted(JobId("local_1"))
    run.end(ended(JobState.KILLED, TaskState.SUCCEEDED, TaskState.KILLED))
    run.end(ended(JobState.FAILED))
    run.log_metrics({"total": 1.5}, {TaskId("worker:1"): {"own": 2.5}, TaskId("other:0"): {}})
    job, first, second = (fake.of_name(name) for name in ("job", "worker:0", "worker:1"))
    assert [each["status"] for each in (job, first, second)] == ["KILLED", "FINISHED", "KILLED"]
    assert job["metrics"] == {
        "duration_s": 15.0,
        "worker.restarts": 2,
        "worker.failed": 0,
        "total": 1.5,
    }
    assert second["metrics"] == {"attempts": 2, "own": 2.5}
    assert second["tags"]["ytf.reason"] == "a reason"
    assert job["params"]["worker.count"] == "2"
    assert "0/run0/artifacts/job.yaml" in fake.artifacts


def test_a_run_of_the_users_is_left_open(fake: FakeMlflow, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {"run_name": "mine", "experiment_id": "3", "tags": []}
    fake.handle("POST", "/api/2.0/mlflow/runs/create", json.dumps(mine).encode())
    active = SimpleNamespace(info=SimpleNamespace(run_id="run0"))
    module = SimpleNamespace(active_run=lambda: active, get_tracking_uri=lambda: fake.url)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    run = begun(plan(1))
    run.end(ended(JobState.FAILED, TaskState.KILLED))
    assert fake.of_name("worker:0")["tags"]["mlflow.parentRunId"] == "run0"
    assert fake.of_name("worker:0")["experiment"] == "3"
    assert fake.runs["run0"]["status"] == "RUNNING"
    run.discard()
    eventually(lambda: fake.of_name("worker:0")["status"] == "DELETED", describe="it is removed")
    assert fake.runs["run0"]["status"] == "RUNNING"


def test_runs_that_come_too_late_are_removed(
    fake: FakeMlflow, caplog: pytest.LogCaptureFixture
) -> None:
    fake.gate.clear()
    assert begin_run(plan(), lambda: 0.05) is None
    assert "has not answered within 0.05 s: the job runs without it" in caplog.text
    fake.gate.set()
    eventually(
        lambda: [run["status"] for run in fake.runs.values()] == ["DELETED"],
        describe=lambda: f"one run, removed: {fake.runs}",
    )


def test_an_end_that_cannot_be_told_is_not_waited_for(
    fake: FakeMlflow, caplog: pytest.LogCaptureFixture
) -> None:
    run = begun(plan(), timeout_s=5.0)
    fake.gate.clear()
    run._timeout_s = 0.05
    run.end(ended(JobState.SUCCEEDED, TaskState.SUCCEEDED))
    assert "run run0 may miss something of job local_1" in caplog.text


def test_runs_of_a_job_that_was_refused_are_removed(fake: FakeMlflow) -> None:
    begun(plan()).discard()
    eventually(
        lambda: {run["status"] for run in fake.runs.values()} == {"DELETED"},
        describe=lambda: f"all are removed: {fake.runs}",
    )


def test_a_server_that_refuses_is_done_without(
    fake: FakeMlflow, caplog: pytest.LogCaptureFixture
) -> None:
    fake.answers = [(401, b'{"message": "who \\u001b[2J are you?"}')]
    assert begin_run(plan(), lambda: 60.0) is None
    assert "HTTP 401: who \\x1b[2J are you?: the job runs without it" in caplog.text


def test_where_mlflow_is_not_in_use_nothing_is_asked(
    fake: FakeMlflow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    threads = threading.active_count()
    assert begin_run(plan(), lambda: 0.0) is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    assert begin_run(plan(), pytest.fail) is None
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace())
    assert begin_run(plan(), pytest.fail) is None
    assert not caplog.text
    for wrong, told in (
        ("sqlite:///mlflow.db", "its tracking URI (sqlite) is no server"),
        ("databricks", "its tracking URI (databricks) is no server"),
        ("postgresql://u:secret@db", "its tracking URI (postgresql) is no server"),
        ("http://u:secret@[::1", "its tracking URI is not valid: the job runs without it"),
        ("https://h", "its certificate: "),
    ):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", wrong)
        monkeypatch.setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", "/does/not/exist")
        assert begin_run(plan(), lambda: 1.0) is None
        assert told in caplog.text
    assert "secret" not in caplog.text
    assert not fake.headers
    assert threading.active_count() == threads


def test_tasks_elsewhere_do_not_reach_this_machine_by_its_own_name(
    fake: FakeMlflow, caplog: pytest.LogCaptureFixture
) -> None:
    begun(plan(backend="yarn"))
    assert f"tasks on other nodes do not reach {fake.url}" in caplog.text


def test_no_artifacts_go_where_only_clients_write(fake: FakeMlflow) -> None:
    fake.artifact_root = "hdfs://nn/mlflow"
    run = begun(plan())
    run.submitted(JobId("local_1"))
    run.end(ended(JobState.FAILED, TaskState.FAILED))
    assert fake.of_name("job")["status"] == "FAILED"
    assert not fake.artifacts
