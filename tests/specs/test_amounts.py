from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.specs.strategies import memory_mb
from ytf.errors import SpecError
from ytf.specs.amounts import MAX_INT, format_bytes, format_memory, parse_memory, short_bytes


@pytest.mark.parametrize(
    ("written", "mb"),
    [
        (2048, 2048),
        ("2048", 2048),
        ("2 GiB", 2048),
        ("2GB", 2048),
        ("2g", 2048),
        ("512m", 512),
        ("512 MB", 512),
        ("1.5g", 1536),
        ("0.5 GiB", 512),
        ("1t", 1024 * 1024),
        ("1024k", 1),
        ("1025KB", 2),
        ("1.1m", 2),
        ("007", 7),
        ("0" * 5000 + "1", 1),
        (MAX_INT, MAX_INT),
        (f"{MAX_INT}", MAX_INT),
        ("1.9999999999999999999999999999999999999g", 2048),
    ],
)
def test_memory_is_read_in_powers_of_1024_and_rounded_up(written: int | str, mb: int) -> None:
    assert parse_memory(written) == mb


@pytest.mark.parametrize(
    "written",
    [
        *(0, -1, MAX_INT + 1, 10**100),
        *("0", "0g", "0.0k", "-1", "-2 GiB", f"{MAX_INT + 1}", "2048t", "9" * 5000, "1" + "0" * 30),
        *("", " ", "g", "GiB 2", " 2g", "2g ", "2  g", "2\tg", "2\n", "1e3", "+2", "0x10", "1_000"),
        *("٢", "²", "2 Gi", "2 Gbit", "1.g", ".5g", "1,5g", "nan", "inf", "2p"),
    ],
)
def test_what_is_no_memory_is_refused_at_its_place(written: int | str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_memory(written, where="here")
    assert caught.value.where == "here"
    assert len(str(caught.value)) < 200


def test_a_wrong_unit_gets_the_right_one_suggested() -> None:
    with pytest.raises(SpecError) as caught:
        parse_memory("2 GiBi")
    assert caught.value.hint == "did you mean 'GiB'?"


@pytest.mark.parametrize(
    ("mb", "written"), [(1, "1 MiB"), (2048, "2 GiB"), (1536, "1536 MiB"), (2 << 20, "2 TiB")]
)
def test_memory_is_written_in_the_largest_exact_unit(mb: int, written: str) -> None:
    assert format_memory(mb) == written


@given(memory_mb)
def test_what_is_written_is_read_back(mb: int) -> None:
    assert parse_memory(format_memory(mb)) == mb
    assert parse_memory(str(mb)) == mb


@given(st.text() | st.from_regex(r"[-0-9. ]{1,12}[kmgtib]{0,3}") | st.integers())
def test_nothing_crashes_the_parser(written: int | str) -> None:
    with contextlib.suppress(SpecError):
        assert 1 <= parse_memory(written) <= MAX_INT


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (0.4, "0"),
        (1, "1B"),
        (999, "999B"),
        (1000, "1.0K"),
        (1023, "1.0K"),
        (10 * 1024, "10K"),
        (314 * 1024**2, "314M"),
        (1024**3, "1.0G"),
        (8.25 * 1024**4, "8.2T"),
        (2**62, "4.0E"),
    ],
)
def test_amounts_are_short(amount: float, text: str) -> None:
    assert short_bytes(amount) == text
    assert len(text) <= 5


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_340_000, "1.3 MB"),
        (2_000_000_000, "2.0 GB"),
        (7 * 10**15, "7000.0 TB"),
    ],
)
def test_sizes_of_files_are_in_powers_of_1000(size: int, text: str) -> None:
    assert format_bytes(size) == text
