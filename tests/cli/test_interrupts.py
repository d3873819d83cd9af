from __future__ import annotations

import os
import signal

import pytest

from ytf.cli.interrupts import Interrupted, Interrupts


def _interrupt_while_held(interrupts: Interrupts, *, times: int) -> list[int]:
    """How many signals the block got through before the exception came, if it did."""
    passed: list[int] = []
    try:
        with interrupts.holding("one moment") as hold:
            hold()
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


@pytest.mark.parametrize("ignored", [True, False])
def test_a_closed_terminal_is_one_unless_it_is_ignored(ignored: bool) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        if ignored:
            with Interrupts(hangup=True):
                os.kill(os.getpid(), signal.SIGHUP)
        else:
            with pytest.raises(Interrupted, match="SIGHUP"), Interrupts(hangup=True):
                os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_first_waits_for_the_end_of_a_block_that_is_held(
    capfd: pytest.CaptureFixture[str],
) -> None:
    interrupts = Interrupts()
    with interrupts:
        assert _interrupt_while_held(interrupts, times=1) == [0]
        assert capfd.readouterr().err == "one moment\n"
        with interrupts.holding("one moment") as hold:
            hold()  # nothing is pending any more


def test_the_second_does_not() -> None:
    interrupts = Interrupts()
    with interrupts:
        assert _interrupt_while_held(interrupts, times=2) == [0]
        with interrupts.holding("one moment"):
            pass  # nothing is pending any more


def test_before_it_is_held_none_waits(capfd: pytest.CaptureFixture[str]) -> None:
    interrupts = Interrupts()
    passed: list[str] = []

    def block() -> None:
        with interrupts, interrupts.holding("one moment"):
            os.kill(os.getpid(), signal.SIGINT)
            passed.append("the signal")

    with pytest.raises(Interrupted):
        block()
    assert passed == []
    assert capfd.readouterr().err == ""
