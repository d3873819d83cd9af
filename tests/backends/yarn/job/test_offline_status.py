"""The status of a job without a master: read from its journal, which stays unchanged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import JOB, FakeRmClient, FlakyClientProtocol, report
from tests.backends.yarn.staged_jobs import running, stage, worker_exited, write_journal
from ytf.backends.yarn.hdfs_layout import UnreadableJobError, YarnHome
from ytf.backends.yarn.job import job_handle, journal_reader
from ytf.backends.yarn.job.job_handle import YarnJobHandle
from ytf.errors import NotFoundError, RefusedError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState, FinalApplicationStatus
from ytf.machine.events import Cause, ContainerCompleted, KillRequested
from ytf.specs.ids import ContainerId
from ytf.specs.status import JobState, TaskState
from ytf.storage.files import FileStatus
from ytf.storage.hdfs import HdfsFiles
from ytf.storage.local_files import LocalFiles
from ytf.wire.http_client import Answer, ChannelError

Found = list[FileStatus]
SILENT = report(ApplicationState.RUNNING, port=4711)
NEXT = report(ApplicationState.ACCEPTED, attempt=2)


class World:
    """A job of alice's, and whoever looks at it; its masters are all dead."""

    def __init__(self, root: Path) -> None:
        self.conf = Configuration.of({"dfs.user.home.dir.prefix": str(root)})
        self.rm = FlakyClientProtocol(SILENT)
        self.home = YarnHome(LocalFiles(), str(root / "alice/.ytf")).job(JOB)
        stage(self.home)

    def job(self, user: str = "alice", files: LocalFiles | None = None) -> YarnJobHandle:
        rm = FakeRmClient(self.conf, user, answers=self.rm)
        return YarnJobHandle(rm, cast(HdfsFiles, files or LocalFiles()), JOB)

    def yarn_says(self, told: ApplicationReport, **fields: object) -> None:
        self.rm.known[JOB] = msgspec.structs.replace(told, **fields)

    def contents(self) -> dict[str, bytes]:
        """All that is staged."""
        found = (p for p in Path(self.home.staging).rglob("*") if p.is_file())
        return {str(path): path.read_bytes() for path in found}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    def refused(*_: object) -> Answer:
        raise ChannelError("Connection refused")

    monkeypatch.setattr("ytf.backends.master_api.signed_call", refused)
    monkeypatch.setattr(job_handle, "_MASTER_S", 0.0)
    return World(tmp_path)


def test_a_silent_master_is_told_as_it_was_and_not_disturbed(world: World) -> None:
    write_journal(world.home, *running())
    world.yarn_says(SILENT, queue="root.ml", tracking_url="http://rm/proxy/it")
    before = world.contents()
    job = world.job()
    status = job.status()
    assert status.diagnostics == (
        "Master attempt 1 does not answer right now: Connection refused. YARN starts another once"
        " it finds this one dead, which takes minutes if its node is lost."
        " This is the last that was recorded of it."
    )
    assert (status.state, status.queue, status.started) == (JobState.RUNNING, "root.ml", 1.5)
    assert status.tracking_url == "http://rm/proxy/it"
    assert [(t.state, t.node, t.port) for t in status.tasks] == [
        (TaskState.RUNNING, "node7:8041", 4002),
        (TaskState.RUNNING, "node7:8041", 4003),
    ]
    log = f"http://node7:8042/node/containerlogs/{status.tasks[0].container}/alice"
    assert status.tasks[0].log_url == log
    spec = job.cluster_spec()
    assert spec is not None
    assert spec.members == {"ps": ("node7:4002",), "worker": ("node7:4003",)}
    *earlier, last = job.events()
    assert earlier[0].text == "Master attempt 1 started"
    assert (last.event, last.text) == (
        "master-unreachable",
        status.diagnostics.partition(" This")[0],
    )
    assert world.contents() == before


