"""The interpreter as a layer: a CPython that starts wherever it is unpacked.

It finds its library by its own place. What it cannot bring along is the C
library and what else of the system its modules are linked with: that is read
from its files, so that a node that lacks it can say so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ytf.packaging import elf
from ytf.packaging.installation import Installation
from ytf.packaging.layers import Content, Entry, LayerKind, content
from ytf.packaging.walking import file_entry, walk

# Of the standard library: its tests, two toys, and what builds extensions or pip.
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo"}
_LEFT_OUT |= {"ensurepip", "lib2to3", "idle_test"}
# Conda's own bookkeeping; headers and manuals are for those who build.
_CONDA_LEFT_OUT = {"conda-meta", "pkgs", "envs", "include", "man", "doc", "cmake", "pkgconfig"}
_ORIGIN = b"$ORIGIN/../lib"

# What ytf's own processes import. Of other modules only their users need the libraries.
_STANDS_ON = ("_ctypes", "_socket", "_struct", "binascii", "math", "select", "zlib", "_json")


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What an interpreter wants to find on a node.

    ``libraries`` ytf cannot do without; ``optional`` names modules of the
    standard library that will not import without theirs.
    """

    glibc: tuple[int, ...]
    libraries: tuple[str, ...]
    optional: dict[str, tuple[str, ...]]


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """An interpreter, ready to be a layer."""

    content: Content
    version: str
    executable: str
    """Below the layer's root."""
    library_path: bool
    """Whether it starts only with ``LD_LIBRARY_PATH`` set to its ``lib``."""
    needs: Needs


def interpreter(found: Installation) -> Interpreter:
    """The interpreter behind an environment."""
    executable = f"bin/python{found.version}"
    program, library_path = _program(found, executable)
    entries = {program.path: program}
    for entry in _files(found):
        entries.setdefault(entry.path, entry)
    for name in ("python", "python3"):
        entries[f"bin/{name}"] = Entry(path=f"bin/{name}", target=f"python{found.version}")
    return Interpreter(
        content=content(
            LayerKind.INTERPRETER, f"python{found.version}", entries.values(), found.bytecode
        ),
        version=found.version,
        executable=executable,
        library_path=library_path,
        needs=_needs(found),
    )


def _files(found: Installation) -> Iterator[Entry]:
    if found.is_conda:
        yield from walk(found.base_prefix, "", _skip_conda)
        return
    stdlib = found.stdlib
    place = os.path.relpath(stdlib, found.base_prefix)
    yield from walk(stdlib, place, _skip)
    if found.library and os.path.exists(found.library):
        yield file_entry(f"lib/{os.path.basename(found.library)}", found.library)


def _skip(item: os.DirEntry[str]) -> bool:
    return item.name in _LEFT_OUT or item.name.startswith("config-")


def _skip_conda(item: os.DirEntry[str]) -> bool:
    return item.name in _CONDA_LEFT_OUT or item.name.endswith(".a") or _skip(item)


def _program(found: Installation, path: str) -> tuple[Entry, bool]:
    """The program itself; whether the loader must be told where libpython is.

    One that was installed with a fixed path to libpython gets a relative one,
    written over it: then nobody who starts a process need know of it.
    """
    as_it_is = file_entry(path, found.base_executable)
    known = elf.read(Path(found.base_executable))
    if known is None or not any(name.startswith("libpython") for name in known.needed):
        return as_it_is, False
    written = known.run_path
    if written is not None and written.text.startswith("$ORIGIN/../lib"):
        return as_it_is, False
    if written is None or len(written.text.encode()) < len(_ORIGIN):
        return as_it_is, True
    data = bytearray(Path(found.base_executable).read_bytes())
    length = len(written.text.encode())
    data[written.offset : written.offset + length] = _ORIGIN.ljust(length, b"\0")
    changed = bytes(data)
    return (
        Entry(path=path, data=changed, executable=True, size=len(changed), stamp=as_it_is.stamp),
        False,
    )


def _needs(found: Installation) -> Needs:
    own = [found.base_executable, *([found.library] if found.library else [])]
    modules = os.path.join(found.stdlib, "lib-dynload")
    libraries: set[str] = set()
    optional: dict[str, tuple[str, ...]] = {}
    glibc: tuple[int, ...] = ()
    extensions = sorted(os.listdir(modules)) if os.path.isdir(modules) else []
    for path in [*own, *(os.path.join(modules, name) for name in extensions)]:
        known = elf.read(Path(path))
        if known is None:
            continue
        module = os.path.basename(path).partition(".")[0]
        wanted = {name for name in known.needed if not name.startswith(("libpython", "ld-linux"))}
        if path in own or module in _STANDS_ON:
            libraries |= wanted
            glibc = max(glibc, elf.glibc(known))
        else:
            optional[module] = tuple(sorted(wanted))
    for module, wanted_by in list(optional.items()):
        beyond = tuple(name for name in wanted_by if name not in libraries)
        if beyond:
            optional[module] = beyond
        else:
            del optional[module]
    return Needs(glibc=glibc, libraries=tuple(sorted(libraries)), optional=optional)
