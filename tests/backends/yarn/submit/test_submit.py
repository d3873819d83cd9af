"""A submission that is refused or interrupted leaves nothing, and its reason is shown."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import APP, ME, cluster, report
from tests.backends.yarn.staged_jobs import RESOURCES
from ytf.backends.api import CheckInterrupt, Plan, never_interrupted
from ytf.backends.yarn.hdfs_layout import JobHome, YarnHome
from ytf.backends.yarn.launch_contexts import GroupEnvironment, StarterResources
from ytf.backends.yarn.rm_client import RmClient
from ytf.backends.yarn.submit import submit
from ytf.backends.yarn.submit.admission import Admission
from ytf.backends.yarn.submit.submit import CancellableFiles, SubmitCancelledError
from ytf.backends.yarn.submit.upload import UploadedResources
from ytf.errors import RefusedError, SpecError, UnreachableError
from ytf.hadoop.rpc.errors import ApplicationNotFoundError
from ytf.hadoop.yarn.application_client import ApplicationClient
from ytf.hadoop.yarn.contexts import ApplicationSubmissionContext
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState
from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layers import LayerEntry, LayerKind, layer_content
from ytf.specs.ids import JobId
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.storage.local_files import LocalFiles
from ytf.testing.waiting import eventually

T = TypeVar("T")

SPEC = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true")


class Answers(ApplicationClient):
    """A ResourceManager that takes the job, unless a test says otherwise."""

    def __init__(self) -> None:
        self.state = ApplicationState.ACCEPTED
        self.is_known = False
        self.kills_needed = 1
        self.kills: list[ApplicationId] = []
        self.on: dict[str, Callable[[], None]] = {}

    async def submit(self, submission: ApplicationSubmissionContext) -> None:
        self.is_known = True
        self._happen("submit")

    async def report(self, application: ApplicationId) -> ApplicationReport:
        self._happen("report")
        return report(self.state)

    async def kill(self, application: ApplicationId, reason: str = "") -> bool:
        self._happen("kill")
        if not self.is_known:
            raise ApplicationNotFoundError("who?")
        self.kills.append(application)
        return len(self.kills) >= self.kills_needed

    def _happen(self, what: str) -> None:
        self.on.get(what, lambda: None)()


@dataclass(frozen=True)
class FakeRm(RmClient):
    answers: Answers

    def call(self, request: Callable[[ApplicationClient], Awaitable[T]]) -> T:
        async def answer() -> T:
            return await request(self.answers)

        return asyncio.run(answer())


class World:
    """A home on a disk, a ResourceManager, and what the submitter was told."""

    def __init__(self, root: Path) -> None:
        self.rm = Answers()
        self.home = YarnHome(LocalFiles(), str(root / "ytf"))
        self.told: list[str] = []
        self.notes: tuple[str, ...] = ()
        self.go_on: Callable[[], None] = lambda: None
        self.held = 0
        self.uploading: Callable[[JobHome], None] = lambda home: None

    @property
    def staging(self) -> str:
        return self.home.job(JobId(str(APP))).staging

    def submit(self, spec: JobSpec = SPEC, *, check: CheckInterrupt = never_interrupted) -> str:
        rm = FakeRm(cluster("rm:8032"), ME, self.rm)
        plan = Plan(spec=spec, backend="yarn", user=ME, keeps_results=True)
        return submit.submit(rm, self.home, plan, self.told.append, self._hold, check)

    def is_clean(self) -> bool:
        history = self.home.job(JobId(str(APP))).history
        return not os.path.exists(self.staging) and not os.path.exists(history)

    def upload(self, home: YarnHome, job_home: JobHome, *rest: Any) -> UploadedResources:
        self.go_on = rest[-1]
        self.uploading(job_home)
        return UploadedResources(master={}, master_script="run\n", starter=RESOURCES)

    def _hold(self) -> None:
        assert not self.rm.is_known
        self.held += 1


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(
        submit, "admit", lambda rm, spec: Admission(id=APP, spec=spec, notes=made.notes)
    )
    monkeypatch.setattr(submit, "collect_layers", lambda *_: None)
    monkeypatch.setattr(submit, "upload_resources", made.upload)
    return made


def _raise(error: BaseException) -> Callable[..., None]:
    def now(*arguments: object) -> None:
        raise error

    return now


def test_what_is_to_be_known_of_its_prospects_is_told_before_anything_is_shipped(
    world: World,
) -> None:
    world.notes = ("not all tasks can run at once", "the cluster has no time")
    told: list[list[str]] = []
    world.uploading = lambda home: told.append(list(world.told))
    world.submit()
    assert told == [list(world.notes)]


def test_one_that_is_taken_stays(world: World) -> None:
    assert world.submit() == str(APP)
    assert (world.rm.kills, world.told, world.held) == ([], [], 1)
    assert {"job.json", "submitter.json"} <= set(os.listdir(world.staging))


def test_one_that_is_refused_late_leaves_nothing(world: World) -> None:
    world.rm.state = ApplicationState.FAILED
    world.rm.kills_needed = 3
    with pytest.raises(RefusedError, match="did not take the job: said"):
        world.submit()
    # A kill is done when YARN says so, and not before.
    assert world.rm.kills == [APP] * 3
    assert world.is_clean()
    assert world.told == []


def _after(make: Callable[..., object], error: BaseException) -> Callable[..., object]:
    def made(*arguments: object) -> object:
        make(*arguments)
        raise error

    return made


@pytest.mark.parametrize(
    "step", ["make_job", "write_submitter", "upload", "stage", "submit", "report"]
)
def test_one_that_is_interrupted_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    interrupt = KeyboardInterrupt()
    if step == "upload":
        world.uploading = _raise(interrupt)
    elif step in ("submit", "report"):
        world.rm.on[step] = _raise(interrupt)
    else:
        owner = {
            "make_job": YarnHome,
            "write_submitter": JobHome,
            "stage": JobHome,
        }[step]
        monkeypatch.setattr(owner, step, _after(getattr(owner, step), interrupt))
    with pytest.raises(KeyboardInterrupt):
        world.submit()
    assert world.is_clean()
    assert world.rm.kills == ([APP] if step in ("submit", "report") else [])
    assert world.told == []


def _press_ctrl_c(home: JobHome) -> None:
    """Interrupt the submitter while it does nothing but wait for the upload.

    Earlier it may import a module, and CPython leaves the file of a module open
    whose import is interrupted.
    """
    eventually(lambda: os.path.exists(f"{home.staging}/submitter.json"))
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_does_not_wait_for_an_upload(world: World) -> None:
    ended = threading.Event()

    def long(home: JobHome) -> Iterator[bytes]:
        yield b"x"
        _press_ctrl_c(home)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            yield b"x"

    def uploading(home: JobHome) -> None:
        try:
            home.files.write(f"{home.staging}/big", long(home))
        except SubmitCancelledError:
            ended.set()

    world.uploading = uploading
    with pytest.raises(KeyboardInterrupt):
        world.submit()
    assert ended.is_set()
    assert world.is_clean()
    assert world.held == 0


def test_ctrl_c_does_not_wait_for_the_packing(world: World) -> None:
    packed = False

    def packing(home: JobHome) -> None:
        nonlocal packed
        _press_ctrl_c(home)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            world.go_on()
        packed = True

    world.uploading = packing
    with pytest.raises(KeyboardInterrupt):
        world.submit()
    assert not packed
    assert world.is_clean()
    assert world.told == []


def test_a_caller_that_is_cancelled_does_not_wait_for_the_packing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "_CHECK_S", 0.01)
    began = threading.Event()

    def packing(home: JobHome) -> None:
        began.set()
        eventually(world.go_on, describe="the packing is cancelled")

    def check() -> None:
        if began.is_set():
            raise KeyboardInterrupt("cancelled")

    world.uploading = packing
    with pytest.raises(KeyboardInterrupt, match="cancelled"):
        world.submit(check=check)
    assert world.is_clean()
    assert world.held == 0


def test_one_that_is_cancelled_at_the_last_moment_is_not_submitted(world: World) -> None:
    world.uploading = lambda home: None
    with pytest.raises(KeyboardInterrupt):
        world.submit(check=_raise(KeyboardInterrupt()))
    assert world.is_clean()
    assert not world.rm.is_known


def test_who_has_to_wait_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "_CANCEL_S", 0.01)

    def hanging(home: JobHome) -> None:
        _press_ctrl_c(home)
        eventually(lambda: world.told)

    world.uploading = hanging
    with pytest.raises(KeyboardInterrupt):
        world.submit()
    assert world.told == ["stopping once HDFS has answered (interrupt to leave now)"]
    assert world.is_clean()


def test_with_nobody_to_ask_the_first_error_is_told_and_what_may_go_on(world: World) -> None:
    world.rm.state = ApplicationState.FAILED
    world.rm.on["kill"] = _raise(UnreachableError("nobody listens"))
    with pytest.raises(RefusedError, match="did not take the job"):
        world.submit()
    [told] = world.told
    assert told == f"{APP} may run all the same: `ytf kill {APP}` ends it (nobody listens)"
    assert world.is_clean()


def test_staging_that_cannot_be_removed_is_told_of(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.uploading = _raise(RefusedError("HDFS is full"))
    monkeypatch.setattr(JobHome, "remove_staging", _raise(OSError("HDFS is away")))
    with pytest.raises(RefusedError, match="HDFS is full"):
        world.submit()
    [told] = world.told
    place = f"file://{world.staging}"
    assert told == f"{place} may be left: a later ytf command removes it (HDFS is away)"


def test_an_application_that_does_not_die_is_told_of(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "_KILL_S", 0.0)
    world.rm.state = ApplicationState.FAILED
    world.rm.kills_needed = 1000
    with pytest.raises(RefusedError, match="did not take the job"):
        world.submit()
    assert "has not ended it within 0 s" in world.told[0]
    assert world.is_clean()


def test_a_second_interrupt_is_told_what_it_leaves(world: World) -> None:
    world.rm.on = {
        "report": _raise(KeyboardInterrupt("first")),
        "kill": _raise(KeyboardInterrupt("second")),
    }
    with pytest.raises(KeyboardInterrupt, match="second"):
        world.submit()
    assert world.told == [f"{APP} may run all the same: `ytf kill {APP}` ends it"]


def test_what_is_too_long_only_together_is_refused_before_anything_is_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "admit", _raise(AssertionError("asked")))
    own = {
        "small": TaskGroupSpec(count=1),
        "big": TaskGroupSpec(count=1, task_env={"B": "x" * 50_000}),
    }
    spec = JobSpec(groups=own, command="true", task_env={"A": "x" * 50_000})
    with pytest.raises(SpecError, match=r"^groups\.big: .* 1\d\d KiB.* 128 KiB can be") as caught:
        world.submit(spec)
    assert caught.value.hint == "put it in a file and ship that"
    assert world.is_clean()


def test_what_layers_add_is_measured_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = tuple(f"{number:0100}" for number in range(1000))
    environment = GroupEnvironment(manifest="m", layers=layers, files={})
    starter = StarterResources(script="", files={}, environments={"worker": environment})
    uploaded = UploadedResources(master={}, master_script="run\n", starter=starter)
    monkeypatch.setattr(submit, "upload_resources", lambda *_: uploaded)
    with pytest.raises(SpecError, match=r"^groups\.worker: "):
        world.submit()
    assert world.is_clean()
    assert not world.rm.is_known


def test_a_refusal_ends_the_search_for_layers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs while the cluster is asked, and may be reading gigabytes."""
    begun, ended = threading.Event(), threading.Event()

    def collect(cache: LayerCache, *rest: object) -> None:
        begun.set()
        content = layer_content(LayerKind.CODE, "huge", [LayerEntry(path="a", data=b"x")])

        def read() -> None:
            cache.describe(msgspec.structs.replace(content, name=secrets.token_hex()))

        try:
            eventually(read, 30, "the search to be cancelled")
        except SubmitCancelledError:
            ended.set()

    def admit(*arguments: object) -> None:
        assert begun.wait(30)
        raise RefusedError("no such queue")

    monkeypatch.setattr(submit, "collect_layers", collect)
    monkeypatch.setattr(submit, "admit", admit)
    with pytest.raises(RefusedError, match="no such queue"):
        world.submit()
    assert ended.is_set()


def test_files_that_are_stopped_do_nothing_more(tmp_path: Path) -> None:
    stopped = threading.Event()
    files = CancellableFiles(LocalFiles(), stopped)
    folder = str(tmp_path / "a")
    files.mkdir(folder)
    files.write(f"{folder}/whole", [b"abc"])
    files.rename(f"{folder}/whole", f"{folder}/x")
    files.chmod(f"{folder}/x", 0o640)
    assert (files.stat(f"{folder}/x").mode, b"".join(files.read(f"{folder}/x"))) == (0o640, b"abc")

    def last() -> Iterator[bytes]:
        yield b"all there is"
        stopped.set()

    for refused in (
        lambda: files.write(f"{folder}/y", last()),
        lambda: files.delete(folder),
        lambda: files.list(folder),
    ):
        with pytest.raises(SubmitCancelledError):
            refused()
    assert os.listdir(folder) == ["x"]
