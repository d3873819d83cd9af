"""Finds the sources of editable installs (``pip install -e``), which become layers of code.

An editable install only points to its sources, and these do not exist on a
node. Two forms are known: a ``.pth`` file that names a directory (setuptools'
old form, hatch, flit, poetry, pdm), and one that imports a hook (see
:mod:`ytf.packaging.editable_finders`). What points in another way is named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import msgspec

from ytf.decoding import decode_json
from ytf.packaging.editable_finders import MappedSource, mapped_sources
from ytf.packaging.installation import record_paths
from ytf.packaging.layers import LayerEntry, Skip, file_entry, walk

_HOOK = re.compile(r"import\s+(?P<name>\w*editable\w*)")
# What tools leave beside sources. Other hidden files of a package are a part of it.
_LEFT_OUT = {".git", ".hg", ".svn", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
_LEFT_OUT |= {".hypothesis", ".ipynb_checkpoints", ".idea", ".vscode", "node_modules"}


class EditableSource(msgspec.Struct, frozen=True):
    """The source files of one editable install, with their paths in the environment on a node."""

    name: str
    entries: tuple[LayerEntry, ...]


class EditableInstalls(msgspec.Struct, frozen=True):
    """The editable installs of one directory of packages.

    ``sources`` become layers of code. ``replaced`` has the files that replace
    pointers, by path; None where a file is left out.
    """

    sources: tuple[EditableSource, ...]
    replaced: dict[str, LayerEntry | None]


class _DirectoryInfo(msgspec.Struct, frozen=True):
    editable: bool = False


class _DirectUrl(msgspec.Struct, frozen=True):
    """Where a distribution was installed from, if not from an index (PEP 610)."""

    dir_info: _DirectoryInfo = _DirectoryInfo()


def find_editable_installs(folder: str, packages: str) -> EditableInstalls:
    """Find the editable installs in a directory, which is ``packages`` in the environment."""
    sources: list[EditableSource] = []
    replaced: dict[str, LayerEntry | None] = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".egg-link"):
            # Only installers read it, and easy-install.pth has the same path.
            replaced[f"{packages}/{name}"] = None
        elif name.endswith(".pth"):
            before = _lines(folder, name)
            after: list[str] = []
            mapped: list[MappedSource] = []
            for line in before:
                hook = _hook(folder, line)
                directory = _directory(folder, line)
                if hook is not None:
                    module, found = hook
                    mapped += found
                    entries = _mapped_files(found, packages)
                    sources.append(EditableSource(module.strip("_"), tuple(entries)))
                    replaced[f"{packages}/{module}.py"] = None
                elif directory is None:
                    after.append(line)
                elif not _is_mapped(directory, mapped):
                    code = f"{name[:-4]}-{len(sources)}"
                    into = f"src/{code}"
                    files = tuple(_source_files(directory, into, _skip_project(directory)))
                    sources.append(EditableSource(code, files))
                    # Python reads the path relative to the directory of the .pth file.
                    after.append(os.path.relpath(into, packages))
            if after != before:
                data = "".join(f"{line}\n" for line in after).encode()
                place = f"{packages}/{name}"
                replaced[place] = (
                    LayerEntry(path=place, data=data, size=len(data)) if after else None
                )
    return EditableInstalls(sources=tuple(sources), replaced=replaced)


def unshipped_editable_installs(folder: str) -> list[str]:
    """Return a note on each editable install in a directory whose sources are not found."""
    notes = []
    for info in sorted(os.listdir(folder)):
        if info.endswith(".dist-info") and _is_editable(os.path.join(folder, info)):
            pointers = [
                name
                for name in record_paths(folder, info)
                if name.endswith(".pth") and os.path.isfile(os.path.join(folder, name))
            ]
            lines = [line for name in pointers for line in _lines(folder, name)]
            is_found = any(_hook(folder, line) or _directory(folder, line) for line in lines)
            if pointers and not is_found:
                distribution = info.partition("-")[0]
                notes.append(
                    f"{distribution} is an editable install by {_generator(folder, info)}, and "
                    f"where its source is cannot be read from {os.path.join(folder, pointers[0])}: "
                    f"it is not shipped. Install {distribution} without -e, or give its source "
                    "with --files"
                )
    return notes


def _is_editable(info: str) -> bool:
    try:
        with open(os.path.join(info, "direct_url.json"), "rb") as file:
            return decode_json(file.read(), _DirectUrl).dir_info.editable
    except (OSError, msgspec.DecodeError):
        return False


def _generator(folder: str, info: str) -> str:
    """Return the program that made an install, as its metadata name it."""
    try:
        with open(os.path.join(folder, info, "WHEEL"), encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key == "Generator":
                    return value.strip()
    except OSError:
        pass
    return "an unknown tool"


def _lines(folder: str, name: str) -> list[str]:
    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def _hook(folder: str, line: str) -> tuple[str, list[MappedSource]] | None:
    """Return the name and the sources of the hook that a line of a ``.pth`` file imports."""
    hook = _HOOK.match(line)
    if hook is None:
        return None
    found = mapped_sources(os.path.join(folder, f"{hook['name']}.py"))
    return (hook["name"], found) if found else None


def _directory(folder: str, line: str) -> str | None:
    """Return the directory of sources that a line of a ``.pth`` file names."""
    text = line.strip()
    if not text or text.startswith(("#", "import ", "import\t")):
        return None
    place = os.path.normpath(os.path.join(folder, text))
    if not os.path.isdir(place) or place == folder or place.startswith(folder + os.sep):
        return None
    return place


def _is_mapped(directory: str, mapped: list[MappedSource]) -> bool:
    """Whether a hook before it in the file gives all that is in a directory."""
    sources = {each.source for each in mapped}
    names = [name for name in os.listdir(directory) if not name.startswith((".", "__pycache__"))]
    return bool(sources) and all(os.path.join(directory, name) in sources for name in names)


def _mapped_files(mapped: list[MappedSource], packages: str) -> list[LayerEntry]:
    """Return the files that a hook gives; a package within another one is in it only once."""
    files: dict[str, LayerEntry] = {}
    for each in mapped:
        into = f"{packages}/{each.path}"
        if os.path.isdir(each.source):
            left_out = each.left_out

            def skip(found: os.DirEntry[str], left_out: frozenset[str] = left_out) -> bool:
                return found.path in left_out or _skip(found)

            found: Iterator[LayerEntry] = iter(_source_files(each.source, into, skip))
        else:
            found = iter([file_entry(into, each.source)])
        for entry in found:
            files.setdefault(entry.path, entry)
    return list(files.values())


def _source_files(root: str, into: str, skip: Skip) -> list[LayerEntry]:
    return walk(root, into, skip, empty_directories=True)


def _skip(found: os.DirEntry[str]) -> bool:
    """Whether it is something beside the sources: of a tool, or another environment."""
    if found.name in _LEFT_OUT:
        return True
    return found.is_dir() and any(
        os.path.exists(os.path.join(found.path, name)) for name in ("pyvenv.cfg", "conda-meta")
    )


def _skip_project(root: str) -> Skip:
    """Also leave out hidden files beside the packages: settings of the project, or secrets."""

    def skip(found: os.DirEntry[str]) -> bool:
        is_beside = found.name.startswith(".") and os.path.dirname(found.path) == root
        return is_beside or _skip(found)

    return skip
