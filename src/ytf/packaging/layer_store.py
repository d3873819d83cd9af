"""The layer store in HDFS: each packed layer is uploaded to it once, and nodes fetch it from there.

::

    <store>/<owner>/<2 of the digest>/<digest>-<n>-<size>-<sha256>.tar.gz   a layer
                                      … .tar.gz.going         mark: the layer is being removed
                                      … .tar.gz.bad           mark: the layer is damaged
    <store>/<owner>/uses/<job>.<hash of the layers>           declares that a job uses layers

The file name has everything the store knows of a layer. So one write stores a
layer, and one listing shows that it exists and has its full size. A path is
never written twice: YARN compares modification times, and running jobs depend
on the file. A damaged layer is replaced by one with a higher ``n``.

**Trust.** A layer is code that runs as the submitter. So only layers of the
submitter and of administrators are used. Each owner has a directory in which
no one else can write, and no one else can replace it or a directory above it:
otherwise a layer could be replaced after it was checked and before a node fetches it.

**Removal without a race.** A submission first declares its use, and then looks
for layers and their marks. Garbage collection (:mod:`ytf.packaging.layer_gc`)
first marks a layer, and then reads the uses. The later of the two sees the
other: a submission avoids a marked layer, a collection keeps a used one.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from ytf.errors import RefusedError, SettingsError
from ytf.packaging.archives import SUFFIX, Archive
from ytf.packaging.layers import Layer, LayerKind
from ytf.storage.directory_owners import check_owners
from ytf.storage.files import Files, FileStatus

USES = "uses"
REMOVAL_MARK = ".going"
DAMAGE_MARK = ".bad"

_DIGEST_LENGTH = 32
_FILE_NAME = re.compile(r"([0-9a-f]{32})-(\d+)-(\d+)-([0-9a-f]{16})" + re.escape(SUFFIX))
_OWNER_ONLY = (LayerKind.CODE, LayerKind.SETTINGS)
"""What others cannot have from elsewhere is not for them, also in a store that they may read."""
_PARALLEL_UPLOADS = 4
_TRIES = 5
_OTHERS_WRITE, _OTHERS_READ, _OTHERS_PASS, _STICKY = 0o022, 0o004, 0o001, 0o1000

UploadProgress = Callable[[Layer, int, int], None]
"""Called during an upload with the layer, the bytes sent so far, and their total."""


class LayerVisibility(enum.Enum):
    """Which jobs may share a node's unpacked copy, in the terms of YARN."""

    PUBLIC = "public"
    PRIVATE = "private"


class StoredLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer in the store, with the facts a YARN local resource needs."""

    layer: Layer
    path: str
    size: int
    mtime_ms: int
    visibility: LayerVisibility


class StoreUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What an owner has in a store; ``is_public``: nodes share it among all users."""

    layers: int
    size: int
    is_public: bool


class LayerFileName(msgspec.Struct, frozen=True):
    """The parts of a layer's file name in the store."""

    digest: str
    number: int
    size: int
    sha256: str

    @classmethod
    def parse(cls, name: str) -> LayerFileName | None:
        """Parse the file name of a layer; None for any other name."""
        parts = _FILE_NAME.fullmatch(name)
        if parts is None:
            return None
        return cls(parts[1], int(parts[2]), int(parts[3]), parts[4])

    @property
    def name(self) -> str:
        """The file name."""
        return f"{self.digest}-{self.number}-{self.size}-{self.sha256}{SUFFIX}"


