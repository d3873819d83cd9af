"""A disk that is full or read-only, and a secret that is not the job's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

import pytest

from tests.e2e.harness import HERE, HOLD, Ytf, kill, wait_dead
from ytf.testing.waiting import eventually


@pytest.fixture
def disk(home: Path) -> Iterator[Path]:
    """``YTF_HOME`` on a small disk of its own."""
    home.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "ytf-test", str(home)], check=True
    )
    yield home
    subprocess.run(["umount", str(home)], check=True)


def fill(disk: Path) -> Path:
    """Leave no byte free; the file that takes all the room."""
    ballast = disk / "ballast"
    with open(ballast, "ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with pytest.raises(OSError, match="No space left"):
                write_for_ever(file, b"x" * size)
    return ballast


def write_for_ever(file: RawIOBase, data: bytes) -> None:
    while True:
        file.write(data)


def test_a_disk_that_fills_up_during_the_run(disk: Path, ytf: Ytf) -> None:
    job = ytf.submit("ps:1,worker:2", HERE + HOLD)
    job.wait_running("ps:0", "worker:0", "worker:1")
    everyone = job.pids()
    fill(disk)
    ytf.open_gate()
    wait_dead(*everyone, timeout_s=40)
    status = job.status()
    assert status.state.value == "SUCCEEDED"
    assert not job.staging.exists()


def test_a_master_that_dies_on_a_full_disk(disk: Path, ytf: Ytf) -> None:
    job = ytf.submit_spec(
        groups={"worker": {"count": 1}}, command=HERE + HOLD, master={"max_attempts": 2}
    )
    job.wait_running("worker:0")
    everyone = job.pids()
    fill(disk)
    kill(job.master())
    status = job.end("FAILED")
    assert "the master died too often" in status.diagnostics
    assert "is full" in status.diagnostics
    wait_dead(*everyone)


def test_a_full_disk_is_told_at_submission(disk: Path, ytf: Ytf) -> None:
    ytf.submit("worker:1", "true").end("SUCCEEDED")
    ballast = fill(disk)
    for room_kib in (0, 80, 88, 100, 500):
        os.truncate(ballast, ballast.stat().st_size - room_kib * 1024)
        done = ytf.run("ytf-submit", "-r", "worker:1", "true", code=2)
        assert "no space left" in done.stderr
        assert "YTF_HOME" in done.stderr
        assert "ytf gc --older-than" in done.stderr
        assert "Traceback" not in done.stderr
        assert len(list(disk.glob("history/*"))) == 1
        fill(disk)
    ballast.unlink()
    ytf.submit("worker:1", "true").end("SUCCEEDED")


def test_a_disk_without_room_is_told_while_the_job_runs(disk: Path, ytf: Ytf) -> None:
    first = 'until [ -e "$GATE/first" ]; do sleep 0.02; done'
    job = ytf.submit_spec(
        groups={
            "worker": {"count": 1, "command": HERE + first},
            "other": {"count": 1, "command": HERE + HOLD},
        }
    )
    job.wait_running("worker:0", "other:0")
    ballast = fill(disk)
    ytf.tell("first")

    def told(*words: str) -> bool:
        notes = "\n".join(job.status().notes)
        return all(word in notes for word in words)

    journal = "cannot write its journal: No space left on device"
    eventually(lambda: told(journal, "missing from their logs", "other:0"), 60, "both notes")
    ballast.unlink()
    eventually(lambda: not told(journal), 60, "the journal is written again")
    ytf.open_gate()
    status = job.end("SUCCEEDED", timeout_s=60)
    assert "missing from their logs" in "\n".join(status.notes)
    assert "output-lost" in {event.event for event in job.events()}


def test_lost_lines_of_a_job_that_succeeded_are_told_under_wait(disk: Path, ytf: Ytf) -> None:
    command = HERE + "head -c 8000000 /dev/zero; " + HOLD
    waiting = ytf.start(
        *("ytf-submit", "--wait", "--framework", "none", "-r", "worker:1", command),
    )
    assert waiting.stderr is not None
    lost = "note: the disk of the logs was full"
    told = next(line for line in waiting.stderr if line.startswith(lost))
    assert "worker:0" in told
    ytf.open_gate()
    _, rest = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert "succeeded" in rest
    assert lost in rest


def test_ended_jobs_can_be_removed_from_a_full_disk(disk: Path, ytf: Ytf) -> None:
    jobs = [ytf.submit("worker:1", "echo something") for _ in range(2)]
    for job in jobs:
        job.end("SUCCEEDED")
    eventually(lambda: not any(job.staging.exists() for job in jobs))
    fill(disk)
    assert "--older-than" in ytf.run("ytf", "gc").stderr
    ytf.run("ytf", "rm", jobs[0].id)
    assert not jobs[0].history.exists()
    assert jobs[1].history.exists()
    assert jobs[1].id in ytf.run("ytf", "gc", "--older-than", "0").stdout
    assert not jobs[1].history.exists()


def test_a_dead_job_can_be_removed_from_a_full_disk(disk: Path, ytf: Ytf) -> None:
    job = ytf.submit("worker:1", HERE + HOLD)
    job.wait_running("worker:0")
    everyone, node = job.pids(), job.node()
    # A node that is stopped starts no other master.
    kill(node, signum=signal.SIGSTOP)
    kill(job.master())
    kill(node)
    wait_dead(*everyone, timeout_s=60)
    (job.staging / "reserve").unlink()
    fill(disk)
    ytf.run("ytf", "rm", job.id)
    assert not job.staging.exists()
    assert not job.history.exists()


def test_a_home_that_may_not_be_written(disk: Path, ytf: Ytf) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    done = ytf.run("ytf-submit", "-r", "worker:1", "true", code=2)
    assert str(disk) in done.stderr
    assert "Read-only file system" in done.stderr
    assert "YTF_HOME" in done.stderr


def test_who_has_not_the_jobs_secret_is_refused_and_the_job_goes_on(ytf: Ytf) -> None:
    job = ytf.submit("worker:1", HERE + HOLD)
    job.wait_running("worker:0")
    secret = job.staging / "secret"
    right = secret.read_text()
    secret.write_text("0" * len(right))
    refused = ytf.run("ytf", "kill", job.id, code=1)
    assert "secret" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert job.id in refused.stderr
    secret.write_text(right)
    assert job.status().state.value == "RUNNING"
    ytf.open_gate()
    job.end("SUCCEEDED")


def test_a_starter_without_the_jobs_secret_gives_up(ytf: Ytf) -> None:
    """A new master reads the wrong secret: no starter follows its orders, and the job says so."""
    job = ytf.submit_spec(
        groups={"worker": {"count": 1}},
        command=HERE + HOLD,
        timeouts={"heartbeat_timeout_s": 2},
    )
    job.wait_running("worker:0")
    master, program = job.master(), job.program("worker:0")
    secret = job.staging / "secret"
    secret.write_text("0" * len(secret.read_text()))
    kill(master)
    status = job.end("FAILED")
    assert status.diagnostics.startswith("worker:0 was lost")
    assert "its starter has sent no heartbeat" in status.diagnostics
    wait_dead(program)
    eventually(lambda: not job.staging.exists())
