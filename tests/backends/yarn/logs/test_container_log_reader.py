"""Which source of a container's log is read, and the notices when none answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.backends.yarn.logs.fake_starter import SECRET, WORKER, FakeStarter, run_fake_starter
from tests.hadoop.logs.fake_node_manager import C, LogNode, log_node
from ytf.backends.api import LogLine
from ytf.backends.stream_reader import StreamReaders
from ytf.backends.yarn.logs import live_sources
from ytf.backends.yarn.logs.container_log_reader import ContainerLogReader, LogNotice
from ytf.backends.yarn.logs.live_sources import ContainerLocation, StarterLogSource
from ytf.errors import NotFoundError, UnreachableError
from ytf.hadoop.logs import NodeLog
from ytf.wire.signing import Signer

OUT = "worker-0.1.stdout"
DEAD = "127.0.0.1:9"


class World:
    """A container's files, seen by its starter and by its node, and a clock that a test sets."""

    def __init__(self, starter: FakeStarter, node: LogNode) -> None:
        self.starter = starter
        self.node = node
        self.now = 100.0

    @property
    def location(self) -> ContainerLocation:
        return ContainerLocation(
            task=WORKER,
            container=C,
            node="n:1",
            web=self.node.address,
            starter=self.starter.place,
        )

    def reader(
        self, location: ContainerLocation, *, notify_at_once: bool = False
    ) -> ContainerLogReader:
        return ContainerLogReader(
            location,
            StreamReaders([]),
            lambda place: StarterLogSource(place, Signer(SECRET)),
            notify_at_once=notify_at_once,
            clock=lambda: self.now,
        )

    def write(self, text: str) -> None:
        path = self.starter.folder / OUT
        with path.open("a") as file:
            file.write(text)
        self.node.files[OUT] = path.read_bytes()

    def end_starter(self, reader: ContainerLogReader) -> None:
        self.starter.end()
        reader.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with run_fake_starter(tmp_path) as starter, log_node() as node:
        yield World(starter, node)


def told(reader: ContainerLogReader) -> list[str]:
    return [each.text for each in reader.read() if isinstance(each, LogLine)]


def said(reader: ContainerLogReader) -> list[str]:
    return [each.text for each in reader.read() if isinstance(each, LogNotice)]


def test_the_starter_is_asked_and_nobody_else(world: World) -> None:
    reader = world.reader(replace(world.location, web=DEAD))
    world.write("one\n")
    assert told(reader) == ["one"]
    assert list(reader.read()) == []
    reader.close()


def test_the_node_goes_on_where_the_starter_ended(world: World) -> None:
    reader = world.reader(world.location)
    world.write("one\ntw")
    assert told(reader) == ["one"]
    world.end_starter(reader)
    world.write("o\nthree\n")
    assert list(reader.read()) == [
        LogLine(WORKER, 1, "stdout", "two"),
        LogLine(WORKER, 1, "stdout", "three"),
    ]
    assert not reader.is_done
    reader.location = replace(reader.location, starter=None, has_ended=True)
    world.write("four\n")
    assert told(reader) == ["four"]
    assert reader.is_done


def test_a_starter_that_stays_unreachable_is_told_and_tried_again(world: World) -> None:
    reader = world.reader(replace(world.location, starter=FakeStarter.place_at(DEAD)))
    assert said(reader) == []
    world.now += 2
    [text] = said(reader)
    assert DEAD in text
    assert "what worker:0 writes on n:1 is read from its NodeManager" in text
    # Reached again, as if a firewall were opened.
    reader.location = world.location
    world.node.files.clear()
    world.write("one\n")
    world.now += 60
    world.node.before_reading = lambda: pytest.fail("the starter can be asked")
    assert told(reader) == ["one"]
    reader.close()


def test_nothing_is_said_of_the_starter_of_a_task_that_is_over(world: World) -> None:
    reader = world.reader(world.location)
    world.write("one\n")
    assert told(reader) == ["one"]
    world.end_starter(reader)
    reader.location = replace(reader.location, is_over=True)
    for _ in range(3):
        world.now += 60
        assert said(reader) == []


def test_a_node_of_which_nobody_answers_is_told_once_until_it_does(world: World) -> None:
    dead = replace(world.location, starter=FakeStarter.place_at(DEAD), web="127.0.0.1:7")
    reader = world.reader(dead)
    assert said(reader) == []
    world.now += 2
    [text] = said(reader)
    assert text == (
        "the log of worker:0 on n:1 cannot be read: the starter at 127.0.0.1:9 does not answer:"
        " Connection refused, and the NodeManager at 127.0.0.1:7 does not answer: Connection"
        " refused; the other logs are read on, and this one is tried again"
    )
    world.now += 60
    assert said(reader) == []
    reader.location = world.location
    world.write("one\n")
    world.now += 60
    assert told(reader) == ["one"]
    reader.close()
    reader.location = dead
    said(reader)
    world.now += 60
    assert len(said(reader)) == 1


def test_a_node_that_hangs_is_told_as_soon_as_it_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: object) -> list[NodeLog]:
        world.now += 3
        raise UnreachableError("the NodeManager at n:1 does not answer: timed out")

    monkeypatch.setattr(live_sources, "list_node_logs", hang)
    reader = world.reader(replace(world.location, starter=None))
    assert len(said(reader)) == 1


def test_whoever_looks_once_hears_of_it_at_once(world: World) -> None:
    reader = world.reader(replace(world.location, starter=None, web=DEAD), notify_at_once=True)
    [text] = said(reader)
    assert text.startswith("the log of worker:0 on n:1 cannot be read: the NodeManager at")
    assert reader.is_node_silent
    assert not reader.has_read


def test_those_who_do_not_answer_are_left_alone_for_a_while(world: World) -> None:
    reader = world.reader(replace(world.location, starter=FakeStarter.place_at(DEAD)))
    asked = 0

    def count() -> None:
        nonlocal asked
        asked += 1

    world.write("one\n")
    world.node.before_reading = count
    assert told(reader) == ["one"]
    dead = replace(reader.location, web=DEAD)
    reader.location = dead
    list(reader.read())
    reader.location = replace(dead, web=world.node.address)
    world.write("two\n")
    assert told(reader) == []
    assert asked == 1
    world.now += 1
    assert told(reader) == ["two"]


def test_the_node_of_a_container_that_has_not_begun_is_asked_ever_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NodeManagers write a traceback to their log each time."""
    asked: list[float] = []

    def list_logs(*_: object) -> list[NodeLog]:
        asked.append(world.now)
        raise NotFoundError("Container is not yet running")

    monkeypatch.setattr(live_sources, "list_node_logs", list_logs)
    reader = world.reader(replace(world.location, starter=None))
    for _ in range(80):
        assert list(reader.read()) == []
        world.now += 0.25
    assert asked == [100.0, 101.0, 103.0, 107.0, 111.0, 115.0, 119.0]
    # Its end is noticed at once.
    reader.location = replace(reader.location, has_ended=True)
    list(reader.read())
    assert reader.is_done


def test_where_nobody_knows_where_it_is(world: World) -> None:
    reader = world.reader(replace(world.location, starter=None, web=None))
    [text] = said(reader)
    assert "only the master knows the address of its node, and it does not answer" in text
