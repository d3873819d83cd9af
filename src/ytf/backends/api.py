"""The ports of a backend, which the packages ``local`` and ``yarn`` implement.

:class:`ContainerBackend` gives a master its containers. It maps one to one on
YARN's ApplicationMaster and NodeManager protocols; docs/adr/0002 shows how.
:class:`JobBackend` submits and finds jobs, for the command line and the Python
API.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import msgspec

from ytf.errors import NotFoundError
from ytf.specs.job import JobSpec

if TYPE_CHECKING:
    from pathlib import Path

    from ytf.machine.commands import (
        CancelRequest,
        ContainerProfile,
        ReleaseContainer,
        RequestContainer,
    )
    from ytf.machine.events import BackendEvent, KillRequested
    from ytf.specs.ids import ContainerId, JobId, TaskId
    from ytf.specs.status import ClusterSpec, JobEvent, JobInfo, JobRecord, JobStatus, JobSummary
    from ytf.storage.blobs import Blobs
    from ytf.storage.files import Files
    from ytf.web.page_auth import PageAuth


EmptyRegistry = Callable[[], Awaitable[bool]]
"""Removes what a job has published elsewhere; tells whether nothing is left."""


async def nothing_published() -> bool:
    """The :data:`EmptyRegistry` of a job that publishes nothing elsewhere."""
    return True


class StarterLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a starter in a container; becomes a ``ContainerLaunchContext`` on YARN.

    ``env`` is added to the container's own environment. ``defaults`` is added
    for variables that are not set there. ``starter`` becomes ``YTF_STARTER``
    (docs/protocols.md §3), after the backend has added ``secret_file``,
    ``master_file``, ``host``, ``log_dir``, ``parent``, ``hadoop_conf``, ``hdfs_plugin`` and
    ``docker``. ``docker`` is
    how the starter runs its program in an image, ``yarn_image`` the image that YARN
    itself makes the container from. ``hdfs_plugin``: the program is to have TensorFlow's plugin
    for ``hdfs://``, if the backend has one for it.
    """

    container: ContainerId
    task: TaskId
    env: dict[str, str]
    defaults: dict[str, str]
    starter: dict[str, str | int | float | bool | list[str] | list[tuple[str, int]] | None]
    memory_mb: int
    docker: dict[str, object] | None = None
    yarn_image: str | None = None
    hdfs_plugin: bool = False


class ContainerBackend(Protocol):
    """Gives one job its containers. Only the master uses it, inside its event loop.

    All calls but :meth:`start` and :meth:`finish` return at once, and their
    results come through :meth:`events`. All are idempotent.
    """

    async def start(
        self, attempt: int, tracking_url: str, profiles: Sequence[ContainerProfile]
    ) -> None:
        """Register this master attempt, which serves ``tracking_url``.

        ``profiles`` are those of earlier masters' requests, by priority from 1: what
        the containers that still live were requested for.
        """
        ...

    def events(self) -> AsyncIterator[BackendEvent]:
        """Yield the events of the backend, until :meth:`finish`.

        After a restart of the master, the first events are ``ContainersRecovered``
        and the completions that were not acknowledged. They are there when
        :meth:`start` has returned. No event follows ``BackendGone``.
        """
        ...

    def acknowledge(self, container: ContainerId) -> None:
        """Confirm that the completion of a container is in the journal: do not repeat it."""
        ...

    def request(self, command: RequestContainer) -> None:
        """Request one container."""
        ...

    def cancel(self, command: CancelRequest) -> None:
        """Cancel a request."""
        ...

    def launch(self, launch: StarterLaunch) -> None:
        """Start the starter; the event for a failure is ``LaunchFailed``."""
        ...

    def release(self, command: ReleaseContainer) -> None:
        """Kill a container and give it back; the event is ``ContainerCompleted(RELEASED)``."""
        ...

    def log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        """Return the URL of an attempt's logs, for a browser."""
        ...

    def report_progress(self, share: float) -> None:
        """Report the progress of the job, from 0 to 1, to the backend's own user interface."""
        ...

    def headroom_text(self) -> str:
        """Describe in one sentence what the cluster or queue can grant now, for diagnostics."""
        ...

    async def finish(
        self, record: JobRecord, empty_registry: EmptyRegistry = nothing_published
    ) -> bool:
        """End the job: store its record, empty its registry, unregister. No other call may follow.

        If the registry cannot be emptied, and a later gc finds such jobs by their staging
        directories, this one's stays. Returns whether the record is stored: then the journal
        is not needed any more.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class MasterContext:
    """What one master attempt needs to run its job; each backend builds it in its own way."""

    spec: JobSpec
    info: JobInfo
    secret: bytes = field(repr=False)
    attempt: int
    journal: Blobs
    journal_timeout_s: float
    """How long the journal retries a write that the file system refuses."""
    host: str
    """The host name with which starters and clients reach the master."""
    peer: tuple[str, int]
    """Host and port of one that has to reach it: the master listens on its address towards it
    where the host's name does not tell one.
    """
    backend: ContainerBackend
    page_auth: PageAuth
    """Who may read the job's page."""
    kill_requested: KillRequested | None = None
    """A kill request that no earlier master received."""


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A file or directory that is shipped with the job."""

    source: str
    """Absolute path on the submitter's machine, or a URL in HDFS."""
    name: str
    """Its name in each task's working directory."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A submission that is ready to be sent; ``--dryrun`` prints it.

    ``spec`` is resolved: TensorBoard is a group with a command, paths are
    absolute, defaults are filled in, and ``script`` is the value of
    ``DTF_TASK_SCRIPT``. ``hdfs_plugin`` is the directory of TensorFlow's plugin for ``hdfs://``
    on this machine, None if the job goes without it. ``notes`` are for the user to read.
    """

    spec: JobSpec
    backend: str
    user: str
    uploads: tuple[Upload, ...] = ()
    hdfs_plugin: str | None = None
    notes: tuple[str, ...] = ()
    keeps_results: bool = False
    """Whether the tasks stage out to :meth:`JobBackend.results_url`."""


