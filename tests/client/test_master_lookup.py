"""Finding the master from outside: waited for, replaced, and missed when the job is over."""

from __future__ import annotations

import pytest

from tests.client.fakes import JOB, FakeHandle, status
from ytf.backends.api import JobCredentials, MasterAddress, job_ended_error
from ytf.client.master_lookup import ClientMasterLocator, wait_for_master
from ytf.errors import NotFoundError, UnreachableError
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import JobState
from ytf.starter.desired_state import STOPPED, ShutdownError

FIRST = MasterAddress("http://node1:4001", 1)
SECOND = MasterAddress("http://node2:4002", 2)


class Answers:
    """What a backend answers when it is asked for the master, in order; the last one stays."""

    def __init__(self, *answers: MasterAddress | Exception | None) -> None:
        self._answers = list(answers)

    def __call__(self) -> MasterAddress | None:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def credentials(*answers: MasterAddress | Exception | None) -> JobCredentials:
    return JobCredentials(
        user="alice",
        owner="alice",
        job=JOB,
        spec=JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true"),
        secret=b"secret",
        find_master=Answers(*answers),
        folder=None,
    )


def test_a_master_that_has_to_queue_is_waited_for_and_why_is_told() -> None:
    queued = status(JobState.SUBMITTED, diagnostics="the queue is full")
    handle = FakeHandle(status(JobState.SUBMITTED), queued, queued, status(JobState.STARTING))
    told: list[str] = []
    assert wait_for_master(handle, credentials(None, None, None, None, FIRST), told.append) == FIRST
    assert told == ["the queue is full"]


def test_a_job_that_ends_before_has_none() -> None:
    handle = FakeHandle(status(JobState.SUBMITTED), status(JobState.FAILED))
    with pytest.raises(NotFoundError, match=f"{JOB} has ended"):
        wait_for_master(handle, credentials(None, job_ended_error(JOB)), lambda text: None)


def test_the_next_master_is_found_by_asking() -> None:
    away = UnreachableError("no ResourceManager answers")
    where = ClientMasterLocator(credentials(None, away, SECOND, FIRST), FIRST)
    for _ in range(2):
        where.refresh()
        assert where.url == FIRST.url
    where.refresh()
    assert where.url == SECOND.url
    where.refresh()
    assert where.url == SECOND.url, "an earlier one is ignored"


def test_nobody_is_called_once_the_job_is_over_or_the_client_gone() -> None:
    where = ClientMasterLocator(credentials(job_ended_error(JOB)), FIRST)
    with pytest.raises(ShutdownError) as caught:
        where.refresh()
    assert caught.value.shutdown.code == STOPPED
    where.close()
    with pytest.raises(ShutdownError):
        _ = where.url


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(credentials(FIRST))
