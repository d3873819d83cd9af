from __future__ import annotations

from types import SimpleNamespace

import pytest

from ytf.wire import rate_limit
from ytf.wire.rate_limit import RateLimiter


def test_a_burst_is_free_and_the_rest_waits_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(rate_limit, "time", SimpleNamespace(monotonic=lambda: now))
    limiter = RateLimiter(burst=2, per_s=4)
    assert [limiter.delay_s() for _ in range(4)] == [0.0, 0.0, 0.25, 0.5]
    now += 0.5
    assert limiter.delay_s() == 0.25
    now += 1000.0
    assert [limiter.delay_s() for _ in range(3)] == [0.0, 0.0, 0.25]
