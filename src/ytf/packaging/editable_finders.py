"""Reads which files the import hook of an editable install gives, without running it.

An installer that does not name a directory in a ``.pth`` file writes a module there that
finds the sources when they are imported. Its arguments are constants, which are read from
its syntax tree. The hooks of these build backends are known: setuptools, those that use
``editables`` (hatch with ``dev-mode-exact``, pdm), scikit-build-core, meson-python.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

from ytf.decoding import convert, decode_json

_MESON_PLAN = os.path.join("meson-info", "intro-install_plan.json")
_MESON_PACKAGES = ("{py_platlib}", "{py_purelib}")


class MappedSource(msgspec.Struct, frozen=True):
    """A file or directory of the sources, and its path relative to the directory of packages."""

    path: str
    source: str
    left_out: frozenset[str] = frozenset()
    """Files and directories below the source that are not installed."""


class _MesonInstall(msgspec.Struct, frozen=True):
    """One line of Meson's plan of an installation."""

    destination: str
    exclude_files: tuple[str, ...] = ()
    exclude_dirs: tuple[str, ...] = ()


_MesonPlan = dict[str, dict[str, _MesonInstall]]


def mapped_sources(finder: str) -> list[MappedSource]:
    """Return what the module at this path maps; [] if it is none of the known hooks."""
    try:
        with open(finder, encoding="utf-8") as file:
            module = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return []
    found = [*_setuptools(module), *_calls(module)]
    return [each for each in found if os.path.exists(each.source)]


def _setuptools(module: ast.Module) -> Iterator[MappedSource]:
    """``MAPPING = {module: its file without a suffix, or its directory}``."""
    for statement in module.body:
        if isinstance(statement, ast.Assign):
            names, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            names, value = [statement.target], statement.value
        else:
            continue
        if any(isinstance(name, ast.Name) and name.id == "MAPPING" for name in names):
            for name, place in sorted(_strings(value).items()):
                path = name.replace(".", "/")
                if os.path.isdir(place):
                    yield MappedSource(path, place)
                else:
                    yield MappedSource(f"{path}.py", f"{place}.py")


def _calls(module: ast.Module) -> Iterator[MappedSource]:
    """The calls with which the other hooks install themselves."""
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        constants = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        texts = [value for value in constants if isinstance(value, str)]
        if name == "map_module" and len(texts) == 2:
            yield from _module_files({texts[0]: texts[1]})
        elif name == "install" and node.args and isinstance(node.args[0], ast.Dict):
            yield from _module_files(_strings(node.args[0]))
        elif name in ("install", "MesonpyMetaFinder"):
            for text in texts:
                yield from _meson(os.path.join(text, _MESON_PLAN))


def _module_files(modules: dict[str, str]) -> Iterator[MappedSource]:
    """Modules by their files; a package is its directory, with the data in it."""
    for name, source in sorted(modules.items()):
        path = name.replace(".", "/")
        if os.path.basename(source).startswith("__init__."):
            yield MappedSource(path, os.path.dirname(source))
        else:
            # All suffixes: those of an extension module name the Python that it is for.
            suffix = "." + os.path.basename(source).partition(".")[2]
            yield MappedSource(path + suffix, source)


def _meson(plan: str) -> Iterator[MappedSource]:
    try:
        with open(plan, "rb") as file:
            sections = decode_json(file.read(), _MesonPlan)
    except (OSError, msgspec.DecodeError):
        return
    for section in sections.values():
        for source, install in section.items():
            root, *parts = PurePosixPath(install.destination).parts
            if root in _MESON_PACKAGES and parts:
                left_out = {*install.exclude_files, *install.exclude_dirs}
                yield MappedSource(
                    "/".join(parts),
                    source,
                    frozenset(os.path.normpath(os.path.join(source, name)) for name in left_out),
                )


def _strings(value: ast.expr) -> dict[str, str]:
    try:
        return convert(ast.literal_eval(value), dict[str, str])
    except (ValueError, msgspec.ValidationError):
        return {}
