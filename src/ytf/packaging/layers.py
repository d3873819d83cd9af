"""Defines a layer: a set of files, and the digest that names them.

The digest covers the *content*: each path, whether it is executable, and its
bytes. It does not depend on who packed the files, when, or in which format.
Layers with equal digests are interchangeable, so a layer that is in the store
is never uploaded again. Bytecode is derived from the content for one version
of Python. The digest covers that version but not the bytecode itself, which
may differ between two compilations.
"""

from __future__ import annotations

import enum
import hashlib
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator

import msgspec

from ytf.errors import InternalError

CheckCancelled = Callable[[], None]
"""Called repeatedly during long work, from any thread; raises to end the work early."""

Skip = Callable[[os.DirEntry[str]], bool]
"""Whether :func:`walk` leaves out a file or directory."""

UNKNOWN_STAMP = (0, 0, 0)
"""The stamp of a file that only ytf can change."""

COMPILED_FOLDER = "__pycache__"

_FORMAT = b"ytf layer 1\n"
_MODULES = ("lib/python", "lib64/python", "src/")
_PIECE = 1 << 20
_ELF = b"\x7fELF"


def never_cancelled() -> None:
    """Do nothing: the ``CheckCancelled`` of work that is never cancelled."""


class LayerKind(enum.Enum):
    """Which piece of a runtime or environment a layer is."""

    INTERPRETER = "interpreter"
    DISTRIBUTION = "distribution"
    BUNDLE = "bundle"
    CODE = "code"
    """The user's own sources, of editable installs: only their owner may read them."""
    MANIFEST = "manifest"
    SETTINGS = "settings"
    """Files that may hold passwords: only their owner may read them."""


class LayerEntry(msgspec.Struct, frozen=True, gc=False):
    """One file, symbolic link or empty directory of a layer, and where its bytes come from.

    ``path`` is relative to the root of the environment. A file has either a
    ``source`` to be read or its bytes in ``data``; a link has a ``target``.
    A directory that has files needs no entry.
    Of the permissions only the executable bit is kept, as in git: the umask of
    another submitter must not make another layer. ``stamp`` changes when the
    source does.
    """

    path: str
    source: str = ""
    data: bytes | None = None
    target: str = ""
    executable: bool = False
    size: int = 0
    stamp: tuple[int, int, int] = UNKNOWN_STAMP
    is_directory: bool = False


class Bytecode(msgspec.Struct, frozen=True):
    """The Python for which the modules of a layer are compiled."""

    python: str
    """An interpreter of that version, on this machine; it compiles."""
    tag: str
    """``cpython-311``: part of the names of compiled files."""
    magic: str
    """The version of the bytecode, in hex."""


