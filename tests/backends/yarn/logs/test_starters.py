"""What is known of where a job's starters listen, with and without a master that answers."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import msgspec
import pytest

from tests.backends.yarn.logs.log_places import SECRET, MadeStarter
from tests.client.fakes import status, task
from ytf.backends import answers
from ytf.backends.api import Access, MasterAddress
from ytf.backends.yarn.job.handle import YarnJob
from ytf.backends.yarn.logs.starters import Starters
from ytf.errors import RefusedError
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.names import JobId
from ytf.specs.status import JobState, JobStatus, StarterPlace, TaskState
from ytf.starter.http import Answer, ChannelError, NotSentError, OutcomeUnknownError

PLACE = MadeStarter.place_at("n:4242")
ACCESS = Access(
    job=JobId("application_1_1"),
    spec=JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="x"),
    secret=SECRET,
    find_master=lambda: MasterAddress("http://n:1", 1),
    folder=None,
)


class FakeJob:
    """A job and its master, which answers ``answer`` or fails with it."""

    def __init__(self) -> None:
        self.open: Access | RefusedError = ACCESS
        self.answer: list[StarterPlace] | ChannelError = [PLACE]
        self.asked = 0

    def access(self) -> Access:
        if isinstance(self.open, RefusedError):
            raise self.open
        return self.open

    def call(self, url: str, secret: bytes, method: str, path: str, *_: object) -> Answer:
        assert (url, secret, path) == ("http://n:1", SECRET, "/client/v1/starters")
        self.asked += 1
        if isinstance(self.answer, ChannelError):
            raise self.answer
        return Answer(200, msgspec.json.encode(self.answer), {})


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> FakeJob:
    found = FakeJob()
    monkeypatch.setattr(answers, "signed_call", found.call)
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


def starters_of(job: FakeJob) -> Starters:
    return Starters(cast(YarnJob, job))


def test_a_container_with_all_that_is_known_of_it(job: FakeJob) -> None:
    starters = starters_of(job)
    [source] = starters.sources(running())
    assert (source.task, source.container, source.node) == ("worker:0", PLACE.container, "n:9")
    assert (source.web, source.starter, source.has_ended) == ("n:8042", PLACE, False)


def test_tasks_without_a_container_are_nowhere(job: FakeJob) -> None:
    assert starters_of(job).sources(running(TaskState.PENDING, container=None)) == []


def test_the_master_is_asked_when_something_changed(job: FakeJob) -> None:
    starters = starters_of(job)
    for _ in range(3):
        starters.sources(running())
    assert job.asked == 1
    starters.sources(running(attempt=2))
    assert job.asked == 2


def test_the_master_is_asked_again_for_one_that_is_lacking(job: FakeJob) -> None:
    job.answer = []
    starters = starters_of(job)
    assert starters.sources(running())[0].starter is None
    job.answer = [PLACE]
    assert starters.sources(running())[0].starter == PLACE


def test_what_was_known_stays_known_while_there_is_no_master(job: FakeJob) -> None:
    starters = starters_of(job)
    starters.sources(running())
    job.answer = NotSentError("nobody listens there")
    # As recorded: without addresses.
    [source] = starters.sources(running(log_url=None, attempt=2))
    assert (source.web, source.starter) == ("n:8042", PLACE)
    job.open = replace(ACCESS, find_master=lambda: None)
    [source] = starters_of(job).sources(running())
    assert (source.web, source.starter) == ("n:8042", None)


def test_whoever_may_not_take_part_is_told_of_no_starters(job: FakeJob) -> None:
    job.open = RefusedError("only alice")
    [source] = starters_of(job).sources(running())
    assert (source.web, source.starter) == ("n:8042", None)


def test_one_whose_starter_has_gone_has_ended(job: FakeJob) -> None:
    starters = starters_of(job)
    [source] = starters.sources(running(TaskState.SUCCEEDED))
    assert not source.has_ended
    job.answer = []
    [source] = starters.sources(running(TaskState.SUCCEEDED, exit_code=0))
    assert source.has_ended
    assert source.starter is None


def test_the_end_of_a_starter_is_heard_of_though_no_status_tells_it(job: FakeJob) -> None:
    starters = starters_of(job)
    over = running(TaskState.SUCCEEDED, exit_code=0)
    [source] = starters.sources(over)
    assert (source.starter, source.is_over, source.has_ended) == (PLACE, True, False)
    job.answer = []
    [source] = starters.sources(over)
    assert (source.starter, source.is_over, source.has_ended) == (None, True, True)
    asked = job.asked
    starters.sources(over)
    assert job.asked == asked


def test_a_silent_master_is_known_as_such_until_it_answers(job: FakeJob) -> None:
    starters = starters_of(job)
    job.answer = OutcomeUnknownError("timed out")
    starters.sources(running())
    assert starters.silence == "timed out"
    job.answer = [PLACE]
    starters.sources(running())
    assert starters.silence is None
