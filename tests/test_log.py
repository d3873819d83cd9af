from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ytf import log as log_module
from ytf.log import LONGEST_LINE, MOST_BYTES, LimitedLog, log


class Clock:
    """Time, as a test sets it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    monkeypatch.setattr(log_module, "_budget", log_module._Budget())
    return clock


@pytest.fixture
def written(capfd: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """The lines since the last call, without their dates."""
    return lambda: [line.partition(" ")[2] for line in capfd.readouterr().err.splitlines()]


def test_a_line_has_a_date_and_stays_one_line(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    log("what\x1b[2J\nhappened ä")
    line = capfd.readouterr().err
    assert line.endswith("Z what\\x1b[2J | happened ä\n")
    assert line[4] == "-"


def test_a_line_is_cut(clock: Clock, written: Callable[[], list[str]]) -> None:
    log("x" * 100_000)
    log("\0" * 100_000)
    assert [len(line) for line in written()] == [LONGEST_LINE, LONGEST_LINE]


def test_too_many_lines_are_dropped_and_counted(
    clock: Clock, written: Callable[[], list[str]]
) -> None:
    for i in range(3000):
        log(f"line {i}")
    assert len(written()) == 1000
    clock.now += 10
    log("later")
    assert written() == ["2000 lines were dropped here: there were too many", "later"]


def test_a_log_never_grows_beyond_its_size(clock: Clock, written: Callable[[], list[str]]) -> None:
    size = 0
    for _ in range(10):
        clock.now += 100_000
        for _ in range(1000):
            log("x" * 3000)
        size += sum(len(line) + 26 for line in written())
    assert MOST_BYTES - 4096 < size <= MOST_BYTES
    log("the end", last=True)
    dropped, end = written()
    assert dropped.endswith("lines were dropped here: there were too many")
    assert end == "the end"


def test_what_others_cause_is_written_a_few_times_and_counted(
    clock: Clock, written: Callable[[], list[str]]
) -> None:
    limited = LimitedLog()
    for i in range(1000):
        limited.write(f"refused {i}")
    assert written() == [f"refused {i}" for i in range(10)]
    clock.now += 10.5
    limited.write("refused")
    assert written() == ["refused (and 990 lines like it before)"]
    clock.now += 10.5
    limited.write("again")
    assert written() == []
    clock.now += 10.5
    limited.write("again")
    assert written() == ["again (and 1 lines like it before)"]


def test_a_month_of_refusals_is_a_short_log(clock: Clock, written: Callable[[], list[str]]) -> None:
    limited = LimitedLog()
    for _ in range(30 * 24 * 60):
        clock.now += 60
        limited.write("refused")
    assert len(written()) < 30 * 24 + 30


def test_after_a_quiet_time_it_begins_anew(clock: Clock, written: Callable[[], list[str]]) -> None:
    limited = LimitedLog()
    for _ in range(3):
        clock.now += 4000
        for _ in range(10):
            limited.write("refused")
    assert written() == ["refused"] * 30


def test_a_flood_of_one_kind_does_not_hide_other_lines(tmp_path: Path) -> None:
    code = (
        "from ytf.log import LimitedLog, log\n"
        "refused = LimitedLog()\n"
        "for i in range(200_000): refused.write('refused')\n"
        "log('the program has ended')\n"
    )
    path = tmp_path / "log"
    with path.open("wb") as file:
        subprocess.run([sys.executable, "-c", code], stderr=file, check=True, env={**os.environ})
    assert path.read_text().endswith("Z the program has ended\n")
    assert path.stat().st_size < 1000
