"""The ports between a job and whoever gives it containers.

The master side (:class:`ContainerBackend`) maps one to one on YARN's
ApplicationMaster and NodeManager protocols; docs/adr/0002 shows how. The
client side (:class:`JobBackend`) is what the command line stands on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from ytf.client.plan import Plan
    from ytf.master.commands import CancelRequest, ReleaseContainer, RequestContainer
    from ytf.master.events import BackendEvent
    from ytf.specs.cluster import ClusterSpec
    from ytf.specs.names import ContainerId, JobId, TaskId
    from ytf.specs.status import JobEvent, JobRecord, JobStatus, JobSummary


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a starter in a container: what a ContainerLaunchContext needs.

    ``env`` is added to the container's own environment, ``defaults`` only where
    that has no variable of the name. ``starter`` becomes
    ``YTF_STARTER`` (docs/protocols.md §3); the backend adds what only it knows:
    ``secret_file``, ``master_file``, ``host``, ``log_dir``, ``parent``.
    """

    container: ContainerId
    task: TaskId
    env: dict[str, str]
    defaults: dict[str, str]
    starter: dict[str, str | int | float | bool | None]
    memory_mb: int


class ContainerBackend(Protocol):
    """Gives one job its containers. Used by the master only, inside its event loop.

    All calls but :meth:`start` and :meth:`finish` return at once; what comes
    of them is told through :meth:`events`. All are idempotent.
    """

    async def start(self, attempt: int, tracking_url: str) -> None:
        """Register this master attempt, which is to be found at ``tracking_url``."""
        ...

    def events(self) -> AsyncIterator[BackendEvent]:
        """What happens, until :meth:`finish`.

        After a master's restart first the completions that nobody had
        acknowledged, then ``ContainersRecovered``. ``BackendGone`` is the last.
        """
        ...

    def acknowledge(self, container: ContainerId) -> None:
        """The completion of a container is in the journal and need not be told again."""
        ...

    def request(self, command: RequestContainer) -> None:
        """Ask for one container."""
        ...

    def cancel(self, command: CancelRequest) -> None:
        """Take a request back."""
        ...

    def launch(self, launch: Launch) -> None:
        """Start the starter; failure comes back as ``LaunchFailed``."""
        ...

    def release(self, command: ReleaseContainer) -> None:
        """Kill and give back a container; comes back as ``ContainerCompleted(RELEASED)``."""
        ...

    def log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        """Where a person can read what an attempt wrote."""
        ...

    def supply(self) -> str:
        """One sentence on what the cluster or queue has to give now, for diagnostics."""
        ...

    async def finish(self, record: JobRecord) -> None:
        """The job is over: keep its record, and let go. Nothing may be asked after it."""
        ...


class JobHandle(Protocol):
    """One job, running or ended, as its owner sees it."""

    job: JobId

    def status(self) -> JobStatus:
        """How the job and its tasks are now; the same answer after the end."""
        ...

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        """The next status that differs from ``known``, or the same one after ``timeout_s``.

        Where the job is over, returns when nothing of it is left but its record and logs.
        """
        ...

    def cluster_spec(self) -> ClusterSpec | None:
        """Who is where, once everyone is known."""
        ...

    def events(self) -> list[JobEvent]:
        """The job's story so far."""
        ...

    def kill(self, reason: str) -> None:
        """Ask for the end; returns when the job has taken it in. Idempotent."""
        ...

    def logs(self, tasks: list[TaskId], *, follow: bool) -> Iterator[LogLine]:
        """Lines of the tasks' stdout and stderr, in the order they are found."""
        ...


class LogLine(msgspec.Struct, frozen=True):
    """One line a task wrote. ``text`` has no line ending."""

    task: TaskId
    attempt: int
    stream: str
    text: str


class JobBackend(Protocol):
    """Where jobs are submitted to and found again."""

    name: str

    def submit(self, plan: Plan) -> JobHandle:
        """Stage and start a job; returns once it is accepted and goes on without us."""
        ...

    def open(self, job: JobId) -> JobHandle:
        """Find a job again, or raise ``NotFoundError``."""
        ...

    def list(self) -> list[JobSummary]:
        """All jobs this backend still knows, newest first."""
        ...
