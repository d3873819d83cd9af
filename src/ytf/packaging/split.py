"""An environment, cut into layers along the lines in which it changes.

A distribution that is big is a layer: it is uploaded once, for everybody who
has it. The small ones go into bundles, each into the one that its name falls
into: another version of one of them makes one bundle new, not all. Code that
is developed (editable installs) is a layer of its own.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from ytf.packaging.editable import follow
from ytf.packaging.installation import Installation
from ytf.packaging.layers import Bytecode, Content, Entry, LayerKind, content, target_inside
from ytf.packaging.scripts import relocated
from ytf.packaging.walking import file_entry, walk

BIG = 8 << 20
"""From this size on, in bytes, a distribution is a layer of its own."""

_BUNDLE = 8 << 20
_MOST_BUNDLES = 16
# At the top of a virtual environment: made by venv itself, meant for this place only.
_OWN = {"pyvenv.cfg", ".lock", ".gitignore", "CACHEDIR.TAG", "lib64", "conda-meta"}


class Part(msgspec.Struct, frozen=True):
    """What belongs together: a distribution, or files that no distribution owns."""

    name: str
    entries: tuple[Entry, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(entry.size for entry in self.entries)


def split(found: Installation) -> list[Content]:
    """The layers of an environment but its interpreter; every file in exactly one.

    Reads directories and RECORDs only, no files.
    """
    parts, code = parts_of(found)
    return [*grouped(parts, found.bytecode), *code]


def parts_of(found: Installation) -> tuple[list[Part], list[Content]]:
    """The distributions of an environment, and the code that it points to."""
    files: dict[str, Entry] = {}
    owners: dict[str, str] = {}
    code: list[Content] = []
    for entry in _outside(found):
        files.setdefault(entry.path, entry)
    for folder in found.site_folders:
        pointers = follow(folder, found.packages)
        for entry in walk(folder, found.packages):
            files.setdefault(entry.path, entry)
        for path, stand_in in pointers.replaced.items():
            files.pop(path, None)
            if stand_in is not None:
                files[path] = stand_in
        for source in pointers.sources:
            fresh = [entry for entry in source.entries if entry.path not in files]
            files.update((entry.path, entry) for entry in fresh)
            owners.update((entry.path, f"\0{source.name}") for entry in fresh)
        for path, owner, real in _records(found, folder):
            if path in files:
                owners.setdefault(path, owner)
            elif real is not None:
                files[path] = relocated(file_entry(path, real), found.scripts)
                owners.setdefault(path, owner)
    parts = []
    for name, entries in sorted(_assigned(found, files, owners).items()):
        whole = tuple(_closed(entries, files))
        if name.startswith("\0"):
            code.append(content(LayerKind.CODE, name[1:], whole, found.bytecode))
        else:
            parts.append(Part(name, whole))
    return parts, code


def grouped(parts: Iterable[Part], bytecode: Bytecode | None) -> list[Content]:
    """Parts as layers: the big ones alone, the others in bundles."""
    layers: list[Content] = []
    small: list[Part] = []
    for part in parts:
        if part.size >= BIG:
            layers.append(content(LayerKind.DISTRIBUTION, part.name, part.entries, bytecode))
        else:
            small.append(part)
    buckets: dict[int, list[Entry]] = defaultdict(list)
    count = _bundles(sum(part.size for part in small))
    for part in small:
        buckets[_bucket(part.name) % count].extend(part.entries)
    for number, entries in sorted(buckets.items()):
        layers.append(content(LayerKind.BUNDLE, f"bundle-{number}-of-{count}", entries, bytecode))
    return layers


def _bundles(size: int) -> int:
    """How many bundles: a power of two, so that a bundle is halved and not shuffled."""
    count = 1
    while count < _MOST_BUNDLES and size > count * _BUNDLE:
        count *= 2
    return count


def _bucket(name: str) -> int:
    # Without the version: an upgrade must stay in its bundle.
    plain = name.partition("-")[0].lower()
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:4], "big")


def _assigned(
    found: Installation, files: dict[str, Entry], owners: dict[str, str]
) -> dict[str, list[Entry]]:
    """The files by owner; what nobody owns by the first name below the packages."""
    by_owner: dict[str, list[Entry]] = defaultdict(list)
    inside = found.packages + "/"
    for path, entry in files.items():
        owner = owners.get(path)
        if owner is None:
            owner = "loose." + path.removeprefix(inside).split("/", 1)[0]
        by_owner[owner].append(entry)
    return by_owner


def _closed(entries: list[Entry], files: dict[str, Entry]) -> Iterator[Entry]:
    """The same entries, with what lies in other layers in place of links to it."""
    mine = {entry.path for entry in entries}
    for entry in entries:
        if not entry.target:
            yield entry
            continue
        led_to = target_inside(entry.path, entry.target)
        if led_to in mine or any(path.startswith(f"{led_to}/") for path in mine):
            yield entry
        elif os.path.isdir(entry.source):
            yield from walk(entry.source, entry.path)
        else:
            yield file_entry(entry.path, entry.source)


def _outside(found: Installation) -> Iterator[Entry]:
    """What a virtual environment has beside its packages: programs, data.

    Of any other Python that would be the whole machine; there only what
    RECORDs name is taken.
    """
    if not found.is_virtual:
        return
    folders = {os.path.realpath(folder) for folder in found.site_folders}

    def skip(item: os.DirEntry[str]) -> bool:
        folder = os.path.dirname(item.path)
        if folder == found.prefix:
            return item.name in _OWN
        if folder == found.scripts:
            return item.name.lower().startswith(("python", "activate", "deactivate"))
        return item.is_dir() and os.path.realpath(item.path) in folders

    for entry in walk(found.prefix, "", skip):
        yield relocated(entry, found.scripts) if entry.path.startswith("bin/") else entry


def recorded(found: Installation, folder: str, name: str) -> Iterator[Entry]:
    """The modules and data of one distribution, by its RECORD: not its programs."""
    for listed in _listed(folder, name):
        place = os.path.join(folder, listed)
        is_module = not listed.startswith(("..", "/")) and "__pycache__/" not in listed
        if is_module and os.path.isfile(place):
            yield file_entry(f"{found.packages}/{listed}", place)


def _records(found: Installation, folder: str) -> Iterator[tuple[str, str, str | None]]:
    """Of each file that a distribution owns: its path in the environment and the owner.

    Third, for a file outside of the packages of a Python that is no virtual
    environment: where it is. Two owners of one file: the first by name has it.
    """
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".dist-info"):
            continue
        owner = name.removesuffix(".dist-info")
        for listed in _listed(folder, name):
            if not listed.startswith(("..", "/")):
                yield f"{found.packages}/{listed}", owner, None
                continue
            place = os.path.normpath(os.path.join(folder, listed))
            if place.startswith(found.prefix + os.sep):
                path = os.path.relpath(place, found.prefix)
                is_ours = not found.is_virtual and "__pycache__" not in path
                yield path, owner, place if is_ours and os.path.isfile(place) else None


def _listed(folder: str, name: str) -> list[str]:
    """The paths in a RECORD. A system's own packages have none: nobody owns their files."""
    try:
        with open(os.path.join(folder, name, "RECORD"), newline="", encoding="utf-8") as file:
            return [row[0] for row in csv.reader(file) if row]
    except FileNotFoundError:
        return []
