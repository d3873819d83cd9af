"""How an environment is put together from its layers, decided before it travels.

A directory of one layer without machine code below it is one link. Where a
library lies, directories are real and each file is a link: the loader takes
``$ORIGIN`` from the path a library was opened by, and the ``..`` after it must
lead through the environment and not through the layer. A directory that
several layers share is real as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from ytf.packaging.interpreter import Interpreter
from ytf.packaging.layers import Content, Layer, compiled_path

Tree: TypeAlias = "dict[str, int | Tree]"
"""Names: a number is a link into the layer of that number, a tree is a directory."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What ``starter/assembly.py`` reads. Layers are named by their digests."""

    version: int = 1
    layers: tuple[str, ...]
    interpreter: str
    """The digest of the interpreter's layer, which is not in ``layers``."""
    executable: str
    """The interpreter, below its layer."""
    library_path: bool
    python: str
    tree: dict[str, object]

    def encode(self) -> bytes:
        """The file that travels, the same for the same environment."""
        return msgspec.json.encode(self, order="sorted")

    @property
    def digest(self) -> str:
        """Names the environment: of what it is made, and how."""
        return hashlib.sha256(self.encode()).hexdigest()


def manifest(
    interpreter: Interpreter,
    interpreter_layer: Layer,
    contents: Sequence[Content],
    layers: Sequence[Layer],
) -> Manifest:
    """Decide what is linked, for the layers of these contents."""
    return Manifest(
        layers=tuple(layer.digest for layer in layers),
        interpreter=interpreter_layer.digest,
        executable=interpreter.executable,
        library_path=interpreter.library_path,
        python=interpreter.version,
        tree=dict(_linked(_merged(contents), _real(layers, interpreter.version))),
    )


def _merged(contents: Sequence[Content]) -> Tree:
    """All paths of all layers, down to files; the first layer that has a path wins."""
    tree: Tree = {}
    folders: dict[str, Tree] = {"": tree}

    def folder(path: str) -> Tree:
        known = folders.get(path)
        if known is None:
            parent, _, name = path.rpartition("/")
            known = folders[path] = {}
            folder(parent)[name] = known
        return known

    for number, what in enumerate(contents):
        code = what.bytecode
        for entry in what.entries:
            parent, _, name = entry.path.rpartition("/")
            folder(parent).setdefault(name, number)
            compiled = compiled_path(entry.path, code.tag) if code and entry.source else None
            if compiled is not None:
                parent, _, name = compiled.rpartition("/")
                folder(parent).setdefault(name, number)
    return tree


def _real(layers: Sequence[Layer], version: str) -> set[str]:
    """The directories that must not be links: those with libraries, and all above them.

    And those into which the environment's own programs and modules may go.
    """
    real = {""}
    for path in ("bin", f"lib/python{version}/site-packages", *_native(layers)):
        while path not in real:
            real.add(path)
            path = path.rpartition("/")[0]
    return real


def _native(layers: Sequence[Layer]) -> Iterator[str]:
    for layer in layers:
        yield from layer.native


def _linked(tree: Tree, real: set[str], path: str = "") -> Tree:
    """The same tree, with one number for each directory that can be one link."""
    linked: Tree = {}
    for name, below in tree.items():
        here = f"{path}/{name}" if path else name
        if isinstance(below, int):
            linked[name] = below
            continue
        inner = _linked(below, real, here)
        numbers = set(map(_number, inner.values()))
        only = numbers.pop() if len(numbers) == 1 else None
        linked[name] = inner if only is None or here in real else only
    return linked


def _number(below: int | Tree) -> int | None:
    return below if isinstance(below, int) else None
