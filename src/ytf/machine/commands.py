"""Commands: the output of the job machine, which the master executes.

The master may execute a command twice: after a restart it repeats every command
whose effect the journal does not prove. So each command must be idempotent.
"""

from __future__ import annotations

import msgspec

from ytf.specs.ids import ContainerId, NodeId, RequestId, TaskId, group_of
from ytf.specs.job import JobSpec, Placement, Resources
from ytf.specs.status import ClusterSpec, FinalStatus


class Command(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all commands."""


class ContainerProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What interchangeable containers have in common: any of them can serve the same tasks."""

    group: str
    resources: Resources
    node_label: str | None = None
    placement: Placement = Placement.ANY

    @classmethod
    def for_task(cls, spec: JobSpec, task: TaskId) -> ContainerProfile:
        """The profile of the containers that a task needs."""
        group = group_of(task)
        return cls(
            group=group,
            resources=spec.resources(task),
            node_label=spec.node_label_of(group),
            placement=spec.placement_of(group),
        )


class RequestContainer(Command, frozen=True, kw_only=True):
    """Request one container from the backend, on none of the nodes in ``avoid``.

    ``priority`` numbers the profiles of a job, from 1, in the order in which they
    are first requested. The machine's state keeps the numbers, so they are the same
    for every master: YARN's containers carry theirs, and a later master recognizes
    by it what a container was requested for.
    """

    request: RequestId
    profile: ContainerProfile
    priority: int
    avoid: tuple[NodeId, ...] = ()


class CancelRequest(Command, frozen=True, kw_only=True):
    """Cancel a container request. A container that is allocated all the same is released."""

    request: RequestId


class LaunchStarter(Command, frozen=True, kw_only=True):
    """Start the starter of a task in a container that was just allocated."""

    container: ContainerId
    task: TaskId
    attempt: int
    generation: int
    node: NodeId


class ReleaseContainer(Command, frozen=True, kw_only=True):
    """Give a container back at once. All its processes are killed."""

    container: ContainerId


class PublishClusterSpec(Command, frozen=True, kw_only=True):
    """Publish the addresses of all tasks to all starters.

    A starter runs its program once the published spec has its generation and
    contains its own address.
    """

    spec: ClusterSpec


class RunAttempt(Command, frozen=True, kw_only=True):
    """Order a starter to run this attempt; it stops a lower one first.

    Every live starter that is not to stop has such an order, also for its first
    attempt. A new master repeats it.
    """

    task: TaskId
    container: ContainerId
    attempt: int
    generation: int
    grace_s: float


class StopTask(Command, frozen=True, kw_only=True):
    """Order a starter to stop its program (SIGTERM, grace period, SIGKILL) and to exit."""

    task: TaskId
    container: ContainerId
    grace_s: float


class FinishJob(Command, frozen=True, kw_only=True):
    """Finish the job: keep its record, tell the backend its status, end the master."""

    status: FinalStatus
    diagnostics: str


AnyCommand = (
    RequestContainer
    | CancelRequest
    | LaunchStarter
    | ReleaseContainer
    | PublishClusterSpec
    | RunAttempt
    | StopTask
    | FinishJob
)
