"""What jobs left in HDFS, and layers nobody uses: found and removed while others run.

A staging directory is removed by the job's master, as the last thing it does.
One that is still there belongs to a job that runs, to one that YARN ended
without its master, or to a submission: under way or killed. The
ResourceManager tells the first two apart, if it still knows the job. If it
does not, the job may have been forgotten (it keeps a number of ended ones, and
without recovery it forgets all when it restarts), or not be submitted yet: it
counts as under way as long as the submitting process lives or, where that is
another machine's, for a day. Directories of jobs of other clusters on the same
HDFS are not ours to judge, nor are those that another version of ytf has
written in a form we do not know.

Layers are safe as long as a job that uses them has its staging directory, and
a submission makes that before it declares its use of layers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ytf.backends.api import Removed, Tell, silent
from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.home import JobHome, UnreadableJobError, YarnHome
from ytf.backends.yarn.job.burial import record_end
from ytf.backends.yarn.job.pages import LogPages
from ytf.backends.yarn.job.reports import TYPE, status_of, tasks_of
from ytf.backends.yarn.submit.submitter import Submitter
from ytf.hadoop.rpc.errors import ApplicationNotFoundError
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import ApplicationReport
from ytf.packaging.cache import LayerCache
from ytf.packaging.collection import DAY_MS, collect
from ytf.packaging.store import USES, LayerStore
from ytf.specs.names import JobId
from ytf.specs.status import FinalStatus, JobState, JobStatus, TaskState
from ytf.storage.files import Files, FileStatus, clock_ms, is_temporary

FORGOTTEN = (
    "The job did not end in good order, and YARN has forgotten it: "
    "the ResourceManager was restarted without its memory, or has had many jobs since."
)
_UNDER_WAY_MS = DAY_MS
"""For how long a submission on another machine may be at it."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One look at everything a user has at a cluster.

    ``keep_s``: how long records stay. ``dryrun``: what would go is told, and
    stays. ``verify``: every stored layer is read, too, and told if it is damaged.
    ``tell`` hears of jobs that are left alone because we cannot read them.
    """

    rm: ResourceManager
    home: YarnHome
    cache: LayerCache
    keep_s: float
    dryrun: bool = False
    verify: bool = False
    tell: Tell = silent

    def run(self) -> list[Removed]:
        """Remove what nobody needs; answers what that was.

        May be interrupted at any point, and several may run at once.
        """
        removed = [
            Removed(what="packed layer", where=str(path), size=size)
            for path, size in self.cache.sweep(dryrun=self.dryrun)
        ]
        if not _listed(self._files, self.home.root):
            return removed
        now_ms = clock_ms(self._files, self.home.root)
        staged = _listed(self._files, f"{self.home.root}/jobs")
        remaining = {each.name for each in staged}
        for status in self._ended(staged, now_ms):
            removed.append(self._removed("staging directory", status))
            remaining.discard(status.name)
        removed += self._old_records(remaining, now_ms)
        removed += self._leftovers(now_ms)
        removed += self._layers(remaining)
        return removed

    @property
    def _files(self) -> Files:
        return self.home.files

    # -- jobs ---------------------------------------------------------------------------

    def _ended(self, staged: list[FileStatus], now_ms: int) -> Iterator[FileStatus]:
        """Those of the staged jobs that will never run (again); each is recorded if it ran."""
        found = [status for status in staged if _application(status.name) is not None]
        if not found:
            return
        # After the look at what is staged: an id that is not known now was not submitted then.
        known = self._applications()
        for status in found:
            try:
                over = self._bury_if_over(status, known.get(status.name), now_ms)
            except UnreadableJobError as error:
                self.tell(f"what {status.name} left is left alone: {error}")
                continue
            if over:
                yield status

    def _bury_if_over(
        self, status: FileStatus, report: ApplicationReport | None, now_ms: int
    ) -> bool:
        """Whether a staged job is over; then it is recorded, if it ran."""
        home = self.home.job(JobId(status.name))
        if report is None:
            if not self._is_abandoned(home, now_ms - status.mtime_ms):
                return False
            if self._report(status.name) is not None:
                return False
            self._record_forgotten(home, JobId(status.name))
            return True
        if not report.state.ended:
            return False
        spec = home.spec()
        if not self.dryrun:
            pages = LogPages(self.rm, report.user)
            record_end(home, status_of(report, spec), spec, pages)
        return True

    def _is_abandoned(self, home: JobHome, age_ms: int) -> bool:
        """Whether nobody will submit this job any more."""
        submitter = Submitter.of(home)
        if submitter is not None and not submitter.is_of(self.rm.conf):
            return False
        lives = None if submitter is None else submitter.lives()
        return age_ms > _UNDER_WAY_MS if lives is None else not lives

    def _report(self, job: str) -> ApplicationReport | None:
        """Once more, now that the submitter is known to be gone: it may have submitted before."""
        try:
            return self.rm.ask(lambda rm: rm.report(ApplicationId.parse(job)))
        except ApplicationNotFoundError:
            return None

    def _record_forgotten(self, home: JobHome, job: JobId) -> None:
        if self.dryrun or home.record() is not None or not _listed(self._files, home.journal):
            return  # recorded already, or no master ever ran
        try:
            staged = home.staged()
        except FileNotFoundError:
            return
        spec, about = staged.spec, staged.info
        status = JobStatus(
            id=job,
            name=spec.name,
            user=about.user,
            queue=spec.queue,
            backend=about.backend,
            state=JobState.FAILED,
            final_status=FinalStatus.FAILED,
            diagnostics=FORGOTTEN,
            started=about.submitted_at,
            tasks=tasks_of(spec, TaskState.LOST),
        )
        record_end(home, status, spec)

    def _applications(self) -> Mapping[str, ApplicationReport]:
        found = self.rm.ask(lambda rm: rm.applications(types=[TYPE], users=[self.rm.user]))
        return {str(report.id): report for report in found}

    def _old_records(self, staged: set[str], now_ms: int) -> Iterator[Removed]:
        for status in _listed(self._files, f"{self.home.root}/history"):
            if now_ms - status.mtime_ms > self.keep_s * 1000 and status.name not in staged:
                yield self._removed("record", status)

    def _leftovers(self, now_ms: int) -> Iterator[Removed]:
        for status in _listed(self._files, self.home.root):
            if is_temporary(status.name) and now_ms - status.mtime_ms > _UNDER_WAY_MS:
                yield self._removed("half-written file", status)

    def _removed(self, what: str, status: FileStatus) -> Removed:
        size = _size(self._files, status)
        if not self.dryrun:
            self._files.delete(status.path)
        return Removed(what=what, where=self._files.uri(status.path), size=size)

    # -- layers -------------------------------------------------------------------------

    def _layers(self, staged: set[str]) -> Iterator[Removed]:
        store = LayerStore(self._files, self.home.layers, self.rm.user)
        if not _listed(self._files, store.own):
            return
        done = collect(store, lambda job: job in staged, dryrun=self.dryrun)
        for status in done.layers:
            yield Removed(what="layer", where=self._files.uri(status.path), size=status.size)
        for status in done.leftovers:
            kept = f"/{USES}/" in status.path and not is_temporary(status.name)
            what = "note of used layers" if kept else "half-written file"
            yield Removed(what=what, where=self._files.uri(status.path), size=status.size)
        if self.verify:
            for status in store.verify(dryrun=self.dryrun):
                where = self._files.uri(status.path)
                yield Removed(what="damaged layer, set aside", where=where)


def _application(name: str) -> ApplicationId | None:
    with contextlib.suppress(ValueError):
        return ApplicationId.parse(name)
    return None


def _listed(files: Files, path: str) -> list[FileStatus]:
    try:
        return files.list(path)
    except FileNotFoundError:
        return []


def _size(files: Files, status: FileStatus) -> int:
    if not status.is_directory:
        return status.size
    return sum(_size(files, each) for each in _listed(files, status.path))
