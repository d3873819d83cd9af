"""Credentials files: both versions, round trips, what is not one; Writables as Java writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.errors import SettingsError
from ytf.hadoop.proto.messages import MalformedMessageError
from ytf.hadoop.security import credentials as files
from ytf.hadoop.security.credentials import (
    MASTER_TOKEN,
    Credentials,
    Token,
    WritableReader,
    writable_block,
    writable_vint,
)

TOKENS = st.builds(
    Token, st.binary(max_size=200), st.binary(max_size=40), st.text(), st.text(max_size=20)
)
CREDENTIALS = st.builds(
    Credentials,
    st.dictionaries(st.text(max_size=20), TOKENS, max_size=4),
    st.dictionaries(st.text(max_size=20), st.binary(max_size=200), max_size=4),
)
READS = (WritableReader.vint, WritableReader.count, WritableReader.block, WritableReader.text)


@given(CREDENTIALS, st.sampled_from([0, 1]))
def test_round_trip_in_both_versions(credentials: Credentials, version: int) -> None:
    data = files.encode(credentials, version=version)
    assert data[:5] == b"HDTS" + bytes([version])
    assert files.decode(data) == credentials


def test_the_bytes_of_version_0() -> None:
    credentials = Credentials({"": Token(b"\x01\x02", b"pw", "K", "s:1")}, {"job": b"\xff"})
    assert files.encode(credentials) == (
        b"HDTS\x00\x01\x00\x02\x01\x02\x02pw\x01K\x03s:1"
        b"\x01\x03job\x01\xff"
    )  # fmt: skip


@given(st.binary(max_size=100), st.sampled_from([b"", b"HDTS", b"HDTS\x00", b"HDTS\x01"]))
def test_any_bytes_are_read_or_refused(data: bytes, head: bytes) -> None:
    try:
        files.decode(head + data)
    except MalformedMessageError:
        return


def test_tokens_by_kind_and_what_is_handed_on() -> None:
    master, other = Token(b"m", b"p", MASTER_TOKEN), Token(b"o", b"p", "OTHER")
    credentials = Credentials({"": master, "o": other}, {"job": b"s"})
    assert credentials.of_kind(MASTER_TOKEN) == [master]
    assert credentials.without_kind(MASTER_TOKEN) == Credentials({"o": other}, {"job": b"s"})


def test_secrets_do_not_show() -> None:
    shown = repr(Credentials({"a": Token(b"id", b"hunter2", "K")}, {"job": b"hunter2"}))
    assert "hunter2" not in shown
    assert "hunter2" not in repr(Token(b"id", b"hunter2", "K"))


def test_the_file_of_a_container(tmp_path: Path) -> None:
    path = tmp_path / "container_tokens"
    credentials = Credentials({}, {"job": b"s"})
    path.write_bytes(files.encode(credentials))
    environ = {files.TOKEN_FILE_VARIABLE: str(path)}
    assert files.read_token_file(environ) == credentials
    assert files.read_token_file({}) == Credentials()
    path.write_bytes(b"HDTS\x07")
    with pytest.raises(SettingsError, match="contains no credentials: its version is 0x07"):
        files.read_token_file(environ)
    path.unlink()
    with pytest.raises(SettingsError, match="No such file"):
        files.read_token_file(environ)


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
def test_known_encodings_of_writable_numbers(value: int, encoded: str) -> None:
    assert writable_vint(value).hex() == encoded
    assert WritableReader(bytes.fromhex(encoded)).vint() == value


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=300))
def test_round_trip_of_writables(number: int, data: bytes) -> None:
    reader = WritableReader(writable_vint(number) + writable_block(data))
    assert (reader.vint(), reader.block(), reader.rest) == (number, data, 0)


@given(st.binary(max_size=40), st.sampled_from(READS))
def test_any_bytes_are_read_as_writables_or_refused(
    data: bytes, read: Callable[[WritableReader], object]
) -> None:
    try:
        read(WritableReader(data))
    except MalformedMessageError:
        return


def test_a_writable_count_cannot_exceed_what_is_there() -> None:
    with pytest.raises(MalformedMessageError, match="a count of 100"):
        WritableReader(writable_vint(100) + b"x").count()
    with pytest.raises(MalformedMessageError, match="a count of -5"):
        WritableReader(writable_vint(-5)).block()
    with pytest.raises(MalformedMessageError, match="ends 1 bytes early"):
        WritableReader(b"").vint()
