"""Finalizes a job that YARN ended without its master: writes its record, removes its files.

Only for jobs that YARN reports as ended: no master can be in charge of them any
more. Several clients may do it at once: the first record stays, and the staging
directory is removed only once there is a record.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import msgspec

from ytf.backends.registry_access import RegistryLeftovers
from ytf.backends.yarn.hdfs_layout import JobHome
from ytf.backends.yarn.node_log_pages import FindLogPage, no_log_page
from ytf.specs import codec
from ytf.specs.event_kinds import EventKind
from ytf.specs.job import JobSpec
from ytf.specs.status import JobEvent, JobRecord, JobState, JobStatus

if TYPE_CHECKING:
    from ytf.backends.yarn.job.journal_reader import JournalledJob

_TASK_LOST = "the job was ended without its master"
"""The reason of each task that ran. Why the job was ended is in the job's own diagnostics."""
_NOT_RECORDED = "how it ended was not recorded: HDFS was unavailable when the job ended"
"""The reason where a master has ended the job itself: no other job succeeds."""


def finalize(
    home: JobHome,
    status: JobStatus,
    spec: JobSpec | None,
    find_log_page: FindLogPage = no_log_page,
) -> JobRecord:
    """Write a job's record, remove what is left of it, and return the record. Idempotent.

    If its registry cannot be emptied, the staging directory stays, for a later gc.
    """
    write_final_record(home, status, spec, find_log_page)
    written = home.record()
    leftovers = RegistryLeftovers(logging.getLogger("ytf.yarn").warning)
    if spec is not None:
        leftovers.remove(spec.registry, user=status.user, name=spec.name, job=status.id)
    if not leftovers.failed:
        home.remove_staging()
    # If a collection has already removed it as old, the same facts are in our arguments.
    return written or record_without_journal(status, spec)


def write_final_record(
    home: JobHome,
    status: JobStatus,
    spec: JobSpec | None,
    find_log_page: FindLogPage = no_log_page,
) -> None:
    """Write a job's record unless there is one; ``status`` is the end that YARN reports."""
    if home.record() is None:
        home.write_record(final_record(home, status, spec, find_log_page))


def final_record(
    home: JobHome,
    status: JobStatus,
    spec: JobSpec | None,
    find_log_page: FindLogPage = no_log_page,
) -> JobRecord:
    """The record of an ended job, from its journal and from the end that YARN reports."""
    # Imported here: it loads the job machine, which clients of a job with a master do not need.
    from ytf.backends.yarn.job.journal_reader import read_journalled_job

    journalled = read_journalled_job(home, find_log_page)
    if journalled is None:
        return record_without_journal(status, spec)
    return _record_from_journal(journalled, status)


def record_without_journal(status: JobStatus, spec: JobSpec | None) -> JobRecord:
    """The record of an ended job that holds only what YARN reports."""
    return JobRecord(
        status=status,
        spec={} if spec is None else codec.to_dict(spec),
        cluster_spec=None,
        events=(_finished_event(status, status.finished or time.time()),),
    )


def _record_from_journal(journalled: JournalledJob, end: JobStatus) -> JobRecord:
    """The journal's record with the end that YARN reports.

    YARN's end is used also where the masters had decided on another and could not
    bring it about: all other clients of YARN see YARN's.
    """
    is_decided, decided = journalled.is_decided, journalled.record().status.final_status
    as_decided = journalled.is_finished and decided is end.final_status
    events = journalled.events
    if not journalled.is_finished:
        reason = _NOT_RECORDED if end.state is JobState.SUCCEEDED else _TASK_LOST
        journalled.end_all_tasks(reason, end.finished or events[-1].at)
    record = journalled.record()
    # Not before: the notes of a job that runs are part of it.
    own = record.status.diagnostics if is_decided else ""
    status = msgspec.structs.replace(
        record.status,
        queue=end.queue,
        state=end.state,
        final_status=end.final_status,
        diagnostics=own if as_decided else "\n".join(filter(None, (own, end.diagnostics))),
        started=end.started,
        finished=end.finished or record.status.finished,
        tracking_url=end.tracking_url,
        tensorboard_url=None,
    )
    if not as_decided:
        # The clock of a master's node may be ahead of the ResourceManager's.
        events = (*events, _finished_event(status, max(status.finished or 0.0, events[-1].at)))
    return msgspec.structs.replace(record, status=status, events=events)


def _finished_event(status: JobStatus, at: float) -> JobEvent:
    diagnostics = f": {status.diagnostics}" if status.diagnostics else ""
    return JobEvent(
        at=at,
        event=EventKind.JOB_FINISHED.value,
        text=f"The job ended as {status.state.value}{diagnostics}",
    )
