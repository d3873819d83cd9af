"""The layer store: once, whole, trusted, mended under a new path, and collected in time."""

from __future__ import annotations

import getpass
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ytf.errors import RefusedError, SettingsError
from ytf.packaging.archives import Archive
from ytf.packaging.cache import LayerCache
from ytf.packaging.collection import DAY_MS, HOUR_MS, Collected, collect
from ytf.packaging.layers import Content, Entry, Layer, LayerKind, content
from ytf.packaging.store import GOING, Check, LayerStore, Slot, Visibility
from ytf.storage.files import FileStatus, LocalFiles, temporary_beside

ME = getpass.getuser()


class SharedFiles(LocalFiles):
    """A file system of several users: owners are told by it, whoever owns the files."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self.writes: list[str] = []

    def stat(self, path: str) -> FileStatus:
        for place, owner in self.owners.items():
            if path == place or path.startswith(f"{place}/"):
                return replace(super().stat(path), owner=owner)
        return super().stat(path)

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        self.writes.append(path)
        return super().write(path, chunks, mode)


class Made:
    """Layers to be stored, and how often each was packed."""

    def __init__(self, folder: Path) -> None:
        self._cache = LayerCache(folder)
        self._contents: dict[str, Content] = {}
        self.packed: list[str] = []

    def layer(self, text: str) -> Layer:
        what = content(LayerKind.CODE, text, [Entry(path="x", data=text.encode() * 1000)])
        layer = self._cache.describe(what)
        self._contents[layer.digest] = what
        return layer

    def archive(self, layer: Layer) -> Archive:
        self.packed.append(layer.name)
        return self._cache.archive(self._contents[layer.digest])


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "cache")


@pytest.fixture
def files() -> SharedFiles:
    return SharedFiles()


@pytest.fixture
def store(tmp_path: Path, files: SharedFiles) -> LayerStore:
    return LayerStore(files, f"{tmp_path}/store", ME)


def layers_in(store: LayerStore) -> list[Path]:
    return sorted(Path(store.root).rglob("*.tar.gz"))


def age(path: Path | str, by_ms: int) -> None:
    now = os.stat(path).st_mtime
    os.utime(path, (now - by_ms / 1000, now - by_ms / 1000))


def gone(job: str) -> bool:
    return False


def paths(done: Collected) -> list[str]:
    return [layer.path for layer in done.layers]


def test_a_layer_goes_up_once(store: LayerStore, made: Made) -> None:
    layers = [made.layer(text) for text in "abcdef"]
    seen: dict[str, list[int]] = {}

    def progress(layer: Layer, sent: int, size: int) -> None:
        seen.setdefault(layer.name, []).append(sent)

    stored = store.ensure(layers, made.archive, progress)
    assert [s.layer for s in stored] == layers
    for s in stored:
        status = os.stat(s.path)
        assert (s.size, s.mtime_ms) == (status.st_size, status.st_mtime_ns // 1_000_000)
        assert seen[s.layer.name][0] == 0
        assert seen[s.layer.name][-1] == s.size
    again = LayerStore(store.files, store.root, ME).ensure(layers, made.archive)
    assert again == stored
    assert sorted(made.packed) == list("abcdef")


def test_two_submitters_at_once(tmp_path: Path, made: Made) -> None:
    layer = made.layer("a")
    together = threading.Barrier(2)

    class Together(LocalFiles):
        def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
            def slowly() -> Iterator[bytes]:
                yield from chunks
                together.wait(10)

            return super().write(path, slowly(), mode)

    results = []

    def submit() -> None:
        store = LayerStore(Together(), f"{tmp_path}/store", ME)
        results.extend(store.ensure([layer], made.archive))

    threads = [threading.Thread(target=submit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1]
    assert list(Path(results[0].path).parent.iterdir()) == [Path(results[0].path)]


def test_a_lost_layer_is_uploaded_again(store: LayerStore, made: Made) -> None:
    [first] = store.ensure([made.layer("a")], made.archive)
    os.unlink(first.path)
    assert store.find(first.layer) is None
    [second] = store.ensure([first.layer], made.archive)
    assert Path(second.path).exists()


def test_a_cut_layer_is_mended_under_a_new_path(store: LayerStore, made: Made) -> None:
    [first] = store.ensure([made.layer("a")], made.archive)
    with open(first.path, "r+b") as file:
        file.truncate(first.size - 1)
    touched = os.stat(first.path)
    [second] = store.ensure([first.layer], made.archive)
    assert second.path != first.path
    assert second.size == first.size
    assert os.stat(first.path) == touched
    assert store.ensure([first.layer], made.archive) == [second]


def test_changed_bytes_are_found_by_hash(store: LayerStore, made: Made) -> None:
    [first] = store.ensure([made.layer("a")], made.archive)
    data = bytearray(Path(first.path).read_bytes())
    data[len(data) // 2] ^= 1
    Path(first.path).write_bytes(data)
    assert store.ensure([first.layer], made.archive)[0].path == first.path
    [second] = store.ensure([first.layer], made.archive, check=Check.HASH)
    assert second.path != first.path
    # From now on everybody takes the good one, and the bad one is still there.
    assert store.ensure([first.layer], made.archive) == [second]
    assert Path(first.path).read_bytes() == data


def test_an_upload_that_fails_leaves_nothing(store: LayerStore, made: Made) -> None:
    def fails(layer: Layer, sent: int, size: int) -> None:
        if sent:
            raise ConnectionError("no more")

    with pytest.raises(ConnectionError):
        store.ensure([made.layer("a")], made.archive, fails)
    assert [path for path in Path(store.root).rglob("*") if path.is_file()] == []


def test_the_store_decides_who_may_share(tmp_path: Path, made: Made) -> None:
    open_root, closed_root = tmp_path / "open", tmp_path / "closed"
    open_root.mkdir(mode=0o755)
    private = LayerStore(LocalFiles(), str(closed_root), ME)
    [closed] = private.ensure([made.layer("a")], made.archive)
    assert closed.visibility is Visibility.PRIVATE
    assert stat.S_IMODE(os.stat(closed.path).st_mode) == 0o600
    assert stat.S_IMODE(closed_root.stat().st_mode) == 0o700
    opened = LayerStore(_AllPass(), str(open_root), ME)
    [public] = opened.ensure([made.layer("a")], made.archive)
    assert public.visibility is Visibility.PUBLIC
    assert stat.S_IMODE(os.stat(public.path).st_mode) == 0o644
    assert stat.S_IMODE(Path(public.path).parent.stat().st_mode) == 0o755
    # Readable, but behind a door that is closed.
    behind = LayerStore(LocalFiles(), str(open_root), ME)
    open_root.parent.chmod(0o700)
    assert behind.ensure([made.layer("a")], made.archive)[0].visibility is Visibility.PRIVATE


class _AllPass(LocalFiles):
    """Test directories lie in one that only its owner may enter."""

    def stat(self, path: str) -> FileStatus:
        status = super().stat(path)
        return replace(status, mode=status.mode | 0o001) if status.is_directory else status


def test_only_trusted_owners_count(tmp_path: Path, files: SharedFiles, made: Made) -> None:
    root = tmp_path / "store"
    root.mkdir()
    root.chmod(0o1777)
    layer = made.layer("a")
    theirs = LayerStore(files, str(root), "eve", ("root",))
    files.owners[f"{root}/eve"] = "eve"
    files.owners[str(root)] = "root"
    theirs.ensure([layer], made.archive)
    mine = LayerStore(files, str(root), "ann", ("root",))
    files.owners = {f"{root}/ann": "ann", f"{root}/adm": "adm", **files.owners}
    assert mine.find(layer) is None
    [stored] = mine.ensure([layer], made.archive)
    assert stored.path.startswith(f"{root}/ann/")
    # An administrator's are as good as mine.
    other = made.layer("b")
    LayerStore(files, str(root), "adm", ("root",)).ensure([other], made.archive)
    found = LayerStore(files, str(root), "ann", ("root", "adm")).find(other)
    assert found is not None
    assert found.path.startswith(f"{root}/adm/")


def test_a_layer_slipped_in_by_another_is_passed_over(
    store: LayerStore, files: SharedFiles, made: Made
) -> None:
    [first] = store.ensure([made.layer("a")], made.archive)
    files.owners[first.path] = "eve"
    [second] = store.ensure([first.layer], made.archive)
    assert second.path != first.path


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_store_in_which_others_replace_is_refused(tmp_path: Path, made: Made, mode: int) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(mode)
    store = LayerStore(LocalFiles(), f"{tmp_path}/store", ME)
    with pytest.raises(SettingsError, match="lets others replace layers: its mode is 77"):
        store.ensure([made.layer("a")], made.archive)


def test_a_store_of_a_stranger_is_refused(
    store: LayerStore, files: SharedFiles, made: Made
) -> None:
    files.owners[store.root] = "eve"
    with pytest.raises(SettingsError, match="belongs to eve"):
        store.ensure([made.layer("a")], made.archive)


def test_my_directory_made_by_a_stranger_is_refused(
    store: LayerStore, files: SharedFiles, made: Made
) -> None:
    files.owners[store.own] = "eve"
    with pytest.raises(SettingsError, match="should be yours alone, but belongs to eve"):
        store.ensure([made.layer("a")], made.archive)


def test_it_does_not_try_for_ever(store: LayerStore, made: Made) -> None:
    class Taken(SharedFiles):
        def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
            raise FileExistsError(path)

    taken = LayerStore(Taken(), store.root, ME)
    with pytest.raises(RefusedError, match="each name was taken"):
        taken.ensure([made.layer("a")], made.archive)


def test_names_say_it_all() -> None:
    slot = Slot("ab" * 16, 3, 12345, "cd" * 8)
    assert Slot.of(slot.name) == slot
    assert Slot.of(slot.name + GOING) is None
    assert Slot.of("readme") is None


def test_unused_layers_are_collected_after_their_time(store: LayerStore, made: Made) -> None:
    old, used, young = (made.layer(text) for text in "abc")
    store.use("job_1", [used])
    stored = store.ensure([old, used, young], made.archive)
    for s in stored[:2]:
        age(s.path, 2 * HOUR_MS)
    done = collect(store, gone)
    assert (paths(done), done.size) == ([stored[0].path], stored[0].size)
    assert layers_in(store) == sorted(Path(s.path) for s in stored[1:])
    assert [*Path(store.root).rglob(f"*{GOING}")] == []


def test_a_use_lasts_while_the_job_runs_and_for_a_time_after(store: LayerStore, made: Made) -> None:
    layer = made.layer("a")
    store.use("application_1_0001", [layer])
    store.use("application_1_0001", [layer])
    [stored] = store.ensure([layer], made.archive)
    [use] = Path(store.own, "uses").iterdir()
    age(stored.path, 30 * DAY_MS)
    assert collect(store, gone).layers == ()
    age(use, 15 * DAY_MS)
    asked = []

    def runs(job: str) -> bool:
        asked.append(job)
        return True

    assert collect(store, runs).layers == ()
    assert asked == ["application_1_0001"]
    done = collect(store, gone)
    assert (paths(done), len(done.leftovers)) == ([stored.path], 1)
    assert not use.exists()


def test_what_killed_commands_left_goes_in_a_day(store: LayerStore, made: Made) -> None:
    [stored] = store.ensure([made.layer("a")], made.archive)
    dead, alive = (Path(temporary_beside(stored.path)) for _ in range(2))
    mark = Path(stored.path + GOING)
    for path in (dead, alive, mark):
        path.touch()
    for path in (dead, mark):
        age(path, 25 * HOUR_MS)
    assert store.find(stored.layer) is None
    assert len(collect(store, gone).leftovers) == 2
    assert (dead.exists(), alive.exists(), mark.exists()) == (False, True, False)
    assert store.find(stored.layer) == stored


def test_a_submission_in_the_middle_of_a_collection(tmp_path: Path, made: Made) -> None:
    """Whenever the submitter comes, it gets a layer that stays."""
    for moment in range(20):
        outcome = _race(tmp_path / str(moment), made, moment)
        if outcome is None:
            assert moment > 6
            return
        assert Path(outcome).exists(), moment
    pytest.fail("the collection never ended")


def _race(folder: Path, made: Made, moment: int) -> str | None:
    """Submit just before the collector's call number ``moment``; where the layer is then."""
    layer = made.layer("a")
    root = str(folder / "store")
    submitter = LayerStore(LocalFiles(), root, ME)
    [stored] = submitter.ensure([layer], made.archive)
    age(stored.path, 2 * HOUR_MS)
    calls = 0
    got: list[str] = []

    class Interrupted(LocalFiles):
        def _call(self) -> None:
            nonlocal calls
            calls += 1
            if calls == moment + 1:
                submitter.use("job_1", [layer])
                got.append(submitter.ensure([layer], made.archive)[0].path)

        def list(self, path: str) -> list[FileStatus]:
            self._call()
            return super().list(path)

        def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
            self._call()
            return super().write(path, chunks, mode)

        def delete(self, path: str) -> None:
            self._call()
            super().delete(path)

    collect(LayerStore(Interrupted(), root, ME), gone)
    return got[0] if got else None


