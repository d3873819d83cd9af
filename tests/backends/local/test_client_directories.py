"""Directories of client programs: private, and removed in the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ytf.backends.local.client_directories import client_directory
from ytf.backends.local.directories import JobDirectories
from ytf.backends.local.gc import gc_jobs
from ytf.errors import NotFoundError, SettingsError
from ytf.specs.ids import JobId

JOB = JobId("local_20260101000000_abcd")


@pytest.fixture(params=["home", "a höme with spaces"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[JobDirectories, Path]:
    """A home with a staged job, and where directories of its clients are to lie."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    home = JobDirectories(tmp_path / request.param)
    home.ensure()
    home.staging(JOB).mkdir()
    return home, home.staging(JOB) / "clients" if request.param == "home" else temporary


def test_it_is_private_and_goes_with_its_user(place: tuple[JobDirectories, Path]) -> None:
    home, parent = place
    with (
        client_directory(JOB, home.staging(JOB)) as one,
        client_directory(JOB, home.staging(JOB)) as two,
    ):
        assert one.parent == two.parent == parent
        assert one != two
        assert one.stat().st_mode & 0o777 == 0o700
        (one / "file").write_text("text")
    assert list(parent.iterdir()) == []


def test_gc_removes_what_the_killed_left_and_nothing_else(
    place: tuple[JobDirectories, Path],
) -> None:
    home, parent = place
    make = (
        "import pathlib, sys, time\n"
        "from ytf.backends.local.client_directories import client_directory\n"
        "with client_directory(sys.argv[2], pathlib.Path(sys.argv[1])) as made:\n"
        "    (made / 'file').write_text('text')\n"
        "    print(made, flush=True)\n"
        "    time.sleep(60)\n"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", make, str(home.staging(JOB)), JOB], stdout=subprocess.PIPE, text=True
    )
    with started, client_directory(JOB, home.staging(JOB)) as ours:
        assert started.stdout is not None
        left = Path(started.stdout.readline().strip())
        (parent / "ytf-client-file").write_text("of somebody else")
        (parent / "another").mkdir()
        gc_jobs(home)
        assert left.exists(), "it is in use"
        started.kill()
        started.wait()
        assert left.exists()
        gc_jobs(home)
        assert not left.exists()
        assert ours.exists()
        assert {each.name for each in parent.iterdir()} == {
            "ytf-client-file",
            "another",
            ours.name,
        }


def test_there_is_none_for_a_job_that_is_over(tmp_path: Path) -> None:
    with (
        pytest.raises(NotFoundError, match=f"{JOB} has ended"),
        client_directory(JOB, tmp_path / "jobs" / JOB),
    ):
        pass


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "clients").write_text("in the way")
    with pytest.raises(SettingsError, match="clients"), client_directory(JOB, tmp_path):
        pass
