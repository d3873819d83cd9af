"""A started YarnContainerBackend with a fake ResourceManager and NodeManager, for several tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.backends.yarn.fake_cluster import (
    TOKEN,
    FakeMasterProtocol,
    FakeNode,
    allocation,
    container,
    node_report,
)
from ytf.backends.api import StarterLaunch
from ytf.backends.yarn.hdfs_layout import JobHome
from ytf.backends.yarn.master.container_backend import YarnContainerBackend
from ytf.hadoop.yarn.contexts import ContainerLaunchContext
from ytf.machine.commands import ContainerProfile, RequestContainer
from ytf.machine.events import (
    BackendEvent,
    ContainerAllocated,
)
from ytf.specs.ids import ContainerId, JobId, RequestId, TaskId
from ytf.specs.job import Placement, Resources
from ytf.specs.status import FinalStatus, JobRecord, JobState, JobStatus
from ytf.storage.local_files import LocalFiles

URL = "http://node7:4711"


FIRST = ContainerId(str(container(2).id))


SMALL = Resources(memory=128)
PROFILES = (
    ContainerProfile(group="worker", resources=SMALL),
    ContainerProfile(group="worker", resources=Resources(memory=10**6)),
    ContainerProfile(group="spread", resources=SMALL, placement=Placement.SPREAD),
    ContainerProfile(group="apart", resources=SMALL, node_label="gpu", placement=Placement.APART),
)
"""The profiles that an earlier master requested, by priority from 1."""


class World:
    """A started backend and who it talks to."""

    def __init__(
        self,
        tmp_path: Path,
        *,
        files: LocalFiles | None = None,
        user: str = "alice",
        scheme: str = "http",
    ) -> None:
        self.rm = FakeMasterProtocol()
        self.node = FakeNode(TOKEN)
        staging = tmp_path / ".ytf" / "jobs" / "application_1_0007"
        (staging / "journal").mkdir(parents=True)
        (staging / "masters").mkdir()
        self.home = JobHome.at(files or LocalFiles(), str(staging))
        self.backend = YarnContainerBackend(
            self.rm,
            user=user,
            nodes=[node_report()],
            name_of=lambda node: node.host,
            make_context=lambda launch: self.make_context(launch),
            home=self.home,
            sign_master=lambda url, attempt: f"signed {attempt}",
            scheme=scheme,
            connect=lambda token: self.node,
        )
        self.events = self.backend.events()

    def make_context(self, launch: StarterLaunch) -> ContainerLaunchContext:
        """What a node is told."""
        return ContainerLaunchContext(command=f"exec {launch.task}")

    async def next(self) -> BackendEvent:
        return await asyncio.wait_for(anext(self.events), 60)

    async def allocated(self) -> None:
        """Have the first container."""
        self.backend.request(request("a"))
        await self.rm.next_beat()
        self.rm.answers.put_nowait(allocation(container(2)))
        assert isinstance(await self.next(), ContainerAllocated)


def request(name: str, memory_mb: int = 128, group: str = "worker") -> RequestContainer:
    wanted = (group, memory_mb)
    number, profile = next(
        (number, profile)
        for number, profile in enumerate(PROFILES, 1)
        if (profile.group, profile.resources.memory_mb) == wanted
    )
    return RequestContainer(request=RequestId(name), profile=profile, priority=number)


def launch() -> StarterLaunch:
    return StarterLaunch(
        container=FIRST, task=TaskId("worker:0"), env={}, defaults={}, starter={}, memory_mb=128
    )


def record(final: FinalStatus) -> JobRecord:
    status = JobStatus(
        id=JobId("application_1_0007"),
        name="n",
        user="alice",
        queue="default",
        backend="yarn",
        state=JobState(final.value),
        final_status=final,
        diagnostics="that was it",
    )
    return JobRecord(status=status, spec={}, cluster_spec=None, events=())
