"""Finding and listing jobs."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from tests.backends.local.harness import (
    OLD_JOB,
    master_program,
    stage_dead_job,
)
from ytf import processes
from ytf.backends.local.backend import LocalJobBackend
from ytf.backends.local.directories import JobDirectories
from ytf.backends.local.records import write_minimal_record
from ytf.errors import NotFoundError, SettingsError
from ytf.specs.ids import JobId
from ytf.specs.status import JobState


def test_no_such_job(home: JobDirectories) -> None:
    stage_dead_job(home)
    with pytest.raises(NotFoundError) as caught:
        LocalJobBackend(home).open(JobId(OLD_JOB[:-1] + "e"))
    assert caught.value.hint == f"did you mean '{OLD_JOB}'?"
    with pytest.raises(NotFoundError):
        LocalJobBackend(home).open(JobId("../../etc"))


def test_a_list_of_ended_and_dead_jobs(home: JobDirectories) -> None:
    write_minimal_record(str(stage_dead_job(home)), "gone")
    later = JobId("local_20200102000000_abcd")
    stage_dead_job(home, later)
    backend = LocalJobBackend(home, master=master_program("sys.exit(1)"))
    assert [(job.id, job.name, job.user, job.state) for job in backend.list()] == [
        (OLD_JOB, "näme", "ada", JobState.FAILED),
        (later, "näme", "ada", JobState.FAILED),
    ]
    # The list has finalized the dead one.
    assert not home.staging(later).exists()


def test_a_job_whose_master_is_away(home: JobDirectories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ytf.backends.local.backend._LIST_TIMEOUT_S", 0.1)
    me = {"pid": os.getpid(), "start_ticks": processes.start_ticks(os.getpid())}
    (stage_dead_job(home) / "node.json").write_text(json.dumps(me))
    found = LocalJobBackend(home).list()
    assert [(job.name, job.state, job.started) for job in found] == [
        ("näme", JobState.SUBMITTED, 1.5)
    ]


def test_nothing_there(home: JobDirectories) -> None:
    assert LocalJobBackend(home).list() == []
    assert LocalJobBackend(home).gc_dead_jobs() == []


def test_a_user_without_a_name_is_told_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    backend = LocalJobBackend(JobDirectories(tmp_path))
    with pytest.raises(SettingsError, match=f"no user name for uid {os.getuid()}") as caught:
        backend.user()
    assert "USER" in (caught.value.hint or "")
    monkeypatch.setenv("USER", "alice")
    assert backend.user() == "alice"
