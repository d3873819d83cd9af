"""The status of a job whose master does not answer: from its record, its journal, or YARN."""

from __future__ import annotations

import time

import msgspec

from ytf.backends.yarn.job.application import (
    ApplicationLookup,
    is_between_masters,
    status_from_report,
    why_silent,
    with_yarn_facts,
)
from ytf.backends.yarn.job.finalize import final_record, finalize
from ytf.backends.yarn.job.master_client import NoAnswer
from ytf.backends.yarn.node_log_pages import NodeLogPages
from ytf.errors import NotFoundError
from ytf.hadoop.yarn.records import ApplicationReport
from ytf.specs import codec
from ytf.specs.event_kinds import EventKind
from ytf.specs.job import JobSpec
from ytf.specs.status import JobEvent, JobRecord, JobState, JobStatus

_RECORDED = "This is the last that was recorded of it."


def offline_record(application: ApplicationLookup, no_answer: NoAnswer) -> JobRecord:
    """All that is known of a job without its master.

    A job of ours that YARN has ended and that has no record is finalized. The journal
    of a job that goes on is only read.
    """
    report = no_answer.report
    if report is not None and application.is_private():
        return _record_for_others(application, report)
    record = application.home.record()
    if record is not None:
        if report is None:
            return record
        return msgspec.structs.replace(record, status=with_yarn_facts(record.status, report))
    if report is None:
        raise NotFoundError(
            f"there is no job {application.job} (any more)", hint="ytf list shows those there are"
        )
    spec = application.home.spec()
    if report.state.ended:
        end = finalize if application.is_ours else final_record
        return end(
            application.home, status_from_report(report, spec), spec, _log_pages(application)
        )
    waiting = application.why_waiting(report, spec)
    if not no_answer.error:
        return _record_from_report(report, spec, waiting)
    silence = why_silent(report, no_answer.error, waiting)
    return _record_from_journal(application, report, spec, silence)


def status_without_hdfs(report: ApplicationReport, why: str) -> JobStatus:
    """The status of a job from YARN's report alone, while HDFS cannot be read."""
    status = status_from_report(report, None)
    note = f"This is what YARN tells, as HDFS cannot be read: {why}"
    diagnostics = "\n".join(filter(None, (status.diagnostics, note)))
    return msgspec.structs.replace(status, diagnostics=diagnostics)


def _record_from_journal(
    application: ApplicationLookup, report: ApplicationReport, spec: JobSpec | None, silence: str
) -> JobRecord:
    """The job as its master last journalled it; ``silence`` says that it does not answer now."""
    # Imported here: it loads the job machine, which clients of a job with a master do not need.
    from ytf.backends.yarn.job.journal_reader import read_journalled_job

    event = JobEvent(at=time.time(), event=EventKind.MASTER_UNREACHABLE.value, text=silence)
    journalled = read_journalled_job(application.home, _log_pages(application))
    if journalled is None:
        return _record_from_report(report, spec, silence, event)
    record = journalled.record()
    status = with_yarn_facts(record.status, report)
    before = f"\n{status.diagnostics}" if status.diagnostics else ""
    status = msgspec.structs.replace(status, diagnostics=f"{silence} {_RECORDED}{before}")
    if status.state.is_final:
        # Its master had still to tell YARN. Whether a next one will is not known.
        status = msgspec.structs.replace(
            status, state=JobState.RUNNING, final_status=None, finished=None
        )
    return msgspec.structs.replace(record, status=status, events=(*record.events, event))


def _record_from_report(
    report: ApplicationReport, spec: JobSpec | None, why: str, *events: JobEvent
) -> JobRecord:
    """The record of a job of which no master has told anything yet."""
    return JobRecord(
        status=status_from_report(report, spec, why),
        spec={} if spec is None else codec.to_dict(spec),
        cluster_spec=None,
        events=events,
    )


def _record_for_others(application: ApplicationLookup, report: ApplicationReport) -> JobRecord:
    """What YARN tells everyone, with a note that the owner can see more."""
    waiting = application.why_waiting(report, None)
    if is_between_masters(report):
        waiting = why_silent(report, "", waiting)
    record = _record_from_report(report, None, waiting)
    note = f"Only {report.user} can see its tasks; this is what YARN tells everyone."
    diagnostics = "\n".join(filter(None, (record.status.diagnostics, note)))
    status = msgspec.structs.replace(record.status, diagnostics=diagnostics)
    return msgspec.structs.replace(record, status=status)


def _log_pages(application: ApplicationLookup) -> NodeLogPages:
    return NodeLogPages(application.rm, application.owner)
