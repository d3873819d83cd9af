"""Reads a job's journal for clients, without claiming or changing it.

The master that writes the journal may be alive, and must not be disturbed.
"""

from __future__ import annotations

import sys

import msgspec

from ytf.backends.yarn.hdfs_layout import (
    MOST_BYTES,
    JobHome,
    StagedJob,
    UnreadableJobError,
    too_long_error,
)
from ytf.backends.yarn.node_log_pages import FindLogPage
from ytf.errors import InternalError
from ytf.journal.reader import Replay, read_journal
from ytf.machine.events import BackendGone
from ytf.machine.projection import Projection
from ytf.machine.status_view import StatusView
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.status import JobEvent, JobRecord
from ytf.storage.blobs import BlobReader, TooLongError

_MAX_READS = 5
"""How often a journal is read anew whose writer removes segments meanwhile."""


class JournalledJob:
    """The state of a job as its masters have journalled it."""

    def __init__(self, staged: StagedJob, replay: Replay, find_log_page: FindLogPage) -> None:
        self._projection = Projection(staged.spec)
        self._projection.restore(replay.snapshot, ((e.at, e.event) for e in replay.entries))
        self._find_log_page = find_log_page
        self._view = StatusView(
            staged.info, self._projection.machine, self._projection.events, log_url=self._log_url
        )

    @property
    def is_finished(self) -> bool:
        """Whether the master had finished the job, and only had to tell YARN."""
        return self._projection.machine.state.finished

    @property
    def is_decided(self) -> bool:
        """Whether the job's end was decided; tasks may still have run."""
        return self._projection.machine.state.final is not None

    @property
    def events(self) -> tuple[JobEvent, ...]:
        """The job's events so far."""
        return tuple(self._projection.events)

    def end_all_tasks(self, reason: str, at: float) -> None:
        """Apply that nothing of the job runs any more. The journal itself stays as it is."""
        self._projection.apply(BackendGone(reason=reason), at)

    def record(self) -> JobRecord:
        """All that the journal tells of the job."""
        return self._view.record()

    def _log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        node = self._projection.machine.state.tasks[task].node
        return None if node is None else self._find_log_page(node, container)


def read_journalled_job(home: JobHome, find_log_page: FindLogPage) -> JournalledJob | None:
    """The job as its journal has it; None if no master has ever written anything.

    Raises ``UnreadableJobError`` if another version of ytf wrote it, or somebody else.
    """
    try:
        staged = home.staged()
        replay = _read(home)
        if replay.snapshot is None and not replay.entries:
            return None
        return JournalledJob(staged, replay, find_log_page)
    except FileNotFoundError:
        return None
    except TooLongError as exc:
        raise too_long_error(home.files.uri(home.journal)) from exc
    except (InternalError, msgspec.MsgspecError) as exc:
        raise UnreadableJobError(
            f"{home.files.uri(home.journal)} was written by another version of ytf: {exc}",
            hint="use the version that the job was submitted with",
        ) from exc


def _read(home: JobHome) -> Replay:
    """Reads the journal until no segment was removed meanwhile.

    A master removes the segments that its newest snapshot replaces, possibly
    while we read: then the next read finds the snapshot. If the second read is
    torn at the same place, the journal is damaged, and is used as far as it goes.
    """
    replay = _read_once(home)
    for _ in range(_MAX_READS):
        if not replay.torn:
            break
        before = replay
        replay = _read_once(home)
        if replay.torn == before.torn:
            break
    return replay


def _read_once(home: JobHome) -> Replay:
    journal = BlobReader(home.files, home.journal, most_bytes=MOST_BYTES)
    replay, _ = read_journal(journal, below=sys.maxsize)
    return replay
