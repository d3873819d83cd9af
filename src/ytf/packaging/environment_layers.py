"""Splits a user's environment into layers, and makes the manifest that assembles it on a node.

**Layers** follow what changes together. A big distribution is a layer, which
is uploaded once for all environments that have it. Small distributions go into
bundles by the hash of their name, so that another version of one of them
changes only one bundle. The code of an editable install is a layer.

**The manifest** says what ``starter/environment_builder.py`` links. A directory of a
single layer without ELF files below it is one link. Directories with ELF files
are real, with a link for each file: the loader takes ``$ORIGIN`` from the path
by which a library was opened, and a ``..`` after it must lead through the
environment and not through the layer. A directory that several layers share is
real as well.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from ytf.packaging.editable_installs import (
    EditableInstalls,
    EditableSource,
    find_editable_installs,
)
from ytf.packaging.installation import Installation, record_paths
from ytf.packaging.interpreter_layer import Interpreter
from ytf.packaging.layers import (
    COMPILED_FOLDER,
    Bytecode,
    Layer,
    LayerContent,
    LayerEntry,
    LayerKind,
    compiled_name,
    file_entry,
    file_stamp,
    fingerprint_of,
    layer_content,
    target_inside,
    walk,
)

BIG = 8 << 20
"""A distribution of at least this size, in bytes, is a layer."""

_MANIFEST_VERSION = 2
_RULES_VERSION = 2
"""Of how files are split. Known environments of another version are split anew."""
_BUNDLE_SIZE = 2 << 20
_MOST_BUNDLES = 16
_LARGEST = 256 << 20
"""A file above this size, in bytes, is a layer by itself."""
# At the top of a virtual environment: made by venv, valid only in this directory.
_VENV_OWN = {"pyvenv.cfg", ".lock", ".gitignore", "CACHEDIR.TAG", "lib64", "conda-meta"}

_PYTHON_SCRIPT = re.compile(rb"#!\s*(?P<python>/[^\n]*?/python[0-9.]*)(?P<rest>[ \t][^\n]*)?\n")
# Installers write this if the path is too long for the kernel, or is to be relative.
_SHELL_SCRIPT = re.compile(rb"#!/bin/sh\n'''exec' [^\n]*python[^\n]*\n' '''\n")
_SCRIPT_HEAD = b"#!/bin/sh\n'''exec' \"$(dirname -- \"$0\")/python\"%s \"$0\" \"$@\"\n' '''\n"
_LARGEST_SCRIPT = 1 << 20

Tree: TypeAlias = "dict[str, int | Tree]"
"""By name: the number of the layer to link into, or the tree of a real directory."""


class FileGroup(msgspec.Struct, frozen=True):
    """Files that stay in one layer: a distribution, or files that no distribution owns."""

    name: str
    entries: tuple[LayerEntry, ...]

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(entry.size for entry in self.entries)


class SiteFolder(msgspec.Struct, frozen=True):
    """The files of one directory of packages, and what its editable installs point to."""

    path: str
    entries: tuple[LayerEntry, ...]
    editable: EditableInstalls

    @property
    def sources(self) -> tuple[EditableSource, ...]:
        """The sources of editable installs."""
        return self.editable.sources


class EnvironmentFiles(msgspec.Struct, frozen=True):
    """All files of an environment without its interpreter, as its directories list them.

    ``outside`` are those of a virtual environment that are in no directory of packages.
    """

    outside: tuple[LayerEntry, ...]
    folders: tuple[SiteFolder, ...]

    def fingerprint(self, found: Installation, interpreter: LayerContent) -> str | None:
        """Return a hash that changes if the layers or the manifest may change.

        What is in the sources of editable installs does not count: they change most often,
        and their layers are the only ones that change then.

        None if the layers also have files that are not listed here: programs of a Python
        that is no virtual environment, or of the base whose packages one shows.
        """
        if not found.is_virtual or not all(
            _is_below(folder.path, found.prefix) for folder in self.folders
        ):
            return None
        how = (_MANIFEST_VERSION, _RULES_VERSION, BIG, _BUNDLE_SIZE, _MOST_BUNDLES, _LARGEST)
        folders = [
            (
                folder.path,
                folder.entries,
                folder.editable.replaced,
                [(each.name, list(map(_without_content, each.entries))) for each in folder.sources],
            )
            for folder in self.folders
        ]
        return fingerprint_of((how, found, interpreter.fingerprint(), self.outside, folders))


def _without_content(entry: LayerEntry) -> tuple[str, str, bool]:
    return entry.path, entry.target, entry.is_directory


def list_environment(found: Installation) -> EnvironmentFiles:
    """List the files of an environment. Of their contents, only scripts and pointers are read."""
    return EnvironmentFiles(
        tuple(_outside_packages(found)),
        tuple(
            SiteFolder(
                folder,
                tuple(walk(folder, found.packages)),
                find_editable_installs(folder, found.packages),
            )
            for folder in found.site_folders
        ),
    )


def split_environment(found: Installation, listed: EnvironmentFiles) -> list[LayerContent]:
    """Split an environment without its interpreter into layers; each file is in exactly one.

    The layers of :func:`code_contents` come last. Only RECORD files are read.
    """
    packages = layers_of_groups(file_groups(found, listed), found.bytecode)
    cut = [piece for content in packages for piece in _cut(content)]
    return [*cut, *code_contents(found, listed)]


def code_contents(found: Installation, listed: EnvironmentFiles) -> list[LayerContent]:
    """Return the layers of an environment's editable installs."""
    files, sources = _files_and_sources(listed)
    by_name: dict[str, list[LayerEntry]] = defaultdict(list)
    for path, name in sources.items():
        by_name[name].append(files[path])
    return [
        layer_content(LayerKind.CODE, name, _without_foreign_links(entries), found.bytecode)
        for name, entries in sorted(by_name.items())
    ]


