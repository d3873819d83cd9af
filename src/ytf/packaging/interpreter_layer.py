"""Makes a layer of an interpreter: a CPython that starts wherever it is unpacked.

The interpreter finds its standard library relative to itself. The C library
and other system libraries are not in the layer. Their names are read from its
ELF files, so that a node without them can be reported. ``ldd`` is no alternative:
it answers for this machine, and may run the file. Only 64 bit, little endian files
are read: the machines of Hadoop and TensorFlow.
"""

from __future__ import annotations

import glob
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ytf.packaging.installation import Installation
from ytf.packaging.layers import (
    LayerContent,
    LayerEntry,
    LayerKind,
    file_entry,
    layer_content,
    walk,
)

# Parts of the standard library that no program imports: its tests, idlelib, turtledemo.
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "idle_test"}
_LEFT_OUT |= {"turtledemo"}
# Conda's own records and packages; manuals, and headers of other than Python itself.
_CONDA_LEFT_OUT = {"conda-meta", "pkgs", "envs", "include", "man", "doc", "cmake", "pkgconfig"}
_ORIGIN = b"$ORIGIN/../lib"

# Extension modules that ytf imports. Only programs that use others need their libraries.
_IMPORTED_BY_YTF = ("_ctypes", "_socket", "_struct", "binascii", "math", "select", "zlib", "_json")

_ELF_MAGIC = b"\x7fELF\x02\x01"
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 1, 5, 15, 29
_DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF


class NodeRequirements(msgspec.Struct, frozen=True, kw_only=True):
    """The version of glibc and the system libraries that ytf needs on a node."""

    glibc: tuple[int, ...]
    libraries: tuple[str, ...]


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """An interpreter as the content of a layer, and how to start it."""

    content: LayerContent
    version: str
    executable: str
    """The path below the root of the layer."""
    library_path: bool
    """Whether it starts only with ``LD_LIBRARY_PATH`` set to its ``lib``."""
    has_programs: bool
    """Whether the programs in its ``bin`` are part of the user's environment, as conda's are."""
    needs: NodeRequirements


def make_interpreter(found: Installation) -> Interpreter:
    """Make the content of a layer from the interpreter of an environment."""
    executable = f"bin/python{found.version}"
    program, library_path = _program(found, executable)
    entries = {program.path: program}
    for entry in _files(found):
        entries.setdefault(entry.path, entry)
    for name in ("python", "python3"):
        entries[f"bin/{name}"] = LayerEntry(path=f"bin/{name}", target=f"python{found.version}")
    return Interpreter(
        content=layer_content(
            LayerKind.INTERPRETER, f"python{found.version}", entries.values(), found.bytecode
        ),
        version=found.version,
        executable=executable,
        library_path=library_path,
        has_programs=found.is_conda,
        needs=_node_requirements(found),
    )


def _files(found: Installation) -> Iterator[LayerEntry]:
    yield from _headers(found)
    if found.is_conda:
        yield from walk(found.base_prefix, "", _skip_conda)
        return
    stdlib = found.stdlib
    place = os.path.relpath(stdlib, found.base_prefix)
    yield from walk(stdlib, place, _skip)
    if found.library and os.path.exists(found.library):
        yield file_entry(f"lib/{os.path.basename(found.library)}", found.library)


def _headers(found: Installation) -> Iterator[LayerEntry]:
    """Yield ``Python.h`` and those that it includes: some programs compile when they run."""
    into = f"include/python{found.version}"
    place = os.path.join(found.base_prefix, into)
    if os.path.isdir(place):
        # Debian has the one that depends on the machine elsewhere.
        for own in glob.glob(f"{glob.escape(found.base_prefix)}/include/*/{into[8:]}/pyconfig.h"):
            yield file_entry(f"{into}/pyconfig.h", own)
        yield from walk(place, into)


