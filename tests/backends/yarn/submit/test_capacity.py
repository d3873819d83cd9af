"""What is refused before anything is submitted, by what a cluster says of itself."""

from __future__ import annotations

import msgspec
import pytest

from tests.backends.yarn.test_ledger import node
from ytf.backends.yarn.submit.capacity import Admission, Seen, admitted, refusal
from ytf.errors import RefusedError
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import NewApplication, QueueInfo, QueueState
from ytf.hadoop.yarn.resources import Resource
from ytf.specs.job import JobSpec, MasterSpec, Placement, Resources, TaskGroupSpec

GPU = "yarn.io/gpu"
QUEUE = QueueInfo(
    name="default", path="root.default", state=QueueState.RUNNING, capacity=1.0,
    maximum_capacity=1.0, used_capacity=0.0, labels=("*",), default_label="", maximum=None,
    max_master_share=None, running=0, pending=0, available=None, children=(),
)  # fmt: skip
SEEN = Seen(
    new=NewApplication(ApplicationId(1700000000000, 7), Resource(8192, 64, {GPU: 2})),
    queue=QUEUE,
    open_queues=None,
    nodes=(
        node(1),
        node(2),
        msgspec.structs.replace(node(3), capability=Resource(4096, 8, {GPU: 2}), labels=("gpu",)),
    ),
    labels=("gpu", "old"),
)


def job(group: TaskGroupSpec, **fields: object) -> JobSpec:
    return msgspec.structs.replace(JobSpec(groups={"worker": group}, command="x"), **fields)


def tasks(count: int = 1, **fields: object) -> TaskGroupSpec:
    small = TaskGroupSpec(count=count, resources=Resources(memory_mb=512))
    return msgspec.structs.replace(small, **fields)


def queue(**fields: object) -> Seen:
    return msgspec.structs.replace(SEEN, queue=msgspec.structs.replace(QUEUE, **fields))


def refused(spec: JobSpec, seen: Seen = SEEN) -> str:
    with pytest.raises(RefusedError) as caught:
        admitted(spec, seen, str)
    return f"{caught.value}; {caught.value.hint}"


@pytest.mark.parametrize(
    "spec",
    [
        job(tasks(9)),
        job(tasks(9, placement=Placement.SPREAD)),
        job(tasks(2, placement=Placement.APART)),
        job(tasks(node_label="gpu", resources=Resources(memory_mb=4096, gpus=2))),
        job(tasks(node_label=""), node_label="gpu"),
    ],
)
def test_what_the_cluster_can_give_goes_through(spec: JobSpec) -> None:
    assert admitted(spec, SEEN, str) == Admission(id=SEEN.new.id, spec=spec)


def test_queues_that_take_nothing() -> None:
    gone = msgspec.structs.replace(SEEN, queue=None, open_queues=("root.ml",))
    assert refused(job(tasks()), gone) == (
        "there is no queue 'default'; the cluster has: root.ml (see --queue)"
    )
    for state in (QueueState.STOPPED, QueueState.DRAINING):
        assert f"is {state.name.lower()}: it takes" in refused(job(tasks()), queue(state=state))


def test_labels_that_nobody_has_or_may_use() -> None:
    assert refused(job(tasks(node_label="gup"))) == (
        "worker: no nodes of this cluster can have the label 'gup'; "
        "its labels: gpu, old (see --node_label)"
    )
    assert refused(job(tasks(), node_label="gup")).startswith("the master: no nodes")
    assert "there is no node with the label 'old'" in refused(job(tasks(node_label="old")))
    closed = queue(labels=("old",))
    told = refused(job(tasks(node_label="gpu")), closed)
    assert "the queue root.default has no access to nodes labelled 'gpu'" in told
    assert "labels it may use: old" in told


def test_the_label_of_the_queue_is_the_jobs() -> None:
    taken = admitted(job(tasks()), queue(default_label="gpu"), str).spec
    assert taken.node_label == "gpu"
    own = job(tasks(), node_label="")
    assert admitted(own, queue(default_label="gpu"), str).spec == own