def file_groups(found: Installation, listed: EnvironmentFiles) -> list[FileGroup]:
    """Return the distributions of an environment without its editable installs."""
    files, sources = _files_and_sources(listed)
    owners: dict[str, str] = {}
    for folder in listed.folders:
        for path, owner, program in _owned_files(found, folder.path):
            if path in files:
                owners.setdefault(path, owner)
            elif program is not None:
                base = os.path.dirname(found.base_executable)
                files[path] = relocatable_script(file_entry(path, program), found.scripts, base)
                owners.setdefault(path, owner)
    by_owner: dict[str, list[LayerEntry]] = defaultdict(list)
    inside = found.packages + "/"
    for path, entry in files.items():
        if path not in sources:
            # Files without an owner are grouped by the first part of their path in the packages.
            owner = owners.get(path) or "loose." + path.removeprefix(inside).split("/", 1)[0]
            by_owner[owner].append(entry)
    return [
        FileGroup(name, tuple(_without_foreign_links(entries)))
        for name, entries in sorted(by_owner.items())
    ]


def _files_and_sources(
    listed: EnvironmentFiles,
) -> tuple[dict[str, LayerEntry], dict[str, str]]:
    """Return all files by path, and of those of editable installs the install's name."""
    files: dict[str, LayerEntry] = {}
    sources: dict[str, str] = {}
    for entry in listed.outside:
        files.setdefault(entry.path, entry)
    for folder in listed.folders:
        here = {entry.path: entry for entry in folder.entries}
        for path, replacement in folder.editable.replaced.items():
            here.pop(path, None)
            if replacement is not None:
                here[path] = replacement
        # Python looks into the folders in this order.
        files = here | files
        for source in folder.sources:
            fresh = {entry.path: entry for entry in source.entries if entry.path not in files}
            files.update(fresh)
            sources.update(dict.fromkeys(fresh, source.name))
    return files, sources


def layers_of_groups(groups: Iterable[FileGroup], bytecode: Bytecode | None) -> list[LayerContent]:
    """Make layers of groups: one of each big group, and bundles of the small ones."""
    layers: list[LayerContent] = []
    small: list[FileGroup] = []
    for group in groups:
        if group.size >= BIG:
            layers.append(
                layer_content(LayerKind.DISTRIBUTION, group.name, group.entries, bytecode)
            )
        else:
            small.append(group)
    buckets: dict[int, list[LayerEntry]] = defaultdict(list)
    count = _bundle_count(sum(group.size for group in small))
    for group in small:
        buckets[_bucket(group.name) % count].extend(group.entries)
    for number, entries in sorted(buckets.items()):
        layers.append(
            layer_content(LayerKind.BUNDLE, f"bundle-{number}-of-{count}", entries, bytecode)
        )
    return layers


