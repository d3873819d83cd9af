from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.wire.shell_messages import ExitMessage, OpenMessage, WindowSize


@pytest.mark.parametrize(
    "message",
    [
        OpenMessage(None, WindowSize(24, 80), "xterm-256color"),
        OpenMessage("echo 'ü' | \n cat", None, "dumb"),
    ],
)
def test_what_to_run(message: OpenMessage) -> None:
    got = OpenMessage.decode(message.encode())
    assert (got.command, got.term) == (message.command, message.term)
    sizes = [each.size and (each.size.rows, each.size.columns) for each in (got, message)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("end", [ExitMessage(3), ExitMessage(signal=9, reason="it ends")])
def test_how_it_ended(end: ExitMessage) -> None:
    got = ExitMessage.decode(end.encode())
    assert (got.exit_code, got.signal, got.reason) == (end.exit_code, end.signal, end.reason)


@pytest.mark.parametrize(
    ("decode", "payload"),
    [
        (WindowSize.decode, b"[1]"),
        (WindowSize.decode, b"[1, 65536]"),
        (WindowSize.decode, b'["1", 2]'),
        (WindowSize.decode, b"{}"),
        (OpenMessage.decode, b"[]"),
        (OpenMessage.decode, b"{}"),
        (OpenMessage.decode, b'{"term": "t", "command": "a\\u0000b"}'),
        (OpenMessage.decode, b'{"term": "t", "command": ["ls"]}'),
        (ExitMessage.decode, b'{"exit_code": 256, "reason": ""}'),
        (ExitMessage.decode, b'{"exit_code": 0, "reason": null}'),
        (ExitMessage.decode, b"7"),
    ],
)
def test_what_makes_no_sense_is_a_value_error(decode: object, payload: bytes) -> None:
    assert callable(decode)
    with pytest.raises(ValueError, match="is no"):
        decode(payload)


@given(st.binary(max_size=100))
def test_noise_is_a_value_error_at_most(noise: bytes) -> None:
    for decode in (WindowSize.decode, OpenMessage.decode, ExitMessage.decode):
        with contextlib.suppress(ValueError):
            decode(noise)
