"""What a job sends along: the layers of its environment and of ytf's runtime.

The one door for clients: make a :class:`Shipment`, declare its layers to the
store (``store.use``), and have them there (``store.ensure``).
"""

from __future__ import annotations

import msgspec

from ytf.packaging.archives import Archive
from ytf.packaging.cache import LayerCache
from ytf.packaging.installation import Installation
from ytf.packaging.interpreter import interpreter
from ytf.packaging.layers import Content, Entry, Layer, LayerKind, content
from ytf.packaging.linking import Manifest, manifest
from ytf.packaging.runtime import Runtime, runtime
from ytf.packaging.split import split

MANIFEST = "environment.json"


class ShippedEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment of the user's command: a node puts it together by the manifest."""

    layers: tuple[Layer, ...]
    """All of them but the manifest's, the interpreter's last."""
    manifest: Manifest
    manifest_layer: Layer
    """With the manifest as the file :data:`MANIFEST`."""


class ShippedRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """What ytf's own processes run on; see :mod:`ytf.packaging.launching`."""

    interpreter: Layer | None
    code: Layer
    libraries: tuple[Layer, ...]
    made_of: Runtime

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All of them."""
        first = () if self.interpreter is None else (self.interpreter,)
        return (*first, self.code, *self.libraries)

    @property
    def starter_layers(self) -> tuple[Layer, ...]:
        """Those a starter needs, which uses no libraries: each costs its node some work."""
        return (self.code,) if self.interpreter is None else (self.interpreter, self.code)


class Shipment:
    """Collects what is to travel. A layer that two things share is in it once."""

    def __init__(self, cache: LayerCache) -> None:
        self._cache = cache
        self._contents: dict[str, Content] = {}
        self._layers: dict[str, Layer] = {}

    @property
    def layers(self) -> list[Layer]:
        """Everything that was added."""
        return list(self._layers.values())

    def archive(self, layer: Layer) -> Archive:
        """The packed layer; what :meth:`LayerStore.ensure` asks for."""
        return self._cache.archive(self._contents[layer.digest])

    def add(self, what: Content) -> Layer:
        """Add the layer of some files."""
        layer = self._cache.describe(what)
        self._contents.setdefault(layer.digest, what)
        return self._layers.setdefault(layer.digest, layer)

    def add_environment(self, found: Installation) -> ShippedEnvironment:
        """Add an environment with its interpreter."""
        contents, base = split(found), interpreter(found)
        layers = [self.add(what) for what in contents]
        base_layer = self.add(base.content)
        plan = manifest(base, base_layer, contents, layers)
        file = Entry(path=MANIFEST, data=plan.encode())
        return ShippedEnvironment(
            layers=(*layers, base_layer),
            manifest=plan,
            manifest_layer=self.add(content(LayerKind.MANIFEST, "manifest", [file])),
        )

    def add_runtime(self, found: Installation, *, with_interpreter: bool = True) -> ShippedRuntime:
        """Add ytf itself and what it runs on; without an interpreter for ``--python``."""
        made_of = runtime(found, with_interpreter=with_interpreter)
        base = made_of.interpreter
        return ShippedRuntime(
            interpreter=None if base is None else self.add(base.content),
            code=self.add(made_of.code),
            libraries=tuple(self.add(what) for what in made_of.libraries),
            made_of=made_of,
        )
