"""The user of a connection."""

from __future__ import annotations

import os
import pwd

import pytest

from ytf.errors import SettingsError
from ytf.hadoop.security.credentials import Token
from ytf.hadoop.security.login import Login, current_user


def test_the_variable_counts_only_where_names_are_believed() -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert current_user({"HADOOP_USER_NAME": " alice "}) == "alice"
    assert current_user({"HADOOP_USER_NAME": "alice"}, secure=True) == me
    assert current_user({}) == me


def test_a_uid_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 7)
    with pytest.raises(SettingsError, match="no user name for uid") as caught:
        current_user({})
    assert "HADOOP_USER_NAME" in (caught.value.hint or "")


def test_only_a_bare_name_needs_no_negotiation() -> None:
    assert not Login(user="alice").negotiates
    assert Login(user="alice", secure=True).negotiates
    assert Login(user="alice", token=Token(b"", b"", "K")).negotiates
