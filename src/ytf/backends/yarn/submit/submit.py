"""Submits a job to YARN: stages it in HDFS and starts its application, or leaves nothing behind.

Packing and uploads run in threads. An interrupt of the user cancels them.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ytf.backends.api import (
    CheckInterrupt,
    Notify,
    OnCommit,
    never_interrupted,
    no_commit_hook,
)
from ytf.backends.hdfs_access import check_hdfs_access
from ytf.backends.registry_access import check_registry_access
from ytf.backends.yarn.container_requests import resource_of
from ytf.backends.yarn.hdfs_layout import JobHome, StagedJob, Submitter, YarnHome
from ytf.backends.yarn.job.application import APPLICATION_TYPE
from ytf.backends.yarn.job.secret_cache import SecretCache
from ytf.backends.yarn.launch_contexts import SECRET_NAME, LaunchContexts, StarterResources, acls_of
from ytf.backends.yarn.rm_client import RmClient
from ytf.backends.yarn.submit.admission import admit, check_launch_size, queue_refusal
from ytf.backends.yarn.submit.upload import (
    CollectedLayers,
    UploadedResources,
    collect_layers,
    upload_resources,
)
from ytf.errors import OutcomeUnknownError, RefusedError, UnreachableError, YtfError
from ytf.hadoop.rpc.errors import AccessDeniedError, ApplicationNotFoundError
from ytf.hadoop.security.credentials import Credentials
from ytf.hadoop.yarn.contexts import ApplicationSubmissionContext
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState
from ytf.packaging.layer_cache import LayerCache
from ytf.specs.ids import JobId
from ytf.specs.status import JobInfo
from ytf.storage.files import Files, FileStatus

if TYPE_CHECKING:
    from ytf.backends.api import Plan

_ACCEPT_S = 60.0
_KILL_S = 15.0
_POLL_S = 0.02
_CHECK_S = 0.5
"""How often it is looked whether the caller was cancelled."""
_CANCEL_S = 1.0
"""The time in which packing and uploads stop, unless HDFS does not answer."""
_ACCEPTED = (ApplicationState.ACCEPTED, ApplicationState.RUNNING, ApplicationState.FINISHED)


def submit(
    rm: RmClient,
    home: YarnHome,
    plan: Plan,
    notify: Notify,
    on_commit: OnCommit = no_commit_hook,
    check: CheckInterrupt = never_interrupted,
) -> JobId:
    """Stage a job and submit it; returns once the queue has accepted it.

    An error or an interrupt (Ctrl-C) half-way leaves neither an application nor a
    staging directory; ``notify`` is told of what could not be undone.
    """
    check_launch_size(_launch_contexts(rm, plan), plan.spec, StarterResources(script="", files={}))
    cancelled = threading.Event()
    cache = LayerCache.for_user(partial(raise_if_cancelled, cancelled))
    # It takes processor time while the rest mostly waits for answers of the cluster.
    with ThreadPoolExecutor(1) as collector:
        collecting = collector.submit(collect_layers, cache, rm.conf, plan)
        try:
            return _submit(rm, home, plan, collecting, notify, on_commit, check, cancelled)
        except BaseException:
            cancelled.set()
            raise


def _submit(
    rm: RmClient,
    home: YarnHome,
    plan: Plan,
    collecting: Future[CollectedLayers],
    notify: Notify,
    on_commit: OnCommit,
    check: CheckInterrupt,
    cancelled: threading.Event,
) -> JobId:
    check_registry_access(plan)
    check_hdfs_access(plan, notify, rm.conf)
    admission = admit(rm, plan.spec)
    new, spec = admission.id, admission.spec
    for note in admission.notes:
        notify(note)
    plan = msgspec.structs.replace(plan, spec=spec)
    job = JobId(str(new))
    job_home = home.job(job)
    is_submitted = False
    try:
        home.make_job(job, rm.user)
        if plan.keeps_results:
            job_home.make_results(rm.user)
        uploaded = _upload(rm, home, job, plan, collecting, notify, check, cancelled)
        submission = _stage(rm, job_home, new, plan, uploaded)
        check()
        on_commit()
        is_submitted = True
        _send(rm, submission)
        report = _wait_until_accepted(rm, submission)
    except BaseException:
        if is_submitted:
            with _notify_failure(notify, f"{new} may run all the same: `ytf kill {new}` ends it"):
                _withdraw(rm, new)
        # Also if that failed: a master without its staging directory ends soon.
        SecretCache.of(rm.user).remove(job)
        left = home.files.uri(job_home.staging)
        with _notify_failure(notify, f"{left} may be left: a later ytf command removes it"):
            job_home.remove_staging()
            if plan.keeps_results:
                job_home.remove_history()
        raise
    if spec.priority is not None and report.priority < spec.priority:
        notify(f"the cluster lowers the job's priority from {spec.priority} to {report.priority}")
    return job


@contextmanager
def _notify_failure(notify: Notify, text: str) -> Iterator[None]:
    """Undo something. If that fails, only notify: the reason for undoing it stays the error."""
    try:
        yield
    except (YtfError, OSError) as error:
        notify(f"{text} ({error})")
    except BaseException:
        notify(text)
        raise


def _upload(
    rm: RmClient,
    home: YarnHome,
    job: JobId,
    plan: Plan,
    collecting: Future[CollectedLayers],
    notify: Notify,
    check_caller: CheckInterrupt,
    cancelled: threading.Event,
) -> UploadedResources:
    """Upload everything to HDFS and write submitter.json. An interrupt cancels both."""
    ended = threading.Event()
    home = YarnHome(CancellableFiles(home.files, cancelled), home.root)
    job_home = home.job(job)
    check = partial(raise_if_cancelled, cancelled)

    def upload() -> UploadedResources:
        try:
            collected = collecting.result()
            return upload_resources(
                home, job_home, collected, rm.conf, rm.user, plan, notify, check
            )
        finally:
            ended.set()

    # Both at once: writing a file in HDFS is mostly a wait for its DataNode's report. Not in
    # this thread: it receives the signals, and must be free to cancel the others.
    with ThreadPoolExecutor(2) as pool:
        try:
            uploaded = pool.submit(upload)
            submitter = pool.submit(job_home.write_submitter, Submitter.current(rm.conf))
            both: tuple[Future[Any], ...] = (submitter, uploaded)
            while wait(both, _CHECK_S, FIRST_EXCEPTION).not_done:
                for each in both:
                    if each.done():
                        each.result()
                check_caller()
            submitter.result()
            return uploaded.result()
        except BaseException:
            cancelled.set()
            if not ended.wait(_CANCEL_S):
                notify("stopping once HDFS has answered (interrupt to leave now)")
            raise


def _launch_contexts(rm: RmClient, plan: Plan, secret: str = "") -> LaunchContexts:
    return LaunchContexts(
        user=rm.user,
        secure=rm.conf.secure,
        credentials=Credentials({}, {SECRET_NAME: secret.encode()}),
        acls=acls_of(plan.spec),
    )


def _stage(
    rm: RmClient, job_home: JobHome, new: ApplicationId, plan: Plan, uploaded: UploadedResources
) -> ApplicationSubmissionContext:
    spec = plan.spec
    secret = secrets.token_hex(32)
    info = JobInfo(id=JobId(str(new)), user=rm.user, submitted_at=time.time(), backend=plan.backend)
    job_home.stage(StagedJob(info=info, spec=spec, secret=secret, starter=uploaded.starter))
    SecretCache.of(rm.user).keep(info.id, secret.encode())
    contexts = _launch_contexts(rm, plan, secret)
    # Checked again, now that the number of layers in the starters' configuration is known.
    check_launch_size(contexts, spec, uploaded.starter)
    return ApplicationSubmissionContext(
        id=new,
        name=spec.name,
        type=APPLICATION_TYPE,
        queue=spec.queue,
        master=contexts.master(
            job_home.files.uri(job_home.staging), uploaded.master_script, uploaded.master
        ),
        priority=spec.priority,
        tags=spec.tags,
        node_label=spec.node_label,
        lifetime_s=spec.timeouts.lifetime_s,
        master_resource=resource_of(spec.master.resources),
        max_attempts=spec.master.max_attempts,
        keep_containers=True,
        attempt_window_s=spec.master.attempt_window_s,
    )


def _send(rm: RmClient, submission: ApplicationSubmissionContext) -> None:
    try:
        rm.call(lambda protocol: protocol.submit(submission))
    except AccessDeniedError as error:
        may = rm.call(lambda protocol: protocol.queues_to_submit_to())
        raise queue_refusal(str(error), may) from error


def _wait_until_accepted(
    rm: RmClient, submission: ApplicationSubmissionContext
) -> ApplicationReport:
    deadline = time.monotonic() + _ACCEPT_S
    while True:
        report = _report(rm, submission)
        if report is not None and report.state in _ACCEPTED:
            return report
        if report is not None and report.state.ended:
            raise RefusedError(f"YARN did not take the job: {report.diagnostics.strip()}")
        if time.monotonic() > deadline:
            raise UnreachableError(
                f"YARN has not accepted {submission.id} within {_ACCEPT_S:g} s",
                hint="see whether the ResourceManager is well, and submit again",
            )
        time.sleep(_POLL_S)


def _report(rm: RmClient, submission: ApplicationSubmissionContext) -> ApplicationReport | None:
    try:
        return rm.call(lambda protocol: protocol.report(submission.id))
    except ApplicationNotFoundError:
        # A ResourceManager that took over does not know it yet. To submit twice is idempotent.
        rm.call(lambda protocol: protocol.submit(submission))
        return None


def _withdraw(rm: RmClient, application: ApplicationId) -> None:
    """Kill the application if it exists; ``OutcomeUnknownError`` if that takes too long."""
    deadline = time.monotonic() + _KILL_S
    try:
        while not rm.call(
            lambda protocol: protocol.kill(application, "the submission was given up")
        ):
            if time.monotonic() > deadline:
                raise OutcomeUnknownError(f"YARN has not ended it within {_KILL_S:g} s")
            time.sleep(_POLL_S)
    except ApplicationNotFoundError:
        return


class SubmitCancelledError(Exception):
    """The submission was cancelled. It ends a thread; no caller sees it."""


def raise_if_cancelled(cancelled: threading.Event) -> None:
    """Raise :class:`SubmitCancelledError` once ``cancelled`` is set."""
    if cancelled.is_set():
        raise SubmitCancelledError


@dataclass(frozen=True)
class CancellableFiles:
    """Implements :class:`Files` on top of another until ``cancelled`` is set.

    Then every call raises :class:`SubmitCancelledError`. A write that is under way
    raises it at its next piece, and leaves no file.
    """

    files: Files
    cancelled: threading.Event

    def uri(self, path: str) -> str:
        """See :meth:`Files.uri`."""
        return self.files.uri(path)

    def stat(self, path: str) -> FileStatus:
        """See :meth:`Files.stat`."""
        return self._unless_cancelled().stat(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """See :meth:`Files.read`."""
        return self._each(self._unless_cancelled().read(path, offset, length))

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        """See :meth:`Files.write`."""
        return self._unless_cancelled().write(path, self._each(chunks), mode)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        """See :meth:`Files.mkdir`."""
        self._unless_cancelled().mkdir(path, mode)

    def acl_writers(self, path: str) -> tuple[str, ...]:
        """See :meth:`Files.acl_writers`."""
        return self._unless_cancelled().acl_writers(path)

    def chmod(self, path: str, mode: int) -> None:
        """See :meth:`Files.chmod`."""
        self._unless_cancelled().chmod(path, mode)

    def delete(self, path: str) -> None:
        """See :meth:`Files.delete`."""
        self._unless_cancelled().delete(path)

    def rename(self, source: str, target: str) -> None:
        """See :meth:`Files.rename`."""
        self._unless_cancelled().rename(source, target)

    def _unless_cancelled(self) -> Files:
        raise_if_cancelled(self.cancelled)
        return self.files

    def _each(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._unless_cancelled()
            yield piece
        # If the pieces ended here, a cancelled write would leave a complete file.
        self._unless_cancelled()

    # Last, as its name hides the type of the same name from what follows in the class.
    def list(self, path: str) -> list[FileStatus]:
        """See :meth:`Files.list`."""
        return self._unless_cancelled().list(path)
