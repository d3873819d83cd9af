"""Makes aggregated log files in every form that Hadoop may write."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

MAGIC = bytes.fromhex("d111d36891b5d7b639df414092bae150")
INDEX = "data:BCFile.index"
Logs = Mapping[str, Mapping[str, bytes]]


class BytesSource:
    """A file in memory, read in pieces of an odd size."""

    def __init__(self, data: bytes, piece: int = 7919) -> None:
        self.name = "made"
        self.size = len(data)
        self._data = data
        self._piece = piece

    def read(self, offset: int, length: int) -> Iterator[bytes]:
        end = min(self.size, offset + length)
        for at in range(offset, end, self._piece):
            yield self._data[at : min(end, at + self._piece)]


def number(value: int) -> bytes:
    """A TFile number in its shortest form."""
    if -32 <= value < 128:
        return value.to_bytes(1, "big", signed=True)
    for first, bits, span in ((-52, 8, 20), (-88, 16, 16), (-112, 24, 8)):
        high = value >> bits
        if -span <= high < span:
            low = (value & ((1 << bits) - 1)).to_bytes(bits // 8, "big")
            return (first + high).to_bytes(1, "big", signed=True) + low
    length = max(4, ((value if value >= 0 else ~value).bit_length() + 8) // 8)
    return (length - 129).to_bytes(1, "big", signed=True) + value.to_bytes(
        length, "big", signed=True
    )


def text(value: str) -> bytes:
    raw = value.encode()
    return number(len(raw)) + raw


def java_text(value: str) -> bytes:
    """As ``DataOutput.writeUTF``: a character beyond the first plane in two halves."""
    units = value.encode("utf-16-be", "surrogatepass")
    raw = b"".join(
        units[at : at + 2].decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
        for at in range(0, len(units), 2)
    ).replace(b"\0", b"\xc0\x80")
    return len(raw).to_bytes(2, "big") + raw


def record(key: str, value: bytes, chunk: int = 1000) -> bytes:
    """A record whose value comes in chunks."""
    raw = java_text(key)
    pieces = [value[at : at + chunk] for at in range(0, len(value), chunk)] or [b""]
    chunks = [number(-len(piece)) + piece for piece in pieces[:-1]]
    return number(len(raw)) + raw + b"".join(chunks) + number(len(pieces[-1])) + pieces[-1]


def container_value(files: Mapping[str, bytes]) -> bytes:
    return b"".join(
        java_text(name) + java_text(str(len(data))) + data for name, data in files.items()
    )


def bcfile(
    blocks: list[bytes], codec: str = "none", index_codec: str = "none", index: bytes | None = None
) -> bytes:
    """The file that holds the blocks; ``index`` in place of a true one."""
    out = bytearray(MAGIC)
    regions = [_append(out, block, codec) for block in blocks]
    if index is None:
        index = text(codec) + number(len(regions)) + b"".join(regions)
    where = _append(out, index, index_codec)
    other = _append(out, b"meta", "none")
    meta_at = len(out)
    out += number(2) + text("data:TFile.meta") + text("none") + other
    out += text(INDEX) + text(index_codec) + where
    out += meta_at.to_bytes(8, "big") + bytes.fromhex("00010000") + MAGIC
    return bytes(out)


def aggregated(logs: Logs, codec: str = "none", per_block: int = 2, chunk: int = 1000) -> bytes:
    """What a node would have written."""
    records = [
        record("VERSION", (1).to_bytes(4, "big")),
        record("APPLICATION_OWNER", java_text("alice")),
        record("APPLICATION_ACL", java_text("VIEW_APP") + java_text("*")),
        *(record(container, container_value(files), chunk) for container, files in logs.items()),
    ]
    blocks = [b"".join(records[at : at + per_block]) for at in range(0, len(records), per_block)]
    return bcfile(blocks, codec, codec)


def _append(out: bytearray, block: bytes, codec: str) -> bytes:
    stored = zlib.compress(block) if codec == "gz" else block
    region = number(len(out)) + number(len(stored)) + number(len(block))
    out += stored
    return region
