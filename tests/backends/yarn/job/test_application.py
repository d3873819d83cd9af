"""Statuses that are made from application reports, and why a job has no master."""

from __future__ import annotations

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import node, report
from ytf.backends.yarn.job.application import (
    is_between_masters,
    master_url,
    state_from_report,
    status_from_report,
    why_waiting,
    with_yarn_facts,
)
from ytf.hadoop.yarn.records import (
    ApplicationReport,
    ApplicationState,
    FinalApplicationStatus,
    NodeReport,
    NodeState,
    Resource,
)
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import JobState, TaskState

MASTER = Resource(512, 1)
DATE = "[Mon Nov 16 07:14:54 +0000 2026] "
NOT_ACTIVATED = "Application is added to the scheduler and is not yet activated. "
ACTIVATED = "Application is Activated, waiting for resources to be assigned for AM. "
LIMIT = (
    " Details : AM Partition = <DEFAULT_PARTITION>; AM Resource Request = <memory:30016, vCores:1>;"
    " Queue Resource Limit for AM = <memory:59008, vCores:58, yarn.io/gpu: 4>;"
    " User AM Resource Limit of the queue = <memory:40000, vCores:8, yarn.io/gpu: 4>;"
    " Queue AM Resource Usage = <memory:31000, vCores:2>; "
)
ROOM = (
    " Details : AM Partition = <DEFAULT_PARTITION> ; Partition Resource = <memory:65536, vCores:64>"
    " ; Queue's Absolute capacity = 80.0 % ; Queue's Absolute used capacity = 99.41406 % ;"
    " Queue's Absolute max capacity = 100.0 % ; Queue's capacity (absolute resource) ="
    " <memory:52428, vCores:51, yarn.io/gpu: 3> ; Queue's used capacity (absolute resource) ="
    " <memory:{}, vCores:4> ; Queue's max capacity (absolute resource) = <memory:65536, vCores:64,"
    " yarn.io/gpu: 4> ; "
)


def accepted(said: str, state: ApplicationState = ApplicationState.ACCEPTED) -> ApplicationReport:
    return msgspec.structs.replace(report(state), diagnostics=said, queue="root.default")


def why(said: str, *nodes: NodeReport) -> str:
    return why_waiting(accepted(said), MASTER, lambda: nodes)


def test_too_many_masters_in_the_queue() -> None:
    assert why(f"{DATE}{NOT_ACTIVATED}Queue's AM resource limit exceeded. {LIMIT}") == (
        "Waiting for its master: the masters in the queue root.default may have 59008 MB, 58 vcores"
        " in all, those that run have 31000 MB, 2 vcores, and this one asks for 30016 MB, 1 vcores."
        " It starts when others end; a smaller one (--master_memory) may start earlier."
    )


def test_too_many_masters_of_one_user() -> None:
    told = why(f"{DATE}{NOT_ACTIVATED}User's AM resource limit exceeded. {LIMIT}")
    assert "alice's masters in the queue root.default may have 40000 MB" in told


def test_a_full_queue() -> None:
    assert why(DATE + ACTIVATED + ROOM.format(65152), node(1)) == (
        "Waiting for its master (512 MB, 1 vcores): the queue root.default has 65152 MB, 4 vcores"
        " in use, and may have at most 65536 MB, 64 vcores."
    )


def test_full_nodes() -> None:
    assert why(DATE + ACTIVATED + ROOM.format(0), node(1, 300), node(2, 400)) == (
        "Waiting for its master (512 MB, 1 vcores): the most that is free on a node is"
        " 400 MB, 64 vcores."
    )


@pytest.mark.parametrize(
    "said", ["", DATE + ACTIVATED + ROOM.format(0), DATE + "Skipping AM assignment as cluster "
             "resource is empty. "]
)  # fmt: skip
def test_no_nodes(said: str) -> None:
    told = "Waiting for its master: the cluster has no running nodes."
    assert why(said) == told
    assert why(said, node(1, state=NodeState.LOST)) == told


@pytest.mark.parametrize(
    "said",
    [
        "",
        DATE + ACTIVATED + ROOM.format(0),
        DATE + "Scheduler has assigned a container for AM, waiting for AM container to be launched",
        DATE + "AM container is launched, waiting for AM container to Register with RM",
    ],
)
def test_what_every_job_goes_through_is_nothing_to_tell(said: str) -> None:
    assert why(said, node(1)) == ""


def test_words_that_nobody_knows_are_passed_on() -> None:
    told = why(f"{DATE}{NOT_ACTIVATED}The moon is not full.  Details : moon = 3")
    assert told == "Waiting for its master, says YARN: The moon is not full."


