"""Each line of a task comes once: while it runs, when its log is cut, and after its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.backends.yarn.test_sweep import JOB, FakeRm
from tests.client.fakes import status, task
from tests.hadoop_logs.made import aggregated
from tests.hadoop_logs.nodes import C, LogNode, log_node
from ytf.backends.api import LogLine
from ytf.backends.yarn import logs
from ytf.backends.yarn.handle import YarnJob
from ytf.backends.yarn.logs import read_logs
from ytf.hadoop.conf import Configuration
from ytf.specs.status import JobState, JobStatus, TaskState
from ytf.storage.files import LocalFiles
from ytf.storage.hdfs import HdfsFiles

OUT = "worker-0.1.stdout"


class Job(YarnJob):
    """One whose tasks run at a node of the test's, until its logs are gathered in ``root``."""

    def __init__(self, root: Path, nm: LogNode) -> None:
        conf = Configuration.of({"yarn.nodemanager.remote-app-log-dir": str(root)})
        super().__init__(FakeRm(conf, "alice"), cast(HdfsFiles, LocalFiles()), JOB)
        self._gathered = root / f"alice/bucket-logs-tfile/0007/{JOB}"
        self._nm = nm

    def status(self) -> JobStatus:
        if self._gathered.exists():
            return status(JobState.SUCCEEDED)
        url = f"http://{self._nm.address}/node/containerlogs"
        return status(
            JobState.RUNNING, task("worker", 0, TaskState.RUNNING, container=C, log_url=url)
        )

    def wait_for_logs(self) -> None:
        return

    def gather(self) -> None:
        self._gathered.mkdir(parents=True)
        files = dict(sorted(self._nm.files.items()))
        (self._gathered / "n_1").write_bytes(aggregated({C: files}))


@pytest.fixture
def nm() -> Iterator[LogNode]:
    with log_node() as found:
        yield found


@pytest.fixture
def job(tmp_path: Path, nm: LogNode, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(logs, "_POLL_S", 0.0)
    return Job(tmp_path, nm)


def take(lines: Iterator[LogLine], count: int) -> list[str]:
    return [next(lines).text for _ in range(count)]


def test_each_look_asks_for_what_is_new(job: Job, nm: LogNode) -> None:
    nm.files[OUT] = b"x" * 1_000_000 + b"\none\n"
    lines = read_logs(job, [], follow=True)
    assert take(lines, 2) == ["x" * 1_000_000, "one"]
    nm.sent = 0
    nm.files[OUT] += b"two\nthr"
    assert take(lines, 1) == ["two"]
    assert nm.sent < 200_000
    nm.files[OUT] += b"ee\nend"
    job.gather()
    assert [line.text for line in lines] == ["three", "end"]


def test_an_older_half_comes_first_and_once(job: Job, nm: LogNode) -> None:
    nm.files.update({OUT: b"", f"{OUT}.1": b"old\n"})
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    nm.before_reading = look
    lines = read_logs(job, [], follow=True)
    assert take(lines, 1) == ["old"]
    nm.files[OUT] = b"new\n"
    assert take(lines, 1) == ["new"]
    assert looks == 2
    # Cut, and nothing new in it yet: the older half is of what was told already.
    nm.files.update({OUT: b"", f"{OUT}.1": b"old\nnew\n"})
    job.gather()
    assert list(lines) == []


def test_an_older_half_that_a_cut_left_is_not_told_again(
    job: Job, nm: LogNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    nm.files[OUT] = b"one\n"
    lines = read_logs(job, [], follow=True)
    assert take(lines, 1) == ["one"]
    nm.files.update({OUT: b"", f"{OUT}.1": b"one\n"})
    pauses = 0

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            nm.files[OUT] = b"two\n"

    monkeypatch.setattr("ytf.backends.yarn.logs.time.sleep", pause)
    assert take(lines, 1) == ["two"]


def test_gathered_halves_are_told_in_their_order(job: Job, nm: LogNode) -> None:
    nm.files.update({OUT: b"new\n", f"{OUT}.1": b"old\n"})
    job.gather()
    assert [line.text for line in read_logs(job, [], follow=False)] == ["old", "new"]


def test_a_log_that_was_cut_before_it_was_gathered(job: Job, nm: LogNode) -> None:
    nm.files[OUT] = b"one\ntwo\n"
    lines = read_logs(job, [], follow=True)
    assert take(lines, 2) == ["one", "two"]
    nm.files[OUT] = b"3\n"
    job.gather()
    assert [line.text for line in lines] == ["3"]
