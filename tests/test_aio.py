"""``ytf.aio``: the same names and arguments as ``ytf``, a loop that is never blocked, cancellation.

In these tests handles block on an event that only the loop sets: were the loop blocked, they
would never end.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ytf
from tests.client.fakes import JOB, FakeBackend, FakeHandle, status, task
from ytf import aio
from ytf.backends.api import (
    CheckInterrupt,
    JobHandle,
    LogLine,
    Notify,
    OnCommit,
    Plan,
    ignore_notice,
    never_interrupted,
    no_commit_hook,
)
from ytf.client import environments
from ytf.client.async_calls import THREAD_NAME, iterate_in_thread
from ytf.errors import NotFoundError, UnreachableError
from ytf.packaging.installers import InstallProgress
from ytf.packaging.made_environments import EnvironmentRecipe
from ytf.specs.ids import TaskId
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import ClusterSpec, JobEvent, JobState, JobStatus, TaskState
from ytf.testing.waiting import eventually_async

SPEC = JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true")
RUNNING = status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING))
SUCCEEDED = status(JobState.SUCCEEDED, task("worker", 0, TaskState.SUCCEEDED))
LINE = LogLine(TaskId("worker:0"), 1, "stdout", "hello")
_LONG_S = 60.0


def _threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == THREAD_NAME]


@pytest.fixture(autouse=True)
async def _no_thread_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("YTF_HOME", str(tmp_path))
    yield
    await eventually_async(lambda: not _threads(), describe="no thread is left")


class Blocking(FakeHandle):
    """A handle of which every call blocks until the loop lets it go on."""

    def __init__(self, *statuses: JobStatus) -> None:
        super().__init__(*statuses)
        self.entered = threading.Event()
        self.go = threading.Event()

    def _block(self) -> None:
        self.entered.set()
        assert self.go.wait(_LONG_S), "the loop is blocked"

    def status(self) -> JobStatus:
        self._block()
        return super().status()

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        self._block()
        return super().wait(known, timeout_s)

    def kill(self, reason: str) -> None:
        self._block()
        super().kill(reason)

    def events(self) -> list[JobEvent]:
        self._block()
        return super().events()

    def cluster_spec(self) -> ClusterSpec | None:
        self._block()
        return super().cluster_spec()


async def _entered(event: threading.Event) -> None:
    await eventually_async(event.is_set, describe="the call blocks in its thread")


def test_both_handles_have_the_same_methods_with_the_same_arguments() -> None:
    def public(kind: type) -> dict[str, inspect.Signature]:
        return {
            name: inspect.signature(each)
            for name, each in vars(kind).items()
            if not name.startswith("_") and inspect.isfunction(each)
        }

    assert public(aio.AsyncJob) == public(ytf.Job)
    assert aio.AsyncJob(ytf.Job(FakeHandle(RUNNING))).id == JOB
    for name, each in vars(aio.AsyncJob).items():
        if inspect.isfunction(each) and not name.startswith("_"):
            is_iterator = "Iterator" in str(inspect.signature(each).return_annotation)
            assert inspect.iscoroutinefunction(each) is not is_iterator


@pytest.mark.parametrize("name", [name for name in aio.__all__ if name != "AsyncJob"])
def test_functions_have_the_arguments_of_their_twins(name: str) -> None:
    ours, twin = getattr(aio, name), getattr(ytf, name)
    assert inspect.signature(ours) == inspect.signature(twin)
    assert ours.__doc__ == twin.__doc__
    assert inspect.iscoroutinefunction(ours)


async def _list(items: Any) -> list[Any]:
    return [each async for each in items]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda job: job.status(), RUNNING),
        (lambda job: job.tensorboard_url(), None),
        (lambda job: job.cluster_spec(), None),
        (lambda job: job.kill("enough"), None),
        (lambda job: _list(job.events()), []),
        (lambda job: _list(job.logs()), [LINE]),
        (lambda job: _list(job.logs(["worker"], follow=True)), [LINE]),
    ],
)
async def test_no_call_blocks_the_loop(
    call: Callable[[aio.AsyncJob], Any], expected: object
) -> None:
    handle = Blocking(RUNNING, SUCCEEDED)
    handle.lines = [LINE]
    called = asyncio.ensure_future(call(aio.AsyncJob(ytf.Job(handle))))
    await _entered(handle.entered)
    assert not called.done()
    handle.go.set()
    assert await called == expected


async def test_a_job_is_waited_for_and_its_events_come_until_its_end() -> None:
    handle = FakeHandle(RUNNING, SUCCEEDED)
    assert (await aio.AsyncJob(ytf.Job(handle)).wait(progress=False)).succeeded
    handle = FakeHandle(RUNNING, RUNNING, SUCCEEDED)
    handle.happened = [JobEvent(at=1.0, event="job-submitted"), JobEvent(at=2.0, event="x")]
    assert await _list(aio.AsyncJob(ytf.Job(handle)).events(follow=True)) == handle.happened
    with pytest.raises(NotFoundError, match="has no results"):
        await aio.AsyncJob(ytf.Job(FakeHandle(SUCCEEDED))).results()


async def test_calls_at_the_same_time_have_a_handle_each(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Blocking(RUNNING), FakeHandle(SUCCEEDED)
    monkeypatch.setattr("ytf.backends.open_job", lambda job: second)
    job = aio.AsyncJob(ytf.Job(first))
    blocked = asyncio.ensure_future(job.status())
    await _entered(first.entered)
    assert await job.status() == SUCCEEDED
    first.go.set()
    assert await blocked == RUNNING


async def test_many_waits_leave_the_threads_of_asyncio_to_others() -> None:
    handles = [Blocking(SUCCEEDED) for _ in range(50)]
    waits = [asyncio.ensure_future(aio.AsyncJob(ytf.Job(each)).wait()) for each in handles]
    for each in handles:
        await _entered(each.entered)
    assert await asyncio.to_thread(lambda: "served") == "served"
    for each in handles:
        each.go.set()
    assert all(outcome.succeeded for outcome in await asyncio.gather(*waits))


async def test_a_cancelled_wait_ends_at_once_and_the_job_goes_on() -> None:
    handle = Blocking(RUNNING)
    waits = asyncio.ensure_future(aio.AsyncJob(ytf.Job(handle)).wait(progress=False))
    await _entered(handle.entered)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert _threads()  # it still blocks, and ends by itself
    handle.go.set()
    await eventually_async(lambda: not _threads(), describe="the thread notices it")
    assert handle.killed == []


class Away(FakeHandle):
    """A handle of a job whose cluster does not answer any more."""

    def __init__(self) -> None:
        super().__init__(RUNNING)
        self.is_asked = threading.Event()

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        self.is_asked.set()
        raise UnreachableError("no answer")


async def test_a_wait_for_a_cluster_that_is_away_can_be_cancelled_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ytf.client.follow._RETRY_S", 0.01)
    handle = Away()
    waits = asyncio.ensure_future(aio.AsyncJob(ytf.Job(handle)).wait(progress=False))
    await _entered(handle.is_asked)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    await eventually_async(lambda: not _threads(), describe="the thread notices it")


async def test_a_wait_may_have_a_limit() -> None:
    handle = Blocking(RUNNING)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(aio.AsyncJob(ytf.Job(handle)).wait(progress=False), 0.05)
    handle.go.set()


class Submitting(FakeBackend):
    """A backend that blocks on the way to the commit, and after it."""

    def __init__(self, handle: FakeHandle) -> None:
        super().__init__(handle)
        self.entered = threading.Event()
        self.before_commit = threading.Event()
        self.committed = threading.Event()
        self.after_commit = threading.Event()

    def submit(
        self,
        plan: Plan,
        notify: Notify = ignore_notice,
        on_commit: OnCommit = no_commit_hook,
        check: CheckInterrupt = never_interrupted,
    ) -> JobHandle:
        self.entered.set()
        assert self.before_commit.wait(_LONG_S), "the loop is blocked"
        handle = super().submit(plan, notify, on_commit, check)
        self.committed.set()
        assert self.after_commit.wait(_LONG_S), "the loop is blocked"
        return handle


async def test_a_submission_that_is_cancelled_before_its_commit_submits_nothing() -> None:
    backend = Submitting(FakeHandle(RUNNING))
    submits = asyncio.ensure_future(aio.submit(SPEC, backend=backend, progress=False))
    await _entered(backend.entered)
    submits.cancel()
    # Rounds of the loop, in which the cancellation reaches the thread: then it may go on.
    for _ in range(5):
        await asyncio.sleep(0)
    backend.before_commit.set()
    with pytest.raises(asyncio.CancelledError):
        await submits
    assert backend.submitted == []


async def test_a_submission_that_is_cancelled_while_an_environment_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, goes_on = threading.Event(), threading.Event()
    went_on: list[bool] = []

    def make(path: Path, progress: InstallProgress) -> None:
        entered.set()
        assert goes_on.wait(_LONG_S), "the loop is blocked"
        progress.tell("still at it")
        went_on.append(True)

    recipe = EnvironmentRecipe(name="x", about="a thing", make=make)
    monkeypatch.setattr(environments, "recipe_of", lambda file: recipe)
    (tmp_path / "requirements.txt").touch()
    backend = FakeBackend(FakeHandle(RUNNING))
    spec = msgspec.structs.replace(SPEC, env=str(tmp_path / "requirements.txt"))
    submits = asyncio.ensure_future(aio.submit(spec, backend=backend, progress=False))
    await _entered(entered)
    submits.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await submits
    assert (went_on, backend.submitted) == ([], [])
    assert not recipe.path.exists()


async def test_a_submission_that_is_cancelled_after_its_commit_is_undone() -> None:
    handle = FakeHandle(RUNNING)
    backend = Submitting(handle)
    submits = asyncio.ensure_future(aio.submit(SPEC, backend=backend, progress=False))
    backend.before_commit.set()
    await _entered(backend.committed)
    submits.cancel()
    backend.after_commit.set()
    with pytest.raises(asyncio.CancelledError):
        await submits
    assert handle.killed == ["cancelled while it was submitted"]


async def test_a_cancelled_run_kills_its_job_and_ends_after_it() -> None:
    handle = Blocking(RUNNING)
    backend = FakeBackend(handle)
    runs = asyncio.ensure_future(aio.run(print, backend=backend, env="node", progress=False))
    await _entered(handle.entered)
    runs.cancel()
    handle.go.set()
    with pytest.raises(asyncio.CancelledError):
        await runs
    assert handle.killed == ["interrupted while it was waited for"]
    assert handle.statuses[0].state is JobState.KILLED


async def test_a_second_cancellation_of_a_run_leaves_at_once() -> None:
    handle = Blocking(RUNNING)
    backend = FakeBackend(handle)
    runs = asyncio.ensure_future(aio.run(print, backend=backend, env="node", progress=False))
    await _entered(handle.entered)
    runs.cancel()
    await asyncio.wait({runs}, timeout=0.05)
    assert not runs.done()
    runs.cancel()
    with pytest.raises(asyncio.CancelledError):
        await runs
    assert _threads()
    handle.go.set()
    await eventually_async(lambda: handle.killed != [], describe="the job is killed all the same")


class Silent(FakeHandle):
    """A handle whose logs have one line, and no other for ever."""

    def logs(
        self,
        tasks: list[TaskId],
        *,
        follow: bool,
        notify: Notify = ignore_notice,
        check: CheckInterrupt = never_interrupted,
    ) -> Iterator[LogLine]:
        yield LINE
        while follow:
            check()
            threading.Event().wait(0.01)


async def test_logs_that_nobody_reads_any_more_end() -> None:
    lines = aio.AsyncJob(ytf.Job(Silent(RUNNING))).logs(follow=True)
    assert await anext(lines) == LINE
    waits = asyncio.ensure_future(anext(lines))
    await asyncio.wait({waits}, timeout=0.05)
    assert not waits.done()
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    await eventually_async(lambda: not _threads(), describe="the thread ends")


async def test_a_slow_reader_holds_up_the_iterator_and_gets_all_and_the_error() -> None:
    made: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(5000):
            made.append(number)
            yield number
        raise ValueError("the end")

    items = iterate_in_thread(numbers)
    got = [await anext(items)]

    assert len(made) < 3000

    async def read_on() -> None:
        async for each in items:
            got.insert(len(got), each)

    with pytest.raises(ValueError, match="the end"):
        await read_on()
    assert got == list(range(5000))


def test_a_loop_that_is_closed_leaves_no_thread() -> None:
    async def begin() -> Any:
        lines = aio.AsyncJob(ytf.Job(Silent(RUNNING))).logs(follow=True)
        await anext(lines)
        return lines

    loop = asyncio.new_event_loop()
    kept = loop.run_until_complete(begin())
    loop.close()  # without shutdown_asyncgens()
    (thread,) = _threads()
    thread.join(_LONG_S)
    assert not thread.is_alive()
    del kept


def test_the_module_comes_only_when_it_is_used() -> None:
    assert ytf.aio is aio
    assert set(aio.__all__) <= {*dir(ytf), "AsyncJob"}
