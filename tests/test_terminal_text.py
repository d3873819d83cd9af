"""Nothing that others write reaches a terminal as a control character."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.terminal_text import printable, printable_json, printable_line, printable_output

TITLE = "\x1b]0;owned\x07"
BACKWARDS = "\u202etxt.exe"


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        (f"a{TITLE}b", "a\\x1b]0;owned\\x07b"),
        ("\x9b31m", "\\x9b31m"),
        (BACKWARDS, "\\u202etxt.exe"),
        ("one\r\ntwo\tthree", "one\\r\ntwo\tthree"),
        ("größe 日本 👩‍🚀", "größe 日本 👩‍🚀"),
    ],
)
def test_control_characters_are_shown(given_text: str, shown: str) -> None:
    assert printable(given_text) == shown


def test_a_line_stays_one() -> None:
    assert printable_line("a\nb\u2028c") == "a\\nb\\u2028c"


def test_the_output_of_a_program_keeps_its_colours() -> None:
    text = f"\x1b[1;31mred\x1b[0m 10%\r20%{TITLE}\x1b[2J"
    assert printable_output(text) == "\x1b[1;31mred\x1b[0m 10%\r20%\\x1b]0;owned\\x07\\x1b[2J"


@given(st.text())
def test_no_text_is_an_exception(text: str) -> None:
    left = {char for char in printable(text) if unicodedata.category(char) == "Cc"}
    assert left <= {"\n", "\t"}
    assert "\n" not in printable_line(text)


@given(st.text())
def test_json_says_the_same(text: str) -> None:
    document = json.dumps({"name": text}, ensure_ascii=False, indent=2)
    shown = printable_json(document)
    assert json.loads(shown) == {"name": text}
    assert printable(shown) == shown
