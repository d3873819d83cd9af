"""Removes what jobs left in HDFS and layers that no job uses, while other jobs run (``ytf gc``).

The last thing that a job's master does is to remove the job's staging directory.
One that is still there belongs to a job that runs, to a job that YARN ended
without its master, or to a submission: under way or killed. The ResourceManager
tells the first two apart, if it still knows the job. If it does not, there are
two cases:

* The ResourceManager has forgotten the job. It keeps a limited number of ended
  jobs, and without recovery it forgets all of them when it restarts.
* The job is not submitted yet. It counts as under way as long as the submitting
  process lives or, if that runs on another machine, for a day.

Jobs of other clusters on the same HDFS are left alone, and so are files that
another version of ytf has written in a form that we cannot read.

A layer is kept as long as a job that uses it has its staging directory. A
submission makes that directory before it declares which layers it uses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ytf.backends.api import Notify, RemovedItem, ignore_notice
from ytf.backends.registry_access import RegistryLeftovers
from ytf.backends.yarn.hdfs_layout import JobHome, UnreadableJobError, YarnHome
from ytf.backends.yarn.job.application import APPLICATION_TYPE, status_from_report, tasks_in_state
from ytf.backends.yarn.job.finalize import write_final_record
from ytf.backends.yarn.node_log_pages import NodeLogPages
from ytf.backends.yarn.rm_client import RmClient
from ytf.hadoop.rpc.errors import ApplicationNotFoundError
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import ApplicationReport
from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layer_gc import DAY_MS, remove_unused_layers
from ytf.packaging.layer_store import USES, LayerStore
from ytf.specs.ids import JobId
from ytf.specs.status import FinalStatus, JobState, JobStatus, TaskState
from ytf.storage.files import Files, FileStatus, clock_ms, is_temporary

_FORGOTTEN = (
    "The job did not end in good order, and YARN has forgotten it: "
    "the ResourceManager was restarted without its memory, or has had many jobs since."
)
_UNDER_WAY_MS = DAY_MS
"""How long a submission on another machine counts as under way."""


@dataclass(frozen=True, kw_only=True)
class YarnGc:
    """One collection of everything that a user has left at a cluster.

    ``keep_s`` is how long records stay. With ``dryrun`` nothing is removed. With
    ``verify`` every stored layer is read, and damaged ones are set aside.
    ``notify`` is told of jobs that are left alone because we cannot read them.
    """

    rm: RmClient
    home: YarnHome
    cache: LayerCache
    keep_s: float
    dryrun: bool = False
    verify: bool = False
    notify: Notify = ignore_notice
    _registries: list[RemovedItem] = field(init=False, default_factory=list)

    def run(self) -> list[RemovedItem]:
        """Remove what no job needs, and return what was removed.

        It may be interrupted at any point, and several may run at once.
        """
        removed = [
            RemovedItem(what="packed layer", where=str(path), size=size)
            for path, size in self.cache.remove_unused(dryrun=self.dryrun)
        ]
        if not _listed(self._files, self.home.root):
            return removed
        now_ms = clock_ms(self._files, self.home.root)
        staged = _listed(self._files, f"{self.home.root}/jobs")
        remaining = {each.name for each in staged}
        for status in self._ended(staged, now_ms):
            removed.append(self._removed("staging directory", status))
            remaining.discard(status.name)
        removed += self._registries
        removed += self._old_records(remaining, now_ms)
        removed += self._leftovers(now_ms)
        removed += self._layers(remaining)
        return removed

    @property
    def _files(self) -> Files:
        return self.home.files

    # -- jobs ---------------------------------------------------------------------------

    def _ended(self, staged: list[FileStatus], now_ms: int) -> Iterator[FileStatus]:
        """The staged jobs that will never run (again); a record of each that ran is written."""
        found = [status for status in staged if _application(status.name) is not None]
        if not found:
            return
        # After listing what is staged: an id that YARN does not know now was not submitted then.
        known = self._applications()
        leftovers = RegistryLeftovers(self.notify, self.dryrun)
        for status in found:
            try:
                has_ended = self._finalize_if_ended(status, known.get(status.name), now_ms)
                has_ended = has_ended and self._empty_registry(JobId(status.name), leftovers)
            except UnreadableJobError as error:
                self.notify(f"the files of {status.name} in HDFS are left alone: {error}")
                continue
            if has_ended:
                yield status

    def _empty_registry(self, job: JobId, leftovers: RegistryLeftovers) -> bool:
        """Remove what an ended job left in ZooKeeper; False if that was not possible."""
        try:
            staged = self.home.job(job).staged()
        except FileNotFoundError:
            return True  # it was never submitted
        item = leftovers.remove(
            staged.spec.registry, user=staged.info.user, name=staged.spec.name, job=job
        )
        if item is not None:
            self._registries.append(item)
        return job not in leftovers.failed

    def _finalize_if_ended(
        self, status: FileStatus, report: ApplicationReport | None, now_ms: int
    ) -> bool:
        """Whether a staged job has ended; if it has and ever ran, its record is written."""
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
            pages = NodeLogPages(self.rm, report.user)
            write_final_record(home, status_from_report(report, spec), spec, pages)
        return True

    def _is_abandoned(self, home: JobHome, age_ms: int) -> bool:
        """Whether no process will submit this job any more."""
        submitter = home.submitter()
        if submitter is not None and not submitter.is_for(self.rm.conf):
            return False
        is_alive = None if submitter is None else submitter.is_alive()
        return age_ms > _UNDER_WAY_MS if is_alive is None else not is_alive

    def _report(self, job: str) -> ApplicationReport | None:
        """Asked again once the submitter is known to be gone: it may have submitted just before."""
        try:
            return self.rm.call(lambda rm: rm.report(ApplicationId.parse(job)))
        except ApplicationNotFoundError:
            return None

    def _record_forgotten(self, home: JobHome, job: JobId) -> None:
        if self.dryrun or home.record() is not None or not _listed(self._files, home.journal):
            return  # it has a record, or no master ever ran
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
            diagnostics=_FORGOTTEN,
            started=about.submitted_at,
            tasks=tasks_in_state(spec, TaskState.LOST),
        )
        write_final_record(home, status, spec)

    def _applications(self) -> Mapping[str, ApplicationReport]:
        found = self.rm.call(
            lambda rm: rm.applications(types=[APPLICATION_TYPE], users=[self.rm.user])
        )
        return {str(report.id): report for report in found}

    def _old_records(self, staged: set[str], now_ms: int) -> Iterator[RemovedItem]:
        for status in _listed(self._files, f"{self.home.root}/history"):
            if now_ms - status.mtime_ms > self.keep_s * 1000 and status.name not in staged:
                yield self._removed("record", status)

    def _leftovers(self, now_ms: int) -> Iterator[RemovedItem]:
        for status in _listed(self._files, self.home.root):
            if is_temporary(status.name) and now_ms - status.mtime_ms > _UNDER_WAY_MS:
                yield self._removed("half-written file", status)

    def _removed(self, what: str, status: FileStatus) -> RemovedItem:
        size = _size(self._files, status)
        if not self.dryrun:
            self._files.delete(status.path)
        return RemovedItem(what=what, where=self._files.uri(status.path), size=size)

    # -- layers -------------------------------------------------------------------------

    def _layers(self, staged: set[str]) -> Iterator[RemovedItem]:
        store = LayerStore(self._files, self.home.layers, self.rm.user)
        if not _listed(self._files, store.own_root):
            return
        done = remove_unused_layers(store, lambda job: job in staged, dryrun=self.dryrun)
        for status in done.layers:
            yield RemovedItem(what="layer", where=self._files.uri(status.path), size=status.size)
        for status in done.leftovers:
            kept = f"/{USES}/" in status.path and not is_temporary(status.name)
            what = "note of used layers" if kept else "half-written file"
            yield RemovedItem(what=what, where=self._files.uri(status.path), size=status.size)
        if self.verify:
            for status in store.verify(dryrun=self.dryrun):
                where = self._files.uri(status.path)
                yield RemovedItem(what="damaged layer, set aside", where=where)


def _application(name: str) -> ApplicationId | None:
    with contextlib.suppress(ValueError):
        return ApplicationId.parse(name)
    return None


def _listed(files: Files, path: str) -> list[FileStatus]:
    try:
        return files.list(path)
    except FileNotFoundError:
        return []


def tree_size(files: Files, path: str) -> int:
    """The total size of the files below a directory; 0 if there is none."""
    return sum(_size(files, each) for each in _listed(files, path))


def _size(files: Files, status: FileStatus) -> int:
    if not status.is_directory:
        return status.size
    return tree_size(files, status.path)
