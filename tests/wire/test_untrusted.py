from __future__ import annotations

import contextlib
import json
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.wire.untrusted import MOST, as_int, as_seconds, as_text, read_int, read_json, shown


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_0", " 1", "²", "1.0", "9" * 5000, "9" * 19])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number from 0 to"):
        read_int(text)


def test_numbers() -> None:
    assert (read_int("0"), read_int("007"), read_int(str(MOST))) == (0, 7, MOST)
    assert read_int("-5", -5, 5) == -5
    with pytest.raises(ValueError, match="from -5 to 5"):
        read_int("6", -5, 5)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, [1]])
def test_values_that_are_no_number(value: object) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        as_int(value)


@pytest.mark.parametrize("value", [True, "1", None, -0.1, float("nan")])
def test_values_that_are_no_seconds(value: object) -> None:
    if value == value:
        with pytest.raises(ValueError, match="is not a number of seconds"):
            as_seconds(value)
    else:
        with pytest.raises(ValueError, match="not JSON"):
            read_json(b"NaN")


@pytest.mark.parametrize("value", ["", "a b", "ä", "a\0", "\ud800", "x" * 11, 7, None])
def test_values_that_are_no_word(value: object) -> None:
    with pytest.raises(ValueError, match=r"is not a text|printable"):
        as_text(value, 10)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"9" * 5000,
        b"-" + b"9" * 5000,
        b"9" * 1_000_000,
        b"[" * 60_000,
        b'{"a":' * 60_000,
        b"[" * 60_000 + b"]" * 60_000,
        b"[" * 33 + b"]" * 33,
        b'"[' + b"[" * 60_000,
        b"[]" * 100 + b"[" * 60_000,
    ],
)
def test_what_is_no_json_within_bounds(data: bytes) -> None:
    """In a thread with as small a stack as the starter's have."""
    raised: list[BaseException] = []

    def read() -> None:
        try:
            read_json(data)
        except BaseException as exc:
            raised.append(exc)

    before = threading.stack_size(256 * 1024)
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    threading.stack_size(before)
    assert isinstance(raised[0], ValueError)


@pytest.mark.parametrize(
    "data",
    [
        b"[]" * 40 + b'"' + b'\\"' * 490_000,
        b"[]" * 40 + b'"' * 999_999,
        b"[]" * 40 + b'"' + b"\\" * 999_999,
        b"[" * 40 + b'"' + b"\\" * 999_999,
        b"[]" * 40 + b'"[' * 490_000,
        b"0." + b"1" * 999_999 + b"e-9999999999",
    ],
    ids=["quotes in a string", "quotes", "backslashes", "deep", "strings", "a number"],
)
def test_a_megabyte_takes_no_more_than_its_length(data: bytes) -> None:
    """The square of it would be an hour; what is read is up to a megabyte of anybody's."""
    began = time.thread_time()
    with contextlib.suppress(ValueError):
        read_json(data)
    assert time.thread_time() - began < 30


def test_brackets_within_strings_do_not_count() -> None:
    hosts = [f"[::1]:{port}" for port in range(5000)] + ['"[', "\\["]
    assert read_json(json.dumps({"members": {"worker": hosts}}).encode()) == {
        "members": {"worker": hosts}
    }


def test_deep_enough() -> None:
    assert read_json(b"[" * 32 + b"]" * 32)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-MOST - 1, MOST) | st.floats(allow_nan=False,
        allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=40,
    )
)  # fmt: skip
def test_all_other_json_is_read(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        read_json(data)


def test_long_values_are_shown_in_short() -> None:
    assert shown("ä\n") == "'\\xe4\\n'"
    assert len(shown("x" * 10_000)) == 60
