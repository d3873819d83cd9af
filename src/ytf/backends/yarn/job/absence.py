"""What is known of a job when no master answers: its record, else its journal, else YARN's view."""

from __future__ import annotations

import time

import msgspec

from ytf.backends.yarn.job.burial import bury, last_record
from ytf.backends.yarn.job.line import Unheard
from ytf.backends.yarn.job.pages import LogPages
from ytf.backends.yarn.job.reports import as_yarn_has_it, is_between_masters, status_of
from ytf.backends.yarn.job.sight import Sight
from ytf.backends.yarn.job.waiting import why_silent, why_waiting
from ytf.backends.yarn.kinds import resource_of
from ytf.errors import NotFoundError
from ytf.hadoop.yarn.records import ApplicationReport
from ytf.specs import codec
from ytf.specs.job import JobSpec
from ytf.specs.status import JobEvent, JobRecord, JobState, JobStatus

_RECORDED = "This is the last that was recorded of it."


def without_master(sight: Sight, unheard: Unheard) -> JobRecord:
    """All that can be said of a job without its master.

    A job that YARN ended is recorded by this, if it is ours and nobody has
    done so. One that goes on is told as its journal has it, which is left alone.
    """
    report = unheard.report
    if report is not None and sight.is_closed():
        return _as_others_see(sight, report)
    record = sight.home.record()
    if record is not None:
        if report is None:
            return record
        return msgspec.structs.replace(record, status=as_yarn_has_it(record.status, report))
    if report is None:
        raise NotFoundError(
            f"there is no job {sight.job} (any more)", hint="ytf list shows those there are"
        )
    spec = sight.home.spec()
    if report.state.ended:
        end = bury if sight.is_ours else last_record
        return end(sight.home, status_of(report, spec), spec, _pages(sight))
    waiting = _why_waiting(sight, report, spec)
    if not unheard.why:
        return _as_yarn_sees(report, spec, waiting)
    return _last_known(sight, report, spec, why_silent(report, unheard.why, waiting))


def without_hdfs(report: ApplicationReport, why: str) -> JobStatus:
    """What YARN tells of a job while nobody can read what is ours of it."""
    told = status_of(report, None)
    note = f"This is what YARN tells, as HDFS cannot be read: {why}"
    said = "\n".join(filter(None, (told.diagnostics, note)))
    return msgspec.structs.replace(told, diagnostics=said)


def _last_known(
    sight: Sight, report: ApplicationReport, spec: JobSpec | None, silence: str
) -> JobRecord:
    """How the job was when its master was last heard of, and that it is not any more."""
    # Loads the machine, which no client of a job with a master needs.
    from ytf.backends.yarn.job.retelling import retell

    said = JobEvent(at=time.time(), event="MasterSilent", text=silence)
    told = retell(sight.home, _pages(sight))
    if told is None:
        return _as_yarn_sees(report, spec, silence, said)
    record = told.record()
    status = as_yarn_has_it(record.status, report)
    said_before = f"\n{status.diagnostics}" if status.diagnostics else ""
    status = msgspec.structs.replace(status, diagnostics=f"{silence} {_RECORDED}{said_before}")
    if status.state.is_final:
        # Its master had still to say so to YARN, and whether one will is not known.
        status = msgspec.structs.replace(
            status, state=JobState.RUNNING, final_status=None, finished=None
        )
    return msgspec.structs.replace(record, status=status, events=(*record.events, said))


def _as_yarn_sees(
    report: ApplicationReport, spec: JobSpec | None, why: str, *events: JobEvent
) -> JobRecord:
    """A job of which no master has told anything yet."""
    return JobRecord(
        status=status_of(report, spec, why),
        spec={} if spec is None else codec.to_dict(spec),
        cluster_spec=None,
        events=events,
    )


def _as_others_see(sight: Sight, report: ApplicationReport) -> JobRecord:
    """What YARN tells, with a word on why it is so little."""
    waiting = _why_waiting(sight, report, None)
    if is_between_masters(report):
        waiting = why_silent(report, "", waiting)
    told = _as_yarn_sees(report, None, waiting)
    note = f"Only {report.user} can see its tasks; this is what YARN tells everyone."
    said = "\n".join(filter(None, (told.status.diagnostics, note)))
    status = msgspec.structs.replace(told.status, diagnostics=said)
    return msgspec.structs.replace(told, status=status)


def _pages(sight: Sight) -> LogPages:
    return LogPages(sight.rm, sight.owner)


def _why_waiting(sight: Sight, report: ApplicationReport, spec: JobSpec | None) -> str:
    master = None if spec is None else resource_of(spec.master.resources)
    return why_waiting(report, master, sight.running_nodes)