def _cut(content: LayerContent) -> list[LayerContent]:
    """Take large files out of a layer, so that work on them is shared among processors (ADR 41).

    The other files stay together: a program may look for one beside the place of another.
    """
    large = [entry for entry in content.entries if entry.size > _LARGEST]
    others = [entry for entry in content.entries if entry.size <= _LARGEST]
    pieces = [[entry] for entry in large] + ([others] if others else [])
    if len(pieces) == 1:
        return [content]
    taken_out = {entry.path for entry in large}
    return [
        layer_content(
            content.kind,
            f"{content.name}-{number}-of-{len(pieces)}",
            _without_foreign_links(piece, taken_out),
            content.bytecode,
        )
        for number, piece in enumerate(pieces, 1)
    ]


def _bundle_count(size: int) -> int:
    """Return a power of two: with more files, each bundle is halved instead of all reshuffled."""
    count = 1
    while count < _MOST_BUNDLES and size > count * _BUNDLE_SIZE:
        count *= 2
    return count


def _bucket(name: str) -> int:
    # Without the version: a new version must stay in the same bundle.
    plain = name.partition("-")[0].lower()
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:4], "big")


def _without_foreign_links(
    entries: list[LayerEntry], elsewhere: Collection[str] = ()
) -> Iterator[LayerEntry]:
    """Yield the entries, with links into other layers replaced by the files they lead to.

    Of a directory that a link leads to, files may be in other layers: those in ``elsewhere``.
    """
    mine = {entry.path for entry in entries}
    for entry in entries:
        if not entry.target:
            yield entry
            continue
        led_to = target_inside(entry.path, entry.target)
        below = f"{led_to}/"
        is_whole = not any(path.startswith(below) for path in elsewhere)
        if led_to in mine or (is_whole and any(path.startswith(below) for path in mine)):
            yield entry
        elif os.path.isdir(entry.source):
            yield from walk(entry.source, entry.path)
        else:
            yield file_entry(entry.path, entry.source)


def _outside_packages(found: Installation) -> Iterator[LayerEntry]:
    """Yield what a virtual environment has outside its packages: programs and data.

    For any other Python that would be the whole machine. There only the files
    in RECORDs are taken.
    """
    if not found.is_virtual:
        return
    folders = {os.path.realpath(folder) for folder in found.site_folders}

    def skip(item: os.DirEntry[str]) -> bool:
        folder = os.path.dirname(item.path)
        if folder == found.prefix:
            return item.name in _VENV_OWN
        if folder == found.scripts:
            return item.name.lower().startswith(("python", "activate", "deactivate"))
        return item.is_dir() and os.path.realpath(item.path) in folders

    for entry in walk(found.prefix, "", skip):
        yield relocatable_script(entry, found.scripts) if entry.path.startswith("bin/") else entry


def distribution_files(found: Installation, folder: str, name: str) -> Iterator[LayerEntry]:
    """Yield the modules and data of one distribution from its RECORD, without its programs."""
    for listed in record_paths(folder, name):
        place = os.path.join(folder, listed)
        is_module = not listed.startswith(("..", "/")) and "__pycache__/" not in listed
        if is_module and os.path.isfile(place):
            yield file_entry(f"{found.packages}/{listed}", place)


def _owned_files(found: Installation, folder: str) -> Iterator[tuple[str, str, str | None]]:
    """Yield path in the environment, owner and source of each file that a distribution owns.

    The source is given only for what :func:`_outside_packages` does not yield: files of a
    Python that is no virtual environment, and programs of the base of one that shows the
    base's packages as well (``--system-site-packages``). A file with two owners belongs to
    the first.
    """
    is_base = found.is_virtual and not _is_below(folder, found.prefix)
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".dist-info"):
            continue
        owner = name.removesuffix(".dist-info")
        for listed in record_paths(folder, name):
            if not listed.startswith(("..", "/")):
                yield f"{found.packages}/{listed}", owner, None
                continue
            place = os.path.normpath(os.path.join(folder, listed))
            if is_base:
                parent, program = os.path.split(place)
                if os.path.basename(parent) == "bin" and os.path.isfile(place):
                    yield f"bin/{program}", owner, place
            elif place.startswith(found.prefix + os.sep):
                path = os.path.relpath(place, found.prefix)
                is_ours = not found.is_virtual and "__pycache__" not in path
                yield path, owner, place if is_ours and os.path.isfile(place) else None


def _is_below(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)