class LayerContent(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a layer before they are read, sorted by path."""

    kind: LayerKind
    name: str
    entries: tuple[LayerEntry, ...]
    bytecode: Bytecode | None = None

    def __post_init__(self) -> None:
        before = ""
        for entry in self.entries:
            if entry.path <= before or not is_inside(entry.path):
                raise InternalError(f"{self.name}: not in order or not inside: {entry.path!r}")
            before = entry.path

    def fingerprint(self) -> str:
        """Return a hash that changes if the files may have changed, without reading them."""
        code = self.bytecode
        about = (self.kind.value, self.name, code and (code.tag, code.magic))
        return fingerprint_of((about, self.entries))


def fingerprint_of(described: object) -> str:
    """Return a hash of data about files: of structs, tuples and text."""
    known = hashlib.sha256(_FORMAT)
    try:
        known.update(msgspec.msgpack.encode(described))
    except UnicodeEncodeError:  # a file name that is not UTF-8
        known.update(repr(described).encode())
    return known.hexdigest()[:40]


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer by its digest, as the store and the nodes know it.

    ``native`` are the directories that directly hold ELF files: the loader may
    look for other libraries relative to them (``$ORIGIN``).
    """

    kind: LayerKind
    name: str
    digest: str
    size: int
    native: tuple[str, ...]


def layer_content(
    kind: LayerKind, name: str, entries: Iterable[LayerEntry], bytecode: Bytecode | None = None
) -> LayerContent:
    """Make a content of entries in any order."""
    ordered = tuple(sorted(entries, key=lambda entry: entry.path))
    return LayerContent(kind=kind, name=name, entries=ordered, bytecode=bytecode)


def describe_layer(
    content: LayerContent, check_cancelled: CheckCancelled = never_cancelled
) -> Layer:
    """Read every file of a content and compute the digest of the layer.

    Raises ``OSError`` if a file cannot be read.
    """
    code = content.bytecode
    digest = hashlib.sha256(_FORMAT)
    digest.update(f"{code.tag} {code.magic}\n".encode() if code else b"-\n")
    native = set()
    size = 0
    for entry in content.entries:
        if entry.target:
            digest.update(_digest_line("l", entry.target, entry.path))
            continue
        if entry.is_directory:
            digest.update(_digest_line("d", "", entry.path))
            continue
        known = hashlib.sha256()
        begins = b""
        for piece in _read(entry):
            check_cancelled()
            begins = begins or piece[:4]
            known.update(piece)
            size += len(piece)
        if begins == _ELF:
            native.add(posixpath.dirname(entry.path))
        digest.update(_digest_line("x" if entry.executable else "f", known.hexdigest(), entry.path))
    return Layer(
        kind=content.kind,
        name=content.name,
        digest=digest.hexdigest(),
        size=size,
        native=tuple(sorted(native)),
    )


def walk(
    root: str,
    into: str = "",
    skip: Skip | None = None,
    *,
    empty_directories: bool = False,
) -> list[LayerEntry]:
    """Return every file below a directory, with paths below ``into``, in no order.

    Compiled modules are left out: they are compiled again. A link to a target
    below ``root`` stays a link. A link that leaves ``root`` is followed, since
    its target does not exist on a node. A broken link is left out, and so are
    empty directories unless they are asked for.
    """
    walker = _Walker(skip, empty_directories)
    walker.walk(root, root, into, (os.path.realpath(root),))
    return walker.found


class _Walker:
    def __init__(self, skip: Skip | None, empty_directories: bool) -> None:
        self._skip = skip
        self._empty_directories = empty_directories
        self.found: list[LayerEntry] = []

    def walk(self, root: str, folder: str, into: str, above: tuple[str, ...]) -> None:
        """Add what is in a directory, which is ``into`` in the layer.

        An environment has tens of thousands of files, and is walked with each submission:
        of a regular file nothing but its status is asked.
        """
        is_empty = True
        skip = self._skip
        with os.scandir(folder) as items:
            for item in items:
                is_empty = False
                name = item.name
                if name == COMPILED_FOLDER or (skip is not None and skip(item)):
                    continue
                path = f"{into}/{name}" if into else name
                if item.is_file(follow_symlinks=False):
                    self.found.append(_file(path, item.path, item.stat()))
                elif item.is_symlink():
                    self._follow(root, item, path, above)
                elif item.is_dir():
                    self.walk(root, item.path, path, above)
        if is_empty and into and self._empty_directories:
            self.found.append(LayerEntry(path=into, is_directory=True))

    def _follow(self, root: str, item: os.DirEntry[str], path: str, above: tuple[str, ...]) -> None:
        try:
            status = item.stat()
        except OSError:
            return  # The link is broken or part of a loop.
        target = os.readlink(item.path)
        here = os.path.relpath(item.path, root)
        if target_inside(here, target) is not None:
            self.found.append(LayerEntry(path=path, source=item.path, target=target))
        elif stat.S_ISREG(status.st_mode):
            self.found.append(_file(path, item.path, status))
        elif stat.S_ISDIR(status.st_mode):
            real = os.path.realpath(item.path)
            # Not into a directory that contains the link: that would never end.
            if not any(f"{folder}/".startswith(f"{real}/") for folder in above):
                self.walk(item.path, item.path, path, (*above, real))


def file_entry(path: str, source: str) -> LayerEntry:
    """Make an entry of one file, with links to it resolved, at ``path``."""
    return _file(path, source, os.stat(source))


def _file(path: str, source: str, status: os.stat_result) -> LayerEntry:
    return LayerEntry(
        path,
        source,
        executable=status.st_mode & 0o111 != 0,
        size=status.st_size,
        stamp=file_stamp(status),
    )


def file_stamp(status: os.stat_result) -> tuple[int, int, int]:
    """Return a value that changes when a file is edited, replaced or truncated.

    It does not include the time of the last *status* change: installers link
    one file into many environments, and each link changes that time for all.
    """
    return status.st_size, status.st_mtime_ns, status.st_ino


def is_inside(path: str) -> bool:
    """Whether a relative path stays below the directory it starts from."""
    parts = path.split("/")
    return not ("" in parts or "." in parts or ".." in parts or "\0" in path)


def target_inside(path: str, target: str) -> str | None:
    """Return the path that a link at ``path`` leads to; None if it is not below the same root."""
    if target.startswith("/"):
        return None
    led_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return led_to if is_inside(led_to) else None


def compiled_name(folder: str, name: str, tag: str) -> str | None:
    """Return the name of a module's bytecode, which is in ``COMPILED_FOLDER`` in its folder.

    None for a file that is not to be compiled.
    """
    if not name.endswith(".py") or not folder.startswith(_MODULES):
        return None
    return f"{name[:-3]}.{tag}.pyc"


def _read(entry: LayerEntry) -> Iterator[bytes]:
    if entry.data is not None:
        yield entry.data
        return
    with open(entry.source, "rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            yield piece


def _digest_line(kind: str, about: str, path: str) -> bytes:
    # With the lengths first, two different lists of files never give the same bytes.
    encoded = path.encode("utf-8", "surrogateescape")
    shown = about.encode("utf-8", "surrogateescape")
    return b"%s %d %d %s %s\n" % (kind.encode(), len(shown), len(encoded), shown, encoded)