def _skip(item: os.DirEntry[str]) -> bool:
    return item.name in _LEFT_OUT or item.name.startswith("config-")


def _skip_conda(item: os.DirEntry[str]) -> bool:
    return item.name in _CONDA_LEFT_OUT or item.name.endswith(".a") or _skip(item)


def _program(found: Installation, path: str) -> tuple[LayerEntry, bool]:
    """Return the executable, and whether it needs ``LD_LIBRARY_PATH`` to find libpython.

    An absolute search path in the executable is overwritten with a relative
    one, so that processes can be started without that variable.
    """
    unchanged = file_entry(path, found.base_executable)
    known = read_elf(Path(found.base_executable))
    if known is None or not any(name.startswith("libpython") for name in known.needed):
        return unchanged, False
    written = known.run_path
    if written is not None and written.text.startswith("$ORIGIN/../lib"):
        return unchanged, False
    if written is None or len(written.text.encode()) < len(_ORIGIN):
        return unchanged, True
    data = bytearray(Path(found.base_executable).read_bytes())
    length = len(written.text.encode())
    data[written.offset : written.offset + length] = _ORIGIN.ljust(length, b"\0")
    changed = bytes(data)
    return (
        LayerEntry(
            path=path, data=changed, executable=True, size=len(changed), stamp=unchanged.stamp
        ),
        False,
    )


def _node_requirements(found: Installation) -> NodeRequirements:
    paths = [found.base_executable, *([found.library] if found.library else [])]
    modules = os.path.join(found.stdlib, "lib-dynload")
    extensions = sorted(os.listdir(modules)) if os.path.isdir(modules) else []
    paths += [
        os.path.join(modules, name)
        for name in extensions
        if name.partition(".")[0] in _IMPORTED_BY_YTF
    ]
    libraries: set[str] = set()
    glibc: tuple[int, ...] = ()
    for path in paths:
        known = read_elf(Path(path))
        if known is not None:
            libraries.update(
                name for name in known.needed if not name.startswith(("libpython", "ld-linux"))
            )
            glibc = max(glibc, glibc_version(known))
    return NodeRequirements(glibc=glibc, libraries=tuple(sorted(libraries)))


class RunPath(msgspec.Struct, frozen=True):
    """The library search path of an ELF file, and its offset in the file."""

    text: str
    offset: int


class Elf(msgspec.Struct, frozen=True):
    """What an ELF file needs: sonames, symbol versions by soname, and its search path."""

    needed: tuple[str, ...]
    versions: dict[str, tuple[str, ...]]
    run_path: RunPath | None


def read_elf(path: Path) -> Elf | None:
    """Return what a file needs; None if it is not ELF, not of a known kind, or damaged."""
    with open(path, "rb") as file:
        if file.read(len(_ELF_MAGIC)) != _ELF_MAGIC:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _parse_elf(data)
            except (struct.error, IndexError, UnicodeDecodeError):
                return None


def glibc_version(elf: Elf) -> tuple[int, ...]:
    """Return the oldest glibc version that satisfies the file; () if it needs no glibc."""
    names = [name for file in elf.versions.values() for name in file]
    found = [name[6:].split(".") for name in names if name.startswith("GLIBC_")]
    return max((tuple(map(int, v)) for v in found if all(x.isdigit() for x in v)), default=())


def _parse_elf(data: mmap.mmap) -> Elf:
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
        for name, wanted in _needed_versions(data, at, last.get(_DT_VERNEEDNUM, 0)):
            versions[text(name)] = tuple(text(offset) for offset in wanted)
    return Elf(
        needed=tuple(text(value) for tag, value in tags if tag == _DT_NEEDED),
        versions=versions,
        run_path=None if path is None else RunPath(text(path), strings + path),
    )


def _needed_versions(data: mmap.mmap, at: int, count: int) -> Iterator[tuple[int, list[int]]]:
    """Yield, for each library in the table, the offsets of its name and of its versions' names."""
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
