from __future__ import annotations

import os
import signal

import pytest

from ytf.cli.interrupts import Interrupted, Interrupts


def _interrupt_while_held(interrupts: Interrupts, *, times: int) -> list[int]:
    """How many signals the block got through before the exception came, if it did."""
    passed: list[int] = []
    try:
        with interrupts.held():
            for number in range(times):
                os.kill(os.getpid(), signal.SIGINT)
                passed.append(number)
    except Interrupted:
        return passed
    pytest.fail("no interrupt arrived")


def test_a_signal_is_raised_where_we_are_and_only_inside() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="SIGTERM") as caught, Interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_first_waits_for_the_end_of_a_block_that_is_held() -> None:
    interrupts = Interrupts()
    with interrupts:
        assert _interrupt_while_held(interrupts, times=1) == [0]
        with interrupts.held():
            pass  # nothing is pending any more


def test_the_second_does_not() -> None:
    interrupts = Interrupts()
    with interrupts:
        assert _interrupt_while_held(interrupts, times=2) == [0]
