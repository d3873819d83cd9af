"""Collects the layers of a job: those of its environments and of ytf's runtime.

A submission makes a :class:`JobLayers`, declares its layers to the store
(``LayerStore.declare_use``) and uploads those that are missing
(``LayerStore.ensure``).

The runtime is an interpreter, ytf itself, and the libraries it needs. ytf's
processes in containers run on it. It is never on the PATH of the user's
program. It is not assembled on a node: the directories of its layers are on
``sys.path``, one after the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ytf.errors import SettingsError
from ytf.packaging import hdfs_plugin
from ytf.packaging.archives import Archive
from ytf.packaging.editable_installs import unshipped_editable_installs
from ytf.packaging.environment_layers import (
    FileGroup,
    Manifest,
    distribution_files,
    layers_of_groups,
    make_manifest,
    split_environment,
)
from ytf.packaging.installation import Installation
from ytf.packaging.interpreter_layer import Interpreter, make_interpreter
from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layers import Layer, LayerContent, LayerEntry, LayerKind, layer_content, walk

MANIFEST_FILE = "environment.json"

# Used for tables on terminals, never in a master or starter.
_CLIENT_ONLY = {"rich"}
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class EnvironmentLayers(msgspec.Struct, frozen=True, kw_only=True):
    """The layers of an environment; a node assembles it by the manifest."""

    layers: tuple[Layer, ...]
    """All layers but that of the manifest; the interpreter's is the last one."""
    manifest: Manifest
    manifest_layer: Layer
    """The layer with the manifest as the file :data:`MANIFEST_FILE`."""
    notes: tuple[str, ...] = ()
    """What of the environment is not in the layers, a sentence each."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the runtime's layers. ``interpreter`` is None if the nodes' own is used."""

    interpreter: Interpreter | None
    code: LayerContent
    """ytf itself, which changes most often."""
    libraries: tuple[LayerContent, ...]
    version: str
    packages: str
    """The directory of modules in each layer but the interpreter's, relative to its root."""

    @property
    def contents(self) -> tuple[LayerContent, ...]:
        """The contents of all layers."""
        own = (self.code, *self.libraries)
        return own if self.interpreter is None else (self.interpreter.content, *own)


class RuntimeLayers(msgspec.Struct, frozen=True, kw_only=True):
    """The layers of ytf's runtime; see :mod:`ytf.packaging.launch_scripts`."""

    interpreter: Layer | None
    code: Layer
    libraries: tuple[Layer, ...]
    runtime: Runtime

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers."""
        first = () if self.interpreter is None else (self.interpreter,)
        return (*first, self.code, *self.libraries)


class JobLayers:
    """Collects the layers of one job. A layer that is added twice is in it once."""

    def __init__(self, cache: LayerCache) -> None:
        self._cache = cache
        self._contents: dict[str, LayerContent] = {}
        self._layers: dict[str, Layer] = {}

    @property
    def layers(self) -> list[Layer]:
        """All layers that were added."""
        return list(self._layers.values())

    def archive(self, layer: Layer) -> Archive:
        """Pack a layer, for :meth:`LayerStore.ensure`."""
        return self._cache.archive(self._contents[layer.digest])

    def add(self, content: LayerContent) -> Layer:
        """Add the layer of some files."""
        layer = self._cache.describe(content)
        self._contents.setdefault(layer.digest, content)
        return self._layers.setdefault(layer.digest, layer)

    def add_environment(self, found: Installation) -> EnvironmentLayers:
        """Add an environment with its interpreter."""
        contents, interpreter = split_environment(found), make_interpreter(found)
        layers = [self.add(content) for content in contents]
        interpreter_layer = self.add(interpreter.content)
        manifest = make_manifest(interpreter, interpreter_layer, contents, layers)
        file = LayerEntry(path=MANIFEST_FILE, data=manifest.encode())
        return EnvironmentLayers(
            layers=(*layers, interpreter_layer),
            manifest=manifest,
            manifest_layer=self.add(layer_content(LayerKind.MANIFEST, "manifest", [file])),
            notes=tuple(
                note
                for folder in found.site_folders
                for note in unshipped_editable_installs(folder)
            ),
        )

    def add_hdfs_plugin(self, folder: str) -> Layer:
        """Add TensorFlow's plugin for ``hdfs://``, which is in a directory of this machine."""
        entries = walk(folder, hdfs_plugin.FOLDER)
        return self.add(layer_content(LayerKind.DISTRIBUTION, hdfs_plugin.DISTRIBUTION, entries))

    def add_runtime(self, found: Installation, *, with_interpreter: bool = True) -> RuntimeLayers:
        """Add ytf's runtime; with ``--python`` it has no interpreter."""
        runtime = make_runtime(found, with_interpreter=with_interpreter)
        interpreter = runtime.interpreter
        return RuntimeLayers(
            interpreter=None if interpreter is None else self.add(interpreter.content),
            code=self.add(runtime.code),
            libraries=tuple(self.add(content) for content in runtime.libraries),
            runtime=runtime,
        )


