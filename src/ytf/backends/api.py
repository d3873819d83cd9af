"""The ports between a job and whoever gives it containers.

The master side (:class:`ContainerBackend`) maps one to one on YARN's
ApplicationMaster and NodeManager protocols; docs/adr/0002 shows how. The
client side (:class:`JobBackend`) is what the command line stands on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import msgspec

from ytf.errors import NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from ytf.client.plan import Plan
    from ytf.master.commands import CancelRequest, ReleaseContainer, RequestContainer
    from ytf.master.events import BackendEvent
    from ytf.specs.cluster import ClusterSpec
    from ytf.specs.job import JobSpec
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

    def progress(self, share: float) -> None:
        """How far the job is, from 0 to 1, for who looks at it through the backend."""
        ...

    def supply(self) -> str:
        """One sentence on what the cluster or queue has to give now, for diagnostics."""
        ...

    async def finish(self, record: JobRecord) -> None:
        """The job is over: keep its record, and let go. Nothing may be asked after it."""
        ...


class MasterAddress(msgspec.Struct, frozen=True):
    """Where a master listens, ``http://host:port``, and which attempt it is."""

    url: str
    attempt: int


@dataclass(frozen=True, kw_only=True)
class Access:
    """What a program outside of the job's containers needs to take part in it."""

    job: JobId
    spec: JobSpec
    secret: bytes = field(repr=False)
    find_master: Callable[[], MasterAddress | None]
    """The master now; None while there is none. Raises ``NotFoundError`` once the job is over,
    and may be called from any thread."""
    folder: Path | None
    """A directory here that goes with the job; None: what such a program needs goes among the
    machine's temporary files."""


def over(job: JobId) -> NotFoundError:
    """The error for whoever wants to take part in a job that has ended."""
    return NotFoundError(
        f"job {job} has ended: nobody can take part in it any more",
        hint=f"`ytf status {job}` tells how it ended",
    )


KEEP_S = 7 * 24 * 3600.0
"""How long what is recorded of a job stays after its end, unless it is set otherwise."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that nobody needed any more: what it was, where, and how many bytes."""

    what: str
    where: str
    size: int = 0


Rubbish = list[Removed]


Tell = Callable[[str], None]


def silent(text: str) -> None:
    """For callers who want to hear nothing."""


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

    def logs(self, tasks: list[TaskId], *, follow: bool, tell: Tell = silent) -> Iterator[LogLine]:
        """Lines of the tasks' stdout and stderr, in the order they are found.

        ``tell`` hears what cannot be read, and why, sentence by sentence.
        """
        ...

    def access(self) -> Access:
        """The way into the running job, for its owner.

        ``NotFoundError`` once it is over, ``RefusedError`` for anybody else.
        """
        ...


class LogLine(msgspec.Struct, frozen=True):
    """One line a task wrote. ``text`` has no line ending."""

    task: TaskId
    attempt: int
    stream: str
    text: str


Hold = Callable[[], None]


def unheld() -> None:
    """For callers to whom one moment is as good as another to be interrupted."""


class JobBackend(Protocol):
    """Where jobs are submitted to and found again."""

    name: str

    def user(self) -> str:
        """As whom jobs are submitted; raises ``SettingsError`` where nobody can tell."""
        ...

    def submit(self, plan: Plan, tell: Tell = silent, hold: Hold = unheld) -> JobHandle:
        """Stage and start a job; returns once it is accepted and goes on without us.

        ``tell`` hears what takes long, sentence by sentence, from any thread.
        Whatever stops it half-way (an error, Ctrl-C) leaves nothing of the job.
        ``hold`` is called when the job is staged and about to be handed over:
        whoever interrupts from then on had better wait for the handle.
        """
        ...

    def open(self, job: JobId) -> JobHandle:
        """Find a job again, or raise ``NotFoundError``."""
        ...

    def collect(
        self, *, keep_s: float, dryrun: bool = False, verify: bool = False, tell: Tell = silent
    ) -> Rubbish:
        """Remove what nobody needs any more, without a race against jobs that run or begin.

        Records stay for ``keep_s`` after a job's end. ``dryrun``: nothing is
        removed, only told. ``verify``: layers that are stored are read, and
        damaged ones replaced at the next submission that needs them. ``tell``
        hears of what could not be judged, and stays.
        """
        ...

    def list(self) -> list[JobSummary]:
        """All jobs this backend still knows, newest first."""
        ...
