"""Archives of layers: reproducible, complete, and with bytecode that is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.packaging.file_trees import code, made, unpack
from ytf.errors import SettingsError
from ytf.packaging.archives import compile_modules, pack
from ytf.packaging.installation import current
from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layers import (
    LayerEntry,
    LayerKind,
    describe_layer,
    layer_content,
    walk,
)

NAMES = st.text(st.sampled_from("abcü é-_.'$ "), min_size=1, max_size=6).filter(
    lambda name: name.strip(".") != ""
)

TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=4).map("/".join),
    st.tuples(st.binary(max_size=3000), st.booleans()),
    max_size=12,
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
    assert describe_layer(after) == describe_layer(before)


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


def test_bytecode_is_valid_wherever_it_is_unpacked(tmp_path: Path) -> None:
    package = tmp_path / "a/lib/python3/site-packages"
    made(
        package,
        {"good.py": (b"import sys\nprint(__cached__)\n", False), "bad.py": (b"print 1\n", False)},
    )
    content = layer_content(LayerKind.CODE, "x", walk(str(tmp_path / "a")), current().bytecode)
    plain = layer_content(LayerKind.CODE, "x", walk(str(tmp_path / "a")))
    assert describe_layer(content).digest != describe_layer(plain).digest
    packed = LayerCache(tmp_path / "cache").archive(content)
    unpack(packed.path, tmp_path / "to")
    found = tmp_path / "to/lib/python3/site-packages"
    tag = sys.implementation.cache_tag
    assert os.listdir(found / "__pycache__") == [f"good.{tag}.pyc"]
    compiled = (found / f"__pycache__/good.{tag}.pyc").read_bytes()
    assert str(tmp_path).encode() not in compiled
    # The source is changed, and Python does not check it: so the bytecode runs.
    (found / "good.py").write_text("raise SystemExit('compiled anew')\n")
    command = [sys.executable, "-B", "-c", "import good"]
    output = subprocess.run(command, cwd=found, capture_output=True, text=True, check=True).stdout
    assert output.strip() == str(found / f"__pycache__/good.{tag}.pyc")


def test_an_interpreter_that_does_not_compile_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ntrue\n")
    python.chmod(0o755)
    (tmp_path / "a.py").write_text("x = 1\n")
    ours = current().bytecode
    assert ours is not None
    silent = msgspec.structs.replace(ours, python=str(python))
    entry = LayerEntry(path="lib/python3/a.py", source=str(tmp_path / "a.py"))
    content = layer_content(LayerKind.CODE, "x", [entry], silent)
    with pytest.raises(SettingsError, match="returned 0 of 1 modules"):
        compile_modules(content)
