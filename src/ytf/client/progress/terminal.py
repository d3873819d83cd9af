"""Shows a job on a terminal: a table that is drawn anew in its place, with rich."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ytf.backends.api import PassingNotice
from ytf.client.follow import Change
from ytf.client.progress.reporter import is_terminal
from ytf.client.status_text import (
    describe_end,
    describe_job,
    describe_task,
    task_headers,
    task_rows,
)
from ytf.specs.ids import task_id
from ytf.specs.status import JobStatus
from ytf.terminal_text import printable, printable_line

_COLOURS = {
    "RUNNING": "green",
    "SUCCEEDED": "green",
    "FAILED": "bold red",
    "LOST": "red",
    "KILLED": "yellow",
    "STARTING": "cyan",
    "ALLOCATED": "cyan",
}

_claim = threading.Lock()
"""Held by the display that draws."""


class TerminalDisplay:
    """Draws the job on stderr. Implements ``Display``.

    Sentences, and what others print meanwhile, stay above the table.
    """

    is_redrawn = True

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._is_passing = False
        self._is_claim = False
        self._lock = threading.Lock()

    @classmethod
    def claim(cls) -> TerminalDisplay | None:
        """Return a display; None while another thread has one, as two tables overwrite each other.

        It is given back by :meth:`close`.
        """
        if not _claim.acquire(blocking=False):
            return None
        display = cls()
        display._is_claim = True
        return display

    def notice(self, text: str) -> None:
        """Print a sentence above the table; one that passes is drawn in its place."""
        with self._lock:
            if isinstance(text, PassingNotice):
                self._draw(Text(printable(text)))
                self._is_passing = True
            else:
                self._console.print(printable(text), markup=False)

    def update(self, change: Change) -> None:
        """Draw the table anew. Why tasks were restarted is printed above it."""
        for task in change.now.tasks:
            reason = change.restart_reasons.get(task_id(task.group, task.index))
            if reason:
                self.notice(printable_line(describe_task(task, reason)))
        with self._lock:
            self._draw(job_table(change.now))
            self._is_passing = False

    def _draw(self, drawing: RenderableType) -> None:
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                vertical_overflow="ellipsis",
                # What is printed to a stdout that is no terminal has to get there.
                redirect_stdout=is_terminal(sys.stdout),
            )
            self._live.start()
        self._live.update(drawing, refresh=True)

    def conclude(self, final: JobStatus) -> None:
        """Print the first cause of a failure below the table, and where to look."""
        self._leave_table()
        for line in describe_end(final):
            self.notice(line)

    def close(self) -> None:
        """Leave the last table on the screen, and the cursor below it."""
        try:
            self._leave_table()
        finally:
            if self._is_claim:
                self._is_claim = False
                _claim.release()

    def _leave_table(self) -> None:
        with self._lock:
            live, self._live = self._live, None
            if live is None:
                return
            try:
                if self._is_passing:
                    live.update(Text(), refresh=True)
            finally:
                live.stop()  # gives stdout and stderr back


def job_table(status: JobStatus) -> Group:
    """A job as it is drawn on a terminal: what there is to say of it, and its tasks."""
    head = Text(printable("\n".join(describe_job(status))))
    return Group(head, rich_table(task_headers(status), task_rows(status)))


def rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table with states in colour. Cells may come from others."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, header in enumerate(headers):
        # The first column has the names of tasks, which must stay readable.
        table.add_column(header, no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(printable_line(cell), style=_COLOURS.get(cell, "")) for cell in row))
    return table
