"""Submitting a job to YARN: all of it, or nothing is left."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from ytf.backends.api import Tell
from ytf.backends.local.home import Home
from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.capacity import admit, refusal
from ytf.backends.yarn.contexts import SECRET, Contexts
from ytf.backends.yarn.home import JobHome, StagedJob, YarnHome
from ytf.backends.yarn.kinds import access_of, resource_of
from ytf.backends.yarn.reports import TYPE
from ytf.backends.yarn.shipping import Shipped, ship
from ytf.backends.yarn.submitter import Submitter
from ytf.errors import RefusedError, UnreachableError
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
_LOOK_S = 0.02
_TAKEN = (ApplicationState.ACCEPTED, ApplicationState.RUNNING, ApplicationState.FINISHED)


def submit(rm: ResourceManager, home: YarnHome, plan: Plan, tell: Tell) -> JobId:
    """Stage a job and submit it; returns once the queue has accepted it.

    Whatever stops it half-way (an error, Ctrl-C) leaves neither application nor
    staging directory.
    """
    new, spec = admit(rm, plan.spec)
    plan = msgspec.structs.replace(plan, spec=spec)
    job = JobId(str(new))
    job_home = home.make_job(job)
    is_submitted = False
    try:
        # Side by side: a file in HDFS is mostly a wait for its DataNode's report.
        with ThreadPoolExecutor(1) as pool:
            declared = pool.submit(Submitter.current(rm.conf).declare, job_home)
            cache = LayerCache(Home.of().root / "layers")
            shipped = ship(home, job_home, cache, rm.conf, rm.user, plan, tell)
        declared.result()
        submission = _stage(rm, job_home, new, plan, shipped)
        is_submitted = True
        _send(rm, submission)
        taken = _wait_until_accepted(rm, submission)
    except BaseException:
        if is_submitted:
            _withdraw(rm, new)
        job_home.remove_staging()
        raise
    if spec.priority is not None and taken.priority < spec.priority:
        tell(f"the cluster lowers the job's priority from {spec.priority} to {taken.priority}")
    return job


def _stage(
    rm: ResourceManager, job_home: JobHome, new: ApplicationId, plan: Plan, shipped: Shipped
) -> Submission:
    spec = plan.spec
    secret = secrets.token_hex(32)
    info = JobInfo(id=JobId(str(new)), user=rm.user, submitted_at=time.time(), backend=plan.backend)
    job_home.stage(StagedJob(info=info, spec=spec, secret=secret, starter=shipped.starter))
    contexts = Contexts(
        user=rm.user,
        secure=rm.conf.secure,
        credentials=Credentials({}, {SECRET: secret.encode()}),
        access=access_of(spec),
    )
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
    try:
        rm.ask(lambda asked: asked.kill(application, "the submission was given up"))
    except ApplicationNotFoundError:
        return