def test_while_the_next_one_is_awaited_it_is_said_what_for(world: World) -> None:
    write_journal(world.home, *running())
    world.yarn_says(NEXT, diagnostics="")
    world.rm.running = []
    told = world.job().status()
    assert told.state is JobState.RUNNING
    assert told.diagnostics.startswith(
        "Master attempt 2 does not answer right now: it has not begun yet, and attempt 1 has ended."
        " Waiting for its master: the cluster has no running nodes."
    )
    world.yarn_says(NEXT, diagnostics="AM container is launched, waiting for it to register")
    assert "attempt 1 has ended. It is on its way." in world.job().status().diagnostics


def test_what_a_master_itself_had_to_say_is_kept(world: World) -> None:
    write_journal(world.home, *running(), [KillRequested(by="bob", reason="enough")])
    status = world.job().status()
    assert status.diagnostics.endswith("recorded of it.\nKilled by bob: enough.")


def test_an_end_is_none_before_yarn_has_heard_of_it(world: World) -> None:
    write_journal(world.home, *running(), [worker_exited(0)])
    stopped = [
        ContainerCompleted(container=ContainerId(str(task.container)), cause=Cause.EXITED)
        for task in world.job().status().tasks
    ]
    write_journal(world.home, stopped, attempt=2)
    status = world.job().status()
    assert (status.state, status.final_status, status.finished) == (JobState.RUNNING, None, None)
    assert status.diagnostics.endswith("\nAll tracked tasks succeeded.")
    assert [event.event for event in world.job().events()][-2] == "job-finished"


def test_a_resourcemanager_that_was_restarted_waits_for_the_master(world: World) -> None:
    write_journal(world.home, *running())
    world.yarn_says(report(ApplicationState.ACCEPTED))
    status = world.job().status()
    assert status.state is JobState.RUNNING
    assert "the ResourceManager was restarted" in status.diagnostics


def test_a_master_that_never_wrote_anything_is_said_to_be_silent(world: World) -> None:
    status = world.job().status()
    assert status.diagnostics.startswith("Master attempt 1 does not answer right now")
    assert [task.state for task in status.tasks] == [TaskState.PENDING, TaskState.PENDING]
    assert [event.event for event in world.job().events()] == ["master-unreachable"]
    assert world.job().cluster_spec() is None


def test_a_job_that_waits_for_its_first_master_is_told_as_yarn_has_it(world: World) -> None:
    world.yarn_says(report(ApplicationState.ACCEPTED))
    assert world.job().status().state is JobState.SUBMITTED
    assert world.job().events() == []


def test_who_waits_hears_of_the_silence_once_that_took_its_time(world: World) -> None:
    write_journal(world.home, *running())
    known = world.job().status()
    told = msgspec.structs.replace(known, diagnostics="")
    assert world.job().wait(told, timeout_s=0.05) == known


def test_the_first_of_its_owners_commands_records_a_job_that_yarn_ended(world: World) -> None:
    write_journal(world.home, *running())
    world.yarn_says(report(ApplicationState.KILLED), diagnostics="killed by bob", finished_ms=9000)
    job = world.job()
    assert [event.event for event in job.events()][-1] == "job-finished"
    assert not os.path.exists(world.home.staging)
    spec = job.cluster_spec()
    assert spec is not None
    assert spec.members["ps"] == ("node7:4002",)
    status = job.status()
    assert (status.state, status.diagnostics) == (JobState.KILLED, "killed by bob")
    assert job.wait() == status
    # The ResourceManager forgets, the record does not.
    world.rm.known.clear()
    assert world.job().status() == status


@pytest.mark.parametrize("told", [SILENT, NEXT, report(ApplicationState.ACCEPTED)])
def test_a_job_that_yarn_has_not_ended_is_never_recorded(
    world: World, told: ApplicationReport
) -> None:
    write_journal(world.home, *running(), [worker_exited(1)])
    before = world.contents()
    world.yarn_says(told)
    for look in (world.job().status, world.job().events, world.job().cluster_spec):
        look()
    assert world.home.record() is None
    assert world.contents() == before


