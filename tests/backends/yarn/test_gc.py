"""What a collection removes, and what other processes may do meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import JOB, ME, FakeRmClient, cluster, report
from tests.backends.yarn.staged_jobs import running, stage, write_journal
from ytf.backends.yarn.gc import YarnGc
from ytf.backends.yarn.hdfs_layout import JobHome, Submitter, YarnHome
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import (
    ApplicationState,
)
from ytf.packaging.archives import Archive
from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layer_store import LayerStore
from ytf.packaging.layers import Layer, LayerEntry, LayerKind, layer_content
from ytf.specs.ids import JobId
from ytf.specs.status import JobState
from ytf.storage.local_files import LocalFiles

DAY_S = 86400.0


class World:
    """A user's directories on a disk, and what YARN says."""

    def __init__(self, root: Path) -> None:
        self.said: list[str] = []
        self.conf = cluster("rm:8032")
        self.rm = FakeRmClient(self.conf, ME)
        self.home = YarnHome(LocalFiles(), str(root / "ytf"))
        self.home.files.mkdir(f"{self.home.root}/jobs")
        self.cache = LayerCache(root / "cache")
        self.store = LayerStore(self.home.files, self.home.layers, ME)

    def staged(self, submitter: Submitter | None, age_s: float = 0.0) -> JobHome:
        home = self.home.job(JOB)
        home.files.mkdir(home.staging)
        if submitter is not None:
            home.write_submitter(submitter)
        _age(home.staging, age_s)
        return home

    def gc(self, **options: bool) -> list[str]:
        """What was removed, in a word each."""
        gc = YarnGc(
            rm=self.rm,
            home=self.home,
            cache=self.cache,
            keep_s=7 * DAY_S,
            notify=self.said.append,
            **options,
        )
        return [each.what for each in gc.run()]


def _age(path: str, by_s: float) -> None:
    then = os.stat(path).st_mtime - by_s
    os.utime(path, (then, then))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_who_never_submitted_has_nothing_and_gets_nothing(tmp_path: Path, world: World) -> None:
    elsewhere = YarnHome(LocalFiles(), str(tmp_path / "nobody"))
    gc = YarnGc(rm=world.rm, home=elsewhere, cache=world.cache, keep_s=0)
    assert gc.run() == []
    assert not (tmp_path / "nobody").exists()


def test_a_submission_under_way_is_left_alone_however_long_it_takes(world: World) -> None:
    home = world.staged(Submitter.current(world.conf), age_s=99 * DAY_S)
    assert world.gc() == []
    assert os.path.exists(home.staging)


def test_one_that_died_goes_at_once(world: World) -> None:
    current = Submitter.current(world.conf)
    home = world.staged(msgspec.structs.replace(current, start_ticks=1))
    assert world.gc() == ["staging directory"]
    assert not os.path.exists(home.staging)


