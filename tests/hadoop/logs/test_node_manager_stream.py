"""Reading a log from an offset on while its container writes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hadoop.logs.fake_node_manager import C, LogNode, log_node
from ytf.hadoop.logs import NodeLog, list_node_logs, node_manager, stream_node_log

TEXT = b"".join(b"%07d\n" % number for number in range(50_000))


@pytest.fixture
def nm() -> Iterator[LogNode]:
    with log_node() as found:
        yield found


def beyond(nm: LogNode, place: int) -> bytes:
    [log] = list_node_logs(nm.address, C)
    return b"".join(stream_node_log(nm.address, C, log, beyond=place))


def test_only_what_is_beyond_is_sent(nm: LogNode) -> None:
    nm.files["out"] = TEXT
    assert beyond(nm, 0) == TEXT
    nm.sent = 0
    assert beyond(nm, len(TEXT) - 100) == TEXT[-100:]
    assert nm.sent < len(TEXT) / 2
    assert beyond(nm, 1) == TEXT[1:]


@pytest.mark.parametrize("more", [10, 300_000])
def test_what_is_written_meanwhile_comes_as_well(nm: LogNode, more: int) -> None:
    nm.files["out"] = TEXT[:-more]

    def write() -> None:
        nm.files["out"] = TEXT

    nm.before_reading = write
    place = len(TEXT) - more - 50
    assert beyond(nm, place) == TEXT[place:]
    assert len(nm.reads) == (1 if more < node_manager._SLACK_BYTES else 2)


@pytest.mark.parametrize("left", [b"", b"short"])
def test_a_log_that_was_cut_meanwhile_has_nothing(nm: LogNode, left: bytes) -> None:
    nm.files["out"] = left
    log = NodeLog("out", 1000)
    assert b"".join(stream_node_log(nm.address, C, log, beyond=900)) == b""


def test_a_log_may_look_like_a_banner(nm: LogNode) -> None:
    nm.files["out"] = b"LogLength:3\nLogContents:\nEnd of LogType:out\n"
    assert beyond(nm, 0) == nm.files["out"]
