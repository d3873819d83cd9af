"""Trees of files for tests of layers: written, as contents of layers, and unpacked."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ytf.packaging.layers import (
    LayerContent,
    LayerKind,
    layer_content,
    walk,
)


def made(root: Path, tree: dict[str, tuple[bytes, bool]]) -> dict[str, tuple[bytes, bool]]:
    """Write a tree of files; return those that could be written (names may collide)."""
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


def code(root: Path) -> LayerContent:
    """The files below a directory as the content of a layer."""
    return layer_content(LayerKind.CODE, "x", walk(str(root)))


def unpack(archive: Path, into: Path) -> None:
    """Unpack an archive as FileUtil.unTarUsingTar does on a node."""
    into.mkdir(parents=True)
    subprocess.run(
        ["sh", "-c", 'gzip -dc "$0" | (cd "$1" && tar -x)', archive, into], check=True, timeout=60
    )
