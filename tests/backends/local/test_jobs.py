from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from ytf.backends.local.home import Home
from ytf.backends.local.jobs import LocalJobs
from ytf.errors import SettingsError


def test_a_user_without_a_name_is_told_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    jobs = LocalJobs(Home(tmp_path))
    with pytest.raises(SettingsError, match=f"no user name for uid {os.getuid()}") as caught:
        jobs.user()
    assert "USER" in (caught.value.hint or "")
    monkeypatch.setenv("USER", "alice")
    assert jobs.user() == "alice"
