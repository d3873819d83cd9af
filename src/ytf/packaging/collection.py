"""Which layers nobody uses any more, and their removal.

Safe while jobs run and others submit: see :mod:`ytf.packaging.store` for the
order of looking and marking that both keep. No clock of ours is asked: the age
of a file is told against the time at which the store itself wrote another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ytf.packaging.store import BAD, GOING, USES, LayerStore, Slot
from ytf.storage.files import FileStatus, clock_ms, is_temporary

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """For how long what nobody needs is kept."""

    used_ms: int = 14 * DAY_MS
    """The layers of a job that is over, from its submission on."""
    young_ms: int = HOUR_MS
    """Layers without a use, and uses of jobs that nobody knows: a submission may be under way."""
    temporary_ms: int = DAY_MS
    """What an upload that was killed has left; no upload takes that long."""


class Collected(msgspec.Struct, frozen=True):
    """What was removed: layers, and other leftovers."""

    layers: tuple[FileStatus, ...]
    leftovers: tuple[FileStatus, ...]

    @property
    def size(self) -> int:
        """How many bytes the layers had."""
        return sum(layer.size for layer in self.layers)


def collect(
    store: LayerStore,
    is_running: Callable[[str], bool],
    keep: Keep | None = None,
    *,
    dryrun: bool = False,
) -> Collected:
    """Remove the owner's layers that no job uses, and the uses of jobs that are long over.

    ``is_running`` says whether a job may still start containers; in doubt,
    True. An administrator's layers are used by everybody: their collection
    looks at all users' uses, and raises ``PermissionError`` if it may not.
    ``dryrun``: nothing is removed, only told.
    """
    return _Collection(store, is_running, keep or Keep(), dryrun).run()


class _Collection:
    def __init__(
        self, store: LayerStore, is_running: Callable[[str], bool], keep: Keep, dryrun: bool
    ) -> None:
        self._files, self._own, self._keep = store.files, store.own, keep
        self._dryrun = dryrun
        self._users = [store.own]
        if store.owner in store.administrators:
            self._users = [s.path for s in self._in(store.root) if s.is_directory]
        self._is_running = is_running
        self._now_ms = 0
        self._leftovers: list[FileStatus] = []

    def run(self) -> Collected:
        self._now_ms = clock_ms(self._files, self._own)
        used = self._used(retire=True)
        going: list[FileStatus] = []
        for status in self._all():
            age = self._now_ms - status.mtime_ms
            if is_temporary(status.name):
                if age > self._keep.temporary_ms:
                    self._leftover(status)
            elif status.name.endswith(GOING):
                # Of a collection that died: its layer is looked at like any other.
                if age > self._keep.temporary_ms:
                    self._leftover(status)
            else:
                slot = Slot.of(status.name)
                if slot and slot.digest not in used and age > self._keep.young_ms:
                    going.append(status)
        return self._remove(going)

    def _remove(self, going: list[FileStatus]) -> Collected:
        if self._dryrun:
            return Collected(tuple(going), tuple(self._leftovers))
        marked = [status for status in going if self._mark(status.path + GOING)]
        # Only now: a use that is not seen here was written after the marks,
        # and whoever wrote it sees them.
        used = self._used(retire=False) if marked else set()
        removed = []
        for status in marked:
            slot = Slot.of(status.name)
            if slot is not None and slot.digest not in used:
                self._files.delete(status.path)
                self._files.delete(status.path + BAD)
                removed.append(status)
            self._files.delete(status.path + GOING)
        return Collected(tuple(removed), tuple(self._leftovers))

    def _used(self, *, retire: bool) -> set[str]:
        """The digests in use. One file is read for each set of layers, however many jobs."""
        used: set[str] = set()
        read: set[str] = set()
        for user in self._users:
            for status in self._in(f"{user}/{USES}"):
                job, _, layers = status.name.rpartition(".")
                is_old = retire and user == self._own and not is_temporary(status.name)
                if is_old and self._is_over(job, self._now_ms - status.mtime_ms):
                    self._leftover(status)
                elif layers not in read and not is_temporary(status.name):
                    used.update(self._digests(status.path))
                    read.add(layers)
        return used

    def _digests(self, path: str) -> list[str]:
        try:
            return b"".join(self._files.read(path)).decode().split()
        except FileNotFoundError:
            return []  # Another collection was faster.

    def _is_over(self, job: str, age_ms: int) -> bool:
        return age_ms > max(self._keep.used_ms, self._keep.young_ms) and not self._is_running(job)

    def _all(self) -> Iterator[FileStatus]:
        for found in self._in(self._own):
            if found.is_directory and found.name != USES:
                yield from self._in(found.path)
            elif is_temporary(found.name):
                yield found
        yield from (s for s in self._in(f"{self._own}/{USES}") if is_temporary(s.name))

    def _in(self, path: str) -> list[FileStatus]:
        try:
            return self._files.list(path)
        except FileNotFoundError:
            return []

    def _mark(self, path: str) -> bool:
        """Whether the mark is ours: another collection may be at it."""
        try:
            self._files.write(path, [])
        except FileExistsError:
            return False
        return True

    def _leftover(self, status: FileStatus) -> None:
        if not self._dryrun:
            self._files.delete(status.path)
        self._leftovers.append(status)
