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

import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from ytf.errors import SettingsError
from ytf.packaging import hdfs_plugin, installation
from ytf.packaging.archives import Archive
from ytf.packaging.editable_installs import unshipped_editable_installs
from ytf.packaging.environment_layers import (
    EnvironmentFiles,
    FileGroup,
    Manifest,
    code_contents,
    distribution_files,
    layers_of_groups,
    list_environment,
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


class _KnownEnvironment(msgspec.Struct, frozen=True):
    """What the cache keeps of an environment, with the fingerprints of its layers' contents."""

    shipped: EnvironmentLayers
    fingerprints: tuple[str, ...]


class JobLayers:
    """Collects the layers of one job. A layer that is added twice is in it once."""

    def __init__(self, cache: LayerCache) -> None:
        self._cache = cache
        self._contents: dict[str, Callable[[], LayerContent]] = {}
        self._layers: dict[str, Layer] = {}
        self._interpreters: dict[tuple[str, ...], Interpreter] = {}

    @property
    def layers(self) -> list[Layer]:
        """All layers that were added."""
        return list(self._layers.values())

    def archive(self, layer: Layer) -> Archive:
        """Pack a layer, for :meth:`LayerStore.ensure`."""
        return self._cache.archive(self._contents[layer.digest]())

    def add(self, content: LayerContent) -> Layer:
        """Add the layer of some files."""
        return self._add_described(content, self._cache.describe(content))

    def _interpreter(self, found: Installation) -> Interpreter:
        """Make the interpreter of an environment; those of one Python have the same."""
        same = (found.base_executable, found.base_prefix, found.stdlib, found.library, found.magic)
        if same not in self._interpreters:
            self._interpreters[same] = make_interpreter(found)
        return self._interpreters[same]

    def _add_all(self, contents: Sequence[LayerContent]) -> list[Layer]:
        """Add the layers of several contents, which are read on all processors."""
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            described = pool.map(self._cache.describe, contents)
            return list(map(self._add_described, contents, described))

    def _add_described(self, content: LayerContent, layer: Layer) -> Layer:
        return self._add(layer, lambda: content)

    def _add(self, layer: Layer, content: Callable[[], LayerContent]) -> Layer:
        self._contents.setdefault(layer.digest, content)
        return self._layers.setdefault(layer.digest, layer)

    def find_installation(self, path: Path) -> Installation:
        """Return the Python at a path, as :func:`installation.at` does.

        That of a virtual environment is asked again only if it may have changed.
        """
        fingerprint = installation.fingerprint(path)
        known = fingerprint and self._cache.lookup(fingerprint, Installation)
        if known:
            return known
        found = installation.at(path)
        if fingerprint is not None:
            self._cache.keep(fingerprint, found)
        return found

    def add_environment(self, found: Installation) -> EnvironmentLayers:
        """Add an environment with its interpreter.

        If nothing but the sources of editable installs has changed since the last time, the
        other files are only listed.
        """
        listed, interpreter = list_environment(found), self._interpreter(found)
        fingerprint = listed.fingerprint(found, interpreter.content)
        if fingerprint is not None:
            known = self._cache.lookup(fingerprint, _KnownEnvironment)
            again = None if known is None else self._add_known(known, found, listed, interpreter)
            if again is not None:
                return again
        contents = split_environment(found, listed)
        layers = self._add_all(contents)
        manifest = make_manifest(interpreter, contents, layers)
        shipped = EnvironmentLayers(
            layers=(*layers, self.add(interpreter.content)),
            manifest=manifest,
            manifest_layer=self.add(_manifest_content(manifest)),
            notes=tuple(
                note
                for folder in found.site_folders
                for note in unshipped_editable_installs(folder)
            ),
        )
        if fingerprint is not None:
            fingerprints = tuple(content.fingerprint() for content in contents)
            self._cache.keep(fingerprint, _KnownEnvironment(shipped, fingerprints))
        return shipped

    def _add_known(
        self,
        known: _KnownEnvironment,
        found: Installation,
        listed: EnvironmentFiles,
        interpreter: Interpreter,
    ) -> EnvironmentLayers | None:
        """Add an environment of which only the sources of editable installs may have changed.

        The other files are split only if one of them must be packed. None if the manifest may
        be another one: a source was or became machine code.
        """
        code = [self.add(content) for content in code_contents(found, listed)]
        *others, base = known.shipped.layers
        first = len(others) - len(code)
        packages, before = others[:first], others[first:]
        if [layer.native for layer in before] != [layer.native for layer in code]:
            return None

        @functools.cache
        def contents() -> list[LayerContent]:
            return split_environment(found, listed)

        def content_of(number: int) -> LayerContent:
            return contents()[number]

        for number, layer in enumerate(packages):
            self._add(layer, functools.partial(content_of, number))
        self._add(base, lambda: interpreter.content)
        shipped = msgspec.structs.replace(known.shipped, layers=(*packages, *code, base))
        self._add(shipped.manifest_layer, lambda: _manifest_content(shipped.manifest))
        # After another change most of them are used again.
        self._cache.mark_used(known.fingerprints)
        return shipped

    def add_hdfs_plugin(self, folder: str) -> Layer:
        """Add TensorFlow's plugin for ``hdfs://``, which is in a directory of this machine."""
        entries = walk(folder, hdfs_plugin.FOLDER)
        return self.add(layer_content(LayerKind.DISTRIBUTION, hdfs_plugin.DISTRIBUTION, entries))

    def add_runtime(self, found: Installation, *, with_interpreter: bool = True) -> RuntimeLayers:
        """Add ytf's runtime; with ``--python`` it has no interpreter."""
        runtime = make_runtime(found, self._interpreter(found) if with_interpreter else None)
        interpreter = runtime.interpreter
        return RuntimeLayers(
            interpreter=None if interpreter is None else self.add(interpreter.content),
            code=self.add(runtime.code),
            libraries=tuple(self.add(content) for content in runtime.libraries),
            runtime=runtime,
        )


def _manifest_content(manifest: Manifest) -> LayerContent:
    file = LayerEntry(path=MANIFEST_FILE, data=manifest.encode())
    return layer_content(LayerKind.MANIFEST, "manifest", [file])


def make_runtime(found: Installation, interpreter: Interpreter | None) -> Runtime:
    """Make the runtime of the ytf that runs this process, from its installation.

    Without an interpreter it runs on the node's Python.
    Raises ``SettingsError`` if something that ytf needs is not installed.
    """
    groups = []
    for folder, name in _required_distributions(found):
        entries = distribution_files(found, folder, name)
        groups.append(FileGroup(name.removesuffix(".dist-info"), tuple(entries)))
    return Runtime(
        interpreter=interpreter,
        code=layer_content(LayerKind.DISTRIBUTION, "ytf", _ytf_files(found), found.bytecode),
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
