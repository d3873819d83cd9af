"""A job that is staged on a disk as in HDFS, with the journal its masters wrote."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from ytf.backends.yarn.baggage import StarterBaggage
from ytf.backends.yarn.home import JobHome, StagedJob
from ytf.master.events import (
    AnyEvent,
    ContainerAllocated,
    MasterStarted,
    StarterRegistered,
    TaskExited,
    TaskStarted,
)
from ytf.master.info import JobInfo
from ytf.master.journal import Entry, Journal
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.names import ContainerId, JobId, NodeId, RequestId, TaskId
from ytf.storage.blobs import LocalBlobs

SPEC = JobSpec(
    groups={"ps": TaskGroupSpec(count=1), "worker": TaskGroupSpec(count=1)},
    command="true",
    name="training",
)
PS, WORKER = TaskId("ps:0"), TaskId("worker:0")
BEGAN = 1000.0


def stage(home: JobHome, *, user: str = "alice") -> None:
    """Put the job there as a submission does."""
    home.files.mkdir(home.staging)
    info = JobInfo(
        id=JobId(os.path.basename(home.staging)), user=user, submitted_at=1.5, backend="yarn"
    )
    home.stage(
        StagedJob(info=info, spec=SPEC, secret="s", starter=StarterBaggage(script="", files={}))
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


def running() -> list[list[AnyEvent]]:
    """What a master takes in until both tasks run."""
    story: list[list[AnyEvent]] = [[MasterStarted(attempt=1)]]
    for number, task in enumerate((PS, WORKER), 2):
        container = _container(number)
        story.append(
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
    story.append(
        [
            TaskStarted(task=task, attempt=1, container=_container(number))
            for number, task in enumerate((PS, WORKER), 2)
        ]
    )
    return story


def worker_exited(code: int) -> TaskExited:
    """The end of the only task that counts."""
    return TaskExited(
        task=WORKER, attempt=1, container=_container(3), exit_code=code, signal=None,
        ended_at=BEGAN + 50,
    )  # fmt: skip


def _container(number: int) -> ContainerId:
    return ContainerId(f"container_1700000000000_0007_01_{number:06}")
