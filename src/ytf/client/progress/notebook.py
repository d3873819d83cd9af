"""Shows a job in a Jupyter notebook: one output of the cell, which is replaced in its place.

IPython is no requirement of ytf: a notebook has loaded it already.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
import uuid
from collections import deque
from typing import Any

from ytf.backends.api import PassingNotice
from ytf.client.follow import Change
from ytf.client.progress.job_html import job_html
from ytf.client.status_text import describe_end, describe_job, describe_task, task_rows
from ytf.specs.ids import task_id
from ytf.specs.status import JobStatus
from ytf.terminal_text import printable

_MOST_NOTICES = 6
_LEAST_PAUSE_S = 0.1
"""Between two drawings: a large job changes faster than anybody can read, and each is stored."""


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows HTML."""
    shell = _shell()
    return shell is not None and hasattr(shell, "kernel")


def _shell() -> Any:
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get_ipython is None else get_ipython()


class NotebookDisplay:
    """Draws the job as an output of the present cell. Implements ``Display``."""

    is_redrawn = True

    def __init__(self) -> None:
        functions = importlib.import_module("IPython.display")
        self._display, self._update_display = functions.display, functions.update_display
        self._id = uuid.uuid4().hex
        self._is_shown = False
        self._drawn_at = 0.0
        self._status: JobStatus | None = None
        self._notices: deque[str] = deque(maxlen=_MOST_NOTICES)
        self._passing: str | None = None
        self._lock = threading.Lock()

    def notice(self, text: str) -> None:
        """Show a sentence below the job; one that passes takes the place of the last such."""
        with self._lock:
            if isinstance(text, PassingNotice):
                self._passing = text
            else:
                self._notices.append(text)
            self._draw()

    def update(self, change: Change) -> None:
        """Draw the job anew, and why tasks were restarted."""
        with self._lock:
            if self._status is None:
                self._notices.clear()  # they told how far the submission was
                self._passing = None
            self._status = change.now
            for task in change.now.tasks:
                reason = change.restart_reasons.get(task_id(task.group, task.index))
                if reason:
                    self._notices.append(describe_task(task, reason))
            if time.monotonic() - self._drawn_at >= _LEAST_PAUSE_S:
                self._draw()

    def conclude(self, final: JobStatus) -> None:
        """Draw how the job ended."""
        with self._lock:
            self._status = final
            self._draw()

    def close(self) -> None:
        """Draw what was not drawn yet."""
        with self._lock:
            self._passing = None
            if self._is_shown:
                self._draw()

    def _draw(self) -> None:
        notices = [*self._notices, *filter(None, [self._passing])]
        drawing = {
            "text/plain": _plain_text(self._status, notices),
            "text/html": str(job_html(self._status, notices)),
        }
        show = self._update_display if self._is_shown else self._display
        show(drawing, raw=True, display_id=self._id)
        self._is_shown = True
        self._drawn_at = time.monotonic()


def _plain_text(status: JobStatus | None, notices: list[str]) -> str:
    """What is shown where there is no HTML: in exported text, for example."""
    lines = list(notices)
    if status is not None:
        tasks = ["  ".join(filter(None, row)) for row in task_rows(status)]
        end = describe_end(status) if status.state.is_final else []
        lines = [*describe_job(status), *tasks, *end, *notices]
    return printable("\n".join(lines))
