from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.wire.frames import (
    FROM_CLIENT,
    FROM_STARTER,
    MAX_PAYLOAD,
    ForgedFrameError,
    FrameReader,
    FrameWriter,
)

KEY = bytes(range(32))
MESSAGES = [(1, b"open"), (2, b""), (2, b"rm -rf\r"), (16, b"x" * MAX_PAYLOAD), (255, bytes(256))]


def frames(key: bytes = KEY, sender: bytes = FROM_CLIENT) -> list[bytes]:
    writer = FrameWriter(key, sender)
    return [writer.frame(*message) for message in MESSAGES]


def read_all(*pieces: bytes, key: bytes = KEY) -> list[tuple[int, bytes]]:
    reader = FrameReader(key, FROM_CLIENT)
    found = []
    for piece in pieces:
        reader.feed(piece)
        while (frame := reader.next()) is not None:
            found.append(frame)
    return found


@given(st.lists(st.integers(0, sum(map(len, frames()))), max_size=20))
def test_frames_arrive_however_they_are_cut(cuts: list[int]) -> None:
    data = b"".join(frames())
    at = [0, *sorted(cuts), len(data)]
    assert read_all(*(data[a:b] for a, b in pairwise(at))) == MESSAGES


def test_nothing_can_be_read_on_the_way() -> None:
    data = b"".join(frames())
    assert b"rm -rf" not in data
    assert b"x" * 8 not in data
    assert bytes(16) not in data
    # Not even that two frames say the same.
    writer = FrameWriter(KEY, FROM_CLIENT)
    assert writer.frame(2, b"password")[4:13] != writer.frame(2, b"password")[4:13]


@pytest.mark.parametrize(
    "sent",
    [
        lambda f: [f[0], f[0]],
        lambda f: [f[1]],
        lambda f: [f[0], f[2]],
        lambda f: frames(bytes(32)),
        lambda f: frames(sender=FROM_STARTER),
        lambda f: [f[0][:-1] + bytes((f[0][-1] ^ 1,))],
        lambda f: [f[0][:5] + bytes((f[0][5] ^ 1,)) + f[0][6:]],
        lambda f: [b"\0\0\0\3" + f[0][4:]],
        lambda f: [b"\0\0\0\0"],
        lambda f: [b"GET / HTTP/1.1\r\n\r\n"],
        lambda f: [(MAX_PAYLOAD + 2).to_bytes(4, "big")],
    ],
    ids=[
        *("repeated", "not the first", "one is missing", "another key", "the other direction"),
        *("another tag", "another byte", "shorter", "empty", "HTTP", "too long"),
    ],
)  # fmt: skip
def test_what_was_not_made_for_this_place_is_refused(sent: object) -> None:
    assert callable(sent)
    with pytest.raises(ForgedFrameError):
        read_all(*sent(frames()))


@given(st.binary(min_size=1, max_size=200))
def test_noise_is_never_a_frame(noise: bytes) -> None:
    reader = FrameReader(KEY, FROM_CLIENT)
    reader.feed(noise)
    try:
        assert reader.next() is None
    except ForgedFrameError:
        return


def test_too_much_for_one_frame() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        FrameWriter(KEY, FROM_CLIENT).frame(1, b"x" * (MAX_PAYLOAD + 1))


def test_the_known_answer() -> None:
    """Both sides may be of different versions: the format is fixed."""
    assert FrameWriter(KEY, FROM_CLIENT).frame(2, b"hello").hex() == (
        "000000063cfa1b8f9445bce8220d954f6eacc9b5e445a660fcf2"
    )