def make_runtime(found: Installation, *, with_interpreter: bool = True) -> Runtime:
    """Make the runtime of the ytf that runs this process, from its installation.

    Raises ``SettingsError`` if something that ytf needs is not installed.
    """
    groups = []
    for folder, name in _required_distributions(found):
        entries = distribution_files(found, folder, name)
        groups.append(FileGroup(name.removesuffix(".dist-info"), tuple(entries)))
    return Runtime(
        interpreter=make_interpreter(found) if with_interpreter else None,
        code=layer_content(LayerKind.CODE, "ytf", _ytf_files(found), found.bytecode),
        libraries=tuple(layers_of_groups(groups, found.bytecode)),
        version=found.version,
        packages=found.packages,
    )


def _ytf_files(found: Installation) -> list[LayerEntry]:
    # From where it was imported: an installation or a checkout.
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return walk(folder, f"{found.packages}/ytf")


def _required_distributions(found: Installation) -> list[tuple[str, str]]:
    """Return folder and name of each distribution that ytf requires, directly or indirectly.

    The metadata are read without ``importlib.metadata``, whose import takes as
    long as everything else here.
    """
    installed: dict[str, tuple[str, str]] = {}
    for folder in found.site_folders:
        for name in os.listdir(folder):
            if name.endswith(".dist-info"):
                installed.setdefault(_normalized(name.partition("-")[0]), (folder, name))
    if "ytf" not in installed:
        raise SettingsError(
            f"ytf is not installed in {found.prefix}, so its requirements are not known",
            hint="install it: pip install ytf (or pip install -e . in a checkout)",
        )
    chosen: dict[str, tuple[str, str]] = {}
    waiting = ["ytf"]
    while waiting:
        for wanted, is_conditional in _requires(*installed[waiting.pop()]):
            if wanted in chosen or wanted in _CLIENT_ONLY:
                continue
            if wanted in installed:
                chosen[wanted] = installed[wanted]
                waiting.append(wanted)
            elif not is_conditional:
                raise SettingsError(
                    f"ytf needs {wanted}, which is not installed in {found.prefix}",
                    hint=f"pip install {wanted}",
                )
    return [chosen[name] for name in sorted(chosen)]


def _requires(folder: str, name: str) -> Iterator[tuple[str, bool]]:
    """Yield each requirement of a distribution, and whether it has a condition.

    Requirements of extras are left out. Other conditions are not evaluated: a
    conditional requirement is taken if it is installed.
    """
    text = (Path(folder) / name / "METADATA").read_text(encoding="utf-8", errors="replace")
    for line in text.partition("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        found = _REQUIREMENT.match(value.strip()) if key == "Requires-Dist" else None
        _, is_conditional, condition = value.partition(";")
        if found and "extra" not in condition:
            yield _normalized(found[0]), bool(is_conditional)


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
