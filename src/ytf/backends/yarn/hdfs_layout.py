"""The directories and files that a user's jobs have in HDFS, below ``/user/<user>/.ytf``.

::

    layers/                       the layer store
    jobs/<application id>/        the staging directory: only its owner may read it, and it is
        submitter.json            removed with the job
        job.json
        journal/
        masters/              one file for each master but the first: where it is
        files/
    history/<application id>/     stays after the job's end
        record.json
        results/              what the functions of the job returned, if it ran some
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from ytf import processes
from ytf.backends.yarn.launch_contexts import StarterResources
from ytf.decoding import decode_json
from ytf.errors import SettingsError, YtfError
from ytf.hadoop.conf import Configuration, RmService, rm_addresses
from ytf.log import log
from ytf.specs import codec
from ytf.specs.ids import JobId
from ytf.specs.job import JobSpec
from ytf.specs.status import JobInfo, JobRecord
from ytf.storage.directory_owners import check_owners
from ytf.storage.files import Files

T = TypeVar("T")

_JOB = "job.json"
_SUBMITTER = "submitter.json"
_RECORD = "record.json"
_HOME_PREFIX = "dfs.user.home.dir.prefix"
# Others may read the layers if the home directory lets them pass; the jobs below it are closed.
_OPEN, _CLOSED = 0o755, 0o700

MOST_BYTES = 256 * 1024 * 1024
"""How much is read of a job's file, or of its journal: it may be of another user, who can have
put anything there. A record of 100,000 tasks is smaller."""
RETRY_TOTAL_S = 300.0
"""How long HDFS may be unavailable before a master goes on without it."""
RECORD_RETRY_TOTAL_S = 1800.0
"""How long a master that has ended its job tries to write the record: only it knows how the tasks
ended, and it holds no container but its own."""
STAGING_RETRY_TOTAL_S = 60.0
"""How long a master that has unregistered tries to remove the staging directory: YARN soon kills
it, and a later command's ``gc`` can do it as well."""
FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 15.0


class UnreadableJobError(YtfError):
    """A file of a job in HDFS is not in the form that this version of ytf writes."""


class StagedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The content of job.json: all that the job's masters and its owner's commands need.

    It is one file because each file in HDFS costs the submitter as much time as
    a heartbeat.
    """

    info: JobInfo
    spec: JobSpec
    secret: str
    starter: StarterResources

    def __repr__(self) -> str:
        # The secret must not appear in logs or error messages.
        return f"<StagedJob {self.info.id}>"


class _EncodedJob(msgspec.Struct):
    """job.json as it is stored; the specs' own codec writes ``spec``."""

    info: JobInfo
    spec: msgspec.Raw
    secret: str
    starter: StarterResources


class _EncodedSecret(msgspec.Struct):
    """The part of job.json that every version of ytf can read."""

    secret: str


def default_hdfs(conf: Configuration) -> str:
    """Return the URL of the file system in which jobs are staged; raises ``SettingsError``."""
    url = conf.get_trimmed("fs.defaultFS") or ""
    if not url.startswith("hdfs://"):
        raise SettingsError(
            f"fs.defaultFS is {url or 'not set'}, and jobs on YARN are staged in HDFS",
            hint="set it to hdfs://… in core-site.xml",
        )
    return url


