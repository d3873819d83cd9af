from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ytf.starter import program_logs as module
from ytf.starter.program_logs import ProgramLogs, list_streams, read_range


def write(fd: int, data: bytes) -> None:
    assert os.write(fd, data) == len(data)


def test_files_are_appended_to(tmp_path: Path) -> None:
    logs = ProgramLogs(str(tmp_path), 3, 1)
    for _ in range(2):
        out, err = logs.open()
        write(out, b"o")
        write(err, b"e")
        os.close(out)
        os.close(err)
    assert (tmp_path / "3" / "stdout").read_bytes() == b"oo"
    assert (tmp_path / "3" / "stderr").read_bytes() == b"ee"


def test_the_newest_part_is_kept_within_the_limit(tmp_path: Path) -> None:
    logs = ProgramLogs(str(tmp_path), 0, 1)  # pieces of 512 KiB
    out, err = logs.open()
    block = 1000
    for i in range(3000):
        write(out, b"%06d" % i + b"x" * (block - 7) + b"\n")
        if i % 100 == 0:
            logs.rotate_if_full()
    os.close(out)
    os.close(err)
    folder = tmp_path / "0"
    older, newer = (folder / "stdout.1").read_bytes(), (folder / "stdout").read_bytes()
    assert len(older) <= 512 * 1024
    assert len(older) + len(newer) < 1.2 * 1024 * 1024
    numbers = [int(line[:6]) for line in (older + newer).splitlines()[1:]]
    assert numbers == list(range(numbers[0], 3000))
    assert sorted(os.listdir(folder)) == ["stderr", "stdout", "stdout.1"]


@pytest.mark.parametrize("removes", [True, False], ids=["in place", "begun anew"])
def test_both_parts_join_without_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removes: bool
) -> None:
    if not removes:
        monkeypatch.setattr(module, "_remove_beginning", lambda fd, length: False)
    logs = ProgramLogs(str(tmp_path), 0, 1)
    out, err = logs.open()
    data = b"".join(b"%07d\n" % i for i in range(70_000))
    write(out, data)
    logs.rotate_if_full()
    write(out, b"later")
    os.close(out)
    os.close(err)
    older, newer = (tmp_path / "0" / "stdout.1"), (tmp_path / "0" / "stdout")
    assert 510 * 1024 < older.stat().st_size <= 512 * 1024 + 4096
    assert newer.stat().st_size <= 4096 + 5
    assert (data + b"later").endswith(older.read_bytes() + newer.read_bytes())


def test_nothing_is_lost_while_others_write(tmp_path: Path) -> None:
    """On the file systems of nodes: a server that writes all the time is rotated all the time."""
    logs = ProgramLogs(str(tmp_path), 0, 1)
    out, err = logs.open()
    probe = tmp_path / "probe"
    probe.write_bytes(b"x" * 5000)
    with probe.open("r+b") as file:
        if not module._remove_beginning(file.fileno(), 4096):
            pytest.skip("this file system cannot remove the beginning of a file")
    writing = "import os\nfor i in range(400000): os.write(1, b'%07d\\n' % i)"
    writer = subprocess.Popen([sys.executable, "-c", writing], stdout=out)
    kept, cuts = b"", 0
    while writer.poll() is None:
        if (tmp_path / "0" / "stdout").stat().st_size > 150_000:
            # Of a length that one rotation is sure to keep.
            module._move_beginning(logs.path("stdout"), logs.path("stdout.1"), 1 << 30)
            kept += (tmp_path / "0" / "stdout.1").read_bytes()
            cuts += 1
    os.close(out)
    os.close(err)
    assert cuts > 2
    kept += (tmp_path / "0" / "stdout").read_bytes()
    assert kept == b"".join(b"%07d\n" % i for i in range(400_000))


def test_a_full_disk_costs_the_rotated_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    logs = ProgramLogs(str(tmp_path), 0, 1)
    out, err = logs.open()
    write(out, b"x" * 600_000)
    monkeypatch.setattr(module, "_move_beginning", full)
    logs.rotate_if_full()
    write(out, b"later")
    os.close(out)
    os.close(err)
    assert (tmp_path / "0" / "stdout").read_bytes() == b"later"
    assert "No space left" in capfd.readouterr().err


