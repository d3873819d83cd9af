from __future__ import annotations

import threading

import pytest

from ytf.client.mlflow.daemon_calls import DaemonCalls
from ytf.testing.waiting import eventually


def test_calls_are_made_one_after_the_other() -> None:
    calls, gate, made = DaemonCalls("a test"), threading.Event(), list[int]()
    first = calls.submit(lambda: gate.wait(60))
    others = [calls.submit(lambda number=number: made.append(number)) for number in range(3)]  # type: ignore[misc]
    assert not any(other.done() for other in others)
    gate.set()
    assert first.result(60) is True
    others[-1].result(60)
    assert made == [0, 1, 2]


def test_an_error_is_the_callers_and_ends_nothing() -> None:
    calls = DaemonCalls("a test")
    failed = calls.submit(lambda: 1 / 0)
    assert calls.submit(lambda: 7).result(60) == 7
    with pytest.raises(ZeroDivisionError):
        failed.result(60)


def test_there_is_a_thread_only_while_there_are_calls() -> None:
    calls, name = DaemonCalls("of this test"), "of this test"

    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == name]

    gate = threading.Event()
    calls.submit(lambda: gate.wait(60))
    assert [thread.daemon for thread in threads()] == [True]
    gate.set()
    eventually(lambda: not threads(), describe="the thread ends")
    assert calls.submit(lambda: 1).result(60) == 1
