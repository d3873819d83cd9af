"""What gc finalizes and removes, and what it leaves alone."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from pathlib import Path

import pytest

from tests.backends.local.fake_master import DEADLINE_S, FakeMasters
from tests.backends.local.harness import (
    OLD_JOB,
    Submit,
    is_empty,
    master_program,
    stage_dead_job,
)
from ytf.backends.local.backend import LocalJobBackend
from ytf.backends.local.directories import JobDirectories
from ytf.backends.local.finalize import remove_leftovers
from ytf.backends.local.records import write_minimal_record
from ytf.errors import NotFoundError, RefusedError
from ytf.specs.ids import JobId
from ytf.specs.status import JobState
from ytf.testing.waiting import eventually


def test_a_dead_job_is_buried(home: JobDirectories, tmp_path: Path) -> None:
    directory = stage_dead_job(home)
    (directory / "journal" / "0003").mkdir(parents=True)
    seen = tmp_path / "seen"
    master = master_program(f"open({str(seen)!r}, 'w').write(' '.join(sys.argv[1:]))")
    assert LocalJobBackend(home, master=master).gc_dead_jobs() == [OLD_JOB]
    assert seen.read_text().startswith(
        f"--backend local --job-dir {directory} --attempt 4 --finalize the process"
    )
    assert not directory.exists()
    status = LocalJobBackend(home).open(OLD_JOB).status()
    assert (status.state, status.user) == (JobState.FAILED, "ada")
    assert LocalJobBackend(home).gc_dead_jobs() == []


def test_a_burial_that_fails_says_so_in_the_record(home: JobDirectories) -> None:
    stage_dead_job(home)
    LocalJobBackend(home, master=master_program("sys.exit(9)")).gc_dead_jobs()
    diagnostics = LocalJobBackend(home).open(OLD_JOB).status().diagnostics
    assert "and the job's master died" in diagnostics
    assert "exit status 9" in diagnostics


def test_processes_of_a_dead_job_are_ended(home: JobDirectories) -> None:
    stage_dead_job(home)
    pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], {"YTF_JOB_ID": OLD_JOB})
    # Its parent being this test, it stays a zombie until waited for.
    LocalJobBackend(home, master=master_program("")).gc_dead_jobs()
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def test_a_recorded_job_that_was_not_removed_is(home: JobDirectories) -> None:
    directory = stage_dead_job(home)
    write_minimal_record(str(directory), "known")
    assert LocalJobBackend(home, master=["/not/needed"]).gc_dead_jobs() == []
    assert not directory.exists()
    assert LocalJobBackend(home).open(OLD_JOB).status().diagnostics == "known"


def test_a_half_made_job_goes_after_a_minute_unless_it_is_being_made(home: JobDirectories) -> None:
    directory = stage_dead_job(home)
    (directory / "node.json").unlink()
    backend = LocalJobBackend(home)
    backend.gc_dead_jobs()
    assert directory.exists()
    minutes_ago = time.time() - 120
    os.utime(directory, (minutes_ago, minutes_ago))
    held = os.open(directory, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    backend.gc_dead_jobs()
    assert directory.exists()
    os.close(held)
    assert backend.gc_dead_jobs() == []
    assert is_empty(home)


def test_a_running_job_is_left_alone(
    submit: Submit, home: JobDirectories, fake_masters: FakeMasters
) -> None:
    job = submit().job
    master = fake_masters.next()
    assert LocalJobBackend(home).gc_dead_jobs() == []
    assert home.staging(job).exists()
    master.send(op="finished")
    master.end()
    eventually(lambda: not home.staging(job).exists(), DEADLINE_S, "the job's end")


def test_old_history_goes(home: JobDirectories) -> None:
    home.ensure()
    for job, days in ((OLD_JOB, 8), (JobId("local_20200102000000_abcd"), 6)):
        (home.logs(job) / "worker-0").mkdir(parents=True)
        then = time.time() - days * 86400
        os.utime(home.job_history(job), (then, then))
    LocalJobBackend(home).gc_dead_jobs()
    assert [path.name for path in home.history.iterdir()] == ["local_20200102000000_abcd"]


def test_an_environment_that_no_job_uses_goes(home: JobDirectories) -> None:
    home.ensure()
    for name, days in (("old", 31), ("new", 29)):
        (home.root / "environments" / name).mkdir(parents=True)
        state = home.root / "environments/.made" / name
        state.parent.mkdir(exist_ok=True, mode=0o700)
        state.write_text("complete ")
        then = time.time() - days * 86400
        os.utime(state, (then, then))
    [removed] = LocalJobBackend(home).gc(keep_s=0)
    assert removed.what == "environment that no job has used for 30 days"
    assert removed.where == str(home.root / "environments/old")
    assert not Path(removed.where).exists()


def test_a_download_of_which_no_environment_was_made_goes(home: JobDirectories) -> None:
    home.ensure()
    folder = home.root / "environments/.downloads/killed"
    folder.mkdir(parents=True)
    (folder / "incomplete").write_text("12345")
    [removed] = LocalJobBackend(home).gc(keep_s=0)
    assert removed.what == "downloaded file of which no environment was made"
    assert (removed.where, removed.size) == (str(folder), 5)
    assert not folder.exists()


def test_what_cannot_be_removed_is_said_and_hinders_nothing(
    home: JobDirectories,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    later = JobId("local_20200102000000_abcd")
    for job in (OLD_JOB, later):
        write_minimal_record(str(stage_dead_job(home, job)), "known")

    def refuse(path: Path) -> None:
        if path.name == OLD_JOB:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
        remove_leftovers(path)

    monkeypatch.setattr("ytf.backends.local.gc.remove_leftovers", refuse)
    LocalJobBackend(home).gc_dead_jobs()
    assert [path.name for path in home.jobs.iterdir()] == [OLD_JOB]
    assert f"what {OLD_JOB} left cannot be removed" in caplog.text


def test_it_reads_no_file_when_there_is_nothing_to_do(
    home: JobDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.ensure()
    for number in range(3):
        home.job_history(JobId(f"local_2020_{number}")).mkdir()
    backend = LocalJobBackend(home)
    backend.gc_dead_jobs()

    def forbidden(path: object, *_: object, **__: object) -> None:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr("builtins.open", forbidden)
    monkeypatch.setattr("io.open", forbidden)
    assert backend.gc_dead_jobs() == []


def test_old_history_is_removed_before_a_dead_job_is_recorded(
    home: JobDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the record has room only after that."""
    stage_dead_job(home)
    old = JobId("local_20200102000000_abcd")
    home.logs(old).mkdir(parents=True)

    def record(job_dir: Path, reason: str, **_: object) -> bool:
        assert not home.job_history(old).exists()
        remove_leftovers(job_dir)
        return True

    monkeypatch.setattr("ytf.backends.local.gc.finalize_dead_job", record)
    removed = LocalJobBackend(home).gc(keep_s=0.0)
    assert [item.where for item in removed] == [
        str(home.job_history(old)),
        str(home.staging(OLD_JOB)),
    ]


