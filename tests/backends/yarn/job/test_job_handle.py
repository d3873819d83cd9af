"""A job handle whose master is unhealthy, or whose ResourceManager comes and goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import (
    JOB,
    RUNNING,
    FakeRmClient,
    FlakyClientProtocol,
    node,
    report,
)
from tests.backends.yarn.staged_jobs import stage
from ytf.backends.yarn.hdfs_layout import JobHome, UnreadableJobError, YarnHome
from ytf.backends.yarn.job import job_handle, master_client
from ytf.backends.yarn.job.job_handle import YarnJobHandle
from ytf.backends.yarn.job.secret_cache import SecretCache
from ytf.errors import InternalError, OutcomeUnknownError, RefusedError, UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.rpc.errors import AccessDeniedError
from ytf.hadoop.yarn.records import (
    ApplicationState,
)
from ytf.specs.status import JobState
from ytf.storage.hdfs import HdfsFiles
from ytf.storage.local_files import LocalFiles
from ytf.wire.http_client import Answer, ChannelError


class World:
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.rm = FlakyClientProtocol()
        self._conf = Configuration.of({"dfs.user.home.dir.prefix": str(root)})
        self.open()
        self.home = YarnHome(LocalFiles(), str(root / "alice/.ytf")).job(JOB)
        stage(self.home)
        self.staging = Path(self.home.staging)

    def open(self) -> None:
        """The job for another command."""
        self.job = YarnJobHandle(
            FakeRmClient(self._conf, "alice", answers=self.rm), cast(HdfsFiles, LocalFiles()), JOB
        )

    def stage(self, data: bytes) -> None:
        (self.staging / "job.json").write_bytes(data)

    def master(self, answer: Callable[[float], Answer]) -> None:
        """What its master does with each call, given the seconds it has."""

        def call(
            url: str, secret: bytes, method: str, path: str, body: bytes, timeout_s: float
        ) -> Answer:
            return answer(timeout_s)

        self._monkeypatch.setattr("ytf.backends.master_api.signed_call", call)


def _away(*arguments: object) -> bytes:
    raise UnreachableError("hdfs://nn does not answer")


def refuses(seconds: float) -> Answer:
    raise ChannelError("refused")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(job_handle, "_MASTER_KILL_S", 0.0)
    monkeypatch.setattr(job_handle, "_RETRY_S", 0.0)
    monkeypatch.setattr(master_client, "_RETRY_S", 0.0)
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
    monkeypatch.setattr(JobHome, "secret", _away)
    told = world.job.status()
    assert told.state is JobState.STARTING
    assert "This is what YARN tells, as HDFS cannot be read: hdfs://nn" in told.diagnostics
    # That is no news to who waits, and has patience of its own.
    with pytest.raises(UnreachableError):
        world.job.wait(told, timeout_s=0.05)


def test_the_master_is_asked_though_hdfs_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.master(lambda seconds: Answer(200, b"[]", {}))
    assert world.job.events() == []
    monkeypatch.setattr(JobHome, "_read", _away)
    # Another command, on the machine where the secret was read before.
    world.open()
    assert world.job.events() == []
    world.job.kill("enough")
    assert world.rm.kills == []
    # On a machine where it never was.
    monkeypatch.setenv("YTF_HOME", str(world.staging / "elsewhere"))
    world.open()
    with pytest.raises(UnreachableError, match="hdfs://nn does not answer"):
        world.job.events()
    world.job.kill("enough")
    assert world.rm.kills == ["Killed by alice: enough"]


def test_a_secret_is_forgotten_with_the_end_of_its_job(world: World) -> None:
    world.master(lambda seconds: Answer(200, b"[]", {}))
    world.job.events()
    secrets = SecretCache.of("alice")
    assert secrets.find(JOB) is not None
    assert SecretCache.of("bob").find(JOB) is None
    world.rm.known[JOB] = report(ApplicationState.KILLED)
    world.open()
    world.job.status()
    assert secrets.find(JOB) is None


def test_a_kill_that_yarn_refuses(world: World) -> None:
    world.master(refuses)
    world.rm.moods = [AccessDeniedError("User alice cannot perform operation MODIFY_APP")]
    world.open()
    with pytest.raises(RefusedError, match="alice may not kill") as caught:
        world.job._kill_without_master("enough")
    assert "--acl_modify" in (caught.value.hint or "")
    assert world.rm.kills == []


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
    monkeypatch.setattr(job_handle, "_KILL_S", 0.0)
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
    assert "does not answer right now: mute." in world.job.wait(timeout_s=0.05).diagnostics
    assert max(given) <= 1.0


def test_why_a_job_waits_is_known_without_a_master_and_its_journal(world: World) -> None:
    world.rm.known[JOB] = report(ApplicationState.ACCEPTED)
    assert world.job.why_waiting() == "Waiting for its master, says YARN: said"
    assert world.job.status().diagnostics == world.job.why_waiting()
    # Its master's size is in the staged spec, and tells whether it fits on a node.
    world.rm.known[JOB] = msgspec.structs.replace(world.rm.known[JOB], diagnostics="")
    world.rm.running = [node(1, free_mb=100)]
    assert world.job.why_waiting().startswith("Waiting for its master (")
    for state in (ApplicationState.RUNNING, ApplicationState.FINISHED):
        world.rm.known[JOB] = report(state)
        assert world.job.why_waiting() == ""


def test_what_is_kept_of_an_ended_job_is_removed(world: World) -> None:
    world.rm.known[JOB] = report(ApplicationState.ACCEPTED)
    world.rm.killed_is = report(ApplicationState.KILLED)
    world.job.kill("enough")
    assert world.home.record() is not None
    removed = world.job.remove()
    assert removed.size > 0
    assert world.home.record() is None
    assert not Path(world.home.history).exists()


def test_what_is_staged_of_a_job_that_yarn_ended_is_removed_without_a_record(world: World) -> None:
    world.rm.known[JOB] = report(ApplicationState.KILLED)
    world.job.remove()
    assert not world.staging.exists()
    assert world.home.record() is None


def test_nothing_of_a_job_that_runs_is_removed(world: World) -> None:
    world.rm.known[JOB] = report(ApplicationState.ACCEPTED)
    with pytest.raises(RefusedError, match="has not ended"):
        world.job.remove()
    assert world.staging.exists()


def test_what_is_staged_of_a_job_that_yarn_does_not_know_stays(world: World) -> None:
    """It may be a submission under way."""
    world.rm.known.clear()
    world.job.remove()
    assert world.staging.exists()
