"""Packages that are installed as a pointer to their source: ``pip install -e``.

A pointer means nothing on a node, so the source itself travels. Two forms are
known: a ``.pth`` file with a directory in it (setuptools' old form, hatch,
flit, poetry, pdm), and setuptools' finder module with a mapping of packages.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator

import msgspec

from ytf.packaging.layers import Entry
from ytf.packaging.walking import walk

_FINDER = re.compile(r"import (?P<name>__editable___\w+_finder)\b")
_HEAVY = {"node_modules"}


class Source(msgspec.Struct, frozen=True):
    """Code that is not below the environment, and what stands for it there."""

    name: str
    entries: tuple[Entry, ...]


class Pointers(msgspec.Struct, frozen=True):
    """What the pointers of one directory of packages come to.

    ``sources`` travel as code; ``replaced`` are files to put in the place of
    pointers, by path, None where there is to be nothing.
    """

    sources: tuple[Source, ...]
    replaced: dict[str, Entry | None]


def follow(folder: str, packages: str) -> Pointers:
    """Find and read the pointers in a directory, which will be ``packages`` on a node."""
    sources: list[Source] = []
    replaced: dict[str, Entry | None] = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".egg-link"):
            # Says once more what easy-install.pth says, to the installer only.
            replaced[f"{packages}/{name}"] = None
        elif name.endswith(".pth"):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                before = file.read().splitlines()
            after = []
            for line in before:
                new, found = _line(folder, packages, line, f"{name[:-4]}-{len(sources)}")
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
                replaced[place] = Entry(path=place, data=data, size=len(data)) if after else None
    return Pointers(sources=tuple(sources), replaced=replaced)


def directory(root: str, into: str) -> list[Entry]:
    """The code below a directory: not what is hidden, nor environments and the like."""
    return walk(root, into, _skip)


def _skip(found: os.DirEntry[str]) -> bool:
    if found.name.startswith(".") or found.name in _HEAVY:
        return True
    return found.is_dir() and os.path.exists(os.path.join(found.path, "pyvenv.cfg"))


def _line(folder: str, packages: str, line: str, name: str) -> tuple[str | None, list[Source]]:
    """What a line of a ``.pth`` file becomes, and the code it points to."""
    text = line.strip()
    if not text or text.startswith("#"):
        return line, []
    if text.startswith(("import ", "import\t")):
        finder = _FINDER.match(text)
        if finder is None:
            return line, []
        mapping = _mapping(os.path.join(folder, f"{finder['name']}.py"))
        if mapping is None:
            return line, []
        entries = tuple(
            entry
            for module, place in sorted(mapping.items())
            for entry in _module(place, f"{packages}/{module.replace('.', '/')}")
        )
        return None, [Source(finder["name"].strip("_"), entries)]
    place = os.path.normpath(os.path.join(folder, text))
    if not os.path.isdir(place) or place == folder or place.startswith(folder + os.sep):
        return line, []
    into = f"src/{name}"
    # Relative to the directory of the .pth file, as Python reads it.
    return os.path.relpath(into, packages), [Source(name, tuple(directory(place, into)))]


def _module(place: str, into: str) -> Iterator[Entry]:
    if os.path.isdir(place):
        yield from directory(place, into)
    elif os.path.isfile(f"{place}.py"):
        folder, name = os.path.split(f"{place}.py")
        beside = walk(folder, os.path.dirname(into), lambda found: found.name != name)
        yield from beside


def _mapping(finder: str) -> dict[str, str] | None:
    """The ``MAPPING`` of a finder module: package → directory. Read, not run."""
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