def test_a_store_that_is_opened_later_opens_what_is_in_it(store: LayerStore, made: Made) -> None:
    [private] = store.ensure([made.layer("a")], made.archive)
    os.chmod(store.root, 0o755)
    opened = LayerStore(store.files, store.root, ME)
    [public] = opened.ensure([made.layer("b")], made.archive)
    for folder in (Path(store.own), Path(private.path).parent, Path(public.path).parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE(os.stat(public.path).st_mode) == 0o644
    found = opened.find(private.layer)
    assert found is not None
    assert found.visibility is Visibility.PRIVATE, "the file itself is still closed"


def test_a_dry_run_tells_and_touches_nothing(store: LayerStore, made: Made) -> None:
    [stored] = store.ensure([made.layer("a")], made.archive)
    dead = Path(temporary_beside(stored.path))
    dead.touch()
    for path in (dead, stored.path):
        age(path, 15 * DAY_MS)
    before = sorted(Path(store.root).rglob("*"))
    told = collect(store, gone, dryrun=True)
    assert sorted(Path(store.root).rglob("*")) == before
    assert (paths(told), len(told.leftovers)) == ([stored.path], 1)
    assert collect(store, gone) == told


def test_a_layer_with_other_bytes_is_marked_and_stored_anew(store: LayerStore, made: Made) -> None:
    layers = [made.layer("a"), made.layer("b")]
    broken, good = store.ensure(layers, made.archive)
    assert store.verify() == []
    os.chmod(broken.path, 0o600)
    Path(broken.path).write_bytes(b"x" * broken.size)
    assert store.find(layers[0]) is not None, "its size tells nothing"
    assert [found.path for found in store.verify()] == [broken.path]
    assert store.verify() == [], "it was told"
    assert Path(broken.path).exists(), "of running jobs"
    mended, same = store.ensure(layers, made.archive)
    assert mended.path != broken.path
    assert same == good
    # Long after nobody uses the layer, nothing of either is left.
    for path in (broken.path, mended.path, good.path):
        age(path, 15 * DAY_MS)
    assert sorted(paths(collect(store, gone))) == sorted([broken.path, mended.path, good.path])
    assert [path for path in Path(store.root).rglob("*") if path.is_file()] == []


def test_an_administrators_collection_sees_everybodys_uses(
    tmp_path: Path, files: SharedFiles, made: Made
) -> None:
    root = tmp_path / "store"
    root.mkdir()
    root.chmod(0o1777)
    files.owners = {f"{root}/{name}": name for name in ("ann", "adm")} | {str(root): "adm"}
    layer = made.layer("a")
    admin = LayerStore(files, str(root), "adm", ("adm",))
    [stored] = admin.ensure([layer], made.archive)
    age(stored.path, 2 * HOUR_MS)
    LayerStore(files, str(root), "ann", ("adm",)).use("job_1", [layer])
    assert collect(admin, gone).layers == ()
    for use in (root / "ann/uses").iterdir():
        use.unlink()
    assert paths(collect(admin, gone)) == [stored.path]
