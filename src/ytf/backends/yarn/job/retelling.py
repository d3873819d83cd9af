"""What a job's journal tells of it, for whoever may read it: never claimed, never changed.

The master that writes it may be alive, and must not notice.
"""

from __future__ import annotations

import sys

import msgspec

from ytf.backends.yarn.home import JobHome, StagedJob, UnreadableJobError
from ytf.backends.yarn.job.pages import PageOf
from ytf.errors import InternalError
from ytf.master.chronicle import Chronicle
from ytf.master.events import BackendGone
from ytf.master.replay import Replay, read_journal
from ytf.master.view import View
from ytf.specs.names import ContainerId, TaskId
from ytf.specs.status import JobEvent, JobRecord
from ytf.storage.blob_reading import BlobReader

_READINGS = 5
"""How often a journal is read whose writer removes what is being read."""


class Retold:
    """A job as its masters knew it."""

    def __init__(self, staged: StagedJob, replay: Replay, page_of: PageOf) -> None:
        self._chronicle = Chronicle(staged.spec)
        self._chronicle.restore(replay)
        self._page_of = page_of
        self._view = View(
            staged.info, self._chronicle.machine, self._chronicle.story, log_url=self._log_url
        )

    @property
    def is_finished(self) -> bool:
        """Whether its master had brought it to its end, and had only to say so."""
        return self._chronicle.machine.memory.finished

    @property
    def is_decided(self) -> bool:
        """Whether its end was decided, though things may still have run."""
        return self._chronicle.machine.memory.final is not None

    @property
    def events(self) -> tuple[JobEvent, ...]:
        """Its story so far."""
        return tuple(self._chronicle.story.events)

    def lose_everything(self, reason: str, at: float) -> None:
        """Let it be over: nothing of it runs any more."""
        self._chronicle.take_in(BackendGone(reason=reason), at)

    def record(self) -> JobRecord:
        """All that is known."""
        return self._view.record()

    def _log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        node = self._chronicle.machine.memory.tasks[task].node
        return None if node is None else self._page_of(node, container)


def retell(home: JobHome, page_of: PageOf) -> Retold | None:
    """The job as its journal has it; None if no master has ever written anything.

    Raises ``UnreadableJobError`` if another version of ytf wrote it.
    """
    try:
        staged = home.staged()
        replay = _read(BlobReader(home.files, home.journal))
        if replay.snapshot is None and not replay.entries:
            return None
        return Retold(staged, replay, page_of)
    except FileNotFoundError:
        return None
    except (InternalError, msgspec.MsgspecError) as exc:
        raise UnreadableJobError(
            f"{home.files.uri(home.journal)} was written by another version of ytf: {exc}",
            hint="use the version that the job was submitted with",
        ) from exc


def _read(journal: BlobReader) -> Replay:
    """A reading that no snapshot got in the way of.

    What a master's newest snapshot stands for is removed, perhaps under our
    eyes: then the next reading finds the snapshot. Damage stays the same.
    """
    replay, _ = read_journal(journal, below=sys.maxsize)
    for _ in range(_READINGS):
        if not replay.torn:
            break
        before = replay
        replay, _ = read_journal(journal, below=sys.maxsize)
        if replay.torn == before.torn:
            break
    return replay
