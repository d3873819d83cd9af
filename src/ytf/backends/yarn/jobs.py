"""Where YARN jobs are submitted to and found again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ytf.backends.api import Hold, Rubbish, Tell, silent, unheld
from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.home import YarnHome
from ytf.backends.yarn.job.handle import YarnJob
from ytf.backends.yarn.job.reports import TYPE, summary_of
from ytf.errors import NotFoundError, SettingsError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.security.login import current_user
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.specs.names import JobId
from ytf.specs.status import JobSummary
from ytf.storage.hdfs import HdfsFiles

if TYPE_CHECKING:
    from ytf.client.plan import Plan


class YarnJobs:
    """Implements ``JobBackend`` for the cluster of a Hadoop configuration."""

    name = "yarn"

    def __init__(self, conf: Configuration | None = None) -> None:
        self._conf = conf or Configuration.load()
        self._rm = ResourceManager(self._conf, current_user(secure=self._conf.secure))
        url = self._conf.get_trimmed("fs.defaultFS") or ""
        if not url.startswith("hdfs://"):
            raise SettingsError(
                f"fs.defaultFS is {url or 'not set'}, and jobs on YARN are staged in HDFS",
                hint="set it to hdfs://… in core-site.xml",
            )
        self._files = HdfsFiles.open(url, self._conf)

    def user(self) -> str:
        """Whom the cluster takes us for."""
        return self._rm.user

    def submit(self, plan: Plan, tell: Tell = silent, hold: Hold = unheld) -> YarnJob:
        """Stage and submit a job; returns once its queue has accepted it."""
        # Not needed to look at jobs, and it takes its time to load.
        from ytf.backends.yarn.submit.submission import submit

        home = YarnHome.of(self._files, self._conf, self._rm.user)
        return YarnJob(self._rm, self._files, submit(self._rm, home, plan, tell, hold))

    def open(self, job: JobId) -> YarnJob:
        """Find a job again, or raise ``NotFoundError``."""
        try:
            ApplicationId.parse(job)
        except ValueError as exc:
            raise NotFoundError(
                f"{job!r} is not the id of a job on YARN",
                hint="ids look like application_1700000000000_0001; `ytf list` shows yours",
            ) from exc
        found = YarnJob(self._rm, self._files, job)
        if not found.exists():
            raise NotFoundError(
                f"neither YARN nor a record knows {job}",
                hint="ytf list shows those there are; is HADOOP_CONF_DIR that of its cluster?",
            )
        return found

    def collect(
        self, *, keep_s: float, dryrun: bool = False, verify: bool = False, tell: Tell = silent
    ) -> Rubbish:
        """Remove our leftovers in HDFS, and packed layers here that nobody has used for long."""
        from ytf.backends.yarn.sweep import Sweep
        from ytf.packaging.cache import LayerCache

        return Sweep(
            rm=self._rm,
            home=YarnHome.of(self._files, self._conf, self._rm.user),
            cache=LayerCache.own(),
            keep_s=keep_s,
            dryrun=dryrun,
            verify=verify,
            tell=tell,
        ).run()

    # Last, as its name hides the type of the same name from what follows in the class.
    def list(self) -> list[JobSummary]:
        """All our applications that the ResourceManager still knows, newest first."""
        found = self._rm.ask(lambda rm: rm.applications(types=[TYPE]))
        return sorted(map(summary_of, found), key=lambda each: each.started or 0.0, reverse=True)
