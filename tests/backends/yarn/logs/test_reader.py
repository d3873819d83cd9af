"""Each line of a task is read once: while it runs, after its container, and after the job."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import (
    APP,
    JOB,
)
from tests.backends.yarn.logs.fake_job import FakeLoggedJob
from tests.backends.yarn.logs.fake_starter import SECRET, FakeStarter, run_fake_starter
from tests.client.fakes import status, task
from tests.hadoop.logs.fake_node_manager import LogNode, log_node
from ytf.backends import master_api
from ytf.backends.api import LogLine
from ytf.backends.yarn.logs import aggregated, container_log_reader, reader
from ytf.backends.yarn.logs.reader import read_logs
from ytf.errors import NotFoundError, UnreachableError
from ytf.hadoop.yarn.ids import AttemptId
from ytf.hadoop.yarn.records import (
    LogStatus,
    Resource,
    ResourceUsage,
)
from ytf.specs.ids import TaskId
from ytf.specs.status import JobState, TaskState
from ytf.testing.waiting import eventually
from ytf.wire.http_client import Answer, UnansweredError

OUT = "worker-0.1.stdout"
DEAD = "127.0.0.1:9"


@pytest.fixture
def nm() -> Iterator[LogNode]:
    with log_node() as found:
        yield found


@pytest.fixture
def job(tmp_path: Path, nm: LogNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLoggedJob]:
    monkeypatch.setattr(reader, "_READ_EVERY_S", 0.01)
    monkeypatch.setattr(reader, "_OBSERVE_S", 0.02)
    monkeypatch.setattr(aggregated, "_POLL_S", 0.01)
    monkeypatch.setattr(aggregated, "_PROBE_S", 0.1)
    found = FakeLoggedJob(tmp_path / "hdfs", nm)

    def call(url: str, secret: bytes, method: str, path: str, *_: object) -> Answer:
        assert (secret, method, path) == (SECRET, "GET", "/client/v1/starters")
        return Answer(200, msgspec.json.encode(found.starters), {})

    monkeypatch.setattr(master_api, "signed_call", call)
    yield found
    # Whatever follows it comes to its end.
    found.become(status(JobState.KILLED))


@pytest.fixture
def starter(tmp_path: Path, job: FakeLoggedJob) -> Iterator[FakeStarter]:
    folder = tmp_path / "logs"
    folder.mkdir()
    with run_fake_starter(folder) as found:
        job.starters = [found.place]
        yield found


def take(lines: Iterator[LogLine], count: int) -> list[str]:
    return [line.text for line in itertools.islice(lines, count)]


def write(starter: FakeStarter, data: bytes, name: str = OUT) -> None:
    with (starter.folder / name).open("ab") as file:
        file.write(data)


def files_of(starter: FakeStarter) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in starter.folder.iterdir() if each.is_file()}


def test_from_the_starter_to_the_node_to_hdfs(
    job: FakeLoggedJob, nm: LogNode, starter: FakeStarter
) -> None:
    nm.before_reading = lambda: pytest.fail("the starter can be asked")
    lines = read_logs(job, job.status(), [], follow=True)
    write(starter, b"one\n")
    assert take(lines, 1) == ["one"]
    write(starter, b"two\nthr")
    assert take(lines, 1) == ["two"]
    write(starter, b"ee\n")
    assert take(lines, 1) == ["three"]
    nm.before_reading = lambda: None
    write(starter, b"four\nfi")
    nm.files = files_of(starter)
    job.starters = []
    starter.end()
    job.become(status(JobState.RUNNING, job.worker(state=TaskState.SUCCEEDED)))
    assert take(lines, 1) == ["four"]
    job.aggregate(nm.files | {OUT: nm.files[OUT] + b"ve\nend"})
    job.end()
    assert [line.text for line in lines] == ["five", "end"]


def test_who_follows_may_be_cancelled_while_nothing_is_written(
    job: FakeLoggedJob, starter: FakeStarter
) -> None:
    is_cancelled = False

    def check() -> None:
        if is_cancelled:
            raise KeyboardInterrupt

    lines = read_logs(job, job.status(), [], follow=True, check=check)
    write(starter, b"one\n")
    assert take(lines, 1) == ["one"]
    is_cancelled = True
    with pytest.raises(KeyboardInterrupt):
        next(lines)


def test_the_next_attempt_in_another_container(
    job: FakeLoggedJob, nm: LogNode, starter: FakeStarter, tmp_path: Path
) -> None:
    lines = read_logs(job, job.status(), [], follow=True)
    write(starter, b"first\n")
    assert take(lines, 1) == ["first"]
    nm.files = files_of(starter) | {OUT: b"first\nits last word\n"}
    starter.end()
    second = tmp_path / "second"
    second.mkdir()
    with run_fake_starter(second, "c2") as successor:
        job.starters = [successor.place]
        job.become(status(JobState.RUNNING, job.worker(attempt=2, container="c2")))
        write(successor, b"second\n", "worker-0.2.stdout")
        found = sorted((line.attempt, line.text) for line in itertools.islice(lines, 2))
        assert found == [(1, "its last word"), (2, "second")]
        job.aggregate(nm.files, "n_1")
        job.aggregate(files_of(successor), "n_2", "c2")
        job.end(job.worker(attempt=2, container="c2"))
        assert list(lines) == []


def test_starters_that_no_master_told_of_at_first(
    job: FakeLoggedJob, nm: LogNode, tmp_path: Path
) -> None:
    nm.files[OUT] = b"one\n"
    job.is_closed = True
    lines = read_logs(job, job.status(), [], follow=True)
    assert take(lines, 1) == ["one"]
    with run_fake_starter(tmp_path) as starter:
        write(starter, b"one\ntwo\n")
        job.starters = [starter.place]
        job.is_closed = False
        assert take(lines, 1) == ["two"]
        job.aggregate(files_of(starter))
        job.end()
        assert list(lines) == []


def test_a_cluster_that_says_nothing_does_not_end_the_reading(
    job: FakeLoggedJob, starter: FakeStarter
) -> None:
    said: list[str] = []
    lines = read_logs(job, job.status(), [], follow=True, notify=said.append)
    write(starter, b"one\n")
    assert take(lines, 1) == ["one"]
    job.become(UnreachableError("the ResourceManager does not answer"))
    for number in range(3):
        write(starter, b"%d\n" % number)
        assert take(lines, 1) == [str(number)]
    job.aggregate(files_of(starter))
    job.end()
    assert list(lines) == []
    assert said == ["the ResourceManager does not answer; what can be read without it is read on"]


def test_a_cluster_that_stays_away_does(
    job: FakeLoggedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_SILENCE_S", 0.05)
    job.become(UnreachableError("the ResourceManager does not answer"))
    with pytest.raises(UnreachableError):
        list(read_logs(job, job.status(), [], follow=True))


def test_without_following_it_is_what_there_is_now(
    job: FakeLoggedJob, starter: FakeStarter
) -> None:
    write(starter, b"one\ntw")
    assert [line.text for line in read_logs(job, job.status(), [], follow=False)] == ["one", "tw"]
    assert list(read_logs(job, job.status(), [TaskId("worker:1")], follow=False)) == []


def test_a_large_log_is_not_held_in_memory(job: FakeLoggedJob, starter: FakeStarter) -> None:
    write(starter, b"".join(b"%d\n" % number for number in range(200_000)))
    lines = read_logs(job, job.status(), [], follow=False)
    assert take(lines, 3) == ["0", "1", "2"]
    assert sum(1 for _ in lines) == 199_997


@pytest.mark.parametrize("follow", [True, False])
def test_a_reader_that_leaves_ends_the_threads(
    job: FakeLoggedJob, starter: FakeStarter, follow: bool
) -> None:
    before = set(threading.enumerate())
    write(starter, b"one\n" * 100_000)
    lines = read_logs(job, job.status(), [], follow=follow)
    assert isinstance(lines, Generator)
    assert take(lines, 1) == ["one"]
    lines.close()

    def left() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each not in before]

    # The starter's own are of this process, too.
    eventually(lambda: all(each.name == "control" for each in left()), 10, lambda: str(left()))


def test_a_dead_node_is_named_and_the_others_go_on(
    job: FakeLoggedJob, starter: FakeStarter
) -> None:
    lost = msgspec.structs.replace(
        job.worker(container="c9", node="n9:1", log_url=f"http://{DEAD}/node"), index=9
    )
    job.become(status(JobState.RUNNING, lost, job.worker()))
    write(starter, b"one\n")
    said: list[str] = []
    lines = read_logs(job, job.status(), [], follow=False, notify=said.append)
    assert [line.text for line in lines] == ["one"]
    [text] = said
    assert text.startswith("the log of worker:9 on n9:1 cannot be read: the NodeManager at")
    assert "the other logs are read on" in text


def test_starters_behind_a_firewall_are_told_of_once(job: FakeLoggedJob, nm: LogNode) -> None:
    job.starters = [FakeStarter.place_at(DEAD)]
    nm.files[OUT] = b"one\n"
    said: list[str] = []
    assert [
        line.text for line in read_logs(job, job.status(), [], follow=False, notify=said.append)
    ] == ["one"]
    [text] = said
    assert text.startswith(f"the starter at {DEAD} does not answer")


def test_what_a_node_aggregates_is_told_before_others_have(
    job: FakeLoggedJob, nm: LogNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregated, "_PROBE_S", 60.0)
    other = msgspec.structs.replace(job.worker(container="c2"), index=1)
    job.end(job.worker(), other)
    job.aggregate({OUT: b"one\n"})
    lines = read_logs(job, job.status(), [], follow=True)
    assert take(lines, 1) == ["one"]
    job.aggregate({"worker-1.1.stdout": b"two\n"}, "n_2", "c2")
    # Reading does not wait until YARN reports the aggregation as complete.
    assert [line.text for line in lines] == ["two"]


def test_nobody_waits_for_a_dead_node_to_aggregate(job: FakeLoggedJob) -> None:
    lost = msgspec.structs.replace(
        job.worker(container="c9", node="n9:1", log_url=f"http://{DEAD}/node"), index=9
    )
    job.end(job.worker(), lost)
    job.aggregate({OUT: b"one\n"})
    said: list[str] = []
    lines = read_logs(job, job.status(), [], follow=False, notify=said.append)
    assert [line.text for line in lines] == ["one"]
    [text] = said
    assert text.startswith("the log of worker:9 on n9:1 cannot be read")
    assert "lost with its node" in text


def test_an_earlier_attempt_of_which_nothing_came_is_named(
    job: FakeLoggedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregated, "_AGGREGATION_S", 0.3)
    job.end(job.worker(attempt=2))
    job.aggregate({"worker-0.2.stdout": b"one\n"})
    said: list[str] = []
    lines = read_logs(job, job.status(), [], follow=False, notify=said.append)
    assert [line.text for line in lines] == ["one"]
    assert said[0].startswith("the log of worker:0 (attempt 1) is waited for")
    assert said[1].startswith("no log of worker:0 (attempt 1) is in HDFS")
    assert len(said) == 2


def test_where_nothing_is_aggregated_the_nodes_are_asked(job: FakeLoggedJob, nm: LogNode) -> None:
    nm.files[OUT] = b"one\nend"
    job.end(progress=LogStatus.DISABLED)
    assert [line.text for line in read_logs(job, job.status(), [], follow=False)] == ["one", "end"]


def test_where_the_status_does_not_say_where_yarn_does(job: FakeLoggedJob, nm: LogNode) -> None:
    nm.files[OUT] = b"one\n"
    gone = msgspec.structs.replace(job.worker(container="c9", node="n9:1", log_url=None), index=9)
    job.end(job.worker(log_url=None), gone)
    said: list[str] = []
    lines = read_logs(job, job.status(), [], follow=False, notify=said.append)
    assert [line.text for line in lines] == ["one"]
    assert said == ["the log of worker:9 on n9:1 cannot be read: YARN knows no such node any more"]


def never_launched(job: FakeLoggedJob, **fields: object) -> None:
    """It is over, and its tasks had no containers; ``fields`` is what YARN tells otherwise."""
    job.end(task("worker", 0, TaskState.KILLED), progress=LogStatus.NOT_STARTED)
    known = job.rm.call(lambda rm: rm.report(APP))
    job.yarn_says(msgspec.structs.replace(known, **{"usage": usage(), **fields}))


def usage(memory_mb_seconds: int = 0) -> ResourceUsage:
    # What YARN tells of an application that holds nothing any more.
    nothing = Resource(-1, -1)
    return ResourceUsage(
        used_containers=-1,
        used=nothing,
        needed=nothing,
        memory_mb_seconds=memory_mb_seconds,
        vcore_seconds=0,
    )


@pytest.mark.parametrize("follow", [True, False])
def test_a_job_that_never_had_a_container_has_no_logs_to_wait_for(
    job: FakeLoggedJob, follow: bool
) -> None:
    never_launched(job)
    said: list[str] = []
    assert list(read_logs(job, job.status(), [], follow=follow, notify=said.append)) == []
    assert said == [f"no task of {JOB} ever ran, so there are no logs"]


@pytest.mark.parametrize(
    "fields",
    [
        {"launched_ms": 1600},
        {"rpc_port": 4242},
        {"usage": usage(memory_mb_seconds=1)},
        {"attempt": AttemptId(APP, 2)},
        {"usage": None},
        {"user": "bob"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_one_that_may_have_had_some_is_waited_for(
    job: FakeLoggedJob, fields: dict[str, object]
) -> None:
    never_launched(job, log_status=LogStatus.SUCCEEDED, **fields)
    job.aggregate({OUT: b"one\n"})
    assert [line.text for line in read_logs(job, job.status(), [], follow=False)] == ["one"]


def test_a_job_whose_master_alone_ran(job: FakeLoggedJob) -> None:
    never_launched(job, log_status=LogStatus.SUCCEEDED, launched_ms=1600)
    job.aggregate({"stderr": b"a master's\n"})
    said: list[str] = []
    assert list(read_logs(job, job.status(), [], follow=False, notify=said.append)) == []
    assert said == [f"no task of {JOB} ever ran, so there are no logs"]


def test_a_task_that_is_over_is_no_alarm_while_others_run(
    job: FakeLoggedJob, nm: LogNode, starter: FakeStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_log_reader, "_SILENCE_S", 0.0)
    said: list[str] = []
    lines = read_logs(job, job.status(), [], follow=True, notify=said.append)
    write(starter, b"one\n")
    assert take(lines, 1) == ["one"]
    # The master has not seen its container's end, and later no status tells it.
    job.become(status(JobState.RUNNING, job.worker(state=TaskState.SUCCEEDED)))
    seen = job.waits
    eventually(lambda: job.waits > seen + 1, 60, lambda: "the status is not seen")
    nm.files = files_of(starter) | {OUT: b"one\ntwo\n"}
    # As a starter that is gone: nobody listens where it was.
    job.starters = [FakeStarter.place_at(DEAD)]
    assert take(lines, 1) == ["two"]
    job.starters = []
    job.aggregate(nm.files)
    job.end(job.worker(state=TaskState.SUCCEEDED))
    assert list(lines) == []
    assert said == []


def test_that_the_master_does_not_answer_is_said(
    job: FakeLoggedJob, nm: LogNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*args: object) -> Answer:
        assert args[-1] == pytest.approx(2.0)
        raise UnansweredError("timed out")

    monkeypatch.setattr(master_api, "signed_call", hang)
    nm.files[OUT] = b"one\n"
    said: list[str] = []
    assert [
        line.text for line in read_logs(job, job.status(), [], follow=False, notify=said.append)
    ] == ["one"]
    assert said == ["the master does not answer: timed out; the nodes are asked instead"]


def test_no_logs_at_all(job: FakeLoggedJob) -> None:
    job.end(job.worker(log_url=None), progress=LogStatus.SUCCEEDED)
    with pytest.raises(NotFoundError, match="no aggregated logs"):
        list(read_logs(job, job.status(), [], follow=False))


def test_an_attempt_that_wrote_nothing_is_no_news_once_all_is_aggregated(
    job: FakeLoggedJob,
) -> None:
    job.end(job.worker(attempt=2), progress=LogStatus.SUCCEEDED)
    job.aggregate({"worker-0.2.stdout": b"one\n"})
    said: list[str] = []
    lines = read_logs(job, job.status(), [], follow=False, notify=said.append)
    assert [line.text for line in lines] == ["one"]
    assert said == []


def test_rotated_files_come_before_current_ones(job: FakeLoggedJob) -> None:
    job.end()
    job.aggregate({OUT: b"new\n", f"{OUT}.1": b"old\n", "worker-0.1.stderr": b"err\n"})
    found = [(line.stream, line.text) for line in read_logs(job, job.status(), [], follow=False)]
    assert [text for stream, text in found if stream == "stdout"] == ["old", "new"]
    assert ("stderr", "err") in found


def test_a_log_that_was_cut_before_it_was_aggregated(
    job: FakeLoggedJob, starter: FakeStarter
) -> None:
    write(starter, b"one\ntwo\n")
    lines = read_logs(job, job.status(), [], follow=True)
    assert take(lines, 2) == ["one", "two"]
    job.aggregate({f"{OUT}.1": b"one\ntwo\nthree\n", OUT: b"4\n"})
    job.end()
    assert [line.text for line in lines] == ["three", "4"]
