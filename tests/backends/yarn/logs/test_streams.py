"""Each byte of a stream is told once and in its order, wherever it is read next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ytf.backends.yarn.logs.rejoining import REMEMBERED, find_again
from ytf.backends.yarn.logs.streams import Half, Reader, Readers, Sizes, Stream
from ytf.errors import NotFoundError, UnreachableError
from ytf.specs.names import TaskId

STREAM = Stream(TaskId("worker:0"), 1, "stdout")
NEWEST, OLDER = Half(STREAM), Half(STREAM, is_older=True)


class Place:
    """Halves in memory, read in pieces of an odd size."""

    def __init__(self, **given: bytes) -> None:
        self.halves: dict[Half, bytes] = {}
        self.read_in_all = 0
        self.piece = 97
        self.breaks_after: int | None = None
        for name, data in given.items():
            self.halves[{"newest": NEWEST, "older": OLDER}[name]] = data

    def write(self, data: bytes) -> None:
        self.halves[NEWEST] = self.halves.get(NEWEST, b"") + data

    def cut(self, piece: int) -> None:
        """As a starter does: the end becomes the older half."""
        self.halves[OLDER] = self.halves.get(NEWEST, b"")[-piece:]
        self.halves[NEWEST] = b""

    def sizes(self) -> Sizes:
        return {half: len(data) for half, data in self.halves.items()}

    def read(self, half: Half, offset: int) -> Iterator[bytes]:
        if half not in self.halves:
            raise NotFoundError("no such half")
        data = self.halves[half]
        for at in range(offset, len(data), self.piece):
            if self.breaks_after is not None:
                if self.breaks_after == 0:
                    raise UnreachableError("gone")
                self.breaks_after -= 1
            piece = data[at : at + self.piece]
            self.read_in_all += len(piece)
            yield piece


def told(reader: Reader, place: Place) -> list[str]:
    return [line.text for line in reader.news(place, place.sizes())]


def take(reader: Reader, place: Place, found: list[str]) -> bool:
    """What comes before the place breaks off; whether it did not."""
    try:
        found.extend(line.text for line in reader.news(place, place.sizes()))
    except UnreachableError:
        return False
    return True


def numbered(begin: int, end: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(begin, end))


def names(begin: int, end: int) -> list[str]:
    return numbered(begin, end).decode().splitlines()


def test_whose_log_a_file_is() -> None:
    task = TaskId("my_group:12")
    for name, half in [
        ("my_group-12.3.stderr", Half(Stream(task, 3, "stderr"))),
        ("my_group-12.1.stdout.1", Half(Stream(task, 1, "stdout"), is_older=True)),
    ]:
        assert Half.of_file(name) == half
        assert half.file == name
    for other in ("stdout", "starter.stderr", "ps-0.1.stdout.2", "ps.1.stdout", "prelaunch.err"):
        assert Half.of_file(other) is None


def test_lines_are_told_when_they_are_whole() -> None:
    reader, place = Reader(STREAM), Place(newest=b"one\ntw")
    assert told(reader, place) == ["one"]
    place.write(b"o\r\n\nth")
    assert told(reader, place) == ["two", ""]
    assert [line.text for line in reader.rest()] == ["th"]
    assert list(reader.rest()) == []


def test_only_what_is_new_is_read() -> None:
    reader, place = Reader(STREAM), Place(newest=numbered(0, 10_000))
    told(reader, place)
    place.read_in_all = 0
    assert told(reader, place) == []
    assert place.read_in_all == 0
    place.write(b"new\n")
    assert told(reader, place) == ["new"]
    assert place.read_in_all < 200


def test_another_place_goes_on_where_the_last_one_ended() -> None:
    reader = Reader(STREAM)
    assert told(reader, Place(newest=numbered(0, 50) + b"li")) == names(0, 50)
    # A place may be behind: a node lists a length, and the log grows.
    assert told(reader, Place(newest=numbered(0, 80))) == names(50, 80)


def test_a_place_that_breaks_off_is_gone_on_with_elsewhere() -> None:
    reader, place = Reader(STREAM), Place(newest=numbered(0, 100))
    place.breaks_after = 5
    found: list[str] = []
    assert not take(reader, place, found)
    place.breaks_after = None
    assert found
    assert found + told(reader, place) == names(0, 100)


def test_an_older_half_comes_first_and_once() -> None:
    reader, place = Reader(STREAM), Place(older=numbered(0, 30), newest=numbered(30, 60))
    assert told(reader, place) == names(0, 60)
    place.write(numbered(60, 70))
    assert told(reader, place) == names(60, 70)


@pytest.mark.parametrize("piece", [1_000_000, 2000, 500])
def test_what_was_not_told_when_it_was_cut_off_is_told_from_the_older_half(piece: int) -> None:
    reader, place = Reader(STREAM), Place(newest=numbered(0, 290))
    assert told(reader, place) == names(0, 290)
    place.write(numbered(290, 300))
    place.cut(piece)
    place.write(numbered(300, 310))
    assert told(reader, place) == names(290, 310)


def test_a_cut_that_was_outgrown_is_seen() -> None:
    reader, place = Reader(STREAM), Place(newest=numbered(0, 20))
    assert told(reader, place) == names(0, 20)
    place.write(numbered(20, 40))
    place.cut(1000)
    place.write(numbered(40, 90))
    assert told(reader, place) == names(20, 90)


def test_what_was_cut_just_after_the_end_was_told_is_not_told_again() -> None:
    reader, place = Reader(STREAM), Place(newest=numbered(0, 40))
    told(reader, place)
    place.cut(1000)
    assert told(reader, place) == []
    place.write(numbered(40, 42))
    assert told(reader, place) == names(40, 42)
    place.cut(1000)
    place.write(numbered(42, 43))
    assert told(reader, place) == names(42, 43)


def test_what_came_between_the_copy_and_the_cut_does_not_repeat_the_rest() -> None:
    reader, place = Reader(STREAM), Place(newest=numbered(0, 40) + b"doomed\n")
    assert told(reader, place) == [*names(0, 40), "doomed"]
    place.halves = {OLDER: numbered(0, 40), NEWEST: b"next\n"}
    assert told(reader, place) == ["next"]


def test_without_an_older_half_the_newest_is_begun_anew() -> None:
    reader = Reader(STREAM)
    told(reader, Place(newest=numbered(0, 40)))
    assert told(reader, Place(newest=b"next\n")) == ["next"]


def test_a_line_that_never_ends_is_told_in_parts() -> None:
    reader, place = Reader(STREAM), Place(newest=b"x" * 3_000_000)
    place.piece = 1 << 18
    lines = [*reader.news(place, place.sizes()), *reader.rest()]
    assert sum(len(line.text) for line in lines) == 3_000_000
    assert len(lines) >= 2


def test_readers_tell_the_wanted_tasks_alone() -> None:
    other = Half(Stream(TaskId("worker:1"), 1, "stdout"))
    place = Place(newest=b"mine\n")
    place.halves[other] = b"theirs\n"
    assert [line.text for line in Readers([STREAM.task]).news(place)] == ["mine"]
    assert [line.text for line in Readers([]).news(place)] == ["mine", "theirs"]


@given(
    steps=st.lists(
        st.one_of(st.integers(1, 60), st.sampled_from(["look", "cut", "break"])), max_size=40
    ),
    piece=st.integers(3000, 6000),
)
def test_whatever_happens_in_between(steps: list[int | str], piece: int) -> None:
    """Without a second cut before a look nothing is lost, and never is anything told twice."""
    reader, place = Reader(STREAM), Place(newest=b"")
    found: list[str] = []
    written = seen = 0
    may_cut = False
    for step in [*steps, "look"]:
        if isinstance(step, int):
            place.write(numbered(written, written + step))
            written += step
        elif step == "cut":
            # Of what lay unread there, a second cut would leave nothing; nor is a half missed of
            # which nothing was told.
            if may_cut and seen and len(place.halves[NEWEST]) <= piece:
                place.cut(piece)
                may_cut = False
        else:
            # A stream that was cut and has just its old length again looks the same.
            assume(may_cut or len(place.halves[NEWEST]) != seen)
            place.breaks_after = 3 if step == "break" else None
            is_whole = take(reader, place, found)
            may_cut = may_cut and is_whole if step == "break" else True
            seen = len(place.halves[NEWEST]) if is_whole else 0
    assert found == names(0, written)


def test_the_last_fitting_place_is_found_without_reading_everything() -> None:
    data = numbered(0, 300_000)
    place = Place(older=data)
    last = data[-REMEMBERED - 100 : -100]
    found = find_again(
        last, lambda offset: place.read(OLDER, offset), size=len(data), most=len(data) + 5
    )
    assert found == len(data) - 100
    assert place.read_in_all <= 1 << 20
    far = data[5000 : 5000 + REMEMBERED]
    found = find_again(far, lambda offset: place.read(OLDER, offset), size=len(data), most=10_000)
    assert found == 5000 + REMEMBERED
