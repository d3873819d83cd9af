"""The interpreter layer: what its ELF files need on a node, read from their bytes."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.packaging.tiny_elf import library
from ytf.packaging import installation
from ytf.packaging.interpreter_layer import Elf, glibc_version, make_interpreter, read_elf


def test_needs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.so"
    path.write_bytes(library(["libone.so.1", "libtwo.so"], "$ORIGIN/../two.libs", "2.34"))
    found = read_elf(path)
    assert found is not None
    assert found.needed == ("libone.so.1", "libtwo.so", "libc.so.6")
    assert found.run_path is not None
    assert found.run_path.text == "$ORIGIN/../two.libs"
    assert path.read_bytes()[found.run_path.offset :].startswith(b"$ORIGIN/../two.libs\0")
    assert glibc_version(found) == (2, 34)


def test_the_tiny_library_is_one_that_loads(tmp_path: Path) -> None:
    path = tmp_path / "a.so"
    path.write_bytes(library(glibc="2.2.5"))
    ctypes.CDLL(str(path))


def test_the_interpreter_needs_a_glibc() -> None:
    found = read_elf(Path(sys.executable).resolve())
    assert found is not None
    assert "libc.so.6" in found.needed
    assert glibc_version(found) >= (2, 2)


def test_glibc_versions_are_numbers_not_words() -> None:
    names = ("GLIBC_2.9", "GLIBC_2.17", "GLIBC_PRIVATE", "GLIBC_2.2.5")
    assert glibc_version(Elf((), {"libc.so.6": names}, None)) == (2, 17)
    assert glibc_version(Elf((), {}, None)) == ()


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01", b"\x7fELF\x02\x02"])
def test_other_files_are_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    assert read_elf(path) is None


def test_of_conda_the_whole_prefix_goes_along(tmp_path: Path) -> None:
    found = installation.current()
    version = f"python{found.version}"
    for path in (
        "conda-meta/history", "bin/ffmpeg", "lib/libav.so", f"lib/{version}/os.py",
        f"lib/{version}/lib2to3/x.py", f"lib/{version}/ensurepip/x.whl",
        f"lib/{version}/test/x.py", f"lib/{version}/site-packages/x.py",
        f"include/{version}/Python.h", "include/av.h", f"include/x86_64/{version}/pyconfig.h",
        "man/x.1", "pkgs/x", "lib/libx.a",
    ):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    made = make_interpreter(
        msgspec.structs.replace(
            found,
            prefix=str(tmp_path),
            base_prefix=str(tmp_path),
            stdlib=str(tmp_path / "lib" / version),
            library="",
        )
    )
    assert made.has_programs
    assert {entry.path for entry in made.content.entries} == {
        "bin/ffmpeg", "bin/python", "bin/python3", f"bin/{version}", "lib/libav.so",
        f"lib/{version}/os.py", f"lib/{version}/lib2to3/x.py", f"lib/{version}/ensurepip/x.whl",
        f"include/{version}/Python.h", f"include/{version}/pyconfig.h",
    }  # fmt: skip


WHOLE = library(["libone.so.1"], "$ORIGIN", "2.34")


@given(
    cut=st.integers(8, len(WHOLE)),
    changes=st.lists(st.tuples(st.integers(8, len(WHOLE) - 1), st.integers(0, 255)), max_size=8),
)
def test_a_damaged_file_never_raises(
    tmp_path_factory: pytest.TempPathFactory, cut: int, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(WHOLE)
    for at, value in changes:
        data[at] = value
    path = tmp_path_factory.getbasetemp() / "damaged.so"
    path.write_bytes(data[:cut])
    assert isinstance(read_elf(path), Elf | None)
