"""The record of a job that YARN ended without its master."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import APP, report
from tests.backends.yarn.staged_jobs import SPEC, running, stage, worker_exited, write_journal
from ytf.backends.yarn.hdfs_layout import JobHome, UnreadableJobError, YarnHome
from ytf.backends.yarn.job.application import status_from_report
from ytf.backends.yarn.job.finalize import finalize, write_final_record
from ytf.backends.yarn.job.journal_reader import read_journalled_job
from ytf.backends.yarn.node_log_pages import no_log_page
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState, FinalApplicationStatus
from ytf.journal.format import Header, encode_segment
from ytf.machine.events import Cause, ContainerCompleted, KillRequested
from ytf.specs import codec
from ytf.specs.ids import ContainerId, JobId, TaskId
from ytf.specs.job import TaskGroupSpec, Timeouts
from ytf.specs.status import JobRecord, JobState, JobStatus, TaskState
from ytf.storage.files import FileStatus
from ytf.storage.local_files import LocalFiles

Found = list[FileStatus]
KILLED = report(ApplicationState.KILLED)
CONTAINER = "container_1700000000000_0007_01_00000"
WHY = "Application killed by user bob\nand more"


def ended(of: ApplicationReport = KILLED, said: str = WHY) -> JobStatus:
    told = msgspec.structs.replace(of, diagnostics=said, queue="root.ml", finished_ms=2_000_000)
    return status_from_report(told, SPEC)


def page(node: str, container: str) -> str:
    return f"http://{node}/{container}"


@pytest.fixture
def home(tmp_path: Path) -> JobHome:
    made = YarnHome(LocalFiles(), str(tmp_path)).job(JobId(str(APP)))
    stage(made)
    return made


def test_all_that_its_master_knew_is_recorded(home: JobHome) -> None:
    write_journal(home, *running())
    kept = finalize(home, ended(), SPEC, page)
    assert kept == home.record()
    assert not os.path.exists(home.staging)

    status = kept.status
    assert (status.state, status.diagnostics, status.queue) == (JobState.KILLED, WHY, "root.ml")
    assert (status.started, status.finished, status.tensorboard_url) == (1.5, 2000.0, None)
    for task, number in zip(status.tasks, (2, 3), strict=True):
        assert (task.state, task.attempt) == (TaskState.LOST, 1)
        assert task.reason == "the job was ended without its master"
        assert (task.node, task.host, task.port) == ("node7:8041", "node7", 4000 + number)
        assert task.log_url == f"http://node7:8041/{task.container}"
    assert kept.spec == codec.to_dict(SPEC)
    assert kept.cluster_spec is not None
    assert kept.cluster_spec["members"] == {"ps": ["node7:4002"], "worker": ["node7:4003"]}
    told = [event.event for event in kept.events]
    assert told[:2] == ["master-started", "container-allocated"]
    assert told[-2:] == ["task-started", "job-finished"]
    assert kept.events[-1].text == f"The job ended as KILLED: {WHY}"
    assert kept.events[-1].at == 2000.0


def test_masters_that_all_failed_are_a_failure(home: JobHome) -> None:
    write_journal(home, *running())
    status = finalize(home, ended(report(ApplicationState.FAILED), ""), SPEC).status
    assert (status.state, status.final_status and status.final_status.value) == (
        JobState.FAILED,
        "FAILED",
    )
    assert status.tasks[0].log_url is None


def test_an_end_that_only_had_to_be_told_stays_as_it_was(home: JobHome) -> None:
    stopped = [
        ContainerCompleted(container=ContainerId(f"{CONTAINER}{n}"), cause=Cause.EXITED)
        for n in (2, 3)
    ]
    write_journal(home, *running(), [worker_exited(0), *stopped])
    finished = report(ApplicationState.FINISHED, FinalApplicationStatus.SUCCEEDED)
    kept = finalize(home, ended(finished, "All tracked tasks succeeded."), SPEC)
    assert kept.status.state is JobState.SUCCEEDED
    assert kept.status.diagnostics == "All tracked tasks succeeded."
    assert [event.event for event in kept.events].count("job-finished") == 1
    assert [task.state for task in kept.status.tasks] == [TaskState.KILLED, TaskState.SUCCEEDED]


def test_a_success_that_the_journal_has_missed_says_so(home: JobHome) -> None:
    write_journal(home, *running())
    finished = report(ApplicationState.FINISHED, FinalApplicationStatus.SUCCEEDED)
    kept = finalize(home, ended(finished, "All tracked tasks succeeded."), SPEC)
    assert kept.status.state is JobState.SUCCEEDED
    for task in kept.status.tasks:
        assert (
            task.reason == "how it ended was not recorded: HDFS was unavailable when the job ended"
        )


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (worker_exited(0), "All tracked tasks succeeded."),
        (KillRequested(by="carol", reason="enough"), "Killed by carol: enough."),
    ],
)
def test_what_was_decided_and_not_brought_about_is_told_with_yarns_end(
    home: JobHome, event: KillRequested, said: str
) -> None:
    write_journal(home, *running(), [event])
    kept = finalize(home, ended(report(ApplicationState.FAILED), "attempts used up"), SPEC)
    assert kept.status.state is JobState.FAILED
    assert kept.status.diagnostics == f"{said}\nattempts used up"
    assert kept.events[-1].text == f"The job ended as FAILED: {said}\nattempts used up"
    assert all(task.state.is_final for task in kept.status.tasks)


def test_a_record_has_no_note_of_a_tensorboard_that_stays(tmp_path: Path) -> None:
    home = YarnHome(LocalFiles(), str(tmp_path)).job(JobId(str(APP)))
    groups = {"tensorboard": TaskGroupSpec(count=1), "worker": TaskGroupSpec(count=1)}
    spec = msgspec.structs.replace(
        SPEC, groups=groups, output="/runs", timeouts=Timeouts(tensorboard_s=600)
    )
    stage(home, spec=spec)
    gone = ContainerCompleted(container=ContainerId(f"{CONTAINER}3"), cause=Cause.EXITED)
    write_journal(home, *running(TaskId("tensorboard:0")), [worker_exited(0), gone])
    journalled = read_journalled_job(home, no_log_page)
    assert journalled is not None
    assert "TensorBoard stays until" in journalled.record().status.diagnostics
    kept = finalize(home, ended(), spec)
    assert kept.status.diagnostics == f"All tracked tasks succeeded.\n{WHY}"


def test_where_no_master_ever_wrote_anything_it_is_as_yarn_says(home: JobHome) -> None:
    write_journal(home)
    kept = finalize(home, ended(), SPEC)
    assert kept.status == ended()
    assert [task.state for task in kept.status.tasks] == [TaskState.KILLED, TaskState.KILLED]
    assert kept.status.tasks[0].reason == "the job ended before it could start"
    assert [event.event for event in kept.events] == ["job-finished"]


def test_the_first_record_counts_and_the_second_says_the_same(home: JobHome) -> None:
    write_journal(home, *running())
    first = finalize(home, ended(), SPEC)
    assert finalize(home, ended(said="later"), None) == first


class Slow(LocalFiles):
    """Another client buries the job while this one reads its journal."""

    def __init__(self, home: JobHome) -> None:
        self._home: JobHome | None = home
        self.record: JobRecord | None = None

    def list(self, path: str) -> Found:
        other, self._home = self._home, None
        if other is not None:
            self.record = finalize(other, ended(), SPEC)
        return super().list(path)


def test_two_clients_at_once_agree(home: JobHome) -> None:
    write_journal(home, *running())
    files = Slow(home)
    kept = finalize(JobHome(files, home.staging, home.history), ended(), SPEC)
    assert files.record is not None
    assert kept == files.record
    assert kept.cluster_spec is not None
    assert not os.path.exists(home.staging)


def test_a_journal_of_another_version_is_left_alone(home: JobHome) -> None:
    write_journal(home, *running())
    [first, *_] = sorted(Path(home.journal, "0001").glob("*.segment"))
    lines = first.read_bytes().replace(b"MasterStarted", b"MasterDreamt!")
    body = [line for line in lines.splitlines() if b"MasterDreamt!" in line]
    first.write_bytes(encode_segment(Header(kind="segment", attempt=1, sequence=1), body))
    with pytest.raises(UnreadableJobError, match="another version of ytf"):
        write_final_record(home, ended(), SPEC)
    assert home.record() is None
    assert os.path.exists(home.staging)
