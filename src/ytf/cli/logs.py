"""``ytf logs``: what the tasks wrote, each line with its task before it.

``worker:0 | text`` is stdout, ``worker:0 ! text`` stderr; an attempt after the
first is named too: ``worker:0#2 | text``.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from ytf.backends.api import JobHandle, LogLine
from ytf.cli.streams import say
from ytf.client import backends
from ytf.errors import NotFoundError
from ytf.specs.job import CLIENT
from ytf.specs.names import TaskId, task_id
from ytf.specs.status import JobStatus
from ytf.specs.wording import did_you_mean

_PALETTE = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
"""ANSI colours that are readable on light and dark; red is left for stderr's mark."""


def logs(job: str, which: Sequence[str], *, follow: bool, tail: int | None = None) -> int:
    """Print the lines of all tasks, or of some groups and tasks; ``follow``: until the job ends.

    ``tail`` leaves out all but so many of the last lines of each stream.
    """
    handle = backends.open_job(job)
    tasks = choose(handle.status(), which)
    colour = _colours(sys.stdout)
    places = {task: number for number, task in enumerate(tasks)}
    lines = handle.logs(tasks, follow=follow, tell=lambda text: say(f"ytf: {text}"))
    if tail is not None:
        lines = _last_and_later(handle, tasks, tail, lines) if follow else _last(lines, tail)
    for line in lines:
        code = _PALETTE[places.get(line.task, 0) % len(_PALETTE)] if colour else None
        sys.stdout.write(render(line, code) + "\n")
        if follow:
            sys.stdout.flush()
    return 0


def choose(status: JobStatus, which: Sequence[str]) -> list[TaskId]:
    """The tasks that each ``GROUP`` or ``GROUP:INDEX`` names; all if there is none."""
    tasks = [task_id(t.group, t.index) for t in status.tasks if t.group != CLIENT]
    if not which:
        return tasks
    chosen: set[TaskId] = set()
    for word in which:
        named = {task for task in tasks if word in (task, task.rpartition(":")[0])}
        if not named:
            raise _no_such_task(status, word, tasks)
        chosen |= named
    return [task for task in tasks if task in chosen]


def _no_such_task(status: JobStatus, word: str, tasks: list[TaskId]) -> NotFoundError:
    if word.partition(":")[0] == CLIENT:
        return NotFoundError("the client's output went to its terminal and was not kept")
    groups = list(dict.fromkeys(task.rpartition(":")[0] for task in tasks))
    return NotFoundError(
        f"job {status.id} has no task or group {word!r}",
        hint=did_you_mean(word, [*groups, *tasks], otherwise=f"it has: {', '.join(groups)}"),
    )


def _last(lines: Iterable[LogLine], tail: int) -> Iterator[LogLine]:
    """The last lines of each stream."""
    kept: dict[tuple[str, str], deque[LogLine]] = {}
    for line in lines:
        kept.setdefault((line.task, line.stream), deque(maxlen=tail)).append(line)
    for last in kept.values():
        yield from last


def _last_and_later(
    handle: JobHandle, tasks: list[TaskId], tail: int, lines: Iterator[LogLine]
) -> Iterator[LogLine]:
    """The last lines of each stream as it is now, then those of ``lines`` that came later."""
    known: Counter[tuple[str, int, str]] = Counter()
    newest: dict[tuple[str, int, str], LogLine] = {}

    def noted() -> Iterator[LogLine]:
        for line in handle.logs(tasks, follow=False):
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
            # It had no ending yet, and now there is more of it.
        yield line


def render(line: LogLine, colour: int | None = None) -> str:
    """One line as it is printed, its prefix in a colour if one is given."""
    task = line.task if line.attempt <= 1 else f"{line.task}#{line.attempt}"
    mark = "!" if line.stream == "stderr" else "|"
    if colour is None:
        return f"{task} {mark} {line.text}"
    mark = f"\x1b[31m{mark}\x1b[0m" if mark == "!" else f"\x1b[{colour}m{mark}\x1b[0m"
    return f"\x1b[{colour}m{task}\x1b[0m {mark} {line.text}"


def _colours(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ
