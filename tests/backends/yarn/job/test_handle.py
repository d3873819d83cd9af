"""A job whose master is sick, or whose ResourceManager comes and goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.backends.yarn.fakes import node_report
from tests.backends.yarn.job.staged import stage
from tests.backends.yarn.job.told import report
from tests.backends.yarn.test_sweep import JOB, Answers, FakeRm
from ytf.backends.yarn.home import JobHome, UnreadableJobError, YarnHome
from ytf.backends.yarn.job import handle, line
from ytf.backends.yarn.job.handle import YarnJob
from ytf.errors import InternalError, OutcomeUnknownError, UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import (
    ApplicationReport,
    ApplicationState,
    NodeReport,
    NodeState,
)
from ytf.specs.status import JobState
from ytf.starter.http import Answer, ChannelError
from ytf.storage.files import LocalFiles
from ytf.storage.hdfs import HdfsFiles

RUNNING = report(ApplicationState.RUNNING, port=4711)


class Moody(Answers):
    """Answers about one job; ``moods`` are raised first, one for each call."""

    def __init__(self, told: ApplicationReport = RUNNING) -> None:
        super().__init__()
        self.known[JOB] = told
        self.moods: list[Exception] = []
        self.kills: list[str] = []
        self.killed_is: ApplicationReport | None = None
        self.running: list[NodeReport] = [node_report()]

    async def nodes(self, *states: NodeState) -> list[NodeReport]:
        return self.running

    async def report(self, application: ApplicationId) -> ApplicationReport:
        if self.moods:
            raise self.moods.pop(0)
        return await super().report(application)

    async def kill(self, application: ApplicationId, reason: str = "") -> bool:
        if self.moods:
            raise self.moods.pop(0)
        self.kills.append(reason)
        if self.killed_is is not None:
            self.known[JOB] = self.killed_is
        return True


class World:
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.rm = Moody()
        conf = Configuration.of({"dfs.user.home.dir.prefix": str(root)})
        self.job = YarnJob(
            FakeRm(conf, "alice", answers=self.rm), cast(HdfsFiles, LocalFiles()), JOB
        )
        self.home = YarnHome(LocalFiles(), str(root / "alice/.ytf")).job(JOB)
        stage(self.home)
        self.staging = Path(self.home.staging)

    def stage(self, data: bytes) -> None:
        (self.staging / "job.json").write_bytes(data)

    def master(self, answer: Callable[[float], Answer]) -> None:
        """What its master does with each call, given the seconds it has."""

        def call(
            url: str, secret: bytes, method: str, path: str, body: bytes, timeout_s: float
        ) -> Answer:
            return answer(timeout_s)

        self._monkeypatch.setattr("ytf.backends.answers.signed_call", call)


def refuses(seconds: float) -> Answer:
    raise ChannelError("refused")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(handle, "_KILL_PATIENCE_S", 0.0)
    monkeypatch.setattr(handle, "_RETRY_S", 0.0)
    monkeypatch.setattr(line, "_RETRY_S", 0.0)
    return World(tmp_path, monkeypatch)


def test_a_master_that_cannot_take_a_kill_in_is_not_needed_for_it(world: World) -> None:
    world.master(lambda seconds: Answer(500, b"{}", {}))
    with pytest.raises(InternalError):
        world.job.status()
    world.job.kill("enough")
    assert world.rm.kills == ["Killed by alice: enough"]


def test_who_kills_a_job_without_a_master_also_puts_it_away(world: World) -> None:
    world.rm.known[JOB] = report(ApplicationState.ACCEPTED)
    world.rm.killed_is = report(ApplicationState.KILLED)
    world.job.kill("enough")
    assert world.job.status().state is JobState.KILLED
    assert world.home.record() is not None
    assert not world.staging.exists()


def test_without_hdfs_it_is_told_what_yarn_tells(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: JobHome) -> bytes:
        raise UnreachableError("hdfs://nn does not answer")

    monkeypatch.setattr(JobHome, "secret", away)
    told = world.job.status()
    assert told.state is JobState.STARTING
    assert "This is what YARN tells, as HDFS cannot be read: hdfs://nn" in told.diagnostics
    # That is no news to who waits, and has patience of its own.
    with pytest.raises(UnreachableError):
        world.job.wait(told, timeout_s=0.05)


def test_a_resourcemanager_that_goes_away_is_not_taken_for_hdfs(world: World) -> None:
    world.master(refuses)
    world.job.status()
    world.rm.moods = [UnreachableError("nobody listens")] * 9
    with pytest.raises(UnreachableError, match="nobody listens"):
        world.job.status()


def test_a_recorded_job_needs_no_resourcemanager(world: World) -> None:
    away: list[Exception] = [UnreachableError("nobody listens")]
    world.rm.moods = list(away)
    with pytest.raises(UnreachableError, match="nobody listens"):
        world.job.status()
    world.rm.known[JOB] = report(ApplicationState.KILLED)
    ended = world.job.status()
    world.rm.moods = away * 3
    assert world.job.exists()
    assert world.job.status().tasks == ended.tasks
    assert world.job.events()


def test_a_kill_asks_until_yarn_has_heard(world: World) -> None:
    world.master(refuses)
    world.rm.moods = [
        OutcomeUnknownError("no answer"),
        UnreachableError("gone"),
        OutcomeUnknownError("no answer"),
    ]
    world.job.kill("enough")
    assert world.rm.kills == ["Killed by alice: enough"]


def test_a_kill_that_nobody_hears_says_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "_KILL_S", 0.0)
    world.rm.moods = [UnreachableError("gone for good")] * 1000
    with pytest.raises(OutcomeUnknownError, match="gone for good"):
        world.job.kill("enough")


def test_a_job_of_another_version_can_be_killed(world: World) -> None:
    world.stage(b"[]")
    world.rm.known[JOB] = report(ApplicationState.ACCEPTED)
    with pytest.raises(UnreadableJobError, match="another version"):
        world.job.status()
    world.job.kill("enough")
    world.rm.known[JOB] = RUNNING
    world.job.kill("enough")
    assert len(world.rm.kills) == 2
    assert world.staging.exists()


def test_a_short_wait_is_short_though_the_master_is_mute(world: World) -> None:
    given: list[float] = []

    def mute(seconds: float) -> Answer:
        given.append(seconds)
        raise ChannelError("mute")

    world.master(mute)
    began = time.monotonic()
    assert "does not answer right now: mute." in world.job.wait(timeout_s=0.05).diagnostics
    assert time.monotonic() - began < 5
    assert max(given) <= 1.0
