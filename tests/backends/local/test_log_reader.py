"""Log lines: all there are, as they come, across rotations and attempts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ytf.backends.local.log_reader import read_logs
from ytf.specs.ids import TaskId
from ytf.starter.program_logs import ProgramLogs


def write(root: Path, where: str, text: bytes) -> Path:
    path = root / where
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        file.write(text)
    return path


def everything(root: Path, *tasks: str) -> list[tuple[str, int, str, str]]:
    lines = read_logs(root, [TaskId(task) for task in tasks], is_over=lambda: True)
    return [(line.task, line.attempt, line.stream, line.text) for line in lines]


class Follower:
    """Follows logs step by step: ``over`` ends it."""

    def __init__(self, root: Path) -> None:
        self.over = False
        self._lines = read_logs(root, [], is_over=lambda: self.over)

    def next(self, count: int) -> list[str]:
        return [next(self._lines).text for _ in range(count)]

    def rest(self) -> list[str]:
        self.over = True
        return [line.text for line in self._lines]


def test_all_tasks_attempts_and_streams(tmp_path: Path) -> None:
    write(tmp_path, "worker-10/1/stdout", b"ten\n")
    write(tmp_path, "worker-2/1/stdout", b"two\r\nlast")
    write(tmp_path, "worker-2/2/stderr", b"again \xff\n")
    write(tmp_path, "worker-2/starter.log", b"not the program's\n")
    write(tmp_path, "master.log", b"nor this\n")
    assert everything(tmp_path) == [
        ("worker:2", 1, "stdout", "two"),
        ("worker:2", 2, "stderr", "again \ufffd"),
        ("worker:10", 1, "stdout", "ten"),
        ("worker:2", 1, "stdout", "last"),
    ]


def test_just_the_wanted_tasks(tmp_path: Path) -> None:
    write(tmp_path, "worker-0/1/stdout", b"zero\n")
    write(tmp_path, "worker-1/1/stdout", b"one\n")
    assert everything(tmp_path, "worker:1") == [("worker:1", 1, "stdout", "one")]


def test_no_logs_yet(tmp_path: Path) -> None:
    assert everything(tmp_path / "missing") == []


def test_following_waits_for_whole_lines_and_finds_new_attempts(tmp_path: Path) -> None:
    write(tmp_path, "w-0/1/stdout", b"one\ntw")
    follower = Follower(tmp_path)
    assert follower.next(1) == ["one"]
    write(tmp_path, "w-0/1/stdout", b"o\n")
    assert follower.next(1) == ["two"]
    write(tmp_path, "w-0/2/stderr", b"three\n")
    assert follower.next(1) == ["three"]
    write(tmp_path, "w-0/1/stdout", b"partial")
    write(tmp_path, "w-0/2/stderr", b"four\n")
    assert follower.rest() == ["four", "partial"]


def test_who_follows_may_be_cancelled_while_nothing_is_written(tmp_path: Path) -> None:
    def check() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(read_logs(tmp_path, [], is_over=lambda: False, check=check))


def test_a_rotated_file_comes_first(tmp_path: Path) -> None:
    write(tmp_path, "w-0/1/stdout.1", b"old\ncut in ")
    write(tmp_path, "w-0/1/stdout", b"two\nnew\n")
    assert [text for *_, text in everything(tmp_path)] == ["old", "cut in two", "new"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[int]:
    """A log of a starter that keeps 1 KiB in each piece, and a program's descriptor for it."""
    fds = ProgramLogs(str(tmp_path / "w-0"), 1, 2 / 1024).open()
    yield fds[0]
    for fd in fds:
        os.close(fd)


def test_a_rotation_loses_no_line_that_the_starter_keeps(tmp_path: Path, log: int) -> None:
    starter = ProgramLogs(str(tmp_path / "w-0"), 1, 2 / 1024)
    written = [f"line {number:03d} {'x' * 20}" for number in range(60)]

    def write_lines(lines: list[str]) -> None:
        os.write(log, "".join(f"{line}\n" for line in lines).encode())

    write_lines(written[:20])
    follower = Follower(tmp_path)
    assert follower.next(20) == written[:20]
    # Unread when the file is rotated, and the piece is shorter than the file was.
    write_lines(written[20:45])
    starter.rotate_if_full()
    assert (tmp_path / "w-0/1/stdout").stat().st_size == 0
    assert (tmp_path / "w-0/1/stdout.1").stat().st_size == 1024
    write_lines(written[45:50])
    assert follower.next(30) == written[20:50]
    write_lines(written[50:])
    assert follower.rest() == written[50:]


@pytest.mark.parametrize("unread", [0, 5, 1000])
def test_a_follower_reads_every_line_once_through_many_rotations(
    tmp_path: Path, unread: int
) -> None:
    starter = ProgramLogs(str(tmp_path / "w-0"), 1, 0.25)
    out, err = starter.open()
    follower = Follower(tmp_path)
    number = 0

    def write_lines(count: int) -> list[str]:
        nonlocal number
        written = [f"line {i:05d} of a server that stays up" for i in range(number, number + count)]
        number += count
        os.write(out, "".join(f"{each}\n" for each in written).encode())
        return written

    for _ in range(6):
        many = write_lines(3700)
        assert follower.next(len(many)) == many
        late = write_lines(unread)
        starter.rotate_if_full()
        late += write_lines(11)
        assert follower.next(len(late)) == late
    assert (tmp_path / "w-0/1/stdout.1").stat().st_size <= 128 * 1024 + 4096
    assert follower.rest() == []
    os.close(out)
    os.close(err)


def test_a_rotation_that_was_outgrown_before_anybody_looked_is_seen(tmp_path: Path) -> None:
    starter = ProgramLogs(str(tmp_path / "w-0"), 1, 0.25)
    out, err = starter.open()
    follower = Follower(tmp_path)
    written = [f"line {number:05d}" for number in range(30_000)]

    def write_lines(begin: int, end: int) -> None:
        os.write(out, "".join(f"{line}\n" for line in written[begin:end]).encode())

    write_lines(0, 100)
    assert follower.next(100) == written[:100]
    write_lines(100, 11_500)
    starter.rotate_if_full()
    write_lines(11_500, 12_500)
    assert follower.next(12_400) == written[100:12_500]
    os.close(out)
    os.close(err)


def test_lines_that_a_rotation_lost_do_not_bring_earlier_ones_back(tmp_path: Path) -> None:
    lines = [f"line {number:05d}" for number in range(40)]
    kept = "".join(f"{line}\n" for line in lines).encode()
    path = write(tmp_path, "w-0/1/stdout", kept + b"lost in the rotation\n")
    follower = Follower(tmp_path)
    assert follower.next(41) == [*lines, "lost in the rotation"]
    write(tmp_path, "w-0/1/stdout.1", kept)
    path.write_bytes(b"next\n")
    assert follower.next(1) == ["next"]
    assert follower.rest() == []


def test_a_line_without_end_does_not_fill_memory(tmp_path: Path) -> None:
    write(tmp_path, "w-0/1/stdout", b"y" * (5 << 20))
    lines = everything(tmp_path)
    assert len(lines) > 1
    assert sum(len(text) for *_, text in lines) == 5 << 20
