"""Submitting a job to YARN: all of it, or nothing is left."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ytf.backends.api import Hold, Tell, unheld
from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.baggage import StarterBaggage
from ytf.backends.yarn.contexts import SECRET, Contexts
from ytf.backends.yarn.home import JobHome, StagedJob, YarnHome
from ytf.backends.yarn.job.reports import TYPE
from ytf.backends.yarn.kinds import access_of, resource_of
from ytf.backends.yarn.submit.capacity import admit, refusal
from ytf.backends.yarn.submit.measuring import check_lengths
from ytf.backends.yarn.submit.shipping import Shipped, ship
from ytf.backends.yarn.submit.stopping import StoppableFiles, going
from ytf.backends.yarn.submit.submitter import Submitter
from ytf.errors import OutcomeUnknownError, RefusedError, UnreachableError, YtfError
from ytf.hadoop.rpc.errors import AccessDeniedError, ApplicationNotFoundError
from ytf.hadoop.security.credentials import Credentials
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState
from ytf.hadoop.yarn.submission import Submission
from ytf.master.info import JobInfo
from ytf.packaging.cache import LayerCache
from ytf.specs.names import JobId

if TYPE_CHECKING:
    from ytf.client.plan import Plan

_ACCEPT_S = 60.0
_KILL_S = 15.0
_LOOK_S = 0.02
_STOP_S = 1.0
"""Within which packing and uploads stop, unless HDFS does not answer."""
_TAKEN = (ApplicationState.ACCEPTED, ApplicationState.RUNNING, ApplicationState.FINISHED)


def submit(
    rm: ResourceManager, home: YarnHome, plan: Plan, tell: Tell, hold: Hold = unheld
) -> JobId:
    """Stage a job and submit it; returns once the queue has accepted it.

    Whatever stops it half-way (an error, Ctrl-C) leaves neither application nor
    staging directory; ``tell`` hears of what could not be undone.
    """
    check_lengths(_contexts(rm, plan), plan.spec, StarterBaggage(script="", files={}))
    admission = admit(rm, plan.spec)
    new, spec = admission.id, admission.spec
    if admission.note:
        tell(admission.note)
    plan = msgspec.structs.replace(plan, spec=spec)
    job = JobId(str(new))
    job_home = home.job(job)
    is_submitted = False
    try:
        home.make_job(job)
        submission = _stage(rm, job_home, new, plan, _shipped(rm, home, job, plan, tell))
        hold()
        is_submitted = True
        _send(rm, submission)
        taken = _wait_until_accepted(rm, submission)
    except BaseException:
        if is_submitted:
            with _or_told(tell, f"{new} may go on without you: `ytf kill {new}` ends it"):
                _withdraw(rm, new)
        # Also where that failed: a master without its staging directory does not get far.
        left = home.files.uri(job_home.staging)
        with _or_told(tell, f"{left} may be left: a later ytf command removes it"):
            job_home.remove_staging()
        raise
    if spec.priority is not None and taken.priority < spec.priority:
        tell(f"the cluster lowers the job's priority from {spec.priority} to {taken.priority}")
    return job


@contextmanager
def _or_told(tell: Tell, text: str) -> Iterator[None]:
    """Undo something, or tell that it may be left: the reason for undoing it stays the error."""
    try:
        yield
    except (YtfError, OSError) as error:
        tell(f"{text} ({error})")
    except BaseException:
        tell(text)
        raise


def _shipped(rm: ResourceManager, home: YarnHome, job: JobId, plan: Plan, tell: Tell) -> Shipped:
    """Bring everything to HDFS, and say whose it is; who is interrupted waits for none of it."""
    stopped, ended = threading.Event(), threading.Event()
    home = YarnHome(StoppableFiles(home.files, stopped), home.root)
    job_home = home.job(job)
    go_on = partial(going, stopped)
    cache = LayerCache.own(go_on)

    def shipping() -> Shipped:
        try:
            return ship(home, job_home, cache, rm.conf, rm.user, plan, tell, go_on)
        finally:
            ended.set()

    # Side by side: a file in HDFS is mostly a wait for its DataNode's report. And
    # not in this thread, where signals arrive: it is free to stop the others.
    with ThreadPoolExecutor(2) as pool:
        try:
            shipped = pool.submit(shipping)
            pool.submit(Submitter.current(rm.conf).declare, job_home).result()
            return shipped.result()
        except BaseException:
            stopped.set()
            if not ended.wait(_STOP_S):
                tell("stopping once HDFS has answered (interrupt to leave now)")
            raise


def _contexts(rm: ResourceManager, plan: Plan, secret: str = "") -> Contexts:
    return Contexts(
        user=rm.user,
        secure=rm.conf.secure,
        credentials=Credentials({}, {SECRET: secret.encode()}),
        access=access_of(plan.spec),
    )


def _stage(
    rm: ResourceManager, job_home: JobHome, new: ApplicationId, plan: Plan, shipped: Shipped
) -> Submission:
    spec = plan.spec
    secret = secrets.token_hex(32)
    info = JobInfo(id=JobId(str(new)), user=rm.user, submitted_at=time.time(), backend=plan.backend)
    job_home.stage(StagedJob(info=info, spec=spec, secret=secret, starter=shipped.starter))
    contexts = _contexts(rm, plan, secret)
    # Once more, now that it is known how many layers the starters are told of.
    check_lengths(contexts, spec, shipped.starter)
    return Submission(
        id=new,
        name=spec.name,
        type=TYPE,
        queue=spec.queue,
        master=contexts.master(
            job_home.files.uri(job_home.staging), shipped.master_script, shipped.master
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


def _send(rm: ResourceManager, submission: Submission) -> None:
    try:
        rm.ask(lambda asked: asked.submit(submission))
    except AccessDeniedError as error:
        may = rm.ask(lambda asked: asked.queues_to_submit_to())
        raise refusal(str(error), may) from error


def _wait_until_accepted(rm: ResourceManager, submission: Submission) -> ApplicationReport:
    deadline = time.monotonic() + _ACCEPT_S
    while True:
        report = _report(rm, submission)
        if report is not None and report.state in _TAKEN:
            return report
        if report is not None and report.state.ended:
            raise RefusedError(f"YARN did not take the job: {report.diagnostics.strip()}")
        if time.monotonic() > deadline:
            raise UnreachableError(
                f"YARN has not accepted {submission.id} within {_ACCEPT_S:g} s",
                hint="see whether the ResourceManager is well, and submit again",
            )
        time.sleep(_LOOK_S)


def _report(rm: ResourceManager, submission: Submission) -> ApplicationReport | None:
    try:
        return rm.ask(lambda asked: asked.report(submission.id))
    except ApplicationNotFoundError:
        # Another ResourceManager took over, and had not heard of it: to say it twice is once.
        rm.ask(lambda asked: asked.submit(submission))
        return None


def _withdraw(rm: ResourceManager, application: ApplicationId) -> None:
    """Have it dead, or never have been; raises ``OutcomeUnknownError`` if that takes too long."""
    deadline = time.monotonic() + _KILL_S
    try:
        while not rm.ask(lambda asked: asked.kill(application, "the submission was given up")):
            if time.monotonic() > deadline:
                raise OutcomeUnknownError(f"YARN has not ended it within {_KILL_S:g} s")
            time.sleep(_LOOK_S)
    except ApplicationNotFoundError:
        return
