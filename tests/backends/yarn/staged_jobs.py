"""Jobs that are staged on a local disk as in HDFS, with the journals of their masters."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from ytf.backends.yarn.hdfs_layout import JobHome, StagedJob
from ytf.backends.yarn.launch_contexts import GroupEnvironment, StarterResources
from ytf.hadoop.security.credentials import MASTER_TOKEN, Credentials, Token
from ytf.hadoop.yarn.contexts import LocalResource, LocalResourceType, LocalResourceVisibility
from ytf.journal.writer import Entry, Journal
from ytf.machine.events import (
    AnyEvent,
    ContainerAllocated,
    MasterStarted,
    StarterRegistered,
    TaskExited,
    TaskStarted,
)
from ytf.specs.ids import ContainerId, JobId, NodeId, RequestId, TaskId
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import JobInfo
from ytf.storage.blobs import LocalBlobs

SPEC = JobSpec(
    groups={"ps": TaskGroupSpec(count=1), "worker": TaskGroupSpec(count=1)},
    command="true",
    name="training",
)
PS, WORKER = TaskId("ps:0"), TaskId("worker:0")
BEGAN = 1000.0


def stage(home: JobHome, *, user: str = "alice", spec: JobSpec = SPEC) -> None:
    """Put the job there as a submission does."""
    for path in (home.staging, home.journal, home.masters):
        home.files.mkdir(path)
    info = JobInfo(
        id=JobId(os.path.basename(home.staging)), user=user, submitted_at=1.5, backend="yarn"
    )
    home.stage(
        StagedJob(info=info, spec=spec, secret="s", starter=StarterResources(script="", files={}))
    )


def write_journal(home: JobHome, *batches: Sequence[AnyEvent], attempt: int = 1) -> None:
    """Be a master that takes these in, a segment each, one second apart, and dies."""

    async def work() -> None:
        journal = await Journal.open(LocalBlobs(Path(home.journal)), attempt)
        replay = await journal.replay()
        at = BEGAN + len(replay.entries)
        for batch in batches:
            await journal.append([Entry(at + n, event) for n, event in enumerate(batch)])
            at += len(batch)
        await journal.close()

    asyncio.run(work())


def running(first: TaskId = PS) -> list[list[AnyEvent]]:
    """What a master takes in until both tasks run."""
    batches: list[list[AnyEvent]] = [[MasterStarted(attempt=1)]]
    for number, task in enumerate((first, WORKER), 2):
        container = _container(number)
        batches.append(
            [
                ContainerAllocated(
                    request=RequestId(f"{task}#1"), container=container, node=NodeId("node7:8041")
                ),
                StarterRegistered(
                    task=task, attempt=1, container=container, host="node7", port=4000 + number,
                    control=None,
                ),
            ]
        )  # fmt: skip
    batches.append(
        [
            TaskStarted(task=task, attempt=1, container=_container(number))
            for number, task in enumerate((first, WORKER), 2)
        ]
    )
    return batches


def worker_exited(code: int) -> TaskExited:
    """The end of the only task that counts."""
    return TaskExited(
        task=WORKER, attempt=1, container=_container(3), exit_code=code, signal=None,
        ended_at=BEGAN + 50,
    )  # fmt: skip


def _container(number: int) -> ContainerId:
    return ContainerId(f"container_1700000000000_0007_01_{number:06}")


FILES = {
    "ytf_layer_1": LocalResource(
        url="hdfs://nn:1/l.tar.gz",
        size=5,
        modified_ms=17,
        type=LocalResourceType.ARCHIVE,
        visibility=LocalResourceVisibility.PUBLIC,
    )
}


TOKENS = {
    "am": Token(b"a", b"p", MASTER_TOKEN),
    "hdfs": Token(b"h", b"p", "HDFS_DELEGATION_TOKEN"),
}


CREDENTIALS = Credentials(TOKENS, {"ytf.job.secret": b"s3cr3t"})


RESOURCES = StarterResources(
    script='exec "$it"\n',
    files=FILES,
    environments={
        "board": GroupEnvironment(
            manifest="ytf_environment_1.json",
            layers=("ytf_layer_2",),
            files={"ytf_layer_2": FILES["ytf_layer_1"]},
        )
    },
)
