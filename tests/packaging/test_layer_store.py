"""The layer store: layers are uploaded once, whole, and only those of trusted owners are used."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.packaging.stored_layers import (
    ME,
    MadeLayers,
    SharedFiles,
    age,
    not_running,
    removed_paths,
)
from ytf.errors import RefusedError, SettingsError
from ytf.packaging.archives import Archive
from ytf.packaging.layer_gc import DAY_MS, remove_unused_layers
from ytf.packaging.layer_store import (
    REMOVAL_MARK,
    LayerFileName,
    LayerStore,
    LayerVisibility,
)
from ytf.packaging.layers import Layer, LayerKind
from ytf.storage.files import FileStatus
from ytf.storage.local_files import LocalFiles


def test_a_layer_is_uploaded_once(store: LayerStore, made: MadeLayers) -> None:
    layers = [made.layer(text) for text in "abcdef"]
    seen: dict[str, list[int]] = {}

    def on_progress(layer: Layer, sent: int, size: int) -> None:
        seen.setdefault(layer.name, []).append(sent)

    stored = store.ensure(layers, made.archive, on_progress)
    assert [s.layer for s in stored] == layers
    for s in stored:
        status = os.stat(s.path)
        assert (s.size, s.mtime_ms) == (status.st_size, status.st_mtime_ns // 1_000_000)
        assert seen[s.layer.name][0] == 0
        assert seen[s.layer.name][-1] == s.size
    again = LayerStore(store.files, store.root, ME).ensure(layers, made.archive)
    assert again == stored
    assert sorted(made.packed) == list("abcdef")


def test_the_largest_layers_are_packed_first(store: LayerStore, made: MadeLayers) -> None:
    layers = [made.layer("x" * length) for length in range(1, 9)]
    together = threading.Barrier(4, timeout=30)

    def archive(layer: Layer) -> Archive:
        packed = made.archive(layer)
        together.wait()  # four at once, so those that come next have to wait for these
        return packed

    stored = store.ensure(layers, archive)
    assert sorted(map(len, made.packed[:4])) == [5, 6, 7, 8]
    assert [each.layer for each in stored] == layers


def test_two_submitters_at_once(tmp_path: Path, made: MadeLayers) -> None:
    layer = made.layer("a")
    together = threading.Barrier(2)

    class Together(LocalFiles):
        def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
            def slowly() -> Iterator[bytes]:
                yield from chunks
                together.wait(60)

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


def test_a_lost_layer_is_uploaded_again(store: LayerStore, made: MadeLayers) -> None:
    [first] = store.ensure([made.layer("a")], made.archive)
    os.unlink(first.path)
    assert store.find(first.layer) is None
    [second] = store.ensure([first.layer], made.archive)
    assert Path(second.path).exists()


def test_a_truncated_layer_is_stored_again_under_a_new_path(
    store: LayerStore, made: MadeLayers
) -> None:
    [first] = store.ensure([made.layer("a")], made.archive)
    with open(first.path, "r+b") as file:
        file.truncate(first.size - 1)
    touched = os.stat(first.path)
    [second] = store.ensure([first.layer], made.archive)
    assert second.path != first.path
    assert second.size == first.size
    assert os.stat(first.path) == touched
    assert store.ensure([first.layer], made.archive) == [second]


def test_changed_bytes_are_found_by_verification(store: LayerStore, made: MadeLayers) -> None:
    [first] = store.ensure([made.layer("a")], made.archive)
    data = bytearray(Path(first.path).read_bytes())
    data[len(data) // 2] ^= 1
    Path(first.path).write_bytes(data)
    assert store.ensure([first.layer], made.archive)[0].path == first.path
    store.verify()
    [second] = store.ensure([first.layer], made.archive)
    assert second.path != first.path
    # From now on the good one is used, and the damaged file is still there.
    assert store.ensure([first.layer], made.archive) == [second]
    assert Path(first.path).read_bytes() == data


def test_an_upload_that_fails_leaves_nothing(store: LayerStore, made: MadeLayers) -> None:
    def fails(layer: Layer, sent: int, size: int) -> None:
        if sent:
            raise ConnectionError("no more")

    with pytest.raises(ConnectionError):
        store.ensure([made.layer("a")], made.archive, fails)
    assert [path for path in Path(store.root).rglob("*") if path.is_file()] == []


def test_the_mode_of_the_store_decides_the_visibility(tmp_path: Path, made: MadeLayers) -> None:
    open_root, closed_root = tmp_path / "open", tmp_path / "closed"
    open_root.mkdir(mode=0o755)
    private = LayerStore(LocalFiles(), str(closed_root), ME)
    [closed] = private.ensure([made.layer("a")], made.archive)
    assert closed.visibility is LayerVisibility.PRIVATE
    assert stat.S_IMODE(os.stat(closed.path).st_mode) == 0o600
    assert stat.S_IMODE(closed_root.stat().st_mode) == 0o700
    opened = LayerStore(_AllPass(), str(open_root), ME)
    [public] = opened.ensure([made.layer("a")], made.archive)
    assert public.visibility is LayerVisibility.PUBLIC
    assert stat.S_IMODE(os.stat(public.path).st_mode) == 0o644
    assert stat.S_IMODE(Path(public.path).parent.stat().st_mode) == 0o755
    # The file is readable, but a directory above it is closed.
    behind = LayerStore(LocalFiles(), str(open_root), ME)
    open_root.parent.chmod(0o700)
    assert behind.ensure([made.layer("a")], made.archive)[0].visibility is LayerVisibility.PRIVATE


@pytest.mark.parametrize("kind", [LayerKind.CODE, LayerKind.SETTINGS])
def test_code_and_settings_are_private_in_an_open_store(
    tmp_path: Path, made: MadeLayers, kind: LayerKind
) -> None:
    root = tmp_path / "open"
    root.mkdir(mode=0o755)
    store = LayerStore(_AllPass(), str(root), ME)
    [mine] = store.ensure([made.layer("mine", kind)], made.archive)
    assert mine.visibility is LayerVisibility.PRIVATE
    assert stat.S_IMODE(os.stat(mine.path).st_mode) == 0o600


class _AllPass(LocalFiles):
    """Reports directories as open to all; only their owner may enter those of tests."""

    def stat(self, path: str) -> FileStatus:
        status = super().stat(path)
        return replace(status, mode=status.mode | 0o001) if status.is_directory else status


def test_only_trusted_owners_count(tmp_path: Path, files: SharedFiles, made: MadeLayers) -> None:
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
    # Layers of an administrator are used as well.
    other = made.layer("b")
    LayerStore(files, str(root), "adm", ("root",)).ensure([other], made.archive)
    found = LayerStore(files, str(root), "ann", ("root", "adm")).find(other)
    assert found is not None
    assert found.path.startswith(f"{root}/adm/")


def test_a_layer_file_of_another_owner_is_not_used(
    store: LayerStore, files: SharedFiles, made: MadeLayers
) -> None:
    [first] = store.ensure([made.layer("a")], made.archive)
    files.owners[first.path] = "eve"
    [second] = store.ensure([first.layer], made.archive)
    assert second.path != first.path


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_store_in_which_others_can_replace_layers_is_refused(
    tmp_path: Path, made: MadeLayers, mode: int
) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(mode)
    store = LayerStore(LocalFiles(), f"{tmp_path}/store", ME)
    with pytest.raises(SettingsError, match="lets other users replace layers: its mode is 77"):
        store.ensure([made.layer("a")], made.archive)


def test_a_store_of_a_stranger_is_refused(
    store: LayerStore, files: SharedFiles, made: MadeLayers
) -> None:
    files.owners[store.root] = "eve"
    with pytest.raises(SettingsError, match="belongs to eve"):
        store.ensure([made.layer("a")], made.archive)


def test_a_store_that_others_can_replace_is_refused(
    tmp_path: Path, files: SharedFiles, made: MadeLayers
) -> None:
    above = tmp_path / "above"
    above.mkdir()
    store = LayerStore(files, f"{above}/store", ME)
    above.chmod(0o777)
    with pytest.raises(SettingsError, match="above can be written by others"):
        store.ensure([made.layer("a")], made.archive)
    above.chmod(0o755)
    files.owners = {store.root: ME, str(above): "eve"}
    with pytest.raises(SettingsError, match="above belongs to eve"):
        store.ensure([made.layer("a")], made.archive)


def test_my_directory_made_by_a_stranger_is_refused(
    store: LayerStore, files: SharedFiles, made: MadeLayers
) -> None:
    files.owners = {store.own_root: "eve", store.root: ME}
    with pytest.raises(SettingsError, match="should be yours alone, but belongs to eve"):
        store.ensure([made.layer("a")], made.archive)


def test_uploads_are_not_tried_for_ever(store: LayerStore, made: MadeLayers) -> None:
    class Taken(SharedFiles):
        def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
            raise FileExistsError(path)

    taken = LayerStore(Taken(), store.root, ME)
    with pytest.raises(RefusedError, match="other processes took each file name"):
        taken.ensure([made.layer("a")], made.archive)


def test_file_names_are_parsed() -> None:
    file_name = LayerFileName("ab" * 16, 3, 12345, "cd" * 8)
    assert LayerFileName.parse(file_name.name) == file_name
    assert LayerFileName.parse(file_name.name + REMOVAL_MARK) is None
    assert LayerFileName.parse("readme") is None


def test_a_store_that_is_opened_later_opens_its_directories(
    store: LayerStore, made: MadeLayers
) -> None:
    [private] = store.ensure([made.layer("a")], made.archive)
    os.chmod(store.root, 0o755)
    opened = LayerStore(store.files, store.root, ME)
    [public] = opened.ensure([made.layer("b")], made.archive)
    for folder in (Path(store.own_root), Path(private.path).parent, Path(public.path).parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE(os.stat(public.path).st_mode) == 0o644
    found = opened.find(private.layer)
    assert found is not None
    assert found.visibility is LayerVisibility.PRIVATE, "the file itself is not readable by others"


def test_a_damaged_layer_is_marked_and_stored_again(store: LayerStore, made: MadeLayers) -> None:
    layers = [made.layer("a"), made.layer("b")]
    broken, good = store.ensure(layers, made.archive)
    assert store.verify() == []
    os.chmod(broken.path, 0o600)
    Path(broken.path).write_bytes(b"x" * broken.size)
    assert store.find(layers[0]) is not None, "the size is unchanged"
    assert [found.path for found in store.verify()] == [broken.path]
    assert store.verify() == [], "it was returned before"
    assert Path(broken.path).exists(), "running jobs use it"
    repaired, same = store.ensure(layers, made.archive)
    assert repaired.path != broken.path
    assert same == good
    # Long after the last use, neither file is left.
    for path in (broken.path, repaired.path, good.path):
        age(path, 15 * DAY_MS)
    assert sorted(removed_paths(remove_unused_layers(store, not_running))) == sorted(
        [broken.path, repaired.path, good.path]
    )
    assert [path for path in Path(store.root).rglob("*") if path.is_file()] == []
