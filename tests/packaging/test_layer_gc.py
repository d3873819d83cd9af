"""Garbage collection of layers: unused layers are removed in time, used ones never."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.packaging.stored_layers import (
    ME,
    MadeLayers,
    SharedFiles,
    age,
    layers_in,
    not_running,
    removed_paths,
)
from ytf.packaging import layer_gc
from ytf.packaging.layer_gc import DAY_MS, HOUR_MS, remove_unused_layers
from ytf.packaging.layer_store import (
    REMOVAL_MARK,
    LayerStore,
)
from ytf.storage.files import FileStatus, temporary_beside
from ytf.storage.local_files import LocalFiles


def test_unused_layers_are_collected_after_their_time(store: LayerStore, made: MadeLayers) -> None:
    old, used, young = (made.layer(text) for text in "abc")
    store.declare_use("job_1", [used])
    stored = store.ensure([old, used, young], made.archive)
    for s in stored[:2]:
        age(s.path, 2 * HOUR_MS)
    done = remove_unused_layers(store, not_running)
    assert [(each.path, each.size) for each in done.layers] == [(stored[0].path, stored[0].size)]
    assert layers_in(store) == sorted(Path(s.path) for s in stored[1:])
    assert [*Path(store.root).rglob(f"*{REMOVAL_MARK}")] == []


def test_a_use_lasts_while_the_job_runs_and_some_time_after(
    store: LayerStore, made: MadeLayers
) -> None:
    layer = made.layer("a")
    store.declare_use("application_1_0001", [layer])
    store.declare_use("application_1_0001", [layer])
    [stored] = store.ensure([layer], made.archive)
    [use] = Path(store.own_root, "uses").iterdir()
    age(stored.path, 30 * DAY_MS)
    assert remove_unused_layers(store, not_running).layers == ()
    age(use, 15 * DAY_MS)
    asked = []

    def runs(job: str) -> bool:
        asked.append(job)
        return True

    assert remove_unused_layers(store, runs).layers == ()
    assert asked == ["application_1_0001"]
    done = remove_unused_layers(store, not_running)
    assert (removed_paths(done), len(done.leftovers)) == ([stored.path], 1)
    assert not use.exists()


def test_files_of_killed_commands_are_removed_after_a_day(
    store: LayerStore, made: MadeLayers
) -> None:
    [stored] = store.ensure([made.layer("a")], made.archive)
    dead, alive = (Path(temporary_beside(stored.path)) for _ in range(2))
    mark = Path(stored.path + REMOVAL_MARK)
    for path in (dead, alive, mark):
        path.touch()
    for path in (dead, mark):
        age(path, 25 * HOUR_MS)
    assert store.find(stored.layer) is None
    assert len(remove_unused_layers(store, not_running).leftovers) == 2
    assert (dead.exists(), alive.exists(), mark.exists()) == (False, True, False)
    assert store.find(stored.layer) == stored


def test_a_submission_in_the_middle_of_a_collection(tmp_path: Path, made: MadeLayers) -> None:
    """At whatever moment the submission happens, its layer is not removed."""
    for moment in range(20):
        outcome = _race(tmp_path / str(moment), made, moment)
        if outcome is None:
            assert moment > 6
            return
        assert Path(outcome).exists(), moment
    pytest.fail("the collection never ended")


def _race(folder: Path, made: MadeLayers, moment: int) -> str | None:
    """Submit just before call number ``moment`` of the collection; return the path of the layer."""
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
                submitter.declare_use("job_1", [layer])
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

    remove_unused_layers(LayerStore(Interrupted(), root, ME), not_running)
    return got[0] if got else None


def test_a_dry_run_returns_the_same_and_removes_nothing(
    store: LayerStore, made: MadeLayers
) -> None:
    [stored] = store.ensure([made.layer("a")], made.archive)
    dead = Path(temporary_beside(stored.path))
    dead.touch()
    for path in (dead, stored.path):
        age(path, 15 * DAY_MS)
    before = sorted(Path(store.root).rglob("*"))
    planned = remove_unused_layers(store, not_running, dryrun=True)
    assert sorted(Path(store.root).rglob("*")) == before
    assert (removed_paths(planned), len(planned.leftovers)) == ([stored.path], 1)
    assert remove_unused_layers(store, not_running) == planned


def test_a_collection_of_an_administrator_reads_the_uses_of_all_users(
    tmp_path: Path, files: SharedFiles, made: MadeLayers
) -> None:
    root = tmp_path / "store"
    root.mkdir()
    root.chmod(0o1777)
    files.owners = {f"{root}/{name}": name for name in ("ann", "adm")} | {str(root): "adm"}
    layer = made.layer("a")
    admin = LayerStore(files, str(root), "adm", ("adm",))
    [stored] = admin.ensure([layer], made.archive)
    age(stored.path, 2 * HOUR_MS)
    LayerStore(files, str(root), "ann", ("adm",)).declare_use("job_1", [layer])
    assert remove_unused_layers(admin, not_running).layers == ()
    for use in (root / "ann/uses").iterdir():
        use.unlink()
    assert removed_paths(remove_unused_layers(admin, not_running)) == [stored.path]


def test_no_use_of_a_user_ends_the_collection_or_replaces_anothers(
    tmp_path: Path, files: SharedFiles, made: MadeLayers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_gc, "_MOST_USED_BYTES", 1000)
    root = tmp_path / "store"
    root.mkdir()
    root.chmod(0o1777)
    names = ("adm", "ann", "mallory", "zoe")
    files.owners = {f"{root}/{name}": name for name in names} | {str(root): "adm"}
    layer = made.layer("a")
    admin = LayerStore(files, str(root), "adm", ("adm",))
    [stored] = admin.ensure([layer], made.archive)
    age(stored.path, 2 * HOUR_MS)
    LayerStore(files, str(root), "zoe", ("adm",)).declare_use("job_1", [layer])
    [use] = (root / "zoe" / "uses").iterdir()
    theirs = root / "mallory" / "uses"
    theirs.mkdir(parents=True)
    (theirs / "job_1.bytes").write_bytes(b"\xff" * 50)
    (theirs / "job_2.long").write_bytes(b"a" * 1_000_000)
    # By its name it lists the same layers.
    (theirs / use.name).write_bytes(b"")
    files.bytes_read = 0
    assert remove_unused_layers(admin, not_running).layers == ()
    assert files.bytes_read < 10_000
