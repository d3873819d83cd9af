"""What a sweep takes for rubbish, and what another process may do in between."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from tests.backends.yarn.fakes import node_report
from tests.backends.yarn.job.staged import running, stage, write_journal
from tests.backends.yarn.job.told import report
from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.home import JobHome, YarnHome
from ytf.backends.yarn.submit.submitter import Submitter
from ytf.backends.yarn.sweep import Sweep
from ytf.hadoop.conf import Configuration
from ytf.hadoop.confxml import Property
from ytf.hadoop.rpc.errors import ApplicationNotFoundError
from ytf.hadoop.yarn.client import ClientProtocol
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import (
    ApplicationReport,
    ApplicationState,
    NodeReport,
    NodeState,
)
from ytf.packaging.archives import Archive
from ytf.packaging.cache import LayerCache
from ytf.packaging.layers import Entry, Layer, LayerKind, content
from ytf.packaging.store import LayerStore
from ytf.specs.names import JobId
from ytf.specs.status import JobState
from ytf.storage.files import LocalFiles

T = TypeVar("T")
ME = getpass.getuser()
JOB = JobId("application_1700000000000_0007")
DAY_S = 86400.0


class Answers(ClientProtocol):
    """What a ResourceManager says, in a list and then of single applications."""

    def __init__(self) -> None:
        self.listed: list[ApplicationReport] = []
        self.known: dict[str, ApplicationReport] = {}

    async def applications(
        self,
        *,
        types: Sequence[str] = (),
        states: Sequence[ApplicationState] = (),
        users: Sequence[str] = (),
        tags: Sequence[str] = (),
        limit: int | None = None,
    ) -> list[ApplicationReport]:
        assert (types, users) == (["YTF"], [ME])
        return self.listed

    async def report(self, application: ApplicationId) -> ApplicationReport:
        try:
            return self.known[str(application)]
        except KeyError:
            raise ApplicationNotFoundError("who?") from None

    async def nodes(self, *states: NodeState) -> list[NodeReport]:
        return [node_report()]


@dataclass(frozen=True)
class FakeRm(ResourceManager):
    answers: Answers = field(default_factory=Answers)

    def ask(self, question: Callable[[ClientProtocol], Awaitable[T]]) -> T:
        async def asking() -> T:
            return await question(self.answers)

        return asyncio.run(asking())


def cluster(address: str) -> Configuration:
    name = "yarn.resourcemanager.address"
    return Configuration(
        [Property(name=name, value=address, final=False, file=Path("yarn-site.xml"), line=1)]
    )


class World:
    """A user's directories on a disk, and what YARN says."""

    def __init__(self, root: Path) -> None:
        self.said: list[str] = []
        self.conf = cluster("rm:8032")
        self.rm = FakeRm(self.conf, ME)
        self.home = YarnHome(LocalFiles(), str(root / "ytf"))
        self.home.files.mkdir(f"{self.home.root}/jobs")
        self.cache = LayerCache(root / "cache")
        self.store = LayerStore(self.home.files, self.home.layers, ME)

    def staged(self, submitter: Submitter | None, age_s: float = 0.0) -> JobHome:
        home = self.home.job(JOB)
        home.files.mkdir(home.staging)
        if submitter is not None:
            submitter.declare(home)
        _age(home.staging, age_s)
        return home

    def sweep(self, **options: bool) -> list[str]:
        """What was removed, in a word each."""
        sweep = Sweep(
            rm=self.rm,
            home=self.home,
            cache=self.cache,
            keep_s=7 * DAY_S,
            tell=self.said.append,
            **options,
        )
        return [each.what for each in sweep.run()]


def _age(path: str, by_s: float) -> None:
    then = os.stat(path).st_mtime - by_s
    os.utime(path, (then, then))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_who_never_submitted_has_nothing_and_gets_nothing(tmp_path: Path, world: World) -> None:
    elsewhere = YarnHome(LocalFiles(), str(tmp_path / "nobody"))
    sweep = Sweep(rm=world.rm, home=elsewhere, cache=world.cache, keep_s=0)
    assert sweep.run() == []
    assert not (tmp_path / "nobody").exists()


