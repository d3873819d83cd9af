"""Where local jobs are submitted to and found again."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ytf.backends.api import KEEP_S, Hold, Rubbish, Tell, silent, unheld
from ytf.backends.local.burial import MASTER
from ytf.backends.local.handle import LocalJob
from ytf.backends.local.home import Home, is_job_id
from ytf.errors import NotFoundError, SettingsError, UnreachableError
from ytf.specs.names import JobId
from ytf.specs.status import JobState, JobStatus, JobSummary
from ytf.specs.wording import did_you_mean

if TYPE_CHECKING:
    from ytf.client.plan import Plan

_LIST_PATIENCE_S = 3.0


class _Kept(msgspec.Struct, frozen=True):
    """As much of a record as a list needs; the rest is not even decoded."""

    status: JobSummary


class LocalJobs:
    """Implements ``JobBackend`` below ``YTF_HOME``.

    ``master`` is the command that starts a master.
    """

    name = "local"

    def __init__(self, home: Home | None = None, *, master: Sequence[str] = MASTER) -> None:
        self.home = home or Home.of()
        self.home.check()
        self._master = master

    def user(self) -> str:
        """Who we are on this machine."""
        try:
            return getpass.getuser()
        except (KeyError, OSError) as exc:  # which of them depends on the version of Python
            raise SettingsError(
                f"the system knows no user name for uid {os.getuid()}",
                hint="set USER to the name that the job is to have as its owner",
            ) from exc

    def submit(self, plan: Plan, tell: Tell = silent, hold: Hold = unheld) -> LocalJob:
        """Stage and start a job; returns once its master has accepted it."""
        # All of it takes a moment.
        hold()
        # Not needed to look at jobs, and it takes its time to load.
        from ytf.backends.local.submission import submit

        return LocalJob(
            self.home, submit(self.home, plan, master=self._master), master=self._master
        )

    def open(self, job: JobId) -> LocalJob:
        """Find a job again, or raise ``NotFoundError``."""
        known = is_job_id(job) and (
            self.home.staging(job).is_dir() or self.home.record(job).is_file()
        )
        if not known:
            raise NotFoundError(
                f"there is no job {job} on this machine",
                hint=did_you_mean(
                    job, self._ids(), otherwise="ytf list shows those there are", likeness=0.8
                ),
            )
        return LocalJob(self.home, job, master=self._master)

    def collect(
        self, *, keep_s: float, dryrun: bool = False, verify: bool = False, tell: Tell = silent
    ) -> Rubbish:
        """Bury or remove what dead jobs left, and old records with their logs."""
        from ytf.backends.local.sweep import sweep

        return sweep(self.home, keep_s=keep_s, dryrun=dryrun, master=self._master)

    def sweep(self, *, keep_s: float = KEEP_S) -> list[JobId]:
        """The same for commands that have something else to do; answers which jobs were buried."""
        from ytf.backends.local.sweep import DEAD

        done = self.collect(keep_s=keep_s)
        return [JobId(os.path.basename(each.where)) for each in done if each.what == DEAD]

    def _ids(self) -> list[str]:
        names = {*_names(self.home.jobs), *_names(self.home.history)}
        return sorted(name for name in names if is_job_id(name))

    def _summary(self, job: JobId) -> JobSummary | None:
        try:
            return msgspec.json.decode(self.home.record(job).read_bytes(), type=_Kept).status
        except FileNotFoundError:
            pass
        handle = LocalJob(self.home, job, master=self._master, patience_s=_LIST_PATIENCE_S)
        try:
            return _summarised(handle.status())
        except NotFoundError:
            # It went meanwhile, or is only being staged.
            return None
        except UnreachableError:
            return self._submitted(job)

    def _submitted(self, job: JobId) -> JobSummary | None:
        """What is known of a job whose master does not answer."""
        from ytf.specs.codec import from_json

        staging = self.home.staging(job)
        try:
            spec = from_json((staging / "spec.json").read_bytes())
            about = msgspec.json.decode((staging / "job.json").read_bytes())
        except FileNotFoundError:
            return None
        return JobSummary(
            id=job,
            name=spec.name,
            user=about["user"],
            queue=spec.queue,
            backend=self.name,
            state=JobState.SUBMITTED,
            started=about["submitted_at"],
        )

    # Last, as its name hides the type of the same name from what follows in the class.
    def list(self) -> list[JobSummary]:
        """All jobs that run or whose record is kept, newest first."""
        found = [self._summary(JobId(job)) for job in self._ids()]
        known = [summary for summary in found if summary is not None]
        return sorted(known, key=lambda summary: summary.started or 0.0, reverse=True)


def _summarised(status: JobStatus) -> JobSummary:
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
