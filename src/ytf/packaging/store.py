"""The layer store: where packed layers lie for nodes to fetch, in HDFS or on a disk.

::

    <store>/<owner>/<2 of the digest>/<digest>-<n>-<size>-<sha256>.tar.gz   a layer
                                      … .tar.gz.going              it is about to be removed
                                      … .tar.gz.bad                its bytes are not those it had
    <store>/<owner>/uses/<job>.<which layers>                      a job uses these layers

A name says everything there is to know of a layer, so it takes one write to
store it, and one listing to know that it is there and whole. A path is never
written twice: YARN compares times, and running jobs depend on it. One that is
damaged is passed over for one with a higher ``n``.

**Trust.** A layer is code that runs as the submitter, so only the submitter's
own are used, and those of administrators. Each owner has a directory in which
nobody else can write: otherwise a layer could be exchanged between the look at
it and a node's fetching it.

**Removal without a race.** A submitter writes its use first and looks second;
whoever removes marks the layer first and looks at the uses second
(:mod:`ytf.packaging.collection`). Whichever of the two comes later sees the
other: the submitter passes over a marked layer, the collector spares a used one.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import posixpath
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from ytf.errors import RefusedError, SettingsError
from ytf.packaging.archives import SUFFIX, Archive
from ytf.packaging.layers import Layer, LayerKind
from ytf.storage.files import Files, FileStatus

USES = "uses"
GOING = ".going"
BAD = ".bad"

_SHORT = 32
_NAME = re.compile(r"([0-9a-f]{32})-(\d+)-(\d+)-([0-9a-f]{16})\.tar\.gz")
_AT_ONCE = 4
_TRIES = 5
_MAY_WRITE, _OTHERS_READ, _OTHERS_PASS, _STICKY = 0o022, 0o004, 0o001, 0o1000

Progress = Callable[[Layer, int, int], None]
"""Told of each upload: the layer, how many bytes of it are there, and of how many."""


class Check(enum.Enum):
    """How much is asked of a layer that is there."""

    SIZE = "size"
    """Owner and size, which the name gives away: costs a listing."""
    HASH = "hash"
    """Its bytes as well: reads it all."""


class Visibility(enum.Enum):
    """Who may share a node's unpacked copy. In YARN's words."""

    PUBLIC = "public"
    PRIVATE = "private"


class StoredLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer in the store, with what a node wants to know before it fetches it."""

    layer: Layer
    path: str
    size: int
    mtime_ms: int
    visibility: Visibility


class Slot(msgspec.Struct, frozen=True):
    """What a name in the store says."""

    digest: str
    number: int
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str) -> Slot | None:
        """What the name of a layer says; None for any other name."""
        parts = _NAME.fullmatch(name)
        if parts is None:
            return None
        return cls(parts[1], int(parts[2]), int(parts[3]), parts[4])

    @property
    def name(self) -> str:
        """The name that says it."""
        return f"{self.digest}-{self.number}-{self.size}-{self.sha256}{SUFFIX}"


