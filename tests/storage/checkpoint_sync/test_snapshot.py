"""Which versions of files make a snapshot; what is read of a manifest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.storage.checkpoint_sync.snapshot import (
    BadManifestError,
    DirectoryHistory,
    FileVersion,
    SnapshotManifest,
    SyncedFile,
    decode,
    encode,
    in_writing_order,
)

NOW = 1000


def version(mtime_ns: int, size: int = 1) -> FileVersion:
    return FileVersion(size=size, mtime_ns=mtime_ns, inode=1, mode=0o644)


def synced(mtime_ns: int, size: int = 1) -> SyncedFile:
    return SyncedFile(size=size, mtime_ns=mtime_ns, mode=0o644, crc=0)


def test_what_was_written_after_the_cut_keeps_its_last_version() -> None:
    history = DirectoryHistory()
    history.update(
        {"a": version(10), "b": version(20), "c": version(30)}, {"c": synced(5)}, NOW, NOW
    )
    known = {"c": synced(5)}
    assert history.uploads(known, 25) == ["a", "b"]
    uploaded = {"a": synced(10), "b": synced(20), "c": synced(30)}
    snapshot = history.snapshot(known, uploaded, 25)
    assert {name: file.mtime_ns for name, file in snapshot.items()} == {"a": 10, "b": 20, "c": 5}


def test_a_version_that_was_not_uploaded_is_left_out() -> None:
    history = DirectoryHistory()
    history.update({"a": version(10), "b": version(20)}, {}, NOW, NOW)
    assert set(history.snapshot({}, {"a": synced(9), "b": synced(20)}, 25)) == {"b"}


def test_what_vanished_stays_up_to_the_time_at_which_it_was_missed() -> None:
    history = DirectoryHistory()
    known = {"old": synced(1)}
    history.update({"new": version(900)}, known, NOW, NOW)
    assert set(history.snapshot(known, {"new": synced(900)}, 899)) == {"old"}
    assert set(history.snapshot(known, {"new": synced(900)}, NOW - 1)) == {"old", "new"}
    assert set(history.snapshot(known, {"new": synced(900)}, NOW)) == {"new"}
    # What comes back was not missed.
    history.update({"new": version(900), "old": version(1)}, known, NOW + 1, NOW + 1)
    history.update({"new": version(900)}, known, NOW + 2, NOW + 2)
    assert "old" in history.snapshot(known, {"new": synced(900)}, NOW + 1)


def test_a_file_and_a_directory_of_one_name_are_in_no_snapshot() -> None:
    history = DirectoryHistory()
    known = {"a/b/c": synced(1), "d": synced(1), "e": synced(1)}
    history.update({"a": version(900), "d/f": version(900)}, known, NOW, NOW)
    uploaded = {"a": synced(900), "d/f": synced(900)}
    assert set(history.snapshot(known, uploaded, 899)) == {"a/b/c", "d", "e"}
    assert set(history.snapshot(known, uploaded, 900)) == {"a", "d/f", "e"}


def test_a_file_from_the_future_counts_from_when_it_was_seen() -> None:
    history = DirectoryHistory()
    history.update({"a": version(5000)}, {}, NOW, NOW)
    history.update({"a": version(5000)}, {}, NOW + 500, NOW + 500)
    assert history.uploads({}, NOW - 1) == []
    assert history.uploads({}, NOW) == ["a"]


def test_a_file_that_grows_is_taken_as_it_is() -> None:
    history = DirectoryHistory()
    name = "logs/events.out.tfevents.1700000000.host"
    history.update({name: version(NOW, size=7)}, {name: synced(900, size=5)}, NOW, NOW)
    assert history.uploads({name: synced(900, size=5)}, 0) == [name]
    snapshot = history.snapshot({name: synced(900, size=5)}, {name: synced(950, size=6)}, 0)
    assert snapshot[name].size == 6


def test_files_of_one_moment_come_in_the_order_of_tensorflow() -> None:
    names = ["checkpoint", "ckpt-1.data-00000-of-00001", "ckpt-1.index", "later"]
    files = {name: synced(6 if name == "later" else 5) for name in names}
    assert in_writing_order(files) == [names[1], names[2], names[0], "later"]


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: "/" not in name and "\0" not in name and name not in (".", "..")
)


@given(st.dictionaries(names, st.integers(0, 2**60)), st.lists(names))
def test_a_manifest_is_read_as_it_was_written(sizes: dict[str, int], removed: list[str]) -> None:
    files = {f"d/{name}": synced(5, size) for name, size in sizes.items()}
    manifest = SnapshotManifest(files=files, removed=tuple(removed))
    assert decode(encode(manifest)) == manifest


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../x", "a/../../x", "", "a//b", "./a", "a/", "a\0b", ".ytf-sync/claim-9/x"],
)
def test_no_name_leads_out_of_the_directory(name: str) -> None:
    for manifest in (
        SnapshotManifest(files={name: synced(1)}),
        SnapshotManifest(files={}, removed=(name,)),
    ):
        with pytest.raises(BadManifestError):
            decode(encode(manifest))


@pytest.mark.parametrize(
    "change",
    [{"size": -1}, {"size": "1"}, {"crc": None}, {"upload": "../../x"}, {"upload": "files/x"},
     {"mode": True}, {"more": 1}],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(change: dict[str, object]) -> None:
    value = json.loads(encode(SnapshotManifest(files={"a": synced(1)})))
    value["files"]["a"].update(change)
    with pytest.raises(BadManifestError):
        decode(json.dumps(value).encode())


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"{}", b'{"version": 2}', b"\xff", b"null",
             b"[" * 100_000, b"1" * 5_000],
)  # fmt: skip
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BadManifestError):
        decode(data)
