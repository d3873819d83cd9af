"""Packing that is given up half-way: it ends at once, and nothing of it is left."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ytf.packaging import bytecode
from ytf.packaging.cache import LayerCache
from ytf.packaging.installation import current
from ytf.packaging.layers import Content, Entry, LayerKind, content
from ytf.testing.waiting import eventually

BIG = 8 << 20


class GivenUpError(Exception):
    """Raised by whoever gives up."""


def give_up_after(times: int) -> Callable[[], None]:
    left = iter(range(times))

    def going() -> None:
        if next(left, None) is None:
            raise GivenUpError

    return going


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


@pytest.fixture
def big(tmp_path: Path) -> Content:
    """One file that takes many pieces to read, and blocks to pack."""
    source = tmp_path / "big"
    source.write_bytes(os.urandom(BIG))
    return content(LayerKind.CODE, "big", [Entry(path="big", source=str(source))])


def test_reading_ends_at_the_next_piece(tmp_path: Path, big: Content) -> None:
    with pytest.raises(GivenUpError):
        LayerCache(tmp_path / "cache", give_up_after(2)).describe(big)
    assert files_below(tmp_path / "cache") == []


def test_packing_ends_at_the_next_block(tmp_path: Path, big: Content) -> None:
    LayerCache(tmp_path / "cache").describe(big)
    [known] = files_below(tmp_path / "cache")
    with pytest.raises(GivenUpError):
        LayerCache(tmp_path / "cache", give_up_after(2)).archive(big)
    assert files_below(tmp_path / "cache") == [known]
    assert os.listdir(tmp_path / "cache/archives") == []


def test_compiling_ends_with_its_interpreters(tmp_path: Path) -> None:
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
    entry = Entry(path="lib/python3/a.py", source=str(module))
    what = content(LayerKind.CODE, "x", [entry], hanging)
    given_up, ended = threading.Event(), threading.Event()

    def going() -> None:
        if given_up.is_set():
            raise GivenUpError

    def compiling() -> None:
        with pytest.raises(GivenUpError):
            LayerCache(tmp_path / "cache", going).archive(what)
        ended.set()

    thread = threading.Thread(target=compiling)
    thread.start()
    try:
        eventually(pid.exists, 10, "the interpreter to run")
    finally:
        given_up.set()
        thread.join(10)
    assert ended.is_set()
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}")
    assert os.listdir(tmp_path / "cache/archives") == []


def test_a_compilation_that_takes_many_looks_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "_LOOK_S", 0.001)
    # More than a pipe holds, had it to hold what the interpreter is to read.
    folder = tmp_path / "lib/python3" / ("long" * 50)
    folder.mkdir(parents=True)
    entries = []
    for number in range(300):
        module = folder / f"m{number}.py"
        module.write_text(f"x = {number}\n")
        entries.append(Entry(path=str(module.relative_to(tmp_path)), source=str(module)))
    what = content(LayerKind.CODE, "x", entries, current().bytecode)
    (tmp_path / "out").mkdir()
    made = bytecode.compile_modules(what, tmp_path / "out")
    assert len(made) == 300
    assert all(sys.implementation.cache_tag in entry.path for entry in made)