class LayerStore:
    """One store, as one user sees it. Calls block; they may come from several threads."""

    def __init__(
        self, files: Files, root: str, owner: str, administrators: Sequence[str] = ()
    ) -> None:
        self.files = files
        self.root = root.rstrip("/")
        self.owner = owner
        self.administrators = tuple(administrators)
        self._lock = threading.Lock()
        self._known: _Access | None = None

    @property
    def own(self) -> str:
        """The directory of the owner's own layers and uses."""
        return f"{self.root}/{self.owner}"

    def use(self, job: str, layers: Sequence[Layer]) -> None:
        """Declare what a job uses, before :meth:`ensure` is asked for it.

        From then on none of it is collected: while the job lives, and for a
        time after. To declare the same again is no error.
        """
        access = self._access()
        text = "\n".join(sorted(layer.digest[:_SHORT] for layer in layers)).encode()
        self.files.mkdir(f"{self.own}/{USES}", access.mode)
        place = f"{self.own}/{USES}/{job}.{hashlib.sha256(text).hexdigest()[:16]}"
        # It is named by what is in it: the same again is there already.
        with contextlib.suppress(FileExistsError):
            self.files.write(place, [text], _file_mode(access.mode))

    def ensure(
        self,
        layers: Sequence[Layer],
        archive: Callable[[Layer], Archive],
        progress: Progress | None = None,
        check: Check = Check.SIZE,
    ) -> list[StoredLayer]:
        """Have every layer in the store, and say where; in the given order.

        ``archive`` packs one that must be uploaded. What is there already is
        not touched, and costs neither packing nor bytes. When anything is
        raised, some may have been uploaded: the next call finds them.
        """
        told = _serialized(progress)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(lambda layer: self._ensure(layer, archive, told, check), layers))

    def verify(self, *, dryrun: bool = False) -> list[FileStatus]:
        """Read all of the owner's layers, and mark those whose bytes are not what they were.

        A layer that is marked is nobody's choice any more: the next submission
        that needs it stores it anew. It stays where it is, for running jobs.
        Answers which were found now; ``dryrun``: they are not marked.
        """
        found = []
        for folder in self.files.list(self.own):
            if not folder.is_directory or folder.name == USES:
                continue
            listed = self.files.list(folder.path)
            names = {status.name for status in listed}
            for status in listed:
                slot = Slot.of(status.name)
                if slot is None or names & {status.name + BAD, status.name + GOING}:
                    continue
                if status.size != slot.size or self._hash(status.path) != slot.sha256:
                    found.append(status)
                    if not dryrun:
                        self._mark_bad(status)
        return found

    def _mark_bad(self, status: FileStatus) -> None:
        with contextlib.suppress(FileExistsError):
            self.files.write(status.path + BAD, [])

    def find(self, layer: Layer, check: Check = Check.SIZE) -> StoredLayer | None:
        """The layer as it is in the store; None if it is not there, or not whole."""
        access = self._access()
        for owner in access.owners:
            for status, slot in self._candidates(owner, layer):
                is_whole = status.size == slot.size and status.owner == owner
                if is_whole and (check is Check.SIZE or self._hash(status.path) == slot.sha256):
                    return access.stored(layer, status)
        return None

    def _ensure(
        self, layer: Layer, archive: Callable[[Layer], Archive], progress: Progress, check: Check
    ) -> StoredLayer:
        found = self.find(layer, check)
        if found is not None:
            return found
        access = self._access()
        packed = archive(layer)
        folder = self._folder(self.owner, layer)
        self.files.mkdir(folder, access.mode)
        mode = 0o600 if layer.kind is LayerKind.SETTINGS else _file_mode(access.mode)
        for _ in range(_TRIES):
            number = self._next(layer)
            slot = Slot(layer.digest[:_SHORT], number, packed.size, packed.sha256[:16])
            chunks = _told(packed, lambda sent: progress(layer, sent, packed.size))
            try:
                written = self.files.write(f"{folder}/{slot.name}", chunks, mode)
            except FileExistsError:
                # Another command of the same user was faster: theirs is as good.
                found = self.find(layer, check)
                if found is not None:
                    return found
                continue
            return access.stored(layer, written)
        raise RefusedError(
            f"layer {layer.name} could not be stored in {self.files.uri(folder)}: "
            "each name was taken by another before",
            hint="run ytf gc, or use another layer store",
        )

    def _candidates(self, owner: str, layer: Layer) -> list[tuple[FileStatus, Slot]]:
        """What an owner has of a layer, the newest first, without what is marked."""
        listed = self._listed(owner, layer)
        marked = {
            status.name.removesuffix(mark)
            for status in listed
            for mark in (GOING, BAD)
            if status.name.endswith(mark)
        }
        found = []
        for status in listed:
            slot = Slot.of(status.name)
            if slot and slot.digest == layer.digest[:_SHORT] and status.name not in marked:
                found.append((status, slot))
        return sorted(found, key=lambda pair: (-pair[1].number, pair[1].name))

    def _next(self, layer: Layer) -> int:
        """A number above all that are there; 0 for a layer that is new."""
        numbers = [-1]
        for status in self._listed(self.owner, layer):
            slot = Slot.of(status.name.removesuffix(GOING).removesuffix(BAD))
            if slot is not None and slot.digest == layer.digest[:_SHORT]:
                numbers.append(slot.number)
        return max(numbers) + 1

    def _listed(self, owner: str, layer: Layer) -> list[FileStatus]:
        try:
            return self.files.list(self._folder(owner, layer))
        except FileNotFoundError:
            return []

    def _folder(self, owner: str, layer: Layer) -> str:
        return f"{self.root}/{owner}/{layer.digest[:2]}"

    def _hash(self, path: str) -> str:
        known = hashlib.sha256()
        for piece in self.files.read(path):
            known.update(piece)
        return known.hexdigest()[:16]

    def _access(self) -> _Access:
        with self._lock:
            if self._known is None:
                self._known = self._look()
            return self._known

    def _look(self) -> _Access:
        """Make the store if it is not there, and see whom it lets in."""
        self.files.mkdir(self.root)
        root = self.files.stat(self.root)
        trusted = (self.owner, *self.administrators)
        if root.mode & _MAY_WRITE and not root.mode & _STICKY:
            raise SettingsError(
                f"the layer store {self.files.uri(self.root)} lets others replace layers: "
                f"its mode is {root.mode:o}",
                hint="let its owner set the sticky bit (mode 1777), or close it (mode 755)",
            )
        if root.owner not in trusted:
            raise SettingsError(
                f"the layer store {self.files.uri(self.root)} belongs to {root.owner}, "
                "who is neither you nor an administrator",
                hint="use a layer store of your own, or name its owner as an administrator",
            )
        # What is open to others below the root is decided by the root.
        self.files.mkdir(self.own, root.mode & 0o755)
        self._follow(root.mode & 0o755)
        owners = tuple(owner for owner in trusted if self._belongs(owner))
        # As FSDownload.ancestorsHaveExecutePermissions in YARN sees it.
        path, passes = self.root, bool(root.mode & _OTHERS_PASS)
        while passes and path != "/":
            path = posixpath.dirname(path)
            passes = bool(self.files.stat(path).mode & _OTHERS_PASS)
        return _Access(root.mode & 0o755, owners, passes)

    def _follow(self, mode: int) -> None:
        """Open or close the own directory, should that have been done to the root meanwhile."""
        own = self.files.stat(self.own)
        if own.mode == mode or own.mode & _MAY_WRITE or own.owner != self.owner:
            return
        for found in self.files.list(self.own):
            if found.is_directory:
                self.files.chmod(found.path, mode)
        # Last: one that is interrupted before is begun anew.
        self.files.chmod(self.own, mode)

    def _belongs(self, owner: str) -> bool:
        """Whether an owner's directory is really that, and nobody else can write to it."""
        place = f"{self.root}/{owner}"
        try:
            found = self.files.stat(place)
        except FileNotFoundError:
            return False
        is_safe = found.owner == owner and not found.mode & _MAY_WRITE
        if owner == self.owner and not is_safe:
            raise SettingsError(
                f"{self.files.uri(place)} in the layer store should be yours alone, "
                f"but belongs to {found.owner} with mode {found.mode:o}",
                hint="remove it, or let an administrator do so",
            )
        return is_safe


class _Access(msgspec.Struct, frozen=True):
    """Who may do what in a store: the mode of directories, owners trusted, open to all."""

    mode: int
    owners: tuple[str, ...]
    is_open: bool

    def stored(self, layer: Layer, status: FileStatus) -> StoredLayer:
        is_public = self.is_open and bool(status.mode & _OTHERS_READ)
        return StoredLayer(
            layer=layer,
            path=status.path,
            size=status.size,
            mtime_ms=status.mtime_ms,
            visibility=Visibility.PUBLIC if is_public else Visibility.PRIVATE,
        )


def _serialized(progress: Progress | None) -> Progress:
    lock = threading.Lock()

    def told(layer: Layer, sent: int, size: int) -> None:
        if progress is not None:
            with lock:
                progress(layer, sent, size)

    return told


def _file_mode(directory: int) -> int:
    return 0o600 | directory & 0o044


def _told(packed: Archive, told: Callable[[int], None]) -> Iterator[bytes]:
    sent = 0
    told(sent)
    with packed.path.open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece
            sent += len(piece)
            told(sent)
