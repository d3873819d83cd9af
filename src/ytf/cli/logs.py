"""``ytf logs``: prints what the tasks wrote, each line after the name of its task.

``worker:0 | text`` is stdout, ``worker:0 ! text`` stderr; an attempt after the
first is marked: ``worker:0#2 | text``.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from ytf.backends.api import JobHandle, LogLine
from ytf.cli.job_arguments import open_job
from ytf.cli.output import say
from ytf.client.log_selection import LogSelection, select_logs
from ytf.terminal_text import printable_output

_PALETTE = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
"""ANSI colours that are readable on light and on dark; red marks stderr."""


def logs(
    job: str,
    which: Sequence[str],
    *,
    backend: str | None = None,
    follow: bool,
    tail: int | None = None,
) -> int:
    """Print the lines of all tasks, or of some groups and tasks; ``follow``: until the job ends.

    ``tail`` prints only so many of the last lines of each stream.
    """
    handle = open_job(job, backend)
    selection = select_logs(handle.status(), which)
    tasks = selection.tasks
    colour = has_colours(sys.stdout)
    # Into a file or a pipe go the program's own bytes, whatever they are.
    shown = printable_output if sys.stdout.isatty() else str
    places = {task: number for number, task in enumerate(tasks)}
    lines = selection.of(handle.logs(tasks, follow=follow, notify=lambda text: say(f"ytf: {text}")))
    if tail is not None:
        lines = _last_and_later(handle, selection, tail, lines) if follow else _last(lines, tail)
    for line in lines:
        code = colour_of(places.get(line.task, 0)) if colour else None
        sys.stdout.write(shown(render(line, code)) + "\n")
        if follow:
            sys.stdout.flush()
    return 0


def _last(lines: Iterable[LogLine], tail: int) -> Iterator[LogLine]:
    """The last lines of each stream."""
    kept: dict[tuple[str, str], deque[LogLine]] = {}
    for line in lines:
        kept.setdefault((line.task, line.stream), deque(maxlen=tail)).append(line)
    for last in kept.values():
        yield from last


def _last_and_later(
    handle: JobHandle, selection: LogSelection, tail: int, lines: Iterator[LogLine]
) -> Iterator[LogLine]:
    """The last lines of each stream as it is now, then the later ones of ``lines``."""
    known: Counter[tuple[str, int, str]] = Counter()
    newest: dict[tuple[str, int, str], LogLine] = {}

    def noted() -> Iterator[LogLine]:
        for line in selection.of(handle.logs(selection.tasks, follow=False)):
            place = line.task, line.attempt, line.stream
            known[place] += 1
            newest[place] = line
            yield line

    yield from _last(noted(), tail)
    for line in lines:
        place = line.task, line.attempt, line.stream
        if known[place]:
            known[place] -= 1
            if known[place] or line == newest[place]:
                continue
            # The line was not complete yet, and now there is more of it.
        yield line


def render(line: LogLine, colour: int | None = None) -> str:
    """One line as it is printed, its prefix in a colour if one is given."""
    task = line.task if line.attempt <= 1 else f"{line.task}#{line.attempt}"
    mark = "!" if line.stream == "stderr" else "|"
    if colour is None:
        return f"{task} {mark} {line.text}"
    mark = f"\x1b[31m{mark}\x1b[0m" if mark == "!" else f"\x1b[{colour}m{mark}\x1b[0m"
    return f"\x1b[{colour}m{task}\x1b[0m {mark} {line.text}"


def colour_of(place: int) -> int:
    """The colour of the task at this place in the job."""
    return _PALETTE[place % len(_PALETTE)]


def has_colours(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose user wants colours."""
    return stream.isatty() and "NO_COLOR" not in os.environ
