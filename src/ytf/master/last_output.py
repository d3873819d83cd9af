"""Reads what running tasks wrote last, for a job that is about to fail because of a deadline.

It is read before the tasks are stopped: afterwards the last lines would be about
the stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from async_timeout import timeout

from ytf.log import log
from ytf.machine.diagnostics import tail_text
from ytf.specs.ids import TaskId
from ytf.specs.status import LogLocation
from ytf.starter.program_logs import STREAMS
from ytf.web.log_tails import LogTails
from ytf.web.messages import HttpError

MAX_TASKS = 3
"""The lines of more tasks would bury the reason of the failure."""
_LINES = 5
_BYTES = 2048
_TIMEOUT_S = 3.0
"""How long the job's end may be delayed by starters that do not answer."""


async def last_output(tails: LogTails, tasks: Sequence[tuple[TaskId, LogLocation]]) -> str:
    """The last lines of these tasks' stdout and stderr, in words; empty if nobody answers."""
    answers = await asyncio.gather(*(_of_task(tails, *each) for each in tasks[:MAX_TASKS]))
    return "\n".join(text for text in answers if text)


async def _of_task(tails: LogTails, task: TaskId, location: LogLocation) -> str:
    async def read(stream: str) -> str | None:
        try:
            async with timeout(_TIMEOUT_S):
                data = await tails.read(location, stream, _BYTES)
        except (HttpError, asyncio.TimeoutError, OSError) as error:
            log(f"the last lines of {task}'s {stream} could not be read: {error!r}")
            return None
        return _last_lines(data)

    texts = await asyncio.gather(*map(read, STREAMS))
    found = [
        tail_text(f"{task}'s {stream}", text)
        for stream, text in zip(STREAMS, texts, strict=True)
        if text
    ]
    if not found and None not in texts:
        return f"{task} has written nothing."
    return "\n".join(found)


def _last_lines(data: bytes) -> str:
    lines = data.decode("utf-8", "replace").rstrip().splitlines()
    if len(data) == _BYTES and len(lines) > 1:
        lines = lines[1:]  # the first is only the end of a line
    return "\n".join(lines[-_LINES:])
