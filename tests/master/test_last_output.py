from __future__ import annotations

import asyncio

import pytest

from ytf.master import last_output as module
from ytf.master.last_output import last_output
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.status import LogLocation
from ytf.web.log_tails import LogTails
from ytf.web.messages import HttpError


class FakeTails(LogTails):
    """Answers with what a test has written for each task and stream."""

    def __init__(self, written: dict[str, bytes]) -> None:
        super().__init__(b"secret", at_once=6)
        self.written = written

    async def read(self, location: LogLocation, stream: str, size: int) -> bytes:
        key = f"{location.container} {stream}"
        if key not in self.written:
            raise HttpError(404, "it has written no logs")
        if self.written[key] == b"never":
            await asyncio.Event().wait()
        return self.written[key][-size:]


def running(*tasks: str) -> list[tuple[TaskId, LogLocation]]:
    return [
        (TaskId(task), LogLocation(container=ContainerId(task), control="h:1", url=None))
        for task in tasks
    ]


async def test_both_streams_of_the_first_tasks_are_told() -> None:
    tails = FakeTails(
        {
            "worker:0 stdout": b"".join(b"step %d\n" % n for n in range(9)),
            "worker:0 stderr": b"",
            "worker:1 stdout": b"",
            "worker:1 stderr": b"",
            "worker:2 stdout": b"a" * 5000 + b"\nlast \xff",
            "worker:3 stdout": b"one too many",
        }
    )
    told = await last_output(tails, running("worker:0", "worker:1", "worker:2", "worker:3"))
    assert told.splitlines() == [
        "Last lines of worker:0's stdout:",
        *(f"  | step {n}" for n in range(4, 9)),
        "worker:1 has written nothing.",
        "Last lines of worker:2's stdout:",
        "  | last \N{REPLACEMENT CHARACTER}",
    ]


async def test_a_starter_that_does_not_answer_delays_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.05)
    tails = FakeTails(
        {"a:0 stdout": b"never", "a:0 stderr": b"never", "b:0 stdout": b"x", "b:0 stderr": b""}
    )
    told = await asyncio.wait_for(last_output(tails, running("a:0", "b:0")), 30)
    assert told == "Last lines of b:0's stdout:\n  | x"
