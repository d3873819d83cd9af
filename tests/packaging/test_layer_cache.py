"""The cache of layers: unchanged files are neither read nor packed again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.packaging.file_trees import code, made
from ytf.errors import SettingsError
from ytf.packaging.layer_cache import LayerCache


def test_unchanged_files_are_neither_read_nor_packed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "a", {"x.py": (b"x = 1\n", False)})
    cache = LayerCache(tmp_path / "cache")
    first = cache.archive(code(tmp_path / "a"))
    layer = cache.describe(code(tmp_path / "a"))
    with monkeypatch.context() as never:
        never.setattr("ytf.packaging.layer_cache.describe_layer", pytest.fail)
        never.setattr("ytf.packaging.layer_cache.pack", pytest.fail)
        assert cache.describe(code(tmp_path / "a")) == layer
        assert cache.archive(code(tmp_path / "a")) == first
    (tmp_path / "a/x.py").write_bytes(b"x = 2\n")
    os.utime(tmp_path / "a/x.py", (5, 5))
    assert cache.describe(code(tmp_path / "a")).digest != layer.digest
    assert cache.archive(code(tmp_path / "a")).sha256 != first.sha256


def test_damaged_files_of_the_cache_are_made_again(tmp_path: Path) -> None:
    made(tmp_path / "a", {"x.py": (b"x = 1\n", False)})
    cache = LayerCache(tmp_path / "cache")
    first = cache.archive(code(tmp_path / "a"))
    for path in (tmp_path / "cache/index").iterdir():
        path.write_bytes(b"{")
    first.path.write_bytes(b"cut")
    assert cache.archive(code(tmp_path / "a")) == first
    assert first.path.stat().st_size == first.size


def test_files_that_are_removed_while_they_are_looked_up_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "a", {"x.py": (b"x = 1\n", False)})
    cache = LayerCache(tmp_path / "cache")
    first = cache.archive(code(tmp_path / "a"))
    layer = cache.describe(code(tmp_path / "a"))
    utime = os.utime

    def removed_first(path: Path) -> None:
        path.unlink()
        utime(path)

    with monkeypatch.context() as race:
        race.setattr("ytf.packaging.layer_cache.os.utime", removed_first)
        assert cache.describe(code(tmp_path / "a")) == layer
        assert cache.archive(code(tmp_path / "a")) == first
    assert first.path.exists()
    # The name is listed, but the file is gone when it is opened.
    first.path.unlink()
    first.path.symlink_to(tmp_path / "gone")
    assert cache.archive(code(tmp_path / "a")) == first


def test_files_that_were_not_used_for_long_are_removed(tmp_path: Path) -> None:
    made(tmp_path / "a", {"x.py": (b"x = 1\n", False)})
    cache = LayerCache(tmp_path / "cache")
    kept = cache.archive(code(tmp_path / "a")).path
    (tmp_path / "cache/archives/.packing-dead").mkdir()
    (tmp_path / "cache/archives/.packing-dead/layer").touch()
    cache.remove_unused()
    assert kept.exists()
    assert (tmp_path / "cache/archives/.packing-dead").exists()
    for path in (kept, kept.with_name(".packing-dead")):
        os.utime(path, (1, 1))
    size = kept.stat().st_size
    planned = cache.remove_unused(dryrun=True)
    assert sorted(planned) == sorted([(kept, size), (kept.with_name(".packing-dead"), 0)])
    assert kept.exists()
    assert sorted(cache.remove_unused()) == sorted(planned)
    assert os.listdir(tmp_path / "cache/archives") == []
    assert len(os.listdir(tmp_path / "cache/index")) == 1


def test_a_file_that_changes_before_it_is_packed_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "a", {"x.py": (b"x = 1\n", False)})
    before = code(tmp_path / "a")
    (tmp_path / "a/x.py").write_bytes(b"x = 12345\n")
    with pytest.raises(SettingsError, match=r"x\.py was changed while it was being packed"):
        LayerCache(tmp_path / "cache").archive(before)
    assert os.listdir(tmp_path / "cache/archives") == []