class LayerStore:
    """A layer store as used by one user. Calls block, and may come from several threads."""

    def __init__(
        self, files: Files, root: str, owner: str, administrators: Sequence[str] = ()
    ) -> None:
        self.files = files
        self.root = root.rstrip("/")
        self.owner = owner
        self.administrators = tuple(administrators)
        self._lock = threading.Lock()
        self._known: _StoreAccess | None = None

    @property
    def own_root(self) -> str:
        """The directory of the owner's layers and uses."""
        return f"{self.root}/{self.owner}"

    def declare_use(self, job: str, layers: Sequence[Layer]) -> None:
        """Declare the layers of a job; must be called before :meth:`ensure`.

        From then on these layers are not collected until some time after the
        end of the job. Declaring the same again is no error.
        """
        access = self._access()
        text = "\n".join(sorted(layer.digest[:_DIGEST_LENGTH] for layer in layers)).encode()
        self.files.mkdir(f"{self.own_root}/{USES}", access.mode)
        place = f"{self.own_root}/{USES}/{job}.{hashlib.sha256(text).hexdigest()[:16]}"
        # The name has the hash of the text: an existing file has the same text.
        with contextlib.suppress(FileExistsError):
            self.files.write(place, [text], _file_mode(access.mode))

    def ensure(
        self,
        layers: Sequence[Layer],
        archive: Callable[[Layer], Archive],
        on_progress: UploadProgress | None = None,
    ) -> list[StoredLayer]:
        """Upload the layers that are not in the store; return where each is, in order.

        ``archive`` packs a layer that must be uploaded. A layer that is in the
        store is neither packed nor uploaded. After an error, some layers may
        have been uploaded: the next call finds them.
        """
        report = _serialized(on_progress)
        # The largest first: it takes longest, and the others go along beside it.
        by_size = sorted(layers, key=lambda layer: layer.size, reverse=True)
        with ThreadPoolExecutor(_PARALLEL_UPLOADS) as pool:
            stored = pool.map(lambda layer: self._ensure(layer, archive, report), by_size)
            places = {each.layer.digest: each for each in stored}
        return [places[layer.digest] for layer in layers]

    def verify(self, *, dryrun: bool = False) -> list[FileStatus]:
        """Read all of the owner's layers, and mark those whose bytes were changed.

        The next submission that needs a marked layer uploads it again. The
        damaged file stays, for running jobs. Returns the damaged layers that
        were not marked before; ``dryrun`` does not mark them.
        """
        found = []
        for folder in self.files.list(self.own_root):
            if not folder.is_directory or folder.name == USES:
                continue
            listed = self.files.list(folder.path)
            names = {status.name for status in listed}
            for status in listed:
                file_name = LayerFileName.parse(status.name)
                if file_name is None or names & {
                    status.name + DAMAGE_MARK,
                    status.name + REMOVAL_MARK,
                }:
                    continue
                if status.size != file_name.size or self._hash(status.path) != file_name.sha256:
                    found.append(status)
                    if not dryrun:
                        self._mark_bad(status)
        return found

    def usage(self) -> StoreUsage:
        """Return how many layers the owner has, and their size.

        Makes the store if there is none. Raises ``SettingsError`` if others could replace
        layers.
        """
        access = self._access()
        sizes = [
            status.size
            for folder in self.files.list(self.own_root)
            if folder.is_directory and folder.name != USES
            for status in self.files.list(folder.path)
            if LayerFileName.parse(status.name) is not None
        ]
        return StoreUsage(layers=len(sizes), size=sum(sizes), is_public=access.is_open)

    def _mark_bad(self, status: FileStatus) -> None:
        with contextlib.suppress(FileExistsError):
            self.files.write(status.path + DAMAGE_MARK, [])

    def find(self, layer: Layer) -> StoredLayer | None:
        """Return the layer in the store; None if it is not there with its owner and full size."""
        access = self._access()
        for owner in access.owners:
            for status, file_name in self._candidates(owner, layer):
                if status.size == file_name.size and status.owner == owner:
                    return access.stored(layer, status)
        return None

    def _ensure(
        self, layer: Layer, archive: Callable[[Layer], Archive], on_progress: UploadProgress
    ) -> StoredLayer:
        found = self.find(layer)
        if found is not None:
            return found
        access = self._access()
        packed = archive(layer)
        folder = self._folder(self.owner, layer)
        self.files.mkdir(folder, access.mode)
        mode = 0o600 if layer.kind in _OWNER_ONLY else _file_mode(access.mode)
        for _ in range(_TRIES):
            number = self._next_number(layer)
            file_name = LayerFileName(
                layer.digest[:_DIGEST_LENGTH], number, packed.size, packed.sha256[:16]
            )
            chunks = _read_reporting(packed, lambda sent: on_progress(layer, sent, packed.size))
            try:
                written = self.files.write(f"{folder}/{file_name.name}", chunks, mode)
            except FileExistsError:
                # Another process of the same user has stored it meanwhile.
                found = self.find(layer)
                if found is not None:
                    return found
                continue
            return access.stored(layer, written)
        raise RefusedError(
            f"layer {layer.name} could not be stored in {self.files.uri(folder)}: "
            "other processes took each file name first",
            hint="run ytf gc, or use another layer store",
        )

    def _candidates(self, owner: str, layer: Layer) -> list[tuple[FileStatus, LayerFileName]]:
        """Return an owner's files of a layer without marks, the highest number first."""
        listed = self._listed(owner, layer)
        marked = {
            status.name.removesuffix(mark)
            for status in listed
            for mark in (REMOVAL_MARK, DAMAGE_MARK)
            if status.name.endswith(mark)
        }
        found = []
        for status in listed:
            file_name = LayerFileName.parse(status.name)
            if (
                file_name
                and file_name.digest == layer.digest[:_DIGEST_LENGTH]
                and status.name not in marked
            ):
                found.append((status, file_name))
        return sorted(found, key=lambda pair: (-pair[1].number, pair[1].name))

    def _next_number(self, layer: Layer) -> int:
        """Return a number above all existing ones; 0 for a new layer."""
        numbers = [-1]
        for status in self._listed(self.owner, layer):
            file_name = LayerFileName.parse(
                status.name.removesuffix(REMOVAL_MARK).removesuffix(DAMAGE_MARK)
            )
            if file_name is not None and file_name.digest == layer.digest[:_DIGEST_LENGTH]:
                numbers.append(file_name.number)
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

    def _access(self) -> _StoreAccess:
        with self._lock:
            if self._known is None:
                self._known = self._inspect()
            return self._known

    def _inspect(self) -> _StoreAccess:
        """Create the store if it does not exist, and read who has access."""
        self.files.mkdir(self.root)
        root = self.files.stat(self.root)
        trusted = (self.owner, *self.administrators)
        if root.mode & _OTHERS_WRITE and not root.mode & _STICKY:
            raise SettingsError(
                f"the layer store {self.files.uri(self.root)} lets other users replace layers: "
                f"its mode is {root.mode:o}",
                hint="let its owner set the sticky bit (mode 1777), or close it (mode 755)",
            )
        if root.owner not in trusted:
            raise SettingsError(
                f"the layer store {self.files.uri(self.root)} belongs to {root.owner}, "
                "who is neither you nor an administrator",
                hint="use a layer store of your own, or name its owner as an administrator",
            )
        directories = check_owners(self.files, self.root, trusted)
        # The mode of the root determines what is open to others below it.
        self.files.mkdir(self.own_root, root.mode & 0o755)
        self._adopt_mode(root.mode & 0o755)
        owners = tuple(owner for owner in trusted if self._is_trustworthy(owner))
        # As FSDownload.ancestorsHaveExecutePermissions in YARN.
        passes = all(directory.mode & _OTHERS_PASS for directory in directories)
        return _StoreAccess(root.mode & 0o755, owners, passes)

    def _adopt_mode(self, mode: int) -> None:
        """Open or close the own directory, if the mode of the root was changed meanwhile."""
        own = self.files.stat(self.own_root)
        if own.mode == mode or own.mode & _OTHERS_WRITE or own.owner != self.owner:
            return
        for found in self.files.list(self.own_root):
            if found.is_directory:
                self.files.chmod(found.path, mode)
        # Last, so that the next call repeats an interrupted change.
        self.files.chmod(self.own_root, mode)

    def _is_trustworthy(self, owner: str) -> bool:
        """Whether an owner's directory belongs to them, and only they can write to it."""
        place = f"{self.root}/{owner}"
        try:
            found = self.files.stat(place)
        except FileNotFoundError:
            return False
        is_safe = found.owner == owner and not found.mode & _OTHERS_WRITE
        if owner == self.owner and not is_safe:
            raise SettingsError(
                f"{self.files.uri(place)} in the layer store should be yours alone, "
                f"but belongs to {found.owner} with mode {found.mode:o}",
                hint="remove it, or let an administrator do so",
            )
        return is_safe


class _StoreAccess(msgspec.Struct, frozen=True):
    """Access to a store: the mode of its directories, trusted owners, and whether all can read."""

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
            visibility=LayerVisibility.PUBLIC if is_public else LayerVisibility.PRIVATE,
        )


def _serialized(on_progress: UploadProgress | None) -> UploadProgress:
    lock = threading.Lock()

    def report(layer: Layer, sent: int, size: int) -> None:
        if on_progress is not None:
            with lock:
                on_progress(layer, sent, size)

    return report


def _file_mode(directory: int) -> int:
    return 0o600 | directory & 0o044


def _read_reporting(packed: Archive, on_sent: Callable[[int], None]) -> Iterator[bytes]:
    sent = 0
    on_sent(sent)
    with packed.path.open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece
            sent += len(piece)
            on_sent(sent)
