"""Hadoop's variable-length numbers, against what Java writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.hadoop.proto.wire import MalformedError
from ytf.hadoop.security.writable import Reader, block, vint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (127, "7f"),
        (-112, "90"),
        (128, "8f80"),
        (-113, "8770"),
        (255, "8fff"),
        (256, "8e0100"),
        (-256, "87ff"),
        (-257, "860100"),
        (2**63 - 1, "887fffffffffffffff"),
        (-(2**63), "807fffffffffffffff"),
    ],
)
def test_known_encodings(value: int, encoded: str) -> None:
    assert vint(value).hex() == encoded
    assert Reader(bytes.fromhex(encoded)).vint() == value


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=300))
def test_round_trip(number: int, data: bytes) -> None:
    reader = Reader(vint(number) + block(data))
    assert (reader.vint(), reader.block(), reader.rest) == (number, data, 0)


READS = (Reader.vint, Reader.count, Reader.block, Reader.text)


@given(st.binary(max_size=40), st.sampled_from(READS))
def test_any_bytes_are_read_or_refused(data: bytes, read: Callable[[Reader], object]) -> None:
    try:
        read(Reader(data))
    except MalformedError:
        return


def test_a_count_cannot_exceed_what_is_there() -> None:
    with pytest.raises(MalformedError, match="a count of 100"):
        Reader(vint(100) + b"x").count()
    with pytest.raises(MalformedError, match="a count of -5"):
        Reader(vint(-5)).block()
    with pytest.raises(MalformedError, match="ends 1 bytes early"):
        Reader(b"").vint()
