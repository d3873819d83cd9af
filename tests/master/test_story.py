"""A job's story and its diagnostics, in the words a user reads."""

from __future__ import annotations

import pytest

from ytf.master.commands import AnyCommand, PublishClusterSpec, RequestContainer, RestartTask
from ytf.master.diagnostics import failure_text
from ytf.master.state import Failure
from ytf.master.story import tell_command
from ytf.specs.cluster import ClusterSpec
from ytf.specs.job import Resources
from ytf.specs.names import ContainerId, NodeId, RequestId, TaskId
from ytf.specs.status import JobEvent

WORKER = TaskId("worker:0")


def _request(number: int) -> RequestContainer:
    return RequestContainer(
        request=RequestId(f"{WORKER}#{number}"), group="worker", resources=Resources()
    )


def _published(hosts: int) -> PublishClusterSpec:
    members = {"worker": ("h:1",) * hosts}
    return PublishClusterSpec(spec=ClusterSpec(generation=1, revision=2, members=members))


@pytest.mark.parametrize(
    ("command", "event", "task", "text"),
    [
        (
            RestartTask(
                task=WORKER, container=ContainerId("c"), attempt=2, generation=1, grace_s=1.0
            ),
            *("TaskRestarting", WORKER, "as attempt 2, in the container it has"),
        ),
        (_request(2), "TaskRestarting", WORKER, "in another container"),
        (_published(1), "ClusterSpecPublished", None, "generation 1, revision 2: 1 task"),
        (_published(2), "ClusterSpecPublished", None, "generation 1, revision 2: 2 tasks"),
    ],
)
def test_a_decision_in_words(command: AnyCommand, event: str, task: str | None, text: str) -> None:
    assert tell_command(command, 1.0) == JobEvent(at=1.0, event=event, task=task, text=text)


def test_a_first_request_is_no_news() -> None:
    assert tell_command(_request(1), 1.0) is None


def test_the_place_of_a_failure_comes_before_its_reason() -> None:
    failure = Failure(
        task=WORKER,
        attempt=2,
        ended_at=1.0,
        node=NodeId("n1"),
        host=None,
        exit_code=3,
        reason="a long reason",
        tail="last\nwords\n",
        hint="do this",
    )
    assert failure_text(failure, "A note.") == (
        "worker:0, attempt 2, exited with code 3 on n1: a long reason.\n"
        "Last lines of its stderr:\n  | last\n  | words\n"
        "hint: do this\n"
        "A note."
    )
