"""Garbage collection of the layer store: removes layers that no job uses.

It is safe while jobs run and are submitted: see
:mod:`ytf.packaging.layer_store` for the order of marking and reading that both
sides follow. Ages of files are computed with the clock of the store's file
system, not with that of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ytf.packaging.layer_store import DAMAGE_MARK, REMOVAL_MARK, USES, LayerFileName, LayerStore
from ytf.storage.files import FileStatus, clock_ms, is_temporary

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

# Layers of an ended job are kept this long, counted from its submission.
_KEEP_USED_MS = 14 * DAY_MS
# How much is read of a use. It may be another user's file; ours have some hundred bytes.
_MOST_USED_BYTES = 1024 * 1024
# Layers without a use are kept this long: a submission may be under way.
_KEEP_UNUSED_MS = HOUR_MS
# Temporary files of killed uploads and marks of killed collections are kept this long.
_KEEP_TEMPORARY_MS = DAY_MS


class RemovedLayers(msgspec.Struct, frozen=True):
    """The layers that were removed; ``leftovers`` are temporary files, marks and old uses."""

    layers: tuple[FileStatus, ...]
    leftovers: tuple[FileStatus, ...]


def remove_unused_layers(
    store: LayerStore,
    is_running: Callable[[str], bool],
    *,
    dryrun: bool = False,
) -> RemovedLayers:
    """Remove the owner's layers that no job uses, and the uses of jobs that ended long ago.

    ``is_running`` says whether a job may still start containers; in doubt it
    returns True. All users may use an administrator's layers: for these, the
    uses of all users are read, and ``PermissionError`` is raised if they cannot
    be. ``dryrun`` removes nothing.
    """
    return _LayerGc(store, is_running, dryrun).run()


class _LayerGc:
    def __init__(self, store: LayerStore, is_running: Callable[[str], bool], dryrun: bool) -> None:
        self._files, self._own_root = store.files, store.own_root
        self._dryrun = dryrun
        self._users = [store.own_root]
        if store.owner in store.administrators:
            self._users = [s.path for s in self._list(store.root) if s.is_directory]
        self._is_running = is_running
        self._now_ms = 0
        self._leftovers: list[FileStatus] = []

    def run(self) -> RemovedLayers:
        self._now_ms = clock_ms(self._files, self._own_root)
        used = self._used_digests(drop_old=True)
        unused: list[FileStatus] = []
        for status in self._all_files():
            age = self._now_ms - status.mtime_ms
            if is_temporary(status.name):
                if age > _KEEP_TEMPORARY_MS:
                    self._remove_leftover(status)
            elif status.name.endswith(REMOVAL_MARK):
                # A collection that was killed left the mark: its layer is treated as any other.
                if age > _KEEP_TEMPORARY_MS:
                    self._remove_leftover(status)
            else:
                layer = LayerFileName.parse(status.name)
                if layer and layer.digest not in used and age > _KEEP_UNUSED_MS:
                    unused.append(status)
        return self._remove(unused)

    def _remove(self, unused: list[FileStatus]) -> RemovedLayers:
        if self._dryrun:
            return RemovedLayers(tuple(unused), tuple(self._leftovers))
        marked = [status for status in unused if self._mark(status.path + REMOVAL_MARK)]
        # Read the uses after marking: a use that is missing here was written after
        # the marks, so its submission sees the marks and avoids these layers.
        used = self._used_digests(drop_old=False) if marked else set()
        removed = []
        for status in marked:
            layer = LayerFileName.parse(status.name)
            if layer is not None and layer.digest not in used:
                self._files.delete(status.path)
                self._files.delete(status.path + DAMAGE_MARK)
                removed.append(status)
            self._files.delete(status.path + REMOVAL_MARK)
        return RemovedLayers(tuple(removed), tuple(self._leftovers))

    def _used_digests(self, *, drop_old: bool) -> set[str]:
        """Return the digests in use.

        One file is read for each set of layers of a user, not for each job. A user's file
        does not stand for another's: its name may promise what is not in it.
        """
        used: set[str] = set()
        read: set[tuple[str, str]] = set()
        for user in self._users:
            for status in self._list(f"{user}/{USES}"):
                job, _, layers = status.name.rpartition(".")
                is_old = drop_old and user == self._own_root and not is_temporary(status.name)
                if is_old and self._is_expired(job, self._now_ms - status.mtime_ms):
                    self._remove_leftover(status)
                elif (user, layers) not in read and not is_temporary(status.name):
                    used.update(self._read_use(status.path))
                    read.add((user, layers))
        return used

    def _read_use(self, path: str) -> list[str]:
        try:
            data = b"".join(self._files.read(path, 0, _MOST_USED_BYTES))
            return data.decode("utf-8", "replace").split()
        except FileNotFoundError:
            return []  # Another collection has just removed it.

    def _is_expired(self, job: str, age_ms: int) -> bool:
        return age_ms > _KEEP_USED_MS and not self._is_running(job)

    def _all_files(self) -> Iterator[FileStatus]:
        for found in self._list(self._own_root):
            if found.is_directory and found.name != USES:
                yield from self._list(found.path)
            elif is_temporary(found.name):
                yield found
        yield from (s for s in self._list(f"{self._own_root}/{USES}") if is_temporary(s.name))

    def _list(self, path: str) -> list[FileStatus]:
        try:
            return self._files.list(path)
        except FileNotFoundError:
            return []

    def _mark(self, path: str) -> bool:
        """Set a mark; False if another collection has set it."""
        try:
            self._files.write(path, [])
        except FileExistsError:
            return False
        return True

    def _remove_leftover(self, status: FileStatus) -> None:
        if not self._dryrun:
            self._files.delete(status.path)
        self._leftovers.append(status)
