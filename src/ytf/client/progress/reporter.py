"""Tells the user of a blocking call what happens: the logger ``ytf``, or a display (ADR 38)."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TextIO

from ytf.backends.api import JobHandle, PassingNotice
from ytf.client.follow import Change, follow_changes, settle
from ytf.client.status_text import describe_changes
from ytf.specs.status import JobStatus

_log = logging.getLogger("ytf")

TICK_S = 2.0
"""How often a display that is drawn anew shows the time and what tasks use."""
WATCH_S = 10.0
"""How often what tasks use is looked at for a ``watch``."""
_NO_CURSOR = ("dumb", "unknown")
"""Kinds of terminals on which nothing can be drawn anew."""
_UNWRITABLE = (OSError, ValueError)
"""What is raised where nothing can be shown: a full disk, a reader that has gone, a closed file."""


class Display(Protocol):
    """Shows the progress of one call, up to the end of its job."""

    is_redrawn: bool
    """Whether it is drawn anew, and so can show what changes all the time."""

    def notice(self, text: str) -> None:
        """Show a sentence. May be called from any thread.

        A ``PassingNotice`` is shown until the next one comes, or a status; not at all if
        nothing can be drawn anew.
        """
        ...

    def update(self, change: Change) -> None:
        """Show the present status of the job."""
        ...

    def conclude(self, final: JobStatus) -> None:
        """Show why the job ended as it did. No update follows."""
        ...

    def close(self) -> None:
        """Leave what was shown last as it is."""
        ...


class ProgressReporter:
    """What one call tells its user; :func:`open_reporter` makes and closes it.

    A sentence goes to the logger if that prints it, and otherwise to the display. A
    display that cannot be written any more is given up; the call goes on.
    """

    def __init__(self, display: Display | None = None) -> None:
        self._display = display

    @property
    def tick_s(self) -> float | None:
        """How often it wants a status, changed or not; None if it needs only changes."""
        return TICK_S if self._display is not None and self._display.is_redrawn else None

    def close(self) -> None:
        """Leave what is shown as it is."""
        self._show(lambda display: display.close())

    def notify(self, text: str) -> None:
        """Tell how far the call is. May be called from any thread."""
        self._tell(logging.INFO, text)

    def warn(self, text: str) -> None:
        """Tell what the user should know. May be called from any thread."""
        self._tell(logging.WARNING, text)

    def follow(
        self,
        handle: JobHandle,
        timeout_s: float = math.inf,
        watch: Callable[[JobStatus], None] | None = None,
    ) -> JobStatus:
        """Tell what happens until a job has ended, and return its final status.

        Then only the record and the logs of the job are left. ``watch`` is called with
        each status, changed or not. Raises what :func:`ytf.client.follow.follow` raises.
        """
        final: JobStatus | None = None
        tick_s = self.tick_s if watch is None or self.tick_s is not None else WATCH_S
        for change in follow_changes(handle, self.warn, timeout_s, tick_s):
            self.update(change)
            if watch is not None:
                watch(change.now)
            final = change.now
        assert final is not None  # follow_changes() yields at least once
        return settle(handle, final)

    def update(self, change: Change) -> None:
        """Tell what has changed in the job."""
        if is_logged(logging.INFO):
            for line in describe_changes(change.before, change.now, change.restart_reasons):
                _log.info("%s", line)
        self._show(lambda display: display.update(change))
        if change.now.state.is_final:
            self._show(lambda display: display.conclude(change.now))

    def _tell(self, level: int, text: str) -> None:
        if isinstance(text, PassingNotice):
            self._show(lambda display: display.notice(text))
            return
        # Without any handler Python itself prints warnings, so they are logged even then.
        if self._display is None or is_logged(level):
            _log.log(level, "%s", text)
        else:
            self._show(lambda display: display.notice(text))

    def _show(self, act: Callable[[Display], None]) -> None:
        display = self._display
        if display is None:
            return
        try:
            act(display)
        except _UNWRITABLE:
            self._display = None
            with suppress(*_UNWRITABLE):
                display.close()


@contextmanager
def open_reporter(progress: bool | None) -> Iterator[ProgressReporter]:
    """Make the reporter of a call, by the call's argument ``progress``, and close it at the end.

    None: a display in a notebook or on a terminal, otherwise lines on stderr; but where the
    logger ``ytf`` prints what happens, only a notebook gets a display, too. True: in any
    case. False: nothing but what is logged.
    """
    reporter = ProgressReporter(_choose_display(progress))
    try:
        yield reporter
    finally:
        reporter.close()


def _choose_display(progress: bool | None) -> Display | None:
    if progress is False:
        return None
    from ytf.client.progress.notebook import NotebookDisplay, in_notebook

    if in_notebook():
        return NotebookDisplay()
    if sys.stderr is None or (progress is None and is_logged(logging.INFO)):
        return None
    if is_terminal(sys.stderr) and os.environ.get("TERM") not in _NO_CURSOR:
        from ytf.client.progress.terminal import TerminalDisplay

        display = TerminalDisplay.claim()
        if display is not None:
            return display
    from ytf.client.progress.lines import LineDisplay

    return LineDisplay()


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal. Programs put all kinds of objects in its place."""
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):  # ValueError: it is closed
        return False


def is_logged(level: int) -> bool:
    """Whether the logger ``ytf`` prints or keeps records of a level: its users configured it."""
    if not _log.isEnabledFor(level):
        return False
    logger: logging.Logger | None = _log
    while logger is not None:
        for handler in logger.handlers:
            if handler.level <= level and not isinstance(handler, logging.NullHandler):
                return True
        logger = logger.parent if logger.propagate else None
    return False
