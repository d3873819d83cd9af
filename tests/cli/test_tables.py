from __future__ import annotations

import pytest

from ytf.cli.tables import plain


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("mein Job ü", 10),
        ("漢字", 4),
        ("a 😀", 4),
        ("u\u0308ber", 4),
        ("a\u200db", 2),
        ("ＡＢ", 4),
    ],
)
def test_columns_are_as_wide_as_a_terminal_shows_them(name: str, columns: int) -> None:
    rows = [(name, "x"), ("n" * 12, "")]
    assert plain(("name", "y"), rows).splitlines() == [
        "NAME          Y",
        f"{name}{' ' * (12 - columns)}  x",
        f"{'n' * 12}  -",
    ]


def test_the_widest_cell_makes_the_column() -> None:
    assert plain(("n", "y"), [("漢字漢字", "x")]).splitlines() == [
        "N         Y",
        "漢字漢字  x",
    ]
