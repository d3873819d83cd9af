"""Shows a job as lines, one for each change: where there is no terminal, and in logs."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ytf.backends.api import PassingNotice
from ytf.client.follow import Change
from ytf.client.status_text import describe_changes, describe_end
from ytf.specs.status import JobStatus
from ytf.terminal_text import printable


def print_line(text: str) -> None:
    """Print a line on stderr, which says that it is of ytf."""
    # In one piece: other threads may print, too.
    sys.stderr.write(f"ytf: {printable(text)}\n")
    sys.stderr.flush()


class LineDisplay:
    """Prints what changes. Implements ``Display``."""

    is_redrawn = False

    def __init__(self, write: Callable[[str], None] = print_line) -> None:
        self._write = write

    def notice(self, text: str) -> None:
        """Print a sentence that stays."""
        if not isinstance(text, PassingNotice):
            self._write(text)

    def update(self, change: Change) -> None:
        """Print a line for each change."""
        for line in describe_changes(change.before, change.now, change.restart_reasons):
            self._write(line)

    def conclude(self, final: JobStatus) -> None:
        """Print the first cause of a failure, and where to look."""
        for line in describe_end(final):
            self._write(line)

    def close(self) -> None:
        """Do nothing: each line is printed at once."""
