"""The job as its master shows it: status, events, starters, record, and what waits for a change."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from ytf.backends.api import ContainerBackend
from ytf.journal.writer import Journal, JournalError
from ytf.machine.events import AnyEvent, KillRequested, ShellRequested
from ytf.machine.projection import Projection
from ytf.machine.state import Task
from ytf.machine.status_view import StatusView
from ytf.master.usage_monitor import UsageMonitor
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.status import (
    ClusterSpec,
    JobEvent,
    JobInfo,
    JobRecord,
    JobStatus,
    LogLocation,
    StarterAddress,
)
from ytf.specs.usage import UsageHistory
from ytf.storage import DISK_FULL_ERRNOS

SHELL_NOTE_S = 600.0
"""How often it is noted that one user opens shells in one task: a script may do so for days."""


class MasterJobView:
    """One job for clients and for its page: implements ``JobPageView``.

    ``post`` gives an event to the master, ``post_durably`` also waits until it is in
    the journal. The master calls :meth:`advance` after each change, and
    :meth:`show_events` when events are written.
    """

    def __init__(
        self,
        info: JobInfo,
        projection: Projection,
        *,
        journal: Journal,
        backend: ContainerBackend,
        usage: UsageMonitor,
        activity: Callable[[ContainerId], str],
        clock: Callable[[], float],
        page_url: str | None,
        post: Callable[[AnyEvent], None],
        post_durably: Callable[[AnyEvent], Awaitable[None]],
    ) -> None:
        self._info = info
        self._projection = projection
        self._journal = journal
        self._backend = backend
        self._usage = usage
        self._activity = activity
        self._clock = clock
        self._page_url = page_url
        self._post = post
        self._post_durably = post_durably
        self._version = 0
        self._changed = asyncio.Event()
        self._shown_events = 0
        self._shells_noted: dict[tuple[TaskId, str], float] = {}

    # ------------------------------------------------------------------ for the master

    def advance(self) -> None:
        """Count a change of the status, and wake all who wait for one."""
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def show_events(self) -> None:
        """Show all events that there are now: they are in the journal, or it cannot be written."""
        self._shown_events = len(self._projection.events)

    # ------------------------------------------------------------------ for clients

    @property
    def version(self) -> int:
        """A number that grows whenever the status changes."""
        return self._version

    async def changed(self, version: int) -> None:
        """Return once the version is not this one."""
        while self._version == version:
            await self._changed.wait()

    def status(self) -> JobStatus:
        """The current status of the job and its tasks, and trouble with the journal.

        It changes only with the version: what running programs use is not in it.
        """
        return self._view.status(*self._journal_notes())

    def status_with_usage(self) -> JobStatus:
        """The current status, and what each task uses or does, as of the last heartbeat."""
        return self._view.status(
            *self._journal_notes(), live_usage=self._usage.of_running, activity=self._activity_of
        )

    def _activity_of(self, task: Task) -> str:
        if task.state.is_final or task.container is None:
            return ""
        return self._activity(task.container)

    def usage_history(self, task: TaskId) -> UsageHistory | None:
        """How the usage of a task changed under this master; None if nothing is known of it."""
        return self._usage.history(task)

    def cluster_spec(self) -> ClusterSpec | None:
        """The addresses of all tasks; None before all are known."""
        return self._view.cluster_spec()

    def events(self) -> list[JobEvent]:
        """All events so far, as users read them, but for those that are being written.

        So a later master tells the same, unless a disk fails.
        """
        return self._projection.events[: self._shown_events]

    def waits_for(self) -> str:
        """What the job waits for now, in words."""
        return self._view.waits_for(self._backend.headroom_text(), self._clock())

    def log_location(self, task: TaskId) -> LogLocation | None:
        """Where the logs of a task's newest attempt are."""
        return self._view.log_location(task)

    def record(self) -> JobRecord:
        """The record that is kept of the job."""
        return self._view.record()

    def starters(self) -> list[StarterAddress]:
        """The addresses of all starters that have registered and not ended."""
        return self._view.starters()

    def note_shell(self, task: TaskId, by: str) -> None:
        """Note as an event that a user asked for a shell in a task's container."""
        now = time.monotonic()
        noted = {who: at for who, at in self._shells_noted.items() if now - at < SHELL_NOTE_S}
        if (task, by) not in noted:
            noted[task, by] = now
            self._post(ShellRequested(task=task, by=by))
        self._shells_noted = noted

    async def kill(self, by: str, reason: str) -> None:
        """Kill the job. Returns once the kill is in effect.

        By then it is in the journal, unless that cannot be written: a kill must not
        fail for that.
        """
        with contextlib.suppress(JournalError):
            await self._post_durably(KillRequested(by=by, reason=reason))

    @property
    def _view(self) -> StatusView:
        # Made anew, because a replay of the journal replaces the machine and the events.
        return StatusView(
            self._info,
            self._projection.machine,
            self._projection.events,
            log_url=self._backend.log_url,
            page_url=self._page_url,
        )

    def _journal_notes(self) -> list[str]:
        trouble = self._journal.trouble()
        return [self._journal_note(trouble)] if trouble else []

    def _journal_note(self, trouble: str) -> str:
        text = f"The master cannot write its journal: {trouble}. "
        if self._projection.machine.job_state.is_final:
            text += "The job's record is kept once it can."
        else:
            text += (
                "No program starts until it can; those that run go on, and a new master would not "
                "know what has happened since."
            )
        error = self._journal.last_error
        if error is not None and error.errno in DISK_FULL_ERRNOS:
            text += " Make room on its disk: `ytf gc --older-than 1d` and `ytf rm` remove old jobs"
        return text
