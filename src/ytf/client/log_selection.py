"""Selects log lines by what users write: ``worker``, ``worker:0`` or ``worker:0#2``.

``worker:0#2`` is the second attempt of worker:0, as ``ytf logs`` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ytf.backends.api import LogLine
from ytf.errors import NotFoundError, did_you_mean
from ytf.specs.ids import TaskId, group_of, task_id
from ytf.specs.job import CLIENT
from ytf.specs.status import JobStatus


@dataclass(frozen=True)
class LogSelection:
    """Tasks in the order of their job, and for some the only attempts that are wanted."""

    tasks: list[TaskId]
    attempts: dict[TaskId, set[int]]

    def of(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """The lines of the wanted attempts."""
        if not self.attempts:
            yield from lines
            return
        for line in lines:
            wanted = self.attempts.get(line.task)
            if wanted is None or line.attempt in wanted:
                yield line


def select_logs(status: JobStatus, which: Sequence[str]) -> LogSelection:
    """The tasks that the words name; all if there are none. Raises ``NotFoundError``."""
    newest = {task_id(t.group, t.index): t.attempt for t in status.tasks if t.group != CLIENT}
    tasks = list(newest)
    if not which:
        return LogSelection(tasks, {})
    whole: set[TaskId] = set()
    attempts: dict[TaskId, set[int]] = {}
    for word in which:
        name, _, number = word.partition("#")
        named = {task for task in tasks if name in (task, group_of(task))}
        if not named or (number and not (number.isascii() and number.isdigit())):
            raise _no_such_task(status, word, tasks)
        if not number:
            whole |= named
            continue
        for task in named:
            attempts.setdefault(task, set()).add(int(number))
        if not any(1 <= int(number) <= newest[task] for task in named):
            often = max(newest[task] for task in named)
            raise NotFoundError(
                f"{name} of job {status.id} has had no attempt {int(number)}",
                hint=f"its newest attempt is {often}",
            )
    for task in whole:
        attempts.pop(task, None)
    return LogSelection([t for t in tasks if t in whole or t in attempts], attempts)


def _no_such_task(status: JobStatus, word: str, tasks: list[TaskId]) -> NotFoundError:
    if word.partition(":")[0] == CLIENT:
        return NotFoundError("the client's output went to its terminal and was not kept")
    groups = list(dict.fromkeys(map(group_of, tasks)))
    return NotFoundError(
        f"job {status.id} has no task or group {word!r}",
        hint=did_you_mean(word, [*groups, *tasks], otherwise=f"it has: {', '.join(groups)}"),
    )
