"""What is refused before anything is submitted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import node
from ytf.backends.yarn.submit.admission import (
    ATTEMPT_LIMITS,
    Admission,
    AttemptLimit,
    ClusterSnapshot,
    check_admission,
    queue_refusal,
    read_attempt_limit,
)
from ytf.errors import RefusedError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.confxml import Property
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import NewApplication, QueueInfo, QueueState, Resource
from ytf.specs.job import JobSpec, MasterSpec, Placement, Resources, TaskGroupSpec

GPU = "yarn.io/gpu"
QUEUE = QueueInfo(
    name="default", path="root.default", state=QueueState.RUNNING, capacity=1.0,
    maximum_capacity=1.0, used_capacity=0.0, labels=("*",), default_label="", maximum=None,
    max_master_share=None, running=0, pending=0, available=None, children=(),
)  # fmt: skip
SEEN = ClusterSnapshot(
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
    small = TaskGroupSpec(count=count, resources=Resources(memory=512))
    return msgspec.structs.replace(small, **fields)


def queue(**fields: object) -> ClusterSnapshot:
    return msgspec.structs.replace(SEEN, queue=msgspec.structs.replace(QUEUE, **fields))


def refused(spec: JobSpec, seen: ClusterSnapshot = SEEN) -> str:
    with pytest.raises(RefusedError) as caught:
        check_admission(spec, seen, str)
    return f"{caught.value}; {caught.value.hint}"


@pytest.mark.parametrize(
    "spec",
    [
        job(tasks(9)),
        job(tasks(9, placement=Placement.SPREAD)),
        job(tasks(2, placement=Placement.APART)),
        job(tasks(node_label="gpu", resources=Resources(memory=4096, gpus=2))),
        job(tasks(node_label=""), node_label="gpu"),
    ],
)
def test_what_the_cluster_can_give_goes_through(spec: JobSpec) -> None:
    assert check_admission(spec, SEEN, str) == Admission(id=SEEN.new.id, spec=spec)


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
    taken = check_admission(job(tasks()), queue(default_label="gpu"), str).spec
    assert taken.node_label == "gpu"
    own = job(tasks(), node_label="")
    assert check_admission(own, queue(default_label="gpu"), str).spec == own


def test_types_and_sizes() -> None:
    fpga = Resources(memory=512, others={"yarn.io/fpga": 1})
    assert refused(job(tasks(resources=fpga))) == (
        "worker:0 asks for yarn.io/fpga, which this cluster does not count; "
        "it has: memory-mb, vcores, yarn.io/gpu"
    )
    big = tasks(3, overrides={2: Resources(memory=9999)})
    assert refused(job(big)).startswith("worker:2 asks for 9999 memory-mb, more than any")
    master = MasterSpec(resources=Resources(memory=10_000))
    assert refused(job(tasks(), master=master)).startswith("the master asks for 10000 memory-mb")


def test_no_single_node_has_it_all() -> None:
    both = tasks(node_label="gpu", resources=Resources(memory=8000, gpus=1))
    told = refused(job(both))
    assert "worker:0 asks for 8000 MB, 1 vcores, 1 yarn.io/gpu, and no node with the label" in told
    assert "the biggest, host:3, has 4096 MB, 8 vcores, 2 yarn.io/gpu" in told


def test_more_tasks_apart_than_there_are_nodes() -> None:
    told = refused(job(tasks(3), placement=Placement.APART))
    assert "worker has 3 tasks that are never to share a node, and the cluster has 2" in told


def test_a_cluster_whose_nodes_are_not_there_yet_is_waited_for() -> None:
    empty = msgspec.structs.replace(SEEN, nodes=())
    spec = job(tasks(3), placement=Placement.APART)
    assert check_admission(spec, empty, str) == Admission(id=SEEN.new.id, spec=spec)


@pytest.mark.parametrize(
    ("spec", "seen", "why"),
    [
        (
            job(tasks(4, resources=Resources(memory=4096))),
            SEEN,
            "with its master the job asks for 16896 MB, and the cluster's nodes have 16384 MB",
        ),
        (
            job(tasks(3, node_label="gpu", resources=Resources(memory=512, gpus=1))),
            SEEN,
            (
                "with its master the job asks for 3 yarn.io/gpu, and the cluster's nodes with the "
                "label 'gpu' have 2 yarn.io/gpu"
            ),
        ),
        (
            job(tasks(3, resources=Resources(memory=4100))),
            SEEN,
            (
                "worker has 3 tasks with 4100 MB, 1 vcores each, and the cluster's nodes have room "
                "for 2"
            ),
        ),
        (
            job(tasks(4, resources=Resources(memory=2048))),
            queue(maximum=Resource(8192, 64)),
            (
                "with its master the job asks for 8704 MB, and the queue root.default may have at "
                "most 8192 MB"
            ),
        ),
    ],
)
def test_a_job_too_big_for_the_cluster_as_it_is_goes_through_with_a_note(
    spec: JobSpec, seen: ClusterSnapshot, why: str
) -> None:
    assert check_admission(spec, seen, str).notes == (
        (
            f"not all tasks can run at once: {why}. The job waits for more, and fails if it does "
            "not come within 600 s; ask for less with -r or -m"
        ),
    )


def test_what_a_job_starts_without_is_not_counted() -> None:
    half = Resources(memory=4096)
    elastic = job(tasks(9, min=3, resources=half))
    assert check_admission(elastic, SEEN, str).notes == ()
    board = {"worker": tasks(3, resources=half), "tensorboard": tasks(1, resources=half)}
    assert check_admission(JobSpec(groups=board, command="x"), SEEN, str).notes == ()


GLOBAL, PLAIN = ATTEMPT_LIMITS


@pytest.mark.parametrize(
    ("asked", "limit", "note"),
    [
        (4, 2, "at most 2 times, not 4 times as asked"),
        (2, 1, "at most once, not 2 times as asked"),
        (4, 4, ""),
        (4, None, ""),
    ],
)
def test_fewer_attempts_of_the_master_than_asked_are_told(
    asked: int, limit: int | None, note: str
) -> None:
    spec = job(tasks(), master=MasterSpec(max_attempts=asked))
    told = None if limit is None else AttemptLimit(attempts=limit, setting=PLAIN)
    seen = msgspec.structs.replace(SEEN, attempt_limit=told)
    whole = f"the cluster starts a job's master {note}: see {PLAIN} of the ResourceManager"
    assert check_admission(spec, seen, str).notes == ((whole,) if note else ())


async def serve_conf(values: dict[str, str], answer: str = "200 OK") -> asyncio.Server:
    """A web server with the page ``/conf`` of a ResourceManager."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        name = head.partition("name=")[2].split()[0]
        body = json.dumps({"property": {"key": name, "value": values.get(name)}})
        status = answer if name in values else "404 Not Found"
        writer.write(f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("values", "answer", "own", "wanted"),
    [
        ({PLAIN: "2"}, "200 OK", {}, (2, PLAIN)),
        ({PLAIN: "2", GLOBAL: "10"}, "200 OK", {PLAIN: "7"}, (10, GLOBAL)),
        ({PLAIN: "2"}, "401 Who are you?", {PLAIN: "3"}, (3, PLAIN)),
        ({PLAIN: "2"}, "401 Who are you?", {}, None),
        ({PLAIN: "many"}, "200 OK", {GLOBAL: "3"}, (3, GLOBAL)),
        ({}, "200 OK", {}, None),
    ],
)
async def test_the_limit_is_the_resource_managers_else_that_of_our_own_configuration(
    values: dict[str, str], answer: str, own: dict[str, str], wanted: tuple[int, str] | None
) -> None:
    async with await serve_conf(values, answer) as server:
        port = server.sockets[0].getsockname()[1]
        conf = settings({"yarn.resourcemanager.webapp.address": f"127.0.0.1:{port}", **own})
        found = await read_attempt_limit(conf)
    assert (None if found is None else (found.attempts, found.setting)) == wanted


