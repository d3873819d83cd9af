"""Jobs from Python: submit one, find one again, wait, read, kill."""

from __future__ import annotations

import logging
import math
import os
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from ytf.backends.api import JobBackend, JobHandle, LogLine
from ytf.client import backends, settings
from ytf.client.follow import follow
from ytf.client.plan import make_plan
from ytf.errors import JobFailedError, OutcomeUnknownError, SpecError, UnreachableError
from ytf.specs import codec
from ytf.specs.cluster import ClusterSpec
from ytf.specs.job import CLIENT, JobSpec
from ytf.specs.names import JobId, TaskId, task_id
from ytf.specs.status import JobEvent, JobState, JobStatus
from ytf.specs.wording import shown

_log = logging.getLogger("ytf")


class Outcome:
    """How a job ended."""

    def __init__(self, status: JobStatus) -> None:
        self.status = status

    def __repr__(self) -> str:
        return f"<Outcome {self.status.state.value} of {self.status.id}>"

    @property
    def succeeded(self) -> bool:
        """Whether the job did what it should."""
        return self.status.state is JobState.SUCCEEDED

    def raise_for_status(self) -> Outcome:
        """Raise ``JobFailedError`` with the diagnostics unless the job succeeded."""
        if not self.succeeded:
            status = self.status
            said = status.diagnostics.strip()
            raise JobFailedError(
                f"job {status.id} ended {status.state.value}" + (f": {said}" if said else ""),
                hint=f"`ytf logs {status.id}` shows what the tasks wrote",
            )
        return self


class Job:
    """One job, running or ended. Cheap to make; every call asks anew."""

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    @property
    def id(self) -> JobId:
        """The job's id, by which :func:`job` finds it again."""
        return self._handle.job

    def status(self) -> JobStatus:
        """How the job and its tasks are now; the same answer after the end."""
        return self._handle.status()

    def wait(self, timeout_s: float | None = None) -> Outcome:
        """Block until the job has ended and left nothing but its record and logs.

        Raises ``TimeoutError`` if it has not after ``timeout_s``; the job goes on.
        A cluster that does not answer for some minutes is waited for; the logger
        ``ytf`` is told, at level WARNING.
        """
        left_s = math.inf if timeout_s is None else timeout_s
        final = deque(follow(self._handle, tell=_log.warning, timeout_s=left_s), maxlen=1).pop()
        try:
            return Outcome(self._handle.wait(final))
        except (UnreachableError, OutcomeUnknownError):
            return Outcome(final)  # how it ended is known; what it may have left is swept later

    def kill(self, reason: str = "killed from Python") -> None:
        """Ask for the job's end; returns when the job has taken it in. Idempotent."""
        self._handle.kill(reason)

    def events(self) -> list[JobEvent]:
        """The job's story so far."""
        return self._handle.events()

    def logs(
        self, tasks: Sequence[str] | None = None, *, follow: bool = False
    ) -> Iterator[LogLine]:
        """Lines of the given tasks (``worker:0``), of all by default.

        ``follow``: until the job has ended.
        """
        chosen = [TaskId(task) for task in tasks] if tasks is not None else self._all_tasks()
        return self._handle.logs(chosen, follow=follow)

    def cluster_spec(self) -> ClusterSpec | None:
        """Who is where, once everyone is known."""
        return self._handle.cluster_spec()

    def _all_tasks(self) -> list[TaskId]:
        return [task_id(t.group, t.index) for t in self.status().tasks if t.group != CLIENT]


def submit(spec: JobSpec, *, backend: str | JobBackend | None = None) -> Job:
    """Submit a job and return once it is accepted; it goes on without this process.

    ``backend`` is a name, or a backend itself; by default the one ``ytf-submit``
    would choose. Relative paths in the spec are relative to the working
    directory. What takes long (packing, uploading) is logged at level INFO by
    the logger ``ytf``. Raises ``SpecError`` or ``RefusedError`` if nothing was submitted.
    """
    from ytf.packaging import environments

    spec = _strict(spec)
    if spec.client:
        raise SpecError(
            "a client needs a terminal",
            where="client",
            hint="submit with `ytf-submit --client`, or use the job's cluster_spec() here",
        )
    if backend is None or isinstance(backend, str):
        chosen = settings.choose_backend(settings.load({"backend": backend}))
        backend = backends.backend(chosen.name)
    plan = make_plan(
        spec,
        backend=backend.name,
        user=backend.user(),
        tensorboard=lambda: environments.tensorboard(_log.info),
    )
    return Job(backend.submit(plan, _log.info))


def _strict(spec: object) -> JobSpec:
    """The spec with all values of the types they should have; Python itself takes any."""
    if not isinstance(spec, JobSpec):
        raise SpecError(
            f"expected a JobSpec, got {shown(spec)}",
            hint='ytf.JobSpec(groups={"worker": ytf.TaskGroupSpec(count=2)}, command="…")',
        )
    return codec.from_dict(msgspec.to_builtins(spec, enc_hook=_plain))


def _plain(value: object) -> object:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise SpecError(f"{shown(value)} cannot be a part of a job spec")


def job(job_id: str) -> Job:
    """Find a job again, or raise ``NotFoundError``."""
    return Job(backends.open_job(job_id))