class MasterAddress(msgspec.Struct, frozen=True):
    """The URL of a master, ``http://host:port``, and its attempt."""

    url: str
    attempt: int


@dataclass(frozen=True, kw_only=True)
class JobCredentials:
    """What a program outside of the job's containers needs to join the job."""

    job: JobId
    spec: JobSpec
    user: str
    """Who joins it, by the backend's name for them."""
    owner: str
    """Whose job it is, by the same names. The spec is theirs: of the job of another user,
    nothing in it may decide what runs here."""
    secret: bytes = field(repr=False)
    find_master: Callable[[], MasterAddress | None]
    """Returns the current master; None while there is none. Raises ``NotFoundError`` once the
    job is over. May be called from any thread."""
    folder: Path | None
    """A directory on this machine that is removed with the job. None if there is none: the
    program then uses the machine's temporary directory."""
    loopback_only: bool = False
    """Whether only this machine may reach the servers of the program."""


def job_ended_error(job: JobId) -> NotFoundError:
    """Return the error for a program that wants to join a job that has ended."""
    return NotFoundError(
        f"job {job} has ended: no program can join it any more",
        hint=f"`ytf status {job}` shows how it ended",
    )


RECORD_RETENTION_S = 7 * 24 * 3600.0
"""How long the record and logs of a job stay after its end, by default."""


class RemovedItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that gc removed: what it was, where, and its size in bytes."""

    what: str
    where: str
    size: int = 0


RemovedItems = list[RemovedItem]


class LogLine(msgspec.Struct, frozen=True):
    """One line of a task's output. ``text`` has no line ending."""

    task: TaskId
    attempt: int
    stream: str
    text: str


class PassingNotice(str):
    """How far something is. The next one takes its place: who prints lines leaves it out."""

    __slots__ = ()


Notify = Callable[[str], None]
"""Gets sentences about the progress of a call, for the user to read, and a ``PassingNotice`` now
and then."""


def lasting_only(notify: Notify) -> Notify:
    """``notify`` for those that print lines: without what passes."""

    def notify_of_lasting(text: str) -> None:
        if not isinstance(text, PassingNotice):
            notify(text)

    return notify_of_lasting


def ignore_notice(text: str) -> None:
    """Do nothing: the ``Notify`` of callers that show no progress."""


OnCommit = Callable[[], None]
"""Is called once, when a submission can no longer be undone without waiting."""


