"""Each byte of a stream is read once and in order, whichever source is read next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ytf.backends.stream_reader import (
    _REMEMBERED,
    FileSizes,
    StreamFile,
    StreamReader,
    StreamReaders,
    TaskStream,
    find_resume_offset,
)
from ytf.errors import NotFoundError, UnreachableError
from ytf.specs.ids import TaskId

STREAM = TaskStream(TaskId("worker:0"), 1, "stdout")
CURRENT, ROTATED = StreamFile(STREAM), StreamFile(STREAM, is_rotated=True)


class LogSource:
    """Halves in memory, read in pieces of an odd size."""

    def __init__(self, **given: bytes) -> None:
        self.files: dict[StreamFile, bytes] = {}
        self.read_in_all = 0
        self.piece = 97
        self.breaks_after: int | None = None
        for name, data in given.items():
            self.files[{"current": CURRENT, "rotated": ROTATED}[name]] = data

    def write(self, data: bytes) -> None:
        self.files[CURRENT] = self.files.get(CURRENT, b"") + data

    def rotate(self, piece: int, keep: int = 0) -> None:
        """As a starter does: what comes before the last ``keep`` bytes becomes the older file."""
        data = self.files.get(CURRENT, b"")
        end = max(len(data) - keep, 0)
        self.files[ROTATED] = data[:end][-piece:]
        self.files[CURRENT] = data[end:]

    def sizes(self) -> FileSizes:
        return {file: len(data) for file, data in self.files.items()}

    def read(self, file: StreamFile, offset: int) -> Iterator[bytes]:
        if file not in self.files:
            raise NotFoundError("no such file")
        data = self.files[file]
        for at in range(offset, len(data), self.piece):
            if self.breaks_after is not None:
                if self.breaks_after == 0:
                    raise UnreachableError("gone")
                self.breaks_after -= 1
            piece = data[at : at + self.piece]
            self.read_in_all += len(piece)
            yield piece


def told(reader: StreamReader, place: LogSource) -> list[str]:
    return [line.text for line in reader.read(place, place.sizes())]


def take(reader: StreamReader, place: LogSource, found: list[str]) -> bool:
    """What comes before the place breaks off; whether it did not."""
    try:
        found.extend(line.text for line in reader.read(place, place.sizes()))
    except UnreachableError:
        return False
    return True


def numbered(begin: int, end: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(begin, end))


def names(begin: int, end: int) -> list[str]:
    return numbered(begin, end).decode().splitlines()


def test_whose_log_a_file_is() -> None:
    task = TaskId("my_group:12")
    for name, file in [
        ("my_group-12.3.stderr", StreamFile(TaskStream(task, 3, "stderr"))),
        ("my_group-12.1.stdout.1", StreamFile(TaskStream(task, 1, "stdout"), is_rotated=True)),
    ]:
        assert StreamFile.parse(name) == file
        assert file.name == name
    for other in ("stdout", "starter.stderr", "ps-0.1.stdout.2", "ps.1.stdout", "prelaunch.err"):
        assert StreamFile.parse(other) is None


def test_lines_are_told_when_they_are_whole() -> None:
    reader, place = StreamReader(STREAM), LogSource(current=b"one\ntw")
    assert told(reader, place) == ["one"]
    place.write(b"o\r\n\nth")
    assert told(reader, place) == ["two", ""]
    assert [line.text for line in reader.last_line()] == ["th"]
    assert list(reader.last_line()) == []


def test_only_what_is_new_is_read() -> None:
    reader, place = StreamReader(STREAM), LogSource(current=numbered(0, 10_000))
    told(reader, place)
    place.read_in_all = 0
    assert told(reader, place) == []
    assert place.read_in_all == 0
    place.write(b"new\n")
    assert told(reader, place) == ["new"]
    assert place.read_in_all < 200


def test_another_place_goes_on_where_the_last_one_ended() -> None:
    reader = StreamReader(STREAM)
    assert told(reader, LogSource(current=numbered(0, 50) + b"li")) == names(0, 50)
    # A place may be behind: a node lists a length, and the log grows.
    assert told(reader, LogSource(current=numbered(0, 80))) == names(50, 80)


def test_a_place_that_breaks_off_is_gone_on_with_elsewhere() -> None:
    reader, place = StreamReader(STREAM), LogSource(current=numbered(0, 100))
    place.breaks_after = 5
    found: list[str] = []
    assert not take(reader, place, found)
    place.breaks_after = None
    assert found
    assert found + told(reader, place) == names(0, 100)


def test_a_rotated_file_comes_first_and_once() -> None:
    reader, place = (
        StreamReader(STREAM),
        LogSource(rotated=numbered(0, 30), current=numbered(30, 60)),
    )
    assert told(reader, place) == names(0, 60)
    place.write(numbered(60, 70))
    assert told(reader, place) == names(60, 70)


@pytest.mark.parametrize("piece", [1_000_000, 2000, 500])
def test_what_was_not_told_before_a_rotation_is_told_from_the_rotated_file(piece: int) -> None:
    reader, place = StreamReader(STREAM), LogSource(current=numbered(0, 290))
    assert told(reader, place) == names(0, 290)
    place.write(numbered(290, 300))
    place.rotate(piece)
    place.write(numbered(300, 310))
    assert told(reader, place) == names(290, 310)


def test_a_cut_that_was_outgrown_is_seen() -> None:
    reader, place = StreamReader(STREAM), LogSource(current=numbered(0, 20))
    assert told(reader, place) == names(0, 20)
    place.write(numbered(20, 40))
    place.rotate(1000)
    place.write(numbered(40, 90))
    assert told(reader, place) == names(20, 90)


def test_what_was_cut_just_after_the_end_was_told_is_not_told_again() -> None:
    reader, place = StreamReader(STREAM), LogSource(current=numbered(0, 40))
    told(reader, place)
    place.rotate(1000)
    assert told(reader, place) == []
    place.write(numbered(40, 42))
    assert told(reader, place) == names(40, 42)
    place.rotate(1000)
    place.write(numbered(42, 43))
    assert told(reader, place) == names(42, 43)


@pytest.mark.parametrize("piece", [1_000_000, 6000])
@pytest.mark.parametrize("keep", [1, 50, 299, 2000])
@pytest.mark.parametrize("unread", [0, 3, 100])
def test_what_a_cut_leaves_in_the_file_is_told_once(piece: int, keep: int, unread: int) -> None:
    reader, place = StreamReader(STREAM), LogSource(current=numbered(0, 4000))
    assert told(reader, place) == names(0, 4000)
    place.write(numbered(4000, 4000 + unread))
    place.rotate(piece, keep)
    place.write(numbered(4000 + unread, 4110))
    assert told(reader, place) == names(4000, 4110)
    place.write(numbered(4110, 4111))
    assert told(reader, place) == names(4110, 4111)


def test_the_same_line_again_and_again_is_told_as_often_as_it_was_written() -> None:
    reader, place = StreamReader(STREAM), LogSource(current=b"tick\n" * 1000)
    assert len(told(reader, place)) == 1000
    for _ in range(5):
        place.write(b"tick\n" * 7)
        place.rotate(1_000_000, keep=333)
        place.write(b"tick\n" * 3)
        assert len(told(reader, place)) == 10
        place.write(b"tick\n" * 900)
        assert len(told(reader, place)) == 900


def test_what_came_between_the_copy_and_the_cut_does_not_repeat_the_rest() -> None:
    reader, place = StreamReader(STREAM), LogSource(current=numbered(0, 40) + b"doomed\n")
    assert told(reader, place) == [*names(0, 40), "doomed"]
    place.files = {ROTATED: numbered(0, 40), CURRENT: b"next\n"}
    assert told(reader, place) == ["next"]


def test_without_a_rotated_file_the_current_one_is_begun_anew() -> None:
    reader = StreamReader(STREAM)
    told(reader, LogSource(current=numbered(0, 40)))
    assert told(reader, LogSource(current=b"next\n")) == ["next"]


def test_a_line_that_never_ends_is_told_in_parts() -> None:
    reader, place = StreamReader(STREAM), LogSource(current=b"x" * 3_000_000)
    place.piece = 1 << 18
    lines = [*reader.read(place, place.sizes()), *reader.last_line()]
    assert sum(len(line.text) for line in lines) == 3_000_000
    assert len(lines) >= 2


def test_readers_tell_the_wanted_tasks_alone() -> None:
    other = StreamFile(TaskStream(TaskId("worker:1"), 1, "stdout"))
    place = LogSource(current=b"mine\n")
    place.files[other] = b"theirs\n"
    assert [line.text for line in StreamReaders([STREAM.task]).read(place)] == ["mine"]
    assert [line.text for line in StreamReaders([]).read(place)] == ["mine", "theirs"]


@given(
    steps=st.lists(
        st.one_of(st.integers(1, 60), st.sampled_from(["look", "rotate", "break"])), max_size=40
    ),
    piece=st.integers(3000, 6000),
    keep=st.integers(0, 700),
)
def test_whatever_happens_in_between(steps: list[int | str], piece: int, keep: int) -> None:
    """Without a second rotation before a look nothing is lost, and never is anything told twice."""
    reader, place = StreamReader(STREAM), LogSource(current=b"")
    found: list[str] = []
    written = seen = 0
    may_rotate = False
    for step in [*steps, "look"]:
        if isinstance(step, int):
            place.write(numbered(written, written + step))
            written += step
        elif step == "rotate":
            # Of what lay unread there, a second rotation would leave nothing; nor is a file
            # missed of which nothing was told.
            if may_rotate and seen and len(place.files[CURRENT]) <= piece:
                place.rotate(piece, keep)
                may_rotate = False
        else:
            # A stream that was rotated and has just its old length again looks the same.
            assume(may_rotate or len(place.files[CURRENT]) != seen)
            place.breaks_after = 3 if step == "break" else None
            is_whole = take(reader, place, found)
            may_rotate = may_rotate and is_whole if step == "break" else True
            seen = len(place.files[CURRENT]) if is_whole else 0
    assert found == names(0, written)


def test_the_last_fitting_place_is_found_without_reading_everything() -> None:
    data = numbered(0, 300_000)
    place = LogSource(rotated=data)
    last = data[-_REMEMBERED - 100 : -100]
    found = find_resume_offset(
        last, lambda offset: place.read(ROTATED, offset), size=len(data), old_offset=len(data) + 5
    )
    assert found == len(data) - 100
    assert place.read_in_all <= 1 << 20
    far = data[5000 : 5000 + _REMEMBERED]
    found = find_resume_offset(
        far, lambda offset: place.read(ROTATED, offset), size=len(data), old_offset=10_000
    )
    assert found == 5000 + _REMEMBERED
