"""The entry point of the YARN backend: submits jobs, finds them again, lists and collects them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ytf.backends.api import (
    CheckInterrupt,
    Notify,
    OnCommit,
    RemovedItems,
    ignore_notice,
    never_interrupted,
    no_commit_hook,
)
from ytf.backends.yarn.hdfs_layout import YarnHome, default_hdfs
from ytf.backends.yarn.job.application import APPLICATION_TYPE, summary_from_report
from ytf.backends.yarn.job.job_handle import YarnJobHandle
from ytf.backends.yarn.rm_client import RmClient
from ytf.errors import NotFoundError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.security.login import current_user
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.specs.ids import JobId
from ytf.specs.status import JobSummary
from ytf.storage.hdfs import HdfsFiles
from ytf.storage.hdfs_client import COMMAND_ANSWER_S

if TYPE_CHECKING:
    from ytf.backends.api import Plan


class YarnJobBackend:
    """Implements ``JobBackend`` for the cluster of a Hadoop configuration."""

    name = "yarn"

    def __init__(self, conf: Configuration | None = None) -> None:
        self._conf = conf or Configuration.load()
        self._rm = RmClient(self._conf, current_user(secure=self._conf.secure))
        self._files = HdfsFiles.open(
            default_hdfs(self._conf), self._conf, answer_s=COMMAND_ANSWER_S
        )

    def user(self) -> str:
        """The user that the cluster takes us for."""
        return self._rm.user

    def submit(
        self,
        plan: Plan,
        notify: Notify = ignore_notice,
        on_commit: OnCommit = no_commit_hook,
        check: CheckInterrupt = never_interrupted,
    ) -> YarnJobHandle:
        """Stage and submit a job; returns once its queue has accepted it."""
        # Imported here: commands that only look at jobs do not need it, and it loads slowly.
        from ytf.backends.yarn.submit.submit import submit

        home = YarnHome.of(self._files, self._conf, self._rm.user)
        job = submit(self._rm, home, plan, notify, on_commit, check)
        return YarnJobHandle(self._rm, self._files, job)

    def results_url(self) -> str:
        """Where the tasks of a job stage their results out to: beside its record."""
        home = YarnHome.of(self._files, self._conf, self._rm.user).job(JobId("{job}"))
        return f"{self._files.uri(home.results)}/{{task}}"

    def open(self, job: JobId) -> YarnJobHandle:
        """Find a job again, or raise ``NotFoundError``."""
        try:
            ApplicationId.parse(job)
        except ValueError as exc:
            raise NotFoundError(
                f"{job!r} is not the id of a job on YARN",
                hint="ids look like application_1700000000000_0001; `ytf list` shows yours",
            ) from exc
        found = YarnJobHandle(self._rm, self._files, job)
        if not found.exists():
            raise NotFoundError(
                f"YARN has no application {job}, and ytf has no record of it",
                hint="ytf list shows those there are; is HADOOP_CONF_DIR that of its cluster?",
            )
        return found

    def gc(
        self,
        *,
        keep_s: float,
        dryrun: bool = False,
        verify: bool = False,
        notify: Notify = ignore_notice,
    ) -> RemovedItems:
        """Remove what jobs left in HDFS, and packed layers here that were not used for long."""
        from ytf.backends.yarn.gc import YarnGc
        from ytf.packaging.layer_cache import LayerCache

        return YarnGc(
            rm=self._rm,
            home=YarnHome.of(self._files, self._conf, self._rm.user),
            cache=LayerCache.for_user(),
            keep_s=keep_s,
            dryrun=dryrun,
            verify=verify,
            notify=notify,
        ).run()

    # Last, as its name hides the type of the same name from what follows in the class.
    def list(self) -> list[JobSummary]:
        """All our applications that the ResourceManager still knows, newest first."""
        found = self._rm.call(lambda rm: rm.applications(types=[APPLICATION_TYPE]))
        summaries = map(summary_from_report, found)
        return sorted(summaries, key=lambda each: each.started or 0.0, reverse=True)