def no_commit_hook() -> None:
    """Do nothing: the ``OnCommit`` of callers that are not interrupted."""


CheckInterrupt = Callable[[], None]
"""Is called now and then, in the caller's thread, by a call that waits. It raises if the caller
was interrupted in a way that Python does not notice by itself; that ends the call."""


def never_interrupted() -> None:
    """Do nothing: the ``CheckInterrupt`` of callers that only Ctrl-C interrupts."""


class JobHandle(Protocol):
    """One job, running or ended, for its owner."""

    job: JobId

    def status(self) -> JobStatus:
        """Return the status of the job and its tasks, also after the end."""
        ...

    def why_waiting(self) -> str:
        """Return why a job that was submitted has not started yet; empty if nothing is wrong."""
        ...

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        """Return the next status that differs from ``known``, or ``known`` after ``timeout_s``.

        A final status is returned when all but the job's record and logs is removed.
        """
        ...

    def cluster_spec(self) -> ClusterSpec | None:
        """Return the cluster spec, once the addresses of all tasks are known."""
        ...

    def events(self) -> list[JobEvent]:
        """Return the events of the job so far."""
        ...

    def kill(self, reason: str) -> None:
        """Kill the job; returns when the job has accepted the request. Idempotent."""
        ...

    def remove(self) -> RemovedItem:
        """Remove what is kept of a job that has ended: its record and, where they are ours, logs.

        Raises ``RefusedError`` if the job has not ended. Needs no room on a disk.
        """
        ...

    def logs(
        self,
        tasks: list[TaskId],
        *,
        follow: bool,
        notify: Notify = ignore_notice,
        check: CheckInterrupt = never_interrupted,
    ) -> Iterator[LogLine]:
        """Yield lines of the tasks' stdout and stderr, in the order they are found.

        ``notify`` gets sentences about what cannot be read, and why. ``check`` is called
        while there are no new lines.
        """
        ...

    def results(self) -> tuple[Files, str]:
        """Return the directory with the results of the job's functions, and its file system.

        There is a directory for each task in it, ``worker-0``, or none. Raises
        ``FileNotFoundError`` for a job that keeps no results, ``RefusedError`` unless the
        job is ours, and ``SettingsError`` if others can have written there.
        """
        ...

    def credentials(self) -> JobCredentials:
        """Return what a program of the owner needs to join the running job.

        Raises ``NotFoundError`` once the job is over, ``RefusedError`` for other users.
        """
        ...


class JobBackend(Protocol):
    """Submits jobs, and finds, lists and removes them."""

    name: str

    def user(self) -> str:
        """Return the user who submits jobs; raises ``SettingsError`` if the name is unknown."""
        ...

    def submit(
        self,
        plan: Plan,
        notify: Notify = ignore_notice,
        on_commit: OnCommit = no_commit_hook,
        check: CheckInterrupt = never_interrupted,
    ) -> JobHandle:
        """Stage and start a job; returns once it is accepted and runs without this process.

        ``notify`` gets sentences about what takes long, from any thread. An
        error or Ctrl-C on the way leaves nothing of the job. ``on_commit`` is
        called when the job is staged and about to be handed over: an interrupt
        after that should wait for the handle. ``check`` is called before that, and while
        uploads take long.
        """
        ...

    def results_url(self) -> str:
        """Return where a job's tasks stage their results out to: in what is kept of the job.

        It has ``{job}`` and ``{task}`` in it, see ``StageOut.to``.
        """
        ...

    def open(self, job: JobId) -> JobHandle:
        """Find a job, or raise ``NotFoundError``."""
        ...

    def gc(
        self,
        *,
        keep_s: float,
        dryrun: bool = False,
        verify: bool = False,
        notify: Notify = ignore_notice,
    ) -> RemovedItems:
        """Remove what ended and dead jobs left. Safe while jobs run or start.

        Records stay for ``keep_s`` after a job's end. With ``dryrun``, nothing
        is removed. With ``verify``, stored layers are read, and the next
        submission that needs a damaged one replaces it. ``notify`` gets a
        sentence for each thing that could not be examined and therefore stays.
        """
        ...

    def list(self) -> list[JobSummary]:
        """Return all jobs this backend knows, newest first."""
        ...