def test_an_ended_job_is_removed(home: JobDirectories) -> None:
    directory = stage_dead_job(home)
    write_minimal_record(str(directory), "known")
    (home.logs(OLD_JOB) / "master.log").write_text("x" * 1000)
    removed = LocalJobBackend(home).open(OLD_JOB).remove()
    assert removed.size > 1000
    assert is_empty(home)
    with pytest.raises(NotFoundError):
        LocalJobBackend(home).open(OLD_JOB)


def test_a_dead_job_is_removed_without_a_record(home: JobDirectories) -> None:
    stage_dead_job(home)
    LocalJobBackend(home, master=["/not/needed"]).open(OLD_JOB).remove()
    assert is_empty(home)


def test_a_running_job_is_not_removed(
    submit: Submit, home: JobDirectories, fake_masters: FakeMasters
) -> None:
    handle = submit()
    master = fake_masters.next()
    with pytest.raises(RefusedError, match="has not ended") as caught:
        handle.remove()
    assert f"ytf kill {handle.job}" in (caught.value.hint or "")
    assert home.staging(handle.job).exists()
    assert home.logs(handle.job).exists()
    master.send(op="finished")
    master.end()
    eventually(lambda: not home.staging(handle.job).exists(), DEADLINE_S, "the job's end")


def test_a_job_that_another_command_works_on_is_not_removed(home: JobDirectories) -> None:
    directory = stage_dead_job(home)
    held = os.open(directory, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(RefusedError, match="another command"):
        LocalJobBackend(home).open(OLD_JOB).remove()
    os.close(held)
    assert directory.exists()


def test_a_full_disk_is_the_reason_also_without_a_reserve(
    home: JobDirectories, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: str, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    stage_dead_job(home)
    monkeypatch.setattr("ytf.backends.local.records.write_atomically", full)
    assert LocalJobBackend(home, master=master_program("")).gc_dead_jobs() == []
    assert f"no space left for {home.record(OLD_JOB)}" in caplog.text