def test_types_and_sizes() -> None:
    fpga = Resources(memory_mb=512, others={"yarn.io/fpga": 1})
    assert refused(job(tasks(resources=fpga))) == (
        "worker:0 asks for yarn.io/fpga, which this cluster does not count; "
        "it has: memory-mb, vcores, yarn.io/gpu"
    )
    big = tasks(3, overrides={2: Resources(memory_mb=9999)})
    assert refused(job(big)).startswith("worker:2 asks for 9999 memory-mb, more than any")
    master = MasterSpec(resources=Resources(memory_mb=10_000))
    assert refused(job(tasks(), master=master)).startswith("the master asks for 10000 memory-mb")


def test_no_single_node_has_it_all() -> None:
    both = tasks(node_label="gpu", resources=Resources(memory_mb=8000, gpus=1))
    told = refused(job(both))
    assert "worker:0 asks for 8000 MB, 1 vcores, 1 yarn.io/gpu, and no node with the label" in told
    assert "the biggest, host:3, has 4096 MB, 8 vcores, 2 yarn.io/gpu" in told


def test_more_tasks_apart_than_there_are_nodes() -> None:
    told = refused(job(tasks(3), placement=Placement.APART))
    assert "worker has 3 tasks that are never to share a node, and the cluster has 2" in told


def test_a_cluster_whose_nodes_are_not_there_yet_is_waited_for() -> None:
    empty = msgspec.structs.replace(SEEN, nodes=())
    spec = job(tasks(3), placement=Placement.APART)
    assert admitted(spec, empty, str) == Admission(id=SEEN.new.id, spec=spec)


@pytest.mark.parametrize(
    ("spec", "seen", "why"),
    [
        (
            job(tasks(4, resources=Resources(memory_mb=4096))),
            SEEN,
            "with its master the job asks for 16896 MB, and the cluster's nodes have 16384 MB",
        ),
        (
            job(tasks(3, node_label="gpu", resources=Resources(memory_mb=512, gpus=1))),
            SEEN,
            (
                "with its master the job asks for 3 yarn.io/gpu, and the cluster's nodes with the "
                "label 'gpu' have 2 yarn.io/gpu"
            ),
        ),
        (
            job(tasks(3, resources=Resources(memory_mb=4100))),
            SEEN,
            (
                "worker has 3 tasks with 4100 MB, 1 vcores each, and the cluster's nodes have room "
                "for 2"
            ),
        ),
        (
            job(tasks(4, resources=Resources(memory_mb=2048))),
            queue(maximum=Resource(8192, 64)),
            (
                "with its master the job asks for 8704 MB, and the queue root.default may have at "
                "most 8192 MB"
            ),
        ),
    ],
)
def test_a_job_too_big_for_the_cluster_as_it_is_goes_through_with_a_note(
    spec: JobSpec, seen: Seen, why: str
) -> None:
    assert admitted(spec, seen, str).note == (
        f"not all tasks can run at once: {why}. The job waits for more, and fails if it does not "
        "come within 600 s; ask for less with -r or -m"
    )


def test_what_a_job_starts_without_is_not_counted() -> None:
    half = Resources(memory_mb=4096)
    elastic = job(tasks(9, min=3, resources=half))
    assert admitted(elastic, SEEN, str).note == ""
    board = {"worker": tasks(3, resources=half), "tensorboard": tasks(1, resources=half)}
    assert admitted(JobSpec(groups=board, command="x"), SEEN, str).note == ""


def test_whom_a_queue_does_not_let_in() -> None:
    may = ("root", "root.ml")
    error = refusal("User bob does not have permission", may)
    assert str(error) == "User bob does not have permission"
    assert error.hint == "queues you may submit to: root.ml (see --queue)"
    closed = msgspec.structs.replace(SEEN, open_queues=may)
    assert "you may not submit to the queue root.default" in refused(job(tasks()), closed)
    for name in ("default", "root.default"):
        admitted(job(tasks()), msgspec.structs.replace(SEEN, open_queues=(name,)), str)
