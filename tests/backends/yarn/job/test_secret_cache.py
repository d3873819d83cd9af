"""Secrets are kept where only their owner can read them, and not for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ytf.backends.yarn.job.secret_cache import SecretCache
from ytf.specs.ids import JobId

JOB, OTHER = JobId("application_1_0001"), JobId("application_1_0002")


def test_a_secret_is_for_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YTF_HOME", str(tmp_path))
    secrets = SecretCache.of("../alice")
    assert secrets.root.parent == tmp_path / "secrets"
    secrets.keep(JOB, b"s")
    secrets.keep(JOB, b"secret")
    assert secrets.find(JOB) == b"secret"
    assert secrets.find(OTHER) is None
    [kept] = secrets.root.iterdir()
    assert (kept.stat().st_mode & 0o777, secrets.root.stat().st_mode & 0o777) == (0o600, 0o700)
    kept.chmod(0o640)
    assert secrets.find(JOB) is None
    kept.chmod(0o600)
    secrets.remove(JOB)
    secrets.remove(JOB)
    assert secrets.find(JOB) is None


def test_old_secrets_go(tmp_path: Path) -> None:
    secrets = SecretCache(tmp_path)
    secrets.keep(JOB, b"secret")
    os.utime(tmp_path / JOB, (1, 1))
    secrets.keep(OTHER, b"secret")
    assert [path.name for path in tmp_path.iterdir()] == [OTHER]


def test_a_disk_that_refuses_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    secrets = SecretCache(tmp_path / "file")
    secrets.keep(JOB, b"secret")
    assert secrets.find(JOB) is None
    secrets.remove(JOB)
