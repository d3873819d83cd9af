"""Finds the sources of editable installs (``pip install -e``), which become layers of code.

An editable install only points to its sources, and these do not exist on a
node. Two forms are known: a ``.pth`` file that names a directory (setuptools'
old form, hatch, flit, poetry, pdm), and setuptools' finder module with a
mapping of packages to directories.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator

import msgspec

from ytf.packaging.layers import LayerEntry, walk

_FINDER = re.compile(r"import (?P<name>__editable___\w+_finder)\b")
_SKIPPED = {"node_modules"}


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


def find_editable_installs(folder: str, packages: str) -> EditableInstalls:
    """Find the editable installs in a directory, which is ``packages`` in the environment."""
    sources: list[EditableSource] = []
    replaced: dict[str, LayerEntry | None] = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".egg-link"):
            # Only installers read it, and easy-install.pth has the same path.
            replaced[f"{packages}/{name}"] = None
        elif name.endswith(".pth"):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                before = file.read().splitlines()
            after = []
            for line in before:
                new, found = _resolve_line(folder, packages, line, f"{name[:-4]}-{len(sources)}")
                sources += found
                if found and line.startswith("import"):
                    finder = _FINDER.match(line)
                    if finder:
                        replaced[f"{packages}/{finder['name']}.py"] = None
                if new is not None:
                    after.append(new)
            if after != before:
                data = "".join(f"{line}\n" for line in after).encode()
                place = f"{packages}/{name}"
                replaced[place] = (
                    LayerEntry(path=place, data=data, size=len(data)) if after else None
                )
    return EditableInstalls(sources=tuple(sources), replaced=replaced)


def _source_files(root: str, into: str) -> list[LayerEntry]:
    """Return the files below a directory, without hidden ones and virtual environments."""
    return walk(root, into, _skip)


def _skip(found: os.DirEntry[str]) -> bool:
    if found.name.startswith(".") or found.name in _SKIPPED:
        return True
    return found.is_dir() and os.path.exists(os.path.join(found.path, "pyvenv.cfg"))


def _resolve_line(
    folder: str, packages: str, line: str, name: str
) -> tuple[str | None, list[EditableSource]]:
    """Return what replaces a line of a ``.pth`` file, and the sources it points to."""
    text = line.strip()
    if not text or text.startswith("#"):
        return line, []
    if text.startswith(("import ", "import\t")):
        finder = _FINDER.match(text)
        if finder is None:
            return line, []
        mapping = _finder_mapping(os.path.join(folder, f"{finder['name']}.py"))
        if mapping is None:
            return line, []
        entries = tuple(
            entry
            for module, place in sorted(mapping.items())
            for entry in _module_files(place, f"{packages}/{module.replace('.', '/')}")
        )
        return None, [EditableSource(finder["name"].strip("_"), entries)]
    place = os.path.normpath(os.path.join(folder, text))
    if not os.path.isdir(place) or place == folder or place.startswith(folder + os.sep):
        return line, []
    into = f"src/{name}"
    source = EditableSource(name, tuple(_source_files(place, into)))
    # Python reads the path relative to the directory of the .pth file.
    return os.path.relpath(into, packages), [source]


def _module_files(place: str, into: str) -> Iterator[LayerEntry]:
    if os.path.isdir(place):
        yield from _source_files(place, into)
    elif os.path.isfile(f"{place}.py"):
        folder, name = os.path.split(f"{place}.py")
        yield from walk(folder, os.path.dirname(into), lambda found: found.name != name)


def _finder_mapping(finder: str) -> dict[str, str] | None:
    """Return the ``MAPPING`` of a finder module, package to directory, without running it."""
    try:
        with open(finder, encoding="utf-8") as file:
            module = ast.parse(file.read())
    except (OSError, SyntaxError):
        return None
    for statement in module.body:
        if isinstance(statement, ast.Assign):
            names, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            names, value = [statement.target], statement.value
        else:
            continue
        if any(isinstance(name, ast.Name) and name.id == "MAPPING" for name in names):
            try:
                return msgspec.convert(ast.literal_eval(value), dict[str, str])
            except (ValueError, msgspec.ValidationError):
                return None
    return None
