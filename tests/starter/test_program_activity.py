from __future__ import annotations

import time

import pytest

from ytf.starter.program_activity import CHECK_EVERY_S, IDLE_SHARE, ProgramActivity

STEP_S = CHECK_EVERY_S


class Program:
    """A program whose processor time a test sets."""

    def __init__(self) -> None:
        self.used_s = 0.0
        self.now = time.monotonic() - 1000 * STEP_S
        self.activity = ProgramActivity(self.now)

    def step(self, used_s: float, seconds: float = STEP_S) -> bool:
        """Let time pass; returns whether the program counts as idle."""
        self.used_s += used_s
        self.now += seconds
        self.activity.check(self.now, self.used_s)
        return self.activity.idle_s() > 0


def test_a_program_is_idle_while_it_uses_next_to_no_processor_time() -> None:
    program = Program()
    assert program.activity.idle_s() == 0
    assert not program.step(STEP_S)
    assert program.step(0)
    assert program.step(IDLE_SHARE * STEP_S * 0.9)
    since_s = program.activity.idle_s()
    assert since_s == pytest.approx(998 * STEP_S + STEP_S, abs=60)
    assert not program.step(IDLE_SHARE * STEP_S * 1.1)


def test_time_that_vanishes_with_a_child_is_activity() -> None:
    program = Program()
    assert not program.step(5)
    assert not program.step(-3)
    assert program.step(0)


def test_only_whole_steps_are_compared() -> None:
    program = Program()
    for _ in range(9):
        assert not program.step(0, STEP_S / 10)
    assert program.step(0, STEP_S / 10 + 0.01)
