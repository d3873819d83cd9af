"""Layers: one name for the same content, and archives that give it back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ytf.errors import InternalError, SettingsError
from ytf.packaging.archives import pack
from ytf.packaging.cache import LayerCache
from ytf.packaging.installation import current
from ytf.packaging.layers import Content, Entry, LayerKind, content, describe, target_inside
from ytf.packaging.walking import walk

NAMES = st.text(st.sampled_from("abcü é-_.'$ "), min_size=1, max_size=6).filter(
    lambda name: name.strip(".") != ""
)
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=4).map("/".join),
    st.tuples(st.binary(max_size=3000), st.booleans()),
    max_size=12,
)


def made(root: Path, tree: dict[str, tuple[bytes, bool]]) -> dict[str, tuple[bytes, bool]]:
    """Write a tree of files; what of it could be written (a file may be in another's way)."""
    written = {}
    for name, (data, executable) in sorted(tree.items()):
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except (NotADirectoryError, FileExistsError, IsADirectoryError):
            continue
        path.chmod(0o755 if executable else 0o644)
        written[name] = (data, executable)
    return written


def code(root: Path) -> Content:
    return content(LayerKind.CODE, "x", walk(str(root)))


def unpack(archive: Path, into: Path) -> None:
    # As FileUtil.unTarUsingTar does on a node.
    into.mkdir(parents=True)
    subprocess.run(
        ["sh", "-c", 'gzip -dc "$0" | (cd "$1" && tar -x)', archive, into], check=True, timeout=60
    )


@settings(max_examples=25, deadline=None)
@given(tree=TREES)
def test_unpacking_gives_the_content_back(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, tuple[bytes, bool]]
) -> None:
    tmp_path = tmp_path_factory.mktemp("tree")
    written = made(tmp_path / "from", tree) if tree else {}
    (tmp_path / "from").mkdir(exist_ok=True)
    before = code(tmp_path / "from")
    packed = pack(list(before.entries), tmp_path / "a.tar.gz")
    unpack(packed.path, tmp_path / "to")
    after = code(tmp_path / "to")
    assert {entry.path for entry in after.entries} == set(written)
    assert describe(after) == describe(before)


def test_the_name_follows_from_the_content_alone(tmp_path: Path) -> None:
    tree = {"a/b.py": (b"x = 1\n", False), "a/run": (b"#!/bin/sh\n", True)}
    for name in ("one", "two"):
        made(tmp_path / name, tree)
    os.utime(tmp_path / "two/a/b.py", (1, 1))
    (tmp_path / "two/a/b.py").chmod(0o600)
    one, two = (describe(code(tmp_path / name)) for name in ("one", "two"))
    assert one == two
    assert (one.size, one.files, one.native) == (16, 2, ())
    for path, data, mode in (("a/b.py", b"x = 2\n", 0o644), ("a/run", b"#!/bin/sh\n", 0o644)):
        other = made(tmp_path / path.replace("/", "-"), tree)
        assert other
        root = tmp_path / path.replace("/", "-")
        (root / path).write_bytes(data)
        (root / path).chmod(mode)
        assert describe(code(root)).digest != one.digest


def test_the_same_archive_of_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "a", {"big": (os.urandom(3 << 20) + bytes(3 << 20), False), "b": (b"", True)})
    entries = list(code(tmp_path / "a").entries)
    one = pack(entries, tmp_path / "1.tar.gz")
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    two = pack(entries[::-1], tmp_path / "2.tar.gz")
    assert one.path.read_bytes() == two.path.read_bytes()
    assert (one.size, one.sha256) == (two.size, two.sha256)
    assert one.size == one.path.stat().st_size
    assert one.size < 4 << 20


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
    layer = describe(code(root))
    assert layer.native == ("lib",)
    unpack(pack(list(code(root).entries), tmp_path / "a.tar.gz").path, tmp_path / "to")
    assert os.readlink(tmp_path / "to/lib/x.so") == "x.so.1"
    assert (tmp_path / "to/out").read_bytes() == b"outside"


@pytest.mark.parametrize("path", ["/abs", "../out", "a/../../b", "", ".", "a//b", "./a", "a/."])
def test_no_path_leaves_the_layer(path: str) -> None:
    with pytest.raises(InternalError):
        content(LayerKind.CODE, "x", [Entry(path=path, data=b"")])


def test_no_path_twice() -> None:
    with pytest.raises(InternalError):
        content(LayerKind.CODE, "x", [Entry(path="a", data=b""), Entry(path="a", data=b"")])


def test_where_links_lead() -> None:
    assert target_inside("a/b/c", "../d") == "a/d"
    assert target_inside("a/b", "../../d") is None
    assert target_inside("a", "/etc/passwd") is None


