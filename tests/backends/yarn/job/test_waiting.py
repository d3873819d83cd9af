"""The ResourceManager's words on a job that has no master, as it really says them."""

from __future__ import annotations

import msgspec
import pytest

from tests.backends.yarn.job.told import report
from tests.backends.yarn.test_ledger import node
from ytf.backends.yarn.job.reports import status_of
from ytf.backends.yarn.job.waiting import why_waiting
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState, NodeReport, NodeState
from ytf.hadoop.yarn.resources import Resource

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
    assert status_of(accepted("raw"), None, "why").diagnostics == "why"
    assert status_of(accepted("raw", ApplicationState.KILLED), None, "").diagnostics == "raw"