def test_a_stranger_who_knows_not_the_master_is_told_less() -> None:
    said = DATE + ACTIVATED + ROOM.format(65152)
    assert why_waiting(accepted(said), None, lambda: [node(1)]) == ""


def test_only_an_accepted_job_waits() -> None:
    for state in (ApplicationState.SUBMITTED, ApplicationState.RUNNING, ApplicationState.FAILED):
        assert why_waiting(accepted("", state), MASTER, list) == ""


def test_the_reason_is_what_the_status_says_until_the_end() -> None:
    assert status_from_report(accepted("raw"), None, "why").diagnostics == "why"
    assert (
        status_from_report(accepted("raw", ApplicationState.KILLED), None, "").diagnostics == "raw"
    )


@pytest.mark.parametrize(
    ("state", "final", "means"),
    [
        (ApplicationState.NEW_SAVING, FinalApplicationStatus.UNDEFINED, JobState.SUBMITTED),
        (ApplicationState.ACCEPTED, FinalApplicationStatus.UNDEFINED, JobState.SUBMITTED),
        (ApplicationState.RUNNING, FinalApplicationStatus.UNDEFINED, JobState.STARTING),
        (ApplicationState.FINISHED, FinalApplicationStatus.SUCCEEDED, JobState.SUCCEEDED),
        (ApplicationState.FINISHED, FinalApplicationStatus.KILLED, JobState.KILLED),
        (ApplicationState.FINISHED, FinalApplicationStatus.ENDED, JobState.FAILED),
        (ApplicationState.FAILED, FinalApplicationStatus.FAILED, JobState.FAILED),
        (ApplicationState.KILLED, FinalApplicationStatus.KILLED, JobState.KILLED),
    ],
)
def test_what_a_state_of_yarn_means(
    state: ApplicationState, final: FinalApplicationStatus, means: JobState
) -> None:
    assert state_from_report(report(state, final)) is means


def test_how_far_a_running_job_is_its_progress_tells() -> None:
    def state(told: ApplicationReport, progress: float) -> JobState:
        return state_from_report(msgspec.structs.replace(told, progress=progress))

    first = report(ApplicationState.RUNNING)
    assert state(first, 0.49) is JobState.STARTING
    assert state(first, 0.5) is JobState.RUNNING
    # What the master before it had reached YARN has forgotten.
    assert state(report(ApplicationState.RUNNING, attempt=2), 0.0) is JobState.RUNNING
    assert state(report(ApplicationState.ACCEPTED, attempt=2), 0.0) is JobState.RUNNING


def test_a_master_knows_less_of_some_things_than_yarn() -> None:
    told = status_from_report(report(ApplicationState.KILLED), None)
    moved = msgspec.structs.replace(
        report(ApplicationState.KILLED), queue="root.ml", started_ms=0, finished_ms=9000,
        tracking_url="http://rm/it",
    )  # fmt: skip
    status = with_yarn_facts(told, moved)
    assert (status.queue, status.started, status.finished) == ("root.ml", 1.5, 9.0)
    assert status.tracking_url == "http://rm/it"
    ending = with_yarn_facts(told, report(ApplicationState.RUNNING))
    assert ending.finished is told.finished


def test_a_status_without_a_master() -> None:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true")
    waiting = status_from_report(report(ApplicationState.ACCEPTED), spec)
    assert [(t.index, t.state) for t in waiting.tasks] == [
        (0, TaskState.PENDING),
        (1, TaskState.PENDING),
    ]
    assert (waiting.final_status, waiting.started, waiting.finished) == (None, 1.5, None)
    ended = status_from_report(report(ApplicationState.KILLED), None)
    assert (ended.diagnostics, ended.tasks, ended.tracking_url) == ("said", (), None)
    assert ended.final_status is not None


def test_where_a_master_is_and_when_there_is_none() -> None:
    running = report(ApplicationState.RUNNING, port=4711)
    assert master_url(running) == "http://node7:4711"
    assert master_url(report(ApplicationState.ACCEPTED, port=4711)) is None
    assert master_url(report(ApplicationState.RUNNING)) is None
    assert is_between_masters(report(ApplicationState.ACCEPTED, attempt=2))
    assert not is_between_masters(report(ApplicationState.ACCEPTED))
    assert not is_between_masters(running)
    assert not is_between_masters(report(ApplicationState.FAILED, attempt=2))


def test_no_number_in_the_diagnostics_raises() -> None:
    """They may quote the output of another user's program."""
    long = "9" * 5000
    said = (
        f"Queue's AM resource limit exceeded. Queue Resource Limit for AM = <memory:{long}, vCores:"
    )
    assert "may have no more" in why(f"{NOT_ACTIVATED}{said}1>")
    assert "may have no more" in why(f"{NOT_ACTIVATED}{said.replace(long, '1')}{long}>")