def test_unchanged_files_are_neither_read_nor_packed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "a", {"x.py": (b"x = 1\n", False)})
    cache = LayerCache(tmp_path / "cache")
    first = cache.archive(code(tmp_path / "a"))
    layer = cache.describe(code(tmp_path / "a"))
    with monkeypatch.context() as never:
        never.setattr("ytf.packaging.cache.describe", pytest.fail)
        never.setattr("ytf.packaging.cache.pack", pytest.fail)
        assert cache.describe(code(tmp_path / "a")) == layer
        assert cache.archive(code(tmp_path / "a")) == first
    (tmp_path / "a/x.py").write_bytes(b"x = 2\n")
    os.utime(tmp_path / "a/x.py", (5, 5))
    assert cache.describe(code(tmp_path / "a")).digest != layer.digest
    assert cache.archive(code(tmp_path / "a")).sha256 != first.sha256


def test_a_damaged_cache_is_as_good_as_none(tmp_path: Path) -> None:
    made(tmp_path / "a", {"x.py": (b"x = 1\n", False)})
    cache = LayerCache(tmp_path / "cache")
    first = cache.archive(code(tmp_path / "a"))
    for path in (tmp_path / "cache/index").iterdir():
        path.write_bytes(b"{")
    first.path.write_bytes(b"cut")
    assert cache.archive(code(tmp_path / "a")) == first
    assert first.path.stat().st_size == first.size


def test_what_is_swept_while_it_is_found_was_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "a", {"x.py": (b"x = 1\n", False)})
    cache = LayerCache(tmp_path / "cache")
    first = cache.archive(code(tmp_path / "a"))
    layer = cache.describe(code(tmp_path / "a"))
    utime = os.utime

    def swept(path: Path) -> None:
        path.unlink()
        utime(path)

    with monkeypatch.context() as race:
        race.setattr("ytf.packaging.cache.os.utime", swept)
        assert cache.describe(code(tmp_path / "a")) == layer
        assert cache.archive(code(tmp_path / "a")) == first
    assert first.path.exists()
    # As its name is listed, it is there; when it is looked at, no longer.
    first.path.unlink()
    first.path.symlink_to(tmp_path / "gone")
    assert cache.archive(code(tmp_path / "a")) == first


def test_what_was_not_used_for_long_goes(tmp_path: Path) -> None:
    made(tmp_path / "a", {"x.py": (b"x = 1\n", False)})
    cache = LayerCache(tmp_path / "cache")
    kept = cache.archive(code(tmp_path / "a")).path
    (tmp_path / "cache/archives/.packing-dead").mkdir()
    (tmp_path / "cache/archives/.packing-dead/layer").touch()
    cache.sweep()
    assert kept.exists()
    assert (tmp_path / "cache/archives/.packing-dead").exists()
    for path in (kept, kept.with_name(".packing-dead")):
        os.utime(path, (1, 1))
    size = kept.stat().st_size
    told = cache.sweep(dryrun=True)
    assert sorted(told) == sorted([(kept, size), (kept.with_name(".packing-dead"), 0)])
    assert kept.exists()
    assert sorted(cache.sweep()) == sorted(told)
    assert os.listdir(tmp_path / "cache/archives") == []
    assert len(os.listdir(tmp_path / "cache/index")) == 1


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "a", {"x.py": (b"x = 1\n", False)})
    before = code(tmp_path / "a")
    (tmp_path / "a/x.py").write_bytes(b"x = 12345\n")
    with pytest.raises(SettingsError, match=r"x\.py was changed while it was being packed"):
        LayerCache(tmp_path / "cache").archive(before)
    assert os.listdir(tmp_path / "cache/archives") == []


def test_modules_are_compiled_for_wherever_they_land(tmp_path: Path) -> None:
    package = tmp_path / "a/lib/python3/site-packages"
    made(
        package,
        {"good.py": (b"import sys\nprint(__cached__)\n", False), "bad.py": (b"print 1\n", False)},
    )
    what = content(LayerKind.CODE, "x", walk(str(tmp_path / "a")), current().bytecode)
    plain = content(LayerKind.CODE, "x", walk(str(tmp_path / "a")))
    assert describe(what).digest != describe(plain).digest
    packed = LayerCache(tmp_path / "cache").archive(what)
    unpack(packed.path, tmp_path / "to")
    found = tmp_path / "to/lib/python3/site-packages"
    tag = sys.implementation.cache_tag
    assert os.listdir(found / "__pycache__") == [f"good.{tag}.pyc"]
    compiled = (found / f"__pycache__/good.{tag}.pyc").read_bytes()
    assert str(tmp_path).encode() not in compiled
    # Its source changes, and nobody asks: so it is the bytecode that runs.
    (found / "good.py").write_text("raise SystemExit('compiled anew')\n")
    command = [sys.executable, "-B", "-c", "import good"]
    said = subprocess.run(command, cwd=found, capture_output=True, text=True, check=True).stdout
    assert said.strip() == str(found / f"__pycache__/good.{tag}.pyc")
