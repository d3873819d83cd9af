"""Just enough of ELF to know what a file of machine code needs of its node.

Read here and not by ``ldd``, which answers for this machine and runs what it
looks at. 64 bit, little endian: every machine that Hadoop and TensorFlow know.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

_MAGIC = b"\x7fELF\x02\x01"
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 1, 5, 15, 29
_DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF


class RunPath(msgspec.Struct, frozen=True):
    """Where the loader looks for libraries, and where in the file that is written."""

    text: str
    offset: int


class Elf(msgspec.Struct, frozen=True):
    """What one file needs: sonames, versions by soname, and its search path."""

    needed: tuple[str, ...]
    versions: dict[str, tuple[str, ...]]
    run_path: RunPath | None


def read(path: Path) -> Elf | None:
    """What a file needs; None if it is not ELF, or not of a kind we know, or damaged."""
    with open(path, "rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _parse(data)
            except (struct.error, IndexError, UnicodeDecodeError):
                return None


def glibc(elf: Elf) -> tuple[int, ...]:
    """The oldest glibc that has everything the file asks for; () if it asks for none."""
    names = [name for file in elf.versions.values() for name in file]
    found = [name[6:].split(".") for name in names if name.startswith("GLIBC_")]
    return max((tuple(map(int, v)) for v in found if all(x.isdigit() for x in v)), default=())


def _parse(data: mmap.mmap) -> Elf:
    (start,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    headers = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(count)]
    loads: list[tuple[int, int, int]] = [(h[3], h[2], h[5]) for h in headers if h[0] == _PT_LOAD]

    def in_file(address: int) -> int:
        for virtual, offset, length in loads:
            if virtual <= address < virtual + length:
                return address - virtual + offset
        raise IndexError(address)

    tags: list[tuple[int, int]] = []
    for header in headers:
        if header[0] == _PT_DYNAMIC:
            for at in range(header[2], header[2] + header[5], 16):
                tag, value = struct.unpack_from("<qQ", data, at)
                if tag == 0:
                    break
                tags.append((tag, value))
    last = dict(tags)
    if _DT_STRTAB not in last:
        return Elf((), {}, None)
    strings = in_file(last[_DT_STRTAB])

    def text(offset: int) -> str:
        begin = strings + offset
        return data[begin : data.find(b"\0", begin)].decode()

    path = last.get(_DT_RUNPATH, last.get(_DT_RPATH))
    versions: dict[str, tuple[str, ...]] = {}
    if _DT_VERNEED in last:
        at = in_file(last[_DT_VERNEED])
        for name, wanted in _versions(data, at, last.get(_DT_VERNEEDNUM, 0)):
            versions[text(name)] = tuple(text(offset) for offset in wanted)
    return Elf(
        needed=tuple(text(value) for tag, value in tags if tag == _DT_NEEDED),
        versions=versions,
        run_path=None if path is None else RunPath(text(path), strings + path),
    )


def _versions(data: mmap.mmap, at: int, count: int) -> Iterator[tuple[int, list[int]]]:
    """Of each library in the table: the offset of its name, and of the versions' names."""
    for _ in range(count):
        _, entries, file, aux, following = struct.unpack_from("<HHIII", data, at)
        wanted = []
        entry = at + aux
        for _ in range(entries):
            _, _, _, name, step = struct.unpack_from("<IHHII", data, entry)
            wanted.append(name)
            entry += step
        yield file, wanted
        at += following