def test_a_submission_under_way_is_left_alone_however_long_it_takes(world: World) -> None:
    home = world.staged(Submitter.current(world.conf), age_s=99 * DAY_S)
    assert world.sweep() == []
    assert os.path.exists(home.staging)


def test_one_that_died_goes_at_once(world: World) -> None:
    current = Submitter.current(world.conf)
    home = world.staged(msgspec.structs.replace(current, start_ticks=1))
    assert world.sweep() == ["staging directory"]
    assert not os.path.exists(home.staging)


def test_one_that_submitted_with_its_last_breath_runs(world: World) -> None:
    current = Submitter.current(world.conf)
    home = world.staged(msgspec.structs.replace(current, start_ticks=1))
    # Not yet in the list, which was asked for before the submitter was found dead.
    world.rm.answers.known[JOB] = report(ApplicationState.SUBMITTED)
    assert world.sweep() == []
    assert os.path.exists(home.staging)


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_one_that_yarn_ended_is_recorded_with_all_that_its_journal_tells(
    world: World, is_forgotten: bool
) -> None:
    home = world.home.job(JOB)
    stage(home, user=ME)
    dead = msgspec.structs.replace(Submitter.current(world.conf), start_ticks=1)
    dead.declare(home)
    write_journal(home, *running())
    if not is_forgotten:
        world.rm.answers.listed = [report(ApplicationState.KILLED)]
    assert world.sweep(dryrun=True) == ["staging directory"]
    assert home.record() is None
    assert world.sweep() == ["staging directory"]
    record = home.record()
    assert record is not None
    assert record.status.state is (JobState.FAILED if is_forgotten else JobState.KILLED)
    assert [task.node for task in record.status.tasks] == ["node7:8041", "node7:8041"]
    assert record.cluster_spec is not None
    assert [event.event for event in record.events][-2:] == ["TaskStarted", "JobFinished"]
    assert not os.path.exists(home.staging)


@pytest.mark.parametrize("age_s", [0.9 * DAY_S, 1.1 * DAY_S])
@pytest.mark.parametrize("machine", ["another", None])
def test_of_other_machines_only_time_tells(world: World, age_s: float, machine: str | None) -> None:
    submitter = None
    if machine is not None:
        submitter = msgspec.structs.replace(Submitter.current(world.conf), machine=machine)
    home = world.staged(submitter, age_s)
    assert world.sweep() == ([] if age_s < DAY_S else ["staging directory"])
    assert os.path.exists(home.staging) == (age_s < DAY_S)


def test_what_belongs_to_another_cluster_is_not_ours_to_judge(world: World) -> None:
    other = Submitter.current(cluster("other:8032"))
    dead = msgspec.structs.replace(other, start_ticks=1)
    home = world.staged(dead, age_s=99 * DAY_S)
    assert world.sweep() == []
    assert os.path.exists(home.staging)


def test_what_is_no_jobs_is_not_touched(world: World) -> None:
    world.home.files.mkdir(f"{world.home.root}/jobs/notes")
    _age(f"{world.home.root}/jobs/notes", 99 * DAY_S)
    assert world.sweep() == []


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
    assert world.sweep(dryrun=dryrun) == ["staging directory"]
    for job, told in zip((theirs, strange), world.said, strict=True):
        assert job in told
        assert "another version of ytf" in told
    assert all(os.path.exists(world.home.job(job).staging) for job in (theirs, strange))


def test_layers_stay_as_long_as_a_job_that_uses_them_is_staged(world: World) -> None:
    what = content(LayerKind.CODE, "a", [Entry(path="x", data=b"x")])

    def archive(layer: Layer) -> Archive:
        return world.cache.archive(what)

    layer = world.cache.describe(what)
    home = world.staged(Submitter.current(world.conf))
    world.store.use(JOB, [layer])
    [stored] = world.store.ensure([layer], archive)
    running = report(ApplicationState.RUNNING)
    world.rm.answers.listed = [msgspec.structs.replace(running, id=ApplicationId.parse(JOB))]
    for path in (stored.path, *map(str, Path(world.store.own, "uses").iterdir())):
        _age(path, 99 * DAY_S)
    assert world.sweep() == []
    home.remove_staging()
    assert sorted(world.sweep()) == ["layer", "note of used layers"]
    assert not os.path.exists(stored.path)
