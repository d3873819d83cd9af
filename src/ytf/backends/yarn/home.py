"""Where a user's jobs keep things in HDFS: ``/user/<user>/.ytf`` and what is below it.

::

    layers/                       the layer store
    jobs/<application id>/        staging: goes with the job, its owner's alone
        submitter.json job.json journal/ files/
    history/<application id>/     what stays: record.json
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ytf.backends.yarn.baggage import StarterBaggage
from ytf.errors import YtfError
from ytf.hadoop.conf import Configuration
from ytf.master.info import JobInfo
from ytf.specs import codec
from ytf.specs.job import JobSpec
from ytf.specs.names import JobId
from ytf.specs.status import JobRecord
from ytf.storage.files import Files

T = TypeVar("T")

_JOB = "job.json"
_PREFIX = "dfs.user.home.dir.prefix"
# Others may pass to the layers if the home directory lets them; jobs are closed below.
_OPEN, _CLOSED = 0o755, 0o700


class UnreadableJobError(YtfError):
    """What a job has in HDFS is not in the form that this version of ytf writes."""


class StagedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was submitted, with all that its masters and its owner's commands need.

    One file, as each file in HDFS costs the submitter as much as a heartbeat.
    """

    info: JobInfo
    spec: JobSpec
    secret: str
    starter: StarterBaggage

    def __repr__(self) -> str:
        # What is shown somewhere must not give the secret away.
        return f"<StagedJob {self.info.id}>"


class _Stored(msgspec.Struct):
    """As it lies there: the spec is the codec's."""

    info: JobInfo
    spec: msgspec.Raw
    secret: str
    starter: StarterBaggage


class _Secret(msgspec.Struct):
    """As much of it as any version of ytf can read."""

    secret: str


@dataclass(frozen=True)
class YarnHome:
    """The directories of one user's jobs in one file system."""

    files: Files
    root: str

    @classmethod
    def of(cls, files: Files, conf: Configuration, user: str) -> YarnHome:
        """Below the user's home directory, as HDFS names it."""
        return cls(files, f"{conf.get_trimmed(_PREFIX, '/user')}/{user}/.ytf")

    def make_job(self, job: JobId) -> JobHome:
        """The directories of a new job, with an empty staging directory."""
        home = self.job(job)
        try:
            self.files.stat(f"{self.root}/jobs")
        except FileNotFoundError:
            self.files.mkdir(self.root, _OPEN)
            self.files.mkdir(f"{self.root}/jobs", _CLOSED)
        self.files.mkdir(home.staging, _CLOSED)
        return home

    def is_open(self) -> bool:
        """Whether we may look at the jobs in it.

        HDFS says of a file that is not there just that, also where we may not look.
        """
        try:
            self.files.list(f"{self.root}/jobs")
        except PermissionError:
            return False
        except FileNotFoundError:
            return True
        return True

    @property
    def layers(self) -> str:
        """The layer store."""
        return f"{self.root}/layers"

    def job(self, job: JobId) -> JobHome:
        """The directories of one job."""
        return JobHome(self.files, f"{self.root}/jobs/{job}", f"{self.root}/history/{job}")


@dataclass(frozen=True)
class JobHome:
    """What one job has in HDFS. Failures are ``OSError`` and of our own tree at once.

    What is there but makes no sense to us raises :class:`UnreadableJobError`.
    """

    files: Files
    staging: str
    kept: str

    @classmethod
    def at(cls, files: Files, staging: str) -> JobHome:
        """The one whose staging directory this is."""
        jobs, _, job = staging.rstrip("/").rpartition("/")
        return cls(files, staging, f"{jobs.rpartition('/')[0]}/history/{job}")

    def read(self, name: str, kind: type[T]) -> T:
        """What a staged file says, or ``FileNotFoundError``."""
        return self._read(
            f"{self.staging}/{name}", lambda data: msgspec.json.decode(data, type=kind)
        )

    def stage(self, job: StagedJob) -> None:
        """Put the job there."""
        stored = _Stored(job.info, msgspec.Raw(codec.to_json(job.spec)), job.secret, job.starter)
        self.files.write(f"{self.staging}/{_JOB}", [msgspec.json.encode(stored)])

    def staged(self) -> StagedJob:
        """The job as it was staged, or ``FileNotFoundError``."""
        return self._read(f"{self.staging}/{_JOB}", _staged)

    def secret(self) -> bytes:
        """The job's secret, whichever version of ytf staged it, or ``FileNotFoundError``."""
        return self.read(_JOB, _Secret).secret.encode()

    @property
    def journal(self) -> str:
        """Where the masters' journal is."""
        return f"{self.staging}/journal"

    def spec(self) -> JobSpec | None:
        """What was submitted, if that is still (or already) staged."""
        try:
            return self.staged().spec
        except FileNotFoundError:
            return None

    def has_begun(self) -> bool:
        """Whether a master has ever been there, as far as we may look."""
        try:
            return bool(self.files.list(self.journal))
        except (FileNotFoundError, PermissionError):
            return False

    def record(self) -> JobRecord | None:
        """The record, once the job is over."""
        try:
            return self._read(
                f"{self.kept}/record.json", lambda data: msgspec.json.decode(data, type=JobRecord)
            )
        except FileNotFoundError:
            return None

    def keep(self, record: JobRecord) -> None:
        """Put the record where it stays; the first one counts."""
        self.files.mkdir(self.kept, _CLOSED)
        try:
            self.files.write(f"{self.kept}/record.json", [msgspec.json.encode(record)])
        except FileExistsError:
            return

    def remove_staging(self) -> None:
        """Remove all that goes with the job. Idempotent."""
        self.files.delete(self.staging)

    def _read(self, path: str, decode: Callable[[bytes], T]) -> T:
        data = b"".join(self.files.read(path))
        try:
            return decode(data)
        except ValueError as exc:  # msgspec's own, a spec's, and of what is no UTF-8
            raise UnreadableJobError(
                f"{self.files.uri(path)} was written by another version of ytf: {exc}",
                hint="use the version that the job was submitted with",
            ) from exc


def _staged(data: bytes) -> StagedJob:
    stored = msgspec.json.decode(data, type=_Stored)
    return StagedJob(
        info=stored.info,
        spec=codec.from_json(bytes(stored.spec)),
        secret=stored.secret,
        starter=stored.starter,
    )