@dataclass(frozen=True)
class YarnHome:
    """The directories of all jobs of one user."""

    files: Files
    root: str

    @classmethod
    def of(cls, files: Files, conf: Configuration, user: str) -> YarnHome:
        """The directories below a user's home directory in HDFS."""
        return cls(files, f"{conf.get_trimmed(_HOME_PREFIX, '/user')}/{user}/.ytf")

    def make_job(self, job: JobId, owner: str) -> JobHome:
        """Make the staging directory of a new job, and the directories in it.

        Raises ``SettingsError`` if anyone but its owner and HDFS's superusers could
        replace it: what is in it runs as the owner.
        """
        home, jobs = self.job(job), f"{self.root}/jobs"
        try:
            self.files.stat(jobs)
        except FileNotFoundError:
            self.files.mkdir(self.root, _OPEN)
            self.files.mkdir(jobs, _CLOSED)
        check_owners(self.files, jobs, (owner,))
        for path in (home.staging, home.journal, home.masters):
            self.files.mkdir(path, _CLOSED)
        return home

    def is_readable(self) -> bool:
        """Whether we may read the jobs in it.

        Asked of the directory: for a file that does not exist HDFS answers "not
        found" also where we may not look.
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
    """The directories of one job.

    Failures of HDFS are both ``OSError`` and of our own error tree. A file that
    this version cannot decode raises :class:`UnreadableJobError`, and so does one that
    is longer than any of ours.
    """

    files: Files
    staging: str
    history: str

    @classmethod
    def at(cls, files: Files, staging: str) -> JobHome:
        """The directories of the job with this staging directory."""
        jobs, _, job = staging.rstrip("/").rpartition("/")
        return cls(files, staging, f"{jobs.rpartition('/')[0]}/history/{job}")

    def stage(self, job: StagedJob) -> None:
        """Write job.json."""
        encoded = _EncodedJob(
            job.info, msgspec.Raw(codec.to_json(job.spec)), job.secret, job.starter
        )
        self.files.write(f"{self.staging}/{_JOB}", [msgspec.json.encode(encoded)])

    def staged(self) -> StagedJob:
        """Read job.json, or raise ``FileNotFoundError``."""
        return self._read(f"{self.staging}/{_JOB}", _decode_job)

    def spec(self) -> JobSpec | None:
        """The spec in job.json; None if the job is not staged yet or not any more."""
        try:
            return self.staged().spec
        except FileNotFoundError:
            return None

    def secret(self) -> bytes:
        """The job's secret, whichever version of ytf staged it, or ``FileNotFoundError``."""
        return self._read_as(_JOB, _EncodedSecret).secret.encode()

    def submitter(self) -> Submitter | None:
        """The process that stages the job; None if it has not written submitter.json."""
        try:
            return self._read_as(_SUBMITTER, Submitter)
        except FileNotFoundError:
            return None

    def write_submitter(self, submitter: Submitter) -> None:
        """Write submitter.json."""
        self.files.write(f"{self.staging}/{_SUBMITTER}", [msgspec.json.encode(submitter)])

    @property
    def journal(self) -> str:
        """The directory of the masters' journal."""
        return f"{self.staging}/journal"

    def has_journal(self) -> bool:
        """Whether a master has ever run; False if we may not look."""
        try:
            return bool(self.files.list(self.journal))
        except (FileNotFoundError, PermissionError):
            return False

    @property
    def masters(self) -> str:
        """The directory in which starters look for masters (``find_master``)."""
        return f"{self.staging}/masters"

    def write_master(self, attempt: int, url: str, signature: str) -> None:
        """Write where a master is, signed with the job's secret. Idempotent."""
        content = {"url": url, "attempt": attempt, "signature": signature}
        try:
            self.files.write(f"{self.masters}/{attempt}", [msgspec.json.encode(content)])
        except FileExistsError:
            return

    def record(self) -> JobRecord | None:
        """The job's record; None before its end."""
        try:
            return self._read(
                f"{self.history}/{_RECORD}", lambda data: decode_json(data, JobRecord)
            )
        except FileNotFoundError:
            return None

    @property
    def results(self) -> str:
        """The directory of what the job's functions return; there is one for each task in it."""
        return f"{self.history}/results"

    def make_results(self, owner: str) -> None:
        """Make the directory of results.

        Raises ``SettingsError`` if anyone but its owner and HDFS's superusers could
        replace it: what is in it is unpickled by the owner.
        """
        self.files.mkdir(self.results, _CLOSED)
        check_owners(self.files, self.results, (owner,))

    def remove_history(self) -> None:
        """Remove the record and the results. Idempotent."""
        self.files.delete(self.history)

    def write_record(self, record: JobRecord) -> None:
        """Write record.json; an existing one stays as it is."""
        self.files.mkdir(self.history, _CLOSED)
        try:
            self.files.write(f"{self.history}/{_RECORD}", [msgspec.json.encode(record)])
        except FileExistsError:
            return

    def remove_staging(self) -> None:
        """Remove the staging directory. Idempotent."""
        self.files.delete(self.staging)

    def _read_as(self, name: str, type_: type[T]) -> T:
        return self._read(f"{self.staging}/{name}", lambda data: decode_json(data, type_))

    def _read(self, path: str, decode: Callable[[bytes], T]) -> T:
        data = b"".join(self.files.read(path, 0, MOST_BYTES + 1))
        if len(data) > MOST_BYTES:
            raise too_long_error(self.files.uri(path))
        try:
            return decode(data)
        # Of msgspec, of the specs' codec, of bytes that are no UTF-8, or of nested brackets.
        except (ValueError, RecursionError) as exc:
            raise UnreadableJobError(
                f"{self.files.uri(path)} was written by another version of ytf: {exc}",
                hint="use the version that the job was submitted with",
            ) from exc


