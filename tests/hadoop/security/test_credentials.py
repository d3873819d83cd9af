"""Credentials files: both versions, round trips, and what is not one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.errors import SettingsError
from ytf.hadoop.proto.wire import MalformedError
from ytf.hadoop.security import credentials as files
from ytf.hadoop.security.credentials import Credentials
from ytf.hadoop.security.tokens import MASTER_TOKEN, Token

TOKENS = st.builds(
    Token, st.binary(max_size=200), st.binary(max_size=40), st.text(), st.text(max_size=20)
)
CREDENTIALS = st.builds(
    Credentials,
    st.dictionaries(st.text(max_size=20), TOKENS, max_size=4),
    st.dictionaries(st.text(max_size=20), st.binary(max_size=200), max_size=4),
)


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
    except MalformedError:
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
    with pytest.raises(SettingsError, match="holds no credentials: its version is 0x07"):
        files.read_token_file(environ)
    path.unlink()
    with pytest.raises(SettingsError, match="No such file"):
        files.read_token_file(environ)
