"""Starters and NodeManagers show the same files, byte for byte; the master locates starters."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tests.backends.yarn.logs.fake_starter import SECRET, WORKER, FakeStarter, run_fake_starter
from tests.client.fakes import status, task
from tests.hadoop.logs.fake_node_manager import C, log_node
from ytf.backends import master_api
from ytf.backends.api import MasterAddress
from ytf.backends.stream_reader import LogSource, StreamFile, TaskStream
from ytf.backends.yarn.job.job_handle import YarnJobHandle
from ytf.backends.yarn.logs import live_sources
from ytf.backends.yarn.logs.live_sources import ContainerLocator, NodeLogSource, StarterLogSource
from ytf.errors import NotFoundError, UnreachableError
from ytf.specs.status import JobState, JobStatus, StarterAddress, TaskState
from ytf.starter.control_server import MAX_UNAUTHENTICATED
from ytf.wire.http_client import Answer, ChannelError, NotSentError, UnansweredError
from ytf.wire.signing import Signer

FILES = {
    "worker-0.1.stdout": b"of an attempt that is over\n",
    "worker-0.2.stdout": b"x" * 2_500_000 + b"\nend\n",
    "worker-0.2.stdout.1": b"older\n",
    "worker-0.2.stderr": b"\xff\x00 not text",
}
OUT = StreamFile(TaskStream(WORKER, 2, "stdout"))


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[FakeStarter]:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    for other in ("prelaunch.out", "worker-0.x.stdout", "worker-01.1.stdout"):
        (tmp_path / other).write_bytes(b"not ours")
    with run_fake_starter(tmp_path) as found:
        yield found


@pytest.fixture
def at_starter(starter: FakeStarter) -> Iterator[StarterLogSource]:
    with closing(StarterLogSource(starter.place, Signer(SECRET))) as logs:
        yield logs


def all_of(place: LogSource) -> dict[str, bytes]:
    return {file.name: b"".join(place.read(file, 0)) for file in place.sizes()}


def test_a_starter_shows_all_attempts_of_its_container(at_starter: StarterLogSource) -> None:
    assert {file.name: size for file, size in at_starter.sizes().items()} == {
        name: len(data) for name, data in FILES.items()
    }
    assert all_of(at_starter) == FILES


def test_a_node_shows_the_same() -> None:
    with log_node() as node:
        node.files = {**FILES, "prelaunch.out": b"not ours"}
        assert all_of(NodeLogSource(node.address, C)) == FILES


def test_from_some_place_on(at_starter: StarterLogSource) -> None:
    assert b"".join(at_starter.read(OUT, 2_500_001)) == b"end\n"
    assert b"".join(at_starter.read(OUT, 2_500_005)) == b""
    assert b"".join(at_starter.read(OUT, 9_999_999)) == b""


def test_a_program_that_never_stops_writing_does_not_keep_the_reader(
    at_starter: StarterLogSource, starter: FakeStarter
) -> None:
    size = 0
    for piece in at_starter.read(OUT, 0):
        size += len(piece)
        with (starter.folder / OUT.name).open("ab") as file:
            file.write(b"y" * 2_000_000)
    assert size < 5_000_000


def test_what_is_not_there(at_starter: StarterLogSource) -> None:
    with pytest.raises(NotFoundError):
        list(at_starter.read(StreamFile(TaskStream(WORKER, 7, "stdout")), 0))


def test_a_connection_that_was_closed_is_opened_again(
    at_starter: StarterLogSource, starter: FakeStarter
) -> None:
    at_starter.sizes()
    host, _, port = starter.control.rpartition(":")
    count = 2 * MAX_UNAUTHENTICATED
    silent = [socket.create_connection((host, int(port)), 5) for _ in range(count)]
    assert at_starter.sizes()
    for sock in silent:
        sock.close()


def test_a_starter_that_has_gone_is_named(starter: FakeStarter) -> None:
    starter.end()
    with (
        closing(StarterLogSource(starter.place, Signer(SECRET))) as logs,
        pytest.raises(UnreachableError, match=f"the starter at {starter.control} does not answer"),
    ):
        logs.sizes()


def test_a_stranger_on_its_port_is_not_believed(starter: FakeStarter) -> None:
    with (
        closing(StarterLogSource(starter.place, Signer(b"another job's"))) as logs,
        pytest.raises(UnreachableError),
    ):
        logs.sizes()


def test_one_that_hangs_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_sources, "_LIST_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        starter = FakeStarter.place_at(f"127.0.0.1:{silent.getsockname()[1]}")
        with (
            closing(StarterLogSource(starter, Signer(SECRET))) as logs,
            pytest.raises(UnreachableError, match="timed out"),
        ):
            logs.sizes()


PLACE = FakeStarter.place_at("n:4242")


class FakeJob:
    """A job and its master, which answers ``answer`` or fails with it."""

    def __init__(self) -> None:
        self.master: MasterAddress | None = MasterAddress("http://n:1", 1)
        self.known_secret: bytes | None = SECRET
        self.answer: list[StarterAddress] | ChannelError = [PLACE]
        self.asked = 0

    def find_master(self) -> MasterAddress | None:
        return self.master

    def secret(self) -> bytes | None:
        return self.known_secret

    def call(self, url: str, secret: bytes, method: str, path: str, *_: object) -> Answer:
        assert (url, secret, path) == ("http://n:1", SECRET, "/client/v1/starters")
        self.asked += 1
        if isinstance(self.answer, ChannelError):
            raise self.answer
        return Answer(200, msgspec.json.encode(self.answer), {})


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> FakeJob:
    found = FakeJob()
    monkeypatch.setattr(master_api, "signed_call", found.call)
    return found


def running(state: TaskState = TaskState.RUNNING, **fields: object) -> JobStatus:
    given = {
        "container": PLACE.container,
        "port": 1,
        "node": "n:9",
        "log_url": "http://n:8042/node/containerlogs/c/alice",
        **fields,
    }
    return status(JobState.RUNNING, task("worker", 0, state, **given))


def starters_of(job: FakeJob) -> ContainerLocator:
    return ContainerLocator(cast(YarnJobHandle, job))


def test_a_container_with_all_that_is_known_of_it(job: FakeJob) -> None:
    starters = starters_of(job)
    [source] = starters.locate(running())
    assert (source.task, source.container, source.node) == ("worker:0", PLACE.container, "n:9")
    assert (source.web, source.starter, source.has_ended) == ("n:8042", PLACE, False)


def test_tasks_without_a_container_are_nowhere(job: FakeJob) -> None:
    assert starters_of(job).locate(running(TaskState.PENDING, container=None)) == []


def test_the_master_is_asked_when_something_changed(job: FakeJob) -> None:
    starters = starters_of(job)
    for _ in range(3):
        starters.locate(running())
    assert job.asked == 1
    starters.locate(running(attempt=2))
    assert job.asked == 2


def test_the_master_is_asked_again_for_one_that_is_lacking(job: FakeJob) -> None:
    job.answer = []
    starters = starters_of(job)
    assert starters.locate(running())[0].starter is None
    job.answer = [PLACE]
    assert starters.locate(running())[0].starter == PLACE


def test_what_was_known_stays_known_while_there_is_no_master(job: FakeJob) -> None:
    starters = starters_of(job)
    starters.locate(running())
    job.answer = NotSentError("nobody listens there")
    # As recorded: without addresses.
    [source] = starters.locate(running(log_url=None, attempt=2))
    assert (source.web, source.starter) == ("n:8042", PLACE)
    job.master = None
    [source] = starters_of(job).locate(running())
    assert (source.web, source.starter) == ("n:8042", None)


def test_whoever_may_not_take_part_is_told_of_no_starters(job: FakeJob) -> None:
    job.known_secret = None
    [source] = starters_of(job).locate(running())
    assert (source.web, source.starter) == ("n:8042", None)


def test_one_whose_starter_has_gone_has_ended(job: FakeJob) -> None:
    starters = starters_of(job)
    [source] = starters.locate(running(TaskState.SUCCEEDED))
    assert not source.has_ended
    job.answer = []
    [source] = starters.locate(running(TaskState.SUCCEEDED, exit_code=0))
    assert source.has_ended
    assert source.starter is None


def test_the_end_of_a_starter_is_heard_of_though_no_status_tells_it(job: FakeJob) -> None:
    starters = starters_of(job)
    over = running(TaskState.SUCCEEDED, exit_code=0)
    [source] = starters.locate(over)
    assert (source.starter, source.is_over, source.has_ended) == (PLACE, True, False)
    job.answer = []
    [source] = starters.locate(over)
    assert (source.starter, source.is_over, source.has_ended) == (None, True, True)
    asked = job.asked
    starters.locate(over)
    assert job.asked == asked


def test_a_silent_master_is_known_as_such_until_it_answers(job: FakeJob) -> None:
    starters = starters_of(job)
    job.answer = UnansweredError("timed out")
    starters.locate(running())
    assert starters.master_error == "timed out"
    job.answer = [PLACE]
    starters.locate(running())
    assert starters.master_error is None