def relocatable_script(entry: LayerEntry, *folders: str) -> LayerEntry:
    """Return a script that starts the ``python`` beside it, not that in one of ``folders``.

    Its new first lines are a command for the shell and a string for Python.
    A link to such a script becomes a copy of it: what it leads to may be in another layer,
    or in a directory without a ``python``. Files that are not scripts for that Python are
    returned as they are.
    """
    status = os.stat(entry.source)
    if not status.st_mode & 0o111 or not 0 < status.st_size <= _LARGEST_SCRIPT:
        return entry
    if not stat.S_ISREG(status.st_mode):
        return entry
    with open(entry.source, "rb") as file:
        if file.read(2) != b"#!":
            return entry
        text = b"#!" + file.read()
    own = set(map(os.path.realpath, folders))
    changed = relocatable_text(text, lambda folder: os.path.realpath(folder) in own)
    if changed is None:
        return entry
    return LayerEntry(
        path=entry.path,
        data=changed,
        executable=True,
        size=len(changed),
        stamp=file_stamp(status),
    )


def relocatable_text(text: bytes, is_own: Callable[[str], bool]) -> bytes | None:
    """Return the text of a script that starts the ``python`` beside it.

    None if it is no script for a Python in a directory that is the environment's own.
    """
    found = _PYTHON_SCRIPT.match(text)
    if found is not None and is_own(os.path.dirname(os.fsdecode(found["python"]))):
        return _SCRIPT_HEAD % (found["rest"] or b"").rstrip() + text[found.end() :]
    shell = _SHELL_SCRIPT.match(text)
    return None if shell is None else _SCRIPT_HEAD % b"" + text[shell.end() :]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """How ``starter/environment_builder.py`` builds an environment. Layers are numbers.

    So a changed line, which gives a layer another digest, leaves the manifest as it is.
    """

    version: int = _MANIFEST_VERSION
    layers: int
    """How many layers there are; the last one is the interpreter's."""
    executable: str
    """The path of the interpreter in its layer."""
    library_path: bool
    base_programs: bool
    """Whether the programs beside the interpreter are on the PATH as well."""
    python: str
    tree: dict[str, object]

    def encode(self) -> bytes:
        """Return the manifest file; the same environment gives the same bytes."""
        return msgspec.json.encode(self, order="sorted")


def make_manifest(
    interpreter: Interpreter, contents: Sequence[LayerContent], layers: Sequence[Layer]
) -> Manifest:
    """Make the manifest for the layers of these contents, after which the interpreter's comes."""
    return Manifest(
        layers=len(layers) + 1,
        executable=interpreter.executable,
        library_path=interpreter.library_path,
        base_programs=interpreter.has_programs,
        python=interpreter.version,
        tree=dict(
            _linked_tree(_merged_tree(contents), _real_directories(layers, interpreter.version))
        ),
    )


def _merged_tree(contents: Sequence[LayerContent]) -> Tree:
    """Return the tree of all files of all layers; the first layer that has a path wins."""
    tree: Tree = {}
    folders: dict[str, Tree] = {"": tree}

    def folder(path: str) -> Tree:
        known = folders.get(path)
        if known is None:
            parent, _, name = path.rpartition("/")
            known = folders[path] = {}
            folder(parent)[name] = known
        return known

    for number, content in enumerate(contents):
        code = content.bytecode
        # In the order of paths, so those of a directory mostly follow each other.
        here, beside = "", tree
        for entry in content.entries:
            parent, _, name = entry.path.rpartition("/")
            if parent != here:
                here, beside = parent, folder(parent)
            beside.setdefault(name, number)
            compiled = compiled_name(parent, name, code.tag) if code and entry.source else None
            if compiled is not None:
                folder(f"{parent}/{COMPILED_FOLDER}").setdefault(compiled, number)
    return tree


def _real_directories(layers: Sequence[Layer], version: str) -> set[str]:
    """Return the directories that must not be links: those with ELF files, and all above them.

    The directories of programs and packages are real as well: files may be added there.
    """
    real = {""}
    for path in ("bin", f"lib/python{version}/site-packages", *_native_directories(layers)):
        while path not in real:
            real.add(path)
            path = path.rpartition("/")[0]
    return real


def _native_directories(layers: Sequence[Layer]) -> Iterator[str]:
    for layer in layers:
        yield from layer.native


def _linked_tree(tree: Tree, real: set[str], path: str = "") -> Tree:
    """Return the tree with one number for each directory that can be a single link."""
    linked: Tree = {}
    for name, below in tree.items():
        here = f"{path}/{name}" if path else name
        if isinstance(below, int):
            linked[name] = below
            continue
        inner = _linked_tree(below, real, here)
        numbers = set(map(_number, inner.values()))
        only = numbers.pop() if len(numbers) == 1 else None
        linked[name] = inner if only is None or here in real else only
    return linked


def _number(below: int | Tree) -> int | None:
    return below if isinstance(below, int) else None