def test_a_log_that_cannot_be_cut_is_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logs = ProgramLogs(str(tmp_path), 0, 1)
    for fd in logs.open():
        os.close(fd)
    (tmp_path / "0" / "stdout").unlink()
    logs.rotate_if_full()
    logs.rotate_if_full()
    assert capfd.readouterr().err.count("stdout is not kept within its limit") == 1
    assert logs.tail() == ""
    (tmp_path / "0" / "stderr").unlink()
    assert logs.tail() == ""


def test_the_tail_is_the_last_lines(tmp_path: Path) -> None:
    logs = ProgramLogs(str(tmp_path), 0, 1)
    out, err = logs.open()
    assert logs.tail() == ""
    write(err, b"".join(b"line %d\n" % i for i in range(100)))
    assert logs.tail().splitlines() == [f"line {i}" for i in range(70, 100)]
    write(err, b"\xff broken utf-8")
    assert logs.tail().endswith("\n\N{REPLACEMENT CHARACTER} broken utf-8")
    os.close(out)
    os.close(err)


def test_a_failure_without_stderr_shows_stdout(tmp_path: Path) -> None:
    logs = ProgramLogs(str(tmp_path), 0, 1)
    out, err = logs.open()
    assert logs.failure_tail() == ("", "stderr")
    write(out, b"step 1\nno such file\n")
    write(err, b" \n\n")
    assert logs.failure_tail() == ("step 1\nno such file", "stdout")
    write(err, b"Traceback\n")
    assert logs.failure_tail() == (" \n\nTraceback", "stderr")
    os.close(out)
    os.close(err)


def test_the_tail_of_long_lines_is_bounded(tmp_path: Path) -> None:
    logs = ProgramLogs(str(tmp_path), 0, 1)
    out, err = logs.open()
    write(err, b"y" * 100_000)
    assert logs.tail() == "y" * 4096
    write(err, b"\n" + b"z" * 3000)
    assert logs.tail() == "z" * 3000
    os.close(out)
    os.close(err)


def test_the_tail_reaches_into_the_rotated_file(tmp_path: Path) -> None:
    logs = ProgramLogs(str(tmp_path), 0, 1)
    out, err = logs.open()
    write(err, b"x" * 600_000 + b"\nold\n")
    logs.rotate_if_full()
    write(err, b"new\n")
    assert logs.tail() == "old\nnew"
    os.close(out)
    os.close(err)


@pytest.mark.parametrize(
    ("offset", "limit", "data"),
    [(0, 3, b"012"), (8, 9, b"89"), (-3, 9, b"789"), (-99, 2, b"01"), (99, 5, b"")],
)
def test_reading_a_part(tmp_path: Path, offset: int, limit: int, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_range(str(path), offset, limit) == (data, 10)


@pytest.mark.parametrize("prefix", [None, "worker-1"])
def test_what_is_kept_of_all_attempts(tmp_path: Path, prefix: str | None) -> None:
    assert list_streams(str(tmp_path / "none"), prefix) == []
    (tmp_path / "prelaunch.out").touch()
    (tmp_path / "worker-10.1.stdout").touch()
    for attempt in (2, 10):
        for fd in ProgramLogs(str(tmp_path), attempt, 1, prefix).open():
            write(fd, b"x" * attempt)
            os.close(fd)
    Path(ProgramLogs(str(tmp_path), 2, 1, prefix).path("stderr.1")).write_bytes(b"older")
    assert list_streams(str(tmp_path), prefix) == [
        (2, "stdout", 2),
        (2, "stderr", 2),
        (2, "stderr.1", 5),
        (10, "stdout", 10),
        (10, "stderr", 10),
    ]


def test_a_full_disk_is_noticed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    logs = ProgramLogs(str(tmp_path), 0, 1)
    for fd in logs.open():
        os.close(fd)
    logs.rotate_if_full()
    assert logs.output_lost_at is None
    disk = os.statvfs(tmp_path)
    full = os.statvfs_result((*disk[:3], 0, 0, *disk[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    logs.rotate_if_full()
    found_at = logs.output_lost_at
    assert found_at is not None
    logs.rotate_if_full()
    assert logs.output_lost_at == found_at
    assert capfd.readouterr().err.count("is full") == 1


def test_a_program_that_removes_its_logs_loses_nothing_to_the_disk(tmp_path: Path) -> None:
    logs = ProgramLogs(str(tmp_path / "gone"), 0, 1)
    logs.rotate_if_full()
    assert logs.output_lost_at is None
