from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ytf.testing.waiting import eventually, eventually_async


def test_eventually_gives_the_value() -> None:
    answers = iter([None, 0, 42])
    assert eventually(lambda: next(answers)) == 42


@pytest.mark.parametrize("describe", ["the moon", lambda: "the moon"])
def test_eventually_says_what_did_not_come(describe: str | Callable[[], str]) -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.02 s: the moon"):
        eventually(lambda: False, 0.02, describe)


async def test_the_loop_runs_meanwhile() -> None:
    happened = asyncio.Event()
    asyncio.get_running_loop().call_soon(happened.set)
    assert await eventually_async(happened.is_set)


async def test_a_coroutine_is_asked_until_its_answer_is_accepted() -> None:
    answers = iter([1, 2, 3])

    async def ask() -> int:
        return next(answers)

    assert await eventually_async(ask, accept=lambda number: number > 1) == 2


async def test_the_last_answer_is_told() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.02 s: the last value is 0"):
        await eventually_async(lambda: 0, 0.02)
