"""What a layer is: a set of files, and the name that follows from them.

The digest stands for the *content*: every path, whether it may be executed,
and its bytes, whoever packed it, when and in which format. Layers of equal
digest are interchangeable, so one that is on a cluster need never go there
again. Bytecode is made from the content, and for one Python: the digest
has the name of that Python in it but not the bytes, which no two compilations
need agree on.
"""

from __future__ import annotations

import enum
import hashlib
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator

import msgspec

from ytf.errors import InternalError

Going = Callable[[], None]
"""Called again and again by what takes long; raises to end it half-way. From any thread."""

UNKNOWN = (0, 0, 0)
"""The stamp of a file that only we can change."""

_FORMAT = b"ytf layer 1\n"
_MODULES = ("lib/python", "lib64/python", "src/")
_PIECE = 1 << 20
_ELF = b"\x7fELF"


def unstopped() -> None:
    """For work that nobody ends half-way."""


class LayerKind(enum.Enum):
    """Which piece of a runtime or environment a layer is."""

    INTERPRETER = "interpreter"
    DISTRIBUTION = "distribution"
    BUNDLE = "bundle"
    CODE = "code"
    MANIFEST = "manifest"
    SETTINGS = "settings"
    """Files that may hold passwords: they are their owner's alone to read."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One file or symbolic link of a layer, and where it comes from.

    ``path`` is relative to the root of the environment. A file has a
    ``source`` to be read, or its bytes in ``data``; a link has a ``target``.
    Permissions are reduced to what git keeps: another submitter's umask must
    not make another layer. ``stamp`` changes when the source does.
    """

    path: str
    source: str = ""
    data: bytes | None = None
    target: str = ""
    executable: bool = False
    size: int = 0
    stamp: tuple[int, int, int] = UNKNOWN


class Bytecode(msgspec.Struct, frozen=True):
    """For which Python modules are compiled, and who does it."""

    python: str
    """An interpreter of that kind, on this machine."""
    tag: str
    """``cpython-311``: part of the names of compiled files."""
    magic: str
    """The version of the bytecode, in hex."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a layer before anybody has read them, sorted by path."""

    kind: LayerKind
    name: str
    entries: tuple[Entry, ...]
    bytecode: Bytecode | None = None

    def __post_init__(self) -> None:
        before = ""
        for entry in self.entries:
            if entry.path <= before or not is_inside(entry.path):
                raise InternalError(f"{self.name}: not in order or not inside: {entry.path!r}")
            before = entry.path

    @property
    def size(self) -> int:
        """The bytes in it, as the file system counts them."""
        return sum(entry.size for entry in self.entries)

    def fingerprint(self) -> str:
        """Changes whenever the files may have changed; found without reading them."""
        code = self.bytecode
        known = hashlib.sha256(_FORMAT)
        known.update(repr((self.kind.value, self.name, code and (code.tag, code.magic))).encode())
        for entry in self.entries:
            about = (entry.path, entry.source, entry.target, entry.executable, entry.stamp)
            known.update(repr(about).encode())
            if entry.data is not None:
                known.update(entry.data)
        return known.hexdigest()[:40]


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer by name: what the store and the nodes know of it.

    ``native`` are the directories right in which a file of machine code lies:
    what loads it may look for others beside it (``$ORIGIN``).
    """

    kind: LayerKind
    name: str
    digest: str
    size: int
    files: int
    native: tuple[str, ...]


def content(
    kind: LayerKind, name: str, entries: Iterable[Entry], bytecode: Bytecode | None = None
) -> Content:
    """A content of these entries, in whatever order they come."""
    ordered = tuple(sorted(entries, key=lambda entry: entry.path))
    return Content(kind=kind, name=name, entries=ordered, bytecode=bytecode)


def describe(what: Content, going: Going = unstopped) -> Layer:
    """Read every file of a content, and name the layer.

    Raises ``OSError`` if a file cannot be read.
    """
    code = what.bytecode
    digest = hashlib.sha256(_FORMAT)
    digest.update(f"{code.tag} {code.magic}\n".encode() if code else b"-\n")
    native = set()
    size = 0
    for entry in what.entries:
        if entry.target:
            digest.update(_line("l", entry.target, entry.path))
            continue
        known = hashlib.sha256()
        begins = b""
        for piece in pieces(entry):
            going()
            begins = begins or piece[:4]
            known.update(piece)
            size += len(piece)
        if begins == _ELF:
            native.add(posixpath.dirname(entry.path))
        digest.update(_line("x" if entry.executable else "f", known.hexdigest(), entry.path))
    return Layer(
        kind=what.kind,
        name=what.name,
        digest=digest.hexdigest(),
        size=size,
        files=len(what.entries),
        native=tuple(sorted(native)),
    )


def stamp(found: os.stat_result) -> tuple[int, int, int]:
    """Changes when a file does: edited, replaced, or cut.

    Not the time of its last change of *status*: installers link one file into
    many environments, and each link would count as a change of all others.
    """
    return found.st_size, found.st_mtime_ns, found.st_ino


def pieces(entry: Entry) -> Iterator[bytes]:
    """The bytes of a file, a piece at a time."""
    if entry.data is not None:
        yield entry.data
        return
    with open(entry.source, "rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            yield piece


def is_inside(path: str) -> bool:
    """Whether a relative path stays below where it begins."""
    parts = path.split("/")
    return not ("" in parts or "." in parts or ".." in parts or "\0" in path)


def target_inside(path: str, target: str) -> str | None:
    """The path a link at ``path`` leads to, None if that is not below the same root."""
    if target.startswith("/"):
        return None
    led_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return led_to if is_inside(led_to) else None


def compiled_path(path: str, tag: str) -> str | None:
    """Where Python looks for the bytecode of a module; None if the file is none to compile."""
    folder, name = posixpath.split(path)
    if not name.endswith(".py") or not folder.startswith(_MODULES):
        return None
    return posixpath.join(folder, "__pycache__", f"{name[:-3]}.{tag}.pyc")


def _line(kind: str, about: str, path: str) -> bytes:
    # The path last and its length first: no two lists of files read the same.
    encoded = path.encode("utf-8", "surrogateescape")
    shown = about.encode("utf-8", "surrogateescape")
    return b"%s %d %d %s %s\n" % (kind.encode(), len(shown), len(encoded), shown, encoded)
