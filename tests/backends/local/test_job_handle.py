"""The handle of a job: its master answers, then its record; a missing master is waited for."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from ytf import processes
from ytf.backends.local.directories import JobDirectories
from ytf.backends.local.files import write_atomically
from ytf.backends.local.job_handle import LocalJobHandle
from ytf.errors import NotFoundError, OutcomeUnknownError, UnreachableError
from ytf.specs.ids import JobId, TaskId
from ytf.specs.status import (
    ClusterSpec,
    FinalStatus,
    JobEvent,
    JobRecord,
    JobState,
    JobStatus,
    StarterAddress,
    TaskState,
    TaskStatus,
)
from ytf.web.client_api import ClientApi
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer

JOB = JobId("local_20260101000000_abcd")
STARTING = JobStatus(
    id=JOB,
    name="näme",
    user="ada",
    queue="default",
    backend="local",
    state=JobState.STARTING,
    tasks=(TaskStatus(group="worker", index=0, state=TaskState.PENDING, attempt=1),),
)
RUNNING = msgspec.structs.replace(STARTING, state=JobState.RUNNING)
ENDED = msgspec.structs.replace(
    STARTING, state=JobState.FAILED, final_status=FinalStatus.FAILED, diagnostics="why"
)
CLUSTER = ClusterSpec(generation=1, revision=2, members={"worker": ("127.0.0.1:1",)})
EVENTS = [JobEvent(at=1.0, event="master-started", text="hello")]


class Master:
    """A master that shows whatever a test wants, in a thread of its own."""

    def __init__(self, staging: Path, attempt: int = 1) -> None:
        self._staging = staging
        self._attempt = attempt
        self.version = 1
        self._status = STARTING
        self.cluster: ClusterSpec | None = None
        self.kills: list[tuple[str, str]] = []
        self._change: asyncio.Event
        self.waited_for = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(60)

    def show(self, status: JobStatus) -> None:
        async def change() -> None:
            self._status = status
            self.version += 1
            self._change.set()
            self._change = asyncio.Event()

        asyncio.run_coroutine_threadsafe(change(), self._loop).result(5)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._change = asyncio.Event()
        self._stopped = asyncio.Event()
        server = HttpServer(RequestVerifier((self._staging / "secret").read_bytes()))
        api = ClientApi(server, self)
        url = f"http://127.0.0.1:{await server.listen('127.0.0.1')}"
        known = {"url": url, "attempt": self._attempt, "pid": os.getpid()}
        # Atomically, as masters do it.
        write_atomically(str(self._staging / "master.json"), json.dumps(known))
        self._ready.set()
        await self._stopped.wait()
        api.close()
        await server.close()

    # What ClientApi shows.

    def status(self) -> JobStatus:
        return self._status

    def status_with_usage(self) -> JobStatus:
        return self._status

    async def changed(self, version: int) -> None:
        self.waited_for.set()
        while self.version == version:
            await self._change.wait()

    def cluster_spec(self) -> ClusterSpec | None:
        return self.cluster

    def starters(self) -> list[StarterAddress]:
        return []

    def events(self) -> list[JobEvent]:
        return EVENTS

    def note_shell(self, task: TaskId, by: str) -> None:
        raise AssertionError("no test opens a shell here")

    async def kill(self, by: str, reason: str) -> None:
        self.kills.append((by, reason))


@pytest.fixture
def staging(home: JobDirectories) -> Path:
    """A staged job whose ``node.json`` names this process as the node."""
    home.ensure()
    directory = home.staging(JOB)
    directory.mkdir()
    (directory / "secret").write_text("5" * 64)
    (directory / "spec.json").write_text('{"groups": {"worker": {"count": 1}}, "command": "true"}')
    me = {"pid": os.getpid(), "start_ticks": processes.start_ticks(os.getpid())}
    (directory / "node.json").write_text(json.dumps(me))
    home.logs(JOB).mkdir(parents=True)
    return directory


@pytest.fixture
def masters(staging: Path) -> Iterator[Callable[..., Master]]:
    started: list[Master] = []

    def start(attempt: int = 1) -> Master:
        started.append(Master(staging, attempt))
        return started[-1]

    yield start
    for master in started:
        master.close()


@pytest.fixture
def handle(home: JobDirectories) -> LocalJobHandle:
    return LocalJobHandle(home, JOB, master=["/must/not/be/called"], master_timeout_s=5.0)


def record(home: JobDirectories, status: JobStatus = ENDED) -> None:
    kept = JobRecord(
        status=status, spec={}, cluster_spec=msgspec.to_builtins(CLUSTER), events=tuple(EVENTS)
    )
    home.job_history(JOB).mkdir(parents=True, exist_ok=True)
    write_atomically(str(home.record(JOB)), msgspec.json.encode(kept).decode())


def die(staging: Path) -> None:
    write_atomically(str(staging / "node.json"), '{"pid": 1, "start_ticks": -1}')


def later(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_running_job_is_asked(masters: Callable[..., Master], handle: LocalJobHandle) -> None:
    master = masters()
    assert handle.status() == STARTING
    assert handle.events() == EVENTS
    assert handle.cluster_spec() is None
    master.cluster = CLUSTER
    assert handle.cluster_spec() == CLUSTER
    handle.kill("enough")
    assert [reason for _, reason in master.kills] == ["enough"]


def test_an_ended_job_answers_the_same(home: JobDirectories, handle: LocalJobHandle) -> None:
    record(home)
    assert handle.status() == ENDED
    assert handle.wait() == ENDED
    assert handle.wait(ENDED) == ENDED
    assert handle.events() == EVENTS
    assert handle.cluster_spec() == CLUSTER
    handle.kill("nothing to kill")


def test_wait_tells_the_next_change(masters: Callable[..., Master], handle: LocalJobHandle) -> None:
    master = masters()
    first = handle.wait()
    assert first == STARTING

    def change() -> None:
        assert master.waited_for.wait(60)
        master.show(RUNNING)

    changing = later(change)
    assert handle.wait(first) == RUNNING
    changing.join()
    # A status that the handle has never seen: the current one comes at once.
    assert handle.wait(ENDED) == RUNNING


def test_wait_ends_with_its_time(masters: Callable[..., Master], handle: LocalJobHandle) -> None:
    masters()
    first = handle.wait()
    assert handle.wait(first, timeout_s=0.2) == first


def test_a_new_master_is_waited_for_and_found(
    masters: Callable[..., Master], handle: LocalJobHandle
) -> None:
    first = masters(1)
    known = handle.wait()
    first.close()

    def take_over() -> None:
        masters(2).show(RUNNING)

    taking_over = later(take_over)
    assert handle.wait(known, timeout_s=5.0) == RUNNING
    taking_over.join()
    assert handle.status() == RUNNING


def test_a_job_that_ends_while_one_waits(
    home: JobDirectories, masters: Callable[..., Master], handle: LocalJobHandle
) -> None:
    master = masters()
    known = handle.wait()

    def end() -> None:
        assert master.waited_for.wait(60)
        record(home)
        master.close()

    ending = later(end)
    assert handle.wait(known, timeout_s=5.0) == ENDED
    ending.join()


def test_a_master_that_stays_away_is_reported(staging: Path, home: JobDirectories) -> None:
    handle = LocalJobHandle(home, JOB, master_timeout_s=0.2)
    with pytest.raises(UnreachableError, match="does not answer") as caught:
        handle.status()
    assert "master.log" in str(caught.value.hint)


def test_a_kill_before_there_is_a_node_says_that_its_outcome_is_unknown(
    staging: Path, home: JobDirectories
) -> None:
    (staging / "node.json").unlink()
    handle = LocalJobHandle(home, JOB, master=[sys.executable, "-c", ""], master_timeout_s=0.2)
    with pytest.raises(OutcomeUnknownError, match=f"{JOB} may or may not end: .*answer"):
        handle.kill("enough")


def test_a_kill_of_a_job_that_died_records_its_death(staging: Path, home: JobDirectories) -> None:
    die(staging)
    handle = LocalJobHandle(home, JOB, master=[sys.executable, "-c", ""], master_timeout_s=60.0)
    handle.kill("enough")
    assert handle.status().state is JobState.FAILED, "it had died before"


def test_a_kill_ends_a_hung_node_and_a_hung_master(staging: Path, home: JobDirectories) -> None:
    listening = "import socket; s = socket.create_server(('127.0.0.1', 0))"
    hung = f"{listening}; print(s.getsockname()[1], flush=True); import time; time.sleep(600)"
    with ExitStack() as stack:
        node, master = (
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", hung, str(staging)], stdout=subprocess.PIPE, text=True
                )
            )
            for _ in range(2)
        )
        stack.callback(node.kill)
        stack.callback(master.kill)
        assert node.stdout is not None
        assert master.stdout is not None
        port = master.stdout.readline().strip()
        node.stdout.readline()
        identity = {"pid": node.pid, "start_ticks": processes.start_ticks(node.pid)}
        (staging / "node.json").write_text(json.dumps(identity))
        about = {"url": f"http://127.0.0.1:{port}", "attempt": 1, "pid": master.pid}
        (staging / "master.json").write_text(json.dumps(about))
        handle = LocalJobHandle(home, JOB, master=[sys.executable, "-c", ""], master_timeout_s=0.3)
        with pytest.raises(UnreachableError):
            handle.status()
        handle.kill("enough")
        assert (node.wait(60), master.wait(60)) == (-signal.SIGTERM, -signal.SIGKILL)
    status = handle.status()
    assert status.state is JobState.KILLED
    assert f"Killed by {getpass.getuser()}: enough; its master did not answer" in status.diagnostics
    assert not staging.exists()


@pytest.mark.parametrize(
    "text", ["", "[" * 60_000, "{}", '{"url": "x", "attempt": 1, "pid": 1}', "9" * 5000]
)
def test_a_damaged_address_of_the_master_is_said(
    staging: Path, home: JobDirectories, text: str
) -> None:
    (staging / "master.json").write_text(text)
    identity = {"pid": os.getpid(), "start_ticks": processes.start_ticks(os.getpid())}
    (staging / "node.json").write_text(json.dumps(identity))
    handle = LocalJobHandle(home, JOB, master=[sys.executable, "-c", ""], master_timeout_s=0.1)
    with pytest.raises(UnreachableError, match=r"is damaged|address is not understood"):
        handle.status()


def test_a_stranger_on_the_masters_port_is_not_believed(
    staging: Path, masters: Callable[..., Master], home: JobDirectories
) -> None:
    masters()
    (staging / "secret").write_text("6" * 64)
    with pytest.raises(UnreachableError, match="signature"):
        LocalJobHandle(home, JOB, master_timeout_s=0.2).status()


def test_a_dead_job_is_finalized_and_then_answers(
    staging: Path, home: JobDirectories, tmp_path: Path
) -> None:
    die(staging)
    script = tmp_path / "finalize.py"
    prepared = tmp_path / "record.json"
    record(home)
    home.record(JOB).rename(prepared)
    script.write_text(f"import os; os.rename({str(prepared)!r}, {str(home.record(JOB))!r})")
    handle = LocalJobHandle(home, JOB, master=[sys.executable, str(script)])
    assert handle.status() == ENDED
    assert not staging.exists()


def test_two_commands_finalize_a_job_once(
    staging: Path, home: JobDirectories, tmp_path: Path
) -> None:
    die(staging)
    count = tmp_path / "count"
    once = f"import time; open({str(count)!r}, 'a').write('x'); time.sleep(0.2)"
    handles = [LocalJobHandle(home, JOB, master=[sys.executable, "-c", once]) for _ in range(2)]
    asking = [later(handle.status) for handle in handles]
    for thread in asking:
        thread.join()
    assert count.read_text() == "x"
    assert handles[0].status() == handles[1].status()


def test_a_job_that_went_is_not_found(home: JobDirectories, handle: LocalJobHandle) -> None:
    with pytest.raises(NotFoundError, match=JOB):
        handle.status()


class TestLogs:
    def test_a_task_the_job_does_not_have(
        self, home: JobDirectories, handle: LocalJobHandle
    ) -> None:
        record(home)
        with pytest.raises(NotFoundError, match="no task worker:1") as caught:
            handle.logs([TaskId("worker:1")], follow=False)
        assert caught.value.hint == "did you mean 'worker:0'?"

    def test_following_ends_with_the_job(
        self, staging: Path, home: JobDirectories, handle: LocalJobHandle
    ) -> None:
        log = home.logs(JOB) / "worker-0" / "1" / "stdout"
        log.parent.mkdir(parents=True)
        log.write_text("one\n")
        lines = handle.logs([], follow=True)
        assert next(lines).text == "one"

        def end() -> None:
            with open(log, "a") as file:
                file.write("two\n")
            record(home)
            die(staging)

        ending = later(end)
        assert [line.text for line in lines] == ["two"]
        ending.join()

    def test_following_a_job_that_dies_finalizes_it(
        self, staging: Path, home: JobDirectories
    ) -> None:
        handle = LocalJobHandle(home, JOB, master=[sys.executable, "-c", ""])
        die(staging)
        assert list(handle.logs([], follow=True)) == []
        assert home.record(JOB).exists()