async def test_a_web_server_that_is_away_or_behind_tls_keeps_nobody_waiting() -> None:
    address = {"yarn.resourcemanager.webapp.address": "127.0.0.1:9"}
    assert await read_attempt_limit(settings(address)) is None
    tls = settings({"yarn.http.policy": "HTTPS_ONLY", PLAIN: "5", **address})
    assert await read_attempt_limit(tls) == AttemptLimit(attempts=5, setting=PLAIN)


def settings(values: dict[str, str]) -> Configuration:
    file = Path("yarn-site.xml")
    return Configuration(
        [Property(name=k, value=v, final=False, file=file, line=1) for k, v in values.items()]
    )


def test_whom_a_queue_does_not_let_in() -> None:
    may = ("root", "root.ml")
    error = queue_refusal("User bob does not have permission", may)
    assert str(error) == "User bob does not have permission"
    assert error.hint == "queues you may submit to: root.ml (see --queue)"
    closed = msgspec.structs.replace(SEEN, open_queues=may)
    assert "you may not submit to the queue root.default" in refused(job(tasks()), closed)
    for name in ("default", "root.default"):
        check_admission(job(tasks()), msgspec.structs.replace(SEEN, open_queues=(name,)), str)


UNCOUNTED = msgspec.structs.replace(
    SEEN,
    new=NewApplication(ApplicationId(1700000000000, 7), Resource(8192, 64)),
    nodes=(node(1), node(2), node(3, labels=("gpu",))),
)


def test_where_yarn_counts_no_gpus_a_job_has_to_tell_how_many_a_node_has() -> None:
    group = tasks(2, node_label="gpu", resources=Resources(memory=512, gpus=2))
    told = refused(job(group), UNCOUNTED)
    assert "asks for GPUs, which this cluster's ResourceManager does not count" in told
    assert "--gpus_per_node" in told
    admitted = check_admission(job(group, gpus_per_node=4), UNCOUNTED, str)
    assert (admitted.spec.gpus_per_node, admitted.notes) == (4, ())
    [note] = check_admission(job(group, gpus_per_node=2), UNCOUNTED, str).notes
    assert "the job asks for 4 yarn.io/gpu" in note
    assert "worker:0 asks for 2 yarn.io/gpu" in refused(job(group, gpus_per_node=1), UNCOUNTED)


def test_where_yarn_counts_gpus_we_do_not() -> None:
    group = tasks(node_label="gpu", resources=Resources(memory=512, gpus=2))
    assert check_admission(job(group, gpus_per_node=9), SEEN, str).spec.gpus_per_node is None