def too_long_error(uri: str) -> UnreadableJobError:
    """Return the error for a file, or a journal, that no master and no client of ours wrote."""
    return UnreadableJobError(
        f"{uri} is longer than {MOST_BYTES >> 20} MiB: ytf has not written it",
        hint="ask the owner of the job what it is",
    )


def _decode_job(data: bytes) -> StagedJob:
    encoded = decode_json(data, _EncodedJob)
    return StagedJob(
        info=encoded.info,
        spec=codec.from_json(bytes(encoded.spec)),
        secret=encoded.secret,
        starter=encoded.starter,
    )


class Submitter(msgspec.Struct, frozen=True, kw_only=True):
    """The content of submitter.json: the process that stages a job, and for which cluster.

    With it ``gc`` distinguishes a killed submission from one that is under way.
    """

    machine: str
    """A boot of a machine and a namespace of processes on it. Within them a pid and a start
    time identify one process, whatever the names of containers are."""
    pid: int
    start_ticks: int
    cluster: tuple[str, ...]
    """The addresses of the ResourceManagers."""

    @classmethod
    def current(cls, conf: Configuration) -> Submitter:
        """This process, for the cluster of a configuration."""
        pid = os.getpid()
        return cls(
            machine=_machine(),
            pid=pid,
            start_ticks=processes.start_ticks(pid) or 0,
            cluster=_cluster(conf),
        )

    def is_for(self, conf: Configuration) -> bool:
        """Whether the job is submitted to the cluster of a configuration."""
        return self.cluster == _cluster(conf)

    def is_alive(self) -> bool | None:
        """Whether the process still runs; None if that cannot be told.

        It may be of another machine, or of another user's whom this machine hides.
        """
        if self.machine != _machine() or processes.is_hidden(self.pid):
            return None
        return processes.alive(self.pid, self.start_ticks)


def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def _cluster(conf: Configuration) -> tuple[str, ...]:
    return tuple(str(address) for address in rm_addresses(conf, RmService.CLIENT))


async def retry_hdfs(work: Callable[[], T], total_s: float | None = None) -> T:
    """Calls ``work`` in a thread, again and again until it succeeds, and returns its result.

    For masters, which must outlive an outage of HDFS. A NameNode that was
    restarted is in safe mode until its DataNodes have reported: it serves reads
    and refuses writes. ``work`` must be idempotent. Its ``OSError`` is raised at
    once where waiting does not help (not found, not permitted), and otherwise
    after ``total_s``, by default ``RETRY_TOTAL_S``.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + (RETRY_TOTAL_S if total_s is None else total_s)
    pause_s = FIRST_RETRY_S
    while True:
        try:
            return await asyncio.to_thread(work)
        except (FileNotFoundError, PermissionError):
            raise
        except OSError as error:
            if now() + pause_s > deadline:
                raise
            log(f"{error}; trying again in {pause_s:g} s")
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_RETRY_S)
