from __future__ import annotations

import pytest

from ytf.client.shell_relay import EscapeFilter, LeftShellError


@pytest.mark.parametrize(
    ("typed", "passed"),
    [
        (["ls ~/x\r"], b"ls ~/x\r"),
        (["~~."], b"~."),
        (["~x"], b"~x"),
        (["~", "\r"], b"~\r"),
        (["a~."], b"a~."),
        (["a\x7f~."], b"a\x7f~."),
    ],
)
def test_what_is_typed_is_passed_on(typed: list[str], passed: bytes) -> None:
    escapes = EscapeFilter()
    assert b"".join(escapes.pass_on(keys.encode()) for keys in typed) == passed


@pytest.mark.parametrize("typed", [["~."], ["~", "."], ["ls\r~."], ["ls\x03", "~."]])
def test_the_way_out(typed: list[str]) -> None:
    *before, last = typed
    escapes = EscapeFilter()
    for keys in before:
        escapes.pass_on(keys.encode())
    with pytest.raises(LeftShellError):
        escapes.pass_on(last.encode())
