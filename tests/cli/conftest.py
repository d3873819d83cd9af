from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.fakes import FakeBackend, FakeHandle, status
from ytf.specs.status import JobState, JobStatus

Install = Callable[..., FakeBackend]


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings, no Hadoop and no jobs but the test's own."""
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME", "YTF_BACKEND"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a fake backend whose one job has the given statuses in place of all others."""

    def put(*statuses: JobStatus) -> FakeBackend:
        backend = FakeBackend(FakeHandle(*(statuses or (status(JobState.SUBMITTED),))))
        monkeypatch.setattr("ytf.backends.get_backend", lambda name: backend)
        monkeypatch.setattr("ytf.backends.local.backend.LocalJobBackend", lambda: backend)
        # Where there is no job there is nothing for gc.
        Path(os.environ["YTF_HOME"], "jobs", "local_1_a").mkdir(parents=True, exist_ok=True)
        return backend

    return put
