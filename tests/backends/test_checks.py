"""When clocks agree."""

from __future__ import annotations

import pytest

from ytf.backends.checks import compare_clocks
from ytf.specs.checks import CheckState


@pytest.mark.parametrize(
    ("skew_s", "text"),
    [
        (0.2, "agrees with that of this machine within 1 s (mtime)"),
        (-12.4, "agrees with that of this machine within 12 s (mtime)"),
        (95.0, "is 95 s ahead of that of this machine (mtime)"),
        (-3600.0, "is 3600 s behind that of this machine (mtime)"),
    ],
)
def test_how_far_clocks_may_be_apart(skew_s: float, text: str) -> None:
    found = compare_clocks(skew_s, "mtime")
    assert found.text == text
    assert (found.state is CheckState.OK) == text.startswith("agrees")
    assert ("NTP" in (found.hint or "")) == (found.state is CheckState.FAILED)
