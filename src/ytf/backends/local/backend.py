"""Implements ``JobBackend``: submits, finds and lists the jobs of this machine."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ytf.backends.api import (
    RECORD_RETENTION_S,
    CheckInterrupt,
    Notify,
    OnCommit,
    RemovedItems,
    ignore_notice,
    never_interrupted,
    no_commit_hook,
)
from ytf.backends.local.directories import JobDirectories, is_job_id
from ytf.backends.local.job_handle import LocalJobHandle
from ytf.backends.local.job_processes import MASTER_COMMAND
from ytf.decoding import decode_json
from ytf.errors import NotFoundError, SettingsError, UnreachableError, did_you_mean
from ytf.specs.ids import JobId
from ytf.specs.status import JobInfo, JobState, JobStatus, JobSummary

if TYPE_CHECKING:
    from ytf.backends.api import Plan

_LIST_TIMEOUT_S = 3.0
"""How long a list waits for the master of one job."""


class _RecordSummary(msgspec.Struct, frozen=True):
    """The part of a record that a list needs; the rest is not decoded."""

    status: JobSummary


class LocalJobBackend:
    """Implements ``JobBackend`` below ``YTF_HOME``.

    ``master`` is the command that starts a master.
    """

    name = "local"

    def __init__(
        self, home: JobDirectories | None = None, *, master: Sequence[str] = MASTER_COMMAND
    ) -> None:
        self.home = home or JobDirectories.from_environ()
        self.home.check()
        self._master = master

    def user(self) -> str:
        """Return the name of the user on this machine."""
        try:
            return getpass.getuser()
        except (KeyError, OSError) as exc:  # which of them depends on the version of Python
            raise SettingsError(
                f"the system knows no user name for uid {os.getuid()}",
                hint="set USER to the name that the job is to have as its owner",
            ) from exc

    def submit(
        self,
        plan: Plan,
        notify: Notify = ignore_notice,
        on_commit: OnCommit = no_commit_hook,
        check: CheckInterrupt = never_interrupted,
    ) -> LocalJobHandle:
        """Stage and start a job; returns once its master has accepted it."""
        # Loaded here: other commands do not need it, and its import takes time.
        from ytf.backends.hdfs_access import check_hdfs_access
        from ytf.backends.local.submit import submit

        check_hdfs_access(plan, notify)
        # The rest takes only a moment, so it counts as committed from the start.
        check()
        on_commit()

        return LocalJobHandle(
            self.home, submit(self.home, plan, master=self._master), master=self._master
        )

    def results_url(self) -> str:
        """Return where the tasks of a job stage their results out to."""
        return f"{self.home.results(JobId('{job}'))}/{{task}}"

    def open(self, job: JobId) -> LocalJobHandle:
        """Find a job again, or raise ``NotFoundError``."""
        known = is_job_id(job) and (
            self.home.staging(job).is_dir() or self.home.record(job).is_file()
        )
        if not known:
            raise NotFoundError(
                f"there is no job {job} on this machine",
                hint=did_you_mean(
                    job, self._ids(), otherwise="`ytf list` shows your jobs", likeness=0.8
                ),
            )
        return LocalJobHandle(self.home, job, master=self._master)

    def gc(
        self,
        *,
        keep_s: float,
        dryrun: bool = False,
        verify: bool = False,
        notify: Notify = ignore_notice,
    ) -> RemovedItems:
        """Finalize dead jobs, and remove what they left and old records with their logs.

        Environments that ytf made on this machine and that no job uses any more go as well.
        """
        from ytf.backends.local.gc import gc_environments, gc_jobs, gc_registries

        return [
            # First: it finds jobs by their records.
            *gc_registries(self.home, dryrun=dryrun, notify=notify),
            *gc_jobs(self.home, keep_s=keep_s, dryrun=dryrun, master=self._master),
            *gc_environments(self.home, dryrun=dryrun),
        ]

    def gc_dead_jobs(self, *, keep_s: float = RECORD_RETENTION_S) -> list[JobId]:
        """Remove what needs no other machine, before another command; returns the dead jobs."""
        from ytf.backends.local.gc import DEAD_JOB, gc_jobs

        removed = gc_jobs(self.home, keep_s=keep_s, master=self._master)
        return [JobId(os.path.basename(item.where)) for item in removed if item.what == DEAD_JOB]

    def _ids(self) -> list[str]:
        names = {*_names(self.home.jobs), *_names(self.home.history)}
        return sorted(name for name in names if is_job_id(name))

    def _summary(self, job: JobId) -> JobSummary | None:
        try:
            record = self.home.record(job).read_bytes()
            return decode_json(record, _RecordSummary).status
        except FileNotFoundError:
            pass
        handle = LocalJobHandle(
            self.home, job, master=self._master, master_timeout_s=_LIST_TIMEOUT_S
        )
        try:
            return _summarise(handle.status())
        except NotFoundError:
            # The job was removed meanwhile, or its submission has only begun.
            return None
        except UnreachableError:
            return self._summary_of_staged(job)

    def _summary_of_staged(self, job: JobId) -> JobSummary | None:
        """Summarise a job whose master does not answer, from what was submitted."""
        from ytf.specs.codec import from_json

        staging = self.home.staging(job)
        try:
            spec = from_json((staging / "spec.json").read_bytes())
            about = decode_json((staging / "job.json").read_bytes(), JobInfo)
        except FileNotFoundError:
            return None
        return JobSummary(
            id=job,
            name=spec.name,
            user=about.user,
            queue=spec.queue,
            backend=self.name,
            state=JobState.SUBMITTED,
            started=about.submitted_at,
        )

    # The last method, because its name hides the type ``list`` in the rest of the class.
    def list(self) -> list[JobSummary]:
        """Return all jobs that run or have a record, newest first."""
        found = [self._summary(JobId(job)) for job in self._ids()]
        known = [summary for summary in found if summary is not None]
        return sorted(known, key=lambda summary: summary.started or 0.0, reverse=True)


def _summarise(status: JobStatus) -> JobSummary:
    return JobSummary(
        id=status.id,
        name=status.name,
        user=status.user,
        queue=status.queue,
        backend=status.backend,
        state=status.state,
        started=status.started,
        finished=status.finished,
    )


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []
