from __future__ import annotations

import io

import pytest

from ytf.cli.tables import fit, plain, shortened, show, when, when_short, wrapped
from ytf.client.status_text import span


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


HEADERS = ("id", "name", "user", "state", "queue")
ROW = ("application_1700000000000_0001", "a name of twenty-one", "alice", "SUCCEEDED", "default")


@pytest.mark.parametrize(
    ("width", "headers", "name"),
    [
        (200, HEADERS, ROW[1]),
        (78, HEADERS, "a name of twent…"),
        (70, ("id", "name", "user", "state"), "a name of twent…"),
        (60, ("id", "name", "state"), "a name of twent…"),
        (48, ("id", "name", "state"), "a …"),
        (20, ("id", "name", "state"), "a …"),
    ],
)
def test_ids_are_never_cut(width: int, headers: tuple[str, ...], name: str) -> None:
    kept, ((*cells,),) = fit(HEADERS, [ROW], width, drop=("queue", "user"), cut=("name",))
    assert tuple(kept) == headers
    assert cells[0] == ROW[0]
    assert cells[kept.index("state")] == "SUCCEEDED"
    longest = max(map(len, plain(kept, [cells]).splitlines()))
    assert longest <= max(width, 47)
    assert cells[1].startswith(name[:2])


def test_a_wide_character_is_not_cut_in_half() -> None:
    assert shortened("漢字漢字", 8) == "漢字漢字"
    assert shortened("漢字漢字", 6) == "漢字…"
    assert shortened("abc", 3) == "abc"


def test_text_for_programs_has_everything_but_control_characters() -> None:
    out = io.StringIO()
    show(("id", "name"), [("a" * 200, "evil\x1b[2J\nname")], out, drop=("name",), cut=("name",))
    assert out.getvalue().splitlines()[1] == f"{'a' * 200}  evil\\x1b[2J\\nname"


def test_text_is_wrapped_between_words_and_ids_stay_whole() -> None:
    container = "container_1794865823241_0001_01_000002"
    rows = [("worker:0", "a text of several words"), ("ps:0", f"got {container} on n1"), ("", "")]
    assert wrapped(("task", "text"), rows, 34).splitlines() == [
        "TASK      TEXT",
        "worker:0  a text of several words",
        "ps:0      got",
        f"          {container}",
        "          on n1",
        "-         -",
    ]


@pytest.mark.parametrize("seconds", [-1e300, -1.0, 1e13, 1e300, 2**63])
def test_no_time_in_the_record_of_another_user_raises(seconds: float) -> None:
    assert when(seconds)
    assert when_short(seconds)
    assert span(seconds, None)
    assert span(0.0, seconds)
