"""Packing that is cancelled ends at once and leaves nothing behind."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ytf.packaging import archives
from ytf.packaging.installation import current
from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layers import LayerContent, LayerEntry, LayerKind, layer_content
from ytf.testing.waiting import eventually

BIG = 8 << 20


class CancelledError(Exception):
    """Raised to cancel."""


def cancel_after(times: int) -> Callable[[], None]:
    left = iter(range(times))

    def check_cancelled() -> None:
        if next(left, None) is None:
            raise CancelledError

    return check_cancelled


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


@pytest.fixture
def big(tmp_path: Path) -> LayerContent:
    """One file that is read in many pieces and packed in many blocks."""
    source = tmp_path / "big"
    source.write_bytes(os.urandom(BIG))
    return layer_content(LayerKind.CODE, "big", [LayerEntry(path="big", source=str(source))])


def test_reading_ends_at_the_next_piece(tmp_path: Path, big: LayerContent) -> None:
    with pytest.raises(CancelledError):
        LayerCache(tmp_path / "cache", cancel_after(2)).describe(big)
    assert files_below(tmp_path / "cache") == []


def test_packing_ends_at_the_next_block(tmp_path: Path, big: LayerContent) -> None:
    LayerCache(tmp_path / "cache").describe(big)
    [known] = files_below(tmp_path / "cache")
    with pytest.raises(CancelledError):
        LayerCache(tmp_path / "cache", cancel_after(2)).archive(big)
    assert files_below(tmp_path / "cache") == [known]
    assert os.listdir(tmp_path / "cache/archives") == []


def test_cancelled_compilation_ends_its_interpreters(tmp_path: Path) -> None:
    module = tmp_path / "lib/python3/a.py"
    module.parent.mkdir(parents=True)
    module.write_text("x = 1\n")
    python = tmp_path / "python"
    pid = tmp_path / "pid"
    python.write_text(f'#!/bin/sh\necho $$ > "{pid}.new"\nmv "{pid}.new" "{pid}"\nexec sleep 600\n')
    python.chmod(0o755)
    ours = current().bytecode
    assert ours is not None
    hanging = msgspec.structs.replace(ours, python=str(python))
    entry = LayerEntry(path="lib/python3/a.py", source=str(module))
    what = layer_content(LayerKind.CODE, "x", [entry], hanging)
    cancelled, ended = threading.Event(), threading.Event()

    def check_cancelled() -> None:
        if cancelled.is_set():
            raise CancelledError

    def compiling() -> None:
        with pytest.raises(CancelledError):
            LayerCache(tmp_path / "cache", check_cancelled).archive(what)
        ended.set()

    thread = threading.Thread(target=compiling)
    thread.start()
    try:
        eventually(pid.exists, 60, "the interpreter to run")
    finally:
        cancelled.set()
        thread.join(10)
    assert ended.is_set()
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}")
    assert os.listdir(tmp_path / "cache/archives") == []


def test_a_compilation_with_many_cancellation_checks_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_CANCELLATION_CHECK_S", 0.001)
    # More input for the interpreter than a pipe holds.
    folder = tmp_path / "lib/python3" / ("long" * 50)
    folder.mkdir(parents=True)
    entries = []
    for number in range(300):
        module = folder / f"m{number}.py"
        module.write_text(f"x = {number}\n")
        entries.append(LayerEntry(path=str(module.relative_to(tmp_path)), source=str(module)))
    what = layer_content(LayerKind.CODE, "x", entries, current().bytecode)
    made = archives.compile_modules(what)
    assert len(made) == 300
    assert all(sys.implementation.cache_tag in entry.path for entry in made)
