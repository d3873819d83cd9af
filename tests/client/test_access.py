"""Finding the master from outside: waited for, replaced, and missed when the job is over."""

from __future__ import annotations

import pytest

from tests.client.fakes import JOB, FakeHandle, status
from ytf.backends.api import Access, MasterAddress, over
from ytf.client.access import ClientWhereabouts, wait_for_master
from ytf.errors import NotFoundError, UnreachableError
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import JobState
from ytf.starter.situation import STOPPED, DismissedError

FIRST = MasterAddress("http://node1:4001", 1)
SECOND = MasterAddress("http://node2:4002", 2)


class Story:
    """What a backend says of the master, look by look; the last stays."""

    def __init__(self, *answers: MasterAddress | Exception | None) -> None:
        self._answers = list(answers)

    def __call__(self) -> MasterAddress | None:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def access(*answers: MasterAddress | Exception | None) -> Access:
    return Access(
        job=JOB,
        spec=JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true"),
        secret=b"secret",
        find_master=Story(*answers),
        folder=None,
    )


def test_a_master_that_has_to_queue_is_waited_for_and_why_is_told() -> None:
    queued = status(JobState.SUBMITTED, diagnostics="the queue is full")
    handle = FakeHandle(status(JobState.SUBMITTED), queued, queued, status(JobState.STARTING))
    told: list[str] = []
    assert wait_for_master(handle, access(None, None, None, None, FIRST), told.append) == FIRST
    assert told == ["the queue is full"]


def test_a_job_that_ends_before_has_none() -> None:
    handle = FakeHandle(status(JobState.SUBMITTED), status(JobState.FAILED))
    with pytest.raises(NotFoundError, match=f"{JOB} has ended"):
        wait_for_master(handle, access(None, over(JOB)), lambda text: None)


def test_the_next_master_is_found_by_asking() -> None:
    away = UnreachableError("no ResourceManager answers")
    where = ClientWhereabouts(access(None, away, SECOND, FIRST), FIRST)
    for _ in range(2):
        where.reread()
        assert where.url == FIRST.url
    where.reread()
    assert where.url == SECOND.url
    where.reread()
    assert where.url == SECOND.url, "an earlier one is of no account"


def test_nobody_is_called_once_the_job_is_over_or_the_client_gone() -> None:
    where = ClientWhereabouts(access(over(JOB)), FIRST)
    with pytest.raises(DismissedError) as caught:
        where.reread()
    assert caught.value.ended.code == STOPPED
    where.close()
    with pytest.raises(DismissedError):
        _ = where.url


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(access(FIRST))