def test_somebody_who_may_look_reads_and_leaves_the_recording_to_its_owner(world: World) -> None:
    write_journal(world.home, *running())
    world.yarn_says(report(ApplicationState.KILLED))
    status = world.job("root").status()
    assert [task.state for task in status.tasks] == [TaskState.LOST, TaskState.LOST]
    assert world.home.record() is None
    assert os.path.exists(world.home.staging)


def test_no_journal_of_any_length_is_read_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(world.home, *running())
    before = world.contents()
    monkeypatch.setattr(journal_reader, "MOST_BYTES", 1000)
    with pytest.raises(UnreadableJobError, match="journal is longer than"):
        world.job("root").status()
    assert world.contents() == before


def test_who_joins_a_job_of_another_user_is_told_whose_it_is(world: World) -> None:
    ours, others = world.job("alice").credentials(), world.job("root").credentials()
    assert (ours.user, ours.owner) == ("alice", "alice")
    assert (others.user, others.owner) == ("root", "alice")


class Closed(LocalFiles):
    """Somebody else's home directory."""

    def list(self, path: str) -> Found:
        raise PermissionError(path)

    def stat(self, path: str) -> FileStatus:
        raise PermissionError(path)


def test_everybody_else_is_told_what_yarn_tells_and_that_there_is_no_master(world: World) -> None:
    write_journal(world.home, *running())
    world.yarn_says(NEXT, diagnostics="")
    world.rm.running = []
    job = world.job("bob", Closed())
    status = job.status()
    assert (status.state, status.tasks) == (JobState.RUNNING, ())
    assert "the cluster has no running nodes." in status.diagnostics
    assert status.diagnostics.endswith(
        "\nOnly alice can see its tasks; this is what YARN tells everyone."
    )
    for look in (job.events, job.cluster_spec):
        with pytest.raises(RefusedError, match="only alice may see"):
            look()


def test_the_record_stands_though_yarn_has_not_seen_the_end(world: World) -> None:
    write_journal(world.home, *running())
    world.yarn_says(report(ApplicationState.FINISHED, FinalApplicationStatus.SUCCEEDED))
    ended = world.job().status()
    stage(world.home)  # left by a master that died as it ended
    world.yarn_says(SILENT)
    assert world.job().status().state is ended.state
    world.yarn_says(report(ApplicationState.FINISHED, FinalApplicationStatus.SUCCEEDED))
    assert world.job().wait() == ended
    assert not os.path.exists(world.home.staging)


def test_a_job_that_nobody_knows(world: World) -> None:
    del world.rm.known[JOB]
    with pytest.raises(NotFoundError):
        world.job().status()


class Busy(LocalFiles):
    """A master that is alive writes a snapshot, and removes what it stands for, as we read."""

    def __init__(self, world: World) -> None:
        self._world: World | None = world

    def list(self, path: str) -> Found:
        found = super().list(path)
        world = self._world
        if path.endswith("/0001") and world is not None:
            self._world = None
            for old in Path(path).iterdir():
                old.unlink()
            write_journal(world.home, *running(), attempt=2)
        return found


def test_a_journal_that_changes_under_our_eyes_is_read_again(world: World) -> None:
    write_journal(world.home, *running())
    status = world.job(files=Busy(world)).status()
    assert [task.state for task in status.tasks] == [TaskState.RUNNING, TaskState.RUNNING]


def test_moved_jobs_are_where_yarn_says(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    write_journal(world.home, *running())
    status = world.job().status()
    body = msgspec.json.encode(status)
    monkeypatch.setattr("ytf.backends.master_api.signed_call", lambda *_: Answer(200, body, {}))
    world.yarn_says(SILENT, queue="root.ml", started_ms=7000)
    told = world.job().status()
    assert (told.queue, told.started) == ("root.ml", 7.0)
