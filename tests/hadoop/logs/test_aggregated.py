"""Aggregated logs are read byte for byte, and malformed files do no harm."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hadoop.logs.made_tfiles import (
    BytesSource,
    Logs,
    aggregated,
    bcfile,
    container_value,
    java_text,
    number,
    record,
    text,
)
from ytf.hadoop.logs import ByteSource, LogDamagedError, LogFormatError, read_container_logs
from ytf.hadoop.logs.tfile import ByteStream

C1, C2 = "container_1700000000000_0001_01_000001", "container_e17_1700000000000_0001_02_000002"
LOGS: Logs = {
    C1: {"stdout": b"hello\n" * 1000, "empty": b"", "stderr": b"\0\xff"},
    C2: {"stdout": b"", "ünïcode 🎉 \0": b"x"},
    "container_without_logs": {},
}
SMALL = aggregated({C1: {"stdout": b"hello\n" * 20}}, "gz")

names = st.text(max_size=20)
contents = st.dictionaries(names, st.binary(max_size=3000), max_size=4)
some_logs = st.dictionaries(st.text("abc_0123", min_size=1, max_size=30), contents, max_size=4)


def read(data: bytes) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for log in read_container_logs(BytesSource(data)):
        whole = b"".join(log.pieces)
        assert len(whole) == log.size
        found.setdefault(log.container, {})[log.name] = whole
    return found


@pytest.mark.parametrize("codec", ["none", "gz"])
@pytest.mark.parametrize("per_block", [1, 3, 100])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 20])
def test_everything_is_read(codec: str, per_block: int, chunk: int) -> None:
    written = aggregated(LOGS, codec, per_block, chunk)
    assert read(written) == {name: files for name, files in LOGS.items() if files}


@given(some_logs, st.sampled_from(["none", "gz"]), st.integers(1, 4), st.integers(1, 5000))
@settings(max_examples=60)
def test_any_logs_are_read(logs: Logs, codec: str, per_block: int, chunk: int) -> None:
    written = aggregated(logs, codec, per_block, chunk)
    assert read(written) == {name: files for name, files in logs.items() if files}


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**32), 2**32))
def test_numbers(value: int) -> None:
    raw = number(value)
    stream = ByteStream("made", iter([raw]), len(raw))
    assert stream.number() == value
    assert stream.left == 0


def test_what_is_not_taken_is_passed_over() -> None:
    found = [
        (log.container, log.name) for log in read_container_logs(BytesSource(aggregated(LOGS)))
    ]
    assert found == [(name, file) for name, files in LOGS.items() for file in files]


def test_what_is_half_taken_is_passed_over() -> None:
    halves = [next(log.pieces, b"") for log in read_container_logs(BytesSource(aggregated(LOGS)))]
    assert len(halves) == 5


def test_only_what_is_wanted() -> None:
    logs = read_container_logs(BytesSource(aggregated(LOGS)), lambda container: container == C2)
    assert {log.container for log in logs} == {C2}


def test_a_truncated_file_is_told_wherever_it_ends() -> None:
    for end in range(len(SMALL)):
        with pytest.raises((LogDamagedError, LogFormatError)):
            read(SMALL[:end])


@given(st.data())
@settings(max_examples=300)
def test_no_change_of_a_file_does_harm(data: st.DataObject) -> None:
    changed = bytearray(aggregated(LOGS, data.draw(st.sampled_from(["none", "gz"]))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    with suppress(LogDamagedError, LogFormatError):
        read(bytes(changed))


@given(st.binary(max_size=400), st.binary(max_size=400))
@settings(max_examples=200)
def test_no_block_and_no_index_does_harm(block: bytes, index: bytes) -> None:
    for made in (bcfile([block]), bcfile([block], index=index)):
        with suppress(LogDamagedError, LogFormatError):
            read(made)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (b"", "no TFile"),
        (b"x" * 1000, "no TFile"),
        (bcfile([], index=text("lzo") + number(1) + number(16) + number(0) + number(0)), "'lzo'"),
    ],
)
def test_what_we_do_not_read_is_said(made: bytes, says: str) -> None:
    with pytest.raises(LogFormatError, match=says):
        read(made)


@pytest.mark.parametrize(
    "value",
    [
        java_text("stdout") + java_text("12"),
        java_text("stdout") + java_text("-1") + b"x",
        java_text("stdout") + java_text("Error aggregating log file.") + b"x",
        java_text("stdout") + java_text("٣") + b"xxx",
        java_text("stdout")[:-1],
        b"\x00\x01\xff" + java_text("0"),
    ],
)
def test_a_record_that_lies_is_told(value: bytes) -> None:
    with pytest.raises(LogDamagedError):
        read(bcfile([record(C1, value)]))


def peak_memory_of(source: ByteSource) -> int:
    tracemalloc.start()
    try:
        with suppress(LogDamagedError):
            for log in read_container_logs(source):
                for _ in log.pieces:
                    pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def deflated_zeros(count: int) -> bytes:
    squeeze = zlib.compressobj(9)
    out = bytearray()
    for _ in range(count >> 20):
        out += squeeze.compress(bytes(1 << 20))
    return bytes(out + squeeze.flush())


def test_a_bomb_is_unpacked_in_pieces() -> None:
    # A key of zeros, a value of zeros, and so on for 64 MB that fit into 64 KB.
    stored = deflated_zeros(64 << 20)
    index = text("gz") + number(1) + number(16) + number(len(stored)) + number(2**62)
    made = bcfile([stored], index=index)
    assert len(made) < 1 << 17
    assert peak_memory_of(BytesSource(made)) < 8 << 20


def test_an_index_that_unpacks_without_end_is_refused() -> None:
    index = text("none") + number(10_000_000) + bytes(24 << 20)
    made = bcfile([], index_codec="gz", index=index)
    assert peak_memory_of(BytesSource(made)) < 40 << 20
    with pytest.raises(LogDamagedError):
        read(made)


class HugeSource:
    """A log of 256 MB that is nowhere but in its index."""

    CHUNK = 1 << 20
    CHUNKS = 256

    def __init__(self) -> None:
        self.name = "huge"
        size = self.CHUNK * self.CHUNKS
        value = java_text("stdout") + java_text(str(size))
        raw = java_text(C1)
        self._head = number(len(raw)) + raw + number(-len(value)) + value
        self._chunk = number(-self.CHUNK) + b"x" * self.CHUNK
        block = len(self._head) + self.CHUNKS * len(self._chunk) + 1
        index = text("none") + number(1) + number(16) + number(block) + number(block)
        tail = bcfile([], index=index)
        self._block_end = 16 + block
        index_at = number(self._block_end)
        meta = number(1) + text("data:BCFile.index") + text("none")
        meta += index_at + number(len(index)) * 2
        meta_at = self._block_end + len(index)
        self._tail = index + meta + meta_at.to_bytes(8, "big") + tail[-20:]
        self.size = self._block_end + len(self._tail)

    def read(self, offset: int, length: int) -> Iterator[bytes]:
        if offset == 16:
            yield self._head
            for _ in range(self.CHUNKS):
                yield self._chunk
            yield number(0)
        elif offset == 0:
            yield bcfile([])[:length]
        else:
            yield self._tail[offset - self._block_end :][:length]


def test_a_large_log_is_never_whole_in_memory() -> None:
    source = HugeSource()
    logs = read_container_logs(source)
    assert [sum(map(len, log.pieces)) for log in logs] == [source.CHUNK * source.CHUNKS]
    assert peak_memory_of(HugeSource()) < 8 << 20


def test_the_value_of_a_container() -> None:
    assert read(bcfile([record(C1, container_value({"a": b"b"}))])) == {C1: {"a": b"b"}}
