"""What the job machine wants done: its only output, in the imperative.

Every command may be executed twice (a restarted master repeats what its
journal does not prove done), so adapters make each one idempotent.
"""

from __future__ import annotations

import msgspec

from ytf.specs.cluster import ClusterSpec
from ytf.specs.job import Resources
from ytf.specs.names import ContainerId, NodeId, RequestId, TaskId
from ytf.specs.status import FinalStatus


class Command(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all commands."""


class RequestContainer(Command, frozen=True, kw_only=True):
    """Ask the backend for one container, not on a node to avoid."""

    request: RequestId
    group: str
    resources: Resources
    avoid: tuple[NodeId, ...] = ()


class CancelRequest(Command, frozen=True, kw_only=True):
    """The container is no longer wanted; if it comes all the same, it is released."""

    request: RequestId


class LaunchStarter(Command, frozen=True, kw_only=True):
    """Start a starter in a container that was just allocated."""

    container: ContainerId
    task: TaskId
    attempt: int
    generation: int
    node: NodeId


class ReleaseContainer(Command, frozen=True, kw_only=True):
    """Give a container back at once; whatever runs in it is killed."""

    container: ContainerId


class PublishClusterSpec(Command, frozen=True, kw_only=True):
    """Tell every starter where everyone is.

    A starter runs its program once the published spec is of its generation
    and names its own address.
    """

    spec: ClusterSpec


class RestartTask(Command, frozen=True, kw_only=True):
    """Tell a live starter to stop its program and register again as ``attempt``."""

    task: TaskId
    container: ContainerId
    attempt: int
    generation: int
    grace_s: float


class StopTask(Command, frozen=True, kw_only=True):
    """Tell a starter to stop its program (SIGTERM, grace, SIGKILL) and to go away."""

    task: TaskId
    container: ContainerId
    grace_s: float


class FinishJob(Command, frozen=True, kw_only=True):
    """The job is over: write it down, tell the backend, and let the master end."""

    status: FinalStatus
    diagnostics: str


AnyCommand = (
    RequestContainer
    | CancelRequest
    | LaunchStarter
    | ReleaseContainer
    | PublishClusterSpec
    | RestartTask
    | StopTask
    | FinishJob
)
