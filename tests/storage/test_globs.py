"""Wildcards, on a local disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from ytf.storage.globs import expand, first_wildcard
from ytf.storage.local_files import LocalFiles

NAMES = ["a1.csv", "a2.csv", "b1.csv", ".hidden.csv", "x[1].csv", "sub/a1.csv", "other/c.txt"]


@pytest.fixture
def place(tmp_path: Path) -> str:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return str(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a*.csv", ["a1.csv", "a2.csv"]),
        ("a?.csv", ["a1.csv", "a2.csv"]),
        ("[ab]1.csv", ["a1.csv", "b1.csv"]),
        ("[^a]1.csv", ["b1.csv"]),
        ("[!a]1.csv", ["b1.csv"]),
        ("[a-b]2.csv", ["a2.csv"]),
        ("{a,b}1.csv", ["a1.csv", "b1.csv"]),
        ("{sub/a,other/c}*", ["other/c.txt", "sub/a1.csv"]),
        ("{a{1,2},b*}.csv", ["a1.csv", "a2.csv", "b1.csv"]),
        ("*/*", ["other/c.txt", "sub/a1.csv"]),
        ("*den.csv", [".hidden.csv"]),
        (r"x\[1\].csv", ["x[1].csv"]),
        ("nothing*", []),
        ("a1.csv/*", []),
        ("missing/*", []),
    ],
)
def test_patterns(place: str, pattern: str, found: list[str]) -> None:
    matches = expand(LocalFiles(), f"{place}/{pattern}")
    assert [each.path.removeprefix(f"{place}/") for each in matches] == found


@pytest.mark.parametrize("pattern", ["{a,b", "[a", "[z-a]*"])
def test_patterns_that_make_no_sense(place: str, pattern: str) -> None:
    with pytest.raises(ValueError, match=r"closed|pattern"):
        expand(LocalFiles(), f"{place}/{pattern}")


def test_the_number_of_alternatives_is_bounded(place: str) -> None:
    with pytest.raises(ValueError, match="more than"):
        expand(LocalFiles(), f"{place}/" + "{a,b}" * 40)


def test_where_wildcards_begin() -> None:
    assert first_wildcard("/a/b*/c") == 2
    assert first_wildcard("/a/b") is None
    assert first_wildcard(r"/a/b\*") is None
