"""``ytf logs``: what the tasks wrote, each line with its task before it.

``worker:0 | text`` is stdout, ``worker:0 ! text`` stderr; an attempt after the
first is named too: ``worker:0#2 | text``.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from ytf.backends.api import LogLine
from ytf.cli.parser import did_you_mean
from ytf.client import backends
from ytf.errors import NotFoundError
from ytf.specs.job import CLIENT
from ytf.specs.names import TaskId, task_id
from ytf.specs.status import JobStatus

_PALETTE = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
"""ANSI colours that are readable on light and dark; red is left for stderr's mark."""


def logs(job: str, which: str | None, *, follow: bool) -> int:
    """Print the lines of all tasks, of a group or of one task; ``follow``: until the job ends."""
    handle = backends.open_job(job)
    tasks = choose(handle.status(), which)
    colour = _colours(sys.stdout)
    places = {task: number for number, task in enumerate(tasks)}
    for line in handle.logs(tasks, follow=follow):
        code = _PALETTE[places.get(line.task, 0) % len(_PALETTE)] if colour else None
        sys.stdout.write(render(line, code) + "\n")
        if follow:
            sys.stdout.flush()
    return 0


def choose(status: JobStatus, which: str | None) -> list[TaskId]:
    """The tasks that ``GROUP`` or ``GROUP:INDEX`` names; all without it."""
    tasks = [task_id(t.group, t.index) for t in status.tasks if t.group != CLIENT]
    if which is None:
        return tasks
    if which.partition(":")[0] == CLIENT:
        raise NotFoundError("the client's output went to its terminal and was not kept")
    chosen = [task for task in tasks if task == which or task.rpartition(":")[0] == which]
    if not chosen:
        groups = list(dict.fromkeys(t.group for t in status.tasks if t.group != CLIENT))
        raise NotFoundError(
            f"job {status.id} has no task or group {which!r}",
            hint=did_you_mean(which, [*groups, *tasks]) or f"it has: {', '.join(groups)}",
        )
    return chosen


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
