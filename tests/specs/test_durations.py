from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.errors import SpecError
from ytf.specs.codec import from_dict
from ytf.specs.durations import DURATION, format_duration, parse_duration
from ytf.specs.job import Backoff, MasterSpec, Timeouts

GROUPS = {"worker": {"count": 1}}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("90s", 90.0),
        ("5m", 300.0),
        ("5 min", 300.0),
        ("1h", 3600.0),
        ("1H", 3600.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1.5 hours", 5400.0),
        ("2d", 172_800.0),
        ("1w", 604_800.0),
        ("250ms", 0.25),
        (" 1h ", 3600.0),
    ],
)
def test_a_time_may_have_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert re.fullmatch(DURATION, text.strip())


@pytest.mark.parametrize("text", ["", "h", "-1", "1:30", "1e3", "nan", "1h30", "5,5", "9" * 99])
def test_what_is_no_time_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(SpecError, match="is not a time") as caught:
        parse_duration(text, where="--timeout")
    assert caught.value.where == "--timeout"
    assert "1h30m" in (caught.value.hint or "")


def test_a_mistyped_unit_is_corrected() -> None:
    with pytest.raises(SpecError, match="'hor' is not a unit of time") as caught:
        parse_duration("1hor")
    assert caught.value.hint == "did you mean 'hour'?"


@given(st.integers(1, 10**9))
def test_a_printed_duration_is_read_back(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


def test_every_time_of_a_job_file_takes_units() -> None:
    spec = from_dict(
        {
            "command": "true",
            "groups": {
                "worker": {"count": 1, "backoff": {"initial_s": "500ms", "max_s": "1m"}},
                # A name that looks like a time's is not one.
                "x_s": {"count": 1, "task_env": {"WAIT_s": "1h"}},
            },
            "timeouts": {"job_s": "1h", "allocation_s": 60, "rendezvous_s": "90"},
            "master": {"attempt_window_s": "5m"},
        }
    )
    assert spec.timeouts == Timeouts(job_s=3600.0, allocation_s=60.0, rendezvous_s=90.0)
    assert spec.groups["worker"].backoff == Backoff(initial_s=0.5, max_s=60.0)
    assert spec.groups["x_s"].task_env == {"WAIT_s": "1h"}
    assert spec.master == MasterSpec(attempt_window_s=300.0)


@pytest.mark.parametrize(
    ("value", "says"),
    [("soon", "is not a time"), (True, "expected a time"), ([], "expected a time")],
)
def test_a_wrong_time_in_a_job_file_is_refused_at_its_place(value: object, says: str) -> None:
    data = {"command": "true", "groups": GROUPS, "timeouts": {"job_s": value}}
    with pytest.raises(SpecError, match=says) as caught:
        from_dict(data)
    assert caught.value.where == "timeouts.job_s"
    assert "1h" in (caught.value.hint or "")