def test_one_of_a_user_whom_this_machine_hides_is_not_taken_for_dead(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = world.staged(msgspec.structs.replace(Submitter.current(world.conf), start_ticks=1))
    monkeypatch.setattr("ytf.processes.is_hidden", lambda pid: True)
    assert world.gc() == []
    assert os.path.exists(home.staging)


def test_one_that_submitted_with_its_last_breath_runs(world: World) -> None:
    current = Submitter.current(world.conf)
    home = world.staged(msgspec.structs.replace(current, start_ticks=1))
    # Not yet in the list, which was asked for before the submitter was found dead.
    world.rm.answers.known[JOB] = report(ApplicationState.SUBMITTED)
    assert world.gc() == []
    assert os.path.exists(home.staging)


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_one_that_yarn_ended_is_recorded_with_all_that_its_journal_tells(
    world: World, is_forgotten: bool
) -> None:
    home = world.home.job(JOB)
    stage(home, user=ME)
    dead = msgspec.structs.replace(Submitter.current(world.conf), start_ticks=1)
    home.write_submitter(dead)
    write_journal(home, *running())
    if not is_forgotten:
        world.rm.answers.listed = [report(ApplicationState.KILLED)]
    assert world.gc(dryrun=True) == ["staging directory"]
    assert home.record() is None
    assert world.gc() == ["staging directory"]
    record = home.record()
    assert record is not None
    assert record.status.state is (JobState.FAILED if is_forgotten else JobState.KILLED)
    assert [task.node for task in record.status.tasks] == ["node7:8041", "node7:8041"]
    assert record.cluster_spec is not None
    assert [event.event for event in record.events][-2:] == ["task-started", "job-finished"]
    assert not os.path.exists(home.staging)


@pytest.mark.parametrize("age_s", [0.9 * DAY_S, 1.1 * DAY_S])
@pytest.mark.parametrize("machine", ["another", None])
def test_of_other_machines_only_time_tells(world: World, age_s: float, machine: str | None) -> None:
    submitter = None
    if machine is not None:
        submitter = msgspec.structs.replace(Submitter.current(world.conf), machine=machine)
    home = world.staged(submitter, age_s)
    assert world.gc() == ([] if age_s < DAY_S else ["staging directory"])
    assert os.path.exists(home.staging) == (age_s < DAY_S)


def test_what_belongs_to_another_cluster_is_not_ours_to_judge(world: World) -> None:
    other = Submitter.current(cluster("other:8032"))
    dead = msgspec.structs.replace(other, start_ticks=1)
    home = world.staged(dead, age_s=99 * DAY_S)
    assert world.gc() == []
    assert os.path.exists(home.staging)


def test_what_is_no_jobs_is_not_touched(world: World) -> None:
    world.home.files.mkdir(f"{world.home.root}/jobs/notes")
    _age(f"{world.home.root}/jobs/notes", 99 * DAY_S)
    assert world.gc() == []


@pytest.mark.parametrize("dryrun", [True, False])
def test_what_another_version_wrote_is_left_alone_and_stops_nothing(
    world: World, dryrun: bool
) -> None:
    dead = msgspec.structs.replace(Submitter.current(world.conf), start_ticks=1)
    theirs, strange = JobId(f"{JOB[:-1]}1"), JobId(f"{JOB[:-1]}2")
    for job, name in ((theirs, "job.json"), (strange, "submitter.json")):
        home = world.home.job(job)
        home.files.mkdir(home.staging)
        home.files.write(f"{home.staging}/{name}", [b"{}"])
    killed = report(ApplicationState.KILLED)
    world.rm.answers.listed = [msgspec.structs.replace(killed, id=ApplicationId.parse(theirs))]
    world.staged(dead)
    assert world.gc(dryrun=dryrun) == ["staging directory"]
    for job, told in zip((theirs, strange), world.said, strict=True):
        assert job in told
        assert "another version of ytf" in told
    assert all(os.path.exists(world.home.job(job).staging) for job in (theirs, strange))


def test_layers_stay_as_long_as_a_job_that_uses_them_is_staged(world: World) -> None:
    what = layer_content(LayerKind.CODE, "a", [LayerEntry(path="x", data=b"x")])

    def archive(layer: Layer) -> Archive:
        return world.cache.archive(what)

    layer = world.cache.describe(what)
    home = world.staged(Submitter.current(world.conf))
    world.store.declare_use(JOB, [layer])
    [stored] = world.store.ensure([layer], archive)
    running = report(ApplicationState.RUNNING)
    world.rm.answers.listed = [msgspec.structs.replace(running, id=ApplicationId.parse(JOB))]
    for path in (stored.path, *map(str, Path(world.store.own_root, "uses").iterdir())):
        _age(path, 99 * DAY_S)
    assert world.gc() == []
    home.remove_staging()
    assert sorted(world.gc()) == ["layer", "note of used layers"]
    assert not os.path.exists(stored.path)
