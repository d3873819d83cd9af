"""Layers: equal content has one digest, and links are kept or followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.packaging.file_trees import code, made, unpack
from ytf.errors import InternalError
from ytf.packaging.archives import pack
from ytf.packaging.layers import (
    LayerEntry,
    LayerKind,
    describe_layer,
    layer_content,
    target_inside,
    walk,
)


def test_the_name_follows_from_the_content_alone(tmp_path: Path) -> None:
    tree = {"a/b.py": (b"x = 1\n", False), "a/run": (b"#!/bin/sh\n", True)}
    for name in ("one", "two"):
        made(tmp_path / name, tree)
    os.utime(tmp_path / "two/a/b.py", (1, 1))
    (tmp_path / "two/a/b.py").chmod(0o600)
    one, two = (describe_layer(code(tmp_path / name)) for name in ("one", "two"))
    assert one == two
    assert (one.size, one.native) == (16, ())
    for path, data, mode in (("a/b.py", b"x = 2\n", 0o644), ("a/run", b"#!/bin/sh\n", 0o644)):
        other = made(tmp_path / path.replace("/", "-"), tree)
        assert other
        root = tmp_path / path.replace("/", "-")
        (root / path).write_bytes(data)
        (root / path).chmod(mode)
        assert describe_layer(code(root)).digest != one.digest


def test_links(tmp_path: Path) -> None:
    root = tmp_path / "a"
    made(root, {"lib/x.so.1": (b"\x7fELF...", False), "lib/deep/y": (b"y", False)})
    made(tmp_path / "out", {"file": (b"outside", False), "folder/z": (b"z", False)})
    (root / "lib/x.so").symlink_to("x.so.1")
    (root / "lib/up").symlink_to("../lib/deep/y")
    (root / "out").symlink_to(tmp_path / "out/file")
    (root / "folder").symlink_to(tmp_path / "out/folder")
    (root / "circle").symlink_to(tmp_path)
    (root / "nowhere").symlink_to("none")
    entries = {entry.path: entry for entry in walk(str(root))}
    links = {path: entry.target for path, entry in entries.items() if entry.target}
    assert links == {"lib/x.so": "x.so.1", "lib/up": "../lib/deep/y"}
    assert {"out", "folder/z", "lib/x.so.1"} < set(entries)
    assert "nowhere" not in entries
    assert not any(path.startswith("circle") for path in entries)
    layer = describe_layer(code(root))
    assert layer.native == ("lib",)
    unpack(pack(list(code(root).entries), tmp_path / "a.tar.gz").path, tmp_path / "to")
    assert os.readlink(tmp_path / "to/lib/x.so") == "x.so.1"
    assert (tmp_path / "to/out").read_bytes() == b"outside"


def test_empty_directories_count_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a/empty").mkdir(parents=True)
    (tmp_path / "a/only compiled/__pycache__").mkdir(parents=True)
    (tmp_path / "file").touch()

    def digest(entries: list[LayerEntry]) -> str:
        return describe_layer(layer_content(LayerKind.CODE, "x", entries)).digest

    without, found = walk(str(tmp_path)), walk(str(tmp_path), empty_directories=True)
    assert [entry.path for entry in without] == ["file"]
    assert {entry.path: entry.is_directory for entry in found} == {"file": False, "a/empty": True}
    assert digest(without) != digest(found)


@pytest.mark.parametrize("path", ["/abs", "../out", "a/../../b", "", ".", "a//b", "./a", "a/."])
def test_no_path_leaves_the_layer(path: str) -> None:
    with pytest.raises(InternalError):
        layer_content(LayerKind.CODE, "x", [LayerEntry(path=path, data=b"")])


def test_no_path_twice() -> None:
    with pytest.raises(InternalError):
        layer_content(
            LayerKind.CODE, "x", [LayerEntry(path="a", data=b""), LayerEntry(path="a", data=b"")]
        )


def test_where_links_lead() -> None:
    assert target_inside("a/b/c", "../d") == "a/d"
    assert target_inside("a/b", "../../d") is None
    assert target_inside("a", "/etc/passwd") is None
