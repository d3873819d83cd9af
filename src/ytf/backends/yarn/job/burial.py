"""The end of a job that YARN ended without its master: a record, and nothing else left.

Only for jobs that YARN calls ended, of which no master can be in charge any
more. Several may be at it at once: the first record counts, and what was
staged goes only after there is one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from ytf.backends.yarn.home import JobHome
from ytf.backends.yarn.job.pages import PageOf, nowhere
from ytf.specs import codec
from ytf.specs.job import JobSpec
from ytf.specs.status import JobEvent, JobRecord, JobStatus

if TYPE_CHECKING:
    from ytf.backends.yarn.job.retelling import Retold

_LOST = "the job was ended without its master"
"""Of each task that ran; why is the job's to say, and said once."""


def bury(
    home: JobHome, status: JobStatus, spec: JobSpec | None, page_of: PageOf = nowhere
) -> JobRecord:
    """Record how a job ended, and remove what it left; answers what is recorded. Idempotent."""
    record_end(home, status, spec, page_of)
    kept = home.record()
    home.remove_staging()
    # One that is gone again was collected as old: what it said is ours all the same.
    return kept or bare_record(status, spec)


def record_end(
    home: JobHome, status: JobStatus, spec: JobSpec | None, page_of: PageOf = nowhere
) -> None:
    """Record how a job ended, unless that is recorded; ``status`` is how YARN sees it."""
    if home.record() is None:
        home.keep(last_record(home, status, spec, page_of))


def last_record(
    home: JobHome, status: JobStatus, spec: JobSpec | None, page_of: PageOf = nowhere
) -> JobRecord:
    """All that is known of a job that is over: by its journal, and how YARN says it ended."""
    # Loads the machine, which no client of a job with a master needs.
    from ytf.backends.yarn.job.retelling import retell

    told = retell(home, page_of)
    return bare_record(status, spec) if told is None else _concluded(told, status)


def bare_record(status: JobStatus, spec: JobSpec | None) -> JobRecord:
    """What YARN tells of a job that is over, and nothing else."""
    return JobRecord(
        status=status,
        spec={} if spec is None else codec.to_dict(spec),
        cluster_spec=None,
        events=(_end(status, status.finished or time.time()),),
    )


def _concluded(told: Retold, end: JobStatus) -> JobRecord:
    """The journal's story with the end that YARN made of it.

    That end stands, also where the masters had decided on another and could not
    bring it about: it is what everybody else is told.
    """
    before = told.record().status
    own = before.diagnostics if told.is_decided else ""
    as_decided = told.is_finished and before.final_status is end.final_status
    events = told.events
    if not told.is_finished:
        told.lose_everything(_LOST, end.finished or events[-1].at)
    record = told.record()
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
        events = (*events, _end(status, max(status.finished or 0.0, events[-1].at)))
    return msgspec.structs.replace(record, status=status, events=events)


def _end(status: JobStatus, at: float) -> JobEvent:
    said = f": {status.diagnostics}" if status.diagnostics else ""
    return JobEvent(at=at, event="JobFinished", text=f"{status.state.value}{said}")
