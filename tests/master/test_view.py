"""What clients are told beyond the status."""

from __future__ import annotations

from ytf.master.info import JobInfo
from ytf.master.machine import Machine
from ytf.master.state import Container
from ytf.master.view import Story, View
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.names import ContainerId, JobId, NodeId, TaskId
from ytf.specs.status import StarterPlace


async def test_the_starters_that_listen() -> None:
    machine = Machine(JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true"))
    info = JobInfo(id=JobId("local_1"), user="alice", submitted_at=1.0, backend="local")
    view = View(info, machine, Story(), log_url=lambda *_: None)
    assert view.starters() == []
    task, node = TaskId("worker:1"), NodeId("n:1")
    machine.memory.containers = {
        ContainerId("registered"): Container(task=task, node=node, control="n:4242"),
        ContainerId("not yet"): Container(task=TaskId("worker:0"), node=node),
        ContainerId("client_0"): Container(task=TaskId("client:0"), node=None, registered=True),
    }
    assert view.starters() == [
        StarterPlace(task=task, container=ContainerId("registered"), node=node, control="n:4242")
    ]
